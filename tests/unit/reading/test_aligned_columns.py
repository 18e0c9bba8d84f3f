"""Filter columns that follow the live rows: whatever is asked in whatever order, values belong to their rows."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pytest

from twostage.reading import aligned_columns
from twostage.reading.aligned_columns import LiveColumns, plain
from twostage.selection import Selection

ROWS = 6000


class Reads:
    """Two columns of a row group, field 1 and field 2, and what was read of them."""

    def __init__(self) -> None:
        self.values = {1: np.arange(ROWS) * 7, 2: np.arange(ROWS) % 13}
        self.done: list[tuple[int, int]] = []

    def __call__(self, field_id: int, rows: Selection) -> pa.Array:
        self.done.append((field_id, rows.count))
        return pa.array(self.values[field_id][rows.indices()])


@pytest.mark.parametrize("seed", range(12))
def test_columns_stay_aligned(seed: int) -> None:
    pick, reads = random.Random(seed), Reads()
    live = set(pick.sample(range(ROWS), pick.choice((ROWS, 5000, 900, 3))))
    mask = np.zeros(ROWS, np.bool_)
    mask[sorted(live)] = True
    columns = LiveColumns(Selection.of(mask), reads, reads_parts=pick.random() < 0.5)
    for _ in range(12):
        base = columns.base.indices()
        field_id = pick.choice((1, 2))
        values = reads.values[field_id][base]
        match pick.choice(("column", "part", "some", "keep", "narrow", "condense", "all", "forget")):
            case "column":
                assert columns.column(field_id).to_pylist() == values.tolist()
                assert columns.has_read(field_id)
            case "part" if len(base):
                places = np.array(sorted(pick.sample(range(len(base)), pick.choice((1, min(9, len(base)))))))
                found = columns.part(field_id, places, whole=pick.random() < 0.3)
                assert found.to_pylist() == values[places].tolist()
            case "some":
                chosen = np.array([pick.random() < 0.3 for _ in base], np.bool_)
                found = columns.some(field_id, chosen, whole=pick.random() < 0.3)
                assert found.to_pylist() == values[chosen].tolist()
            case "keep":
                kept = np.array([pick.random() < pick.choice((0.1, 0.9)) for _ in base], np.bool_)
                live &= set(base[kept].tolist())
                columns.keep(kept)
            case "narrow":
                rows = set(pick.sample(range(ROWS), ROWS // 2))
                wanted = np.zeros(ROWS, np.bool_)
                wanted[sorted(rows)] = True
                live &= rows
                columns.narrow(Selection.of(wanted))
            case "condense":
                columns.condense()
            case "all":
                columns.condense(force=True)
                assert columns.base.count == len(live)
            case "forget":
                columns.forget_all_but({1})
                assert set(columns.read_columns()) <= {1}
        assert columns.selection().indices().tolist() == sorted(live)
        for read, array in columns.read_columns().items():
            assert array.to_pylist() == reads.values[read][columns.base.indices()].tolist()


def test_a_column_is_read_once() -> None:
    reads = Reads()
    columns = LiveColumns(Selection.all(ROWS), reads)
    columns.column(1)
    columns.column(1)
    columns.part(1, np.array([5]), whole=False)
    columns.some(1, np.arange(ROWS) < 3, whole=False)
    assert reads.done == [(1, ROWS)]


@pytest.mark.parametrize("reads_parts", [True, False])
def test_few_rows_are_read_alone_only_where_the_file_can(reads_parts: bool) -> None:
    reads = Reads()
    columns = LiveColumns(Selection.all(ROWS), reads, reads_parts=reads_parts)
    assert columns.part(1, np.array([17]), whole=False).to_pylist() == [17 * 7]
    assert reads.done == [(1, 1 if reads_parts else ROWS)]
    columns.part(2, np.array([17]), whole=True)  # will be asked for again
    assert reads.done[1] == (2, ROWS)


@pytest.mark.parametrize(("rows_of_a_page", "expected"), [(ROWS // 2, 1), (ROWS // 2 + 1, 40)])
def test_rows_in_doubt_are_read_alone_where_they_are_in_few_pages(
    monkeypatch: pytest.MonkeyPatch, rows_of_a_page: int, expected: int
) -> None:
    """Of a few rows that are in all pages, an index knows all but one."""
    monkeypatch.setattr(aligned_columns, "ROWS_OF_A_PAGE", rows_of_a_page)
    reads = Reads()
    columns = LiveColumns(Selection.of(np.arange(ROWS) < 40), reads, reads_parts=True)
    columns.condense()
    assert columns.part(1, np.array([17]), whole=False, in_doubt=True).to_pylist() == [17 * 7]
    assert columns.part(2, np.array([17]), whole=False).to_pylist() == [17 % 13]
    assert reads.done == [(1, expected), (2, 40)]


def test_rows_are_cut_sooner_while_nothing_was_read() -> None:
    half = np.arange(ROWS) % 2 == 0
    unread, read = LiveColumns(Selection.all(ROWS), Reads()), LiveColumns(Selection.all(ROWS), Reads())
    read.column(1)
    for columns in (unread, read):
        columns.keep(half)
        columns.condense()
    assert (unread.base.count, read.base.count) == (ROWS // 2, ROWS)


def test_dictionaries_are_decoded_and_others_left_alone() -> None:
    numbers = pa.array([1, None])
    assert plain(numbers) is numbers
    texts = pa.array(["a", None, "b", "a"]).dictionary_encode()
    assert plain(texts).to_pylist() == ["a", None, "b", "a"]
    assert plain(texts).type == pa.string()


@pytest.mark.parametrize(
    ("kind", "large"), [(pa.string(), pa.large_string()), (pa.binary(), pa.large_binary())]
)
def test_text_beyond_the_reach_of_its_offsets_gets_wider_ones(
    monkeypatch: pytest.MonkeyPatch, kind: pa.DataType, large: pa.DataType
) -> None:
    monkeypatch.setattr("twostage.reading.aligned_columns.MAX_TEXT_BYTES", 20)
    short = pa.array(["ab", None, "ab"], kind).dictionary_encode()
    long = pa.array(["ab" * 5, None, "c", "ab" * 5], kind).dictionary_encode()
    assert plain(short).type == kind
    assert plain(long).type == large
    assert plain(long).to_pylist() == long.to_pylist()
