"""Imported Parquet files of milliseconds: Iceberg's Java library stores their bounds as they are, in milliseconds.

The rows are read as the moments that they are, so bounds that may count milliseconds bound both readings.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from check import Columns
from core_scan import open_table, scan
from tables import Table
from twostage.planning.metadata_answer import Aggregate, answer
from twostage.planning.prune_files import may_be_millis
from twostage.predicates.predicate import Compare
from twostage.predicates.top import TopRows
from twostage.schema import Primitive

if TYPE_CHECKING:
    from pathlib import Path

    from core_scan import Opened

DAY = 86_400_000
LATE = 1_704_067_200_000
"""2024-01-01 in milliseconds."""


def imported(folder: Path, *columns: tuple[str, str, list[int]]) -> Table:
    """Return a table with one file of milliseconds, whose bounds count them."""
    table = Table(folder, {"id": "long", **{name: kind for name, kind, _ in columns}}, version=2)
    with table.transaction():
        moments = zip(*([moment * 1000 for moment in values] for *_, values in columns), strict=True)
        names = [name for name, *_ in columns]
        file = table.append(
            [{"id": i, **dict(zip(names, row, strict=True))} for i, row in enumerate(moments)]
        )
        rows = pq.read_table(file.path)
        for place, (name, kind, _) in enumerate(columns, 1):
            unit = pa.time32("ms") if kind == "time" else pa.timestamp("ms", rows.schema.field(name).type.tz)
            old = rows.schema.field(name)
            rows = rows.set_column(place, old.with_type(unit), rows[name].cast(unit))
        pq.write_table(rows, file.path)
        entry: Any = file.entry
        entry["file_size_in_bytes"] = (folder / file.path).stat().st_size
        for place, (*_, values) in enumerate(columns, 2):
            entry["lower_bounds"][place] = struct.pack("<q", min(values))
            entry["upper_bounds"][place] = struct.pack("<q", max(values))
    return table


def ids(opened: Opened, **asked: Any) -> list[int]:
    return sorted(row[0][1] for row in scan(opened, **asked).rows)


@pytest.mark.parametrize("kind", ["timestamp", "timestamptz"])
@pytest.mark.parametrize("first", [LATE, -LATE], ids=["2024", "1916"])
def test_a_filter_finds_the_rows(kind: str, first: int, tmp_path: Path) -> None:
    opened = open_table(imported(tmp_path, ("at", kind, [first, first + DAY])).write())
    at = Columns(opened.table.schema)("at")
    assert ids(opened, predicate=Compare("=", at, (first + DAY) * 1000)) == [1]
    assert ids(opened, predicate=Compare("<", at, (first + DAY) * 1000)) == [0]


def test_the_first_rows_are_not_left_out(tmp_path: Path) -> None:
    table = imported(tmp_path, ("at", "timestamp", [LATE, LATE + DAY]))
    table.append([{"id": 10, "at": 10**15}, {"id": 11, "at": 10**15 + 1}])  # 2001
    opened = open_table(table.write())
    key = Columns(opened.table.schema)("at")
    top = TopRows(column=key, count=1, descending=True, nulls_first=False)
    assert 1 in ids(opened, top=top)


@pytest.mark.parametrize(("kind", "first", "last"), [("timestamp", LATE, LATE + DAY), ("time", 1, DAY - 1)])
def test_an_equality_delete_is_applied(kind: str, first: int, last: int, tmp_path: Path) -> None:
    table = imported(tmp_path, ("at", kind, [first, last]))
    table.delete_equal(["at"], [{"at": last * 1000}])
    assert ids(open_table(table.write())) == [0]


def test_metadata_does_not_answer(tmp_path: Path) -> None:
    opened = open_table(imported(tmp_path, ("at", "timestamp", [LATE, LATE + DAY])).write())
    at = opened.table.schema.fields[1]
    found = answer(opened.table, opened.options, aggregates=(Aggregate("max", at),))
    assert found == "a file's metadata does not tell the max of at"


def test_bounds_that_cannot_be_milliseconds_stand() -> None:
    kind = Primitive("timestamp")
    assert may_be_millis(kind, LATE, LATE + DAY)
    assert not may_be_millis(kind, LATE, LATE * 1000)
    assert not may_be_millis(Primitive("time"), 0, DAY)
    assert not may_be_millis(Primitive("long"), 0, 1)
