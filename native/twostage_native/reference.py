"""The plain NumPy twin of every kernel: its definition, its test oracle and its stand-in.

Same arguments, same answers as the kernel that names it. Vectorised, so that running without Numba is
slower but not hopeless. Text is laid out as in Arrow: `offsets` (one more than rows) into `data`
(uint8); 128-bit values as words: int64 pairs, low word first, the low one unsigned.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    Bools = NDArray[np.bool_]
    Bytes = NDArray[np.uint8]
    Integers = NDArray[np.signedinteger[Any]]
    Numbers = NDArray[Any]

_BLOCK_BYTES = 1 << 20
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def in_integers(
    values: Integers, table: NDArray[np.int64], empty: np.int64, bits: Bytes, low: np.int64
) -> Bools:
    """Return which values are among the members that `members.prepare_integers` prepared."""
    if len(bits) == 0:
        return np.isin(values, table)
    if len(table) == 0:
        places = values.astype(np.int64).view(np.uint64) - low.astype(np.uint64)
        inside = np.flatnonzero(places < np.uint64(8 * len(bits)))
        return _among(len(values), inside[_is_set(bits, places[inside])])
    hashes = _hashes(values)
    rows = _candidates(hashes, bits)
    sought = values[rows]
    slots = (hashes[rows] >> np.uint64(65 - len(table).bit_length())).view(np.int64)
    hits = np.zeros(len(values), np.bool_)
    while len(rows):
        found = table[slots]
        hits[rows] = (found == sought) & (found != empty)
        going = (found != sought) & (found != empty)
        rows, sought, slots = rows[going], sought[going], (slots[going] + 1) & (len(table) - 1)
    return hits


def sign_wide(words: NDArray[np.int64], high: int, low: int) -> NDArray[np.int8]:
    """Return the sign (-1, 0, 1) of each 128-bit value minus the value `high`, `low` (both as int64)."""
    literal = np.array([[low, high]], np.int64)
    return sign_wide_columns(words, np.broadcast_to(literal, words.shape))


def sign_wide_columns(left: NDArray[np.int64], right: NDArray[np.int64]) -> NDArray[np.int8]:
    """Return the sign of each 128-bit value of `left` minus that of `right`."""
    left_low, right_low = left[:, 0].astype(np.uint64), right[:, 0].astype(np.uint64)
    low = (left_low > right_low).astype(np.int8) - (left_low < right_low)
    high = (left[:, 1] > right[:, 1]).astype(np.int8) - (left[:, 1] < right[:, 1])
    return np.where(high != 0, high, low).astype(np.int8)


def in_wide(
    words: NDArray[np.int64], members: NDArray[np.int64], table: NDArray[np.int64], bits: Bytes
) -> Bools:
    """Return which 128-bit values are among the members that `members.prepare_wide` prepared."""
    hashes = _hashes(words[:, 0] ^ (words[:, 1] * np.int64(31)))
    rows = _candidates(hashes, bits)
    slots = (hashes[rows] >> np.uint64(65 - len(table).bit_length())).view(np.int64)
    hits = np.zeros(len(words), np.bool_)
    while len(rows):
        found = table[slots]
        taken = found >= 0
        rows, slots, found = rows[taken], slots[taken], found[taken]
        same = (members[found] == words[rows]).all(axis=1)
        hits[rows] = same
        rows, slots = rows[~same], (slots[~same] + 1) & (len(table) - 1)
    return hits


def equal_text(offsets: Integers, data: Bytes, literal: Bytes) -> Bools:
    """Return which texts equal the literal."""
    hits = np.diff(offsets) == len(literal)
    return _narrow(hits, offsets[:-1], data, literal)


def sign_text(offsets: Integers, data: Bytes, literal: Bytes) -> NDArray[np.int8]:
    """Return the sign of each text against the literal, as unsigned bytes."""
    lengths = np.diff(offsets)
    signs: NDArray[np.int8] = np.sign(lengths - len(literal)).astype(np.int8)
    rows = np.arange(len(lengths))  # whose first `index` bytes are the literal's
    for index, byte in enumerate(literal):
        rows = rows[lengths[rows] > index]
        if not len(rows):
            break
        found = data[offsets[rows] + index]
        signs[rows[found < byte]] = -1
        signs[rows[found > byte]] = 1
        rows = rows[found == byte]
    return signs


def starts_with(offsets: Integers, data: Bytes, literal: Bytes) -> Bools:
    """Return which texts begin with the literal."""
    return _narrow(np.diff(offsets) >= len(literal), offsets[:-1], data, literal)


def ends_with(offsets: Integers, data: Bytes, literal: Bytes) -> Bools:
    """Return which texts end with the literal."""
    return _narrow(np.diff(offsets) >= len(literal), offsets[1:] - len(literal), data, literal)


def hash_texts(offsets: Integers, data: Bytes) -> NDArray[np.uint64]:
    """Return the hash of each text: eight bytes at a time, and its length."""
    lengths = np.diff(offsets).astype(np.int64)
    mixed: NDArray[np.uint64] = lengths.astype(np.uint64) * _GOLDEN
    padded = np.concatenate([data, np.zeros(8, np.uint8)])
    rows = np.arange(len(lengths))
    starts = offsets[:-1].astype(np.int64)
    while len(rows):
        remaining = lengths[rows] - (starts[rows] - offsets[rows])
        words = padded[starts[rows][:, None] + np.arange(8)].view(np.uint64).reshape(-1)
        is_last = remaining < 8
        kept = np.where(is_last, remaining, 0).astype(np.uint64)
        tails = words & ((np.uint64(1) << (np.uint64(8) * kept)) - np.uint64(1))
        mixed[rows] = (mixed[rows] ^ np.where(is_last, tails, words)) * _GOLDEN
        mixed[rows] ^= mixed[rows] >> np.uint64(32)
        starts[rows] += 8
        rows = rows[~is_last]
    return mixed


def in_texts(
    offsets: Integers, data: Bytes, member_offsets: Integers, member_data: Bytes, *_prepared: Numbers
) -> Bools:
    """Return which texts are among the members (also texts); what else was prepared is not used."""
    lengths, member_lengths = np.diff(offsets), np.diff(member_offsets)
    hits = np.zeros(len(lengths), np.bool_)
    for length in np.unique(member_lengths):
        rows = np.flatnonzero(lengths == length)
        if length == 0:
            hits[rows] = True
            continue
        starts = member_offsets[:-1][member_lengths == length]
        ends = _hashes(_ends(offsets[rows], data, int(length)))
        candidates = _candidates(ends, _bit_map(_hashes(_ends(starts, member_data, int(length)))))
        listed = _texts(starts, member_data, int(length))
        step = max(1, _BLOCK_BYTES // int(length))
        for start in range(0, len(candidates), step):
            block = rows[candidates[start : start + step]]
            hits[block] = np.isin(_texts(offsets[block], data, int(length)), listed)
    return hits


def equal_text_columns(
    left_offsets: Integers, left_data: Bytes, right_offsets: Integers, right_data: Bytes
) -> Bools:
    """Return where two columns of texts are equal."""
    same: Bools = sign_text_columns(left_offsets, left_data, right_offsets, right_data) == 0
    return same


def sign_text_columns(
    left_offsets: Integers, left_data: Bytes, right_offsets: Integers, right_data: Bytes
) -> NDArray[np.int8]:
    """Return the sign of each text of `left` against that of `right`, as unsigned bytes.

    By the first byte that differs, else by length.
    """
    left_lengths, right_lengths = np.diff(left_offsets), np.diff(right_offsets)
    signs = (left_lengths > right_lengths).astype(np.int8) - (left_lengths < right_lengths)
    shared = np.minimum(left_lengths, right_lengths).astype(np.int64)
    for rows in _blocks(shared):
        lengths = shared[rows]
        row_of = np.repeat(np.arange(rows.start, rows.stop), lengths)
        within = np.arange(len(row_of)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        left_bytes = left_data[left_offsets[row_of] + within]
        right_bytes = right_data[right_offsets[row_of] + within]
        different = np.flatnonzero(left_bytes != right_bytes)
        decided, first = np.unique(row_of[different], return_index=True)
        at = different[first]
        signs[decided] = np.where(left_bytes[at] < right_bytes[at], -1, 1)
    return signs


def _hashes(values: Integers) -> NDArray[np.uint64]:
    return values.astype(np.int64).view(np.uint64) * _GOLDEN


def _bit_map(member_hashes: NDArray[np.uint64]) -> Bytes:
    """Return a bitmap of the members' hashes: of others, at most 1 in 32 passes."""
    bits = len(member_hashes).bit_length() + 5
    known = np.zeros(1 << bits, np.bool_)
    known[(member_hashes >> np.uint64(64 - bits)).view(np.int64)] = True
    return np.packbits(known, bitorder="little")


def _candidates(hashes: NDArray[np.uint64], bits: Bytes) -> NDArray[np.intp]:
    """Return the rows whose hash's first bits are set in a bitmap."""
    return np.flatnonzero(_is_set(bits, hashes >> np.uint64(65 - (8 * len(bits)).bit_length())))


def _is_set(bits: Bytes, places: NDArray[np.uint64]) -> Bools:
    """Return for each place of a bitmap whether its bit is set."""
    flags = np.unpackbits(bits, bitorder="little").view(np.bool_)
    return flags[places.view(np.int64)]


def _among(count: int, rows: NDArray[np.intp]) -> Bools:
    hits = np.zeros(count, np.bool_)
    hits[rows] = True
    return hits


def _opaque(values: Numbers, size: int) -> NDArray[np.void]:
    """Return rows of `size` bytes as opaque values, which compare by their bytes."""
    return np.ascontiguousarray(values).view(f"V{size}").reshape(-1)


def _ends(starts: Integers, data: Bytes, length: int) -> NDArray[np.int64]:
    """Return the last 8 bytes of texts of one length as numbers: where texts differ most often."""
    words = np.zeros(len(starts), np.int64)
    for index in range(max(0, length - 8), length):
        words = words << 8 | data[starts + index]
    return words


def _texts(starts: Integers, data: Bytes, length: int) -> NDArray[np.void]:
    """Return texts of one length, which is not 0, as opaque values."""
    return _opaque(data[starts[:, None] + np.arange(length)], length)


def _narrow(hits: Bools, starts: Integers, data: Bytes, literal: Bytes) -> Bools:
    """Keep the hits whose bytes from `starts` on are the literal; texts differ most often at their ends."""
    rows = np.flatnonzero(hits)
    for index in reversed(range(len(literal))):
        if len(rows) < index:  # a long literal and few rows: row by row
            found = [
                np.array_equal(data[start : start + index + 1], literal[: index + 1])
                for start in starts[rows]
            ]
            rows = rows[np.array(found, np.bool_)]
            break
        rows = rows[data[starts[rows] + index] == literal[index]]
    narrowed = np.zeros(len(hits), np.bool_)
    narrowed[rows] = True
    return narrowed


def _blocks(lengths: NDArray[np.int64]) -> Iterator[slice]:
    """Cut rows into blocks of about `_BLOCK_BYTES`, at least one row each."""
    ends = np.cumsum(lengths)
    start = 0
    while start < len(lengths):
        before = int(ends[start - 1]) if start else 0
        stop = max(start + 1, int(np.searchsorted(ends, before + _BLOCK_BYTES, side="right")))
        yield slice(start, stop)
        start = stop
