"""The plain NumPy twins of `probe`: same arguments, same answers, all rows one step at a time.

Takes and gives what the kernels of the same names do, and shares no code with them. The rule: a table that a
twin filled serves the kernels and the other way round, so hashes are the same bit for bit and no key lies
past a free slot.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Words = NDArray[np.uint64]
    Codes = NDArray[Any]
    Integers = NDArray[np.int64]
    Bytes = NDArray[np.uint8]
    Bools = NDArray[np.bool_]

_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)
SEED = np.uint64(0x9E3779B97F4A7C15)
HALF = np.uint64(32)
LOW_HALF = np.uint64(0xFFFFFFFF)
_S27, _S30, _S31 = np.uint64(27), np.uint64(30), np.uint64(31)
STEP = 8


def mix(word: Any) -> Any:
    """Return a 64-bit mix of a word in which every input bit moves every output bit (splitmix64)."""
    word = (word ^ (word >> _S30)) * _FIRST
    word = (word ^ (word >> _S27)) * _SECOND
    return word ^ (word >> _S31)


def _homes(tags: Words, capacity: int) -> Integers:
    return ((tags * np.uint64(capacity)) >> HALF).astype(np.int64)


def _chunks(offsets: Integers, data: Bytes, rows: Integers, step: int) -> Words:
    """Return eight bytes of each row from its byte ``step`` on, zeros after its end."""
    places = offsets[rows, None] + step + np.arange(STEP)
    inside = places < offsets[rows + 1, None]
    found = np.zeros(places.shape, np.uint8)
    found[inside] = data[places[inside]]
    return found.view("<u8")[:, 0]


def insert_words(keys: Words, codes: Codes, words: Words, code: int, sequences: Integers) -> int:
    """Insert words under one code; return how many were new."""
    fresh, _ = place_words(keys, codes, np.unique(words), code, sequences)
    return fresh


def place_words(keys: Words, codes: Codes, words: Words, code: Any, sequences: Integers) -> tuple[int, int]:
    """Put distinct words into the table, all rows a step at a time; return new keys and steps."""
    code = np.broadcast_to(np.asarray(code, codes.dtype), words.shape)
    slot = _homes(mix(words) >> HALF, len(keys))
    added = steps = 0
    while len(words):
        empty = codes[slot] == 0
        # Rows that want one empty slot all write to it; the last one stays and the others walk on.
        keys[slot[empty]], codes[slot[empty]] = words[empty], code[empty]
        mine = keys[slot] == words
        added += int(np.count_nonzero(mine & empty))
        old = mine & ~empty
        newer = sequences[codes[slot[old]]] < sequences[code[old]]
        codes[slot[old][newer]] = code[old][newer]
        words, code, slot = words[~mine], code[~mine], (slot[~mine] + 1) % len(keys)
        steps += 1
    return added, steps


def rehash_words(old_keys: Words, old_codes: Codes, keys: Words, codes: Codes) -> None:
    """Move every key of one word table into another, empty one."""
    used = np.flatnonzero(old_codes)
    sequences = np.zeros(int(old_codes.max(initial=0)) + 1, np.int64)
    place_words(keys, codes, old_keys[used], old_codes[used], sequences)


def probe_words(keys: Words, codes: Codes, applies: Bools, words: Words) -> Bools:
    """Return which words are in the table under a code that applies."""
    result = np.zeros(len(words), np.bool_)
    rows = np.arange(len(words))
    slot = _homes(mix(words) >> HALF, len(keys))
    while len(rows):
        code = codes[slot]
        hit = (keys[slot] == words[rows]) & (code != 0)
        result[rows[hit]] = applies[code[hit]]
        going = (code != 0) & ~hit
        rows, slot = rows[going], (slot[going] + 1) % len(keys)
    return result


def hash_records(words: Words, offsets: Integers, data: Bytes) -> Words:
    """Return the 64-bit hash of each record. No `offsets`: records are words only."""
    hashes = np.full(len(words), SEED, np.uint64)
    for column in range(words.shape[1]):
        hashes = mix(hashes ^ words[:, column])
    if len(offsets):
        lengths = np.diff(offsets)
        for step in range(0, int(lengths.max(initial=0)), STEP):
            rows = np.flatnonzero(lengths > step)
            hashes[rows] = mix(hashes[rows] ^ _chunks(offsets, data, rows, step))
        hashes = mix(hashes ^ lengths.astype(np.uint64))
    return hashes


def _same(
    left: tuple[Words, Integers, Bytes],
    left_rows: Integers,
    right: tuple[Words, Integers, Bytes],
    right_rows: Integers,
) -> Bools:
    """Return which pairs of records are equal in words, length and bytes."""
    same: Bools = (left[0][left_rows] == right[0][right_rows]).all(axis=1)
    if len(right[1]):
        lengths = left[1][left_rows + 1] - left[1][left_rows]
        same &= lengths == right[1][right_rows + 1] - right[1][right_rows]
        for step in range(0, int(lengths[same].max(initial=0)), STEP):
            pairs = np.flatnonzero(same & (lengths > step))
            mine = _chunks(left[1], left[2], left_rows[pairs], step)
            same[pairs] = mine == _chunks(right[1], right[2], right_rows[pairs], step)
    return same


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
    table, new = (words, offsets, data), (new_words, new_offsets, new_data)
    rows = np.arange(len(hashes))
    tags = hashes >> HALF
    slot = _homes(tags, len(slots))
    # New rows enter the table as if all were kept; those that turn out to be kept are renumbered below.
    entries = (tags << HALF) | (rows + count + 1).astype(np.uint64)
    owners = np.full(len(rows), -1, np.int64)
    while len(rows):
        empty = slots[slot] == 0
        slots[slot[empty]] = entries[rows[empty]]
        found = slots[slot]
        mine = found == entries[rows]
        owners[rows[mine]] = slot[mine]
        done = mine.copy()
        alike = np.flatnonzero(~mine & ((found >> HALF) == tags[rows]))
        index = (found[alike] & LOW_HALF).astype(np.int64) - 1
        for part, other, base in ((index < count, table, 0), (index >= count, new, count)):
            pairs, target = alike[part], index[part]
            same = _same(new, rows[pairs], other, target - base)
            done[pairs[same]] = True
            if not base and other is table:
                target = target[same]
                codes[target[sequences[codes[target]] < sequences[code]]] = code
        rows, slot = rows[~done], (slot[~done] + 1) % len(slots)
    kept = np.flatnonzero(owners >= 0)
    end = count + len(kept)
    slots[owners[kept]] = (tags[kept] << HALF) | np.arange(count + 1, end + 1, dtype=np.uint64)
    words[count:end], codes[count:end] = new_words[kept], code
    if len(offsets):
        lengths = new_offsets[kept + 1] - new_offsets[kept]
        start = offsets[count]
        offsets[count + 1 : end + 1] = start + np.cumsum(lengths)
        shifts = np.repeat(new_offsets[kept] - offsets[count:end] + start, lengths)
        total = int(lengths.sum())
        data[start : start + total] = new_data[shifts + np.arange(total)]
    return end


def rehash_records(old_slots: Words, slots: Words) -> None:
    """Move every entry of one record table's slots into others, empty ones."""
    entries = old_slots[old_slots != 0]
    slot = _homes(entries >> HALF, len(slots))
    while len(entries):
        empty = slots[slot] == 0
        slots[slot[empty]] = entries[empty]
        walking = slots[slot] != entries
        entries, slot = entries[walking], (slot[walking] + 1) % len(slots)


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
    result = np.zeros(len(hashes), np.bool_)
    asked, table = (asked_words, asked_offsets, asked_data), (words, offsets, data)
    rows = np.arange(len(hashes))
    slot = _homes(hashes >> HALF, len(slots))
    while len(rows):
        found = slots[slot]
        going = found != 0
        alike = np.flatnonzero(going & ((found >> HALF) == (hashes[rows] >> HALF)))
        index = (found[alike] & LOW_HALF).astype(np.int64) - 1
        same = _same(asked, rows[alike], table, index)
        result[rows[alike[same]]] = applies[codes[index[same]]]
        going[alike[same]] = False
        rows, slot = rows[going], (slot[going] + 1) % len(slots)
    return result
