"""Where data pages are: page indexes and page headers of pyarrow's files agree, and what contradicts itself is no table."""

from __future__ import annotations

import random
import re
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings, strategies as st

import thrift_writer
from twostage.formats.parquet import pages
from twostage.formats.parquet.pages import (
    DATA_PAGE,
    DATA_PAGE_V2,
    PageHeader,
    PageTable,
    data_page_header,
    pages_of_headers,
    pages_of_index,
)
from twostage.formats.varint import write_zigzag
from written_files import Opened

ROWS = 500
SMALL_PAGES = {"data_page_size": 200, "write_batch_size": 50, "write_page_index": True}


def opened(array: pa.Array, **options: Any) -> Opened:
    return Opened(pa.table({"c": array}), [], **(SMALL_PAGES | options))


def index_of(file: Opened) -> bytes:
    place = file.footer.row_groups[0].columns[0].offset_index
    assert place is not None
    return file.data[place[0] :][: place[1]]


def from_index(file: Opened, raw: bytes | None = None, num_rows: int = ROWS) -> PageTable | None:
    chunk = file.footer.row_groups[0].columns[0]
    return pages_of_index(index_of(file) if raw is None else raw, file.footer.leaves[0], chunk, num_rows)


def from_headers(file: Opened, num_rows: int = ROWS) -> PageTable | None:
    def read_at(offset: int, length: int) -> bytes:
        return file.data[offset : offset + length]

    return pages_of_headers(read_at, file.footer.leaves[0], file.footer.row_groups[0].columns[0], num_rows)


def lists_of(table: PageTable | None) -> Any:
    assert table is not None
    return *(
        column.tolist() for column in (table.offsets, table.sizes, table.first_rows, table.row_counts)
    ), table.dictionary


@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("codec", ["none", "zstd"])
@pytest.mark.parametrize("dictionary", [False, True])
def test_index_and_headers_tell_the_same_pages(version: str, codec: str, dictionary: bool) -> None:  # noqa: FBT001
    array = pa.array([None if i % 7 == 0 else f"text {i % 90}" for i in range(ROWS)])
    file = opened(
        array,
        data_page_version=version,
        compression=codec,
        use_dictionary=dictionary,
        write_page_checksum=True,
    )
    table = from_index(file)
    assert table is not None
    assert lists_of(table) == lists_of(from_headers(file))
    assert len(table) > 3
    chunk = file.footer.row_groups[0].columns[0]
    assert (table.dictionary is not None) == dictionary
    if table.dictionary is not None:
        assert table.dictionary == (chunk.start, chunk.data_page_offset - chunk.start)
    assert table.num_bytes == chunk.start + chunk.compressed_size - chunk.data_page_offset
    for offset, size, rows in zip(*(lists_of(table)[i] for i in (0, 1, 3)), strict=True):
        header = data_page_header(file.data[offset : offset + size])
        assert header is not None
        assert header.num_values == rows
        assert (header.level_encoding is None) == (version == "2.0")
        assert (header.checksum is None) == (file.data[offset] == 0)


def test_a_list_has_a_table_only_by_its_index() -> None:
    """Headers count values, of which a row may hold any number."""
    file = opened(pa.array([[i] * (i % 4) for i in range(ROWS)]))
    assert from_headers(file) is None
    table = from_index(file)
    assert table is not None
    assert int(table.row_counts.sum()) == ROWS


def index(*locations: tuple[int, int, int]) -> bytes:
    """Encode an OffsetIndex of pages: offset, size with the header, first row."""
    return thrift_writer.struct(
        {1: ("list:struct", [{1: ("i64", a), 2: ("i32", b), 3: ("i64", c)} for a, b, c in locations])}
    )


def test_an_index_that_contradicts_itself_is_none() -> None:
    file = opened(pa.array(range(ROWS)), use_dictionary=False)
    offsets, sizes, first_rows, *_ = lists_of(from_index(file))
    whole = list(zip(offsets, sizes, first_rows, strict=True))
    assert lists_of(from_index(file, index(*whole))) == lists_of(from_index(file))

    def changed(page: int, place: int, by: int) -> list[tuple[int, int, int]]:
        made = [list(one) for one in whole]
        made[page][place] += by
        return [(a, b, c) for a, b, c in made]

    wrong = {
        "no pages": [],
        "a page missing at the end": whole[:-1],
        "a page missing at the beginning": whole[1:],
        "a page missing between": [whole[0], *whole[2:]],
        "a page twice": [whole[0], *whole],
        "pages in another order": whole[::-1],
        "a gap": changed(1, 1, -1),
        "an overlap": changed(1, 1, 1),
        "a page of no bytes": changed(0, 1, -sizes[0]),
        "beyond the chunk": changed(-1, 1, 1),
        "before the chunk": changed(0, 0, -1),
        "a first row that is not 0": changed(0, 2, 1),
        "a page of no rows": changed(1, 2, -first_rows[1]),
        "a first row beyond the row group": changed(-1, 2, ROWS),
        "a negative first row": changed(1, 2, -first_rows[1] - 1),
    }
    for name, locations in wrong.items():
        assert from_index(file, index(*locations)) is None, name
    assert from_index(file, num_rows=first_rows[-1]) is None
    assert from_index(file, num_rows=ROWS + 1) is None


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"\xff" * 20,
        thrift_writer.struct({}),
        thrift_writer.struct({1: ("i32", 7)}),
        thrift_writer.struct({1: ("list:i32", [1, 2])}),
        thrift_writer.struct({1: ("list:struct", [{1: ("i64", 4), 2: ("i32", 10)}])}),
        thrift_writer.struct({1: ("list:struct", [{1: ("binary", b"4"), 2: ("i32", 1), 3: ("i64", 0)}])}),
    ],
)
def test_bytes_that_are_no_index(raw: bytes) -> None:
    assert from_index(opened(pa.array(range(ROWS))), raw) is None


def test_a_chunk_that_contradicts_its_headers_has_no_table(monkeypatch: pytest.MonkeyPatch) -> None:
    file = opened(pa.array(range(ROWS)), write_page_index=False)
    (group,) = file.footer.row_groups
    (chunk,) = group.columns
    count = len(lists_of(from_headers(file))[0])
    for num_rows in (ROWS - 1, ROWS + 1):
        assert from_headers(file, num_rows) is None
    for changed in (
        {"compressed_size": chunk.compressed_size - 1},
        {"compressed_size": chunk.compressed_size + 1},
        {"num_values": ROWS - 1},
        {"dictionary_page_offset": None, "data_page_offset": chunk.start + 1},
    ):
        file.footer = replace(file.footer, row_groups=(replace(group, columns=(replace(chunk, **changed),)),))
        assert from_headers(file) is None, changed
    file.footer = replace(file.footer, row_groups=(group,))
    monkeypatch.setattr(pages, "MAX_PAGES_WALKED", count)
    assert from_headers(file) is not None
    monkeypatch.setattr(pages, "MAX_PAGES_WALKED", count - 1)
    assert from_headers(file) is None


def test_a_dictionary_page_behind_data_pages_is_no_table() -> None:
    file = opened(pa.array([1] * ROWS), write_page_index=False)
    (group,) = file.footer.row_groups
    (chunk,) = group.columns
    pages_of_data = file.data[chunk.data_page_offset : chunk.start + chunk.compressed_size]
    dictionary = file.data[chunk.start : chunk.data_page_offset]
    file.data = file.data[: chunk.start] + pages_of_data + dictionary
    assert from_headers(file) is None
    file.data = file.data[: chunk.start] + dictionary + pages_of_data
    assert from_headers(file) is not None


def table_of(row_counts: list[int], sizes: list[int] | None = None) -> PageTable:
    counts = np.array(row_counts, np.int64)
    of_pages = np.array(sizes or [10] * len(counts), np.int64)
    ends = np.cumsum(of_pages)
    return PageTable(ends - of_pages + 4, of_pages, np.cumsum(counts) - counts, counts, None)


@settings(deadline=None)
@given(st.lists(st.integers(1, 10), min_size=1, max_size=20), st.data())
def test_pages_that_hold_rows(row_counts: list[int], data: st.DataObject) -> None:
    table = table_of(row_counts)
    rows = sorted(data.draw(st.sets(st.integers(0, sum(row_counts) - 1))))
    page_of = [page for page, count in enumerate(row_counts) for _ in range(count)]
    first_of = [row for row, page in enumerate(page_of) if row == 0 or page_of[row - 1] != page]
    kept = sorted({page_of[row] for row in rows})
    found = table.holding(np.array(rows, np.int64))
    assert found.numbers.tolist() == found.numbers_list == kept
    assert found.row_counts.tolist() == found.row_counts_list == [row_counts[page] for page in kept]
    assert found.first_rows.tolist() == [first_of[page] for page in kept]
    assert found.wanted_counts.tolist() == [sum(page_of[row] == page for row in rows) for page in kept]
    assert [one.tolist() for one in found.rows] == [
        [row - first_of[page] for row in rows if page_of[row] == page] for page in kept
    ]
    assert (found.num_rows, found.num_wanted) == (sum(row_counts[page] for page in kept), len(rows))
    runs = [range(first, last + 1) for first, last in found.runs]
    assert [page for run in runs for page in run] == kept
    assert all(after.start > before.stop for before, after in zip(runs, runs[1:], strict=False))


def test_the_share_of_some_pages() -> None:
    table = table_of([1, 1, 1], [10, 30, 60])
    assert table.num_bytes == 100
    assert (table.share([]), table.share([1]), table.share([0, 2]), table.share([0, 1, 2])) == (
        0,
        0.3,
        0.7,
        1,
    )


def header(kind: int, body: int, fields: dict[int, tuple[str, Any]], checksum: int | None = None) -> bytes:
    """Encode a page header: of an uncompressed size of 77 bytes, with the fields of its data page."""
    made: dict[int, tuple[str, Any]] = {1: ("i32", kind), 2: ("i32", 77), 3: ("i32", body)}
    if checksum is not None:
        made[4] = ("i32", checksum)
    made[5 if kind == DATA_PAGE else 8] = ("struct", fields)
    return thrift_writer.struct(made)


VERSION_1 = {1: ("i32", 10), 2: ("i32", 8), 3: ("i32", 3), 4: ("i32", 3)}
VERSION_2 = {1: ("i32", 10), 2: ("i32", 1), 3: ("i32", 9), 4: ("i32", 8), 5: ("i32", 6), 6: ("i32", 2)}
STATISTICS = {5: ("struct", {1: ("binary", b"x" * 1000), 2: ("binary", b"a")})}


@pytest.mark.parametrize("checksum", [None, 5, -5])
def test_headers_of_version_1(checksum: int | None) -> None:
    """With statistics a header is longer, and than the first read of it, too."""
    for fields in (VERSION_1, {**VERSION_1, **STATISTICS}):
        raw = header(DATA_PAGE, 40, fields, checksum)
        expected = PageHeader(
            num_values=10,
            encoding=8,
            length=len(raw),
            decoded_size=77,
            checksum=checksum,
            level_encoding=3,
            level_sizes=(0, 0),
            is_compressed=True,
        )
        assert data_page_header(raw + bytes(40)) == data_page_header(memoryview(raw + bytes(40))) == expected
        for body in (39, 41):
            assert data_page_header(raw + bytes(body)) is None


@pytest.mark.parametrize("is_compressed", [None, True, False])
def test_headers_of_version_2(is_compressed: bool | None) -> None:  # noqa: FBT001
    fields = VERSION_2 if is_compressed is None else {**VERSION_2, 7: ("bool", is_compressed)}
    raw = header(DATA_PAGE_V2, 40, fields)
    assert data_page_header(raw + bytes(40)) == PageHeader(
        num_values=10,
        encoding=8,
        length=len(raw),
        decoded_size=77,
        checksum=None,
        level_encoding=None,
        level_sizes=(2, 6),
        is_compressed=is_compressed is not False,
    )
    assert data_page_header(raw + bytes(41)) is None


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        (DATA_PAGE, {}),
        (DATA_PAGE, {2: ("i32", 8)}),
        (DATA_PAGE, {**VERSION_1, 1: ("i32", -1)}),
        (DATA_PAGE, {**VERSION_1, 2: ("binary", b"8")}),
        (DATA_PAGE_V2, {**VERSION_2, 5: ("i32", -1)}),
        (DATA_PAGE_V2, {number: one for number, one in VERSION_2.items() if number != 6}),
    ],
)
def test_a_header_without_its_numbers(kind: int, fields: dict[int, tuple[str, Any]]) -> None:
    assert data_page_header(header(kind, 4, fields) + bytes(4)) is None


@pytest.mark.parametrize("raw", [b"", b"\x15", b"\xff" * 600, thrift_writer.struct({3: ("i32", 0)})])
def test_bytes_that_are_no_header(raw: bytes) -> None:
    assert data_page_header(raw) is None


def test_the_usual_header_is_read_as_any_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """A regular expression takes headers of version 1 apart; `read_struct` says the same of every one."""
    pick = random.Random(4)
    made = []
    for checksum in (None, 2**31 - 1, -7):
        whole = header(DATA_PAGE, 40, VERSION_1, checksum) + bytes(40)
        made.append(whole)
        for _ in range(1_500):
            page = bytearray(whole)
            for _ in range(pick.randint(1, 2)):
                page[pick.randrange(len(page) - 40)] = pick.randrange(256)
            made.append(bytes(page))
    found = [data_page_header(page) for page in made]
    monkeypatch.setattr(pages, "_USUAL_HEADER", re.compile(rb"(?!)"))
    assert [data_page_header(page) for page in made] == found
    assert 100 < sum(one is not None for one in found) < len(made) / 2


@pytest.mark.parametrize("number", [2**31, 2**62, 2**63 - 1, 2**64])
@pytest.mark.parametrize("place", ["decoded size", "values"])
def test_page_headers_with_numbers_of_more_than_32_bits(number, place):
    """Nothing is decoded by them: they are no page's, and memory and Arrow's arguments end before."""
    size, values = (number, 10) if place == "decoded size" else (40, number)

    def header(size, values):
        fields = b"".join(b"\x15" + write_zigzag(one) for one in (values, 0, 3, 3))
        return b"".join(b"\x15" + write_zigzag(one) for one in (0, size, 40)) + b"\x2c" + fields + b"\x00\x00"

    assert data_page_header(header(40, 10) + bytes(40)) is not None
    assert data_page_header(header(size, values) + bytes(40)) is None
