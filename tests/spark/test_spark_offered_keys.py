"""Keys of joins where Spark itself offers none: they reach the scan, where the join allows it, and the rows stay the same."""

from __future__ import annotations

import pytest

import twostage
from lakehouse import canonical, executed_plan
from native_scans import load
from tables import Table

OFF = "spark.twostage.dynamicFilter.enabled"
MAX_BUILD_SHARE = "spark.twostage.dynamicFilter.maxBuildShare"
KINDS = ("broadcast", "merge", "merge, not adaptive", "hash")


@pytest.fixture(scope="module")
def views(spark, tmp_path_factory):
    """Views `fact`, four files of 100 rows, and `dim`, one of 40: Spark sees no filter of `dim`, because our scan takes it over."""
    folder = tmp_path_factory.mktemp("offered")
    columns = {"id": "long", "n": "int", "s": "string", "amount": "decimal(5,2)", "v": "int"}
    fact = Table(folder / "fact", columns)
    for first in range(0, 400, 100):
        fact.append([_row(i) for i in range(first, first + 100)], row_group_size=50)
    wide = {"id": "long", "n": "long", "s": "string", "amount": "decimal(9,3)", "v": "int"}
    dim = Table(folder / "dim", wide)
    dim.append([_row(i * 10) for i in range(40)])
    path = fact.write()
    load(spark, path, **{"scan.native": "never"}).createOrReplaceTempView("fact")
    load(spark, dim.write(), **{"scan.native": "never"}).createOrReplaceTempView("dim")
    spark.createDataFrame([(7,), (251,)], "id long").createOrReplaceTempView("made")
    spark.range(7, 400, 122).write.parquet(str(folder / "listed"))
    spark.read.parquet(str(folder / "listed")).createOrReplaceTempView("listed")
    spark.sql("CACHE TABLE cached AS SELECT id, n FROM dim WHERE v = 3 AND id < 100")
    yield path
    spark.sql("UNCACHE TABLE cached")


def _row(i: int) -> dict:
    return {
        "id": i if i % 50 else None,
        "n": 399 - i,
        "s": f"s{i}",
        "amount": i / 4,
        "v": i // 10 % 10,
    }


@pytest.fixture(params=KINDS)
def joined_by(request, spark):
    """A kind of join; reading a side twice counts as cheap, though here all tables are small."""
    settings = {
        MAX_BUILD_SHARE: "1000",
        "spark.sql.autoBroadcastJoinThreshold": "10485760" if request.param == "broadcast" else "-1",
        "spark.sql.adaptive.enabled": str("not" not in request.param).lower(),
    }
    for name, value in settings.items():
        spark.conf.set(name, value)
    yield request.param
    for name in settings:
        spark.conf.unset(name)


def ask(spark, query: str):
    """Return the query's rows, which are the same without such keys, what its scans were filtered by, and its plan."""
    seen = {report.scan_id for report in twostage.scans(spark)}
    frame = spark.sql(query)
    rows = canonical(frame.collect())
    reports = [report for report in twostage.scans(spark) if report.scan_id not in seen]
    predicates = [f"{report.predicate} | {report.hint}" for report in reports if "/fact" in report.table]
    spark.conf.set(OFF, "false")
    try:
        without = spark.sql(query)
        assert canonical(without.collect()) == rows, query
    finally:
        spark.conf.unset(OFF)
    return rows, predicates, frame


DIM = "(SELECT * FROM dim WHERE v = 3 AND id < 150)"


@pytest.mark.parametrize("joined_by", ["broadcast", "merge, not adaptive"], indirect=True)
@pytest.mark.parametrize(
    "query",
    [
        f"SELECT f.id, f.s FROM fact f JOIN {DIM} d ON f.id = d.id",
        f"SELECT f.id, f.s FROM {DIM} d LEFT JOIN fact f ON f.id = d.id",
        f"SELECT f.id, f.s FROM fact f RIGHT JOIN {DIM} d ON f.id = d.id",
        f"SELECT id, s FROM fact f LEFT SEMI JOIN {DIM} d ON f.id = d.id",
        "SELECT id, s FROM fact WHERE id IN (SELECT id FROM dim WHERE v = 3 AND id < 150)",
        "SELECT id, s FROM fact f WHERE EXISTS (SELECT 1 FROM dim d WHERE d.id = f.id AND d.v = 3 AND id < 150)",
        f"SELECT f.s FROM (SELECT id + 1 AS one, id AS key, s FROM fact) f JOIN {DIM} d ON f.key = d.id",
        f"SELECT f.n FROM (SELECT id, max(n) AS n FROM fact GROUP BY id) f JOIN {DIM} d ON f.id = d.id",
        f"SELECT f.r FROM (SELECT id, sum(n) OVER (PARTITION BY id) AS r FROM fact) f JOIN {DIM} d ON f.id = d.id",
        f"SELECT f.n FROM (SELECT id, n FROM fact UNION ALL SELECT id, -n FROM fact) f JOIN {DIM} d ON f.id = d.id",
        f"SELECT f.n, e FROM (SELECT id, n, explode(array(1, 2)) AS e FROM fact) f JOIN {DIM} d ON f.id = d.id",
        f"SELECT f.n FROM (SELECT a.id, a.n FROM fact a LEFT JOIN dim b ON a.s = b.s) f JOIN {DIM} d ON f.id = d.id",
        f"SELECT f.n FROM fact f JOIN {DIM} d ON f.id = d.id AND f.s = d.s ORDER BY f.n LIMIT 2",
        "SELECT f.n FROM fact f JOIN (SELECT max(id) AS id FROM dim WHERE v = 3 GROUP BY n % 2) d ON f.id = d.id",
    ],
)
def test_a_side_whose_filter_the_scan_took_over(spark, views, joined_by, query):
    rows, predicates, frame = ask(spark, query)
    assert rows
    assert any("id IN (" in predicate or "id = " in predicate for predicate in predicates), (
        predicates,
        executed_plan(frame),
    )


@pytest.mark.parametrize("joined_by", ["merge", "merge, not adaptive"], indirect=True)
@pytest.mark.parametrize(
    ("having", "comes"),
    [
        ("sum(v) > 8", True),
        ("sum(n) > 380", True),
        ("sum(amount) > 90", True),
        ("bool_and(v > 8) AND sum(v) > 8", True),
        ("bool_or(v > 8) AND sum(v) > 8", True),
        ("bit_or(v) = 9", True),
        ("bit_and(v) = 9 AND bit_xor(v) = 9", True),
        ("sum(CAST(amount AS DOUBLE)) > 90", False),
        ("sum(CAST(amount AS DECIMAL(38, 3))) > 90", False),
        ("avg(v) > 8", False),
        ("first(v) > 8", False),
    ],
)
def test_grouped_sides_without_a_broadcast(spark, views, joined_by, having, comes):
    """A second reading gives the same keys only if their aggregates do not depend on the order of rows."""
    query = f"SELECT f.n FROM fact f JOIN (SELECT id FROM dim GROUP BY id HAVING {having}) d ON f.id = d.id"
    rows, predicates, frame = ask(spark, query)
    assert rows
    assert any("id IN (" in predicate or "id = " in predicate for predicate in predicates) is comes, (
        predicates,
        executed_plan(frame),
    )


@pytest.mark.parametrize("joined_by", ["broadcast", "merge"], indirect=True)
@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("SELECT f.s FROM fact f JOIN VALUES (7L), (250L), (77777L) AS d(id) ON f.id = d.id", "id IN ("),
        ("SELECT f.s FROM fact f JOIN range(101, 104) d ON f.id = d.id", "id IN ("),
        ("SELECT f.s FROM fact f JOIN listed d ON f.id = d.id", "id IN ("),
        ("SELECT /*+ BROADCAST(d) */ f.s FROM fact f JOIN made d ON f.id = d.id", "id IN ("),
        ("SELECT f.s FROM fact f JOIN cached d ON f.id = d.id", "id = 30"),
        ("SELECT f.s FROM fact f JOIN (SELECT max(id) AS id FROM dim) d ON f.id = d.id", "id = 390"),
        ("SELECT f.s FROM fact f JOIN (SELECT * FROM dim WHERE v = 3) d ON f.n = d.n", "n IN ("),
        (
            "SELECT f.s FROM fact f JOIN (SELECT * FROM dim WHERE v = 3) d ON f.amount = d.amount",
            "amount IN (",
        ),
        ("SELECT f.s FROM fact f JOIN (SELECT * FROM dim WHERE v = 3) d ON f.s = d.s", "s IN ("),
    ],
)
def test_other_sides_and_types(spark, views, joined_by, query, found):
    rows, predicates, frame = ask(spark, query)
    assert rows
    assert any(found in predicate for predicate in predicates), (predicates, executed_plan(frame))


@pytest.mark.parametrize("joined_by", ["broadcast", "merge", "merge, not adaptive"], indirect=True)
@pytest.mark.parametrize(
    "side",
    [
        "made",
        "(SELECT DISTINCT id FROM made WHERE id > 0)",
        "(SELECT id FROM made UNION ALL SELECT 8L)",
    ],
)
def test_rows_of_the_driver_s(spark, views, joined_by, side):
    rows, predicates, frame = ask(spark, f"SELECT f.s FROM fact f JOIN {side} d ON f.id = d.id")
    assert len(rows) in (2, 3)
    kind = "BroadcastHashJoin" if joined_by == "broadcast" else "SortMergeJoin"
    assert kind in executed_plan(frame)
    assert any("id IN (" in predicate for predicate in predicates), (predicates, executed_plan(frame))


@pytest.mark.parametrize("joined_by", ["broadcast", "merge"], indirect=True)
def test_rows_that_a_function_made_are_not_computed_twice(spark, views, joined_by):
    """Nobody knows how many they are, and whether the same would come again."""
    made = spark.sparkContext.parallelize([(7,), (251,)]).map(lambda row: (row[0] + 1,)).toDF(["id"])
    made.createOrReplaceTempView("mapped")
    rows, predicates, _ = ask(spark, "SELECT f.s FROM fact f JOIN mapped d ON f.id = d.id")
    assert len(rows) == 2
    assert not any("id IN (" in predicate for predicate in predicates)


def test_many_rows_of_the_driver_s_are_not_broadcast(spark, views):
    """Their size counts: as many as Spark would not broadcast of a table's."""
    spark.conf.set("spark.sql.autoBroadcastJoinThreshold", "1000")
    try:
        spark.createDataFrame([(i,) for i in range(300)], "id long").createOrReplaceTempView("listed_ids")
        rows, _, frame = ask(spark, "SELECT f.s FROM fact f JOIN listed_ids d ON f.id = d.id")
    finally:
        spark.conf.unset("spark.sql.autoBroadcastJoinThreshold")
    assert len(rows) == 294
    assert "SortMergeJoin" in executed_plan(frame)


def test_a_long_range_gives_no_keys(spark, views):
    _, predicates, _ = ask(spark, "SELECT f.s FROM fact f JOIN range(1000000) d ON f.id = d.id")
    assert not any("id IN (" in predicate or "id >=" in predicate for predicate in predicates)


def test_each_kind_of_join(spark, views, joined_by):
    rows, predicates, frame = ask(
        spark,
        f"SELECT {'/*+ SHUFFLE_HASH(d) */' if joined_by == 'hash' else ''} f.id, f.s FROM fact f JOIN {DIM} d ON f.id = d.id",
    )
    assert rows
    assert any("id IN (" in predicate for predicate in predicates)
    kind = {"broadcast": "BroadcastHashJoin", "hash": "ShuffledHashJoin"}.get(joined_by, "SortMergeJoin")
    assert kind in executed_plan(frame)


@pytest.mark.parametrize("hint", ["MERGE", "SHUFFLE_HASH", "SHUFFLE_REPLICATE_NL"])
def test_a_hint_that_forbids_the_broadcast(spark, views, hint):
    """Spark sees the small side's filter, and counts on a broadcast that the hint forbids."""
    spark.conf.set(MAX_BUILD_SHARE, "1000")
    try:
        rows, predicates, frame = ask(
            spark, f"SELECT /*+ {hint}(d) */ f.s FROM fact f JOIN listed d ON f.id = d.id WHERE d.id > 100"
        )
    finally:
        spark.conf.unset(MAX_BUILD_SHARE)
    assert len(rows) == 3
    assert "BroadcastHashJoin" not in executed_plan(frame)
    assert any("id IN (" in predicate for predicate in predicates), (predicates, executed_plan(frame))


def test_a_dear_side_is_not_read_twice(spark, views):
    spark.conf.set("spark.sql.autoBroadcastJoinThreshold", "-1")
    spark.conf.set(MAX_BUILD_SHARE, "0.01")
    try:
        _, predicates, _ = ask(spark, f"SELECT f.id, f.s FROM fact f JOIN {DIM} d ON f.id = d.id")
    finally:
        spark.conf.unset("spark.sql.autoBroadcastJoinThreshold")
        spark.conf.unset(MAX_BUILD_SHARE)
    assert not any("id IN (" in predicate for predicate in predicates)


@pytest.mark.parametrize("joined_by", ["broadcast", "merge"], indirect=True)
def test_the_first_rows_of_a_side_are_read_once(spark, views, joined_by):
    """Read twice, LIMIT might choose others: only a broadcast, which is read once, gives its keys."""
    query = "SELECT f.s FROM fact f JOIN (SELECT id FROM dim ORDER BY id DESC LIMIT 2) d ON f.id = d.id"
    rows, predicates, _ = ask(spark, query)
    assert len(rows) == 2
    assert any("id IN (" in predicate for predicate in predicates) == (joined_by == "broadcast")


@pytest.mark.parametrize(
    "query",
    [
        f"SELECT f.id FROM fact f LEFT JOIN {DIM} d ON f.id = d.id",
        f"SELECT f.id FROM fact f FULL JOIN {DIM} d ON f.id = d.id",
        f"SELECT f.id FROM fact f LEFT ANTI JOIN {DIM} d ON f.id = d.id",
        f"SELECT f.id FROM fact f JOIN {DIM} d ON f.id <=> d.id",
        "SELECT f.id FROM fact f JOIN dim d ON f.id = d.id AND f.s = d.s",
        "SELECT f.id FROM fact f WHERE f.n NOT IN (SELECT n FROM dim WHERE v = 3)",
        f"SELECT f.id FROM (SELECT id, n FROM fact ORDER BY n LIMIT 50) f JOIN {DIM} d ON f.id = d.id",
        f"SELECT f.id, f.r FROM (SELECT id, rank() OVER (ORDER BY n) AS r FROM fact) f JOIN {DIM} d ON f.id = d.id",
        f"SELECT f.id, f.n FROM (SELECT max(id) AS id, n FROM fact GROUP BY n) f JOIN {DIM} d ON f.id = d.id",
        f"SELECT f.id, f.r >= 0 FROM (SELECT id, rand() AS r FROM fact) f JOIN {DIM} d ON f.id = d.id",
        f"SELECT f.id FROM fact f JOIN {DIM} d ON f.id + 1 = d.id + 1",
    ],
)
def test_joins_that_give_none(spark, views, query):
    _, predicates, frame = ask(spark, query)
    given = [one for one in predicates if "id IN (" in one or "n IN (" in one or "id = " in one]
    assert not given, executed_plan(frame)


@pytest.mark.parametrize("adaptive", ["true", "false"])
def test_a_scalar_subquery(spark, views, adaptive):
    spark.conf.set("spark.sql.adaptive.enabled", adaptive)
    try:
        for query, found in (
            ("SELECT s FROM fact WHERE id = (SELECT max(id) FROM dim WHERE v = 3)", "id = 330"),
            ("SELECT s FROM fact WHERE (SELECT min(id) FROM dim WHERE v = 3) = id AND n < 390", "id = 30"),
        ):
            rows, predicates, frame = ask(spark, query)
            assert len(rows) == 1
            assert any(found in predicate for predicate in predicates), (predicates, executed_plan(frame))
        rows, _, _ = ask(spark, "SELECT s FROM fact WHERE id = (SELECT max(id) FROM dim WHERE v > 100)")
        assert not rows
        with pytest.raises(Exception, match="SCALAR_SUBQUERY_TOO_MANY_ROWS"):
            spark.sql("SELECT s FROM fact WHERE id = (SELECT id FROM dim WHERE v = 3)").collect()
    finally:
        spark.conf.unset("spark.sql.adaptive.enabled")


@pytest.mark.parametrize("joined_by", ["broadcast", "merge"], indirect=True)
def test_a_side_without_rows_ends_the_scan(spark, views, joined_by):
    query = "SELECT f.s FROM fact f JOIN (SELECT id FROM dim WHERE v + id % 10 = 11) d ON f.id = d.id"
    rows, predicates, frame = ask(spark, query)
    assert not rows
    assert "dynamicpruning#" in executed_plan(frame)
    assert all("FALSE" in predicate for predicate in predicates)


def test_both_sides_of_a_self_join_keep_their_own(spark, views):
    """One view in several places: keys of one place's join leave the rows of the others alone."""
    for query in (
        "SELECT a.id, b.id FROM fact a JOIN fact b ON a.id = b.id WHERE b.v = 3 AND b.n > 200",
        f"WITH t AS (SELECT * FROM fact) SELECT id FROM t UNION ALL SELECT t.id FROM t JOIN {DIM} d ON t.id = d.id",
        f"SELECT f.id FROM fact f JOIN {DIM} d ON f.id = d.id JOIN (SELECT * FROM dim WHERE v < 5) e ON f.n = e.n",
        f"SELECT count(*) FROM fact f JOIN {DIM} d ON f.id = d.id, (SELECT count(*) c FROM fact) e WHERE e.c > 100",
    ):
        ask(spark, query)


def test_a_side_with_a_scan_as_large_keeps_its_own_filter(spark, views):
    """Keys of such a side would cost its own filter: what gives keys is not filtered."""
    rows, predicates, frame = ask(
        spark,
        f"SELECT f.id, f.n FROM fact f JOIN {DIM} d ON f.id = d.id "
        f"WHERE f.n IN (SELECT g.n FROM fact g JOIN {DIM} e ON g.id = e.id)",
    )
    assert len(rows) == 2
    assert len(predicates) == 2
    assert all("id IN (" in predicate for predicate in predicates), (predicates, executed_plan(frame))


def test_rules_run_again_change_nothing(spark, views):
    """Spark runs the rules that users add until the plan stays as it is."""
    frame = spark.sql(f"SELECT f.id FROM fact f JOIN {DIM} d ON f.id = d.id AND f.s = d.s")
    plan = frame._jdf.queryExecution().optimizedPlan()
    rules = spark._jsparkSession.sessionState().experimentalMethods().extraOptimizations()
    assert plan.toString().count("dynamicpruning#") == 2
    for place in range(rules.size()):
        assert rules.apply(place).apply(plan).fastEquals(plan)


def test_a_table_read_without_them(spark, views):
    """With `dynamic-filter=off` keys would only prune: then no side is read once more for them."""
    load(spark, views, **{"scan.native": "never", "dynamic-filter": "off"}).createOrReplaceTempView("off")
    frame = spark.sql(f"SELECT f.id FROM off f JOIN {DIM} d ON f.id = d.id")
    assert len(frame.collect()) == 2
    assert "dynamicpruning#" not in frame._jdf.queryExecution().optimizedPlan().toString()


def test_spark_s_own_switch_holds(spark, views):
    spark.conf.set("spark.sql.optimizer.dynamicPartitionPruning.enabled", "false")
    try:
        frame = spark.sql(f"SELECT f.id FROM fact f JOIN {DIM} d ON f.id = d.id")
        assert "dynamicpruning" not in frame._jdf.queryExecution().optimizedPlan().toString()
    finally:
        spark.conf.unset("spark.sql.optimizer.dynamicPartitionPruning.enabled")


@pytest.fixture(scope="module")
def many(spark, views):
    """View `many`: 3,000 keys, of which `fact` has the first 400 as `n`."""
    spark.range(3000).selectExpr(
        "CAST(id AS INT) AS k", "id AS v", "CAST(id * 7919 % 400000 AS INT) AS spread"
    ).createOrReplaceTempView("many")


@pytest.mark.parametrize(
    ("limits", "query", "found"),
    [
        ({}, "f.n = m.k WHERE m.v < 900", "n IN ("),
        ({}, "f.n = m.k WHERE m.v < 2000", "n >= 0 AND n <= 1999"),
        ({"maxKeys": "10"}, "f.n = m.k WHERE m.v < 50", "n >= 0 AND n <= 49"),
        ({"maxKeys": "10"}, "f.n = m.k WHERE m.v < 50 AND m.v % 3 = 0", "n IN set of 17 keys"),
        ({"maxKeys": "10"}, "f.n = m.spread WHERE m.v < 2000", "n IN set of 2,000 keys"),
        (
            {"maxKeys": "10", "maxSetKeys": "16"},
            "f.n = m.k WHERE m.v < 50 AND m.v % 3 = 0",
            "n IN Bloom filter of 17 keys",
        ),
        ({"maxSetKeys": "0"}, "f.n = m.spread WHERE m.v < 2000", "n IN Bloom filter of 2,000 keys"),
        ({"maxKeys": "10"}, "f.s = concat('s', m.k) WHERE m.v < 20", "s IN Bloom filter of 20 keys"),
        (
            {"maxKeys": "10", "maxSetKeys": "15", "maxBloomKeys": "15"},
            "f.n = m.k WHERE m.v < 50 AND m.v % 3 = 0",
            "n >= 0 AND n <= 48",
        ),
        (
            {"maxKeys": "0"},
            "f.amount = CAST(m.k AS DECIMAL(5, 2)) WHERE m.v < 20",
            "amount IN set of 20 keys",
        ),
        (
            {"maxKeys": "0", "maxSetKeys": "0"},
            "f.amount = CAST(m.k AS DECIMAL(5, 2)) WHERE m.v < 20",
            "amount >= 0",
        ),
    ],
)
def test_forms_by_the_number_of_keys(spark, views, many, limits, query, found):
    for name, value in limits.items():
        spark.conf.set(f"spark.twostage.dynamicFilter.{name}", value)
    try:
        _, predicates, frame = ask(
            spark, f"SELECT /*+ BROADCAST(m) */ f.id, f.s FROM fact f JOIN many m ON {query}"
        )
    finally:
        for name in limits:
            spark.conf.unset(f"spark.twostage.dynamicFilter.{name}")
    assert any(found in predicate for predicate in predicates), (predicates, executed_plan(frame))
    for form in ("Bloom", "set of"):
        assert form in found or not any(form in predicate for predicate in predicates)


@pytest.mark.parametrize("adaptive", ["true", "false"])
@pytest.mark.parametrize(("most", "form"), [("1000", "list"), ("0", "set")])
def test_what_the_report_and_explain_say_of_keys(spark, views, adaptive, most, form):
    spark.conf.set("spark.twostage.dynamicFilter.maxKeys", most)
    spark.conf.set("spark.sql.adaptive.enabled", adaptive)
    try:
        frame = spark.sql(
            "SELECT /*+ BROADCAST(d) */ f.s FROM fact f JOIN dim d ON f.id = d.id WHERE d.v = 3 AND d.n > 260"
        )
        assert len(frame.collect()) == 2
    finally:
        spark.conf.unset("spark.twostage.dynamicFilter.maxKeys")
        spark.conf.unset("spark.sql.adaptive.enabled")
    (report,) = [one for one in twostage.scans(spark) if "/fact" in one.table][-1:]
    (keys,) = report.joins
    assert (keys.column, keys.keys, keys.form, keys.broadcast) == ("f.id", 2, form, True)
    assert keys.built is not None
    assert report.count("files.unjoined") == 2  # of the ids 30 and 130, in two of four files
    assert report.count("row_groups.unjoined") == 2
    assert f"keys of joins [id in {form} of 2]" in frame._jdf.queryExecution().executedPlan().toString()


def test_a_limit_that_is_no_number(spark, views, many):
    for name in ("maxKeys", "maxSetKeys", "maxBloomKeys", "maxBuildShare"):
        spark.conf.set(f"spark.twostage.dynamicFilter.{name}", "few")
        try:
            with pytest.raises(Exception, match=f"TWOSTAGE.OPTION.*{name}.*few"):
                spark.sql(
                    "SELECT /*+ BROADCAST(m) */ f.id FROM fact f JOIN many m ON f.s = m.k || '' WHERE m.v < 1500"
                    if name == "maxBloomKeys"
                    else "SELECT /*+ BROADCAST(m) */ f.id FROM fact f JOIN many m ON f.n = m.spread WHERE m.v < 1500"
                ).collect()
        finally:
            spark.conf.unset(f"spark.twostage.dynamicFilter.{name}")
