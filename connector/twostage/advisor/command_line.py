"""The command ``advise``: what logs recommend, and how much their queries scan, as tables or JSON.

Takes the command's arguments; prints to standard output, and what could not be read to standard error. The rule: without
``--apply`` it changes nothing; a recommendation names the command that would carry it out.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from twostage import option_values
from twostage.advisor.collect_command import write_file
from twostage.advisor.print_what_if import print_what_if
from twostage.columns import split_name
from twostage.errors import OptionError, TwoStageError, mask

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from rich.console import Console

    from twostage.advisor.advise import Advice
    from twostage.advisor.apply_command import Build
    from twostage.advisor.collect import Run
    from twostage.advisor.column_metadata import TableColumns
    from twostage.advisor.recommendation import Recommendation
    from twostage.options import ReadOptions

_NOT_FOUND_CODES = ("TABLE_NOT_FOUND", "NAMESPACE_NOT_FOUND")
_SHOWN_QUANTILES = (0.5, 0.9, 0.99, 1.0)
_SUBCOMMANDS = ("recommend", "report", "check")


def add_parser(commands: Any) -> argparse.ArgumentParser:
    """Add ``advise`` to the commands, and return its parser."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "advise", help="say what would make the queries of a log cheaper: indexes, a sort order, or nothing"
    )
    parser.add_argument(
        "what",
        nargs="?",
        type=_subcommand,
        metavar=f"{{{','.join(_SUBCOMMANDS)}}}",
        default="recommend",
        help="recommend (default); report: quantiles of entries scanned, bytes and seconds by table; check: replay the heaviest "
        "scans without and with indexes, and compare with what was predicted",
    )
    parser.add_argument(
        "--log",
        action="append",
        required=True,
        metavar="PLACE",
        help="a query log (spark.twostage.query-log) or Spark event logs; may be given several times",
    )
    parser.add_argument(
        "--metadata",
        action="append",
        default=[],
        metavar="FILE",
        help="JSON about a table's columns, as written by advise collect",
    )
    parser.add_argument(
        "--table", action="append", metavar="NAME", help="this table only; may be given several times"
    )
    parser.add_argument(
        "--strategy",
        choices=("parser", "score", "frequency"),
        default="parser",
        help="parser (default): emulate each scan; score: rank columns by how selective each filter is; frequency: count how "
        "often a column is filtered on",
    )
    parser.add_argument(
        "--selectivity",
        type=float,
        default=2.0,
        metavar="S",
        help="a column counts where its filter leaves less than 1/S of the rows (2)",
    )
    parser.add_argument(
        "--entries",
        type=int,
        default=0,
        metavar="N",
        help="ignore scans with fewer entries in the filter",
    )
    parser.add_argument(
        "--queries", type=int, default=0, metavar="N", help="ignore tables with fewer filtered scans"
    )
    parser.add_argument(
        "--indexed",
        action="append",
        default=[],
        metavar="TABLE=COLUMN,…",
        help="columns that have an index already",
    )
    parser.add_argument("--max-columns", type=int, metavar="K", help="maximum number of indexes for a table")
    parser.add_argument(
        "--scans",
        type=int,
        default=10,
        metavar="N",
        help="how many of the heaviest queries to show with bytes before and after, and how many scans check replays (10)",
    )
    parser.add_argument(
        "--path", metavar="PLACE", help="where the one --table is, if its name in the log does not say"
    )
    parser.add_argument(
        "--apply",
        action="store_true",
        help="build the recommended indexes, after asking; print the rest as commands",
    )
    parser.add_argument(
        "--spark",
        action="store_true",
        help="build indexes, and read a sample of the table's columns, by Spark jobs",
    )
    parser.add_argument(
        "--spark-scans",
        action="store_true",
        help="check also replays scans that Spark's reader did, by twostage's reader, as with scan.native=never",
    )
    parser.add_argument("--yes", action="store_true", help="with --apply: do not ask")
    parser.add_argument(
        "--html", metavar="FILE", help="write a page with charts, too; needs the extra charts"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    return parser


def _subcommand(word: str) -> str:
    """Return the subcommand; other commands take a table there, so the error says where this one takes it."""
    if word not in _SUBCOMMANDS:
        *others, last = _SUBCOMMANDS
        raise argparse.ArgumentTypeError(
            f"{word!r} is none of {', '.join(others)} and {last}; a table is named by --table"
        )
    return word


def run(
    parsed: argparse.Namespace,
    options_of: Callable[[str], ReadOptions],
    confs: Mapping[str, str],
    progress: Console,
    build: Build,
    sample: Run | None = None,
) -> int:
    """Run the command; return the exit code.

    Args:
        parsed: The arguments.
        options_of: Returns the reader's options for a table.
        confs: Spark's, for catalogs.
        progress: Where progress is shown.
        build: Builds an index, for ``--apply``.
        sample: Reads a sample of a table's columns, see `collect`; by default one data file after another.

    Raises:
        OptionError: An argument is invalid, or a metadata file is not usable.
        NotFoundError: There is no log.
    """
    from twostage.advisor.advise import advise  # noqa: PLC0415 - only this command needs NumPy and the rest
    from twostage.advisor.log_place import log_access  # noqa: PLC0415
    from twostage.advisor.thresholds import Thresholds  # noqa: PLC0415

    thresholds = Thresholds(
        selectivity=parsed.selectivity,
        entries=parsed.entries,
        queries=parsed.queries,
        tables=None if parsed.table is None else frozenset(parsed.table),
        indexed=_indexed(parsed.indexed),
    )
    metadata = {one.table: one for one in map(_read_metadata, parsed.metadata)}
    if parsed.what == "check":
        return _check(parsed, options_of, confs, metadata, progress)
    if parsed.path is not None and len(parsed.table or ()) != 1:
        raise OptionError("BAD_OPTION", "--path says where the one --table is", stage="options")
    unopened = {}
    for name in parsed.table or ():
        try:
            metadata[name] = _looked_at(
                name, options_of(parsed.path or name), confs, metadata.get(name), sample
            )
        except TwoStageError as error:
            print(f"{name} was not checked: {mask(str(error))}", file=sys.stderr)  # noqa: T201
            if error.code in _NOT_FOUND_CODES:
                unopened[name] = "table gone"
            elif not isinstance(error, OptionError):  # which says that the table's location was not given
                unopened[name] = f"table not opened [TWOSTAGE.{error.code}]"
    place = parsed.path or (parsed.table[0] if parsed.table else "")
    advice = advise(
        parsed.log,
        metadata=metadata,
        thresholds=thresholds,
        max_columns=parsed.max_columns,
        access=log_access(parsed.log, options_of(place), confs),
        unopened=unopened,
        queries=max(0, parsed.scans),
    )
    if parsed.html is not None:
        from twostage.advisor.html_report import page  # noqa: PLC0415

        write_file(parsed.html, page(advice), "--html")
    if parsed.json:
        print(json.dumps(advice.as_dict(), indent=1))  # noqa: T201 - this is the command's output
    else:
        from rich.console import Console  # noqa: PLC0415 - JSON does not need it

        console = Console(highlight=False, soft_wrap=True)
        if parsed.what == "report":
            _print_report(advice, console)
        elif parsed.strategy != "parser":
            _print_ranks(advice, parsed.strategy, console)
        else:
            print_recommendations(advice, console)
    if advice.problems:
        print(advice.problems, file=sys.stderr)  # noqa: T201
    if parsed.apply and parsed.what == "recommend" and parsed.strategy == "parser":
        from twostage.advisor.apply_command import apply  # noqa: PLC0415
        from twostage.advisor.table_name import logged_name  # noqa: PLC0415

        given = {logged_name(name): name for name in parsed.table or ()}  # the log's name may not open it

        def build_given(table: str, column: str, kinds: str) -> None:
            build(given.get(table, table), column, kinds)

        return apply(advice.recommendations, build_given, progress, is_agreed=parsed.yes)
    return 0


def _looked_at(
    name: str,
    options: ReadOptions,
    confs: Mapping[str, str],
    known: TableColumns | None,
    sample: Run | None,
) -> TableColumns:
    """Return what is known about a table that the user named, with its current indexes."""
    from twostage.advisor.collect import collect, with_indexes  # noqa: PLC0415

    if known is not None:
        return with_indexes(known, options, confs)
    return replace(collect(options, confs, run=sample), table=name)


def _check(
    parsed: argparse.Namespace,
    options_of: Callable[[str], ReadOptions],
    confs: Mapping[str, str],
    metadata: Mapping[str, TableColumns],
    progress: Console,
) -> int:
    from rich.console import Console  # noqa: PLC0415

    from twostage.advisor.check_command import print_check, run_check  # noqa: PLC0415

    found = run_check(parsed, options_of, confs, metadata, progress)
    if parsed.json:
        print(json.dumps(found.as_dict(), indent=1))  # noqa: T201 - as above
    else:
        print_check(found, Console(highlight=False, soft_wrap=True))
    if found.problems:
        print(found.problems, file=sys.stderr)  # noqa: T201
    return 0


def _indexed(texts: list[str]) -> dict[str, frozenset[str]]:
    found: dict[str, frozenset[str]] = {}
    for text in texts:
        table, equals, columns = text.partition("=")
        try:
            listed = option_values.columns(columns) if equals else ()
        except ValueError:
            listed = ()
        if not listed:
            raise OptionError("BAD_OPTION", f"Not of the form TABLE=COLUMN,…: {text}", stage="options")
        names = frozenset(".".join(split_name(name)) for name in listed)
        found[table] = found.get(table, frozenset()) | names
    return found


def _read_metadata(path: str) -> TableColumns:
    from twostage.advisor.column_metadata import parse_metadata  # noqa: PLC0415

    try:
        return parse_metadata(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise OptionError(
            "BAD_OPTION", f"Not usable as --metadata: {error}", path=path, stage="options"
        ) from None


def print_recommendations(advice: Advice, console: Console) -> None:
    """Print what is recommended, table by table, with reasons, figures and the command that carries it out."""
    from rich.text import Text  # noqa: PLC0415

    if not advice.recommendations:
        console.print("No table in the log has enough scans for any advice.")
    predicted = {one.table: one for one in advice.what_if}
    for table, found in itertools.groupby(advice.recommendations, lambda one: one.table):
        tally = next(known for known in advice.tallies if known.table == table)
        console.print(
            Text(
                f"{table}: {tally.scans:,} scans, {tally.filtered:,} with a filter, "
                f"{tally.entries:,} entries scanned in filters",
                style="bold",
            )
        )
        for one in found:
            _print_one(one, console)
        if table in predicted:
            print_what_if(predicted[table], console)


def _print_one(one: Recommendation, console: Console) -> None:
    from rich.text import Text  # noqa: PLC0415

    console.print(Text(mask(f"  {one.title}"), style="green"))
    console.print(Text(mask(f"    {one.reason}")))
    if facts := one.facts:
        console.print(Text(f"    {'; '.join(facts)}"))
    for text in one.queries:
        console.print(Text(mask(f"    e.g. {text}")))
    if one.command:
        console.print(Text(mask(f"    {one.command}")), soft_wrap=True)


def _print_ranks(advice: Advice, strategy: str, console: Console) -> None:
    from rich.table import Table  # noqa: PLC0415

    for tally in advice.tallies:
        shown = Table("column", "scans", "entries", title=tally.table, title_justify="left", box=None)
        for place in (1, 2):
            shown.columns[place].justify = "right"
        for one in tally.scores() if strategy == "score" else tally.frequencies():
            shown.add_row(one.column, f"{one.scans:,}", f"{one.weight:,.0f}")
        console.print(shown)


def _print_report(advice: Advice, console: Console) -> None:
    from rich.table import Table  # noqa: PLC0415

    from twostage.advisor.tally import QUANTILES  # noqa: PLC0415
    from twostage.report.funnel import format_bytes  # noqa: PLC0415

    for tally in advice.tallies:
        title = f"{tally.table}: {tally.scans:,} scans, {tally.filtered:,} with a filter"
        heads = ("", *("most" if at == 1 else f"{at:.0%}" for at in _SHOWN_QUANTILES))
        shown = Table(*heads, title=title, title_justify="left", box=None)
        for column in shown.columns[1:]:
            column.justify = "right"
        found = tally.quantiles()
        for name, label in (
            ("entries_in_filter", "entries in filter"),
            ("bytes_read", "bytes read"),
            ("seconds", "seconds"),
        ):
            values = [found[name][QUANTILES.index(at)] for at in _SHOWN_QUANTILES]
            if name == "bytes_read":
                cells = [format_bytes(int(value)) for value in values]
            elif name == "seconds":
                cells = ["" if value != value else f"{value:,.2f}" for value in values]  # noqa: PLR0124 - NaN
            else:
                cells = [f"{value:,.0f}" for value in values]
            shown.add_row(label, *cells)
        console.print(shown)
        model = tally.latency()
        if model is None:
            console.print("  no latency model: too few different queries")
        elif not model.is_usable:
            console.print(
                f"  no latency model: entries explain {max(0.0, model.fit):.0%} of the time (R²), too little"
            )
        else:
            console.print(
                f"  seconds = {model.alpha:.2e} x entries in filter + {model.beta:.2e} x entries after it + "
                f"{model.constant:.2f}; R² {model.fit:.2f}"
            )
