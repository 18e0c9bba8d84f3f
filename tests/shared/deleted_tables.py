"""Tables in an object store with the same rows: one without deletes, and one for each kind of delete.

Takes a folder, whose name in the store is `location`; writes the tables `TABLES` there and returns each one's
live rows, in the table's order.
"""

from __future__ import annotations

import contextlib
import random
from typing import TYPE_CHECKING, Any

from late_store import BUCKET, serve_late
from tables import Table

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from late_store import LateStore

TABLES = ("plain", "positions", "vectors", "keys")
PLAIN: dict[str, Any] = {
    "row_group_size": 200,
    "page_size": 2000,
    "compression": "none",
    "dictionary": False,
    "page_index": True,
}
COLUMNS = {"id": "long", "k": "long", "s": "string", "x": "double"}
_DEAD = (1, 5, -1)
"""Positions in each file that position deletes and vectors delete."""


def rows_of(number: int, rows: int) -> list[dict[str, Any]]:
    """Return the rows of a table's data file `number`; `id` counts through all files."""
    draw = random.Random(number)
    return [
        {"id": number * rows + n, "k": draw.randrange(10**6), "s": f"{draw.getrandbits(4000):0x}", "x": n / 7}
        for n in range(rows)
    ]


@contextlib.contextmanager
def serve_tables(root: Path, *, files: int, rows: int) -> Iterator[LateStore]:
    """Write the tables into an empty folder and serve it; `live` of the store are their rows."""
    live = write_tables(root, f"s3://{BUCKET}", files=files, rows=rows)
    with serve_late(root) as store:
        store.live = live
        yield store


def write_tables(root: Path, location: str, *, files: int, rows: int) -> dict[str, list[dict[str, Any]]]:
    """Write the four tables, of `files` files with `rows` rows each; return their live rows by name."""
    every = [row for number in range(files) for row in rows_of(number, rows)]
    live = {}
    for name in TABLES:
        table = Table(root / name, COLUMNS, version=3 if name == "vectors" else 2)
        table.location = f"{location}/{name}"
        written = [table.append(rows_of(number, rows), **PLAIN) for number in range(files)]
        dead = set()
        places = [place % rows for place in _DEAD]
        if name == "positions":
            table.delete_positions({file: places for file in written})
        if name == "vectors":
            table.delete_vectors({file: places for file in written})
        if name in ("positions", "vectors"):
            dead = {number * rows + place for number in range(files) for place in places}
        if name == "keys":
            deleted = [every[place] for place in range(0, len(every), 97)]
            table.delete_equal(["k"], [{"k": row["k"]} for row in deleted[::2]])
            table.delete_equal(["k"], [{"k": row["k"]} for row in deleted[1::2]])
            keys = {row["k"] for row in deleted}
            dead = {row["id"] for row in every if row["k"] in keys}
        table.write()
        live[name] = [row for row in every if row["id"] not in dead]
    return live
