"""NumPy twins of the kernels of `spark_bloom.py`: same arguments, same answers."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import numpy as np
import xxhash

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Bools = NDArray[np.bool_]
    Words = NDArray[np.uint64]

_P1 = np.uint64(0x9E3779B185EBCA87)
_P2 = np.uint64(0xC2B2AE3D27D4EB4F)
_P3 = np.uint64(0x165667B19E3779F9)
_P4 = np.uint64(0x85EBCA77C2B2AE63)
_P5 = np.uint64(0x27D4EB2F165667C5)


def numbers_in_bloom(
    values: NDArray[Any],
    words: Words,
    num_hashes: int,
    seed: int,
    version: int,
    is_long: bool,  # noqa: FBT001 - the kernel's
) -> Bools:
    """Return which whole numbers (int8 to int64, shape (rows,)) a filter may hold."""
    hashed = number_hashes(values, np.full(len(values), 42, np.uint64), is_long)
    return _held(hashed, words, num_hashes, seed, version)


def texts_in_bloom(
    offsets: NDArray[Any], data: NDArray[np.uint8], words: Words, num_hashes: int, seed: int, version: int
) -> Bools:
    """Return which texts, as Arrow lays them out (`offsets`: int32 or int64), a filter may hold."""
    hashed = text_hashes(offsets, data, np.full(len(offsets) - 1, 42, np.uint64))
    return _held(hashed, words, num_hashes, seed, version)


def number_hashes(values: NDArray[Any], before: Words, is_long: bool) -> Words:  # noqa: FBT001 - the kernel's
    """Return the hashes (uint64) of rows, extended by whole numbers (int8 to int64, shape (rows,))."""
    wide = values.astype(np.int64).view(np.uint64)
    if is_long:
        hashed = _rotate((before + _P5 + np.uint64(8)) ^ (_rotate(wide * _P2, 31) * _P1), 27) * _P1 + _P4
    else:
        low = (wide & np.uint64(0xFFFFFFFF)) * _P1
        hashed = _rotate((before + _P5 + np.uint64(4)) ^ low, 23) * _P2 + _P3
    hashed = (hashed ^ (hashed >> np.uint64(33))) * _P2
    hashed = (hashed ^ (hashed >> np.uint64(29))) * _P3
    return hashed ^ (hashed >> np.uint64(32))


def text_hashes(offsets: NDArray[Any], data: NDArray[np.uint8], before: Words) -> Words:
    """Return the hashes (uint64) of rows, extended by texts as in Arrow (`offsets`: int32 or int64)."""
    raw, ends = data.tobytes(), offsets.tolist()
    hashed = [
        xxhash.xxh64_intdigest(raw[start:end], seed=seed)
        for (start, end), seed in zip(itertools.pairwise(ends), before.tolist(), strict=True)
    ]
    return np.array(hashed, np.uint64)


def _rotate(words: NDArray[np.uint64], bits: int) -> NDArray[np.uint64]:
    return (words << np.uint64(bits)) | (words >> np.uint64(64 - bits))


def _rotate32(words: NDArray[np.uint32], bits: int) -> NDArray[np.uint32]:
    return (words << np.uint32(bits)) | (words >> np.uint32(32 - bits))


def _murmur(items: NDArray[np.uint64], seeds: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """Return Murmur3's 32-bit hash of each 64 bits."""
    hashed = seeds
    for half in (items, items >> np.uint64(32)):
        word = _rotate32(half.astype(np.uint32) * np.uint32(0xCC9E2D51), 15) * np.uint32(0x1B873593)
        hashed = _rotate32(hashed ^ word, 13) * np.uint32(5) + np.uint32(0xE6546B64)
    hashed = hashed ^ np.uint32(8)
    hashed = (hashed ^ (hashed >> np.uint32(16))) * np.uint32(0x85EBCA6B)
    hashed = (hashed ^ (hashed >> np.uint32(13))) * np.uint32(0xC2B2AE35)
    return hashed ^ (hashed >> np.uint32(16))


def _held(hashed: NDArray[np.uint64], words: Words, num_hashes: int, seed: int, version: int) -> Bools:
    """Return which hashes have all their bits set."""
    first = _murmur(hashed, np.full(len(hashed), seed & 0xFFFFFFFF, np.uint32))
    second = _murmur(hashed, first).view(np.int32).astype(np.int64)
    combined = first.view(np.int32).astype(np.int64)
    if version == 2:
        combined = combined * np.int64(2147483647)
    size = np.int64(64 * len(words))
    hits = np.ones(len(hashed), np.bool_)
    for _ in range(num_hashes):
        combined = combined + second
        if version == 1:
            combined = combined.astype(np.int32).astype(np.int64)
        places = np.where(combined < 0, ~combined, combined) % size
        bits = words[places >> np.int64(6)] >> (places & np.int64(63)).astype(np.uint64)
        hits &= (bits & np.uint64(1)).astype(np.bool_)
    return hits
