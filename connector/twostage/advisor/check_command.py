"""``advise check``: replays a log's heaviest scans, and prints what was predicted beside what was measured.

Takes the command's arguments; returns a `Check`, and prints it as a table. The rule: a prediction that was
wrong is shown as plainly as one that was right.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from twostage.errors import OptionError, mask

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Mapping

    from rich.console import Console

    from twostage.advisor.column_metadata import TableColumns
    from twostage.advisor.replay import Check
    from twostage.options import ReadOptions


def run_check(
    parsed: argparse.Namespace,
    options_of: Callable[[str], ReadOptions],
    confs: Mapping[str, str],
    metadata: Mapping[str, TableColumns],
    console: Console,
) -> Check:
    """Replay the scans of the one table that ``--table`` names; progress goes to the console.

    Raises:
        OptionError: Not exactly one table was named; a log is not twostage's own.
        TwoStageError: The table or the log cannot be read.
    """
    from rich.progress import Progress  # noqa: PLC0415 - only commands need it

    from twostage.advisor.log_place import log_access, query_logs  # noqa: PLC0415
    from twostage.advisor.replay import check_log  # noqa: PLC0415

    if len(parsed.table or ()) != 1:
        raise OptionError("BAD_OPTION", "advise check takes one --table", stage="options")
    (name,) = parsed.table
    options = options_of(parsed.path or name)
    ours = query_logs(parsed.log, log_access(parsed.log, options, confs))
    with Progress(console=console) as progress:
        bar = progress.add_task("replaying", total=None)
        return check_log(
            ours,
            options,
            confs,
            name=name,
            metadata=metadata.get(name),
            queries=max(1, parsed.scans),
            spark_scans=parsed.spark_scans,
            step=lambda done, of: progress.update(bar, completed=done, total=of),
        )


def print_check(check: Check, console: Console) -> None:
    """Print what was replayed, and the median error."""
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    read = Table(title=f"{check.table}: bytes", title_justify="left", box=None)
    took = Table(title="seconds", title_justify="left", box=None)
    for head in ("", "without", "with", "saved", "predicted"):
        read.add_column(head, justify="right", no_wrap=True)
        took.add_column(head, justify="right", no_wrap=True)
    read.add_column("error", justify="right")
    for number, one in enumerate(check.replayed, start=1):
        read.add_row(
            str(number),
            _bytes(one.bytes_without),
            _bytes(one.bytes_with),
            _bytes(one.saved),
            "" if one.predicted is None else _bytes(one.predicted),
            "" if one.error is None else f"{one.error:.0%}",
        )
        took.add_row(
            str(number),
            f"{one.seconds_without:.3f}",
            f"{one.seconds_with:.3f}",
            f"{one.seconds_without - one.seconds_with:.3f}",
            "" if one.predicted_seconds is None else f"{one.predicted_seconds:.3f}",
        )
    if check.replayed:
        console.print(read)
        console.print(took)
    for number, one in enumerate(check.replayed, start=1):
        by = "" if one.reader == "twostage" else "  (Spark's reader read it; replayed by twostage's)"
        console.print(Text(mask(f"{number:>3}  {one.text}{by}")))
    before, after = (
        sum(getattr(one, f"bytes_{way}") for one in check.replayed) for way in ("without", "with")
    )
    if check.replayed:
        console.print(
            f"{len(check.replayed):,} scans read {_bytes(before)} without indexes, {_bytes(after)} with them"
        )
    if check.median_error is not None:
        console.print(f"median error of the predicted bytes saved: {check.median_error:.0%}")
    for reason, count in sorted(check.refused.items(), key=lambda item: -item[1]):
        console.print(Text(mask(f"{count:,} not replayed: {reason}")))
    if not check.replayed:
        console.print("Nothing was replayed.")


def _bytes(number: float) -> str:
    from twostage.report.funnel import format_bytes  # noqa: PLC0415

    return f"-{format_bytes(-int(number))}" if number < 0 else format_bytes(int(number))
