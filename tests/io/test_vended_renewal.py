"""Credentials that a REST catalog vends end while a task reads: it gets new ones by itself, or fails with the typed error.

The store of `late_store` refuses keys that have ended; the catalog of `rest_catalog` vends key 0 with the table, and 1, 2, … where
credentials are renewed.
"""

from __future__ import annotations

import json
import pickle
import time
from dataclasses import replace

import pytest

from core_scan import Opened
from deleted_tables import TABLES, serve_tables
from late_store import BUCKET
from rest_catalog import CONFS, TOKEN, confs_of, serve_rest
from twostage.catalog.load_table import load_table
from twostage.errors import StorageError
from twostage.metrics import Metrics
from twostage.options import parse_options
from twostage.planning.plan import plan_scan
from twostage.predicates.predicate import TRUE
from twostage.reading.pipeline import read_group
from twostage.storage import immutable_files, vended_credentials

FILES, ROWS = 6, 300
SECRET = "canary-4711-vended"
RENEWAL = "/v1/namespaces/db/tables/events/credentials"
MINUTE = 60_000


@pytest.fixture(scope="module")
def lake(tmp_path_factory):
    with serve_tables(tmp_path_factory.mktemp("lake"), files=FILES, rows=ROWS) as store:
        yield store


@pytest.fixture
def catalog(lake, monkeypatch):
    monkeypatch.setattr(vended_credentials, "SPREAD_MS", 0)
    vended_credentials._known.clear()
    immutable_files.forget()

    def table():
        metadata = max((lake.root / server.name / "metadata").glob("*.json"))
        config = keys(0, 60) | {"client.refresh-credentials-endpoint": RENEWAL}
        found = {"metadata": json.loads(metadata.read_text()), "config": config}
        return 200, {
            "metadata-location": f"s3://{BUCKET}/{server.name}/metadata/{metadata.name}",
            **found,
        }

    def renew():
        server.renewed += 1
        lake.keys = {f"key-{server.renewed}"}
        return 200, {"storage-credentials": [{"prefix": "s3://", "config": keys(server.renewed, 60)}]}

    with serve_rest("", table) as server:
        server.answers[RENEWAL] = renew
        server.name, server.renewed = "plain", 0
        lake.keys = {"key-0"}
        yield server
    lake.keys, lake.latency = None, 0.0


def keys(number, minutes):
    return {
        "s3.access-key-id": f"key-{number}",
        "s3.secret-access-key": f"{SECRET}-{number}",
        "s3.session-token": f"{SECRET}-{number}",
        "s3.session-token-expires-at-ms": str(int(time.time() * 1000 + minutes * MINUTE)),
    }


def planned(catalog, lake, name="plain", minutes=60.0, **options):
    """Return one task that reads every file of a table, as it begins in a worker whose credentials are good for so long."""
    catalog.name = name
    confs = confs_of(catalog) | {f"{CONFS}.s3.endpoint": lake.endpoint, f"{CONFS}.s3.region": "us-east-1"}
    parsed = parse_options({"path": "r.db.events", **options})
    opened = Opened(load_table(parsed, confs), parsed)
    plan = plan_scan(
        opened.table,
        opened.options,
        projection=opened.table.schema.fields,
        predicate=TRUE,
        hint=TRUE,
        limit=None,
        parallelism=1,
        scan_id="test",
    )
    assert SECRET not in repr(plan)
    assert TOKEN not in repr(plan)
    (group,) = plan.groups
    assert len(group.tasks) == FILES
    lake.reset()
    storage = group.context.storage
    storage = replace(storage, properties={**storage.properties, **keys(0, minutes)})
    return pickle.loads(pickle.dumps(replace(group, context=replace(group.context, storage=storage))))


def batches(group):
    for batch in read_group(group, Metrics()):
        yield [tuple(row.values()) for row in batch.to_pylist()]


def expected(lake, name):
    return sorted((row["id"], row["k"], row["s"], row["x"]) for row in lake.live[name])


@pytest.mark.parametrize("name", TABLES)
def test_a_task_whose_credentials_have_ended_gets_new_ones_before_it_asks(catalog, lake, name):
    group = planned(catalog, lake, name, -1)
    rows = [row for some in batches(group) for row in some]
    assert sorted(rows) == expected(lake, name)
    assert catalog.renewed == 1
    assert catalog.seen[-1] == (RENEWAL, f"Bearer {TOKEN}")
    assert not any(one.status == 403 for one in lake.log)


def test_a_task_whose_credentials_end_soon_reads_on_with_them_meanwhile(catalog, lake):
    lake.latency = 0.05
    group = planned(catalog, lake, minutes=4, **{"io.parallel-requests": "1"})
    rows = [row for some in batches(group) for row in some]
    assert sorted(rows) == expected(lake, "plain")
    vended = vended_credentials.vended_credentials(group.context.storage)
    for _ in range(500):
        if vended.number:
            break
        time.sleep(0.01)  # it may have been asked late, and nobody waited for it
    assert catalog.renewed == vended.number == 1


def test_credentials_that_end_between_two_files(catalog, lake):
    """The store refuses a key that was said to be good for an hour: renewed, and what was refused is asked for again."""
    group = planned(catalog, lake)
    rows = []
    for number, task in enumerate(group.tasks):
        if number == 2:
            assert catalog.renewed == 0
            lake.keys = {"key-1"}
        rows += [row for some in batches(replace(group, tasks=(task,))) for row in some]
    assert sorted(rows) == expected(lake, "plain")
    assert catalog.renewed == 1
    assert any(one.status == 403 for one in lake.log)


def test_an_open_client_of_pyarrow_s_is_replaced_for_the_next_file(catalog, lake):
    group = planned(catalog, lake, **{"object-store-client": "arrow"})
    rows = []
    for number, task in enumerate(group.tasks):
        if number == 2:
            vended = vended_credentials.vended_credentials(group.context.storage)
            vended.properties = {**vended.properties, **keys(0, 0)}
            lake.keys = {"key-1"}
        rows += [row for some in batches(replace(group, tasks=(task,))) for row in some]
    assert sorted(rows) == expected(lake, "plain")
    assert (catalog.renewed, vended.number) == (1, 1)
    assert not any(one.status == 403 for one in lake.log)


@pytest.mark.parametrize("client", ["auto", "arrow"])
@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ((403, {"error": {"message": f"no {TOKEN}", "type": "x", "code": 403}}), "HTTP 403: no ***"),
        ((200, {"storage-credentials": []}), "no credentials for the table's location"),
        (None, "Error"),
    ],
)
def test_a_catalog_that_gives_none_is_named(catalog, lake, client, answer, why):
    group = planned(catalog, lake, minutes=0, **{"object-store-client": client})
    if answer is None:
        catalog.socket.close()
    catalog.answers[RENEWAL] = answer
    lake.keys = set()
    began = time.monotonic()
    with pytest.raises(StorageError) as caught:
        list(batches(group))
    assert time.monotonic() - began < 20
    assert caught.value.code == "CREDENTIALS_EXPIRED"
    assert "The catalog gave no new ones: " in caught.value.hint
    assert why in caught.value.hint
    assert "canary" not in str(caught.value)
    assert catalog.renewed == 0


def test_renewal_that_is_switched_off(catalog, lake):
    confs = {"catalog.client.refresh-credentials-enabled": "false"}
    group = planned(catalog, lake, **confs)
    assert group.context.storage.renewal is None
    lake.keys = {"key-1"}
    with pytest.raises(StorageError) as caught:
        list(batches(group))
    assert caught.value.code == "CREDENTIALS_EXPIRED"
    assert "The catalog gave no new ones" not in caught.value.hint
    assert catalog.renewed == 0
