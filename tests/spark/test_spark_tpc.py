"""All queries of TPC-DS and TPC-H: Spark's own answers over the same rows as Parquet, and plans that stay small."""

from __future__ import annotations

import os
from decimal import Decimal
from functools import cache
from types import SimpleNamespace

import pyspark
import pytest

import tpc
import twostage
from figures import FULL
from twostage.handover import eligibility

pytestmark = pytest.mark.skipif(
    not tpc.DUCKDB.exists(), reason=f"make install puts DuckDB with its TPC extensions into {tpc.DUCKDB}"
)
ALL_MODES = FULL or os.environ.get("TWOSTAGE_TPC") == "all"
SETTINGS = {
    "spark.sql.shuffle.partitions": "2",
    # A small table's query takes less time than to compile it; that our scans run inside compiled stages others test.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}


def modes(number: int) -> tuple[str, ...]:
    """Each query runs with adaptive execution on the newest Spark, and one of eight without it on each of the others.

    At nightly size each one runs both ways on every version.
    """
    if ALL_MODES:
        return "true", "false"
    chosen = {"4.1": 0, "4.2": 4}.get(pyspark.__version__[:3])
    if chosen is None:
        return ("true",)
    return ("false",) if number % 8 == chosen else ()


ASKED = [
    pytest.param(
        kind, number, adaptive, id=f"{kind}-{number}-{'adaptive' if adaptive == 'true' else 'static'}"
    )
    for kind, most in tpc.QUERIES.items()
    for number in range(1, most + 1)
    for adaptive in modes(number)
]


@pytest.fixture(scope="module")
def benchmark(spark, tmp_path_factory):
    """Gives two sessions by benchmark in which a name means the same rows: Iceberg tables, and Parquet files."""

    @cache
    def start(kind):
        folder, root = tmp_path_factory.mktemp(kind), tmp_path_factory.mktemp(f"{kind}_warehouse")
        files = tpc.make(kind, folder)
        ours, plain = spark.newSession(), spark.newSession()
        for session in (ours, plain):
            for key, value in SETTINGS.items():
                session.conf.set(key, value)
        twostage.enable(ours, catalogs={kind: tpc.write_tables(kind, files, root)})
        ours.sql(f"USE {kind}.db")
        for file in files:
            plain.read.parquet(str(file)).createOrReplaceTempView(file.stem)
        return SimpleNamespace(ours=ours, plain=plain, queries=tpc.read_queries(folder), answers={})

    return start


def plain_value(value):
    """Sums of doubles depend on their order."""
    if isinstance(value, float):
        return f"{value:.9g}"
    return str(value.normalize()) if isinstance(value, Decimal) else value


def rows_of(frame):
    return sorted(repr([plain_value(value) for value in row]) for row in frame.collect())


@pytest.mark.parametrize(("kind", "number", "adaptive"), ASKED)
def test_query(benchmark, bridge, monkeypatch, kind, number, adaptive):
    """Small tables are Spark's to read; for three of four queries they count as large, and half of these have no broadcast."""
    asked = benchmark(kind)
    if number % 4:
        monkeypatch.setattr(eligibility, "MIN_BYTES_TO_PROBE", 0)
        monkeypatch.setattr(eligibility, "MAX_JOIN_COLUMN_BYTES", 0)
    asked.ours.conf.set("spark.sql.autoBroadcastJoinThreshold", "-1" if number % 2 else "10485760")
    asked.ours.conf.set("spark.twostage.dynamicFilter.maxBuildShare", "1000" if number % 4 == 1 else "0.125")
    query = asked.queries[number]
    if number not in asked.answers:
        asked.answers[number] = rows_of(asked.plain.sql(query))
    asked.ours.conf.set("spark.sql.adaptive.enabled", adaptive)
    before = dict(bridge.calls)
    frame = asked.ours.sql(query)
    optimized = frame._jdf.queryExecution().optimizedPlan().toString()
    frame._jdf.queryExecution().executedPlan()
    calls = {name: count - before.get(name, 0) for name, count in bridge.calls.items()}
    assert optimized.count("dynamicpruning#") <= min(
        32, 2 * optimized.count("Join ")
    )  # for each of a join's keys
    assert calls.get("plan", 0) <= 2 * calls["hand_over"]
    assert rows_of(frame) == asked.answers[number]


def test_these_are_all_queries(benchmark):
    assert {kind: sorted(benchmark(kind).queries) for kind in tpc.QUERIES} == {
        kind: list(range(1, most + 1)) for kind, most in tpc.QUERIES.items()
    }
