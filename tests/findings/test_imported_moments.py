"""Imported Parquet files of milliseconds or nanoseconds: Iceberg's Java library stores their bounds as they are.

The rows are read as the moments that they are, so bounds that may count another unit bound both readings.
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
from twostage.aggregates.metadata_answer import Aggregate, answer
from twostage.predicates.predicate import Compare
from twostage.predicates.top import TopRows
from twostage.schema import Primitive
from twostage.table.column_metrics import may_count_other_units

if TYPE_CHECKING:
    from pathlib import Path

    from core_scan import Opened

UNITS = pytest.mark.parametrize("unit", ["ms", "ns"])
DAY = 86_400_000
LATE = 1_704_067_200_000
"""2024-01-01 in milliseconds."""


def imported(folder: Path, *columns: tuple[str, str, list[int]], unit: str = "ms") -> Table:
    """Return a table with one file of another unit, whose bounds count it; `columns` are in milliseconds."""
    table = Table(folder, {"id": "long", **{name: kind for name, kind, _ in columns}}, version=2)
    with table.transaction():
        moments = zip(*([moment * 1000 for moment in values] for *_, values in columns), strict=True)
        names = [name for name, *_ in columns]
        file = table.append(
            [{"id": i, **dict(zip(names, row, strict=True))} for i, row in enumerate(moments)]
        )
        rows = pq.read_table(file.path)
        for place, (name, kind, _) in enumerate(columns, 1):
            old = rows.schema.field(name)
            times = pa.time32 if unit == "ms" else pa.time64
            new = times(unit) if kind == "time" else pa.timestamp(unit, old.type.tz)
            rows = rows.set_column(place, old.with_type(new), rows[name].cast(new))
        pq.write_table(rows, file.path)
        entry: Any = file.entry
        entry["file_size_in_bytes"] = (folder / file.path).stat().st_size
        for place, (*_, values) in enumerate(columns, 2):
            factor = {"ms": 1, "ns": 10**6}[unit]
            entry["lower_bounds"][place] = struct.pack("<q", factor * min(values))
            entry["upper_bounds"][place] = struct.pack("<q", factor * max(values))
    return table


def ids(opened: Opened, **asked: Any) -> list[int]:
    return sorted(row[0][1] for row in scan(opened, **asked).rows)


@pytest.mark.parametrize("kind", ["timestamp", "timestamptz"])
@pytest.mark.parametrize("first", [LATE, -LATE], ids=["2024", "1916"])
@UNITS
def test_a_filter_finds_the_rows(kind: str, first: int, unit: str, tmp_path: Path) -> None:
    opened = open_table(imported(tmp_path, ("at", kind, [first, first + DAY]), unit=unit).write())
    at = Columns(opened.table.schema)("at")
    assert ids(opened, predicate=Compare("=", at, (first + DAY) * 1000)) == [1]
    assert ids(opened, predicate=Compare("<", at, (first + DAY) * 1000)) == [0]
    assert ids(opened, predicate=Compare(">", at, first * 1000)) == [1]


@pytest.mark.parametrize(("descending", "expected"), [(True, 1), (False, 10)])
@UNITS
def test_the_first_rows_are_not_left_out(unit: str, descending: bool, expected: int, tmp_path: Path) -> None:  # noqa: FBT001
    table = imported(tmp_path, ("at", "timestamp", [LATE, LATE + DAY]), unit=unit)
    table.append([{"id": 10, "at": 10**15}, {"id": 11, "at": 10**15 + 1}])  # 2001
    opened = open_table(table.write())
    key = Columns(opened.table.schema)("at")
    top = TopRows(column=key, count=1, descending=descending, nulls_first=False)
    assert expected in ids(opened, top=top)


@pytest.mark.parametrize(("kind", "first", "last"), [("timestamp", LATE, LATE + DAY), ("time", 1, DAY - 1)])
@UNITS
def test_an_equality_delete_is_applied(kind: str, first: int, last: int, unit: str, tmp_path: Path) -> None:
    table = imported(tmp_path, ("at", kind, [first, last]), unit=unit)
    table.delete_equal(["at"], [{"at": last * 1000}])
    assert ids(open_table(table.write())) == [0]


@UNITS
@pytest.mark.parametrize("first", [LATE, 0])
def test_metadata_does_not_answer(unit: str, first: int, tmp_path: Path) -> None:
    opened = open_table(imported(tmp_path, ("at", "timestamp", [first, LATE + DAY]), unit=unit).write())
    at = opened.table.schema.fields[1]
    found = answer(opened.table, opened.options, aggregates=(Aggregate("max", at),))
    assert found == "a file's metadata does not give the max of at"


def test_bounds_that_can_be_in_no_other_unit_stand() -> None:
    kind = Primitive("timestamp")
    assert may_count_other_units(kind, LATE, LATE + DAY)
    assert not may_count_other_units(kind, LATE, LATE * 1000)
    assert not may_count_other_units(Primitive("time"), 0, DAY)
    assert may_count_other_units(kind, LATE * 1000, 253_402_300_800_000_000)
    assert not may_count_other_units(kind, LATE * 1000, 253_402_300_799_999_999)
    assert not may_count_other_units(Primitive("long"), 0, 1)
