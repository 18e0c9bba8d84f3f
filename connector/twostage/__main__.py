"""The command line: ``python -m twostage`` and ``compile-deletes TABLE``, ``clean TABLE``, ``doctor`` or ``--version``.

Takes a table and the reader's options as arguments; writes what it did to standard error, and returns 0, or 1
with the error's text. The doctor's table goes to standard output.
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
from typing import TYPE_CHECKING

import twostage
from twostage.errors import OptionError, TwoStageError
from twostage.metrics import Metrics
from twostage.options import OPTION_NAMES, parse_options

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rich.console import Console

    from twostage.options import ReadOptions

MANY_FILES = 200
"""So many data files are compiled by a Spark job where PySpark is installed, unless told otherwise."""
_NOT_HERE = frozenset({"path", "columns", "filter", "metadata-table", "split-size"})


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; return the exit code."""
    parsed = _parser().parse_args(arguments)
    if parsed.command == "doctor":
        return _doctor(parsed)
    from rich.console import Console  # noqa: PLC0415 - importing this module costs nothing

    console = Console(stderr=True, highlight=False)
    try:
        options = parse_options(_raw_options(parsed))
        confs = dict(_pairs(parsed.conf))
        if parsed.command == "clean":
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
        request = examine.Request(parsed.catalogs, dict(_pairs(parsed.conf)), options.settings, parsed.spark)
    except TwoStageError as error:
        print(error, file=sys.stderr)  # noqa: T201 - Rich may be what is missing
        return 1
    found = list(examine.findings(request))
    examine.print_table(found)
    return int(any(one.state == "failed" for one in found))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m twostage")
    parser.add_argument("--version", action="version", version=f"twostage {twostage.__version__}")
    commands = parser.add_subparsers(dest="command", required=True)
    compiling = commands.add_parser(
        "compile-deletes", help="find out which rows of each data file equality deletes remove, and keep that"
    )
    compiling.add_argument(
        "--spark",
        action=argparse.BooleanOptionalAction,
        help=f"as a Spark job; default: from {MANY_FILES} files",
    )
    cleaning = commands.add_parser(
        "clean", help="remove compiled deletes and shared keys that no snapshot of the table needs"
    )
    cleaning.set_defaults(spark=False)
    examining = commands.add_parser(
        "doctor",
        help="look at the installation, the caches and the catalogs; say what is wrong and how to mend it",
    )
    examining.add_argument("catalogs", nargs="*", metavar="CATALOG", help="default: all that are configured")
    examining.add_argument(
        "--spark", action="store_true", help="also start a local session, and read a table in it"
    )
    for command in (compiling, cleaning):
        command.add_argument("table", help="a table's folder, a metadata file, or catalog.namespace.table")
        command.add_argument("--compiled-dir", metavar="LOCATION", help="the same as --deletes.compiled-dir")
    for command in (compiling, cleaning, examining):
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
            if name not in _NOT_HERE:
                command.add_argument(
                    f"--{name}", dest=f"option {name}", metavar="VALUE", help=argparse.SUPPRESS
                )
    return parser


def _raw_options(parsed: argparse.Namespace) -> dict[str, str]:
    raw = {"path": parsed.table} if "table" in parsed else {}
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
    run: compile_deletes.Run = compile_deletes.compile_here
    has_spark = importlib.util.find_spec("pyspark") is not None
    total = Metrics()
    with Progress(console=console) as progress:
        bar = progress.add_task("compiling deletes", total=len(items))
        if spark or (spark is None and has_spark and len(items) >= MANY_FILES):
            if not has_spark:
                raise OptionError(
                    "NO_SPARK",
                    f"PySpark is not installed in this Python: {sys.executable}",
                    stage="options",
                    hint="Leave --spark out.",
                )
            from twostage.spark.session import run_job  # noqa: PLC0415

            def run(items: Sequence[compile_deletes.Item]) -> Iterable[Metrics]:
                return run_job(
                    compile_deletes.compile_file, items, lambda done: progress.update(bar, completed=done)
                )

        for metrics in run(items):
            total.merge(metrics)
            progress.update(bar, completed=total.counters["delete_compiled.files"])
    counted = total.counters
    console.print(
        f"{counted['delete_compiled.files']:,} data files with equality deletes: "
        f"{counted['delete_compiled.made']:,} compiled, "
        f"{counted['delete_compiled.files'] - counted['delete_compiled.made']:,} were already; "
        f"{counted['delete_compiled.rows']:,} rows deleted"
    )
    for sentence in total.choices:
        console.print(sentence, markup=False)


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
