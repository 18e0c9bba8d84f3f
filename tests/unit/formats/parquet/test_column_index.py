"""Bounds of pages: those of the rows that each page holds, and nothing from an index that contradicts its pages."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

import thrift_writer
from twostage.formats.parquet import column_index
from twostage.formats.parquet.column_index import page_bounds
from twostage.formats.parquet.pages import PageTable, pages_of_index
from twostage.predicates.bounds import Bounds
from twostage.schema import Primitive
from written_files import Opened

P = Primitive
ROWS = 1_000


class File(Opened):
    """A file of one column in small pages, with its page table and its ColumnIndex."""

    def __init__(self, array: pa.Array, kind: Primitive) -> None:
        options: dict[str, Any] = {"data_page_size": 10, "write_batch_size": 20, "use_dictionary": False}
        super().__init__(pa.table({"c": array}), [kind], write_page_index=True, **options)
        (chunk,) = self.footer.row_groups[0].columns
        assert chunk.offset_index is not None
        assert chunk.column_index is not None
        table = pages_of_index(self._at(chunk.offset_index), self.footer.leaves[0], chunk, len(array))
        assert table is not None
        self.table: PageTable = table
        self.raw = self._at(chunk.column_index)

    def _at(self, place: tuple[int, int]) -> bytes:
        return self.data[place[0] :][: place[1]]

    def bounds(self, raw: bytes | None = None, table: PageTable | None = None) -> list[Bounds] | None:
        leaf, (kind,) = self.footer.leaves[0], self.kinds
        return page_bounds(self.raw if raw is None else raw, self.footer, leaf, kind, table or self.table)


@pytest.mark.parametrize(
    ("arrow", "kind"),
    [
        (pa.int32(), P("int")),
        (pa.int32(), P("long")),
        (pa.int64(), P("long")),
        (pa.float64(), P("double")),
        (pa.string(), P("string")),
        (pa.decimal128(10, 0), P("decimal", 10, 0)),
    ],
)
@pytest.mark.parametrize("nulls", [0.0, 0.3, 0.97])
def test_bounds_are_those_of_each_pages_rows(arrow: pa.DataType, kind: Primitive, nulls: float) -> None:
    pick = random.Random(f"{arrow} {nulls}")
    numbers = [None if pick.random() < nulls else pick.randrange(10**6) for _ in range(ROWS)]
    array = pa.array(numbers, pa.int32() if pa.types.is_decimal(arrow) else pa.int64()).cast(arrow)
    file = File(array, kind)
    found = file.bounds()
    assert found is not None
    assert len(found) == len(file.table) > 3
    for one, first, count in zip(
        found, file.table.first_rows.tolist(), file.table.row_counts.tolist(), strict=True
    ):
        rows = array.slice(first, count).drop_null().to_pylist()
        assert (one.null_count, one.value_count) == (count - len(rows), count)
        assert (one.lower, one.upper) == ((min(rows), max(rows)) if rows else (None, None))


def test_pages_of_nothing_but_null() -> None:
    array = pa.array(list(range(200)) + [None] * 200, pa.int64())
    found = File(array, P("long")).bounds()
    assert found is not None
    last = found[-1]
    assert (last.lower, last.upper, last.null_count, last.value_count) == (None, None, 200, 200)


def test_lists_and_too_many_pages_have_no_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    assert File(pa.array([[i, i] for i in range(ROWS)]), P("long")).bounds() is None
    file = File(pa.array(range(ROWS)), P("long"))
    monkeypatch.setattr(column_index, "MAX_PAGES_DECODED", len(file.table))
    assert file.bounds() is not None
    monkeypatch.setattr(column_index, "MAX_PAGES_DECODED", len(file.table) - 1)
    assert file.bounds() is None


def index(null_pages: list[bool], lowers: list[bytes], uppers: list[bytes], nulls: list[int] | None) -> bytes:
    """Encode a ColumnIndex; booleans are one byte each in a list, 1 for true and 2 for false."""
    made: dict[int, tuple[str, Any]] = {2: ("list:binary", lowers), 3: ("list:binary", uppers), 4: ("i32", 0)}
    if nulls is not None:
        made[5] = ("list:i64", nulls)
    flags = bytes([0x19, len(null_pages) << 4 | 1]) + bytes(1 if one else 2 for one in null_pages)
    rest = thrift_writer.struct(made)
    assert rest[0] == 0x29  # field 2, as the first one; behind field 1 it is one further
    return flags + b"\x19" + rest[1:]


def longs(*numbers: int) -> list[bytes]:
    return [number.to_bytes(8, "little", signed=True) for number in numbers]


def three_pages() -> File:
    """Return a file of whose pages the first three are kept."""
    file = File(pa.array(range(ROWS)), P("long"))
    parts = (getattr(file.table, name)[:3] for name in ("offsets", "sizes", "first_rows", "row_counts"))
    file.table = PageTable(*parts, None)
    return file


def test_an_index_made_by_hand() -> None:
    file = three_pages()
    counts = file.table.row_counts.tolist()
    found = file.bounds(index([False, True, False], longs(1, 0, -5), longs(7, 0, 9), [2, counts[1], 0]))
    assert found is not None
    assert [(one.lower, one.upper, one.null_count, one.value_count) for one in found] == [
        (1, 7, 2, counts[0]),
        (None, None, counts[1], counts[1]),
        (-5, 9, 0, counts[2]),
    ]
    unknown = file.bounds(index([False] * 3, longs(1, 2, 3), longs(4, 5, 6), None))
    assert unknown is not None
    assert [one.null_count for one in unknown] == [None] * 3


def test_an_index_that_contradicts_its_pages_proves_nothing() -> None:
    file = three_pages()
    whole: tuple[Any, ...] = ([False] * 3, longs(1, 2, 3), longs(4, 5, 6), [0, 0, 0])
    assert file.bounds(index(*whole)) is not None
    for place in range(4):
        for wrong in (whole[place][:2], [*whole[place], whole[place][0]]):
            made = list(whole)
            made[place] = wrong
            assert file.bounds(index(*made)) is None
    strange = file.bounds(index([False] * 3, longs(1, 2, 3), longs(4, 5, 6), [-1, 10**9, 0]))
    assert strange is not None
    assert [one.null_count for one in strange] == [None, None, 0]


@pytest.mark.parametrize(
    "raw", [b"", b"\xff" * 9, thrift_writer.struct({}), thrift_writer.struct({1: ("i32", 3)})]
)
def test_bytes_that_are_no_index(raw: bytes) -> None:
    assert three_pages().bounds(raw) is None


@pytest.mark.parametrize(("kind", "value"), [("i32", 1), ("bool", 1), ("binary", b"abc")])
@pytest.mark.parametrize("field", [1, 2, 3, 5])
def test_a_field_that_is_no_list(field: int, kind: str, value: object) -> None:
    lists = {number: ("list:binary", longs(1, 2, 3)) for number in (1, 2, 3)}
    assert three_pages().bounds(thrift_writer.struct({**lists, field: (kind, value)})) is None


def test_damaged_bytes_are_an_index_or_none() -> None:
    pick = random.Random(8)
    file = File(pa.array([None if i % 9 == 0 else f"text {i}" for i in range(ROWS)]), P("string"))
    known = 0
    for _ in range(500):
        data = bytearray(file.raw)
        data[pick.randrange(len(data))] = pick.randrange(256)
        found = file.bounds(bytes(data))
        assert found is None or len(found) == len(file.table)
        known += found is not None
    assert 50 < known < 500


def test_the_order_of_the_footer_counts() -> None:
    """Where it is not the type's own, bounds of text say nothing."""
    file = File(pa.array([f"text {i}" for i in range(ROWS)]), P("string"))
    file.footer = replace(file.footer, ordered=(False,))
    found = file.bounds()
    assert found is not None
    assert {(one.lower, one.upper, one.null_count) for one in found} == {(None, None, 0)}
