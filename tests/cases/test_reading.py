"""What lies between a plan and its rows: stated sizes, steps of the reader, what a process keeps of files."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from check import check, ids
from core_scan import open_table, scan
from tables import Table
from twostage.data_files import parquet_file
from twostage.data_files.parquet_file import ParquetDataFile
from twostage.errors import CorruptFileError, ForbiddenLocationError
from twostage.predicates.predicate import Compare, IsNull, Not
from twostage.reading import stage_two

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
@pytest.mark.parametrize("stated", [0, 100, 10**7])
def test_a_wrong_file_size_in_the_manifest_loses_no_rows(
    tmp_path: Path, file_format: str, stated: int
) -> None:
    table = Table(tmp_path / "t", {"id": "long", "name": "string"})
    with table.transaction():
        rows = ids(3000, name=lambda i: f"{i:050}")
        file = table.append(rows, row_group_size=500, format=file_format, mixed=file_format != "parquet")
        file.entry["file_size_in_bytes"] = stated
    check(table, range(3000))


@pytest.mark.parametrize("two_stage", ["true", "false"])
def test_steps_shorter_than_the_batch_size_lose_no_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, two_stage: str
) -> None:
    """As pyarrow makes them where a batch's text would pass 2 GiB: 65,536 rows of 33 kB."""
    read = ParquetDataFile._iterate

    def in_short_steps(*arguments: Any) -> Iterator[list[pa.Array]]:
        for arrays in read(*arguments):
            for start in range(0, len(arrays[0]), 7):
                yield [array.slice(start, 7) for array in arrays]

    monkeypatch.setattr(ParquetDataFile, "_iterate", in_short_steps)
    table = Table(tmp_path / "t", {"id": "long", "name": "string"})
    table.append(ids(100, name=str))
    check(table, range(100), two_stage=two_stage)
    check(table, range(30, 100), lambda c: Compare(">=", c("id"), 30), two_stage=two_stage)


def test_text_beyond_the_reach_of_its_offsets_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("twostage.formats.promotion.MAX_TEXT_BYTES", 100)
    monkeypatch.setattr(
        "twostage.data_files.parquet_file.one_array",
        lambda column: column.combine_chunks().cast(pa.large_string()),
    )
    table = Table(tmp_path / "t", {"id": "long", "name": "string"})
    table.append(ids(100, name=lambda i: f"{i:03}"))
    result = check(table, range(50, 100), lambda c: Compare(">=", c("name"), "050"), select=["name"])
    assert len(result.rows) == 50


def test_large_rows_are_not_gathered_into_one_batch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stage_two, "MAX_JOINED_BYTES", 10_000)
    table = Table(tmp_path / "t", {"id": "long", "name": "string"})
    table.append(ids(90, name=lambda i: f"{i:01000}"))
    result = check(table, range(90), batch_size="3")
    assert result.batch_sizes == [3] * 30
    opened = open_table(table.folder)
    batches = stage_two.joined(iter([pa.record_batch({"a": ["x" * 4000]})] * 5), 65_536)
    assert [batch.num_rows for batch in batches] == [2, 2, 1]
    assert sum(scan(opened).batch_sizes) == 90


@pytest.mark.parametrize("kind", ["none", "position", "vector", "equality"])
def test_a_table_made_anew_in_the_same_place_is_read_anew(tmp_path: Path, kind: str) -> None:
    """Same names, sizes and snapshot id, other rows: nothing that the process kept may serve."""
    for first in (0, 1000):
        shutil.rmtree(tmp_path / "t", ignore_errors=True)
        table = Table(tmp_path / "t", {"id": "long"}, version=3 if kind == "vector" else 2)
        file = table.append(
            [{"id": first + i} for i in range(100)], compression="none", dictionary=False, metrics="none"
        )
        gone = 3 if first else 7
        if kind == "position":
            table.delete_positions({file: [gone]})
        elif kind == "vector":
            table.delete_vectors({file: [gone]})
        elif kind == "equality":
            table.delete_equal(["id"], [{"id": 1000 + gone}], metrics="none")
        left = {first + i for i in range(100)} - ({first + gone} if kind != "none" else set())
        check(table, {i for i in left if i >= 1000}, lambda c: Compare(">=", c("id"), 1000))


@pytest.mark.parametrize("kind", ["timestamp_ns", "timestamptz_ns"])
def test_nanoseconds_that_spark_cannot_carry_are_still_keys_and_tests(tmp_path: Path, kind: str) -> None:
    table = Table(tmp_path / "t", {"id": "long", "moment": kind}, version=3)
    table.append(ids(4, moment=[1, 2, None, -1]))
    table.delete_equal(["moment"], [{"moment": 2}])
    check(table, [2], lambda c: IsNull(c("moment")), select=[])
    check(table, [0, 3], lambda c: Not(IsNull(c("moment"))), select=[])
    check(table, [0, 2, 3], select=[])


def test_one_field_id_on_two_columns_of_a_file_is_refused(tmp_path: Path) -> None:
    table = Table(tmp_path / "t", {"id": "long", "name": "long"})
    with table.transaction():
        file = table.append(ids(1, name=[5]))
        fields = [
            pa.field(name, pa.int64(), metadata={"PARQUET:field_id": field_id})
            for name, field_id in (("id", "1"), ("name", "2"), ("old", "2"))
        ]
        columns = [pa.array([number]) for number in range(3)]
        pq.write_table(pa.Table.from_arrays(columns, schema=pa.schema(fields)), file.path)
        file.entry["file_size_in_bytes"] = Path(file.path).stat().st_size
    with pytest.raises(CorruptFileError, match=r"\[TWOSTAGE.DUPLICATE_FIELD_ID\].*: 2; file .*parquet"):
        scan(open_table(table.write()))


def test_wide_rows_are_read_in_small_steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A step holds about BATCH_BYTES, however many rows the batch size allows."""
    monkeypatch.setattr(parquet_file, "BATCH_BYTES", 100_000)
    monkeypatch.setattr(stage_two, "MAX_JOINED_BYTES", 1)
    table = Table(tmp_path / "t", {"id": "long", "name": "string"})
    table.append(ids(250, name=lambda i: f"{i:01000}"), dictionary=False)
    result = check(table, range(250), select=["name"])
    assert all(64 <= size <= 100 for size in result.batch_sizes[:-1])
    assert len(result.batch_sizes) > 2


def test_two_files_of_a_moved_table_that_lead_to_one_are_refused(tmp_path: Path) -> None:
    table = Table(tmp_path / "t", {"id": "long"})
    with table.transaction():
        files = [table.append([{"id": 1}]), table.append([{"id": 2}])]
        for name, file in zip("ab", files, strict=True):
            file.entry["file_path"] = f"/elsewhere/{name}/data/file-0.parquet"
    (tmp_path / "t" / "data" / "file-0.parquet").write_bytes(Path(files[0].path).read_bytes())
    opened = open_table(table.write(), allow_moved_paths="true")
    with pytest.raises(ForbiddenLocationError, match="AMBIGUOUS_LOCATION"):
        scan(opened)


@pytest.mark.parametrize("name", ["element", "item", "array", "bag", "my_tuple"])
def test_elements_of_a_list_are_mapped_whatever_the_file_calls_them(tmp_path: Path, name: str) -> None:
    """A name mapping says ``element``, ``key`` and ``value``; sub-fields behind other names were NULL."""
    columns = {"id": "long", "l": [{"a": "int"}], "m": ("map", "string", {"a": "int"})}
    table = Table(tmp_path / "t", columns, name_mapping=True)
    with table.transaction():
        file = table.append([{"id": 0, "l": [{"a": 1}], "m": {"k": {"a": 2}}}], field_ids=False)
        inner = pa.struct([("a", pa.int32())])
        pairs = pa.map_(
            pa.field(f"{name}_key", pa.string(), nullable=False), pa.field(f"{name}_value", inner)
        )
        fields = [("id", pa.int64()), ("l", pa.list_(pa.field(name, inner))), ("m", pairs)]
        rows = [{"id": 0, "l": [{"a": 1}], "m": [("k", {"a": 2})]}]
        pq.write_table(
            pa.Table.from_pylist(rows, pa.schema(fields)), file.path, use_compliant_nested_type=False
        )
        file.entry["file_size_in_bytes"] = Path(file.path).stat().st_size
    ((_, elements, values),) = scan(open_table(table.write())).rows
    assert elements == ("list", (("struct", (("int", 1),)),))
    assert values == ("map", ((("str", "k"), ("struct", (("int", 2),))),))
