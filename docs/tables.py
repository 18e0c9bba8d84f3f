"""Writes the tables of the documents that are made of the code: the options and the counters (`make docs-tables`).

Takes pages with marks, ``<!-- table: counters -->`` to ``<!-- /table -->``; puts the tables between them. They are in the pages
themselves, not made with the site, so that whoever reads a page on GitHub sees them. The rule: no fact of the code stands
here, and no table between marks is written by hand.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "connector"))
from twostage.metrics import COUNTERS
from twostage.option_table import CATALOG_MEANING, CATALOG_OPTION, SECTIONS

if TYPE_CHECKING:
    from collections.abc import Iterable

DOCS = Path(__file__).resolve().parent
_TABLE = re.compile(r"(<!-- table: (.+?) -->\n).*?(<!-- /table -->)", re.DOTALL)


def tables() -> dict[str, str]:
    """Return each table by the name in its mark."""
    found = {
        "counters": _table(("counter", "what it counts"), ((f"`{n}`", text) for n, text in COUNTERS.items()))
    }
    for number, (section, options) in enumerate(SECTIONS.items()):
        rows = [
            (f"`{name}`", f"`{one.default}`" * bool(one.default), one.meaning)
            for name, one in options.items()
        ]
        if number == 0:
            rows.append((f"`{CATALOG_OPTION}`", "", CATALOG_MEANING))
        found[f"options, {section}"] = _table(("option", "default", "meaning"), rows)
    return found


def filled(page: str) -> str:
    """Return a page with its tables as they are now.

    Raises:
        KeyError: A mark has a name that no table has.
    """
    known = tables()
    return _TABLE.sub(lambda mark: f"{mark[1]}\n{known[mark[2]]}\n{mark[3]}", page)


def _table(titles: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    """Return a table in Markdown; an empty cell is one space."""
    lines = [f"| {' | '.join(cells)} |\n".replace("|  |", "| |") for cells in (titles, *rows)]
    return "".join((lines[0], "|---" * len(titles) + "|\n", *lines[1:]))


def main() -> None:
    """Write the pages whose tables changed."""
    for path in sorted(DOCS.glob("*.md")):
        page = path.read_text(encoding="utf-8")
        now = filled(page)
        if now != page:
            path.write_text(now, encoding="utf-8")
            print(f"wrote {path.relative_to(DOCS.parent)}")


if __name__ == "__main__":
    main()
