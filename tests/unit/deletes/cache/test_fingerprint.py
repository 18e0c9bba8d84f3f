"""Names of kept values: they differ wherever the values could, and tell no path and no secret.

Here with contexts made by hand; below, key sets of contexts as scans have them, and delete files on a disk.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from declared.types import Column
from scan_values import context_of, task_of, write_keys
from twostage.deletes.cache import fingerprint
from twostage.deletes.keys.key_columns import key_shape
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
    one, other = (replace(DELETE, path=f"s3://key:{password}@b/a") for password in ("p@w", "other"))
    assert fingerprint.of_delete(one) == fingerprint.of_delete(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("s3://b/t/data/token=a/0.parquet", "s3://b/t/data/token=b/0.parquet"),
        ("/lake/t/data/api_secret=a/0.parquet", "/lake/t/data/api_secret=b/0.parquet"),
        ("s3://b/t/data/sig=a&password=b/0.parquet", "s3://b/t/data/sig=a&password=c/0.parquet"),
        ("s3://b/t/data/mail=me:x@home/0.parquet", "s3://b/t/data/mail=me:y@home/0.parquet"),
        ("abfss://dev@account.dfs.core.windows.net/t/0", "abfss://prod@account.dfs.core.windows.net/t/0"),
        ("s3://b/t/data/a\n/0.parquet", "s3://b/t/data/a\\n/0.parquet"),
    ],
)
def test_what_looks_like_a_secret_in_a_path_tells_files_apart(one: str, other: str) -> None:
    """Partition columns may be named so: two of their files of one size had one name, and rows of the other."""
    tasks = (replace(TASK, path=path) for path in (one, other))
    deletes = [replace(DELETE, path=path) for path in (one, other)]
    contexts = [replace(CONTEXT, storage=replace(CONTEXT.storage, root=path)) for path in (one, other)]
    assert len(set(map(fingerprint.of_data_file, tasks))) == 2
    assert len(set(map(fingerprint.of_delete, deletes))) == 2
    assert len(set(map(fingerprint.of_positions, deletes))) == 2
    assert len(set(map(fingerprint.of_reading, contexts))) == 2
    assert len(set(map(fingerprint.of_table, contexts))) == 2


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


K, L = Column(1, "k", "long"), Column(2, "l", "long")
LAKE = Path("/lake/t")


def name_of_key_set(scope: str = "scope global", columns: tuple[Column, ...] = (K, L), **changes: Any) -> str:
    context = context_of(changes.pop("root", LAKE), columns, **changes)
    delete = DeleteFile(content="equality", format="parquet", path="/lake/t/d", written_path="/lake/t/d",
                        file_size=1, record_count=1, sequence_number=2, equality_ids=(1,))  # fmt: skip
    return fingerprint.of_key_set(context, key_shape(context, task_of(delete), (1,), delete).names, scope)


CHANGES: dict[str, dict[str, Any]] = {
    "kernels": {"settings": {"kernels": False}},
    "dense": {"settings": {"dense_keys": False}},
    "simplify": {"settings": {"simplify_keys": False}},
    "verify": {"settings": {"verify_checksums": False}},
    "snapshot": {"snapshot_id": 2},
    "table": {"table": "other"},
    "uuid": {"table_uuid": "00000000-0000-0000-0000-000000000001"},
    "root": {"root": Path("/lake/u")},
    "moved": {"storage": Storage(root=str(LAKE), moved_from="s3://old/t")},
    "login": {"storage": Storage(root="s3://user:secret@lake/t")},
    "another login": {"storage": Storage(root="s3://user:other@lake/t")},
    "endpoint": {"storage": Storage(root=str(LAKE), properties={"s3.endpoint": "http://one"})},
    "name mapping": {"name_mapping": ({"field-id": 1, "names": ["k"]},)},
    "scope": {"scope": "scope other"},
    "type": {"columns": (Column(1, "k", "int"), L)},
}


def test_every_change_gives_a_key_set_another_name() -> None:
    named = {
        "as it was": name_of_key_set(),
        **{name: name_of_key_set(**changes) for name, changes in CHANGES.items()},
    }
    assert len(set(named.values())) == len(named), named
    assert name_of_key_set() == named["as it was"]


def test_what_deletes_do_not_depend_on_changes_nothing() -> None:
    assert name_of_key_set(settings={"batch_size": 7}, scan_id="other") == name_of_key_set()


@pytest.fixture
def delete(tmp_path: Path) -> DeleteFile:
    return write_keys(tmp_path / "d.parquet", (K, L), [{1: 1, 2: 2}], (1,))


@pytest.mark.parametrize(
    "change",
    [
        {"format": "orc"},
        {"path": "/elsewhere/d.parquet"},
        {"file_size": 1},
        {"record_count": 9},
        {"sequence_number": 6},
        {"equality_ids": (1, 2)},
    ],
    ids=lambda change: next(iter(change)),
)
def test_every_change_gives_a_delete_file_another_name(delete: DeleteFile, change: dict[str, Any]) -> None:
    assert fingerprint.of_delete(replace(delete, **change)) != fingerprint.of_delete(delete)
    assert fingerprint.of_positions(replace(delete, **change)) != fingerprint.of_positions(delete)


def test_a_file_that_was_written_again_has_another_name(delete: DeleteFile) -> None:
    before = fingerprint.of_delete(delete)
    os.utime(delete.path, ns=(1, 1))
    after = fingerprint.of_delete(delete)
    assert after != before
    assert fingerprint.of_delete(delete) == after


def test_names_tell_neither_paths_nor_logins(delete: DeleteFile) -> None:
    signed = replace(delete, path="s3://user:secret@lake/d.parquet")
    assert fingerprint.of_delete(signed) == fingerprint.of_delete(
        replace(delete, path="s3://user:other@lake/d.parquet")
    )
    assert set(fingerprint.of_delete(signed)) <= set("0123456789abcdef")
    assert len(fingerprint.of_delete(signed)) == 24


def test_equality_ids_are_a_set(delete: DeleteFile) -> None:
    one, other = (replace(delete, equality_ids=ids) for ids in ((1, 2), (2, 1)))
    assert fingerprint.of_delete(one) == fingerprint.of_delete(other)
    assert fingerprint.of_set(["a", "b"]) == fingerprint.of_set(["b", "a"])


SECRETS = {
    "s3.access-key-id": "canary",
    "s3.secret-access-key": "canary",
    "s3.session-token": "canary",
    "gcs.oauth2.token": "canary",
    "adls.sas-token": "canary",
}


def of_store(properties: dict[str, str]) -> tuple[tuple[str, str], ...]:
    return fingerprint.of_store(Storage(properties=properties))


@pytest.mark.parametrize(
    "name",
    [
        *("s3.endpoint", "gcs.service.host", "adls.account-name", "adls.blob-storage-authority", "hdfs.host"),
        *("adls.blob-storage-scheme", "hdfs.port", "gcs.project-id"),
    ],
)
def test_stores_differ_by_where_they_are(name: str) -> None:
    one, other = of_store({name: "http://one", **SECRETS}), of_store({name: "http://other", **SECRETS})
    assert one != other
    assert "canary" not in str(one)
    assert of_store({name: "http://one"}) == one


def test_a_login_in_an_address_is_masked() -> None:
    assert "canary" not in str(of_store({"s3.endpoint": "http://me:canary@host"}))
