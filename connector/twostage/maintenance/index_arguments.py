"""The arguments of the command ``index``, in a module of their own: the command line need not import the rest."""

from __future__ import annotations

import argparse
from typing import Any

AUTO = "auto"
"""Chooses the kinds that will pay."""
DEFAULT_SAMPLE_FILES = 4
"""Data files that ``verify`` compares by default."""


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of at least one")
    return int(text)


def add_parsers(commands: Any) -> list[argparse.ArgumentParser]:
    """Add the command ``index`` and its own commands to argparse's; return the parsers that take a table."""
    index = commands.add_parser(
        "index", help="indexes of a table's columns: create, refresh, list, verify, drop, clean"
    )
    verbs = index.add_subparsers(dest="verb", required=True)
    creating = verbs.add_parser("create", help="index columns")
    creating.add_argument(
        "--columns",
        dest="names",
        required=True,
        metavar="A,B",
        help="names, dotted for fields of structs, in backticks if they contain a comma",
    )
    creating.add_argument(
        "--kind",
        default=AUTO,
        help="auto (default: what will pay off, or the reason why nothing does), or values, postings, sorted, bins, slices, elements, files, separated by commas",
    )
    refreshing = verbs.add_parser("refresh", help="index the data files that have no index yet")
    for parser in (creating, refreshing):
        parser.add_argument("--spark", action="store_true", help="run as a Spark job")
    listing = verbs.add_parser(
        "list", help="say what is indexed, how much of the table, how large it is, and how often it was used"
    )
    listing.add_argument(
        "--log",
        action="append",
        metavar="PLACE",
        help="a query log, to count uses; may be given several times",
    )
    listing.add_argument(
        "--name", metavar="TABLE", help="the table's name in the log, if it is not the one given here"
    )
    verifying = verbs.add_parser("verify", help="compare indexes with the data")
    verifying.add_argument(
        "--sample",
        type=_count,
        default=DEFAULT_SAMPLE_FILES,
        help=f"data files to compare, drawn at random; default: {DEFAULT_SAMPLE_FILES}",
    )
    verifying.add_argument("--all", action="store_true", help="compare all data files")
    verifying.add_argument(
        "--repair", action="store_true", help="rebuild what differs, is damaged or is missing"
    )
    dropping = verbs.add_parser("drop", help="remove indexes")
    dropping.add_argument("--columns", dest="names", metavar="A,B", help="default: of all columns")
    cleaning = verbs.add_parser(
        "clean", help="remove indexes of data files that no snapshot of the table has"
    )
    return [creating, refreshing, listing, verifying, dropping, cleaning]
