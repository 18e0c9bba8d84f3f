"""What indexes would do, as a table on a terminal.

Takes a `WhatIf` and prints it. The rule: predictions are called predictions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from twostage.errors import mask

if TYPE_CHECKING:
    from rich.console import Console

    from twostage.advisor.what_if import WhatIf

_MAX_TEXT = 60


def print_what_if(found: WhatIf, console: Console) -> None:
    """Print bytes and seconds before and after, of the heaviest queries and of all."""
    from rich.table import Table  # noqa: PLC0415 - only the command needs it
    from rich.text import Text  # noqa: PLC0415

    console.print(Text("  With these indexes, predicted before they are built:"))
    shown = Table(box=None, padding=(0, 2, 0, 0))
    has_seconds = found.total.seconds_before is not None
    shown.add_column("  scans", justify="right", no_wrap=True)
    shown.add_column("bytes each", no_wrap=True)
    if has_seconds:
        shown.add_column("seconds each", no_wrap=True)
    shown.add_column("filter", no_wrap=True, overflow="ellipsis")
    for one in found.queries:
        seconds = [one.seconds_each] if has_seconds else []
        text = mask(one.text)
        text = text if len(text) <= _MAX_TEXT else f"{text[: _MAX_TEXT - 1]}…"
        shown.add_row(f"{one.scans:,}", one.bytes_each, *seconds, Text(text))
    console.print(shown)
    console.print(Text(f"    {found.summary}"))
