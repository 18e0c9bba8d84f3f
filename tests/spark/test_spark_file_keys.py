"""Keys of a join leave out files of a scan that Spark's own reader does, and the rows are those of plain Parquet."""

from __future__ import annotations

import pytest

import twostage
from joined_tables import (
    BROADCAST,
    LEFT_OUT,
    NO_KEYS,
    SCALAR,
    SORTED,
    TWICE,
    bytes_of,
    clear_reports,
    confs,
    make_tables,
    readers,
    same,
    view,
)
from lakehouse import executed_plan
from twostage.handover import decide, eligibility


@pytest.fixture(scope="module")
def tables(spark, tmp_path_factory):
    return make_tables(spark, tmp_path_factory.mktemp("joined"))


@pytest.fixture(params=["large side", "large columns", "small side"])
def clustered(request, monkeypatch, tables):
    """Let the scan of `fact` count as one that is not small, of few bytes or many; or as small and of many rows."""
    if request.param == "large columns":
        count_rows_as_many(monkeypatch, tables)
    elif request.param == "large side":
        monkeypatch.setattr(eligibility, "MIN_BYTES_TO_PROBE", bytes_of(tables["fact"]))
    else:
        monkeypatch.setattr(decide, "MIN_ROWS_TO_AWAIT_KEYS", 100)


def count_rows_as_many(monkeypatch, tables):
    """Let columns of `fact` count as large, and each of their values as one that many rows share."""
    monkeypatch.setattr(eligibility, "MIN_BYTES_TO_PROBE", bytes_of(tables["fact"]))
    monkeypatch.setattr(eligibility, "MAX_JOIN_COLUMN_BYTES", 0)
    monkeypatch.setattr(decide, "MIN_ROWS_PER_KEY_TO_PRUNE", 0)


@pytest.mark.parametrize("adaptive", ["true", "false"])
@pytest.mark.parametrize("key", ["n", "id", "day"])
def test_keys_leave_out_files_of_spark_s_reader(spark, tables, clustered, bridge, key, adaptive):
    """Each file of `fact` has its own range of the keys, and `dim` has keys of some of them; NULLs never join."""
    view(spark, tables)
    few = "d.v >= 0" if key == "id" else "d.v >= 0 AND d.id < 1000"
    query = f"""SELECT /*+ BROADCAST(d) */ f.id, f.s, d.id FROM {{fact}} f JOIN {{dim}} d ON f.{key} = d.{key}
WHERE {few}"""
    with confs(spark, adaptive_enabled=adaptive):
        clear_reports(bridge)
        frame = same(spark, query)
        assert readers(frame) == (2, 0)
        assert "TwoStageFiles" in executed_plan(frame)
        (report,) = [one for one in twostage.scans(spark) if "/fact/" in one.table]
        assert report.is_handed_over
        assert LEFT_OUT in str(report)
        assert 1 <= report.count("spark.files") < report.count("handed_over.files"), str(report)
        (keys,) = report.joins
        assert (keys.column, keys.form) == (key, "")
        assert keys.keys is not None
        assert f"keys        {key}, {keys.keys} keys, after" in str(report)
        # Without them, the same rows of all files.
        clear_reports(bridge)
        with confs(spark, optimizer_dynamicPartitionPruning_enabled="false"):
            same(spark, query)
        (report,) = [one for one in twostage.scans(spark) if "/fact/" in one.table]
        assert NO_KEYS in str(report)
        assert report.count("spark.files") == report.count("handed_over.files")


def test_keys_leave_out_files_of_a_correlated_subquery(spark, tables, clustered, bridge):
    """Spark optimizes it by itself first, and offers keys only when it has become a join."""
    view(spark, tables)
    clear_reports(bridge)
    same(
        spark,
        """SELECT t.id FROM {tiny} t WHERE EXISTS (
SELECT 1 FROM {fact} f JOIN {dim} d ON f.n = d.n WHERE d.id < 1000 AND d.v >= 0 AND f.s = t.s)""",
    )
    (report,) = [one for one in twostage.scans(spark) if "/fact/" in one.table]
    assert LEFT_OUT in str(report)
    assert report.count("spark.files") < report.count("handed_over.files"), str(report)


@pytest.mark.parametrize("adaptive", ["true", "false"])
def test_file_keys_in_self_joins_unions_subqueries_and_caches(spark, tables, clustered, adaptive):
    view(spark, tables)
    with confs(spark, adaptive_enabled=adaptive):
        for query in (
            BROADCAST,
            SORTED,
            "SELECT a.id, b.id FROM {fact} a JOIN {fact} b ON a.n = b.n WHERE b.v < 2 AND b.n < 2",
            TWICE,
            f"{BROADCAST} AND d.n < 1 UNION ALL {SORTED} UNION ALL {BROADCAST} AND d.n > 16",
            "SELECT id FROM {fact} WHERE n IN (SELECT n FROM {dim} WHERE v < 3 AND n < 2)",
            "SELECT id FROM {fact} f WHERE f.v < 8 AND NOT EXISTS (SELECT 1 FROM {dim} d WHERE d.n = f.n AND d.v < 5)",
            SCALAR,
            "SELECT f.id, d.v, e.v FROM {fact} f JOIN {dim} d ON f.n = d.n JOIN {tiny} e ON f.l = e.l WHERE d.v < 7 AND e.v < 9",
            "SELECT f.id FROM {fact} f LEFT JOIN {dim} d ON f.n = d.n AND d.v < 5",
            "SELECT f.id FROM {fact} f JOIN {none} d ON f.n = d.n WHERE d.v < 100",
        ):
            same(spark, query)


def test_a_small_side_with_a_filter_awaits_none(spark, tables, monkeypatch, bridge):
    """Spark sees its filter, and takes keys for other scans from it."""
    monkeypatch.setattr(decide, "MIN_ROWS_TO_AWAIT_KEYS", 100)
    view(spark, tables)
    clear_reports(bridge)
    frame = same(spark, f"{BROADCAST} AND f.v < 8")
    assert readers(frame) == (2, 0)
    assert not any("join keys" in str(report) for report in twostage.scans(spark))


def test_the_option_leaves_pruning_as_it_is(spark, tables, clustered, bridge):
    """`dynamic-filter` is about rows. Spark's own setting is about all keys."""
    view(spark, tables, **{"dynamic-filter": "off"})
    clear_reports(bridge)
    same(spark, f"{BROADCAST} AND d.id < 1000 AND d.v >= 0")
    (report,) = [one for one in twostage.scans(spark) if "/fact/" in one.table]
    assert report.count("spark.files") < report.count("handed_over.files"), str(report)


@pytest.mark.parametrize(
    ("join", "is_handed_over"),
    [
        ("{dim} d ON f.n = d.n", True),
        ("{dim} d ON f.n = d.n AND f.s = d.s", False),
        ("{dim} d ON f.n = d.n JOIN {tiny} e ON f.s = e.s AND e.v >= 0", False),
        ("{dim} d ON f.s = d.s", False),
    ],
)
def test_keys_of_other_columns_keep_a_scan_of_large_columns(
    spark, tables, monkeypatch, bridge, join, is_handed_over
):
    """They drop rows of each file: those of `s` lie in all files."""
    count_rows_as_many(monkeypatch, tables)
    view(spark, tables)
    clear_reports(bridge)
    same(
        spark,
        f"SELECT /*+ BROADCAST(d, e) */ f.id, d.v FROM {{fact}} f JOIN {join} WHERE d.v >= 0 AND d.id < 1000",
    )
    (report,) = [one for one in twostage.scans(spark) if "/fact/" in one.table]
    assert report.is_handed_over == is_handed_over, str(report)
    if is_handed_over:
        assert report.count("spark.files") < report.count("handed_over.files"), str(report)
    else:
        assert "join keys filter it" in str(report)


def test_keys_of_an_expression_are_none(spark, tables, clustered, bridge):
    """Spark offers them, but would not tell the scan, which would wait for them in vain."""
    view(spark, tables)
    clear_reports(bridge)
    same(
        spark,
        "SELECT /*+ BROADCAST(d) */ f.id, d.v FROM {fact} f JOIN {dim} d ON f.n + 1 = d.n WHERE d.v < 3",
    )
    (report,) = [one for one in twostage.scans(spark) if "/fact/" in one.table]
    assert report.is_handed_over, str(report)
    assert NO_KEYS in str(report)


@pytest.mark.parametrize("too", ["few rows", "large", "wide"])
def test_keys_by_which_few_files_would_be_left_out_filter_rows(spark, tables, monkeypatch, bridge, too):
    """Where each value has few rows, and where Spark's reader would read too many bytes or columns."""
    count_rows_as_many(monkeypatch, tables)
    if too == "few rows":
        monkeypatch.setattr(decide, "MIN_ROWS_PER_KEY_TO_PRUNE", 1000)
    elif too == "large":
        monkeypatch.setattr(eligibility, "MAX_PRUNED_COLUMN_BYTES", 0)
    else:
        monkeypatch.setattr(decide, "MAX_COLUMNS", 8)
    view(spark, tables)
    clear_reports(bridge)
    same(spark, f"{BROADCAST} AND d.id < 1000 AND d.v >= 0")
    (report,) = [one for one in twostage.scans(spark) if "/fact/" in one.table]
    assert not report.is_handed_over
    assert "join keys filter it" in str(report)


def test_an_option_lets_them_be(spark, tables, clustered, bridge):
    view(spark, tables, **{"dynamic-filter.files": "off"})
    clear_reports(bridge)
    same(spark, f"{BROADCAST} AND d.id < 1000 AND d.v >= 0")
    (report,) = [one for one in twostage.scans(spark) if "/fact/" in one.table]
    assert LEFT_OUT not in str(report)
    assert report.is_handed_over == (eligibility.MAX_JOIN_COLUMN_BYTES > 0)
    assert report.count("spark.files") == report.count("handed_over.files"), str(report)


def test_an_option_says_from_how_many_bytes_a_side_awaits_keys(spark, tables, monkeypatch, bridge):
    monkeypatch.setattr(eligibility, "MIN_BYTES_TO_PROBE", bytes_of(tables["fact"]))
    query = f"{BROADCAST} AND d.id < 1000 AND d.v >= 0"
    for least, is_handed_over in (("1", False), ("4m", True)):
        view(spark, tables, **{"dynamic-filter.min-bytes": least})
        clear_reports(bridge)
        same(spark, query)
        (report,) = [one for one in twostage.scans(spark) if "/fact/" in one.table]
        assert report.is_handed_over == is_handed_over, str(report)
