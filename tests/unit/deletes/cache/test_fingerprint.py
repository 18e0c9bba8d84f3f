"""Names of kept values: they differ wherever the values could, and tell no path and no secret."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from twostage.deletes.cache import fingerprint
from twostage.options import ReadSettings
from twostage.schema import Schema
from twostage.task import DeleteFile, ScanContext, ScanTask, Storage

DELETE = DeleteFile(
    content="equality",
    format="parquet",
    path="s3://bucket/deletes/a.parquet",
    written_path="s3://bucket/deletes/a.parquet",
    file_size=100,
    record_count=10,
    sequence_number=3,
    equality_ids=(1, 2),
)
VECTOR = replace(
    DELETE,
    content="vector",
    format="puffin",
    content_offset=4,
    content_size=40,
    referenced_data_file="s3://b/x",
)
TASK = ScanTask(
    path="s3://bucket/data/a.parquet",
    written_path="s3://bucket/data/a.parquet",
    format="parquet",
    file_size=100,
    record_count=10,
    start=0,
    length=100,
    sequence_number=3,
    spec_id=0,
)
CONTEXT = ScanContext(
    scan_id="one",
    table="db.t",
    snapshot_id=1,
    schema=Schema(schema_id=0, fields=()),
    projection=(),
    table_uuid="uuid",
    storage=Storage(
        root="s3://bucket/t", properties={"s3.endpoint": "http://here", "s3.secret-access-key": "pw"}
    ),
    settings=ReadSettings(),
)


@pytest.mark.parametrize(
    "changes",
    [
        {"path": "s3://bucket/deletes/b.parquet"},
        {"format": "orc"},
        {"file_size": 101},
        {"record_count": 11},
        {"sequence_number": 4},
        {"equality_ids": (1, 3)},
    ],
    ids=str,
)
def test_another_delete_file_has_another_name(changes: dict[str, Any]) -> None:
    assert fingerprint.of_delete(replace(DELETE, **changes)) != fingerprint.of_delete(DELETE)
    assert fingerprint.of_delete(replace(DELETE, equality_ids=(2, 1))) == fingerprint.of_delete(DELETE)


@pytest.mark.parametrize(
    "changes",
    [
        {"content_offset": 5},
        {"content_size": 41},
        {"referenced_data_file": "s3://b/y"},
        {"content": "position"},
    ],
    ids=str,
)
def test_another_vector_of_a_file_has_another_name(changes: dict[str, Any]) -> None:
    assert fingerprint.of_positions(replace(VECTOR, **changes)) != fingerprint.of_positions(VECTOR)


@pytest.mark.parametrize(
    "changes",
    [
        {"path": "s3://bucket/data/b.parquet"},
        {"format": "orc"},
        {"file_size": 101},
        {"record_count": 11},
        {"sequence_number": 4},
    ],
    ids=str,
)
def test_another_data_file_has_another_name(changes: dict[str, Any]) -> None:
    assert fingerprint.of_data_file(replace(TASK, **changes)) != fingerprint.of_data_file(TASK)


def test_a_part_of_a_data_file_has_its_name() -> None:
    assert fingerprint.of_data_file(replace(TASK, start=50, length=50)) == fingerprint.of_data_file(TASK)


def test_a_set_is_the_same_in_any_order() -> None:
    assert fingerprint.of_set(["a", "b"]) == fingerprint.of_set(["b", "a"]) != fingerprint.of_set(["a"])
    assert fingerprint.of_set(["a", "b"]) != fingerprint.of_set(["ab"])


@pytest.mark.parametrize(
    "changes",
    [
        {"table_uuid": "other"},
        {"name_mapping": ({"field-id": 1, "names": ["a"]},)},
        {"storage": Storage(root="s3://other/t")},
        {"storage": Storage(root="s3://bucket/t", properties={"s3.endpoint": "http://there"})},
        {"settings": ReadSettings(kernels=False)},
        {"settings": ReadSettings(dense_keys=False)},
        {"settings": ReadSettings(verify_checksums=not ReadSettings().verify_checksums)},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_reading_in_another_way_has_another_name(changes: dict[str, Any]) -> None:
    assert fingerprint.of_reading(replace(CONTEXT, **changes)) != fingerprint.of_reading(CONTEXT)


def test_what_decides_nothing_is_not_named() -> None:
    """Another scan, and other credentials: the name is shared by whoever may read the file."""
    secrets = {"s3.endpoint": "http://here", "s3.secret-access-key": "other"}
    other = replace(CONTEXT, scan_id="two", storage=replace(CONTEXT.storage, properties=secrets))
    assert fingerprint.of_reading(other) == fingerprint.of_reading(CONTEXT)
    signed = replace(DELETE, path=DELETE.path + "?X-Amz-Signature=abc")
    again = replace(DELETE, path=DELETE.path + "?X-Amz-Signature=def")
    assert fingerprint.of_delete(signed) == fingerprint.of_delete(again)


def test_a_copy_of_a_table_elsewhere_is_another_table() -> None:
    copied = replace(CONTEXT, storage=Storage(root="s3://bucket/copy"))
    assert fingerprint.of_table(copied) != fingerprint.of_table(CONTEXT)


def test_names_are_hashes() -> None:
    for name in (
        fingerprint.of_delete(DELETE),
        fingerprint.of_positions(VECTOR),
        fingerprint.of_data_file(TASK),
        fingerprint.of_reading(CONTEXT),
        fingerprint.of_table(CONTEXT),
        fingerprint.digest("bucket"),
    ):
        assert len(bytes.fromhex(name)) == 12
