"""Columns of scans that Spark's own Parquet reader does: found by field id, under the query's names, however many."""

from __future__ import annotations

import os

import pyarrow.parquet as pq
import pytest

from lakehouse import SPARK_CONFS, canonical, run_python
from native_scans import LOCAL_CLUSTER, is_native, load, reason, same_rows
from tables import Table
from twostage.handover import eligibility

MANY = 90
"""Of 100, the most that whole-stage code generation takes."""
FILTERS = {
    "b < 50": lambda a, b: b < 50,
    "a >= 1030 AND b <> 60": lambda a, b: a >= 1030 and b != 60,
    "a IN (1001, 1099)": lambda a, b: a in (1001, 1099),
    "b + 0 < 20 AND a > 1010": lambda a, b: b < 20 and a > 1010,
    "coalesce(c, -5) = -5": lambda a, b: True,
}


@pytest.fixture
def any_filter(monkeypatch):
    """Filters of small tables go to Spark as those of large ones would, whatever they keep."""
    monkeypatch.setattr(eligibility, "MIN_BYTES_TO_PROBE", 0)
    monkeypatch.setattr(eligibility, "MIN_KEPT_SHARE", 0.0)


def swapped(folder, further: int = 0):
    """Build a table whose `a` is its files' `b` and the reverse, and whose `c` is none of theirs."""
    extra = [f"x{number}" for number in range(further)]
    table = Table(folder, {"a": "long", "b": "long", "c": "long", **dict.fromkeys(extra, "int")})
    for numbers in (range(50), range(50, 100)):
        rows = [{"a": n, "b": 1000 + n, "c": -n, **dict.fromkeys(extra, n)} for n in numbers]
        table.append(rows, row_group_size=10)
    table.rename_column("a", "was_a")
    table.rename_column("b", "a")
    table.rename_column("was_a", "b")
    table.drop_column("c")
    table.add_column("c", "long")
    return table.write()


def wide(folder, rows: int = 20):
    table = Table(folder, {f"c{number}": "int" for number in range(MANY)})
    table.append([{f"c{number}": row * number for number in range(MANY)} for row in range(rows)])
    return table.write()


@pytest.mark.parametrize("further", [0, MANY])
def test_filters_on_names_that_files_have_for_other_columns(spark, tmp_path, any_filter, further):
    """By name Spark would skip row groups by the statistics of another column, and find rows of none."""
    path = swapped(tmp_path / "t", further)
    for where, keeps in FILTERS.items():
        frame = load(spark, path).where(where)
        frame = frame if further else frame.select("a", "b", "c")
        assert is_native(frame), where
        found = sorted((row.a, row.b, row.c) for row in frame.collect())
        assert found == [(1000 + n, n, None) for n in range(100) if keeps(1000 + n, n)], where


def test_many_columns(spark, tmp_path, any_filter):
    path = wide(tmp_path / "t")
    found = same_rows(spark, path, "*")
    assert sorted(map(tuple, found)) == [tuple(row * number for number in range(MANY)) for row in range(20)]
    assert len(same_rows(spark, path, "*", "c1 + 0 < 18")) == 18
    select = ", ".join(f"c{number} + 1 AS d{number}" for number in range(MANY))
    assert len(same_rows(spark, path, select)) == 20
    same_rows(spark, path, ", ".join(f"sum(c{number}) AS s{number}" for number in range(MANY)))


def test_unions_joins_caches_and_writes(spark, tmp_path):
    path = swapped(tmp_path / "t", MANY)
    frame = load(spark, path)
    expected = canonical(load(spark, path, **{"scan.native": "never"}).collect())
    assert canonical(frame.union(frame).collect()) == sorted(expected * 2)
    joined = frame.alias("one").join(frame.alias("two"), on="b").selectExpr("b", "one.a + two.a AS a")
    assert sorted(map(tuple, joined.collect())) == [(n, 2000 + 2 * n) for n in range(100)]
    cached = load(spark, path).cache()
    try:
        assert canonical(cached.collect()) == expected
        assert canonical(cached.collect()) == expected
        assert sorted(row.b for row in cached.where("a < 1010").collect()) == list(range(10))
    finally:
        cached.unpersist()
    # What is written has the query's names, and the ids under which files hold the columns are not passed on.
    frame.write.parquet(str(tmp_path / "out"))
    assert canonical(spark.read.parquet(str(tmp_path / "out")).collect()) == expected
    (file,) = [name for name in os.listdir(tmp_path / "out") if name.endswith(".parquet")][:1]
    written = pq.read_schema(tmp_path / "out" / file)
    assert written.names == frame.columns
    assert not any(b"PARQUET:field_id" in (field.metadata or {}) for field in written)
    frame.createOrReplaceTempView("swapped")
    try:
        spark.sql(f"CREATE TABLE made USING parquet LOCATION '{tmp_path / 'made'}' AS SELECT * FROM swapped")
        assert canonical(spark.table("made").collect()) == expected
    finally:
        spark.sql("DROP TABLE IF EXISTS made")


def test_schemas_are_those_of_our_reader(spark, tmp_path):
    path = swapped(tmp_path / "t", MANY)
    frame = load(spark, path)
    other = load(spark, path, **{"scan.native": "never"})
    assert is_native(frame)
    for one, two in zip(frame.schema, other.schema, strict=True):
        assert (one, one.metadata) == (two, two.metadata)


def test_two_tables_of_the_same_columns_share_no_exchange(spark, tmp_path):
    """The same files under names that changed places are not the same scan."""
    table = Table(tmp_path / "t", {"a": "long", "b": "long"})
    table.append([{"a": n, "b": 1000 + n} for n in range(10)])
    before = load(spark, table.write(), versionAsOf=str(table.snapshots[-1].id))
    before.createOrReplaceTempView("before")
    after = load(spark, swapped(tmp_path / "u"))
    after.createOrReplaceTempView("after")
    spark.conf.set("spark.sql.autoBroadcastJoinThreshold", "-1")
    try:
        text = "SELECT x.a, y.b FROM after x JOIN after y ON x.a = y.b + 1000"
        assert len(spark.sql(text).collect()) == 100
        assert len(spark.sql("SELECT x.b FROM before x JOIN after y ON x.b = y.a").collect()) == 10
    finally:
        spark.conf.unset("spark.sql.autoBroadcastJoinThreshold")


def test_names_that_differ_by_case_alone(spark, tmp_path, any_filter):
    spark.conf.set("spark.sql.caseSensitive", "true")
    try:
        table = Table(tmp_path / "t", {"id": "long", "ID": "long", "Id": "string"})
        table.append([{"id": n, "ID": -n, "Id": f"w{n}"} for n in range(20)])
        path = table.write()
        found = same_rows(spark, path, "ID, id, Id", "ID + 0 < -9 AND id < 15")
        assert sorted(map(tuple, found)) == sorted((-n, n, f"w{n}") for n in range(10, 15))
        frame = load(spark, path).select("ID", "id")
        assert is_native(frame)
        spark.conf.set("spark.sql.caseSensitive", "false")  # planned before, run after
        assert sorted(map(tuple, frame.collect())) == sorted((-n, n) for n in range(20))
    finally:
        spark.conf.unset("spark.sql.caseSensitive")


ODD = (
    "a.b",
    "a`b",
    "a b",
    "_metadata",
    "_TMP_METADATA_ROW_INDEX",
    "ü=1",
    "a,b;{}()\n\t",
    "x" * 300,
    "0",
    "a_b",
)


@pytest.mark.parametrize("deleted", [False, True], ids=["all_rows", "deleted_rows"])
def test_odd_names(spark, tmp_path, any_filter, deleted):
    # With deleted rows a file may have no column of the name under which Spark gives the places of rows.
    names = [name for name in ODD if not (deleted and "ROW_INDEX" in name)]
    table = Table(tmp_path / "t", dict.fromkeys(names, "long"))
    file = table.append([{name: n + 100 * place for place, name in enumerate(names)} for n in range(20)])
    if deleted:
        table.delete_positions({file: [19]})
    path = table.write()
    quoted = ["`" + name.replace("`", "``") + "`" for name in names]
    wanted = [number for number in range(20) if number >= 3 and not (deleted and number == 19)]
    for place, name in enumerate(quoted):
        frame = load(spark, path).where(f"{name} >= {100 * place + 3}").selectExpr(name, quoted[0])
        assert is_native(frame), name
        assert sorted(row[0] - 100 * place for row in frame.collect()) == wanted, name
        assert frame.schema.names[0] == names[place]


def test_defaults_that_the_schema_tells(spark, tmp_path):
    """Spark fills a missing column by EXISTS_DEFAULT of its metadata: here NULL stands for it, a default of v3 stays."""
    table = Table(tmp_path / "t", {"id": "long"}, version=3)
    table.append([{"id": 1}])
    table.add_column("none", "int")
    table.add_column("seven", "int", default=7)
    path = table.write()
    assert same_rows(spark, path, "id, none") == [(1, None)]
    frame = load(spark, path)
    assert "takes its default" in reason(spark, frame)
    assert frame.collect() == [(1, None, 7)]


CLUSTER = (
    LOCAL_CLUSTER
    + """
frame = spark.read.format("twostage").load({path!r})
for where in ("true", "b + 0 >= 0 AND a >= 1000"):
    asked = frame.where(where)
    print("plan", "TwoStageFiles" in asked._jdf.queryExecution().executedPlan().toString())
    rows = asked.collect()
    print("rows", len(rows), len(rows[0]), sorted((row.a, row.b, row.c) for row in rows)[0])
spark.stop()
"""
)


def test_executors_need_none_of_our_classes(tmp_path):
    path = str(swapped(tmp_path / "t", MANY))
    out = run_python(CLUSTER.format(confs=SPARK_CONFS, path=path), cwd=tmp_path)
    assert out.count("plan True") == 2, out
    assert out.count(f"rows 100 {MANY + 3} (1000, 0, None)") == 2, out


@pytest.mark.parametrize("native", ["auto", "never"])
@pytest.mark.parametrize("name", ["w`", "`", "a.b", "w x", "ü"])
def test_a_field_of_a_struct_is_filtered_whatever_its_name(spark, tmp_path, native, name):
    """Spark ends a query in an error if it pushed a filter of such a field down, and reads another one."""
    table = Table(tmp_path / "t", {"id": "long", "st": {"u": "int", name: "string"}})
    table.append([{"id": i, "st": {"u": i * 2, name: f"x{i}"}} for i in range(5)])
    load(spark, table.write(), **{"scan.native": native}).createOrReplaceTempView("named")
    quoted = "`" + name.replace("`", "``") + "`"
    for where in (f"st.{quoted} = 'x1'", f"st.{quoted} LIKE 'x1%'", f"st.{quoted} IN ('x1', 'y')"):
        assert spark.sql(f"SELECT st.u FROM named WHERE {where}").collect() == [(2,)]
        assert spark.sql(f"SELECT id, st.u + 1 FROM named WHERE {where} AND st.u >= 0").collect() == [(1, 3)]
