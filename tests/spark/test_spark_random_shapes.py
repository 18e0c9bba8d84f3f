"""Random joins of odd shapes: computed keys, renamed columns, set operations, LATERAL; under settings that change no row.

``TWOSTAGE_SEED`` sets the first seed, ``TWOSTAGE_SPARK_SHAPES`` the number of queries (24, with TWOSTAGE_FULL=1 1,000).
"""

from __future__ import annotations

import os
import random
from collections import Counter

import pytest

import twostage
from drawn_shapes import random_shape
from figures import FULL
from joined_tables import bytes_of, clear_reports, confs, count_as_large
from lakehouse import canonical
from odd_joined_tables import FACTS, make_odd_tables, ours, plain, view
from twostage.handover import decide

SEED = int(os.environ.get("TWOSTAGE_SEED", "1"))
SHAPES = int(os.environ.get("TWOSTAGE_SPARK_SHAPES", "1000" if FULL else "24"))
SEEN: Counter[str] = Counter()


@pytest.fixture(scope="module")
def tables(spark, tmp_path_factory):
    return make_odd_tables(spark, tmp_path_factory.mktemp("joined"))


@pytest.mark.parametrize("seed", range(SEED, SEED + SHAPES))
def test_random_shapes(spark, tables, bridge, monkeypatch, seed):
    pick = random.Random(f"shape {seed}")
    fact = pick.choice(FACTS)
    query = random_shape(pick, fact)
    count_as_large(monkeypatch, bytes_of(tables[fact]))
    if pick.random() < 0.7:
        monkeypatch.setattr(decide, "MIN_ROWS_TO_AWAIT_KEYS", 1)
    options = {"dynamic-filter.min-dropped": pick.choice(("0", "25", "100"))}
    if pick.random() < 0.2:
        options["scan.native"] = "never"
    view(spark, tables, **options)
    clear_reports(bridge)
    settings = {
        "adaptive_enabled": pick.choice(("true", "false")),
        "autoBroadcastJoinThreshold": pick.choice(("10485760", "-1")),
        "optimizer_dynamicPartitionPruning_reuseBroadcastOnly": pick.choice(("true", "false")),
        "exchange_reuse": pick.choice(("true", "true", "false")),
        "ansi_enabled": pick.choice(("true", "false")),
    }
    maxima = {
        "maxKeys": pick.choice(("0", "3", "1000")),
        "maxSetKeys": pick.choice(("0", "200000")),
        "maxBloomKeys": pick.choice(("0", "200000")),
        "maxTuples": pick.choice(("0", "200000", "200000")),
        "maxBuildShare": "1000",
    }
    with confs(spark, **settings):
        expected = canonical(spark.sql(plain(query)).collect())
        with confs(spark, "spark.twostage.dynamicFilter.", **maxima):
            found = canonical(spark.sql(ours(query)).collect())
    SEEN["queries"] += 1
    SEEN["rows"] += bool(expected)
    SEEN["keys"] += any(report.joins for report in twostage.scans(spark))
    assert found == expected, f"seed {seed}, {options}, {settings}, {maxima}: {query}"
    if SEEN["queries"] == SHAPES >= 24:  # the last one, in whatever order they come
        assert min(SEEN["rows"], SEEN["keys"]) >= SHAPES // 12, SEEN
