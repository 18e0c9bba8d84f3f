"""Table metadata: what each version's writers leave out, and what is refused."""

from __future__ import annotations

import copy
import gzip
import json
import os
import pickle
from pathlib import Path

import pytest

from twostage.errors import CorruptFileError, ResourceLimitError, TwoStageError, UnsupportedFeatureError
from twostage.table.metadata import Reference, parse_metadata, parse_metadata_bytes

TABLES = os.environ.get("TWOSTAGE_TABLES")
LOCATION = "s3://lake/t/metadata/v1.metadata.json"
FIELDS = [{"id": 1, "name": "a", "required": False, "type": "int"}]
VERSION_2 = {
    "format-version": 2,
    "table-uuid": "9c12d441-03fe-4693-9a96-a0705ddf69c1",
    "location": "s3://lake/t/",
    "last-sequence-number": 7,
    "schemas": [{"schema-id": 0, "fields": FIELDS}, {"schema-id": 4, "fields": FIELDS}],
    "current-schema-id": 4,
    "partition-specs": [
        {"spec-id": 0, "fields": []},
        {"spec-id": 2, "fields": [{"source-id": 1, "field-id": 1005, "name": "b", "transform": "Bucket[4]"}]},
    ],
    "default-spec-id": 2,
    "current-snapshot-id": 11,
    "snapshots": [
        {"snapshot-id": 10, "timestamp-ms": 100, "sequence-number": 1, "manifest-list": "s3://lake/t/a.avro"},
        {
            "snapshot-id": 11,
            "parent-snapshot-id": 10,
            "timestamp-ms": 200,
            "sequence-number": 2,
            "manifest-list": "s3://lake/t/b.avro",
            "schema-id": 0,
            "summary": {"operation": "append"},
        },
    ],
    "refs": {"main": {"snapshot-id": 11, "type": "branch"}, "v1": {"snapshot-id": 10, "type": "TAG"}},
    "snapshot-log": [{"timestamp-ms": 100, "snapshot-id": 10}, {"timestamp-ms": 200, "snapshot-id": 11}],
    "properties": {"owner": "x"},
}


def changed(**changes):
    raw = copy.deepcopy(VERSION_2)
    for key, value in changes.items():
        name = key.replace("_", "-")
        raw.pop(name, None)
        if value is not ...:
            raw[name] = value
    return raw


def test_version_2():
    metadata = parse_metadata(VERSION_2, location=LOCATION)
    assert metadata.location == "s3://lake/t"
    assert metadata.metadata_location == LOCATION
    assert metadata.schema.schema_id == 4
    assert metadata.current_snapshot.parent_id == 10
    assert metadata.schema_of(metadata.snapshots[11]).schema_id == 0
    assert metadata.schema_of(metadata.snapshots[10]).schema_id == 4
    field = metadata.specs[2].fields[0]
    assert (field.source_id, field.field_id, field.transform) == (1, 1005, "bucket[4]")
    assert metadata.refs == {
        "main": Reference(snapshot_id=11, kind="branch"),
        "v1": Reference(snapshot_id=10, kind="tag"),
    }
    assert metadata.snapshot_log == ((100, 10), (200, 11))
    assert pickle.loads(pickle.dumps(metadata)) == metadata


def test_version_1_in_its_oldest_form():
    metadata = parse_metadata(
        {
            "format-version": 1,
            "location": "/t",
            "last-column-id": 2,
            "schema": {"type": "struct", "fields": FIELDS},
            "partition-spec": [
                {"source-id": 1, "name": "x", "transform": "identity"},
                {"source-id": 1, "name": "y", "transform": "bucket[2]"},
            ],
            "current-snapshot-id": 3,
            "snapshots": [{"snapshot-id": 3, "timestamp-ms": 1, "manifests": ["/t/m0.avro", "/t/m1.avro"]}],
        },
        location="/t/metadata/v1.metadata.json",
    )
    assert metadata.table_uuid is None
    assert [field.field_id for field in metadata.specs[0].fields] == [1000, 1001]
    assert metadata.current_snapshot.manifests == ("/t/m0.avro", "/t/m1.avro")
    assert metadata.current_snapshot.sequence_number == 0
    assert metadata.refs == {"main": Reference(snapshot_id=3, kind="branch")}


def test_version_3_with_several_sources_row_lineage_and_keys():
    spec = {
        "spec-id": 0,
        "fields": [{"source-ids": [1, 2], "field-id": 1000, "name": "m", "transform": "zcurve"}],
    }
    metadata = parse_metadata(
        changed(
            format_version=3,
            next_row_id=12,
            encryption_keys=[{"key-id": "k"}],
            partition_specs=[spec],
            default_spec_id=0,
        ),
        location=LOCATION,
    )
    assert metadata.specs[0].fields[0].source_ids == (1, 2)


@pytest.mark.parametrize("current", [-1, None, ...])
def test_no_current_snapshot(current):
    metadata = parse_metadata(changed(current_snapshot_id=current, refs=...), location=LOCATION)
    assert metadata.current_snapshot is None
    assert metadata.refs == {}


def test_a_spec_of_void_fields_divides_nothing():
    fields = [{"source-id": 1, "field-id": 1000, "name": "v", "transform": "void"}]
    metadata = parse_metadata(changed(partition_specs=[{"spec-id": 2, "fields": fields}]), location=LOCATION)
    assert metadata.specs[2].is_unpartitioned
    assert not parse_metadata(VERSION_2, location=LOCATION).specs[2].is_unpartitioned


@pytest.mark.parametrize("version", [4, 99])
def test_unknown_versions_are_refused_by_name(version):
    with pytest.raises(UnsupportedFeatureError, match=rf"UNSUPPORTED_FORMAT_VERSION.*{version}.*v1.metadata"):
        parse_metadata(changed(format_version=version), location=LOCATION)


SCHEMA_TWICE = [{"schema-id": 4, "fields": FIELDS}, {"schema-id": 4, "fields": []}]


@pytest.mark.parametrize(
    "raw",
    [
        [],
        {},
        changed(format_version="x"),
        changed(format_version=True),
        changed(format_version=0),
        changed(location=...),
        changed(schemas=...),
        changed(schemas=[]),
        changed(schemas=SCHEMA_TWICE),
        changed(schemas=[{"schema-id": 4, "fields": FIELDS * 2}]),
        changed(schemas=[{"schema-id": 4, "fields": [{"id": 1, "name": "a", "type": "quux"}]}]),
        changed(current_schema_id=5),
        changed(current_schema_id="4"),
        changed(current_snapshot_id=12),
        changed(current_snapshot_id=11.5),
        changed(snapshots=[{"timestamp-ms": 1}]),
        changed(snapshots=[None]),
        changed(snapshots=7),
        changed(partition_specs=[{"spec-id": 2}]),
        changed(partition_specs=[{"spec-id": 2, "fields": [{"field-id": 1000, "name": "a"}]}]),
        changed(refs={"main": {}}),
        changed(refs=["main"]),
        changed(snapshot_log=[[1, 2]]),
        changed(properties=["a"]),
    ],
)
def test_malformed_metadata_is_an_error_that_names_the_file(raw):
    with pytest.raises(CorruptFileError, match=r"\[TWOSTAGE.CORRUPT_METADATA\].*v1.metadata.json"):
        parse_metadata(raw, location=LOCATION)


def test_each_missing_or_replaced_value_is_read_or_refused():
    """Replace every value of the JSON by nonsense: a typed error or metadata, nothing else."""
    refused = 0

    def paths(node, path=()):
        if path:
            yield path
        items = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
        for key, child in items:
            yield from paths(child, (*path, key))

    for path in paths(VERSION_2):
        for nonsense in (None, -1, "x", [], {}, [[]], 2**70, 1.5, True):
            raw = copy.deepcopy(VERSION_2)
            node = raw
            for key in path[:-1]:
                node = node[key]
            node[path[-1]] = nonsense
            try:
                parse_metadata(raw, location=LOCATION)
            except TwoStageError as error:
                assert error.path == LOCATION  # noqa: PT017
                refused += 1
    assert refused > 200


def test_bytes_are_json_plain_or_gzip_whatever_the_name():
    data = json.dumps(VERSION_2).encode()
    expected = parse_metadata(VERSION_2, location=LOCATION)
    assert parse_metadata_bytes(data, location=LOCATION) == expected
    assert parse_metadata_bytes(gzip.compress(data), location=LOCATION) == expected


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"\xff\xfe{}",
        b"[" * 100_000,
        b"null",
        gzip.compress(json.dumps(VERSION_2).encode(), mtime=0)[:-9],
        gzip.compress(b"x" * 100, mtime=0)[:20] + b"garbage" * 9,
        b"\x1f\x8b",
    ],
)
def test_bytes_that_are_no_metadata(data):
    with pytest.raises(CorruptFileError, match=r"CORRUPT_METADATA.*v1.metadata.json"):
        parse_metadata_bytes(data, location=LOCATION)


@pytest.mark.parametrize("left_out", [None, "view-uuid"])
def test_a_view_is_refused_by_name(left_out):
    """Its metadata has a format version, a location and schemas too: it passed for a table without rows."""
    raw = {
        "view-uuid": "fa6506c3-7681-40c8-86dc-e36561f83385",
        "format-version": 1,
        "location": "/lake/view",
        "current-version-id": 1,
        "schemas": [{"schema-id": 0, "type": "struct", "fields": []}],
        "versions": [{"version-id": 1, "timestamp-ms": 1, "schema-id": 0, "representations": []}],
        "version-log": [{"version-id": 1, "timestamp-ms": 1}],
    }
    raw.pop(left_out, None)
    with pytest.raises(UnsupportedFeatureError, match=r"UNSUPPORTED_VIEW.*/lake/v\.json"):
        parse_metadata(raw, location="/lake/v.json")


def test_a_gzip_bomb_is_refused(monkeypatch):
    monkeypatch.setattr("twostage.table.metadata.MAX_METADATA_BYTES", 10_000)
    bomb = gzip.compress(b"[" + b" " * 9_000_000 + b"]")
    assert len(bomb) < 10_000
    with pytest.raises(ResourceLimitError, match="METADATA_TOO_LARGE"):
        parse_metadata_bytes(bomb, location=LOCATION)


@pytest.mark.skipif(TABLES is None, reason="TWOSTAGE_TABLES names no folder of tables")
def test_every_real_table():
    listed = json.loads((Path(TABLES) / "tables.json").read_text())
    assert listed
    for table in listed:
        path = Path(TABLES) / table["metadata"]
        metadata = parse_metadata_bytes(path.read_bytes(), location=str(path))
        assert metadata.format_version == table["format_version"], table["table"]
        assert len(metadata.snapshots) == table["snapshots"], table["table"]
        assert len(metadata.schemas) == table["schemas"], table["table"]
        assert set(table["refs"]) <= set(metadata.refs), table["table"]


@pytest.mark.parametrize(
    ("orders", "default", "expected"),
    [
        (
            [
                {
                    "order-id": 1,
                    "fields": [
                        {"source-id": 1, "transform": "identity"},
                        {"source-id": 3, "transform": "identity"},
                    ],
                }
            ],
            1,
            (1, 3),
        ),
        (
            [
                {
                    "order-id": 1,
                    "fields": [
                        {"source-id": 1, "transform": "identity"},
                        {"source-id": 3, "transform": "day"},
                    ],
                }
            ],
            1,
            (1,),
        ),
        ([{"order-id": 1, "fields": [{"source-id": 1, "transform": "bucket[4]"}]}], 1, ()),
        ([{"order-id": 1, "fields": [{"source-id": 1, "transform": "identity"}]}], 0, ()),
        ([{"order-id": 1}, 7, None], 1, ()),
        ({"order-id": 1}, 1, ()),
        ([{"order-id": 1, "fields": [5]}], 1, ()),
        (None, None, ()),
    ],
)
def test_what_a_table_is_sorted_by(orders, default, expected):
    """Reads do not need it: a malformed order refuses no table."""
    raw = changed(sort_orders=orders, default_sort_order_id=default)
    assert parse_metadata(raw, location=LOCATION).sorted_by == expected


@pytest.mark.parametrize(("given", "expected"), [(2, 2), (0, 0), (9, 0), ("2", 0), (..., 0)])
def test_the_default_partition_spec(given, expected):
    assert parse_metadata(changed(default_spec_id=given), location=LOCATION).default_spec_id == expected
