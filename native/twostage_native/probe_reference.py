"""The plain NumPy twins of `probe`: same arguments, same answers, all rows one step at a time.

Takes and returns what the kernels of the same names do, and shares no code with them. The rule: a table that
a twin filled serves the kernels and vice versa, so hashes are the same bit for bit and no key lies past a
free slot.
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
_MASKS = np.array([2 ** (8 * size) - 1 for size in range(STEP + 1)], np.uint64)


def mix(word: Any) -> Any:
    """Return a 64-bit mix of a word in which every input bit moves every output bit (splitmix64)."""
    word = (word ^ (word >> _S30)) * _FIRST
    word = (word ^ (word >> _S27)) * _SECOND
    return word ^ (word >> _S31)


def _homes(tags: Words, capacity: int) -> Integers:
    return ((tags * np.uint64(capacity)) >> HALF).astype(np.int64)


def _chunks(offsets: Integers, data: Bytes, rows: Integers, step: int) -> Words:
    """Return eight bytes of each row from its byte ``step`` on, which exists; zeros after its end."""
    starts = offsets[rows] + step
    remaining = offsets[rows + 1] - starts
    if len(data) < STEP:
        data = np.concatenate([data, np.zeros(STEP, np.uint8)])
    windows: Words = np.ndarray(len(data) - STEP + 1, "<u8", data, strides=(1,))
    places = np.minimum(starts, len(windows) - 1)
    found = windows[places] >> (np.uint64(8) * (starts - places).astype(np.uint64))
    if int(remaining.min(initial=STEP)) < STEP:
        found &= _MASKS[np.minimum(remaining, STEP)]
    return found


def insert_words(
    keys: Words,
    codes: Codes,
    words: Words,
    code: int,
    sequences: Integers,
    scratch: Words,  # noqa: ARG001 - the kernel's
) -> int:
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
        # Rows that want the same empty slot all write to it; the last one stays and the others walk on.
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


def probe_words(
    keys: Words,
    codes: Codes,
    applies: Bools,
    words: Words,
    scratch: Words,  # noqa: ARG001 - the kernel's
    found: Bools,
) -> None:
    """Set for each word whether it is in the table under a code that applies."""
    found[:] = False
    rows = np.arange(len(words))
    slot = _homes(mix(words) >> HALF, len(keys))
    while len(rows):
        code = codes[slot]
        hit = (keys[slot] == words[rows]) & (code != 0)
        found[rows[hit]] = applies[code[hit]]
        going = (code != 0) & ~hit
        rows, slot = rows[going], (slot[going] + 1) % len(keys)


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


def _sizes(words: Words, lengths: Integers) -> Integers:
    """Return how many words each row's record takes."""
    sizes: Integers = 1 + words.shape[1] + -(-lengths // STEP)
    return sizes


def _lengths(words: Words, offsets: Integers) -> Integers:
    return np.diff(offsets) if len(offsets) else np.zeros(len(words), np.int64)


def _same(records: Words, places: Integers, rows: Integers, keys: tuple[Words, Integers, Bytes]) -> Bools:
    """Return which records are equal to the rows in words, length and bytes."""
    words, offsets, data = keys
    lengths = _lengths(words, offsets)[rows]
    same: Bools = records[places] >> HALF == lengths.astype(np.uint64)
    for column in range(words.shape[1]):
        pairs = np.flatnonzero(same)
        same[pairs] = records[places[pairs] + 1 + column] == words[rows[pairs], column]
    for step in range(0, int(lengths[same].max(initial=0)), STEP):
        pairs = np.flatnonzero(same & (lengths > step))
        mine = records[places[pairs] + 1 + words.shape[1] + step // STEP]
        same[pairs] = mine == _chunks(offsets, data, rows[pairs], step)
    return same


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
    scratch: Words,  # noqa: ARG001 - the kernel's
) -> tuple[int, int]:
    """Insert rows under one code; return how many words of `records` are used, and how many keys were new."""
    keys = words, offsets, data
    rows = np.arange(len(hashes))
    tags = hashes >> HALF
    slot = _homes(tags, len(slots))
    # New rows are written as if all were kept; those that turn out to be kept move together below.
    lengths = _lengths(words, offsets)
    sizes = _sizes(words, lengths)
    places = used + np.cumsum(sizes) - sizes
    _write(records, places, rows, keys, code)
    entries = (tags << HALF) | (places + 1).astype(np.uint64)
    owners = np.full(len(rows), -1, np.int64)
    while len(rows):
        empty = slots[slot] == 0
        slots[slot[empty]] = entries[rows[empty]]
        found = slots[slot]
        mine = found == entries[rows]
        owners[rows[mine]] = slot[mine]
        done = mine.copy()
        alike = np.flatnonzero(~mine & ((found >> HALF) == tags[rows]))
        place = (found[alike] & LOW_HALF).astype(np.int64) - 1
        same = _same(records, place, rows[alike], keys)
        done[alike[same]] = True
        known = place[same & (place < used)]
        older = known[sequences[records[known] & LOW_HALF] < sequences[code]]
        records[older] = (records[older] & ~LOW_HALF) | np.uint64(code)
        rows, slot = rows[~done], (slot[~done] + 1) % len(slots)
    kept = np.flatnonzero(owners >= 0)
    places = used + np.cumsum(sizes[kept]) - sizes[kept]
    _write(records, places, kept, keys, code)
    slots[owners[kept]] = (tags[kept] << HALF) | (places + 1).astype(np.uint64)
    return used + int(sizes[kept].sum()), len(kept)


def _write(
    records: Words, places: Integers, rows: Integers, keys: tuple[Words, Integers, Bytes], code: int
) -> None:
    words, offsets, data = keys
    lengths = _lengths(words, offsets)[rows]
    records[places] = (lengths.astype(np.uint64) << HALF) | np.uint64(code)
    for column in range(words.shape[1]):
        records[places + 1 + column] = words[rows, column]
    for step in range(0, int(lengths.max(initial=0)), STEP):
        some = np.flatnonzero(lengths > step)
        chunks = _chunks(offsets, data, rows[some], step)
        records[places[some] + 1 + words.shape[1] + step // STEP] = chunks


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
    records: Words,
    applies: Bools,
    hashes: Words,
    words: Words,
    offsets: Integers,
    data: Bytes,
    scratch: Words,  # noqa: ARG001 - the kernel's
    found: Bools,
) -> None:
    """Set `found`, all False, for the rows whose keys are in the table under a code that applies."""
    rows = np.arange(len(hashes))
    slot = _homes(hashes >> HALF, len(slots))
    while len(rows):
        entry = slots[slot]
        going = entry != 0
        alike = np.flatnonzero(going & ((entry >> HALF) == (hashes[rows] >> HALF)))
        place = (entry[alike] & LOW_HALF).astype(np.int64) - 1
        same = _same(records, place, rows[alike], (words, offsets, data))
        found[rows[alike[same]]] = applies[records[place[same]] & LOW_HALF]
        going[alike[same]] = False
        rows, slot = rows[going], (slot[going] + 1) % len(slots)
