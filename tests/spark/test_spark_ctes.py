"""CTEs that Spark plans again: recursive ones level by level, and those that it does not inline. Keys of joins stay with their plan."""

from __future__ import annotations

import pytest

import twostage
from native_scans import load
from tables import Table

ROWS = 400
CHILDREN = """WITH RECURSIVE r(id, level) AS (
  {anchor} UNION ALL SELECT {hint} t.id, level + 1 FROM r JOIN {tree} t ON t.parent = r.id WHERE level < 8
) SELECT id, level FROM r"""
PARENTS = """WITH RECURSIVE r(id, level) AS (
  SELECT id, 0 FROM {tree} WHERE id IN (399, 250)
  UNION ALL SELECT t.parent, level + 1 FROM r JOIN {tree} t ON t.id = r.id WHERE t.parent IS NOT NULL
) SELECT id, level FROM r"""
TWICE = """WITH RECURSIVE r(id, level) AS (
  SELECT 1, 0 UNION ALL
  SELECT a.id, level + 1 FROM r JOIN {tree} a ON a.parent = r.id JOIN {tree} b ON b.id = a.id WHERE level < 4
) SELECT id, level FROM r"""


@pytest.fixture(scope="module")
def trees(spark, tmp_path_factory):
    """Views `tree` of four files, read by twostage, and `plain`, the same rows: each has three children."""
    folder = tmp_path_factory.mktemp("trees")
    rows = [{"id": i, "parent": i // 3 if i > 1 else None} for i in range(1, ROWS)]
    table = Table(folder / "t", {"id": "int", "parent": "int"})
    for first in range(0, ROWS, 100):
        table.append(rows[first : first + 100], format="orc")
    load(spark, table.write(), **{"scan.native": "never"}).createOrReplaceTempView("tree")
    spark.createDataFrame([(one["id"], one["parent"]) for one in rows], "id int, parent int").write.parquet(
        str(folder / "rows")
    )
    spark.read.parquet(str(folder / "rows")).createOrReplaceTempView("plain_tree")
    spark.createDataFrame([(3,), (4,), (None,), (7,)], "parent int").createOrReplaceTempView("side")


@pytest.fixture(params=["adaptive", "merge", "ours alone", "Spark's alone"])
def planned(request, spark):
    settings = {
        "adaptive": {},
        "merge": {"spark.sql.autoBroadcastJoinThreshold": "-1", "spark.sql.adaptive.enabled": "false"},
        "ours alone": {
            "spark.sql.optimizer.excludedRules": "org.apache.spark.sql.execution.dynamicpruning.PartitionPruning"
        },
        "Spark's alone": {"spark.twostage.dynamicFilter.enabled": "false"},
    }[request.param]
    for name, value in settings.items():
        spark.conf.set(name, value)
    yield request.param
    for name in settings:
        spark.conf.unset(name)


def rows_of(spark, query: str, **names: str) -> list[tuple]:
    return sorted(map(tuple, spark.sql(query.format(**names)).collect()))


@pytest.mark.parametrize(
    ("anchor", "hint"),
    [
        ("SELECT 1, 0", ""),
        ("SELECT * FROM VALUES (1, 0), (2, 0)", "/*+ BROADCAST(r) */"),
        ("SELECT id, 0 FROM {tree} WHERE id IN (1, 2)", ""),
    ],
)
def test_each_level_reads_by_its_own_keys(spark, trees, planned, anchor, hint):
    def query(tree):
        return CHILDREN.format(anchor=anchor.format(tree=tree), hint=hint, tree=tree)

    expected = rows_of(spark, query("plain_tree"))
    assert len(expected) > ROWS // 2
    seen = {report.scan_id for report in twostage.scans(spark)}
    assert rows_of(spark, query("tree")) == expected
    if planned == "adaptive" and anchor == "SELECT 1, 0":
        filters = {report.predicate for report in twostage.scans(spark) if report.scan_id not in seen}
        assert "parent = 1" in filters, filters
        assert "parent IN (3, 4, 5)" in filters, filters


@pytest.mark.parametrize("query", [PARENTS, TWICE], ids=["parents", "two scans"])
def test_other_ways_through_the_tree(spark, trees, planned, query):
    expected = rows_of(spark, query, tree="plain_tree")
    assert len(expected) > 5
    assert rows_of(spark, query, tree="tree") == expected


@pytest.mark.parametrize("side", ["side", "(SELECT * FROM VALUES (3), (4), (7) AS v(parent))"])
def test_a_cte_that_is_not_inlined(spark, trees, planned, side):
    """Spark replaces its references by repartitions; a filter by keys of joins in it would end the query in an error."""
    query = f"""WITH c AS (SELECT t.id, t.parent, rand() r FROM {{tree}} t JOIN {side} USING (parent))
        SELECT a.id, b.id FROM c a JOIN c b ON a.r = b.r AND a.parent = b.parent"""
    expected = rows_of(spark, query, tree="plain_tree")
    assert len(expected) == 9
    assert rows_of(spark, query, tree="tree") == expected
