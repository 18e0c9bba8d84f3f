"""What `make docs` puts into pages: the table of counters, from the code itself.

Takes a page's Markdown; gives it with the table where the page has the mark. The rule: no fact of the code stands here.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "connector"))
from twostage.metrics import COUNTERS

MARK = "<!-- counters -->"


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Replace the mark by the table."""
    rows = [f"| `{name}` | {meaning} |" for name, meaning in COUNTERS.items()]
    return markdown.replace(MARK, "\n".join(("| counter | what it counts |", "|---|---|", *rows)))
