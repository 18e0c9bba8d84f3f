"""Which sides of joins may be read a second time for their keys: only those of which that surely gives the join's own keys."""

from __future__ import annotations

import pytest
from pyspark import StorageLevel

import twostage
from joined_tables import confs
from lakehouse import canonical
from native_scans import load
from tables import Table

PREFIX = "spark.twostage.dynamicFilter."
KEYED = "SELECT f.s FROM fact f JOIN {} d ON f.id = d.id"


@pytest.fixture(scope="module")
def tables(spark, tmp_path_factory):
    """Views `fact`, four files of 100 rows, and `dim`, one of 40; the key of `fact` clusters its files."""
    folder = tmp_path_factory.mktemp("sides")
    columns = {"id": "long", "v": "int", "s": "string"}
    for name, files, step in (("fact", 4, 1), ("dim", 1, 10)):
        table = Table(folder / name, columns)
        for first in range(0, 100 * files if name == "fact" else 40, 100):
            count = 100 if name == "fact" else 40
            table.append([{"id": i * step, "v": i % 10, "s": f"s{i}"} for i in range(first, first + count)])
        load(spark, table.write(), **{"scan.native": "never"}).createOrReplaceTempView(name)
    with confs(spark, PREFIX, maxBuildShare="1000"), confs(spark, autoBroadcastJoinThreshold="-1"):
        yield


def filters_of_fact(spark, query: str) -> list[str]:
    """Return what scans of `fact` were filtered by, after comparing the rows with those without keys of joins."""
    seen = {report.scan_id for report in twostage.scans(spark)}
    rows = canonical(spark.sql(query).collect())
    found = [one for one in twostage.scans(spark) if one.scan_id not in seen and "/fact" in one.table]
    with confs(spark, PREFIX, enabled="false"):
        assert canonical(spark.sql(query).collect()) == rows
    assert rows
    return [f"{one.predicate} | {one.hint}" for one in found]


def has_keys(spark, query: str) -> bool:
    return any("id = " in one or "id IN " in one or "id >= " in one for one in filters_of_fact(spark, query))


@pytest.mark.parametrize(
    ("side", "level", "before", "after"),
    [
        # Another run of it may take other rows: it serves once its blocks are there, and stay.
        ("SELECT id FROM dim WHERE v = 3 LIMIT 3", StorageLevel.MEMORY_AND_DISK, False, True),
        ("SELECT id FROM dim WHERE v = 3 LIMIT 3", StorageLevel.MEMORY_ONLY, False, False),
        ("SELECT id FROM dim WHERE v = 3", StorageLevel.MEMORY_ONLY, True, True),
        ("SELECT DISTINCT id FROM (SELECT * FROM dim) WHERE v = 3", StorageLevel.MEMORY_ONLY, True, True),
    ],
)
def test_cached_sides(spark, tables, side, level, before, after):
    frame = spark.sql(side).persist(level)
    frame.createOrReplaceTempView("side")
    try:
        assert has_keys(spark, KEYED.format("side")) == before
        frame.count()
        assert has_keys(spark, KEYED.format("side")) == after
    finally:
        frame.unpersist(blocking=True)


def test_bytes_of_a_second_reading(spark, tables):
    query = KEYED.format("(SELECT id FROM dim WHERE v = 3)")
    assert has_keys(spark, query)
    with confs(spark, PREFIX, maxBuildBytes="1"):
        assert not has_keys(spark, query)
    with (
        confs(spark, PREFIX, maxBuildBytes="few"),
        pytest.raises(Exception, match=r"TWOSTAGE\.OPTION.*maxBuildBytes.*few"),
    ):
        spark.sql(query).collect()


@pytest.mark.parametrize(
    ("side", "expected"),
    [("(SELECT id FROM dim WHERE v = 3 LIMIT 3)", False), ("(SELECT id FROM dim WHERE v = 3)", True)],
)
def test_sparks_own_second_reading(spark, tables, side, expected):
    """It offers one of any side that it takes to be selective, if it is told not to rely on broadcasts."""
    with confs(
        spark,
        "spark.sql.optimizer.",
        dynamicPartitionPruning_reuseBroadcastOnly="false",
        dynamicPartitionPruning_fallbackFilterRatio="1000",
    ):
        assert has_keys(spark, KEYED.format(side)) == expected


@pytest.mark.parametrize(("collation", "expected"), [("UTF8_LCASE", False), ("UTF8_BINARY", True)])
@pytest.mark.parametrize("is_grouped", [False, True])
def test_texts_that_a_collation_takes_for_equal(spark, tables, is_grouped, collation, expected):
    """Each run may give another one of them, and with it another key."""
    text = f"s COLLATE {collation}"
    shown, group = (text, f" GROUP BY {text}") if is_grouped else (f"max({text})", "")
    side = f"(SELECT CAST(substr({shown}, 2) AS BIGINT) AS id FROM dim WHERE v = 3{group})"
    assert has_keys(spark, KEYED.format(side)) == expected
