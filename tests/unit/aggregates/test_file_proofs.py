"""What a manifest entry proves of the live rows of its file: what the rows themselves say, or that it is unknown."""

from __future__ import annotations

import json
import math
import struct
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from table_metadata import table_metadata
from twostage.aggregates.file_proofs import ColumnProof, FileProof, FileProofs
from twostage.planning.prune_files import PruneResult
from twostage.schema import Field, Primitive
from twostage.table.manifest_entry import ContentFile
from twostage.table.metadata import parse_metadata
from twostage.table.pinned import PinnedTable
from twostage.task import DeleteFile, Storage

ALL, SOME = PruneResult(None, all_match=True), PruneResult(None)
OLD, NEW = 11, 13
"""Snapshots of the first schema and of the last one."""


def column(number: int, name: str, kind: str, **more: Any) -> dict[str, Any]:
    return {"id": number, "name": name, "type": kind, "required": False, **more}


FIRST = [
    column(1, "a", "int"),
    column(2, "x", "double"),
    column(3, "p", "string"),
    column(4, "ts", "date"),
    column(9, "at", "timestamp"),
    column(10, "day", "date"),
]
LAST = [
    *FIRST[:3],
    *FIRST[4:],
    column(4, "ts", "timestamp"),
    column(15, "added", "int"),
    column(16, "filled", "int", **{"initial-default": 5}),
    column(17, "needed", "int", required=True),
    column(18, "nan", "double"),
]
SPEC = [
    {"source-id": 3, "field-id": 1000, "name": "p", "transform": "identity"},
    {"source-id": 1, "field-id": 1001, "name": "a_bucket", "transform": "bucket[4]"},
    {"source-id": 4, "field-id": 1002, "name": "ts", "transform": "identity"},
    {"source-id": 9, "field-id": 1003, "name": "at", "transform": "identity"},
]


def pinned(**properties: str) -> PinnedTable:
    raw = table_metadata(
        "/t",
        **{
            "format-version": 3,
            "schemas": [
                {"type": "struct", "schema-id": n, "fields": fields} for n, fields in enumerate((FIRST, LAST))
            ],
            "partition-specs": [{"spec-id": 0, "fields": []}, {"spec-id": 1, "fields": SPEC}],
            "properties": properties,
        },
    )
    metadata = parse_metadata(raw, location="/t/metadata/v1.metadata.json")
    snapshot, schema = metadata.current_snapshot, metadata.schema
    return PinnedTable(
        name="t", metadata=metadata, snapshot=snapshot, schema=schema, storage=Storage(root="/t")
    )


TABLE = pinned()
A, X, P, AT, DAY, TS, ADDED, FILLED, NEEDED, _ = TABLE.schema.fields


def file(**changes: Any) -> ContentFile:
    values = {
        "status": 1, "snapshot_id": NEW, "sequence_number": 1, "file_sequence_number": 1, "spec_id": 0, "content": 0,
        "path": "/t/f", "format": "parquet", "partition": {}, "record_count": 10, "file_size": 100, **changes,
    }  # fmt: skip
    return ContentFile(**values)


def delete(content: str, rows: int) -> DeleteFile:
    return DeleteFile(
        content=content, format="puffin", path="/t/d", written_path="/t/d", file_size=1, record_count=rows,
        sequence_number=9,
    )  # fmt: skip


def int_metrics(low: int = 3, high: int = 9, nulls: int = 0, values: int = 10) -> dict[str, Any]:
    return {
        "value_counts": {1: values},
        "null_counts": {1: nulls},
        "lower_bounds": {1: struct.pack("<i", low)},
        "upper_bounds": {1: struct.pack("<i", high)},
    }


def of(
    entry: ContentFile,
    *deletes: DeleteFile,
    groups: tuple[Field, ...] = (),
    pruning: PruneResult = ALL,
    num_deleted: int = 0,
    table: PinnedTable = TABLE,
) -> FileProof | str:
    return FileProofs(table, groups).of(entry, pruning, deletes, num_deleted)


def proven(found: FileProof | str) -> FileProof:
    assert isinstance(found, FileProof), found
    return found


# ---- rows


@pytest.mark.parametrize(
    ("changes", "deletes", "pruning", "reason"),
    [
        ({"format": "avro"}, (), ALL, "a data file has the format avro"),
        ({"record_count": -1}, (), ALL, "a file's rows were not counted"),
        ({"record_count": 0}, (), ALL, "a file's rows were not counted"),
        ({}, (), SOME, "the filter splits the rows of a file"),
        ({}, (delete("equality", 1),), ALL, "a file has equality deletes"),
        ({}, (delete("vector", 1), delete("equality", 1)), ALL, "a file has equality deletes"),
        ({}, (delete("vector", 11),), ALL, "a deletion vector deletes more rows than there are"),
    ],
)
def test_files_to_read(
    changes: dict[str, Any], deletes: tuple[DeleteFile, ...], pruning: PruneResult, reason: str
) -> None:
    assert of(file(**changes), *deletes, pruning=pruning) == reason


def test_live_rows() -> None:
    assert proven(of(file())).rows == 10
    assert proven(of(file(format="orc"))).rows == 10
    assert proven(of(file(), num_deleted=4)).rows == 6
    assert proven(of(file(), delete("vector", 10))).rows == 0


# ---- groups


def test_groups_are_values_of_identity_partitions() -> None:
    entry = file(spec_id=1, partition={1000: "x", 1001: 2, 1002: 5})
    assert proven(of(entry, groups=(P,))).group == ("x",)
    assert proven(of(file(spec_id=1, partition={1000: None}), groups=(P,))).group == (None,)
    for field in (A, X):
        assert of(entry, groups=(P, field)) == f"a file's partition does not determine {field.name}"
    assert (
        of(file(partition={1000: "x"}), groups=(P,)) == "a file's partition does not determine p"
    )  # of another spec
    assert of(file(spec_id=1), groups=(P,)) == "a file's partition does not determine p"


def test_a_timestamp_that_was_a_date_may_be_in_days() -> None:
    entry = file(spec_id=1, partition={1002: 5})
    assert of(entry, groups=(TS,)) == "a file's partition does not determine ts"


def test_a_timestamp_of_orc_may_be_stored_a_second_later() -> None:
    """By ORC's Java writer; the partition value is the original one."""
    partition = {"spec_id": 1, "partition": {1003: 5}}
    assert proven(of(file(**partition), groups=(AT,))).group == (5,)
    assert of(file(format="orc", **partition), groups=(AT,)) == "a file's partition does not determine at"


def test_a_name_mapping_that_moved_a_name_moved_the_partition_too() -> None:
    names = [{"field-id": field.id, "names": [field.name]} for field in TABLE.schema.fields if field != P]
    table = pinned(**{"schema.name-mapping.default": json.dumps(names)})
    entry = file(spec_id=1, partition={1000: "x"})
    assert of(entry, groups=(P,), table=table) == "a file's partition does not determine p"
    assert proven(of(entry, table=table)).column(P) == "a name mapping moved p"


# ---- columns


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        (int_metrics(), ColumnProof(0, 3, 9)),
        (int_metrics(nulls=4), ColumnProof(4, 3, 9)),
        (int_metrics() | {"lower_bounds": {}}, ColumnProof(0, None, 9)),
        (int_metrics(low=9, high=3), ColumnProof(0)),
        (int_metrics(nulls=10) | {"lower_bounds": {}, "upper_bounds": {}}, ColumnProof(10)),
        (int_metrics() | {"format": "orc"}, ColumnProof(0, 3, 9)),
        (int_metrics(nulls=10), "a file has no metrics of a"),  # all NULL, but a bound
        (int_metrics(nulls=11), "a file has no metrics of a"),
        (int_metrics(nulls=-1), "a file has no metrics of a"),
        (int_metrics(values=9), "a file has no metrics of a"),
        (int_metrics() | {"null_counts": {}}, "a file has no metrics of a"),
        ({}, "a file has no metrics of a"),
    ],
)
def test_columns_by_their_metrics(changes: dict[str, Any], expected: ColumnProof | str) -> None:
    assert proven(of(file(**changes))).column(A) == expected


def measured(field: Field, low: bytes, high: bytes, **changes: Any) -> ColumnProof | str:
    counts = {"value_counts": {field.id: 10}, "null_counts": {field.id: 0}}
    bounds = {"lower_bounds": {field.id: low}, "upper_bounds": {field.id: high}}
    return proven(of(file(**counts, **bounds, **changes))).column(field)


def test_bounds_that_are_not_values_of_the_column() -> None:
    """Text may be cut; statistics of ORC have other units; a file that was imported may have milliseconds."""
    assert measured(P, b"a", b"b") == ColumnProof(0)
    days = struct.pack("<i", 5), struct.pack("<i", 9)
    assert measured(DAY, *days) == ColumnProof(0, 5, 9)
    assert measured(DAY, *days, format="orc") == ColumnProof(0)
    for moment, proof in ((1_600_000_000_000_000, True), (1_600_000_000_000, False)):
        raw = struct.pack("<q", moment)
        assert measured(AT, raw, raw) == (ColumnProof(0, moment, moment) if proof else ColumnProof(0))


def test_columns_by_their_partition() -> None:
    entry = file(spec_id=1, partition={1000: "x"})
    assert proven(of(entry)).column(P) == ColumnProof(0, "x", "x")
    assert proven(of(file(spec_id=1, partition={1000: None}))).column(P) == ColumnProof(10)
    counted = file(spec_id=1, partition={1000: "x"}, value_counts={3: 10}, null_counts={3: 1})
    assert proven(of(counted)).column(P) == "the metrics of p contradict the partition"


def test_columns_that_an_older_file_cannot_have() -> None:
    """Its snapshot's schema is from before them."""
    old = proven(of(file(snapshot_id=OLD)))
    assert old.column(ADDED) == ColumnProof(10)
    assert old.column(FILLED) == ColumnProof(0, 5, 5)
    assert old.column(NEEDED) == "needed is required and a file lacks it"
    assert old.column(A) == "a file has no metrics of a"
    nan = Field(id=18, name="nan", type=Primitive("double"), initial_default=math.nan)
    assert old.column(nan) == "the default of nan is NaN"
    text = Field(id=18, name="nan", type=Primitive("double"), initial_default="text")
    assert old.column(text) == "the default of nan is of another type"


@pytest.mark.parametrize("snapshot_id", [NEW, None, 99])
def test_columns_that_a_file_may_have(snapshot_id: int | None) -> None:
    """Added under the last schema, or under nobody knows which."""
    assert proven(of(file(snapshot_id=snapshot_id))).column(ADDED) == "a file has no metrics of added"


def test_a_name_mapping_may_find_a_younger_column() -> None:
    fields = TABLE.schema.fields
    names = json.dumps([{"field-id": field.id, "names": [field.name]} for field in fields])
    found = of(file(snapshot_id=OLD), table=pinned(**{"schema.name-mapping.default": names}))
    assert proven(found).column(ADDED) == "a file has no metrics of added"


# ---- against rows

PACK = {"int": "<i", "double": "<d"}
POOLS = {"int": [None, -7, 0, 7, 8], "double": [None, -1.5, -0.0, 0.0, 2.5, math.nan]}


@st.composite
def files_with_rows(draw: st.DrawFn) -> tuple[Field, list[Any], list[bool], ContentFile]:
    """A column, its rows, which of them are deleted, and an entry that a correct writer may have written."""
    field = draw(st.sampled_from([A, X]))
    kind = str(field.type)
    rows = draw(st.lists(st.sampled_from(POOLS[kind]), min_size=1, max_size=5))
    deleted = [draw(st.booleans()) for _ in rows]
    values = [value for value in rows if value is not None]
    numbers = [value for value in values if value == value]
    packed = lambda value: struct.pack(PACK[kind], value)
    lower = min(numbers, default=None)
    upper = max(numbers, default=None)
    if kind == "double":  # by the spec, zero as a lower bound is -0.0, as an upper one 0.0
        lower = -0.0 if lower == 0 else lower
        upper = 0.0 if upper == 0 else upper
    facts = {
        "value_counts": len(rows),
        "null_counts": len(rows) - len(values),
        "nan_counts": len(values) - len(numbers),
        "lower_bounds": None if lower is None else packed(lower),
        "upper_bounds": None if upper is None else packed(upper),
    }
    stated = {
        name: {field.id: fact}
        for name, fact in facts.items()
        if fact is not None and draw(st.integers(0, 9)) < 9
    }
    return field, rows, deleted, file(record_count=len(rows), **stated)


@settings(max_examples=1_000, deadline=None)
@given(files_with_rows())
def test_proofs_are_what_the_rows_say(drawn: tuple[Field, list[Any], list[bool], ContentFile]) -> None:
    field, rows, deleted, entry = drawn
    live = [value for value, is_deleted in zip(rows, deleted, strict=True) if not is_deleted]
    deletes = (delete("vector", sum(deleted)),) if any(deleted) else ()
    found = proven(of(entry, *deletes))
    assert found.rows == len(live)
    told = found.column(field)
    if isinstance(told, str) or not live:  # a file without live rows has no least value
        return
    values = [value for value in live if value is not None]
    assert told.nulls in (None, len(live) - len(values))
    for bound, extreme in ((told.lower, min), (told.upper, max)):
        if bound is not None:
            assert not any(math.isnan(value) for value in values)
            assert repr(bound) == repr(extreme(values))
