"""A REST catalog that vends new credentials with every answer: a warm query asks the store for nothing, for the same user."""

from __future__ import annotations

import json

import pytest

from core_scan import Opened
from late_store import serve_late
from rest_catalog import serve_rest
from tables import Table
from twostage.catalog.load_table import load_table
from twostage.options import parse_options
from twostage.planning.plan import plan_scan
from twostage.predicates.predicate import TRUE
from twostage.storage import immutable_files
from twostage.table import manifest_cache


@pytest.fixture
def lake(tmp_path):
    immutable_files.forget()
    manifest_cache.forget()
    table = Table(tmp_path / "t", {"id": "long"}, version=2)
    table.location = "s3://lake/t"
    first = table.append([{"id": n} for n in range(10)])
    table.append([{"id": n} for n in range(10, 20)])
    table.delete_positions({first: [1]})
    table.write()
    with serve_late(tmp_path) as store:
        yield store
    immutable_files.forget()
    manifest_cache.forget()


@pytest.fixture
def catalog(lake):
    """It vends key 0, 1, … with its answers, and the metadata itself, as REST catalogs do."""
    metadata = max((lake.root / "t" / "metadata").glob("*.json"))
    keys = []

    def answer():
        keys.append(f"key-{len(keys)}")
        config = {"s3.access-key-id": keys[-1], "s3.secret-access-key": f"canary-{len(keys)}"}
        body = {"metadata": json.loads(metadata.read_text()), "config": config}
        return 200, {"metadata-location": f"s3://lake/t/metadata/{metadata.name}", **body}

    with serve_rest("s3://lake/t", answer) as server:
        server.keys = keys
        yield server


def requests_of(lake, catalog, token):
    """Plan a query of the table that a user with this token loads; return how many requests the store gets."""
    given = {
        "path": "r.db.events",
        "catalog.type": "rest",
        "catalog.uri": f"http://127.0.0.1:{catalog.server_port}",
        "catalog.token": token,
        "catalog.s3.endpoint": lake.endpoint,
        "catalog.s3.region": "us-east-1",
    }
    options = parse_options(given)
    opened = Opened(load_table(options), options)
    lake.reset()
    lake.keys = {catalog.keys[-1]}  # those of earlier answers have expired
    plan = plan_scan(
        opened.table,
        opened.options,
        projection=opened.table.schema.fields,
        predicate=TRUE,
        hint=TRUE,
        limit=None,
        parallelism=2,
        scan_id="test",
    )
    assert sum(len(group.tasks) for group in plan.groups) == 2
    return len(lake.log)


@pytest.fixture
def named_once(monkeypatch):
    """Take the test's files for those of Iceberg's writers, whose names are never given twice."""
    monkeypatch.setattr(immutable_files, "is_named_once", lambda _path: True)


@pytest.mark.usefixtures("named_once")
def test_new_keys_of_the_same_user_ask_for_nothing_again(lake, catalog):
    cold = requests_of(lake, catalog, "a")
    assert cold >= 3, "the list, and its manifests"
    assert requests_of(lake, catalog, "a") == 0
    assert catalog.keys == ["key-0", "key-1"]


@pytest.mark.usefixtures("named_once")
def test_what_one_user_read_serves_no_other(lake, catalog):
    cold = requests_of(lake, catalog, "a")
    assert requests_of(lake, catalog, "b") == cold
    assert requests_of(lake, catalog, "a") == 0
