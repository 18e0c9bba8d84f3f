"""``advise collect``: keeps what the advisor needs to know about a table's columns in a JSON file.

Takes the command's arguments and the reader's options; writes one file, beside the table's indexes or where
told. The rules: the table is only read, and data files that an earlier call covered are not read again.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from twostage.errors import OptionError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    from rich.console import Console
    from rich.progress import Progress

    from twostage.advisor.collect import Run
    from twostage.options import ReadOptions

DEFAULT_FILES = 32
COLLECT = "advise collect"
"""A command of two words, because it takes a table and the reader's options, and no log."""


def add_collect_parser(commands: Any) -> argparse.ArgumentParser:
    """Add ``advise collect`` to the commands, and return its parser; the caller adds the reader's options."""
    parser: argparse.ArgumentParser = commands.add_parser(
        COLLECT,
        help="collect what advise needs to know about a table's columns, as a JSON file for --metadata",
    )
    parser.add_argument(
        "--out",
        metavar="FILE",
        help="the JSON file to write or extend; default: next to the table's indexes, where advise finds it",
    )
    parser.add_argument(
        "--files",
        type=int,
        default=DEFAULT_FILES,
        metavar="N",
        help=f"data files whose first row group is read ({DEFAULT_FILES}); of new files, a proportional share",
    )
    parser.add_argument("--spark", action="store_true", help="run as a Spark job")
    parser.add_argument(
        "--name", metavar="TABLE", help="the table's name in the logs, if it is not the one given here"
    )
    return parser


def run_collect(
    parsed: argparse.Namespace,
    options: ReadOptions,
    confs: dict[str, str],
    console: Console,
    run_of: Callable[[Progress], Run],
) -> None:
    """Run ``advise collect``.

    Args:
        parsed: The arguments.
        options: The reader's.
        confs: Spark's, for catalogs.
        console: Where the result is printed.
        run_of: Takes the progress display; returns a function that runs units of work, possibly in parallel.

    Raises:
        OptionError: There is no such table; the file cannot be written; there is no place for it.
        StorageError: The file cannot be written beside the indexes.
    """
    from rich.progress import Progress  # noqa: PLC0415 - keeps importing the command line cheap

    from twostage.advisor.collect import collect_more  # noqa: PLC0415
    from twostage.advisor.kept_metadata import keep, with_samples  # noqa: PLC0415

    with Progress(console=console) as progress:
        found, collected, place = collect_more(
            options, confs, sampled_files=max(1, parsed.files), run=run_of(progress), out=parsed.out
        )
    if parsed.name is not None:
        found = replace(found, table=parsed.name)
    text = with_samples(found, collected)
    if parsed.out is not None:
        write_file(parsed.out, text, "--out")
    elif place is None:
        raise OptionError(
            "NO_PLACE",
            "There is no place next to the table for what is collected",
            stage="options",
            hint="Set index.location to a folder or bucket, or --out to a file.",
        )
    console.print(
        f"{found.rows:,} rows in {found.files:,} files, {len(found.columns):,} columns: "
        f"{parsed.out if place is None or parsed.out is not None else keep(place, text)}",
        markup=False,
        soft_wrap=True,
    )


def write_file(path: str, text: str, argument: str) -> None:
    """Write the file that an argument names.

    Raises:
        OptionError: It cannot be written.
    """
    try:
        Path(path).write_text(text, encoding="utf-8")
    except OSError as error:
        raise OptionError(
            "BAD_OPTION", f"{argument} cannot be written: {error}", path=path, stage="options"
        ) from None
