"""``advise collect``: what the advisor wants to know of a table's columns, written to a JSON file.

Takes the command's arguments and the reader's options; leaves one file. The rule: the table is only read.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from twostage.errors import OptionError

if TYPE_CHECKING:
    import argparse

    from rich.console import Console

    from twostage.options import ReadOptions

COLLECT = "advise collect"
"""A command of two words, because it takes a table and the reader's options, and no log."""


def add_collect_parser(commands: Any) -> argparse.ArgumentParser:
    """Add ``advise collect`` to the commands, and return its parser; the caller adds the reader's options."""
    parser: argparse.ArgumentParser = commands.add_parser(
        COLLECT,
        help="find out what advise wants to know of a table's columns, as a JSON file for --metadata",
    )
    parser.add_argument("--out", required=True, metavar="FILE", help="the JSON file to write")
    parser.add_argument(
        "--files",
        type=int,
        default=8,
        metavar="N",
        help="data files of which the first row group is read (8)",
    )
    parser.add_argument(
        "--name", metavar="TABLE", help="what logs call the table, if not as it is given here"
    )
    return parser


def run_collect(
    parsed: argparse.Namespace, options: ReadOptions, confs: dict[str, str], console: Console
) -> None:
    """Run ``advise collect``.

    Raises:
        OptionError: There is no such table; the file cannot be written.
    """
    from rich.progress import Progress  # noqa: PLC0415 - keeps importing the command line cheap

    from twostage.advisor.collect import collect  # noqa: PLC0415

    with Progress(console=console) as progress:
        bar = progress.add_task("reading a sample", total=None)
        found = collect(
            options,
            confs,
            sampled_files=max(1, parsed.files),
            step=lambda done, of: progress.update(bar, completed=done, total=of),
        )
    if parsed.name is not None:
        found = replace(found, table=parsed.name)
    write_file(parsed.out, found.json(), "--out")
    console.print(
        f"{found.rows:,} rows in {found.files:,} files, {len(found.columns):,} columns: {parsed.out}",
        markup=False,
    )


def write_file(path: str, text: str, argument: str) -> None:
    """Write what an argument asks for.

    Raises:
        OptionError: It cannot be written.
    """
    try:
        Path(path).write_text(text, encoding="utf-8")
    except OSError as error:
        raise OptionError(
            "BAD_OPTION", f"{argument} cannot be written: {error}", path=path, stage="options"
        ) from None
