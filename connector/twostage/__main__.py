"""The command line: ``compile-deletes``, ``clean``, ``index …``, ``advise``, ``advise collect``, ``doctor`` and ``--version``.

Takes a table and the reader's options as arguments; reports to standard error (the doctor and ``advise``: to standard output), and
exits with 0, or with 1 and the error's text.
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
from typing import TYPE_CHECKING

import twostage
from twostage.advisor import collect_command, command_line
from twostage.errors import OptionError, TwoStageError
from twostage.maintenance.index_arguments import add_parsers
from twostage.metrics import Metrics
from twostage.options import OPTION_NAMES, parse_options

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rich.console import Console
    from rich.progress import Progress

    from twostage.advisor.collect import Run as CollectRun
    from twostage.advisor.column_sample import ColumnSample, SampleWork
    from twostage.maintenance.index_files import IndexWork
    from twostage.options import ReadOptions

MIN_FILES_FOR_SPARK_JOB = 200
"""With at least as many data files, deletes are compiled by a Spark job if PySpark is installed, unless
``--[no-]spark`` is given."""
_READ_ONLY_OPTIONS = frozenset({"path", "columns", "filter", "metadata-table", "split-size"})


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; return the exit code."""
    parsed = _parser().parse_args(_words(sys.argv[1:] if arguments is None else arguments))
    if parsed.command == "doctor":
        return _doctor(parsed)
    from rich.console import Console  # noqa: PLC0415 - keeps importing this module cheap

    console = Console(stderr=True, highlight=False)
    try:
        confs = dict(_pairs(parsed.conf))
        if parsed.command == "advise":
            return _advise(parsed, confs, console)
        options = parse_options(_raw_options(parsed))
        if parsed.command == "index":
            return _index(parsed, options, confs, console)
        if parsed.command == collect_command.COLLECT:
            collect_command.run_collect(
                parsed, options, confs, console, lambda progress: _sampling(progress, as_job=parsed.spark)
            )
        elif parsed.command == "clean":
            _clean(options, confs, console)
        else:
            _compile(options, confs, parsed.spark, console)
    except TwoStageError as error:
        console.print(str(error), markup=False, soft_wrap=True)
        return 1
    return 0


def _doctor(parsed: argparse.Namespace) -> int:
    from twostage.doctor import examine  # noqa: PLC0415 - as above

    try:
        options = parse_options(_raw_options(parsed))
        examination = examine.Examination(
            parsed.catalogs, dict(_pairs(parsed.conf)), options.settings, parsed.spark
        )
    except TwoStageError as error:
        print(error, file=sys.stderr)  # noqa: T201 - Rich may be the package that is missing
        return 1
    found = list(examine.findings(examination))
    examine.print_table(found)
    return int(any(one.state == "failed" for one in found))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m twostage")
    parser.add_argument("--version", action="version", version=f"twostage {twostage.__version__}")
    commands = parser.add_subparsers(dest="command", required=True)
    compiling = commands.add_parser(
        "compile-deletes", help="compute which rows of each data file equality deletes remove, and store them"
    )
    compiling.add_argument(
        "--spark",
        action=argparse.BooleanOptionalAction,
        help=f"run as a Spark job; default: from {MIN_FILES_FOR_SPARK_JOB} files on",
    )
    cleaning = commands.add_parser(
        "clean", help="remove compiled deletes and shared keys that no snapshot of the table needs"
    )
    cleaning.set_defaults(spark=False)
    examining = commands.add_parser(
        "doctor",
        help="check the installation, the caches and the catalogs; say what is wrong and how to fix it",
    )
    examining.add_argument(
        "catalogs", nargs="*", metavar="CATALOG", help="catalogs to check; default: all that are configured"
    )
    examining.add_argument(
        "--spark", action="store_true", help="also start a local session, and read a table in it"
    )
    advising = command_line.add_parser(commands)
    collecting = collect_command.add_collect_parser(commands)
    indexing = add_parsers(commands)
    for command in (compiling, cleaning, collecting, *indexing):
        command.add_argument("table", help="a table's folder, a metadata file, or catalog.namespace.table")
    for command in (compiling, cleaning):
        command.add_argument("--compiled-dir", metavar="LOCATION", help="the same as --deletes.compiled-dir")
    for command in (compiling, cleaning, advising, collecting, examining, *indexing):
        command.add_argument(
            "--option",
            action="append",
            default=[],
            metavar="NAME=VALUE",
            help="any option of the reader, such as catalog.<property>=…",
        )
        command.add_argument(
            "--conf",
            action="append",
            default=[],
            metavar="NAME=VALUE",
            help="spark.sql.catalog.…, for catalogs",
        )
        for name in OPTION_NAMES:
            if name not in _READ_ONLY_OPTIONS:
                command.add_argument(
                    f"--{name}", dest=f"option {name}", metavar="VALUE", help=argparse.SUPPRESS
                )
    return parser


def _words(arguments: Sequence[str]) -> list[str]:
    """Return the arguments with ``--catalog.uri=…`` as ``--option catalog.uri=…``: properties have any name.

    The words ``advise collect`` are joined into one, the name by which the parser knows that command.
    """
    is_collect = " ".join(arguments[:2]) == collect_command.COLLECT
    found: list[str] = [collect_command.COLLECT] if is_collect else []
    for argument in arguments[2 if is_collect else 0 :]:
        is_property = argument.startswith("--catalog.") and "=" in argument
        found += ["--option", argument.removeprefix("--")] if is_property else [argument]
    return found


def _raw_options(parsed: argparse.Namespace) -> dict[str, str]:
    raw = {"path": parsed.table} if isinstance(getattr(parsed, "table", None), str) else {}
    for key, value in vars(parsed).items():
        if key.startswith("option ") and value is not None:
            raw[key.removeprefix("option ")] = value
    raw.update(_pairs(parsed.option))
    if getattr(parsed, "compiled_dir", None) is not None:
        raw["deletes.compiled-dir"] = parsed.compiled_dir
    return raw


def _pairs(texts: Iterable[str]) -> Iterable[tuple[str, str]]:
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals:
            raise OptionError("BAD_OPTION", f"Not of the form NAME=VALUE: {name}", stage="options")
        yield name, value


def _compile(options: ReadOptions, confs: dict[str, str], spark: bool | None, console: Console) -> None:  # noqa: FBT001
    from rich.progress import Progress  # noqa: PLC0415 - as above

    from twostage.maintenance import compile_deletes  # noqa: PLC0415

    items = compile_deletes.plan_compiling(options, confs)
    run: compile_deletes.Run = compile_deletes.compile_files
    has_spark = importlib.util.find_spec("pyspark") is not None
    total = Metrics()
    with Progress(console=console) as progress:
        bar = progress.add_task("compiling deletes", total=len(items))
        if spark or (spark is None and has_spark and len(items) >= MIN_FILES_FOR_SPARK_JOB):
            _check_spark()
            from twostage.spark.session import run_job_by_task  # noqa: PLC0415

            def run(items: Sequence[compile_deletes.Item]) -> Iterable[Metrics]:
                return run_job_by_task(
                    compile_deletes.compile_files,
                    items,
                    lambda done: progress.update(bar, completed=done),
                    "twostage: compiling equality deletes",
                )

        for metrics in run(items):
            total.merge(metrics)
            progress.update(bar, completed=total.counters["delete_compiled.files"])
    counted = total.counters
    console.print(
        f"{counted['delete_compiled.files']:,} data files with equality deletes: "
        f"{counted['delete_compiled.made']:,} compiled, "
        f"{counted['delete_compiled.files'] - counted['delete_compiled.made']:,} already compiled; "
        f"{counted['delete_compiled.rows']:,} rows deleted",
        soft_wrap=True,
    )
    for sentence in total.choices:
        console.print(sentence, markup=False, soft_wrap=True)


def _advise(parsed: argparse.Namespace, confs: dict[str, str], console: Console) -> int:
    raw = _raw_options(parsed)

    def options_of(path: str) -> ReadOptions:
        return parse_options({**raw, "path": path})

    def build(table: str, column: str, kinds: str) -> None:
        """Do what ``index create`` does."""
        from twostage.advisor.layout import identifier  # noqa: PLC0415 - as above

        created = argparse.Namespace(verb="create", names=identifier(column), kind=kinds, spark=parsed.spark)
        _index(created, options_of(parsed.path or table), confs, console)

    def sample(work: Sequence[SampleWork]) -> Iterable[dict[int, ColumnSample]]:
        from rich.progress import Progress  # noqa: PLC0415 - as above

        with Progress(console=console) as progress:
            yield from _sampling(progress, as_job=True)(work)

    if parsed.spark:
        _check_spark()
    return command_line.run(parsed, options_of, confs, console, build, sample if parsed.spark else None)


def _index(parsed: argparse.Namespace, options: ReadOptions, confs: dict[str, str], console: Console) -> int:
    from rich.progress import Progress  # noqa: PLC0415 - as above

    from twostage.advisor.kept_metadata import counted_values  # noqa: PLC0415 - as above
    from twostage.maintenance.index_command import run_command  # noqa: PLC0415
    from twostage.maintenance.index_files import index_files  # noqa: PLC0415

    with Progress(console=console) as progress:

        def run(work: Sequence[IndexWork]) -> Iterable[Metrics]:
            bar = progress.add_task("indexing", total=len(work))
            if getattr(parsed, "spark", False):
                _check_spark()
                from twostage.spark.session import run_job  # noqa: PLC0415

                yield from run_job(
                    index_files,
                    work,
                    lambda done: progress.update(bar, completed=done),
                    "twostage: building indexes",
                )
            else:
                for one in work:
                    yield index_files(one)
                    progress.advance(bar)
            progress.update(bar, completed=len(work))

        def uses(name: str) -> dict[str, str]:
            return _uses(parsed, name, options, confs)

        return run_command(parsed, options, confs, console, progress, run, uses, counted_values)


def _sampling(progress: Progress, *, as_job: bool) -> CollectRun:
    """Return a function that samples data files, here or in a Spark job."""
    from twostage.advisor.column_sample import sample_files  # noqa: PLC0415 - as above

    def run(work: Sequence[SampleWork]) -> Iterable[dict[int, ColumnSample]]:
        bar = progress.add_task("reading a sample", total=len(work))
        if as_job:
            _check_spark()
            from twostage.spark.session import run_job  # noqa: PLC0415

            yield from run_job(
                sample_files,
                work,
                lambda done: progress.update(bar, completed=done),
                "twostage: collecting column metadata",
            )
        else:
            for one in work:
                yield sample_files(one)
                progress.advance(bar)
        progress.update(bar, completed=len(work))

    return run


def _uses(
    parsed: argparse.Namespace, table: str, options: ReadOptions, confs: dict[str, str]
) -> dict[str, str]:
    """Return, by column, how often indexes were used according to the logs of ``--log``."""
    if not getattr(parsed, "log", None):
        return {}
    from twostage.advisor.index_uses import index_uses  # noqa: PLC0415 - as above
    from twostage.advisor.log_place import log_access, query_logs  # noqa: PLC0415

    found = index_uses(query_logs(parsed.log, log_access(parsed.log, options, confs)), parsed.name or table)
    return {
        column: f"used by {found.used[column]:,} of {count:,} logged scans that ask for {column}"
        for column, count in found.filtered.items()
    }


def _check_spark() -> None:
    if importlib.util.find_spec("pyspark") is None:
        raise OptionError(
            "NO_SPARK",
            f"PySpark is not installed in this Python: {sys.executable}",
            stage="options",
            hint="Leave --spark out.",
        )


def _clean(options: ReadOptions, confs: dict[str, str], console: Console) -> None:
    from rich.progress import Progress  # noqa: PLC0415 - as above

    from twostage.maintenance import compile_deletes  # noqa: PLC0415

    with Progress(console=console) as progress:
        bar = progress.add_task("looking at snapshots", total=None)
        cleaned = compile_deletes.clean(
            options, confs, lambda done, of: progress.update(bar, completed=done, total=of)
        )
    console.print(f"{cleaned.removed:,} files removed, {cleaned.kept:,} kept")


if __name__ == "__main__":
    sys.exit(main())
