"""Comparisons and searches on Arrow text, without a Python object per row.

Takes `offsets` (int32 or int64, one more than rows) into `data` (uint8), as Arrow's utf8 and binary arrays
hold them, and literals as uint8; returns bools, or signs for the order. Text is ordered as unsigned bytes,
which is Spark's order of strings and of binary values.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from twostage_native import reference
from twostage_native._jit import inner, kernel
from twostage_native.hash_sets import GOLDEN, bit_map, number_table

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Bools = NDArray[np.bool_]
    Bytes = NDArray[np.uint8]
    Integers = NDArray[Any]

_BLOCK_BYTES = 1 << 20
SILVER = np.uint64(0xC2B2AE3D27D4EB4F)
"""An odd factor unlike `GOLDEN`, so that the two words of a sample are not mixed up."""
_SAMPLE_DISTANCES = range(8, 36, 4)
"""Bytes before a text's end at which its sample's second word may begin."""
_TEXTS_SAMPLED = 1000
"""Texts by which one of these distances is chosen."""


@inner
def _word(data: Bytes, at: Any) -> Any:
    """Return 8 bytes as one number: LLVM makes one load of it, as `at` is unsigned (it cannot wrap)."""
    return (
        np.uint64(data[at])
        | np.uint64(data[at + np.uint64(1)]) << np.uint64(8)
        | np.uint64(data[at + np.uint64(2)]) << np.uint64(16)
        | np.uint64(data[at + np.uint64(3)]) << np.uint64(24)
        | np.uint64(data[at + np.uint64(4)]) << np.uint64(32)
        | np.uint64(data[at + np.uint64(5)]) << np.uint64(40)
        | np.uint64(data[at + np.uint64(6)]) << np.uint64(48)
        | np.uint64(data[at + np.uint64(7)]) << np.uint64(56)
    )


@inner
def _tail(data: Bytes, at: Any, count: Any) -> Any:
    """Return fewer than 8 bytes as one number; a loop only where the buffer ends."""
    if at + np.uint64(8) <= np.uint64(len(data)):
        return _word(data, at) & ((np.uint64(1) << (np.uint64(8) * count)) - np.uint64(1))
    tail = np.uint64(0)
    for index in range(count):
        tail |= np.uint64(data[at + np.uint64(index)]) << (np.uint64(8) * np.uint64(index))
    return tail


@inner
def _same(left: Bytes, left_start: Any, right: Bytes, right_start: Any, length: Any) -> bool:
    """Tell whether `length` bytes are equal, eight at a time: 2 ns for any 16 bytes."""
    a, b, remaining = np.uint64(left_start), np.uint64(right_start), np.uint64(length)
    while remaining >= np.uint64(8):
        if _word(left, a) != _word(right, b):
            return False
        a += np.uint64(8)
        b += np.uint64(8)
        remaining -= np.uint64(8)
    return bool(_tail(left, a, remaining) == _tail(right, b, remaining))


@inner
def _head(data: Bytes, at: Any, count: Any) -> Any:
    """Return the next `count` bytes (8 at most) as one number that orders as they do."""
    if count == np.uint64(0):
        return np.uint64(0)
    if at + np.uint64(8) <= np.uint64(len(data)):
        word = np.uint64(0)
        for index in range(8):
            word = word << np.uint64(8) | np.uint64(data[at + np.uint64(index)])
        return word >> (np.uint64(64) - np.uint64(8) * count)
    word = np.uint64(0)
    for index in range(count):
        word = word << np.uint64(8) | np.uint64(data[at + np.uint64(index)])
    return word


@inner
def _sign(
    left: Bytes, left_start: Any, left_length: Any, right: Bytes, right_start: Any, right_length: Any
) -> int:
    """Return -1, 0 or 1: the left bytes come before, equal or come after the right ones."""
    a, b, remaining = np.uint64(left_start), np.uint64(right_start), np.uint64(min(left_length, right_length))
    while remaining > np.uint64(0):
        count = min(remaining, np.uint64(8))
        first, second = _head(left, a, count), _head(right, b, count)
        if first != second:
            return -1 if first < second else 1
        a += count
        b += count
        remaining -= count
    return int(left_length > right_length) - int(left_length < right_length)


@inner
def _hash(data: Bytes, start: Any, length: Any) -> Any:
    """Return a 64-bit hash of some bytes, eight at a time."""
    at, remaining = np.uint64(start), np.uint64(length)
    mixed = remaining * GOLDEN
    while remaining >= np.uint64(8):
        mixed = (mixed ^ _word(data, at)) * GOLDEN
        mixed ^= mixed >> np.uint64(32)
        at += np.uint64(8)
        remaining -= np.uint64(8)
    mixed = (mixed ^ _tail(data, at, remaining)) * GOLDEN
    return mixed ^ mixed >> np.uint64(32)


@inner
def _mix(first: Any, later: Any, length: Any) -> Any:
    """Return the hash of a text's sample."""
    return first * GOLDEN + (later + np.uint64(length)) * SILVER


# As in `members`: machine code is cached by its source file, so that no kernel calls into another one.
@inner
def _is_set(bits: Bytes, place: Any) -> bool:
    """Tell whether a bit of a map is set."""
    return bool((bits[np.int64(place >> np.uint64(3))] >> np.uint8(place & np.uint64(7))) & np.uint8(1))


@inner
def _log2(size: Any) -> Any:
    """Return log2 of a power of two."""
    bits = np.uint64(0)
    while (np.uint64(1) << bits) < np.uint64(size):
        bits += np.uint64(1)
    return bits


@inner
def _place(offsets: Integers, row: int, length: int, at_end: bool) -> Any:  # noqa: FBT001 - Numba wants no keywords
    """Return where a text's first (with `at_end`: last) `length` bytes begin; its start if it is shorter."""
    start = offsets[row]
    if not at_end:
        return start
    return max(start, offsets[row + 1] - length)


@inner
def _matches(offsets: Integers, data: Bytes, literal: Bytes, at_end: bool, is_whole: bool) -> Bools:  # noqa: FBT001
    """Return which texts begin or end with the literal, or equal it, by one load and no branch a text."""
    hits = np.empty(len(offsets) - 1, np.bool_)
    length = len(literal)
    count = np.uint64(min(length, 8))
    mask = ~np.uint64(0)
    if length < 8:
        mask = (np.uint64(1) << (np.uint64(8) * count)) - np.uint64(1)
        head = _tail(literal, np.uint64(0), count)
    else:
        head = _word(literal, np.uint64(0))
    inside = len(hits)  # the last texts' 8 bytes would reach beyond the buffer
    while inside > 0 and _place(offsets, inside - 1, length, at_end) + 8 > len(data):
        inside -= 1
    for row in range(inside):
        own = offsets[row + 1] - offsets[row]
        fits = own == length if is_whole else own >= length
        place = _place(offsets, row, length, at_end)
        hits[row] = fits & ((_word(data, np.uint64(place)) & mask) == head)
    if length > 8:
        for row in range(inside):
            if hits[row]:
                place = _place(offsets, row, length, at_end)
                hits[row] = _same(data, place + 8, literal, 8, length - 8)
    for row in range(inside, len(hits)):
        own = offsets[row + 1] - offsets[row]
        fits = own == length if is_whole else own >= length
        hits[row] = fits and _same(data, _place(offsets, row, length, at_end), literal, 0, length)
    return hits


@inner
def _swapped(word: Any) -> Any:
    """Return a number with its 8 bytes reversed: LLVM makes one instruction of it."""
    low, even = np.uint64(0x00FF00FF00FF00FF), np.uint64(0x0000FFFF0000FFFF)
    word = ((word >> np.uint64(8)) & low) | ((word & low) << np.uint64(8))
    word = ((word >> np.uint64(16)) & even) | ((word & even) << np.uint64(16))
    return (word >> np.uint64(32)) | (word << np.uint64(32))


@kernel(reference.equal_text)
def equal_text(offsets: Integers, data: Bytes, literal: Bytes) -> Bools:
    """Return which texts equal the literal."""
    return _matches(offsets, data, literal, False, True)


@kernel(reference.starts_with)
def starts_with(offsets: Integers, data: Bytes, literal: Bytes) -> Bools:
    """Return which texts begin with the literal."""
    return _matches(offsets, data, literal, False, False)


@kernel(reference.ends_with)
def ends_with(offsets: Integers, data: Bytes, literal: Bytes) -> Bools:
    """Return which texts end with the literal."""
    return _matches(offsets, data, literal, True, False)


@kernel(reference.sign_text)
def sign_text(offsets: Integers, data: Bytes, literal: Bytes) -> NDArray[np.int8]:
    """Return the sign of each text against the literal, as unsigned bytes.

    The first 8 bytes, padded with zeros, nearly always decide; if they are equal, the texts are compared.
    """
    signs = np.empty(len(offsets) - 1, np.int8)
    length = len(literal)
    filled = np.zeros(8, np.uint8)
    for index in range(min(length, 8)):
        filled[index] = literal[index]
    head = _swapped(_word(filled, np.uint64(0)))
    inside = len(signs)
    while inside > 0 and offsets[inside - 1] + 8 > len(data):
        inside -= 1
    for row in range(inside):
        start = offsets[row]
        missing = np.uint64(8 - min(offsets[row + 1] - start, 8))
        half = np.uint64(4) * missing  # shifted in two steps: a shift by 64 would do nothing
        word = _swapped(_word(data, np.uint64(start))) >> half >> half << half << half
        signs[row] = np.int8(word > head) - np.int8(word < head)
    for row in range(inside):
        if signs[row] == 0:
            start = offsets[row]
            signs[row] = _sign(data, start, offsets[row + 1] - start, literal, 0, length)
    for row in range(inside, len(signs)):
        start = offsets[row]
        signs[row] = _sign(data, start, offsets[row + 1] - start, literal, 0, length)
    return signs


def contains(offsets: Integers, data: Bytes, literal: Bytes) -> Bools:
    """Return which texts hold the literal.

    Plain NumPy: looking for the literal's first and last byte in all texts at once takes 0.2 ns a byte,
    a compiled search text by text 1.3.
    """
    num_rows, length = len(offsets) - 1, len(literal)
    if length == 0 or num_rows == 0:
        return np.full(num_rows, length == 0)
    hits = np.zeros(num_rows, np.bool_)
    end = int(offsets[-1]) - length + 1  # no match begins here or later
    for start in range(int(offsets[0]), end, _BLOCK_BYTES):
        stop = min(start + _BLOCK_BYTES, end)
        ahead = length - 1
        found = np.flatnonzero(
            (data[start:stop] == literal[0]) & (data[start + ahead : stop + ahead] == literal[-1])
        )
        found += start
        for index in range(1, ahead):
            found = found[data[found + index] == literal[index]]
        rows = np.searchsorted(offsets, found, side="right") - 1
        hits[rows[found + length <= offsets[rows + 1]]] = True  # otherwise it runs over into the next text
    return hits


def prepare_texts(
    offsets: Integers, data: Bytes
) -> tuple[Integers, Bytes, Integers, Bytes, Bytes, np.int64, bool]:
    """Prepare texts, as Arrow lays them out, for `in_texts`.

    Returns:
        The texts, the table of their numbers by hash, the bitmap of their hashes, that of their samples'
        hashes, how far before its end a text is sampled (where most of the first members differ), and whether
        any is shorter than a sample's word.
    """
    hashes = hash_texts(offsets, data)
    sample = offsets[: _TEXTS_SAMPLED + 1]
    back = max(_SAMPLE_DISTANCES, key=lambda back: len(np.unique(hash_samples(sample, data, back))))
    samples = bit_map(hash_samples(offsets, data, back))
    is_short = bool((np.diff(offsets) < 8).any())
    return offsets, data, number_table(hashes), bit_map(hashes), samples, np.int64(back), is_short


def hash_samples(offsets: Integers, data: Bytes, back: int) -> NDArray[np.uint64]:
    """Return the hash of each text's length, first 8 bytes, and 8 from `back` bytes before its end on."""
    padded = np.concatenate([data, np.zeros(8, np.uint8)])
    starts, lengths = offsets[:-1].astype(np.int64), np.diff(offsets).astype(np.int64)
    half = np.uint64(4) * (8 - np.minimum(lengths, 8)).astype(np.uint64)
    first, later = (
        padded[at[:, None] + np.arange(8)].view(np.uint64).reshape(-1) << half << half
        for at in (starts, starts + np.maximum(lengths - back, 0))
    )
    hashes: NDArray[np.uint64] = first * GOLDEN + (later + lengths.astype(np.uint64)) * SILVER
    return hashes


@kernel(reference.hash_texts)
def hash_texts(offsets: Integers, data: Bytes) -> NDArray[np.uint64]:
    """Return the hash of each text."""
    hashes = np.empty(len(offsets) - 1, np.uint64)
    for row in range(len(hashes)):
        start = offsets[row]
        hashes[row] = _hash(data, start, offsets[row + 1] - start)
    return hashes


@kernel(reference.in_texts)
def in_texts(
    offsets: Integers,
    data: Bytes,
    member_offsets: Integers,
    member_data: Bytes,
    table: Integers,
    bits: Bytes,
    sample_bits: Bytes,
    back: np.int64,
    is_short: bool,  # noqa: FBT001 - Numba wants no keywords
) -> Bools:
    """Return which texts are among the members that `prepare_texts` prepared.

    First a sample of each text is tested, by two loads and no branch; few non-members pass. Only texts that
    pass are hashed as a whole.
    """
    hits = np.empty(len(offsets) - 1, np.bool_)
    top = np.uint64(64) - _log2(8 * len(sample_bits))
    inside = len(hits)  # the last texts' 8 bytes would reach beyond the buffer
    while inside > 0 and offsets[inside - 1] + 8 > len(data):
        inside -= 1
        hits[inside] = True
    if is_short:
        for row in range(inside):
            start = offsets[row]
            length = offsets[row + 1] - start
            half = np.uint64(4) * np.uint64(8 - min(length, 8))  # a shift by 64 would do nothing
            first = _word(data, np.uint64(start)) << half << half
            later = _word(data, np.uint64(start + max(length - back, 0))) << half << half
            hits[row] = _is_set(sample_bits, _mix(first, later, length) >> top)
    else:  # a shorter text is not a member, whatever is read for it
        for row in range(inside):
            start = offsets[row]
            length = offsets[row + 1] - start
            later = _word(data, np.uint64(start + max(length - back, 0)))
            hits[row] = _is_set(sample_bits, _mix(_word(data, np.uint64(start)), later, length) >> top)
    top = np.uint64(64) - _log2(8 * len(bits))
    shift, slots = np.uint64(64) - _log2(len(table)), len(table) - 1
    for row in range(len(hits)):
        if hits[row]:
            start = offsets[row]
            length = offsets[row + 1] - start
            mixed = _hash(data, start, length)
            index = np.int64(-1)
            slot = np.int64(mixed >> shift)
            if _is_set(bits, mixed >> top):
                index = table[slot]
            hits[row] = False
            while index >= 0:
                begin = member_offsets[index]
                same_length = member_offsets[index + 1] - begin == length
                if same_length and _same(data, start, member_data, begin, length):
                    hits[row] = True
                    break
                slot = (slot + 1) & slots
                index = table[slot]
    return hits


@kernel(reference.equal_text_columns)
def equal_text_columns(
    left_offsets: Integers, left_data: Bytes, right_offsets: Integers, right_data: Bytes
) -> Bools:
    """Return where two columns of texts are equal."""
    hits = np.empty(len(left_offsets) - 1, np.bool_)
    for row in range(len(hits)):
        start, begin = left_offsets[row], right_offsets[row]
        length = left_offsets[row + 1] - start
        same_length = right_offsets[row + 1] - begin == length
        hits[row] = same_length and _same(left_data, start, right_data, begin, length)
    return hits


@kernel(reference.sign_text_columns)
def sign_text_columns(
    left_offsets: Integers, left_data: Bytes, right_offsets: Integers, right_data: Bytes
) -> NDArray[np.int8]:
    """Return the sign of each text of `left` against that of `right`, as unsigned bytes."""
    signs = np.empty(len(left_offsets) - 1, np.int8)
    for row in range(len(signs)):
        start, begin = left_offsets[row], right_offsets[row]
        signs[row] = _sign(
            left_data,
            start,
            left_offsets[row + 1] - start,
            right_data,
            begin,
            right_offsets[row + 1] - begin,
        )
    return signs
