"""Credentials that a REST catalog vends for a short time: a table loaded before is read with new ones, a task fails typed."""

from __future__ import annotations

import itertools
import json
import time

import pytest
from pyspark.errors import PySparkException

import twostage
from deleted_tables import TABLES, serve_tables
from late_store import BUCKET
from rest_catalog import serve_rest

FILES, ROWS = 3, 300
HOUR = 3_600_000
SECRET = "canary-4711-vended-secret"

pytestmark = pytest.mark.timeout(300)
_numbers = itertools.count()


@pytest.fixture(scope="module")
def lake(tmp_path_factory):
    with serve_tables(tmp_path_factory.mktemp("lake"), files=FILES, rows=ROWS) as store:
        yield store


@pytest.fixture
def vended(spark, lake):
    """Serve a table by a catalog of its own, whose credentials are key 0, 1, …; `minutes` are those that each is good for."""
    served = []

    def vended(name, *minutes):
        location = f"s3://{BUCKET}/{name}"
        metadata = max((lake.root / name / "metadata").glob("*.json"))
        left = iter(minutes)

        def answer():
            catalog.keys += 1
            until = int(time.time() * 1000) + int(next(left) * 60_000)
            config = {
                "s3.access-key-id": f"{catalog.name}-{catalog.keys - 1}",
                "s3.secret-access-key": SECRET,
                "s3.session-token": SECRET,
                "s3.session-token-expires-at-ms": str(until),
            }
            config |= catalog.more
            found = {"metadata": json.loads(metadata.read_text()), "config": config}
            return 200, {"metadata-location": f"{location}/metadata/{metadata.name}", **found}

        server = serve_rest(location, answer)
        catalog = server.__enter__()
        served.append(server)
        catalog.keys, catalog.name, catalog.more = 0, f"vending{next(_numbers)}", {}
        prefix = f"spark.sql.catalog.{catalog.name}"
        spark.conf.set(prefix, "twostage")
        spark.conf.set(f"{prefix}.type", "rest")
        spark.conf.set(f"{prefix}.uri", f"http://127.0.0.1:{catalog.server_port}")
        spark.conf.set(f"{prefix}.token", f"{SECRET}-token")
        spark.conf.set(f"{prefix}.s3.endpoint", lake.endpoint)
        spark.conf.set(f"{prefix}.s3.region", "us-east-1")
        return catalog

    yield vended
    lake.keys, lake.faults = None, []
    for server in served:
        server.__exit__(None, None, None)


def rows_of(frame):
    return sorted(tuple(row) for row in frame.where("x >= 0").select("id", "s").collect())


@pytest.mark.parametrize("name", TABLES)
def test_a_table_loaded_before_is_read_with_new_credentials(spark, lake, vended, name):
    catalog = vended(name, 1, 60, 60, 60)
    frame = spark.read.format("twostage").load(f"{catalog.name}.db.events")
    assert catalog.keys == 1
    lake.keys = {f"{catalog.name}-{number}" for number in range(1, 9)}  # the first one has expired meanwhile
    expected = sorted((row["id"], row["s"]) for row in lake.live[name])
    assert rows_of(frame) == expected
    assert catalog.keys == 2
    assert rows_of(frame) == expected  # good for an hour: nothing is asked
    assert catalog.keys == 2


def test_credentials_that_expire_in_a_task_are_named(spark, lake, vended):
    catalog = vended("plain", 60, 60)
    frame = spark.read.format("twostage").load(f"{catalog.name}.db.events")
    lake.keys = set()
    with pytest.raises(PySparkException) as caught:
        rows_of(frame)
    text = str(caught.value)
    assert "[TWOSTAGE.CREDENTIALS_EXPIRED]" in text
    assert "Run the query again" in text
    assert f"s3://{BUCKET}/plain/" in text
    assert SECRET not in text


def test_tasks_renew_credentials_themselves_and_show_nothing_of_it(spark, lake, vended, capsys):
    """The first key is refused from the start, though it was said to be good for an hour: each process gets the second."""
    catalog = vended("plain", 60)
    path = "/v1/namespaces/db/tables/events/credentials"
    until = str(int(time.time() * 1000) + 2 * HOUR)
    new = {
        "s3.access-key-id": "renewed",
        "s3.secret-access-key": SECRET,
        "s3.session-token": SECRET,
        "s3.session-token-expires-at-ms": until,
    }
    catalog.answers[path] = (200, {"storage-credentials": [{"prefix": f"s3://{BUCKET}", "config": new}]})
    catalog.more = {"client.refresh-credentials-endpoint": path}
    frame = spark.read.format("twostage").load(f"{catalog.name}.db.events")
    lake.keys = {"renewed"}
    assert rows_of(frame) == sorted((row["id"], row["s"]) for row in lake.live["plain"])
    asked = [token for where, token in catalog.seen if where == path]
    assert asked
    assert set(asked) == {f"Bearer {SECRET}-token"}
    assert catalog.keys == 1
    frame.explain(True)
    shown = capsys.readouterr().out + repr(frame) + "".join(report.json() for report in twostage.scans(spark))
    assert "twostage" in shown
    assert SECRET not in shown
