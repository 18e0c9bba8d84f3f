"""Columns of delete files, whatever the format: every row comes back, row groups are left out only by proof."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from declared.files import FILE_PATH as PATH, POSITION, FileOptions, write_rows
from declared.types import Column, Struct
from random_predicates import answer
from scan_values import context_of, delete_of
from twostage.deletes.files import columns
from twostage.deletes.files.columns import read_columns
from twostage.deletes.files.wanted_fields import NeededRows, WantedField
from twostage.errors import CorruptFileError, StorageError
from twostage.metrics import Metrics
from twostage.predicates.predicate import And, Column as Named, Compare, In, IsNull
from twostage.schema import Primitive
from twostage.task import DeleteFile

FORMATS = pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
K, T = Column(1, "k", "long"), Column(2, "t", "string")
WANTED = (WantedField(field_id=1, names=("k",)), WantedField(field_id=2, names=("t",)))
ROWS: list[dict[int, Any]] = [
    {1: None if n % 10 == 3 else n, 2: None if n % 10 == 7 else f"t{n % 30}"} for n in range(100)
]


def write(
    path: Path, rows: Sequence[dict[int, Any]] = ROWS, fields: Sequence[Column] = (K, T), **more: Any
) -> DeleteFile:
    file_format = path.suffix[1:]
    write_rows(path, fields, rows, FileOptions(format=file_format, row_group_size=8, **more))
    return delete_of(path, "equality", equality_ids=(1, 2), record_count=len(rows))


def read(
    delete: DeleteFile, wanted: Sequence[WantedField] = WANTED, *, metrics: Metrics | None = None, **more: Any
) -> list[tuple[Any, ...]]:
    """Return the rows that come back."""
    context = context_of(Path(delete.path).parent, [K, T], **more.pop("context", {}))
    rows: list[tuple[Any, ...]] = []
    for count, arrays in read_columns(context, delete, wanted, metrics or Metrics(), **more):
        assert all(array is None or len(array) == count for array in arrays)
        values = [[None] * count if array is None else array.to_pylist() for array in arrays]
        rows += zip(*values, strict=True)
    return rows


def pairs(rows: Sequence[dict[int, Any]] = ROWS) -> list[tuple[Any, ...]]:
    return [(row.get(1), row.get(2)) for row in rows]


@FORMATS
def test_every_row_comes_back_in_order(tmp_path: Path, file_format: str) -> None:
    delete, metrics = write(tmp_path / f"d.{file_format}"), Metrics()
    assert read(delete, metrics=metrics) == pairs()
    assert metrics.counters["delete_files.opened"] == 1
    assert read(delete, WANTED[::-1]) == [pair[::-1] for pair in pairs()]
    assert read(delete, WANTED[1:]) == [pair[1:] for pair in pairs()]


@FORMATS
def test_from_bytes_that_were_fetched_ahead(tmp_path: Path, file_format: str) -> None:
    """The file itself is not opened again."""
    path = tmp_path / f"d.{file_format}"
    delete = write(path)
    content = path.read_bytes()
    path.unlink()
    assert read(delete, content=content) == pairs()


@FORMATS
def test_a_large_file_is_read_by_its_parts(
    tmp_path: Path, file_format: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(columns, "MAX_WHOLE_FILE_BYTES", 10)
    monkeypatch.setattr(columns, "BATCH_ROWS", 7)
    assert read(write(tmp_path / f"d.{file_format}")) == pairs()


@FORMATS
def test_a_field_that_the_file_lacks_is_none_for_each_row(tmp_path: Path, file_format: str) -> None:
    delete = write(tmp_path / f"d.{file_format}", fields=[K])
    assert read(delete) == [(k, None) for k, _ in pairs()]
    assert read(delete, WANTED[1:]) == [(None,)] * len(ROWS)  # how many rows is still told


@FORMATS
def test_a_field_of_a_struct_is_null_where_the_struct_is(tmp_path: Path, file_format: str) -> None:
    fields = [Column(5, "s", Struct((Column(6, "other", "long"), Column(1, "k", "long"))))]
    rows = [{5: None if n % 4 == 0 else {6: -1, 1: n}} for n in range(20)]
    delete = write(tmp_path / f"d.{file_format}", rows, fields)
    assert read(delete, WANTED[:1]) == [(None if n % 4 == 0 else n,) for n in range(20)]


@pytest.mark.parametrize("file_format", ["parquet", "orc"])
def test_names_count_only_where_the_file_has_no_ids(tmp_path: Path, file_format: str) -> None:
    without = write(tmp_path / f"a.{file_format}", field_ids=False)
    assert read(without) == pairs()
    renamed = write(tmp_path / f"b.{file_format}", fields=[Column(1, "t", "long"), Column(9, "k", "string")], rows=[{1: 5, 9: "x"}])  # fmt: skip
    assert read(renamed) == [(5, None)]


def test_text_may_come_as_codes(tmp_path: Path) -> None:
    wanted = WantedField(field_id=2, names=("t",), dictionary=True)
    context = context_of(tmp_path, [K, T])
    batches = list(read_columns(context, write(tmp_path / "d.parquet"), [wanted], Metrics()))
    assert all(pa.types.is_dictionary(arrays[0].type) for _, arrays in batches)
    assert [value for _, arrays in batches for value in arrays[0].to_pylist()] == [t for _, t in pairs()]


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("bloom", [True, False])
@FORMATS
def test_no_row_that_a_predicate_wants_is_left_out(
    tmp_path: Path, file_format: str, seed: int, bloom: bool
) -> None:
    """Of Parquet, row groups are; whichever other rows come back does not matter."""
    rng = random.Random(seed)
    rows = [{1: rng.randrange(10**6), 2: f"t{rng.randrange(10**6)}"} for _ in range(200)]
    rows += [{1: None, 2: None}] * 8
    more = {"bloom": ("k", "t")} if bloom and file_format == "parquet" else {}
    delete = write(tmp_path / f"d.{file_format}", rows, **more)
    k, t = Named(1, ("k",), Primitive("long")), Named(2, ("t",), Primitive("string"))
    wanted = rng.choice(rows[:200])
    left_out = 0
    for predicate in (
        In(k, (wanted[1], 5)),
        In(t, (wanted[2],)),
        And((Compare(">", k, wanted[1]), In(t, (wanted[2], "t")))),
        Compare("<", k, 1000),
        IsNull(k),
    ):
        found = read(delete, needed=NeededRows(predicate=predicate))
        needed = [row for row in pairs(rows) if answer(predicate, {1: row[0], 2: row[1]}) is True]
        assert set(needed) <= set(found)
        left_out += len(rows) - len(found)
    assert (left_out > 200) is (file_format == "parquet")


def test_row_groups_by_the_bounds_of_the_first_field(tmp_path: Path) -> None:
    rows = [{PATH.id: f"/lake/{n // 8}", POSITION.id: n} for n in range(40)]  # a path each row group
    delete = write(tmp_path / "d.parquet", rows, [PATH, POSITION])
    wanted = [WantedField(field_id=column.id, names=(column.name,)) for column in (PATH, POSITION)]
    seen = []

    def may_hold(bounds: Any) -> bool:
        seen.append((bounds.lower, bounds.upper))
        return bool(bounds.lower == "/lake/3")

    assert read(delete, wanted, needed=NeededRows(may_hold=may_hold)) == [
        ("/lake/3", n) for n in range(24, 32)
    ]
    assert seen == [(f"/lake/{n}", f"/lake/{n}") for n in range(5)]


def test_a_field_that_is_read_first_may_spare_the_others(tmp_path: Path) -> None:
    """Those of a Parquet row group, if it holds nothing that may match."""
    delete = write(tmp_path / "d.parquet")
    tested: list[int] = []

    def may_match(array: pa.Array) -> bool:
        tested.extend(array.to_pylist())
        return 42 in array.to_pylist()

    assert read(delete, needed=NeededRows(first=0, may_match=may_match)) == pairs()[40:48]
    assert tested == [k for k, _ in pairs()]
    # A field that the file lacks tells nothing.
    absent = (*WANTED, WantedField(field_id=9, names=("x",)))
    none = NeededRows(first=2, may_match=lambda _: False)
    assert len(read(delete, absent, needed=none)) == 100


@pytest.mark.parametrize("name", ["d.parquet", "d.orc", "d.avro"])
def test_damage_names_the_file_and_the_stage(tmp_path: Path, name: str) -> None:
    delete = write(tmp_path / name)
    content = (tmp_path / name).read_bytes()
    for bad in (b"", b"nothing of the sort", content[: len(content) // 2]):
        (tmp_path / name).write_bytes(bad)
        with pytest.raises(CorruptFileError) as caught:
            read(delete)
        assert (caught.value.path, caught.value.stage) == (delete.path, "deletes")
        assert "stage deletes" in str(caught.value)


def test_a_format_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(CorruptFileError, match="format that cannot hold its content: csv"):
        read(delete_of(tmp_path / "d.csv", "equality"), content=b"1,2")


def test_a_caller_s_own_error_is_not_called_a_damaged_file(tmp_path: Path) -> None:
    delete = write(tmp_path / "d.parquet")
    rows = read_columns(context_of(tmp_path, [K, T]), delete, WANTED, Metrics())
    next(rows)
    mine = StorageError("MINE", "text", path="/mine", stage="storage")
    with pytest.raises(StorageError) as caught:
        rows.throw(mine)
    assert (caught.value.path, caught.value.stage) == ("/mine", "storage")


def test_fewer_rows_than_the_footer_says_are_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """pyarrow ends silently there, and the keys behind would not be applied."""
    delete = write(tmp_path / "d.parquet")
    real = pq.ParquetFile

    class Short(real):  # type: ignore[misc, valid-type]
        @property
        def reader(self) -> Any:
            return self._reader

        @reader.setter
        def reader(self, found: Any) -> None:
            class Reader:
                def __getattr__(self, name: str) -> Any:
                    return getattr(found, name)

                def iter_batches(self, *given: Any, **named: Any) -> Any:
                    return (batch.slice(1) for batch in found.iter_batches(*given, **named))

            self._reader = Reader()

    monkeypatch.setattr(pq, "ParquetFile", Short)
    with pytest.raises(CorruptFileError, match="Row group 0 holds 8 rows, decoded 7"):
        read(delete)
