"""Variants: Spark's two byte strings in all three formats, at every depth; shredded ones are in another file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from check import Columns
from core_scan import Opened, open_table, scan
from twostage.columns import check_spark_types, project_names
from twostage.errors import CorruptFileError
from twostage.predicates.predicate import And, Compare, IsNull, Not, Predicate
from variant_tables import MISSING, ROWS, variant, variant_table

if TYPE_CHECKING:
    from pathlib import Path

    from twostage.schema import Field


def wanted(opened: Opened, *names: str) -> tuple[Field, ...]:
    return project_names(opened.table.schema, names or None)


def read(opened: Opened, *names: str, where: Predicate | None = None) -> dict[int, Any]:
    """Return the last column's values by id, in the form of `oracle`."""
    found = scan(opened, wanted(opened, *names), **({} if where is None else {"predicate": where}))
    return {one[0][1]: one[-1] for one in found.rows}


def shown(value: dict[str, bytes] | None) -> Any:
    return None if value is None else ("struct", (("bytes", value["value"]), ("bytes", value["metadata"])))


@pytest.mark.parametrize("stages", ["true", "false"])
@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
@pytest.mark.parametrize(
    "names", [("metadata", "value"), ("value", "metadata"), ("typed_value", "metadata", "value")]
)
def test_variants_are_read_at_every_depth(
    tmp_path: Path, file_format: str, names: tuple[str, ...], stages: str
) -> None:
    if file_format == "avro" and len(names) == 3:
        names = names[1:]  # only Parquet's are shredded
    opened = open_table(variant_table(tmp_path, file_format, names=names), two_stage=stages)
    check_spark_types(opened.table.schema.fields)
    left = [i for i in range(ROWS) if i != 3]
    assert read(opened, "id", "v") == {i: shown(variant(i)) for i in left}
    c = Columns(opened.table.schema)
    assert read(opened, "id", "v", where=Compare("=", c("id"), 5)) == {5: shown(variant(5))}
    for number, found in read(opened, "id", "deep").items():
        own = shown(variant(number))
        pairs = (("str", "k"), own), (("str", "n"), None)
        inside = ("struct", (("struct", (("map", pairs), ("list", (own,)))),))
        assert found == (inside if number % 5 else None)


@pytest.mark.parametrize("names", [("metadata", "value"), ("metadata", "value", "typed_value")])
@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
def test_variants_are_asked_whether_they_are_null_even_shredded(
    tmp_path: Path, file_format: str, names: tuple[str, ...]
) -> None:
    if file_format == "avro" and len(names) == 3:
        names = names[:2]  # only Parquet's are shredded
    opened = open_table(variant_table(tmp_path, file_format, names=names))
    c = Columns(opened.table.schema)
    missing = [i for i in range(ROWS) if i % MISSING == 0]
    assert sorted(read(opened, "id", where=IsNull(c("v")))) == missing
    both = And((Not(IsNull(c("v"))), Compare("<", c("id"), 9)))
    assert sorted(read(opened, "id", where=both)) == [1, 2, 4, 5, 6, 8]
    assert sorted(read(opened, "id", where=IsNull(c("deep")))) == [i for i in range(ROWS) if i % 5 == 0]


@pytest.mark.parametrize(
    ("names", "code"), [(("metadata",), "TYPE_MISMATCH"), (("metadata", "other"), "TYPE_MISMATCH")]
)
def test_what_is_no_variant_is_a_typed_error(tmp_path: Path, names: tuple[str, ...], code: str) -> None:
    opened = open_table(variant_table(tmp_path, "parquet", names=names))
    with pytest.raises(CorruptFileError, match=code):
        scan(opened, wanted(opened, "v"))


def test_a_variant_without_its_value_is_corrupt(tmp_path: Path) -> None:
    metadata = variant_table(tmp_path, "parquet")
    (path,) = (tmp_path / "data").glob("file-*.parquet")
    table = pq.read_table(path)
    halves = pa.array([{"metadata": b"\x01\x00\x00", "value": None}] * ROWS, table.field("v").type)
    pq.write_table(table.set_column(1, table.field("v"), halves), path)
    opened = open_table(metadata)
    with pytest.raises(CorruptFileError, match=r"CORRUPT_VARIANT.*'v'.*without value"):
        scan(opened, wanted(opened, "v"))
