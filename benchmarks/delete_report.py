"""Figures as a table on the terminal and as a Markdown page.

Takes a title, sentences on how the figures came about, headings and rows of texts; gives both forms.
"""

from __future__ import annotations

import platform
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rich.table import Table

if TYPE_CHECKING:
    from pathlib import Path

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

    def write(self, path: Path) -> None:
        """Write it as Markdown, with the machine and the versions that it was measured on."""
        lines = [f"# {self.title}", "", *self.sentences, "", _line(self.headings)]
        lines += [_line(["---"] * 2 + ["--:"] * (len(self.headings) - 2)), *map(_line, self.rows), ""]
        lines += [f"Machine: {_machine()}."]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join(lines) + "\n")


def _line(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _machine() -> str:
    import os  # noqa: PLC0415

    import pyarrow  # noqa: PLC0415
    import pyspark  # noqa: PLC0415

    return (
        f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}, "
        f"PySpark {pyspark.__version__}, pyarrow {pyarrow.__version__}"
    )
