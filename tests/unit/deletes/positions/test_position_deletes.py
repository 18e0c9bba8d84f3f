from __future__ import annotations

import random

import pytest

from declared.files import write_position_deletes
from scan_values import context_of, delete_of, task_of
from twostage.deletes.positions import position_deletes, position_file
from twostage.deletes.positions.position_deletes import load_positions
from twostage.metrics import Metrics
from twostage.task import Storage

FORMATS = ("parquet", "orc", "avro")


def write(path, rows, **changes):
    write_position_deletes(path, rows, path.suffix[1:])
    return delete_of(path, "position", record_count=len(rows), **changes)


@pytest.mark.parametrize("file_format", FORMATS)
def test_unsorted_duplicates_and_other_data_files(tmp_path, file_format):
    rows = [
        ("/lake/a", 5),
        ("/lake/b", 1),
        ("/lake/a", 0),
        ("/lake/a", 5),
        ("/lake/c", 9),
        ("/lake/a", 2),
    ] * 3
    delete = write(tmp_path / f"d.{file_format}", rows)
    metrics = Metrics()
    for name, expected in (("a", [0, 2, 5]), ("b", [1]), ("c", [9]), ("d", [])):
        found = load_positions(context_of(tmp_path), task_of(delete, written_path=f"/lake/{name}"), metrics)
        assert (found.kind, found.count, bool(found)) == ("position", len(expected), bool(expected))
        assert found.within(0, 100).tolist() == expected
    assert (metrics.counters["delete_files.opened"], metrics.counters["delete_files.cached"]) == (1, 3)


def test_several_files_unite(tmp_path):
    files = [
        write(tmp_path / f"d.{name}", [("/lake/a", n), ("/lake/a", 7)]) for n, name in enumerate(FORMATS)
    ]
    found = load_positions(context_of(tmp_path), task_of(*files, written_path="/lake/a"), Metrics())
    assert found.within(0, 100).tolist() == [0, 1, 2, 7]
    assert found.within(1, 3).tolist() == [0, 1]
    assert found.within(3, 0).tolist() == []
    alone = load_positions(context_of(tmp_path), task_of(files[0], written_path="/lake/a"), Metrics())
    assert alone.within(0, 100).tolist() == [0, 7]  # uniting changed nothing that is kept


def test_positions_past_the_end_delete_nothing(tmp_path):
    delete = write(tmp_path / "d.parquet", [("/lake/a", 2), ("/lake/a", 3), ("/lake/a", 2**40)])
    found = load_positions(
        context_of(tmp_path), task_of(delete, written_path="/lake/a", record_count=3), Metrics()
    )
    assert (found.count, found.within(0, 3).tolist()) == (1, [2])
    none = load_positions(
        context_of(tmp_path), task_of(delete, written_path="/lake/a", record_count=2), Metrics()
    )
    assert (none.count, none.within(0, 2).tolist()) == (0, [])
    assert none.within(0, 3).tolist() == [2]  # the count may be wrong: the file's own rows decide


@pytest.mark.parametrize(
    ("stored", "written", "same"),
    [
        ("/lake/a", "file:/lake/a", True),
        ("file:///lake/a", "/lake/a", True),
        ("file:/lake/a", "file:///lake/a", True),
        ("s3://bucket/a", "s3a://bucket/a", True),
        ("s3://bucket/a", "s3://other/a", False),
        ("s3://bucket/a b%20c", "s3://bucket/a b c", False),
        ("/lake/A", "/lake/a", False),
    ],
)
def test_paths_mean_files(tmp_path, stored, written, same):
    delete = write(tmp_path / "d.parquet", [(stored, 1)])
    found = load_positions(context_of(tmp_path), task_of(delete, written_path=written), Metrics())
    assert found.within(0, 9).tolist() == ([1] if same else [])


def test_moved_paths(tmp_path):
    storage = Storage(root=str(tmp_path), moved_from="hdfs://node:8020/lake")
    delete = write(tmp_path / "d.parquet", [("hdfs://node:8020/lake/a", 1), ("hdfs://node:8020/lake/b", 2)])
    found = load_positions(
        context_of(tmp_path, storage=storage), task_of(delete, written_path="/lake/a"), Metrics()
    )
    assert found.within(0, 9).tolist() == [1]


@pytest.mark.parametrize("file_format", FORMATS)
@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("large", [False, True])
def test_random_files(tmp_path, seed, file_format, large, monkeypatch):
    """Whole files and files read for one data file at a time give what a dict of sets gives."""
    if large:
        monkeypatch.setattr(position_deletes, "MAX_ROWS_TO_READ_WHOLE", 5)
    monkeypatch.setattr(position_file, "_FLUSH_ROWS", 70)
    rng = random.Random(seed)
    names = [f"/lake/{rng.choice('abcx0')}/{rng.randrange(20):05}.parquet" for _ in range(8)]
    rows = [(rng.choice(names), rng.choice([rng.randrange(50), rng.randrange(2**34)])) for _ in range(600)]
    if rng.random() < 0.5:
        rows.sort()
    delete = write(tmp_path / f"d.{file_format}", rows)
    for name in {*names, "/lake/a/absent"}:
        task = task_of(delete, written_path=f"file:{name}", record_count=2**33)
        found = load_positions(context_of(tmp_path), task, Metrics())
        expected = sorted({place for path, place in rows if path == name and place < 2**33})
        assert found.count == len(expected)
        assert found.within(0, 2**33).tolist() == expected
        assert found.within(10, 20).tolist() == [place - 10 for place in expected if 10 <= place < 30]


def test_no_deletes(tmp_path):
    found = load_positions(context_of(tmp_path), task_of(), Metrics())
    assert (bool(found), found.kind, found.count, found.within(0, 10).tolist()) == (False, "position", 0, [])
