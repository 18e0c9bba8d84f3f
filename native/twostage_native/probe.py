"""Key tables: insert keys with a code, then probe which rows have one of them.

Takes open-addressing tables with linear probing (plain arrays that the caller owns and grows) and keys;
returns new counts and bools. There are two layouts:

- A *word* table holds 64-bit words (uint64) and their codes (uint16 or uint32; 0: empty) by slot.
- A *record* table holds a record for each key, one after the other in one array of words (uint64), and in its slots
  (uint64) ``tag << 32 | place + 1``: the upper half of the key's hash, and where its record begins. A record is
  ``length << 32 | code`` (length in bytes), the key's words, and its bytes, eight to a word and padded with zeros, so that
  a comparison touches one or two cache lines.

Each key has one code; of two codes for a key, the one with the higher sequence number wins. The rule: a hash
only tells where to look; words and bytes are compared, so that the answer is exact.

Tables are larger than the processor's cache. So rows are taken `BLOCK_ROWS` at a time, and what all of them
need first is loaded into a scratch array (uint64, shape (3, BLOCK_ROWS)): these loads do not wait for each
other, as those of a search do (10 M keys are added in 0.4 s instead of 1.4, 10 M words in 0.3 instead of
0.4). Callers keep a free slot in every table. The twins (`probe_reference`) may put keys into other slots;
answers are the same.
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
_ONE = np.uint64(1)
BLOCK_ROWS = 512
"""Rows whose slots are loaded at once: the length of a scratch array."""
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


@inner
def _load(keys: Any, codes: Any, words: Any, first: Any, last: Any, scratch: Any) -> None:
    """Put where the search for each of some words begins, and what is there, into `scratch`."""
    capacity = np.uint64(len(keys))
    for row in range(first, last):
        slot = _home(_mix(words[row]) >> _HALF, capacity)
        scratch[0, row - first] = slot
        scratch[1, row - first] = keys[slot]
        scratch[2, row - first] = codes[slot]


@inner
def _find(keys: Any, codes: Any, word: Any, slot: Any) -> Any:
    """Return the slot of a word, searched from `slot` on, or the empty one where it would be."""
    capacity = np.uint64(len(keys))
    while codes[slot] != 0 and keys[slot] != word:
        slot += _ONE
        if slot == capacity:
            slot = np.uint64(0)
    return slot


@kernel(reference.insert_words, allocates=False)
def insert_words(
    keys: Words, codes: Codes, words: Words, code: int, sequences: Integers, scratch: Words
) -> int:
    """Insert words under one code; return how many were new. `scratch` is a matrix of 3 by `BLOCK_ROWS`."""
    added = 0
    for first in range(0, len(words), BLOCK_ROWS):
        last = min(first + BLOCK_ROWS, len(words))
        _load(keys, codes, words, first, last, scratch)
        for row in range(first, last):
            slot = _find(keys, codes, words[row], scratch[0, row - first])
            if codes[slot] == 0:
                keys[slot] = words[row]
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


@kernel(reference.probe_words, allocates=False)
def probe_words(
    keys: Words, codes: Codes, applies: Bools, words: Words, scratch: Words, found: Bools
) -> None:
    """Set for each word whether it is in the table under a code that applies; `scratch` as for inserting."""
    for first in range(0, len(words), BLOCK_ROWS):
        last = min(first + BLOCK_ROWS, len(words))
        _load(keys, codes, words, first, last, scratch)
        for row in range(first, last):
            slot = _find(keys, codes, words[row], scratch[0, row - first])
            found[row] = applies[codes[slot]] & (codes[slot] != 0)  # no branch: it would be mispredicted


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
def _same(records: Any, place: Any, words: Any, offsets: Any, data: Any, row: Any) -> bool:
    """Tell whether the record at a place has the words and the bytes of a row; their lengths are the same."""
    for column in range(words.shape[1]):
        place += _ONE
        if records[place] != words[row, column]:
            return False
    if len(offsets) == 0:
        return True
    start, end = offsets[row], offsets[row + 1]
    while end - start >= _STEP:
        place += _ONE
        if records[place] != _chunk(data, start):
            return False
        start += _STEP
    return bool(start == end or records[place + _ONE] == _rest(data, start, end))


@inner
def _walk(
    slots: Any, records: Any, tag: Any, length: Any, words: Any, offsets: Any, data: Any, row: Any
) -> Any:
    """Return the slot of a row's key, or the free one where it belongs."""
    capacity = np.uint64(len(slots))
    slot = _home(tag, capacity)
    while slots[slot] != 0:
        if slots[slot] >> _HALF == tag:
            place = (slots[slot] & _LOW_HALF) - _ONE
            if records[place] >> _HALF == length and _same(records, place, words, offsets, data, row):
                break
        slot += _ONE
        if slot == capacity:
            slot = np.uint64(0)
    return slot


@kernel(reference.insert_records, allocates=False)
def insert_records(
    slots: Words,
    records: Words,
    used: int,
    hashes: Words,
    words: Words,
    offsets: Integers,
    data: Bytes,
    code: int,
    sequences: Integers,
    scratch: Words,
) -> tuple[int, int]:
    """Insert rows under one code; return how many words of `records` are used, and how many keys were new.

    The arrays have room for all of them. `scratch` is a matrix of 3 by `BLOCK_ROWS`.
    """
    added = 0
    for first in range(0, len(hashes), BLOCK_ROWS):
        last = min(first + BLOCK_ROWS, len(hashes))
        for row in range(first, last):
            scratch[0, row - first] = slots[_home(hashes[row] >> _HALF, len(slots))]
        for row in range(first, last):
            tag = hashes[row] >> _HALF
            length = offsets[row + 1] - offsets[row] if len(offsets) else 0
            slot = _walk(slots, records, tag, np.uint64(length), words, offsets, data, row)
            head = (np.uint64(length) << _HALF) | np.uint64(code)
            if slots[slot] != 0:
                place = (slots[slot] & _LOW_HALF) - _ONE
                if sequences[records[place] & _LOW_HALF] < sequences[code]:
                    records[place] = head
                continue
            added += 1
            slots[slot] = (tag << _HALF) | np.uint64(used + 1)
            records[used] = head
            used += 1
            for column in range(words.shape[1]):
                records[used] = words[row, column]
                used += 1
            if length > 0:
                start, end = offsets[row], offsets[row + 1]
                while end - start >= _STEP:
                    records[used] = _chunk(data, start)
                    used += 1
                    start += _STEP
                if start < end:
                    records[used] = _rest(data, start, end)
                    used += 1
    return used, added


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


@kernel(reference.probe_records, allocates=False)
def probe_records(
    slots: Words,
    records: Words,
    applies: Bools,
    hashes: Words,
    words: Words,
    offsets: Integers,
    data: Bytes,
    scratch: Words,
    found: Bools,
) -> None:
    """Set `found`, all False, for the rows whose keys are in the table under a code that applies.

    `scratch` is a matrix of 3 by `BLOCK_ROWS`: the slots' entries, rows that may be found, and their records'
    heads.
    """
    capacity = np.uint64(len(slots))
    for first in range(0, len(hashes), BLOCK_ROWS):
        size = min(BLOCK_ROWS, len(hashes) - first)
        for place in range(size):
            scratch[0, place] = slots[_home(hashes[first + place] >> _HALF, capacity)]
        for place in range(size):
            tag = hashes[first + place] >> _HALF
            slot = _home(tag, capacity)
            while slots[slot] != 0 and slots[slot] >> _HALF != tag:
                slot += _ONE
                if slot == capacity:
                    slot = np.uint64(0)
            scratch[0, place] = slots[slot]
        alike = 0
        for place in range(size):  # no branch: half of the rows may be in the table, half not
            scratch[1, alike] = place
            alike += int(scratch[0, place] != 0)
        for number in range(alike):
            scratch[2, number] = records[(scratch[0, scratch[1, number]] & _LOW_HALF) - _ONE]
        for number in range(alike):
            entry, head = scratch[0, scratch[1, number]], scratch[2, number]
            row = np.int64(scratch[1, number]) + first
            length = np.uint64(offsets[row + 1] - offsets[row] if len(offsets) else 0)
            start = (entry & _LOW_HALF) - _ONE
            if head >> _HALF == length and _same(records, start, words, offsets, data, row):
                found[row] = applies[head & _LOW_HALF]
            else:  # another key with this tag
                slot = _walk(slots, records, entry >> _HALF, length, words, offsets, data, row)
                if slots[slot] != 0:
                    found[row] = applies[records[(slots[slot] & _LOW_HALF) - _ONE] & _LOW_HALF]
