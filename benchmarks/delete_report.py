"""Figures as a table on the terminal: sentences on how they were measured, headings and rows of strings."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rich.table import Table

if TYPE_CHECKING:
    from rich.console import Console


@dataclass
class Report:
    """One table of figures; `sentences` say what was measured and how."""

    title: str
    sentences: list[str]
    headings: list[str]
    rows: list[list[str]] = field(default_factory=list)

    def show(self, console: Console) -> None:
        """Print it."""
        shown = Table(*self.headings)
        for row in self.rows:
            shown.add_row(*row)
        for sentence in self.sentences:
            console.print(sentence, markup=False)
        console.print(shown)
