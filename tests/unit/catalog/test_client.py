"""A REST catalog in this process: configuration, names, vended credentials, refusals."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rest_catalog import CONFS, TOKEN, VENDED, confs_of, error
from twostage.catalog.browse import list_namespaces, list_tables, table_exists
from twostage.catalog.load_table import load_table
from twostage.errors import NotFoundError, StorageError
from twostage.options import parse_options

if TYPE_CHECKING:
    from rest_catalog import Rest


def test_vended_credentials(rest: Rest) -> None:
    table = load_table(parse_options({"path": "r.db.events", "branch": "audit"}), confs_of(rest))
    assert table.snapshot is not None
    assert table.snapshot.snapshot_id == 21
    assert table.metadata.metadata_location == "s3://lake/db/events/metadata/00001-x.metadata.json"
    assert table.storage.root == "s3://lake/db/events"
    assert dict(table.storage.properties) == {
        "s3.access-key-id": "vended",
        "s3.secret-access-key": VENDED,
        "s3.endpoint": "http://127.0.0.1:1",
    }
    assert VENDED not in repr(table)
    assert ("/v1/namespaces/db/tables/events", f"Bearer {TOKEN}") in rest.seen


def test_names(rest: Rest) -> None:
    confs = confs_of(rest)
    assert list_namespaces("r", (), confs) == [("db",)]
    assert list_tables("r", ("db",), confs) == ["events"]
    assert table_exists("r", ("db",), "events", confs)
    assert not table_exists("r", ("db",), "evnts", confs)
    with pytest.raises(NotFoundError) as caught:
        load_table(parse_options({"path": "r.db.evnts"}), confs)
    assert caught.value.code == "TABLE_NOT_FOUND"
    assert caught.value.hint == "Did you mean 'events'?"


@pytest.mark.parametrize(
    ("status", "code", "transient"),
    [
        (401, "CATALOG_DENIED", False),
        (403, "CATALOG_DENIED", False),
        (419, "CATALOG_DENIED", False),
        (400, "CATALOG_FAILED", False),
        (500, "CATALOG_FAILED", True),
        (503, "CATALOG_FAILED", True),
    ],
)
def test_refusals(rest: Rest, status: int, code: str, transient: bool) -> None:
    rest.answers["/v1/namespaces/db/tables/events"] = (status, error("Refused", f"no, {TOKEN}"))
    with pytest.raises(StorageError) as caught:
        load_table(parse_options({"path": "r.db.events"}), confs_of(rest))
    assert (caught.value.code, caught.value.transient) == (code, transient)
    assert TOKEN not in str(caught.value)


def test_nobody_there(rest: Rest) -> None:
    confs = {**confs_of(rest), f"{CONFS}.uri": "http://127.0.0.1:1"}
    with pytest.raises(StorageError) as caught:
        load_table(parse_options({"path": "r.db.events"}), confs)
    assert caught.value.code == "CATALOG_FAILED"
    assert caught.value.transient
