"""Figures that tests measure along the way, for the scoreboard.

`make scoreboard` names a file in TWOSTAGE_FIGURES; each call of `record` adds a line of JSON to it. Without
that variable nothing is written. FULL selects the nightly sizes.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

FULL = os.environ.get("TWOSTAGE_FULL") == "1"


def record(row: str, **figures: float | str) -> None:
    """Add figures to a row of the scoreboard, such as ``record("R6", flips=1000, silent=0)``."""
    target = os.environ.get("TWOSTAGE_FIGURES")
    if target:
        with Path(target).open("a") as lines:
            lines.write(json.dumps({"row": row, **figures}) + "\n")
