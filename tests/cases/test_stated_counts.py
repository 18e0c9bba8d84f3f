"""What a manifest states and its data file does not bear out: row counts, and ORC's moments just before 1970."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

import pytest

from check import Columns
from core_scan import Opened, open_table, scan
from tables import Table
from twostage.errors import CorruptFileError
from twostage.predicates.predicate import TRUE, And, Compare, In, IsNull, Not, Or, Predicate

if TYPE_CHECKING:
    from pathlib import Path

FORMATS = ["parquet", "orc", "avro"]
METRICS = ("value_counts", "null_value_counts", "nan_value_counts", "lower_bounds", "upper_bounds")


def counted(folder: Path, count: int, file_format: str, *, rows: int = 5, **options: Any) -> Opened:
    """Return a table of one file whose manifest entry states `count` rows, in the partition ``p=NULL``."""
    table = Table(folder, {"id": "long", "p": "int"}, partition=["p"], **options)
    with table.transaction():
        file = table.append([{"id": i} for i in range(rows)], format=file_format, mixed=True)
        file.entry["record_count"] = count
        file.entry.update(dict.fromkeys(METRICS) if count < 1 else {})
    return open_table(table.write())


def ids_of(opened: Opened, predicate: Predicate = TRUE, **more: Any) -> list[int]:
    return sorted(row[0][1] for row in scan(opened, predicate=predicate, **more).rows)


@pytest.mark.parametrize("file_format", FORMATS)
def test_rows_that_nobody_counted_are_read_and_filtered(tmp_path: Path, file_format: str) -> None:
    """As Iceberg does: its import of Avro files once wrote -1."""
    opened = counted(tmp_path, -1, file_format)
    c = Columns(opened.table.schema)
    assert ids_of(opened) == [0, 1, 2, 3, 4]
    assert ids_of(opened, Compare(">", c("id"), 2)) == [3, 4]
    assert ids_of(opened, IsNull(c("p"))) == [0, 1, 2, 3, 4]
    assert ids_of(opened, Not(IsNull(c("p")))) == []
    assert ids_of(opened, Or((In(c("id"), (1,)), Compare("=", c("p"), 1)))) == [1]
    assert len(scan(opened, ()).rows) == 5
    assert len(ids_of(opened, limit=3)) >= 3


@pytest.mark.parametrize("file_format", FORMATS)
def test_deletes_reach_rows_that_nobody_counted(tmp_path: Path, file_format: str) -> None:
    table = Table(tmp_path, {"id": "long"})
    with table.transaction():
        file = table.append([{"id": i} for i in range(6)], format=file_format)
        file.entry["record_count"] = -1
        file.entry.update(dict.fromkeys(METRICS))
    table.delete_positions({file: [0, 5]})
    table.delete_equal(["id"], [{"id": 2}])
    table.version = 3
    assert ids_of(open_table(table.write())) == [1, 3, 4]
    table.delete_vectors({file: [0, 5, 4]})
    assert ids_of(open_table(table.write())) == [1, 3]


@pytest.mark.parametrize("file_format", FORMATS)
def test_a_file_that_is_said_to_be_empty_is_read_unless_a_filter_prunes_it(
    tmp_path: Path, file_format: str
) -> None:
    """Exactly as Iceberg does."""
    opened = counted(tmp_path, 0, file_format)
    assert ids_of(opened) == [0, 1, 2, 3, 4]
    assert ids_of(opened, Compare(">=", Columns(opened.table.schema)("id"), 0)) == []


@pytest.mark.parametrize("file_format", FORMATS)
@pytest.mark.parametrize("count", [3, 9])
def test_a_wrong_count_changes_no_row(tmp_path: Path, file_format: str, count: int) -> None:
    opened = counted(tmp_path, count, file_format)
    where = Compare(">", Columns(opened.table.schema)("id"), 2)
    assert ids_of(opened) == [0, 1, 2, 3, 4]
    assert ids_of(opened, where) == [3, 4]
    assert len(scan(opened, ()).rows) == 5


def test_positional_deletes_past_a_count_that_is_too_small_apply(tmp_path: Path) -> None:
    table = Table(tmp_path, {"id": "long"})
    with table.transaction():
        file = table.append([{"id": i} for i in range(6)])
        file.entry["record_count"] = 3
    table.delete_positions({file: [4, 5]})
    assert ids_of(open_table(table.write())) == [0, 1, 2, 3]


@pytest.mark.parametrize("file_format", FORMATS)
def test_a_limit_that_relied_on_a_wrong_count_is_refused_or_right(tmp_path: Path, file_format: str) -> None:
    """Planning reads only as many files as hold enough rows."""
    table = Table(tmp_path, {"id": "long"})
    for first in (0, 5):
        with table.transaction():
            file = table.append([{"id": first + i} for i in range(5)], format=file_format)
            file.entry["record_count"] = 9
    opened = open_table(table.write())
    if file_format == "avro":
        assert len(ids_of(opened, limit=9)) >= 9
        return
    with pytest.raises(CorruptFileError, match=r"CORRUPT_MANIFEST.*9 rows.*holds 5"):
        scan(opened, limit=9)


# ---- moments just before 1970

SECOND = {"timestamp": 10**6, "timestamptz": 10**6, "timestamp_ns": 10**9}


@pytest.mark.parametrize("kind", list(SECOND))
@pytest.mark.parametrize("partition", [(), ("hour(m)",), ("year(m)",)], ids=str)
def test_moments_that_orc_stores_a_second_late_are_not_pruned(
    tmp_path: Path, kind: str, partition: tuple[str, ...]
) -> None:
    """ORC's Java writer stores -0.25 s as 0.75 s; the manifest has what was meant."""
    second = SECOND[kind]
    meant, read = -second // 4, 3 * second // 4
    version = 3 if kind.endswith("_ns") else 2
    table = Table(tmp_path, {"id": "long", "m": kind}, partition=partition, version=version)
    with table.transaction():
        for number, file_format in enumerate(("orc", "parquet")):
            (file,) = table.append_all([{"id": number, "m": meant}], format=file_format, mixed=True)
            if file_format == "orc":
                late = Table(tmp_path / "late", {"id": "long", "m": kind}, version=version)
                copied = late.append([{"id": number, "m": read}], format="orc", mixed=True)
                (tmp_path / file.path).write_bytes((tmp_path / copied.path).read_bytes())
            assert struct.unpack("<q", file.entry["upper_bounds"][2]) == (meant,)
    opened = open_table(table.write())
    moment = Columns(opened.table.schema)("m")
    zero = Compare(">=", moment, 0)
    assert ids_of(opened, zero) == [0]
    assert ids_of(opened, Compare("=", moment, read)) == [0]
    assert ids_of(opened, Compare("<", moment, 0)) == [1]
    assert ids_of(opened, Not(zero)) == [1]
    assert ids_of(opened, And((zero, Compare("<", moment, second)))) == [0]


def test_equality_deletes_reach_moments_that_orc_stored_late(tmp_path: Path) -> None:
    table = Table(tmp_path, {"id": "long", "m": "timestamp"})
    with table.transaction():
        file = table.append([{"id": 0, "m": -250_000}], format="orc", mixed=True)
        late = Table(tmp_path / "late", {"id": "long", "m": "timestamp"})
        copied = late.append([{"id": 0, "m": 750_000}], format="orc", mixed=True)
        (tmp_path / file.path).write_bytes((tmp_path / copied.path).read_bytes())
    table.delete_equal(["m"], [{"m": 750_000}])
    assert ids_of(open_table(table.write())) == []
