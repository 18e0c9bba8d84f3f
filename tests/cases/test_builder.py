"""The declared tables are real ones: PyIceberg and pyarrow read them, and agree with the oracle.

Takes tables of the builder; the rule: the builder and the oracle are trusted only as far as these tests
go, so they use nothing of the product.
"""

from __future__ import annotations

import math
from decimal import Decimal
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import oracle
from declared.transforms import apply
from tables import FileOptions, Table

if TYPE_CHECKING:
    from pathlib import Path

EVERY_TYPE = {
    "b": "boolean",
    "i": "int",
    "l": "long",
    "f": "float",
    "d": "double",
    "e": "decimal(9,2)",
    "date": "date",
    "ts": "timestamp",
    "tz": "timestamptz",
    "s": "string",
    "u": "uuid",
    "x": "fixed[3]",
    "y": "binary",
    "n": {"a": "int", "m": {"z": "string"}},
    "list": ["int"],
    "map": ("map", "string", "long"),
}
ROWS = [
    {
        "b": True,
        "i": index,
        "l": -index,
        "f": 0.1 * index,
        "d": math.nan if index == 3 else 0.2 * index,
        "e": (Decimal(index) / 4).quantize(Decimal("0.01")),
        "date": 19000 + index,
        "ts": 1_700_000_000_000_000 + index,
        "tz": -1 - index,
        "s": "ä" * index,
        "u": f"00000000-0000-0000-0000-{index:012d}",
        "x": bytes([index, 0, 255]),
        "y": bytes(index),
        "n": None if index == 2 else {"a": index, "m": {"z": str(index)}},
        "list": [index, None],
        "map": {"k": index},
    }
    for index in range(8)
] + [{}]


def read_by_pyiceberg(path: Path) -> list[tuple[object, ...]]:
    """Return the rows that PyIceberg reads."""
    from pyiceberg.table import StaticTable

    table = StaticTable.from_metadata(str(path)).scan().to_arrow()
    return [row for batch in table.to_batches() for row in oracle.batch_rows(batch)]


def expected(table: Table) -> list[tuple[object, ...]]:
    """Return the oracle's rows of all columns."""
    from declared.types import Struct, type_json
    from twostage.schema import parse_schema

    schema = parse_schema(type_json(Struct(table.columns)))
    return [oracle.project(row, schema.fields) for row in oracle.live_rows(table.content())]


@pytest.mark.parametrize("version", [1, 2, 3])
def test_every_type_is_read_by_pyiceberg(tmp_path: Path, version: int) -> None:
    table = Table(tmp_path, EVERY_TYPE, version=version)
    table.append(ROWS[:4])
    table.append(ROWS[4:], FileOptions(row_group_size=2, dictionary=False, page_version="2.0"))
    found = read_by_pyiceberg(table.write())
    assert not oracle.difference(found, expected(table))
    assert len(found) == 9


@pytest.mark.parametrize(
    "partition",
    [
        ["bucket[3](i)"],
        ["truncate[2](s)"],
        ["truncate[10](e)"],
        ["day(ts)"],
        ["month(tz)", "year(date)"],
        ["hour(tz)"],
        ["i", "s"],
    ],
)
def test_partitions_agree_with_pyiceberg(tmp_path: Path, partition: list[str]) -> None:
    """PyIceberg projects each predicate to the partitions: a wrong transform would lose rows."""
    from pyiceberg.expressions import EqualTo
    from pyiceberg.table import StaticTable

    table = Table(tmp_path, EVERY_TYPE, partition=partition)
    table.append_all(ROWS)
    scanned = StaticTable.from_metadata(str(table.write()))
    for row in ROWS[:8]:
        assert scanned.scan(EqualTo("i", row["i"])).to_arrow().num_rows == 1
        assert scanned.scan(EqualTo("e", row["e"])).to_arrow().num_rows == 1
        if row["s"]:
            assert scanned.scan(EqualTo("s", row["s"])).to_arrow().num_rows == 1


def test_bucket_hashes_are_those_of_the_specification() -> None:
    """Appendix B of the spec states these 32-bit hashes."""
    from declared.transforms import _hashed_bytes, murmur3

    stated = [
        ("int", 34, 2017239379),
        ("long", 34, 2017239379),
        ("decimal(9,2)", Decimal("14.20"), -500754589),
        ("date", 17486, -653330422),
        ("timestamp", 1510871468000000, -2047944441),
        ("string", "iceberg", 1210000089),
        ("uuid", "f79c3e09-677c-4bbd-a479-3f349cb785e7", 1488055340),
        ("fixed[4]", b"\x00\x01\x02\x03", -188683207),
        ("binary", b"\x00\x01\x02\x03", -188683207),
    ]
    for kind, value, hashed in stated:
        assert murmur3(_hashed_bytes(kind, value)) == hashed % 2**32, kind
    assert apply("truncate[10]", "int", -1) == -10


@pytest.mark.parametrize("file_format", ["parquet"])
def test_position_deletes_and_vectors_are_read_by_pyiceberg(tmp_path: Path, file_format: str) -> None:
    table = Table(tmp_path, {"i": "int", "p": "int"}, partition=["p"])
    files = table.append_all([{"i": index, "p": index % 2} for index in range(20)])
    table.delete_positions({files[0]: [0, 9], files[1]: [3, 4]}, file_format)
    assert not oracle.difference(read_by_pyiceberg(table.write()), expected(table))
    table.version = 3
    table.delete_vectors({files[0]: [0, 9, 1], files[1]: [3, 4, 5]})
    assert not oracle.difference(read_by_pyiceberg(table.write()), expected(table))
    assert len(expected(table)) == 14


def test_evolution_is_read_by_pyiceberg(tmp_path: Path) -> None:
    table = Table(tmp_path, {"i": "int", "s": {"a": "float", "b": "string"}, "gone": "long"})
    table.append([{"i": 1, "s": {"a": 0.1, "b": "x"}, "gone": 5}, {"i": 2}])
    table.widen_column("i", "long")
    table.widen_column("s.a", "double")
    table.rename_column("s.b", "c")
    table.drop_column("gone")
    table.add_column("s.d", "int")
    table.add_column("gone", "string")
    table.order_columns(["gone", "s", "i"])
    table.append([{"i": 2**40, "s": {"a": 0.1, "c": "y", "d": 4}, "gone": "new"}])
    assert not oracle.difference(read_by_pyiceberg(table.write()), expected(table))


def test_files_without_ids_are_read_by_name(tmp_path: Path) -> None:
    table = Table(tmp_path, {"i": "int", "s": "string"}, name_mapping=True)
    table.append([{"i": 1, "s": "a"}], field_ids=False)
    table.rename_column("s", "t")
    table.append([{"i": 2, "t": "b"}], field_ids=False)
    assert not oracle.difference(read_by_pyiceberg(table.write()), expected(table))


def test_removed_files_branches_and_tags(tmp_path: Path) -> None:
    from pyiceberg.table import StaticTable

    table = Table(tmp_path, {"i": "int"})
    with table.transaction():
        first, _second = table.append([{"i": 1}]), table.append([{"i": 2}])
    table.tag("start")
    table.on("audit")
    table.append([{"i": 3}])
    table.on("main")
    table.remove(first)
    read = StaticTable.from_metadata(str(table.write()))
    for name, values in (("start", {1, 2}), ("audit", {1, 2, 3}), ("main", {2})):
        snapshot = read.metadata.refs[name].snapshot_id
        assert set(read.scan(snapshot_id=snapshot).to_arrow()["i"].to_pylist()) == values
        assert {row[1] for row in oracle.live_rows(table.content(name))} == values


def test_layouts_are_what_was_asked_for(tmp_path: Path) -> None:
    table = Table(tmp_path, {"i": "int", "s": "string"})
    rows = [{"i": index, "s": f"text {index}"} for index in range(1000)]
    file = table.append(rows, row_group_size=100, bloom=("s",), statistics=False, page_checksums=True)
    metadata = pq.ParquetFile(file.path).metadata
    assert metadata.num_row_groups == 10
    assert not metadata.row_group(0).column(0).is_stats_set
    plain = table.append(rows, compression="none", field_ids=False)
    assert pq.ParquetFile(plain.path).metadata.row_group(0).column(0).compression == "UNCOMPRESSED"
    assert pa.schema(pq.ParquetFile(plain.path).schema_arrow).field(0).metadata is None
