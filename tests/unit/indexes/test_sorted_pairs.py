"""Sorted pairs: every pair that was added is found by its key, and no other, whatever their number."""

from __future__ import annotations

import io
import random

import numpy as np
import pyarrow as pa
import pytest

from twostage.indexes.puffin import BadIndexError, BlobReader, IndexWriter, read_footer
from twostage.indexes.sorted_pairs import PairSorter, SortedPairs, write_pairs


def written(tmp_path, keys, numbers, *, key_bits=24, number_bits=20, budget=2**30, expected=None):
    sorter = PairSorter(key_bits, number_bits, tmp_path, budget, expected or len(keys))
    for start in range(0, len(keys), 5_000):
        sorter.add(keys[start : start + 5_000], numbers[start : start + 5_000])
    stream = io.BytesIO()
    writer = IndexWriter(stream)
    count = write_pairs(writer, 1, "postings", sorter.sorted_parts(), key_bits, number_bits)
    writer.close()
    assert count == len(keys)
    return stream.getvalue()


def opened(data, tail_bytes=1000):
    file = pa.BufferReader(data)
    footer, _ = read_footer(file, tail_bytes)
    reader = BlobReader(file, footer)
    return SortedPairs(1, "postings", reader), reader


@pytest.mark.parametrize("budget", [2**30, 2**16])
@pytest.mark.parametrize(
    ("count", "distinct"), [(0, 1), (1, 1), (1024, 1), (3_000, 2), (60_000, 900), (60_000, 2**24)]
)
def test_look_ups_find_what_brute_force_finds(tmp_path, budget, count, distinct):
    seed = random.randrange(2**32)
    print("seed", seed)
    drawn = np.random.default_rng(seed)
    universe = drawn.choice(2**24, distinct, replace=False).astype(np.uint64) if distinct < 2**24 else None
    keys = (
        drawn.integers(0, 2**24, count).astype(np.uint64)
        if universe is None
        else drawn.choice(universe, count)
    )
    numbers = np.arange(count, dtype=np.uint64)
    pairs, reader = opened(written(tmp_path, keys, numbers, budget=budget))
    assert list(tmp_path.iterdir()) == []
    sought = np.concatenate([keys[: min(count, 40)], drawn.integers(0, 2**24, 40).astype(np.uint64)])
    found_keys, found = pairs.find(sought, reader)
    expected = np.flatnonzero(np.isin(keys, sought))
    assert sorted(found.tolist()) == expected.tolist()
    assert (keys[found.astype(np.int64)] == found_keys).all()
    whole = np.concatenate([*pairs.parts(reader), np.zeros(0, np.uint64)])
    assert whole.tolist() == sorted(((keys << np.uint64(20)) | numbers).tolist())


def test_a_look_up_reads_one_page_and_one_block(tmp_path):
    drawn = np.random.default_rng(3)
    keys = drawn.integers(0, 2**32, 600_000).astype(np.uint64)
    pairs, reader = opened(written(tmp_path, keys, np.arange(len(keys), dtype=np.uint64), key_bits=32))
    reader.cost = type(reader.cost)()
    (_, found) = pairs.find(keys[:1], reader)
    assert 0 in found.tolist()
    assert reader.cost.requests <= 3
    assert reader.cost.nbytes < 20_000
    estimated = pairs.cost(1, opened(written(tmp_path, keys, keys & np.uint64(0xFF), key_bits=32))[1])
    assert estimated.nbytes < 40_000


def test_four_bytes_a_pair_at_most(tmp_path):
    drawn = np.random.default_rng(4)
    keys = drawn.integers(0, 2**24, 400_000).astype(np.uint64)
    data = written(tmp_path, keys, np.arange(len(keys), dtype=np.uint64), number_bits=19)
    assert len(data) / len(keys) < 3.6


def test_flipped_bytes_are_noticed(tmp_path):
    drawn = np.random.default_rng(5)
    keys = drawn.integers(0, 2**24, 5_000).astype(np.uint64)
    data = written(tmp_path, keys, np.arange(len(keys), dtype=np.uint64))
    clean, reader = opened(data, 64)
    expected = sorted(clean.find(keys[:50], reader)[1].tolist())
    for _ in range(150):
        place = int(drawn.integers(0, len(data)))
        damaged = bytearray(data)
        damaged[place] ^= 1 << int(drawn.integers(0, 8))
        try:
            pairs, reader = opened(bytes(damaged), 64)
            found = pairs.find(keys[:50], reader)[1]
        except BadIndexError:
            continue
        assert sorted(found.tolist()) == expected  # the flip was in a block that was not read


@pytest.mark.parametrize("repeated", [1, 3])
@pytest.mark.parametrize("expected", [100_000, 1])
def test_one_key_of_all_rows_is_sorted_within_the_budget(tmp_path, expected, repeated):
    """Parts are cut by the numbers' bits, too, however many pairs were expected."""
    budget = 2**17
    sorter = PairSorter(16, 20, tmp_path, budget, expected)
    numbers = np.random.default_rng(1).permutation(100_000).astype(np.uint64)
    for _ in range(repeated):
        for start in range(0, len(numbers), 1_000):
            sorter.add(np.full(1_000, 7, np.uint64), numbers[start : start + 1_000])
            assert sorter._held_bytes <= budget // 4 + 8_000
    parts = list(sorter.sorted_parts())
    assert max(part.nbytes for part in parts) <= budget // 4
    found = np.concatenate(parts)
    assert found.tolist() == np.repeat((7 << 20) + np.arange(100_000), repeated).tolist()
    assert list(tmp_path.iterdir()) == []


def test_one_pair_again_and_again(tmp_path):
    sorter = PairSorter(16, 20, tmp_path, 2**16, 1)
    for _ in range(50):
        sorter.add(np.full(1_000, 7, np.uint64), np.full(1_000, 9, np.uint64))
    parts = list(sorter.sorted_parts())
    assert sum(map(len, parts)) == 50_000
    assert max(part.nbytes for part in parts) <= 2**14
    assert set(np.concatenate(parts).tolist()) == {(7 << 20) + 9}
