"""What is kept of deletes has another fingerprint wherever building it again might give something else."""

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
from twostage.task import DeleteFile, Storage

K, L = Column(1, "k", "long"), Column(2, "l", "long")
ROOT = Path("/lake/t")


def key_set(scope: str = "scope global", columns: tuple[Column, ...] = (K, L), **changes: Any) -> str:
    context = context_of(changes.pop("root", ROOT), columns, **changes)
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
    "moved": {"storage": Storage(root=str(ROOT), moved_from="s3://old/t")},
    "login": {"storage": Storage(root="s3://user:secret@lake/t")},
    "another login": {"storage": Storage(root="s3://user:other@lake/t")},
    "endpoint": {"storage": Storage(root=str(ROOT), properties={"s3.endpoint": "http://one"})},
    "name mapping": {"name_mapping": ({"field-id": 1, "names": ["k"]},)},
    "scope": {"scope": "scope other"},
    "type": {"columns": (Column(1, "k", "int"), L)},
}


def test_every_change_gives_a_key_set_another_name() -> None:
    named = {"as it was": key_set(), **{name: key_set(**changes) for name, changes in CHANGES.items()}}
    assert len(set(named.values())) == len(named), named
    assert key_set() == named["as it was"]


def test_what_deletes_do_not_depend_on_changes_nothing() -> None:
    assert key_set(settings={"batch_size": 7}, scan_id="other") == key_set()


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
