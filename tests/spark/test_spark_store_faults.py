"""Whole queries over an object store that fails: exact rows or a typed error with its file and a hint, and no hang.

Every query reads a copy of its table under a name of its own, so that no cache of an earlier query hides the fault. The
timeout of the tests is the bound: a hang fails them.
"""

from __future__ import annotations

import itertools
import random
import shutil

import pytest
from pyspark.errors import PySparkException

from deleted_tables import TABLES, serve_tables
from figures import FULL, record
from late_store import BUCKET, Fault

FILES, ROWS = 6, 400
ALWAYS = 10**6
HANG = 2.5
"""Seconds of silence, above the request timeout of the tests that are silent."""

RUNS = 10 if FULL else 1
"""Of each cell of the scoreboard, over all tables that a test takes."""

pytestmark = pytest.mark.timeout(300)
_names = itertools.count()


@pytest.fixture(scope="module")
def lake(tmp_path_factory):
    with serve_tables(tmp_path_factory.mktemp("lake"), files=FILES, rows=ROWS) as store:
        yield store


@pytest.fixture
def load(spark, lake):
    """Load a copy of a table: the store's settings and faults are the test's, and end with it."""
    copies = []

    def load(name, *, patience=60.0, **options):
        lake.patience = patience
        copy = f"{name}-{next(_names)}"
        shutil.copytree(lake.root / name, lake.root / copy)
        copies.append(copy)
        reader = spark.read.format("twostage").options(**lake.options).option("allow-moved-paths", "true")
        for key, value in options.items():
            reader = reader.option(key.replace("_", "-"), value)
        frame = reader.load(f"s3://{BUCKET}/{copy}")
        lake.reset()
        return frame

    load.copies = copies
    yield load
    lake.faults, lake.most, lake.latency, lake.bandwidth = [], None, 0.0, None
    for copy in copies:
        shutil.rmtree(lake.root / copy)


def rows_are_exact(frame, live):
    found = frame.where("x >= 0").select("id", "k", "s").collect()
    assert sorted(tuple(row) for row in found) == [(row["id"], row["k"], row["s"]) for row in live]


def fails(lake, load, frame, code):
    """The query ends with our error, which names its file and a hint, and no secret."""
    with pytest.raises(PySparkException) as caught:
        frame.where("x >= 0").select("id", "k", "s").collect()
    text = str(caught.value)
    assert f"[TWOSTAGE.{code}]" in text, text[:2000]
    assert f"s3://{BUCKET}/{load.copies[-1]}/data/" in text
    for key in ("secret-access-key", "session-token", "access-key-id"):
        assert lake.options[f"catalog.s3.{key}"] not in text
    return text


def runs(tables):
    """Run a test so often that each cell of the scoreboard has its runs."""
    return pytest.mark.parametrize("run", range(-(-RUNS // tables)))


SURVIVED = {
    "500": {"times": 3},
    "503": {"times": 8},
    "429": {"times": 8},
    "reset": {"times": 3},
    "short": {"times": 3},
    "drip": {"times": 3, "seconds": 0.1},
    "hang": {"times": 1, "seconds": HANG},
}


@runs(len(TABLES))
@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize("kind", SURVIVED)
def test_faults_that_pass(load, lake, kind, name, run):  # noqa: ARG001
    frame = load(name, patience=1.0 if kind == "hang" else 60.0)
    lake.faults = [Fault(kind, path="/data/", **SURVIVED[kind])]
    rows_are_exact(frame, lake.live[name])
    assert lake.faults[0].fired == SURVIVED[kind]["times"]
    record("R7", cell=f"query over a store: {kind}")


@runs(len(TABLES))
@pytest.mark.parametrize("name", TABLES)
def test_a_store_that_refuses_more_than_five_requests_at_once(load, lake, name, run):  # noqa: ARG001
    frame = load(name, **{"io.merge_gap": "1"})
    lake.most, lake.latency = 5, 0.02
    rows_are_exact(frame, lake.live[name])
    assert len(lake.of("/data/")) > FILES
    record("R7", cell="query over a store: 503 above five requests at once")


@runs(len(TABLES))
@pytest.mark.parametrize("name", TABLES)
def test_a_store_that_sends_slowly(load, lake, name, run):  # noqa: ARG001
    frame = load(name)
    lake.bandwidth = 10 * 2**20
    rows_are_exact(frame, lake.live[name])
    record("R7", cell="query over a store: slow bodies")


@runs(len(TABLES))
@pytest.mark.parametrize("name", TABLES)
def test_credentials_that_expire_midway(load, lake, name, run):  # noqa: ARG001
    frame = load(name, **{"io.merge_gap": "1"})
    lake.faults = [Fault("403", path="/data/", times=ALWAYS, after=2, code="ExpiredToken")]
    assert "ExpiredToken" in fails(lake, load, frame, "CREDENTIALS_EXPIRED")
    lake.faults = []
    rows_are_exact(frame, lake.live[name])  # the next query has credentials again
    record("R7", cell="query over a store: credentials expire: typed error")


@runs(len(TABLES))
@pytest.mark.parametrize("name", TABLES)
def test_an_object_replaced_midway(load, lake, name, run):  # noqa: ARG001
    """Another object of the same layout: only its ETag tells."""
    frame = load(name, **{"io.merge_gap": "1"})
    path = next(lake.root.glob(f"{load.copies[-1]}/data/file-*.parquet"))
    lake.faults = [
        Fault("replaced", path=f"{load.copies[-1]}/data/{path.name}", after=1, body=lambda data: data)
    ]
    text = fails(lake, load, frame, "FILE_CHANGED")
    assert lake.faults[0].fired == 1
    assert path.name in text
    record("R7", cell="query over a store: object replaced: typed error")


@pytest.mark.parametrize(
    ("kind", "code", "more"),
    [
        ("404", "MISSING_FILE", {}),
        ("403", "ACCESS_DENIED", {}),
        ("500", "STORAGE_FAILED", {}),
        ("reset", "STORAGE_FAILED", {}),
        ("short", "STORAGE_FAILED", {}),
        ("hang", "STORAGE_FAILED", {"seconds": HANG}),
    ],
)
@runs(2)
@pytest.mark.parametrize("name", ["plain", "keys"])
def test_faults_that_stay(load, lake, name, kind, code, more, run):  # noqa: ARG001
    """Of one file of the table: data of one without deletes, a file of keys of the other."""
    frame = load(name, patience=1.0 if kind == "hang" else 60.0)
    path = "/data/equality" if name == "keys" else "/data/file-4"
    lake.faults = [Fault(kind, path=path, times=ALWAYS, **more)]
    text = fails(lake, load, frame, code)
    assert path in text
    record("R7", cell=f"query over a store: {kind} that stays: typed error")


@runs(len(TABLES))
@pytest.mark.parametrize("name", TABLES)
def test_random_faults(load, lake, name, run):
    """Any mixture: exact rows, or one of our errors."""
    draw = random.Random(f"{name} {run}")
    for _ in range(4):
        frame = load(name)
        lake.faults = [
            Fault(
                draw.choice(("500", "503", "reset", "short", "404", "403")),
                path="/data/",
                times=draw.choice((1, 2)),
                after=draw.randrange(6),
            )
            for _ in range(2)
        ]
        try:
            rows_are_exact(frame, lake.live[name])
        except PySparkException as error:
            assert "[TWOSTAGE." in str(error)
    record("R7", cell="query over a store: random faults")
