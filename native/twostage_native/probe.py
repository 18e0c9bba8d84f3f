"""Key tables: insert keys with a code, then ask which rows hold one of them.

Takes open-addressing tables (plain arrays that the caller owns and grows) and keys; gives new counts and
bool answers. Two shapes: a *word* table holds 64-bit words in its slots; a *record* table holds, per key, a
row of words and a run of bytes, and in its slots ``tag << 32 | index + 1``, the tag being the upper half of
the key's hash. Each key has a code (0 marks an empty slot of a word table); of two codes for one key the one
with the higher sequence number stays. The rule: a hash only says where to look, equality is decided by
comparing words and bytes, so that the answer is exact.

Callers keep a free slot in every table. The twins (`probe_reference`) may put keys into other slots; answers
are the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from twostage_native import probe_reference as reference
from twostage_native._jit import inner, kernel

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Words = NDArray[np.uint64]
    Codes = NDArray[Any]
    Integers = NDArray[np.int64]
    Bytes = NDArray[np.uint8]
    Bools = NDArray[np.bool_]

_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)
_SEED = np.uint64(0x9E3779B97F4A7C15)
_HALF = np.uint64(32)
_LOW_HALF = np.uint64(0xFFFFFFFF)
_S27, _S30, _S31 = np.uint64(27), np.uint64(30), np.uint64(31)
_STEP = 8
_BYTE = np.uint64(8)


@inner
def _mix(word: Any) -> Any:
    """Return a 64-bit mix of a word in which every input bit moves every output bit (splitmix64)."""
    word = (word ^ (word >> _S30)) * _FIRST
    word = (word ^ (word >> _S27)) * _SECOND
    return word ^ (word >> _S31)


@inner
def _home(tag: Any, capacity: Any) -> Any:
    """Return where the search for a 32-bit tag begins: any capacity below 2**32 works, no modulo."""
    return (tag * np.uint64(capacity)) >> _HALF


@inner
def _chunk(data: Any, start: Any) -> Any:
    """Return eight bytes as a little-endian word: a fixed count and unsigned places make it one load."""
    first = np.uint64(start)
    word = np.uint64(data[first])
    for place in range(1, _STEP):
        word |= np.uint64(data[first + np.uint64(place)]) << (_BYTE * np.uint64(place))
    return word


@inner
def _rest(data: Any, start: Any, end: Any) -> Any:
    """Return the fewer than eight bytes before `end` as a word, padded with zeros."""
    word = np.uint64(0)
    while end > start:
        end -= 1
        word = (word << _BYTE) | np.uint64(data[np.uint64(end)])
    return word


@kernel(reference.insert_words)
def insert_words(keys: Words, codes: Codes, words: Words, code: int, sequences: Integers) -> int:
    """Insert words under one code; return how many were new."""
    capacity = len(keys)
    added = 0
    for row in range(len(words)):
        word = words[row]
        slot = np.int64(_home(_mix(word) >> _HALF, capacity))
        while codes[slot] != 0 and keys[slot] != word:
            slot += 1
            if slot == capacity:
                slot = np.int64(0)
        if codes[slot] == 0:
            keys[slot] = word
            codes[slot] = code
            added += 1
        elif sequences[codes[slot]] < sequences[code]:
            codes[slot] = code
    return added


@kernel(reference.rehash_words)
def rehash_words(old_keys: Words, old_codes: Codes, keys: Words, codes: Codes) -> None:
    """Move every key of one word table into another, empty one."""
    capacity = len(keys)
    for row in range(len(old_keys)):
        if old_codes[row] != 0:
            slot = np.int64(_home(_mix(old_keys[row]) >> _HALF, capacity))
            while codes[slot] != 0:
                slot += 1
                if slot == capacity:
                    slot = np.int64(0)
            keys[slot] = old_keys[row]
            codes[slot] = old_codes[row]


@kernel(reference.probe_words)
def probe_words(keys: Words, codes: Codes, applies: Bools, words: Words) -> Bools:
    """Return which words are in the table under a code that applies."""
    capacity = len(keys)
    result = np.zeros(len(words), np.bool_)
    for row in range(len(words)):
        word = words[row]
        slot = np.int64(_home(_mix(word) >> _HALF, capacity))
        while codes[slot] != 0 and keys[slot] != word:
            slot += 1
            if slot == capacity:
                slot = np.int64(0)
        if codes[slot] != 0:
            result[row] = applies[codes[slot]]
    return result


@kernel(reference.hash_records)
def hash_records(words: Words, offsets: Integers, data: Bytes) -> Words:
    """Return the 64-bit hash of each record. No `offsets`: records are words only."""
    hashes = np.full(len(words), _SEED, np.uint64)
    for column in range(words.shape[1]):  # a pass for each column is eight times faster than one for all
        for row in range(len(words)):
            hashes[row] = _mix(hashes[row] ^ words[row, column])
    if len(offsets) == 0:
        return hashes
    for row in range(len(words)):
        start, end = offsets[row], offsets[row + 1]
        length = end - start
        value = hashes[row]
        while end - start >= _STEP:  # a range with a step would divide once a row
            value = _mix(value ^ _chunk(data, start))
            start += _STEP
        if start < end:
            value = _mix(value ^ _rest(data, start, end))
        hashes[row] = _mix(value ^ np.uint64(length))
    return hashes


@inner
def _same(
    words: Any,
    offsets: Any,
    data: Any,
    index: Any,
    asked_words: Any,
    asked_offsets: Any,
    asked_data: Any,
    row: Any,
) -> bool:
    """Tell whether record `index` of the table equals record `row` of what is asked."""
    for column in range(words.shape[1]):
        if words[index, column] != asked_words[row, column]:
            return False
    if len(asked_offsets) > 0:
        start, asked = offsets[index], asked_offsets[row]
        length = asked_offsets[row + 1] - asked
        if offsets[index + 1] - start != length:
            return False
        end = start + length
        while end - start >= _STEP:
            if _chunk(data, start) != _chunk(asked_data, asked):
                return False
            start += _STEP
            asked += _STEP
        while start < end:
            if data[np.uint64(start)] != asked_data[np.uint64(asked)]:
                return False
            start += 1
            asked += 1
    return True


@kernel(reference.insert_records)
def insert_records(
    slots: Words,
    words: Words,
    offsets: Integers,
    data: Bytes,
    codes: Codes,
    count: int,
    hashes: Words,
    new_words: Words,
    new_offsets: Integers,
    new_data: Bytes,
    code: int,
    sequences: Integers,
) -> int:
    """Insert records under one code; return the new count. The arrays have room for all of them."""
    capacity = len(slots)
    for row in range(len(hashes)):
        tag = hashes[row] >> _HALF
        slot = np.int64(_home(tag, capacity))
        known = np.int64(-1)
        while slots[slot] != 0:
            if slots[slot] >> _HALF == tag:
                index = np.int64(slots[slot] & _LOW_HALF) - 1
                if _same(words, offsets, data, index, new_words, new_offsets, new_data, row):
                    known = index
                    break
            slot += 1
            if slot == capacity:
                slot = np.int64(0)
        if known >= 0:
            if sequences[codes[known]] < sequences[code]:
                codes[known] = code
            continue
        slots[slot] = (tag << _HALF) | np.uint64(count + 1)
        codes[count] = code
        for column in range(words.shape[1]):
            words[count, column] = new_words[row, column]
        if len(new_offsets) > 0:
            start, end = new_offsets[row], new_offsets[row + 1]
            first = offsets[count]
            for place in range(end - start):
                data[first + place] = new_data[start + place]
            offsets[count + 1] = first + end - start
        count += 1
    return count


@kernel(reference.rehash_records)
def rehash_records(old_slots: Words, slots: Words) -> None:
    """Move every entry of one record table's slots into others, empty ones."""
    capacity = len(slots)
    for row in range(len(old_slots)):
        if old_slots[row] != 0:
            slot = np.int64(_home(old_slots[row] >> _HALF, capacity))
            while slots[slot] != 0:
                slot += 1
                if slot == capacity:
                    slot = np.int64(0)
            slots[slot] = old_slots[row]


@kernel(reference.probe_records)
def probe_records(
    slots: Words,
    words: Words,
    offsets: Integers,
    data: Bytes,
    codes: Codes,
    applies: Bools,
    hashes: Words,
    asked_words: Words,
    asked_offsets: Integers,
    asked_data: Bytes,
) -> Bools:
    """Return which records are in the table under a code that applies."""
    capacity = len(slots)
    result = np.zeros(len(hashes), np.bool_)
    for row in range(len(hashes)):
        tag = hashes[row] >> _HALF
        slot = np.int64(_home(tag, capacity))
        while slots[slot] != 0:
            if slots[slot] >> _HALF == tag:
                index = np.int64(slots[slot] & _LOW_HALF) - 1
                if _same(words, offsets, data, index, asked_words, asked_offsets, asked_data, row):
                    result[row] = applies[codes[index]]
                    break
            slot += 1
            if slot == capacity:
                slot = np.int64(0)
    return result
