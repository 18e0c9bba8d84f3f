"""How many requests planning takes in an object store, and how many of them wait for another one. Golden numbers."""

from __future__ import annotations

from collections import Counter

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog

from core_scan import Opened
from late_store import serve_late
from twostage.catalog.load_table import load_table
from twostage.metrics import Metrics
from twostage.options import parse_options
from twostage.planning.plan import plan_scan
from twostage.predicates.predicate import TRUE
from twostage.storage import immutable_files
from twostage.storage.driver_reads import counted_for

COMMITS = 12


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory):
    """A table of PyIceberg's, with a manifest of each of its commits; all names hold UUIDs."""
    folder = tmp_path_factory.mktemp("warehouse")
    catalog = SqlCatalog("local", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}")
    catalog.create_namespace("db")
    table = catalog.create_table("db.t", pa.schema([("id", pa.int64())]), location=f"file://{folder}/t")
    for number in range(COMMITS):
        table.append(pa.table({"id": [number]}))
    catalog.close()
    return folder


@pytest.fixture
def store(warehouse):
    immutable_files.forget()
    with serve_late(warehouse) as store:
        yield store
    immutable_files.forget()


def load(store, **more):
    given = {"path": "s3://lake/t", "allow-moved-paths": "true", **store.options, **more}
    options = parse_options(given)
    return Opened(load_table(options), options)


def plan(opened, limit=None):
    return plan_scan(
        opened.table,
        opened.options,
        projection=opened.table.schema.fields,
        predicate=TRUE,
        hint=TRUE,
        limit=limit,
        parallelism=2,
        scan_id="test",
    )


def kinds(store):
    def kind(request):
        name = request.key.rpartition("/")[2]
        if name.endswith(".json"):
            return "metadata"
        if name.endswith(".avro"):
            return "list" if name.startswith("snap-") else "manifest"
        return "folder" if not name else "data"

    return dict(Counter(f"{one.method} {kind(one)}" for one in store.log))


def test_loading_asks_for_each_file_once_and_planning_for_all_manifests_at_once(store):
    store.rounds = 0.4
    opened = load(store)
    loading = kinds(store)
    assert loading.pop("GET metadata") == 1
    assert sum(loading.values()) <= 1, "the folder's listing"
    store.reset()
    assert sum(len(group.tasks) for group in plan(opened).groups) == COMMITS
    assert kinds(store) == {"GET list": 1, "GET manifest": COMMITS}
    assert store.depth == 2


def test_planning_counts_its_requests_and_round_trips(store):
    store.rounds = 0.4
    found = Metrics()
    with counted_for(found):
        plan(load(store))
    assert found.counters["planning.requests"] == len(store.log)
    assert found.counters["planning.trips"] == store.depth
    again = Metrics()
    store.reset()
    with counted_for(again):
        opened = load(store)
        plan(opened)
    assert again.counters["planning.requests"] == len(store.log) == again.counters["planning.trips"]
    plan(opened)
    assert again.counters["planning.requests"] == 1, "nobody counts any more"


def test_a_table_that_is_known_is_planned_without_a_request(store):
    plan(load(store))
    store.reset()
    opened = load(store)
    assert "GET metadata" not in kinds(store)
    store.reset()
    assert sum(len(group.tasks) for group in plan(opened).groups) == COMMITS
    assert kinds(store) == {}


def test_a_limit_that_the_first_manifest_meets_asks_for_no_other(store):
    opened = load(store)
    store.reset()
    assert len(plan(opened, limit=1).groups) == 1
    assert kinds(store) == {"GET list": 1, "GET manifest": 1}


def test_pyarrow_plans_the_same(store):
    expected = plan(load(store))
    immutable_files.forget()
    found = plan(load(store, **{"object-store-client": "arrow"}))
    assert [[task.path for task in group.tasks] for group in found.groups] == [
        [task.path for task in group.tasks] for group in expected.groups
    ]


def test_a_throttling_store_is_planned_slowly(store):
    store.most, store.latency = 2, 0.005
    assert sum(len(group.tasks) for group in plan(load(store)).groups) == COMMITS
    assert any(one.status == 503 for one in store.log)
