"""The table that most cases damage: three rows in one data file, which may have other bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tables import Table

if TYPE_CHECKING:
    from pathlib import Path

ROWS = [{"id": 1, "text": "a"}, {"id": 2, "text": "b"}, {"id": 3, "text": "c"}]
COLUMNS: dict[str, Any] = {"id": "long!", "text": "string"}


def plain_table(folder: Path, columns: dict[str, Any] = COLUMNS, **options: Any) -> Table:
    """Return a table of three rows, not yet written."""
    layout = {"metrics": options.pop("metrics", "full")}
    table = Table(folder, columns, **options)
    table.append(ROWS, **layout)
    return table


def data_file(data: bytes, folder: Path) -> Path:
    """Return a table of one data file with these bytes."""
    table = plain_table(folder, metrics="none")  # which may say other things than the damaged file
    (place,) = folder.glob("data/*.parquet")
    place.write_bytes(data)
    return table.write()
