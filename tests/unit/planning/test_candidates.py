"""Tasks of whole data files: their values and expected bytes; what cannot be read is refused by name."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from table_metadata import table_metadata
from twostage.errors import CorruptFileError, ForbiddenLocationError, UnsupportedFeatureError
from twostage.options import ReadSettings
from twostage.planning.candidates import (
    OPEN_COST_BYTES,
    STAGE_TWO_SHARE,
    TOP_N_STAGE_TWO_SHARE,
    CandidateBuilder,
)
from twostage.predicates.predicate import TRUE, Column, Compare
from twostage.predicates.top import TopRows
from twostage.schema import Primitive, Struct
from twostage.table.manifest_entry import ContentFile
from twostage.table.metadata import parse_metadata
from twostage.table.metadata_columns import FILE, MetadataColumnValues
from twostage.table.pinned import PinnedTable
from twostage.task import DeleteFile, Storage

if TYPE_CHECKING:
    from collections.abc import Iterable

    from twostage.predicates.predicate import Predicate

PATH = "/t/data/f.parquet"
SIZES = {1: 1_000, 2: 20_000, 4: 300_000}
LONG = {"type": "long", "required": False}
SCHEMA = [
    {"id": 1, "name": "a", **LONG},
    {"id": 2, "name": "b", **LONG},
    {"id": 3, "name": "s", "type": {"type": "struct", "fields": [{"id": 4, "name": "x", **LONG}]}, "required": False},
]  # fmt: skip
DROPPED = {"id": 9, "name": "gone", "type": "string", "required": False}
SPEC = [
    {"source-id": 1, "field-id": 1000, "name": "a", "transform": "identity"},
    {"source-id": 9, "field-id": 1001, "name": "gone", "transform": "identity"},
    {"source-id": 2, "field-id": 1002, "name": "b", "transform": "bucket[4]"},
]
A = Column(1, ("a",), Primitive("long"))
ON_A = Compare(">", A, 5)


def pinned(storage: Storage = Storage(root="/t")) -> PinnedTable:
    raw = table_metadata(
        "/t",
        **{
            "schemas": [
                {"type": "struct", "schema-id": 0, "fields": [*SCHEMA, DROPPED]},
                {"type": "struct", "schema-id": 1, "fields": SCHEMA},
            ],
            "partition-specs": [{"spec-id": 0, "fields": []}, {"spec-id": 1, "fields": SPEC}],
        },
    )
    metadata = parse_metadata(raw, location="/t/metadata/v1.metadata.json")
    snapshot, schema = metadata.current_snapshot, metadata.schema
    return PinnedTable(name="t", metadata=metadata, snapshot=snapshot, schema=schema, storage=storage)


def builder(
    names: Iterable[str] = ("a", "b", "s"),
    predicate: Predicate = TRUE,
    *,
    table: PinnedTable | None = None,
    top: TopRows | None = None,
    used: Iterable[int] = (),
    **settings: Any,
) -> CandidateBuilder:
    table = table or pinned()
    projection = tuple(field for field in table.schema.fields if field.name in names)
    columns = MetadataColumnValues(frozenset(used), Struct(()))
    return CandidateBuilder(table, ReadSettings(**settings), projection, predicate, top, columns)


def file(**changes: Any) -> ContentFile:
    values = {
        "status": 1, "snapshot_id": 1, "sequence_number": 4, "file_sequence_number": 4, "spec_id": 0, "content": 0,
        "path": PATH, "format": "parquet", "partition": {}, "record_count": 10, "file_size": 600_000,
        "column_sizes": SIZES, **changes,
    }  # fmt: skip
    return ContentFile(**values)


def equality(*ids: int) -> DeleteFile:
    return DeleteFile(
        content="equality", format="parquet", path="/t/e", written_path="/t/e", file_size=1, record_count=1,
        sequence_number=9, equality_ids=ids,
    )  # fmt: skip


def cost(built: CandidateBuilder, *deletes: DeleteFile, all_match: bool = False, **changes: Any) -> int:
    """Return the expected bytes without those of opening the file."""
    return built.build(file(**changes), deletes, None, all_match=all_match).cost - OPEN_COST_BYTES


# ---- costs


def test_without_a_filter_all_columns_are_read_once() -> None:
    assert cost(builder()) == 321_000
    assert cost(builder(["b"])) == 20_000
    assert cost(builder(["b"], two_stage=False)) == 20_000


def test_a_filter_leaves_a_share_of_the_other_columns() -> None:
    assert cost(builder(["b", "s"], ON_A)) == 1_000 + STAGE_TWO_SHARE * 320_000
    assert cost(builder(["a"], ON_A)) == 1_000  # no column twice
    assert cost(builder(["b", "s"], ON_A, two_stage=False)) == 321_000
    assert cost(builder(["b", "s"], ON_A), all_match=True) == 320_000


def test_a_column_that_is_filtered_and_returned_is_read_where_all_rows_match() -> None:
    assert cost(builder(["a"], ON_A), all_match=True) == cost(builder(["a"]))


def test_keys_of_deletes_are_read_like_columns_of_filters() -> None:
    assert cost(builder(["b"]), equality(1)) == 1_000 + STAGE_TWO_SHARE * 20_000
    assert cost(builder(["a", "b"]), equality(1)) == 1_000 + STAGE_TWO_SHARE * 20_000  # no column twice
    assert cost(builder(["b"], ON_A), equality(1, 4)) == 301_000 + STAGE_TWO_SHARE * 20_000
    assert cost(builder(["b"], ON_A), equality(4), all_match=True) == 300_000 + STAGE_TWO_SHARE * 20_000


def test_a_top_n_reads_little_but_its_column() -> None:
    top = TopRows(column=A, count=3, descending=False, nulls_first=False)
    assert cost(builder(top=top)) == 1_000 + int(TOP_N_STAGE_TWO_SHARE * 320_000)
    assert cost(builder(top=top), all_match=True) == 1_000 + int(TOP_N_STAGE_TWO_SHARE * 320_000)
    assert cost(builder(["b", "s"], top=top, two_stage=False)) == 321_000


def test_without_column_sizes_each_leaf_has_an_equal_part() -> None:
    assert cost(builder(["b"]), column_sizes={}) == 200_000
    assert cost(builder(["b", "s"], ON_A), column_sizes={}) == 200_000 + STAGE_TWO_SHARE * 400_000
    assert cost(builder(["b"]), column_sizes={1: 5}) == 0  # stated, and not of this column


def test_the_cost_of_all_rows_counts_stage_two_in_full() -> None:
    built = builder(["b"], ON_A)
    for _ in range(2):
        cost(built)
    assert built.cost_of_all_rows == 2 * (OPEN_COST_BYTES + 21_000)


# ---- tasks


def test_a_task_is_of_all_bytes_of_its_file() -> None:
    found = builder().build(
        file(first_row_id=70, split_offsets=(4, 900)), (equality(1),), "set", all_match=True
    )
    task = found.task
    assert (task.path, task.written_path, task.start, task.length) == (PATH, PATH, 0, 600_000)
    assert (task.record_count, task.sequence_number, task.first_row_id) == (10, 4, 70)
    assert (task.deletes, task.delete_set, task.all_match) == ((equality(1),), "set", True)
    assert found.split_offsets == (4, 900)


def test_identity_partitions_are_constants() -> None:
    """Dropped columns too: an equality delete may name one."""
    entry = file(spec_id=1, partition={1000: 7, 1001: "x", 1002: 3})
    assert builder().build(entry, (), None, all_match=False).task.constants == {1: 7, 9: "x"}
    with_path = builder(used=[FILE]).build(entry, (), None, all_match=False)
    assert with_path.task.constants == {1: 7, 9: "x", FILE: PATH}


def test_files_with_key_metadata_are_noted() -> None:
    built = builder()
    built.build(file(), (), None, all_match=False)
    assert built.with_key_metadata == {}
    built.build(file(path="/t/data/g", key_metadata=b"key"), (), None, all_match=False)
    assert built.with_key_metadata == {"/t/data/g": "Data file"}


# ---- refusals


def test_other_formats_are_refused() -> None:
    with pytest.raises(UnsupportedFeatureError, match=r"UNSUPPORTED_FILE_FORMAT.*vortex.*/t/data/f\.parquet"):
        builder().build(file(format="vortex"), (), None, all_match=False)


def test_partition_values_of_another_type_are_refused_with_the_files_name() -> None:
    entry = file(spec_id=1, partition={1000: "text"})
    with pytest.raises(CorruptFileError, match=r"CORRUPT_MANIFEST.*type long: 'text'.*/t/data/f\.parquet"):
        builder().build(entry, (), None, all_match=False)


def test_files_outside_the_table_are_refused() -> None:
    with pytest.raises(ForbiddenLocationError):
        builder().build(file(path="s3://elsewhere/f"), (), None, all_match=False)


def test_two_files_of_a_moved_table_at_one_place_are_refused(tmp_path: Any) -> None:
    """Only one of them was copied, and its rows would be returned for both."""
    (tmp_path / "f.parquet").touch()
    storage = Storage(root=str(tmp_path), moved_from="s3://old/t")
    built = builder(table=replace(pinned(), storage=storage))
    for written in ("s3://one/f.parquet", "s3a://one/f.parquet"):  # two forms of one path
        task = built.build(file(path=written), (), None, all_match=False).task
        assert (task.path, task.written_path) == (str(tmp_path / "f.parquet"), written)
    with pytest.raises(ForbiddenLocationError, match=r"AMBIGUOUS_LOCATION.*s3://one/f.* and s3://two/d/f"):
        built.build(file(path="s3://two/d/f.parquet"), (), None, all_match=False)
