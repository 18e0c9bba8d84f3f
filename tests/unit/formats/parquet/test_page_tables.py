"""Page tables of an open file: from its index or its headers, once for the process; what is not sound is none."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from twostage.formats.parquet import page_tables
from twostage.formats.parquet.page_tables import PageTables
from twostage.metrics import Metrics
from twostage.schema import Primitive
from twostage.storage.ranges import LOCAL, REMOTE, RequestCost
from written_files import Opened

P = Primitive
ROWS = 1_000
LEAF = 0
_numbers = itertools.count()


@pytest.fixture(autouse=True)
def _forget() -> Iterator[None]:
    page_tables._tables.clear()
    yield
    page_tables._tables.clear()


class CountingFile:
    """The bytes of a file, and which parts of them were read."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.reads: list[tuple[int, int]] = []

    def read_at(self, length: int, offset: int) -> bytes:
        self.reads.append((offset, length))
        return self.data[offset : offset + length]


class File:
    """A file of a long, a text and a list in small pages, and two row groups."""

    def __init__(self, **options: Any) -> None:
        rows = range(ROWS)
        table = pa.table({"a": rows, "b": [f"text {i}" for i in rows], "c": [[i] * (i % 3) for i in rows]})
        given = {
            "row_group_size": ROWS // 2,
            "data_page_size": 400,
            "write_batch_size": 50,
            "use_dictionary": False,
        }
        opened = Opened(table, [], **({"write_page_index": True} | given | options))
        self.footer = opened.footer
        self.file = CountingFile(opened.data)
        self.metrics = Metrics()
        self.identity = ("file", next(_numbers))

    def tables(self, cost: RequestCost = LOCAL, tail: tuple[int, bytes] | None = None) -> PageTables:
        self.file.reads.clear()
        file: Any = self.file
        return PageTables(file, self.footer, self.identity, cost, self.metrics, tail)

    def change(self, group: int, leaf: int, **changed: Any) -> None:
        """Change what the footer says of a chunk."""
        groups = list(self.footer.row_groups)
        columns = list(groups[group].columns)
        columns[leaf] = replace(columns[leaf], **changed)
        groups[group] = replace(groups[group], columns=tuple(columns))
        self.footer = replace(self.footer, row_groups=tuple(groups))


def shape(tables: dict[int, Any]) -> dict[int, Any]:
    return {
        leaf: (one.offsets.tolist(), one.sizes.tolist(), one.first_rows.tolist(), one.row_counts.tolist())
        for leaf, one in tables.items()
    }


def test_the_index_and_the_headers_tell_the_same() -> None:
    """A local file without an index is walked; but a list's headers do not tell its rows."""
    indexed, walked = File(), File()
    for group, leaf in itertools.product((0, 1), (0, 1, 2)):
        walked.change(group, leaf, offset_index=None)
    for group in (0, 1):
        found = shape(indexed.tables().of(indexed.footer.row_groups[group], [0, 1, 2]))
        assert list(found) == [0, 1, 2]
        assert all(len(one[0]) > 3 and sum(one[3]) == ROWS // 2 for one in found.values())
        of_headers = shape(walked.tables().of(walked.footer.row_groups[group], [0, 1, 2]))
        assert of_headers == {leaf: found[leaf] for leaf in (0, 1)}


def test_a_remote_file_is_not_walked() -> None:
    """One request a page costs more than the whole chunk."""
    plain = File(write_page_index=False)
    assert plain.tables(REMOTE).of(plain.footer.row_groups[0], [0, 1]) == {}
    assert plain.file.reads == []
    indexed = File()
    assert list(indexed.tables(REMOTE).of(indexed.footer.row_groups[0], [0, 1])) == [0, 1]


def test_tables_are_read_once() -> None:
    """By the process: also one that is known not to be there. Other files, row groups and leaves are others."""
    file = File()
    first, second = file.footer.row_groups
    found = file.tables().of(first, [0, 1])
    assert len(file.file.reads) == 1
    for leaves in ([0], [1, 0]):
        again = file.tables().of(first, leaves)
        assert file.file.reads == []
        assert list(again) == leaves
        assert all(again[leaf] is found[leaf] for leaf in leaves)
    file.tables().of(second, [0])
    assert len(file.file.reads) == 1
    file.tables().of(first, [0, 2])
    assert len(file.file.reads) == 1
    file.identity = ("file", next(_numbers))
    file.tables().of(first, [0])
    assert len(file.file.reads) == 1
    plain = File(write_page_index=False)
    assert plain.tables().of(plain.footer.row_groups[0], [2]) == {}
    assert plain.tables().of(plain.footer.row_groups[0], [2]) == {}
    assert plain.file.reads == []


def test_the_cache_is_bounded() -> None:
    """By what is estimated for each table, so that few tables of many pages count as many of few."""
    size_of = page_tables._tables.getsizeof
    file = File()
    table = file.tables().of(file.footer.row_groups[0], [0])[0]
    arrays = sum(one.nbytes for one in (table.offsets, table.sizes, table.first_rows))
    assert size_of(table) >= arrays > 0
    assert size_of(None) > 0
    assert page_tables._tables.maxsize == page_tables.TABLE_CACHE_BYTES


def test_a_damaged_index_is_ignored_and_counted() -> None:
    file = File()
    place = file.footer.row_groups[0].columns[LEAF].offset_index
    assert place is not None
    data = bytearray(file.file.data)
    data[place[0] : place[0] + place[1]] = b"\xff" * place[1]
    file.file.data = bytes(data)
    assert list(file.tables().of(file.footer.row_groups[0], [0, 1])) == [1]
    assert file.metrics.counters["page_indexes.ignored"] == 1


def test_bounds_are_those_of_each_pages_rows() -> None:
    file = File()
    for number, group in enumerate(file.footer.row_groups):
        found = file.tables().bounds(group, file.footer.leaves[LEAF], P("long"))
        assert found is not None
        first_rows, bounds = found
        starts = [*first_rows.tolist(), ROWS // 2]
        before = number * ROWS // 2
        assert [(one.lower, one.upper) for one in bounds] == [
            (before + start, before + end - 1) for start, end in itertools.pairwise(starts)
        ]
        assert len(bounds) > 3


def test_where_nothing_is_known_of_pages() -> None:
    file = File()
    group, leaves = file.footer.row_groups[0], file.footer.leaves
    assert file.tables().bounds(group, leaves[1], P("string")) is not None
    assert file.tables().bounds(group, leaves[2], P("long")) is None  # within a list
    assert file.tables().bounds(group, leaves[LEAF], P("string")) is None  # of another type
    for changed in ({"column_index": None}, {"offset_index": None}):
        other = File()
        other.change(0, LEAF, **changed)
        assert other.tables().bounds(other.footer.row_groups[0], leaves[LEAF], P("long")) is None
    one_page = File(data_page_size=2**20)
    assert one_page.tables().bounds(one_page.footer.row_groups[0], leaves[LEAF], P("long")) is None


def test_what_was_read_with_the_footer_is_not_read_again() -> None:
    file = File()
    start = file.footer.indexes_start()
    tail = (start, file.file.data[start:])
    tables = file.tables(tail=tail)
    found = tables.of(file.footer.row_groups[0], [0, 1])
    assert tables.bounds(file.footer.row_groups[0], file.footer.leaves[LEAF], P("long")) is not None
    assert file.file.reads == []
    assert file.metrics.counters["requests"] == 0
    page_tables._tables.clear()
    assert shape(file.tables().of(file.footer.row_groups[0], [0, 1])) == shape(found)


def test_places_are_read_with_few_requests() -> None:
    file = File()
    data = file.file.data
    tables = file.tables(RequestCost(gap=10, parallel=1))
    places = [(100, 20), (4, 10), (24, 5)]
    found, num_bytes = tables.read(places)
    assert [bytes(one) for one in found] == [data[offset : offset + length] for offset, length in places]
    assert file.file.reads == [(4, 25), (100, 20)]
    assert (num_bytes, file.metrics.counters["requests"]) == (45, 2)
    inside, outside = [(60, 5)], [(60, 5), (40, 5)]
    for wanted, reads in ((inside, 0), (outside, 1)):
        tables = file.tables(tail=(50, data[50:]))
        found, _ = tables.read(wanted)
        assert [bytes(one) for one in found] == [data[offset : offset + length] for offset, length in wanted]
        assert len(file.file.reads) == reads
