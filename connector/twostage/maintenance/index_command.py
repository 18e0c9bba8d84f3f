"""The command ``index``: what it does, and what it prints.

Takes parsed arguments and a function that runs units of work; runs `table_indexes` and prints to a console.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from twostage import option_values
from twostage.errors import OptionError
from twostage.indexes.place import list_indexes
from twostage.maintenance.table_indexes import OwnedIndexes
from twostage.maintenance.verify_indexes import verify_indexes
from twostage.metrics import Metrics

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Mapping

    from rich.console import Console
    from rich.progress import Progress

    from twostage.maintenance.table_indexes import Counted, Run
    from twostage.options import ReadOptions


def run_command(
    parsed: argparse.Namespace,
    options: ReadOptions,
    confs: dict[str, str],
    console: Console,
    progress: Progress,
    run: Run,
    uses_of: Callable[[str], Mapping[str, str]],
    counted: Counted | None = None,
) -> int:
    """Run one of the commands; return the exit code.

    Args:
        parsed: The arguments.
        options: The reader's.
        confs: Spark's, for catalogs.
        console: Where results are printed.
        progress: Where progress is shown.
        run: Runs units of work.
        counted: Returns the counts of columns' values.
        uses_of: Takes the table's name in logs; returns by column how often its index was used, as text.

    Raises:
        TwoStageError: It failed.
    """
    owned = OwnedIndexes(options, confs, run, lambda text: console.print(text, markup=False, soft_wrap=True))
    match parsed.verb:
        case "create":
            _print_built(owned.create(names_in(parsed.names), parsed.kind, counted), console)
        case "refresh":
            _print_built(owned.refresh(), console)
        case "list":
            _print_list(owned, console, uses_of)
        case "verify":
            sample = None if parsed.all else parsed.sample
            return _verify(owned, sample, console, _step(progress, "comparing"), repair=parsed.repair)
        case "drop":
            console.print(
                f"{owned.drop(None if parsed.names is None else names_in(parsed.names)):,} files removed"
            )
        case "clean":
            removed, kept = owned.clean(_step(progress, "looking at snapshots"))
            console.print(f"{removed:,} files removed, {kept:,} kept")
    return 0


def names_in(text: str) -> list[str]:
    """Return comma-separated column names; a name in backticks may contain commas, and keeps the backticks.

    Raises:
        OptionError: A backtick is not closed.

    >>> names_in("a, s.`b,c`, d e")
    ['a', 's.`b,c`', 'd e']
    """
    if not text.strip(", "):
        return []
    try:
        return list(option_values.columns(text))
    except ValueError:
        raise OptionError(
            "BAD_OPTION", f"Not names of columns: {text!r}", stage="options",
            hint="Separate names by commas; one that holds a comma, a dot or a backtick goes in backticks: `a,b`.`c``d`.",
        ) from None  # fmt: skip


def _step(progress: Progress, text: str) -> Callable[[int, int], None]:
    bar = progress.add_task(text, total=None)
    return lambda done, of: progress.update(bar, completed=done, total=of)


def _print_built(metrics: Metrics, console: Console) -> None:
    counted = metrics.counters
    console.print(
        f"{counted['indexes.files']:,} data files: {counted['indexes.made']:,} indexed, "
        f"{counted['indexes.files'] - counted['indexes.made']:,} already indexed or not indexable; "
        f"{counted['indexes.bytes']:,} bytes of index files",
        soft_wrap=True,
    )
    for sentence, times in metrics.choices.items():
        console.print(f"{sentence} ({times:,} times)", markup=False, soft_wrap=True)


def _print_list(owned: OwnedIndexes, console: Console, uses_of: Callable[[str], Mapping[str, str]]) -> None:
    found = owned.status()
    uses = uses_of(owned.table_name)
    if not found:
        console.print("no indexes")
    for status in found:
        columns = "; ".join(f"{name} ({', '.join(kinds)})" for name, kinds in status.columns.items())
        share = status.nbytes / max(1, status.table_bytes)
        age = f", {max(0.0, time.time() - status.modified) / 86_400:,.1f} days old" if status.modified else ""
        of_columns = ""
        if status.column_bytes:
            owner = "column's" if len(status.columns) == 1 else "columns'"
            of_columns = f" and {status.nbytes / status.column_bytes:.0%} of the {owner}"
        used = "".join(f"; {uses[name]}" for name in status.columns if name in uses)
        console.print(
            f"{columns}: {status.indexed:,} of {status.data_files:,} data files, "
            f"{status.nbytes:,} bytes, {share:.1%} of the table's{of_columns}{age}{used}",
            markup=False,
            soft_wrap=True,
        )


def _verify(
    owned: OwnedIndexes,
    sample: int | None,
    console: Console,
    step: Callable[[int, int], None],
    *,
    repair: bool,
) -> int:
    context, tasks, place, _ = owned.indexed_tasks()
    verified = verify_indexes(context, tasks, place, list_indexes(place, Metrics()), sample, step)
    for sentence in verified.wrong:
        console.print(sentence, markup=False, soft_wrap=True)
    console.print(
        f"{verified.data_files:,} data files compared: {verified.answers:,} answers, {len(verified.wrong):,} wrong; "
        f"{verified.without_index:,} index files missing"
    )
    if repair:
        _print_built(owned.repair(verified.bad), console)
    return int(bool(verified.wrong) and not repair)
