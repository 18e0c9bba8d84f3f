"""``advise --apply``: builds the recommended indexes, after asking.

Takes recommendations and a function that builds an index; returns an exit code. The rules: only what was
shown is built, and without consent nothing at all; any other command is printed, for the owner to run.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from twostage.errors import OptionError, TwoStageError, mask

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rich.console import Console

    from twostage.advisor.recommendation import Recommendation

    Build = Callable[[str, str, str], None]
    """Takes a table's name in logs, a column, and comma-separated kinds."""

_AUTO = "auto"


def apply(found: Sequence[Recommendation], build: Build, console: Console, *, is_agreed: bool) -> int:
    """Build the recommended indexes; return the exit code: 1 if any could not be built.

    Args:
        found: What was recommended, and shown.
        build: Builds the index of one column.
        console: Where messages are printed.
        is_agreed: ``--yes``: do not ask.

    Raises:
        OptionError: Standard input is not a terminal.
    """
    indexes = [one for one in found if one.action == "index"]
    for one in found:
        if one.action != "index" and one.command:
            _say(console, f"Not run, left to you: {one.command}")
    if not indexes:
        _say(console, "No index to build.")
        return 0
    if not (is_agreed or _agrees(indexes)):
        _say(console, "Nothing was built.")
        return 0
    failed = 0
    for one in indexes:
        (column,) = one.columns
        try:
            build(one.table, column, ",".join(one.kinds) or _AUTO)
        except TwoStageError as error:
            failed += 1
            _say(console, f"{one.table}, {column}: {error}")
    return int(failed > 0)


def _agrees(indexes: Sequence[Recommendation]) -> bool:
    """Ask on the terminal.

    Raises:
        OptionError: Standard input is not a terminal.
    """
    if not sys.stdin.isatty():
        raise OptionError(
            "BAD_OPTION",
            "--apply asks before it builds, and standard input is not a terminal",
            stage="options",
            hint="--yes builds without asking.",
        )
    named = ", ".join(f"{one.table} ({one.columns[0]})" for one in indexes)
    try:
        answer = input(mask(f"Build {len(indexes)} indexes: {named}? [y/N] "))
    except EOFError:
        return False
    return answer.strip().lower() in ("y", "yes")


def _say(console: Console, text: str) -> None:
    console.print(mask(text), markup=False, soft_wrap=True)
