"""Indexes of a million values (ten million with TWOSTAGE_FULL=1), and of positions, keys and places in files near 2**32."""

from __future__ import annotations

import os
import random
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest
from pyroaring import BitMap

from index_columns import FIELD, Values, build, opened
from twostage.indexes import bitmaps
from twostage.indexes.data_file_index import NULLS, DataFileIndex
from twostage.indexes.keys import hash_values
from twostage.indexes.puffin import BadIndexError, BlobReader, IndexWriter, read_footer
from twostage.indexes.sorted_pairs import PAIRS_PER_BLOCK, PairSorter, SortedPairs, write_pairs
from twostage.metrics import Metrics
from twostage.predicates.predicate import Column, Compare, In, IsNull, StringMatch
from twostage.schema import Primitive
from twostage.task import Storage

if TYPE_CHECKING:
    from pathlib import Path

VALUES = 10_000_000 if os.environ.get("TWOSTAGE_FULL") == "1" else 1_000_000
BUDGET = 2**26
"""Bytes: a tenth of what the values take as Python has them."""
EDGE = 2**32


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("kind", ["values", "postings", "sorted", "bins"])
@pytest.mark.parametrize("of", ["long", "string"])
def test_a_dictionary_of_a_million_values(tmp_path, kind, of):
    """Each value is in one row, in no order; what is asked for is few rows, found by NumPy."""
    numbers = np.random.default_rng(1).permutation(VALUES)
    type_ = Primitive(of)
    array = pa.array(numbers) if of == "long" else pa.array(np.char.mod("key-%08d", numbers))
    index = opened(build(tmp_path, Values(array, type_, chunk=100_000), (kind,), BUDGET))
    assert index.kinds(FIELD) == (kind,)
    column = Column(FIELD, ("x",), type_)
    literal = (lambda number: number) if of == "long" else (lambda number: f"key-{number:08}")
    drawn = random.Random(1)
    sought = [0, 1, VALUES - 1, *(drawn.randrange(VALUES) for _ in range(5))]
    asked = [
        *((Compare("=", column, literal(one)), numbers == one) for one in sought),
        (Compare("=", column, literal(VALUES)), numbers < 0),
        (In(column, tuple(map(literal, sought))), np.isin(numbers, sought)),
    ]
    if kind != "postings":
        asked.append((Compare("<", column, literal(500)), numbers < 500))
        asked.append((Compare(">=", column, literal(VALUES - 70)), numbers >= VALUES - 70))
        if of == "string":
            asked.append((StringMatch("prefix", column, "key-000004"), numbers // 100 == 4))
    metrics = Metrics()
    for leaf, flags in asked:
        answer = index.find(leaf, metrics)
        assert answer is not None, leaf
        rows = set(np.flatnonzero(flags).tolist())
        assert set(answer.certain) <= rows <= set(answer.possible), leaf
        # Text beyond the eight bytes that bins and sorted rows have of it is checked.
        most = {"values": 0, "postings": 60, "sorted": VALUES // 500, "bins": VALUES * 10 // 256}[kind]
        assert len(answer.possible) - len(rows) <= most, leaf
    assert not metrics.counters, metrics.choices


def pairs_of(data: Path, key_bits: int, number_bits: int, keys, numbers, start: int = 0) -> SortedPairs:
    """Write pairs behind `start` bytes that are not there, and open them."""
    with data.open("wb") as stream:
        writer = IndexWriter(stream)
        if start:
            stream.seek(start)
            writer._offset = start
        sorter = PairSorter(key_bits, number_bits, data.parent, 2**16, len(keys))
        for at in range(0, len(keys), 1000):
            sorter.add(keys[at : at + 1000], numbers[at : at + 1000])
        assert write_pairs(writer, FIELD, "postings", sorter.sorted_parts(), key_bits, number_bits) == len(
            keys
        )
        writer.close()
    return keys


@pytest.mark.parametrize(("key_bits", "number_bits"), [(32, 32), (40, 24), (1, 32), (33, 31)])
def test_keys_and_numbers_up_to_their_last_bit(tmp_path, key_bits, number_bits):
    drawn = np.random.default_rng(2)
    top_key, top_number = 2**key_bits - 1, 2**number_bits - 1
    keys = np.concatenate(
        [drawn.integers(0, top_key, 4_000, np.uint64, endpoint=True), np.array([0, top_key] * 3, np.uint64)]
    )
    numbers = drawn.integers(0, top_number, len(keys), np.uint64, endpoint=True)
    numbers[-4:] = [0, 0, top_number, top_number]
    pairs_of(tmp_path / "x", key_bits, number_bits, keys, numbers)
    with pa.OSFile(str(tmp_path / "x")) as file:
        reader = BlobReader(file, read_footer(file)[0])
        pairs = SortedPairs(FIELD, "postings", reader)
        expected = sorted(zip(keys.tolist(), numbers.tolist(), strict=True))
        whole = np.concatenate([*pairs.parts(reader)])
        shift = np.uint64(number_bits)
        found = list(zip((whole >> shift).tolist(), (whole & np.uint64(top_number)).tolist(), strict=True))
        assert found == expected
        for key in (0, top_key, int(keys[0])):
            _, rows = pairs.find(np.array([key], np.uint64), reader)
            assert sorted(rows.tolist()) == [number for one, number in expected if one == key]


def test_pairs_of_more_bits_are_refused(tmp_path):
    for key_bits, number_bits in ((33, 32), (41, 20), (20, 33)):
        with pytest.raises(ValueError, match="pairs of"):
            PairSorter(key_bits, number_bits, tmp_path, 2**16, 1)


def test_blobs_beyond_four_gibibytes(tmp_path):
    """The blocks begin before 2**32 and end behind it, the directory is behind: in a file with a hole."""
    drawn = np.random.default_rng(3)
    keys = drawn.integers(0, 2**32, 30 * PAIRS_PER_BLOCK).astype(np.uint64)
    pairs_of(tmp_path / "x", 32, 20, keys, np.arange(len(keys), dtype=np.uint64), EDGE - 40_000)
    with pa.OSFile(str(tmp_path / "x")) as file:
        footer, _ = read_footer(file)
        blocks = footer.blobs[FIELD, "postings", "blocks"]
        assert blocks.offset < EDGE < blocks.offset + blocks.length
        assert footer.blobs[FIELD, "postings", "directory"].offset > EDGE
        reader = BlobReader(file, footer)
        pairs = SortedPairs(FIELD, "postings", reader)
        for place in (0, 1, len(keys) // 2, len(keys) - 1):
            assert place in pairs.find(keys[place : place + 1], reader)[1].tolist()
        assert sum(map(len, pairs.parts(reader))) == len(keys)


def last_rows(folder: Path, num_rows: int) -> DataFileIndex:
    """Return the index of a column of `num_rows` rows, all NULL but the last three, whose values are 7, 8, 7."""
    path = folder / "x.puffin"
    rows = num_rows - np.arange(3, 0, -1, dtype=np.uint64)
    with path.open("wb") as stream:
        writer = IndexWriter(stream, {"rows": str(num_rows), "columns": str(FIELD)})
        null = bitmaps.whole(num_rows) - BitMap(rows.astype(np.uint32))
        writer.add(FIELD, NULLS, "rows", bitmaps.serialize(null), type="long", nulls=len(null))
        sorter = PairSorter(32, 32, folder, 2**20, 3)
        sorter.add(hash_values(pa.array([7, 8, 7])) >> np.uint64(32), rows)
        write_pairs(writer, FIELD, "postings", sorter.sorted_parts(), 32, 32)
        writer.close()
    with pa.OSFile(str(path)) as file:
        return DataFileIndex(Storage(root=str(folder)), str(path), read_footer(file)[0])


def test_the_last_rows_that_a_file_may_have(tmp_path):
    num_rows = EDGE - 1
    index, metrics = last_rows(tmp_path, num_rows), Metrics()
    column = Column(FIELD, ("x",), Primitive("long"))
    equal = index.find(Compare("=", column, 7), metrics)
    assert list(equal.possible) == [num_rows - 3, num_rows - 1]
    null = index.find(IsNull(column), metrics)
    assert (len(null.certain), null.is_exact) == (num_rows - 3, True)
    other = index.find(Compare("<>", column, 7), metrics)
    assert list(other.possible) == [
        num_rows - 3,
        num_rows - 2,
        num_rows - 1,
    ]  # which of them is left to check
    assert list((~null).certain) == [num_rows - 3, num_rows - 2, num_rows - 1]
    assert not metrics.counters, metrics.choices


def test_a_file_of_more_rows_has_none(tmp_path):
    (tmp_path / "more").mkdir()
    with pytest.raises(BadIndexError, match="rows"):
        last_rows(tmp_path / "more", EDGE)
