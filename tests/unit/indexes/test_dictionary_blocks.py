"""Dictionaries of values: blocks give back what was written, fences rule out no block that holds a key, damage is refused."""

from __future__ import annotations

import random
from decimal import Decimal

import pyarrow as pa
import pytest
from pyroaring import BitMap

from twostage.indexes.dictionary_blocks import (
    BLOCK_BYTES,
    BLOCK_VALUES,
    Dictionary,
    _separator,
    fence_keys,
    write_dictionary,
)
from twostage.indexes.puffin import BadIndexError, BlobReader, IndexWriter, read_footer
from twostage.indexes.value_runs import ValueRun
from twostage.indexes.wanted import Interval

FIELD = 5


def written(path, values: pa.Array, cuts=()):
    """Write sorted values, each with the bitmap of its place; return an open dictionary with its reader."""
    bitmaps = [BitMap([place, place + 100_000]).serialize() for place in range(len(values))]
    limits = [0, *cuts, len(values)]
    runs = [
        ValueRun(values.slice(a, b - a), pa.array(bitmaps[a:b], pa.large_binary()))
        for a, b in zip(limits, limits[1:], strict=False)
        if b > a
    ]
    with path.open("wb") as stream:
        writer = IndexWriter(stream)
        total = write_dictionary(
            writer, FIELD, "values", runs, lambda data: len(BitMap.deserialize(data)), path.parent
        )
        writer.close()
    assert total == len(values)
    return opened(path)


def opened(path):
    file = pa.OSFile(str(path))
    reader = BlobReader(file, read_footer(file)[0])
    return Dictionary(FIELD, "values", 200_000, reader), reader


def drawn_numbers(drawn: random.Random) -> pa.Array:
    return pa.array(sorted({drawn.randrange(-(10**6), 10**6) for _ in range(3_000)}))


def drawn_texts(drawn: random.Random) -> pa.Array:
    words = {"w" * drawn.randrange(40) + str(drawn.randrange(10**6)) for _ in range(3_000)} | {
        "",
        "w" * 70_000,
    }
    return pa.array(sorted(words, key=str.encode))


def drawn_decimals(drawn: random.Random) -> pa.Array:
    numbers = {drawn.randrange(-(10**30), 10**30) for _ in range(1_500)} | {0, 10**38 - 1, 1 - 10**38}
    return pa.array([Decimal(n) for n in sorted(numbers)], pa.decimal128(38, 0))


KINDS = {"numbers": drawn_numbers, "texts": drawn_texts, "decimals": drawn_decimals}


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_written_is_read(tmp_path, kind):
    values = KINDS[kind](random.Random(kind))
    dictionary, reader = written(tmp_path / "x", values, cuts=(700, 701))
    blocks = list(dictionary.read(list(range(dictionary.num_blocks)), reader))
    assert pa.concat_arrays([block.values for block in blocks]).equals(values)
    assert dictionary.num_values == len(values)
    place = 0
    for block in blocks:
        assert len(block.values) <= BLOCK_VALUES
        assert block.values.nbytes <= 2 * BLOCK_BYTES + 4 * BLOCK_VALUES or len(block.values) == 1
        ranges = list(zip(block.starts.tolist(), block.lengths.tolist(), strict=True))
        for data in reader.read_ranges(dictionary.bitmaps, ranges):
            assert BitMap.deserialize(bytes(data)) == BitMap([place, place + 100_000])
            place += 1
        assert block.rows.tolist() == [2] * len(block.values)
    assert place == len(values)
    everything = list(range(dictionary.num_blocks))
    assert dictionary.candidates(None) == everything
    assert dictionary.nbytes(everything)[1] == dictionary.bitmaps.length


@pytest.mark.parametrize("kind", KINDS)
def test_no_block_that_holds_a_key_is_ruled_out(tmp_path, kind):
    drawn = random.Random(f"fences {kind}")
    values = KINDS[kind](drawn)
    dictionary, reader = written(tmp_path / "x", values)
    if kind == "decimals":
        keys = [int(value) for value in values.to_pylist()]
    else:
        keys = fence_keys(values)
    holder = {}
    for number, block in enumerate(dictionary.read(list(range(dictionary.num_blocks)), reader)):
        start = len(holder)
        holder.update({place: number for place in range(start, start + len(block.values))})
    is_exact = 0
    for _ in range(200):
        first, last = sorted((drawn.randrange(len(keys)), drawn.randrange(len(keys))))
        if drawn.random() < 0.5:
            last = first
        high = keys[last] + b"\0" if isinstance(keys[last], bytes) else keys[last]
        found = dictionary.candidates((Interval(keys[first], high),))
        held = {holder[place] for place in range(first, last + 1)}
        assert held <= set(found), (first, last)
        assert len(found) <= len(held) + 1
        is_exact += len(found) == len(held)
    assert is_exact > 100
    assert dictionary.candidates((Interval(keys[-1], None),))[-1] == dictionary.num_blocks - 1
    both = dictionary.candidates((Interval(keys[0], keys[0]), Interval(keys[-1], None)))
    assert both == sorted(set(both))


def test_a_column_without_values(tmp_path):
    dictionary, reader = written(tmp_path / "x", pa.array([], pa.int64()))
    assert (dictionary.num_values, dictionary.num_blocks) == (0, 0)
    assert dictionary.candidates((Interval(0, 9),)) == []
    assert list(dictionary.read([], reader)) == []
    assert dictionary.nbytes([]) == (0, 0)


def test_separators_are_short_and_between():
    drawn = random.Random(3)
    for _ in range(500):
        first, second = sorted(
            {bytes(drawn.choices(b"ab\x00\xff", k=drawn.randrange(6))) for _ in range(2)} | {b"", b"a"}
        )[-2:]
        middle = _separator(first, second)
        assert first < middle <= second
        assert len(middle) <= len(second)
    assert _separator(None, b"abc") == b""
    assert _separator(None, 7) == 7
    assert _separator(b"abcdef", b"abd") == b"abd"
    assert _separator(b"abc", b"xyz") == b"x"


@pytest.mark.parametrize("kind", ["numbers", "texts"])
def test_a_changed_bit_is_refused_or_changes_nothing(tmp_path, kind):
    drawn = random.Random(f"damage {kind}")
    values = KINDS[kind](drawn).slice(0, 300)
    path = tmp_path / "x"
    written(path, values)
    clean, refused = path.read_bytes(), 0
    for _ in range(150):
        damaged = bytearray(clean)
        damaged[drawn.randrange(len(clean))] ^= 1 << drawn.randrange(8)
        path.write_bytes(damaged)
        try:
            dictionary, reader = opened(path)
            blocks = list(dictionary.read(list(range(dictionary.num_blocks)), reader))
        except BadIndexError:
            refused += 1
            continue
        assert pa.concat_arrays([block.values for block in blocks]).equals(values)
    assert refused > 30
