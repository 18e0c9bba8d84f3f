"""Random joins under random settings of the session and options of the reader, none of which may change a row.

A failure prints the seed. ``TWOSTAGE_SEED`` sets the first seed, ``TWOSTAGE_SPARK_JOINS`` the number of joins (40, with
TWOSTAGE_FULL=1 2,000).
"""

from __future__ import annotations

import os
import random
from collections import Counter

import pytest

import twostage
from drawn_joins import random_join
from figures import FULL, record
from joined_tables import LEFT_OUT, NO_KEYS, bytes_of, clear_reports, confs, count_as_large
from lakehouse import canonical, executed_plan
from odd_joined_tables import FACTS, KEYS, make_odd_tables, ours, plain, view
from twostage.handover import decide, eligibility

SEED = int(os.environ.get("TWOSTAGE_SEED", "1"))
JOINS = int(os.environ.get("TWOSTAGE_SPARK_JOINS", "2000" if FULL else "40"))
FORMS = ("list", "range", "set", "range and Bloom filter", "Bloom filter", "set of tuples")
"""Of keys, as reports name them; a Bloom filter without a range is one of Spark's own."""
PRUNING = "org.apache.spark.sql.execution.dynamicpruning.PartitionPruning"
SEEN: Counter[str] = Counter()
"""How many random joins there were, and with scans of each kind."""


@pytest.fixture(scope="module")
def tables(spark, tmp_path_factory):
    return make_odd_tables(spark, tmp_path_factory.mktemp("joined"))


@pytest.mark.parametrize("seed", range(SEED, SEED + JOINS))
def test_random_joins(spark, tables, bridge, monkeypatch, seed):
    pick = random.Random(seed)
    fact = "fact" if pick.random() < 0.4 else pick.choice(FACTS)
    thinned = pick.random() < 0.6  # nothing keeps the largest scan from its keys, but perhaps the join
    query = random_join(pick, KEYS, fact, filtered=thinned and pick.random() < 0.7)
    large = fact if thinned else pick.choice((None, "none", "none", fact, "other"))  # and all larger tables
    if large is not None:
        most = eligibility.MAX_JOIN_COLUMN_BYTES
        count_as_large(
            monkeypatch, bytes_of(tables[large]), pick.choice((0, 0, 0, most) if thinned else (0, most))
        )
    if pick.random() < 0.7:
        monkeypatch.setattr(decide, "MIN_ROWS_TO_AWAIT_KEYS", pick.choice((1, 50)))
    if pick.random() < 0.4:
        monkeypatch.setattr(decide, "MIN_ROWS_PER_KEY_TO_PRUNE", 0)
    options = {"dynamic-filter": pick.choice(("auto", "auto", "auto", "auto" if thinned else "off", "off"))}
    options["dynamic-filter.min-dropped"] = pick.choice(("0", "25", "100"))
    if pick.random() < 0.1:
        options["dynamic-filter.files"] = "off"
    if pick.random() < 0.3:
        options["scan.native"] = "never"
    view(spark, tables, **options)
    clear_reports(bridge)
    settings = {
        "adaptive_enabled": pick.choice(("true", "false")),
        "autoBroadcastJoinThreshold": pick.choice(("10485760", "-1", "2000")),
        "optimizer_dynamicPartitionPruning_reuseBroadcastOnly": pick.choice(("true", "false")),
        "optimizer_dynamicPartitionPruning_enabled": "true" if thinned else pick.choice(("true", "false")),
        "exchange_reuse": pick.choice(("true", "true", "false")),
    }
    blooms = pick.random() < 0.2
    if blooms:  # Spark's own Bloom filters
        settings["optimizer_runtime_bloomFilter_applicationSideScanSizeThreshold"] = "0"
        settings["optimizer_excludedRules"] = PRUNING
        settings["autoBroadcastJoinThreshold"] = "-1"
    maxima = {
        "maxKeys": pick.choice(("0", "0", "3", "1000", "1000")),
        "maxSetKeys": pick.choice(("0", "200000")),
        "maxBloomKeys": pick.choice(("0", "200000", "200000", "200000")),
        "maxTuples": pick.choice(("0", "3", "200000", "200000")),
        "maxBuildShare": "0" if blooms else "1000" if thinned else pick.choice(("0", "0.125", "1000")),
    }
    with confs(spark, **settings), confs(spark, "spark.twostage.dynamicFilter.", **maxima):
        frame = spark.sql(ours(query))
        found = canonical(frame.collect())
        assert canonical(frame.collect()) == found, f"seed {seed}: {query}"
    scans = twostage.scans(spark)
    reports = [str(report) for report in scans]
    SEEN["joins"] += 1
    for form in {join.form for report in scans for join in report.joins}:
        SEEN[form] += 1
    SEEN["small"] += any("and a join waits for it" in text for text in reports)
    SEEN["late"] += any(NO_KEYS in text for text in reports)
    SEEN["stayed"] += any("join keys filter it" in text for text in reports)
    SEEN["files"] += any(LEFT_OUT in text for text in reports)
    SEEN["keys"] += "dynamicpruning#" in executed_plan(frame)
    expected = canonical(spark.sql(plain(query)).collect())
    assert found == expected, f"seed {seed}, {options}, {settings}, {maxima}: {query}"
    if SEEN["joins"] < JOINS:
        return
    if JOINS >= 40:  # the last one, in whatever order they come
        assert all(SEEN[kind] for kind in ("small", "late", "keys")), SEEN
    if JOINS >= 600:  # few of 40 joins have so many keys
        assert all(SEEN[kind] for kind in ("stayed", "files")), SEEN
        assert min(SEEN[form] for form in FORMS) >= JOINS // 100, SEEN
    record("R17", joins=JOINS, mismatches=0, rarest_form=min(SEEN[form] for form in FORMS), seed=SEED)
