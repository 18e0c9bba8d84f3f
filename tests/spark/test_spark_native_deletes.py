"""Deleted positions in scans that Spark's own Parquet reader does: it numbers the rows, and a filter leaves some out."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

import twostage
from lakehouse import executed_plan
from native_scans import is_native, load, reason, same_rows
from session_settings import CONFS, settings
from tables import Table
from twostage.handover import eligibility

SEED = int(os.environ.get("TWOSTAGE_SEED", "1"))
ROWS = 500
LAYOUTS = {
    "one_row_group": {},
    "row_groups_of_pages": {
        "row_group_size": 100,
        "page_size": 40,
        "compression": "none",
        "page_index": True,
    },
    "pages_v2": {"row_group_size": 250, "page_size": 100, "page_version": "2.0", "dictionary": False},
}
FILTERS = (
    "true",
    "id >= 130",
    "id % 1000 BETWEEN 60 AND 444 AND name <> 'n3'",
    "id IN (0, 99, 100, 499, 1250)",
)


@pytest.fixture(autouse=True)
def look_at_small_files(monkeypatch):
    """Hand over what any filter keeps: what is pruned must not move the places of rows."""
    monkeypatch.setattr(eligibility, "MIN_BYTES_TO_PROBE", 0)
    monkeypatch.setattr(eligibility, "MIN_KEPT_SHARE", 0)


def build(folder: Path, kind: str, deleted: list[list[int]], **layout):
    """Make a table of a file for each list: ids are 1,000 times the file's number and the row's place."""
    table = Table(folder, {"id": "long", "name": "string"}, version=3 if kind == "vector" else 2)
    files = [
        table.append([{"id": 1000 * n + i, "name": f"n{i % 7}"} for i in range(ROWS)], **layout)
        for n in range(len(deleted))
    ]
    wanted = {file: places for file, places in zip(files, deleted, strict=True) if places}
    if kind == "vector":
        table.delete_vectors(wanted)
    else:
        table.delete_positions(wanted)
    return table, files


def drawn() -> list[list[int]]:
    """Return deleted places for four files: some, none, the edges of row groups, all."""
    print(f"seed {SEED}")
    pick = random.Random(f"native deletes {SEED}")
    edges = [0, 99, 100, 101, 199, 200, 249, 250, 299, 499]
    return [sorted(pick.sample(range(ROWS), 150)), [], edges, list(range(ROWS))]


@pytest.mark.parametrize("kind", ["position", "vector"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_rows_by_layout_filter_and_split(spark, tmp_path, kind, layout):
    deleted = drawn()
    path = build(tmp_path / "t", kind, deleted, **LAYOUTS[layout])[0].write()
    live = [1000 * n + i for n, gone in enumerate(deleted) for i in range(ROWS) if i not in set(gone)]
    for size in ("128m", "700b"):
        confs = {"spark.sql.files.maxPartitionBytes": size, "spark.sql.files.openCostInBytes": "1"}
        with settings(spark, **confs):
            assert sorted(row.id for row in same_rows(spark, path, "id")) == live
            for where in FILTERS[1:]:
                same_rows(spark, path, "*", where)
    same_rows(spark, path, "id, hash(name)", "name LIKE 'n3%'")


@pytest.mark.parametrize("confs", CONFS)
def test_settings_of_the_session_change_nothing(spark, tmp_path, confs):
    deleted = drawn()
    path = build(tmp_path / "t", "position", deleted, **LAYOUTS["row_groups_of_pages"])[0].write()
    live = [1000 * n + i for n, gone in enumerate(deleted) for i in range(ROWS) if i not in set(gone)]
    with settings(spark, **CONFS[confs]):
        assert sorted(row.id for row in same_rows(spark, path, "id, name")) == live
        same_rows(spark, path, "*", FILTERS[2])


def test_several_delete_files_overlap_and_reach_past_the_end(spark, tmp_path):
    table, (first, second) = build(tmp_path / "t", "position", [[3, 4], []])
    table.delete_positions(
        {first: [4, 5, ROWS, ROWS + 1, 10**12], second: []}, others=[("file:/elsewhere", 7)]
    )
    found = same_rows(spark, table.write(), "id")
    rows = {1000 * n + i for n in (0, 1) for i in range(ROWS)}
    assert rows - {row.id for row in found} == {3, 4, 5}
    assert "3 rows of 1 files deleted by position" in str(load_report(spark, table.write()))


def load_report(spark, path):
    load(spark, path).collect()
    return twostage.last_scan(spark)


def test_report(spark, tmp_path):
    path = build(tmp_path / "t", "vector", [[1, 2, 3], [], [9]])[0].write()
    report = load_report(spark, path)
    assert report.is_handed_over
    assert report.count("handed_over.deleted") == 4
    assert report.count("delete_files.opened") + report.count("delete_files.cached") == 2
    assert "4 of the files' rows are deleted" in str(report)
    assert "4 rows of 2 files deleted by position, which Spark leaves out" in str(report)


def test_snapshots_of_the_same_files_differ(spark, tmp_path):
    table, (file,) = build(tmp_path / "t", "position", [[1]])
    table.delete_positions({file: [2, 3]})
    path = table.write()
    old, new = (load(spark, path, versionAsOf=str(s.id)) for s in table.snapshots[-2:])
    gone = old.join(new, "id", "left_anti")
    assert "TwoStageFiles" in executed_plan(gone)
    assert sorted(row.id for row in gone.collect()) == [2, 3]
    both = old.selectExpr("sum(id) s").union(new.selectExpr("sum(id) s")).collect()
    assert [row.s for row in both] == [sum(range(ROWS)) - 1, sum(range(ROWS)) - 6]


def test_equal_scans_share_an_exchange(spark, tmp_path):
    load(spark, build(tmp_path / "t", "position", [[1], [2]])[0].write()).createOrReplaceTempView("t")
    with settings(spark, **{"spark.sql.autoBroadcastJoinThreshold": "-1"}):
        frame = spark.sql(
            "WITH g AS (SELECT name, sum(id) n FROM t GROUP BY name) SELECT a.n, b.n FROM g a JOIN g b ON a.name = b.name"
        )
        assert len(frame.collect()) == 7
        assert "ReusedExchange" in executed_plan(frame)


def test_a_frame_keeps_the_deletes_that_it_was_planned_with(spark, tmp_path):
    table, (file,) = build(tmp_path / "t", "position", [[1]])
    frame = load(spark, table.write())
    assert is_native(frame)
    table.delete_positions({file: [2]})
    table.write()
    assert len(frame.collect()) == ROWS - 1
    cached = frame.where("id > 0").cache()
    assert cached.count() == cached.count() == ROWS - 2
    cached.unpersist()


def test_a_damaged_delete_file_is_our_error(spark, tmp_path):
    table, _ = build(tmp_path / "t", "position", [[1]])
    path = table.write()
    (delete,) = (tmp_path / "t" / "data").glob("deletes-*")
    os.truncate(delete, 20)
    frame = load(spark, path)
    assert not is_native(frame)
    with pytest.raises(Exception, match=r"\[TWOSTAGE\."):
        frame.collect()


def test_a_column_of_spark_s_name_for_places(spark, tmp_path):
    table = Table(tmp_path / "t", {"id": "long", "_tmp_metadata_row_index": "long"})
    file = table.append([{"id": i, "_tmp_metadata_row_index": 9 - i} for i in range(10)])
    table.delete_positions({file: [2]})
    path = table.write()
    assert "the name of Spark's row position column" in reason(spark, load(spark, path))
    assert len(load(spark, path).collect()) == 9


def test_as_many_columns_as_fit_with_the_places(spark, tmp_path):
    table = Table(tmp_path / "t", {f"c{number}": "int" for number in range(99)})
    file = table.append([{f"c{number}": row * number for number in range(99)} for row in range(20)])
    table.delete_positions({file: [7]})
    path = table.write()
    assert "with 99 columns and the positions of deleted rows" in reason(spark, load(spark, path))
    assert len(same_rows(spark, path, ", ".join(f"c{number}" for number in range(98)))) == 19


def test_a_filter_that_would_fail_for_a_deleted_row(spark, tmp_path):
    table = Table(tmp_path / "t", {"id": "long", "word": "string"})
    file = table.append([{"id": i, "word": "x" if i == 3 else str(i)} for i in range(100)])
    table.delete_positions({file: [3]})
    found = same_rows(spark, table.write(), "id, CAST(word AS INT)", "CAST(word AS INT) >= 0")
    assert len(found) == 99
    with pytest.raises(Exception, match="CAST_INVALID_INPUT"):
        load(spark, tmp_path / "t", versionAsOf=str(table.snapshots[0].id)).where(
            "CAST(word AS INT) >= 0"
        ).collect()


def test_metadata_columns_stay(spark, tmp_path):
    path = build(tmp_path / "t", "position", [[1], []])[0].write()
    frame = load(spark, path).selectExpr("id", "_pos", "_deleted")
    assert not is_native(frame)
    assert sorted((row.id, row._pos) for row in frame.collect() if row._deleted) == [(1, 1)]
    assert len(frame.collect()) == 2 * ROWS
