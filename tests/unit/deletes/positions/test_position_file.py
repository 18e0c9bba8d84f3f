"""One positional delete file: its columns in every form, damage, and row groups that need not be read."""

from __future__ import annotations

import random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyroaring import BitMap64

from declared.files import FILE_PATH, POSITION, FileOptions, write_position_deletes, write_rows
from declared.types import Column
from scan_values import context_of, delete_of, task_of
from twostage.deletes.positions import position_deletes, position_file
from twostage.deletes.positions.position_deletes import load_positions
from twostage.errors import CorruptFileError, MissingFileError, ResourceLimitError
from twostage.metrics import Metrics
from twostage.predicates.bounds import Bounds


def write(path, rows, **changes):
    write_position_deletes(path, rows, path.suffix[1:])
    return delete_of(path, "position", record_count=len(rows), **changes)


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


def test_a_large_file_skips_row_groups(tmp_path, monkeypatch):
    monkeypatch.setattr(position_deletes, "MAX_ROWS_TO_READ_WHOLE", 5)
    rows = [(f"/lake/{name:03}", place) for name in range(10) for place in range(100)]  # a row group each
    delete = write(tmp_path / "d.parquet", rows)
    seen: list[int] = []
    add = position_file.PositionReader._add
    monkeypatch.setattr(
        position_file.PositionReader,
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
    reader = position_file.PositionReader(
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


def read(folder, delete, *, only=None, content=None, canonical=str, **settings):
    """Return the reader, and the positions by path."""
    context = context_of(folder, settings=settings)
    reader = position_file.PositionReader(context, delete, canonical, only, content)
    found = reader.read(Metrics())
    return reader, {path: list(bitmap) for path, bitmap in found.items()}


@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
@pytest.mark.parametrize("flush_rows", [1, 50, 2**20])
@pytest.mark.parametrize("seed", range(3))
def test_positions_by_path(tmp_path, monkeypatch, file_format, flush_rows, seed):
    """Of all data files or of one, whatever the order of the rows and however many are queued."""
    monkeypatch.setattr(position_file, "_FLUSH_ROWS", flush_rows)
    rng = random.Random(seed)
    rows = [(f"/lake/{rng.randrange(6)}", rng.randrange(rng.choice([50, 2**40]))) for _ in range(300)]
    delete = write(tmp_path / f"d.{file_format}", rows)
    right = {path: sorted({place for name, place in rows if name == path}) for path, _ in rows}
    reader, found = read(tmp_path, delete)
    assert found == right
    assert reader.nbytes == sum(map(position_file.bitmap_bytes, reader._bitmaps.values())) > 0
    content = (tmp_path / f"d.{file_format}").read_bytes()
    assert read(tmp_path, delete, only="/lake/3")[1] == {"/lake/3": right["/lake/3"]}
    assert read(tmp_path, delete, only="/lake/absent")[1] == {}
    (tmp_path / f"d.{file_format}").unlink()
    assert read(tmp_path, delete, content=content)[1] == right


def test_forms_of_a_path_are_one_data_file(tmp_path):
    """Each path is brought into its form once, not once a row."""
    resolved = []

    def canonical(path):
        resolved.append(path)
        return path.removeprefix("file:")

    rows = [("/lake/a", 1), ("file:/lake/a", 2), ("/lake/b", 3)] * 50
    delete = write(tmp_path / "d.avro", rows)
    assert read(tmp_path, delete, canonical=canonical)[1] == {"/lake/a": [1, 2], "/lake/b": [3]}
    assert sorted(resolved) == ["/lake/a", "/lake/b", "file:/lake/a"]


def test_an_empty_file_deletes_nothing(tmp_path):
    reader, found = read(tmp_path, write(tmp_path / "d.parquet", []))
    assert (found, reader.nbytes) == ({}, 0)


@pytest.mark.parametrize("other", [b"\xff", b"/lake/b", b"/lake/a"])
def test_paths_may_be_bytes(tmp_path, other):
    """Of a writer that does not call them text; those that are none name no file that anybody opens."""
    pq.write_table(pa.table({"file_path": [other, b"/lake/a"], "pos": [1, 2]}), tmp_path / "d.parquet")
    _, found = read(tmp_path, delete_of(tmp_path / "d.parquet", "position"))
    assert found["/lake/a"] == ([1, 2] if other == b"/lake/a" else [2])


@pytest.mark.parametrize("kind", [pa.int8(), pa.int16(), pa.int32(), pa.int64()])
def test_narrower_positions_are_widened(tmp_path, kind):
    table = pa.table({"file_path": ["/lake/a"] * 3, "pos": pa.array([100, 0, 7], kind)})
    pq.write_table(table, tmp_path / "d.parquet")
    assert read(tmp_path, delete_of(tmp_path / "d.parquet", "position"))[1] == {"/lake/a": [0, 7, 100]}


@pytest.mark.parametrize("kind", [pa.uint64(), pa.float64(), pa.bool_()])
def test_positions_of_another_type_are_damage(tmp_path, kind):
    table = pa.table({"file_path": ["/lake/a"], "pos": pa.array([1]).cast(kind)})
    pq.write_table(table, tmp_path / "d.parquet")
    with pytest.raises(CorruptFileError, match=f"positions of type {kind}"):
        read(tmp_path, delete_of(tmp_path / "d.parquet", "position"))


@pytest.mark.parametrize("flush_rows", [10, 2**20])
def test_the_memory_is_checked_while_it_reads(tmp_path, monkeypatch, flush_rows):
    monkeypatch.setattr(position_file, "_FLUSH_ROWS", flush_rows)
    rows = [(f"/lake/{n}", n) for n in range(50)]
    delete = write(tmp_path / "d.parquet", rows)
    size = read(tmp_path, delete)[0].nbytes
    assert read(tmp_path, delete, task_memory=size)[0].nbytes == size
    with pytest.raises(ResourceLimitError, match=f"budget of {size - 1} bytes") as caught:
        read(tmp_path, delete, task_memory=size - 1)
    assert (caught.value.code, caught.value.path) == ("DELETED_POSITIONS_TOO_LARGE", delete.path)


@pytest.mark.parametrize(
    ("positions", "max_bytes"),
    [(range(10**6), 2000), (range(0, 2 * 10**6, 2), 300_000), (range(0, 10**9, 10**6), 50_000)],
    ids=["a run", "every second", "far apart"],
)
def test_bytes_of_a_bitmap(positions, max_bytes):
    """At least what it takes in a file, and for dense positions far less than eight bytes each."""
    bitmap = BitMap64(positions)
    bitmap.run_optimize()
    assert len(bitmap.serialize()) <= position_file.bitmap_bytes(bitmap) < max_bytes
