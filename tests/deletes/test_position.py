from __future__ import annotations

import random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scan_values import context_of, delete_of, task_of

from declared.files import FILE_PATH, POSITION, FileOptions, write_position_deletes, write_rows
from declared.types import Column
from twostage.deletes.positions import position_deletes
from twostage.deletes.positions.position_deletes import load_positions
from twostage.errors import CorruptFileError, MissingFileError, ResourceLimitError
from twostage.metrics import Metrics
from twostage.predicates.bounds import Bounds
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


@pytest.mark.parametrize("file_format", ["parquet", "orc"])
def test_columns_without_ids_and_with_a_row_column(tmp_path, file_format):
    row = Column(2147483544, "row", "string")
    records = [{FILE_PATH.id: "/lake/a", POSITION.id: n, row.id: "deleted"} for n in (4, 8)]
    for number, options in enumerate(
        (FileOptions(format=file_format, field_ids=False), FileOptions(format=file_format))
    ):
        path = tmp_path / f"{number}.{file_format}"
        write_rows(path, (row, POSITION, FILE_PATH), records, options)
        found = load_positions(
            context_of(tmp_path), task_of(delete_of(path, "position"), written_path="/lake/a"), Metrics()
        )
        assert found.within(0, 9).tolist() == [4, 8]


def test_dictionary_and_large_text(tmp_path):
    table = pa.table({"file_path": pa.array(["/lake/a", "/lake/b", "/lake/a"]).dictionary_encode(), "pos": pa.array([1, 2, 3], pa.int32())})  # fmt: skip
    pq.write_table(table, tmp_path / "d.parquet")
    large = table.set_column(0, "file_path", table["file_path"].cast(pa.large_string()))
    pq.write_table(large, tmp_path / "l.parquet")
    for name in "dl":
        delete = delete_of(tmp_path / f"{name}.parquet", "position")
        assert load_positions(
            context_of(tmp_path), task_of(delete, written_path="/lake/a"), Metrics()
        ).within(0, 9).tolist() == [1, 3]


def test_reserved_columns_under_other_names(tmp_path):
    """The ids are what counts."""
    path = tmp_path / "d.parquet"
    columns = (Column(FILE_PATH.id, "p", "string"), Column(POSITION.id, "n", "long"))
    write_rows(path, columns, [{FILE_PATH.id: "/lake/a", POSITION.id: 3}])
    found = load_positions(
        context_of(tmp_path), task_of(delete_of(path, "position"), written_path="/lake/a"), Metrics()
    )
    assert found.within(0, 9).tolist() == [3]


def test_damage(tmp_path):
    def case(name, **columns):
        pq.write_table(pa.table(columns), tmp_path / f"{name}.parquet")
        return delete_of(tmp_path / f"{name}.parquet", "position")

    (tmp_path / "bad.parquet").write_bytes(b"nothing of the sort")
    (tmp_path / "bad.orc").write_bytes(b"nothing of the sort")
    (tmp_path / "bad.avro").write_bytes(b"nothing of the sort")
    (tmp_path / "empty.parquet").write_bytes(b"")
    cases = [
        case("negative", file_path=["/lake/a", "/lake/other"], pos=[1, -1]),
        case("null position", file_path=["/lake/a"], pos=pa.array([None], pa.int64())),
        case("null path", file_path=pa.array([None], pa.string()), pos=[1]),
        case("no path", pos=[1]),
        case("no position", file_path=["/lake/a"]),
        case("text position", file_path=["/lake/a"], pos=["1"]),
        delete_of(tmp_path / "bad.parquet", "position"),
        delete_of(tmp_path / "bad.orc", "position"),
        delete_of(tmp_path / "bad.avro", "position"),
        delete_of(tmp_path / "empty.parquet", "position"),
        delete_of(tmp_path / "bad.parquet", "position", format="puffin"),
    ]
    for delete in cases:
        for _ in range(2):  # what failed is not kept
            with pytest.raises(CorruptFileError) as caught:
                load_positions(context_of(tmp_path), task_of(delete, written_path="/lake/a"), Metrics())
            assert (caught.value.path, caught.value.stage) == (delete.path, "deletes")
    with pytest.raises(MissingFileError):
        load_positions(
            context_of(tmp_path), task_of(delete_of(tmp_path / "absent.parquet", "position")), Metrics()
        )


@pytest.mark.parametrize("file_format", FORMATS)
@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("large", [False, True])
def test_random_files(tmp_path, seed, file_format, large, monkeypatch):
    """Whole files and files read for one data file at a time give what a dict of sets gives."""
    if large:
        monkeypatch.setattr(position_deletes, "LARGE_ROWS", 5)
    monkeypatch.setattr(position_deletes, "_FLUSH_ROWS", 70)
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


def test_a_large_file_skips_row_groups(tmp_path, monkeypatch):
    monkeypatch.setattr(position_deletes, "LARGE_ROWS", 5)
    rows = [(f"/lake/{name:03}", place) for name in range(10) for place in range(100)]  # a row group each
    delete = write(tmp_path / "d.parquet", rows)
    seen: list[int] = []
    add = position_deletes._PositionReader._add
    monkeypatch.setattr(
        position_deletes._PositionReader,
        "_add",
        lambda self, paths, places: (seen.append(len(paths)), add(self, paths, places))[1],
    )
    found = load_positions(context_of(tmp_path), task_of(delete, written_path="file:/lake/004"), Metrics())
    assert found.count == 100
    assert sum(seen) == 100


FORMS = ["/lake/t/b.parquet", "file:/lake/t/b.parquet", "file:///lake/t/b.parquet", "/lake//t/b.parquet", "/lake/./t/b.parquet",
         "/lake/t/../t/b.parquet", "//lake/t/b.parquet", "/lake/t/b.parquet/", "file://localhost/lake/t/b.parquet",
         "FILE:/lake/t/b.parquet", "/lake/t//./b.parquet"]  # fmt: skip
OTHERS = [
    "/lake/t/a.parquet",
    "/lake/t/c.parquet",
    "/lake/t/b.parquet0",
    "/a",
    "/z",
    "file:/z",
    "s3://lake/t/b.parquet",
    "",
    "x",
    "/",
]


@pytest.mark.parametrize("seed", range(5))
def test_statistics_never_hide_the_data_file(seed):
    """Whatever form its path takes, a row group that holds it is read."""
    from twostage.storage.files import canonical

    rng = random.Random(seed)
    reader = position_deletes._PositionReader(
        context_of(""), delete_of(position_path(), "position"), canonical, "/lake/t/b.parquet"
    )
    skipped = 0
    for _ in range(2000):
        paths = sorted(rng.sample(FORMS + OTHERS, rng.randint(1, 3)))
        holds = any(canonical(path) == "/lake/t/b.parquet" for path in paths if path)
        kept = reader._may_hold(Bounds(lower=paths[0], upper=paths[-1]))
        assert kept or not holds, paths
        skipped += not kept
    assert skipped > 100
    assert reader._may_hold(Bounds())


def position_path():
    from pathlib import Path

    return Path("/absent.parquet")


def test_budget(tmp_path):
    rng = random.Random(1)
    rows = [("/lake/a", rng.randrange(2**40)) for _ in range(2000)]
    delete = write(tmp_path / "d.parquet", rows)
    with pytest.raises(ResourceLimitError, match="task-memory"):
        load_positions(
            context_of(tmp_path, settings={"task_memory": 10_000}),
            task_of(delete, written_path="/lake/a"),
            Metrics(),
        )


def test_no_deletes(tmp_path):
    found = load_positions(context_of(tmp_path), task_of(), Metrics())
    assert (bool(found), found.kind, found.count, found.within(0, 10).tolist()) == (False, "position", 0, [])
