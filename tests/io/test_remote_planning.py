"""How many requests planning takes in an object store, and how many of them wait for another one. Golden numbers."""

from __future__ import annotations

from collections import Counter

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog

from check import Columns
from core_scan import Opened
from late_store import BUCKET, serve_late
from tables import Table
from twostage.catalog.load_table import load_table
from twostage.metrics import Metrics
from twostage.options import parse_options
from twostage.planning.choose_files import Planning
from twostage.planning.plan import plan_scan
from twostage.predicates.predicate import TRUE, Compare
from twostage.storage import immutable_files
from twostage.storage.driver_reads import counted_for
from twostage.table import manifest_cache

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


def kind_of(request):
    name = request.key.rpartition("/")[2]
    if name.endswith(".json"):
        return f"{request.method} metadata"
    if name.endswith(".avro"):
        return f"{request.method} {'list' if name.startswith('snap-') else 'manifest'}"
    return f"{request.method} {'data' if name else 'folder'}"


def kinds(store):
    return dict(Counter(map(kind_of, store.log)))


def test_loading_asks_for_each_file_once_and_planning_for_all_manifests_at_once(store):
    store.rounds = True
    opened = load(store)
    loading = kinds(store)
    assert loading.pop("GET metadata") == 1
    assert sum(loading.values()) <= 1, "the folder's listing"
    store.reset()
    assert sum(len(group.tasks) for group in plan(opened).groups) == COMMITS
    assert kinds(store) == {"GET list": 1, "GET manifest": COMMITS}
    assert store.depth == 2


def test_planning_counts_its_requests_and_round_trips(store):
    store.rounds = True
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


@pytest.fixture(scope="module")
def deleted(tmp_path_factory):
    """A table whose manifests of data and of deletes are four each; no name holds a UUID."""
    root = tmp_path_factory.mktemp("lake")
    table = Table(root / "deleted", {"id": "long", "k": "long"}, version=2)
    table.location = f"s3://{BUCKET}/deleted"
    for number in range(4):
        file = table.append([{"id": 100 * number + n, "k": n} for n in range(100)])
        table.delete_positions({file: [number]})
    table.write()
    with serve_late(root, rounds=True) as store:
        yield store


@pytest.mark.parametrize(
    ("limit", "expected"),
    [
        (None, [{"GET list": 1}, {"GET manifest": 8}]),
        (1, [{"GET list": 1}, {"GET manifest": 5}, {"GET manifest": 3}]),
    ],
)
def test_manifests_of_deletes_come_with_those_of_data(deleted, limit, expected):
    """With a limit, with the first one of data: it might suffice, if its file had no position deletes."""
    manifest_cache.forget()
    options = parse_options({"path": f"s3://{BUCKET}/deleted", **deleted.options})
    opened = Opened(load_table(options), options)
    for rounds in (expected, [{"GET list": 1}]):
        deleted.reset()
        planned = plan(opened, limit)
        assert sum(len(task.deletes) for group in planned.groups for task in group.tasks) == 4
        assert deleted.by_round(kind_of) == rounds


def test_an_aggregate_with_a_filter_asks_for_all_manifests_at_once(deleted):
    """It may be refused at the first file, but then a scan needs the others."""
    manifest_cache.forget()
    options = parse_options({"path": f"s3://{BUCKET}/deleted", **deleted.options})
    table = load_table(options)
    deleted.reset()
    predicate = Compare("<", Columns(table.schema)("k"), 1000)
    planning = Planning(table, options, (), predicate, TRUE)
    assert len(list(planning.files(metrics=True))) == 4
    assert deleted.by_round(kind_of) == [{"GET list": 1}, {"GET manifest": 8}]


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
