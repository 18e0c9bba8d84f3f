"""Spark's hashes and Bloom filters: which values may be among those that a filter was built from.

Takes values and the filter's words; returns a bool for each value, never False for one the filter was built
from. A value is hashed as Spark's SQL function ``xxhash64`` does, and the hash looked up as in
``BloomFilterImpl`` (`version` 1) or ``BloomFilterImplV2`` (2) of Spark's ``common/sketch``: both of Murmur3's
32-bit hashes of it, combined `num_hashes` times. Of several columns, each is hashed with the hash of the
columns before it as seed, the first with 42.

Source: XXH64 of the xxHash specification, as in Spark's ``XXH64.java``; ``BloomFilterImpl.java`` and ``BloomFilterImplV2.java``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from twostage_native import spark_bloom_reference as reference
from twostage_native._jit import inner, kernel

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Bools = NDArray[np.bool_]
    Words = NDArray[np.uint64]

_P1 = np.uint64(0x9E3779B185EBCA87)
_P2 = np.uint64(0xC2B2AE3D27D4EB4F)
_P3 = np.uint64(0x165667B19E3779F9)
_P4 = np.uint64(0x85EBCA77C2B2AE63)
_P5 = np.uint64(0x27D4EB2F165667C5)
_SEED = np.uint64(42)


@inner
def _rotate(word: Any, bits: Any) -> Any:
    """Rotate 64 bits to the left."""
    return (word << np.uint64(bits)) | (word >> np.uint64(64 - bits))


@inner
def _mixed(hashed: Any) -> Any:
    """Return the last step of xxHash64."""
    hashed = (hashed ^ (hashed >> np.uint64(33))) * _P2
    hashed = (hashed ^ (hashed >> np.uint64(29))) * _P3
    return hashed ^ (hashed >> np.uint64(32))


@inner
def _rotate32(word: Any, bits: Any) -> Any:
    """Rotate 32 bits to the left."""
    return np.uint32(np.uint32(word << np.uint32(bits)) | np.uint32(word >> np.uint32(32 - bits)))


@inner
def _murmur_word(hashed: Any, word: Any) -> Any:
    """Mix 32 more bits into a Murmur3 hash."""
    word = np.uint32(_rotate32(np.uint32(word * np.uint32(0xCC9E2D51)), 15) * np.uint32(0x1B873593))
    return np.uint32(_rotate32(np.uint32(hashed ^ word), 13) * np.uint32(5) + np.uint32(0xE6546B64))


@inner
def _murmur(item: Any, seed: Any) -> Any:
    """Return Murmur3's 32-bit hash of 64 bits."""
    hashed = _murmur_word(np.uint32(seed), np.uint32(item & np.uint64(0xFFFFFFFF)))
    hashed = np.uint32(_murmur_word(hashed, np.uint32(item >> np.uint64(32))) ^ np.uint32(8))
    hashed = np.uint32((hashed ^ (hashed >> np.uint32(16))) * np.uint32(0x85EBCA6B))
    hashed = np.uint32((hashed ^ (hashed >> np.uint32(13))) * np.uint32(0xC2B2AE35))
    return np.uint32(hashed ^ (hashed >> np.uint32(16)))


@inner
def _holds(hashed: Any, words: Any, num_hashes: Any, seed: Any, version: Any) -> bool:
    """Tell whether all bits of a hash are set."""
    first = _murmur(hashed, np.uint32(seed))
    second = np.int64(np.int32(_murmur(hashed, first)))
    combined = np.int64(np.int32(first))
    if version == 2:
        combined *= np.int64(2147483647)
    size = np.int64(len(words)) * np.int64(64)
    for _ in range(num_hashes):
        combined += second
        if version == 1:
            combined = np.int64(np.int32(combined))
        place = (~combined if combined < 0 else combined) % size
        if not (words[place >> np.int64(6)] >> np.uint64(place & np.int64(63))) & np.uint64(1):
            return False
    return True


@inner
def _number_hash(value: Any, seed: Any, is_long: Any) -> Any:
    """Return the hash of a whole number."""
    if is_long:
        lane = _rotate(np.uint64(value) * _P2, 31) * _P1
        hashed = _rotate((seed + _P5 + np.uint64(8)) ^ lane, 27) * _P1 + _P4
    else:
        lane = (np.uint64(value) & np.uint64(0xFFFFFFFF)) * _P1
        hashed = _rotate((seed + _P5 + np.uint64(4)) ^ lane, 23) * _P2 + _P3
    return _mixed(hashed)


@kernel(reference.numbers_in_bloom)
def numbers_in_bloom(
    values: NDArray[Any],
    words: Words,
    num_hashes: int,
    seed: int,
    version: int,
    is_long: bool,  # noqa: FBT001 - Numba wants no keywords
) -> Bools:
    """Return which whole numbers a filter may hold.

    Args:
        values: int8 to int64, shape (rows,).
        words: The filter's bits, 64 in a word, the lowest first.
        num_hashes: How many bits each value sets.
        seed: Of the first Murmur3 hash.
        version: 1 or 2.
        is_long: They are hashed as Spark's ``long``; else as its ``int``.
    """
    hits = np.empty(len(values), np.bool_)
    for row in range(len(values)):
        hashed = _number_hash(np.int64(values[row]), _SEED, is_long)
        hits[row] = _holds(hashed, words, num_hashes, seed, version)
    return hits


@kernel(reference.number_hashes)
def number_hashes(values: NDArray[Any], before: Words, is_long: bool) -> Words:  # noqa: FBT001
    """Return Spark's hashes (uint64) of rows, extended by whole numbers; arguments as for `numbers_in_bloom`.

    `before` has the hashes of the columns before this one, or 42 in each row.
    """
    hashes = np.empty(len(values), np.uint64)
    for row in range(len(values)):
        hashes[row] = _number_hash(np.int64(values[row]), before[row], is_long)
    return hashes


@inner
def _word(data: Any, place: Any, size: Any) -> Any:
    """Return `size` bytes as a number, the lowest first."""
    word = np.uint64(0)
    for number in range(size):
        word |= np.uint64(data[place + number]) << np.uint64(8 * number)
    return word


@inner
def _text_hash(data: Any, place: Any, end: Any, seed: Any) -> Any:
    """Return the hash of the bytes from `place` to `end`."""
    length = end - place
    if length >= 32:
        a, b, c, d = seed + _P1 + _P2, seed + _P2, seed, seed - _P1
        while end - place >= 32:
            a = _rotate(a + _word(data, place, 8) * _P2, 31) * _P1
            b = _rotate(b + _word(data, place + 8, 8) * _P2, 31) * _P1
            c = _rotate(c + _word(data, place + 16, 8) * _P2, 31) * _P1
            d = _rotate(d + _word(data, place + 24, 8) * _P2, 31) * _P1
            place += 32
        hashed = _rotate(a, 1) + _rotate(b, 7) + _rotate(c, 12) + _rotate(d, 18)
        hashed = (hashed ^ (_rotate(a * _P2, 31) * _P1)) * _P1 + _P4
        hashed = (hashed ^ (_rotate(b * _P2, 31) * _P1)) * _P1 + _P4
        hashed = (hashed ^ (_rotate(c * _P2, 31) * _P1)) * _P1 + _P4
        hashed = (hashed ^ (_rotate(d * _P2, 31) * _P1)) * _P1 + _P4
    else:
        hashed = seed + _P5
    hashed += np.uint64(length)
    while end - place >= 8:
        hashed = _rotate(hashed ^ (_rotate(_word(data, place, 8) * _P2, 31) * _P1), 27) * _P1 + _P4
        place += 8
    if end - place >= 4:
        hashed = _rotate(hashed ^ (_word(data, place, 4) * _P1), 23) * _P2 + _P3
        place += 4
    while place < end:
        hashed = _rotate(hashed ^ (np.uint64(data[place]) * _P5), 11) * _P1
        place += 1
    return _mixed(hashed)


@kernel(reference.texts_in_bloom)
def texts_in_bloom(
    offsets: NDArray[Any], data: NDArray[np.uint8], words: Words, num_hashes: int, seed: int, version: int
) -> Bools:
    """Return which texts, as Arrow lays them out, a filter may hold; other arguments: see `numbers_in_bloom`.

    Args:
        offsets: int32 or int64, shape (texts + 1,): where each text begins, and the last ends.
        data: The bytes of all.
        words: The filter's.
        num_hashes: The filter's.
        seed: The filter's.
        version: The filter's.
    """
    hits = np.empty(len(offsets) - 1, np.bool_)
    for row in range(len(hits)):
        hashed = _text_hash(data, np.int64(offsets[row]), np.int64(offsets[row + 1]), _SEED)
        hits[row] = _holds(hashed, words, num_hashes, seed, version)
    return hits


@kernel(reference.text_hashes)
def text_hashes(offsets: NDArray[Any], data: NDArray[np.uint8], before: Words) -> Words:
    """Return Spark's hashes (uint64) of rows, extended by texts; `before` as for `number_hashes`.

    The texts are as Arrow lays them out: `offsets` (int32 or int64) has one more than there are rows.
    """
    hashes = np.empty(len(offsets) - 1, np.uint64)
    for row in range(len(hashes)):
        hashes[row] = _text_hash(data, np.int64(offsets[row]), np.int64(offsets[row + 1]), before[row])
    return hashes
