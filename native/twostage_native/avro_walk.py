"""A walk over encoded Avro records that keeps some of their fields and builds no objects.

Takes a block's bytes (uint8) and a program (int64, shape (steps, 3)), one row for each step of a record; fills a matrix
(int64, shape (records, slots)) with the kept numbers and where kept bytes begin and how long they are. The rule: no step
reads beyond the bytes, whatever they are; if one would, the answer is that they are malformed.
Source: Avro specification, "Binary Encoding".

A row of the program is ``(operation, a, b)``:

- ``END``: the record is over.
- ``LONG, slot``: a number, kept in `slot` unless that is -1.
- ``BYTES, slot``: bytes or text; where they begin goes to `slot`, how many they are to ``slot + 1``.
- ``SKIP, n``: n bytes.
- ``UNION, n``: then n rows ``JUMP``, one for each branch; a branch ends with a ``JUMP`` past them all.
- ``ARRAY, end``: the rows up to ``LOOP`` are an item's; `end` is the row after it. Maps are arrays of a key
  and a value.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from twostage_native import avro_walk_reference as reference
from twostage_native._jit import inner, kernel

if TYPE_CHECKING:
    from numpy.typing import NDArray

END, LONG, BYTES, SKIP, UNION, JUMP, ARRAY, LOOP = range(8)
ABSENT = -(2**63)
"""In the slot of a field that is NULL."""
MAX_ARRAY_DEPTH = 8
"""How deep arrays may be nested."""
_MALFORMED = -1


@inner
def _varint(data: Any, at: Any, end: Any) -> Any:
    """Return a zigzag number and the place after it; a place of -1 if there is none."""
    value = np.uint64(0)
    shift = np.uint64(0)
    while at < end and shift < np.uint64(64):
        byte = data[at]
        at += 1
        value |= np.uint64(byte & 0x7F) << shift
        if byte < 0x80:
            return np.int64(value >> np.uint64(1)) ^ -np.int64(value & np.uint64(1)), at
        shift += np.uint64(7)
    return np.int64(0), np.int64(-1)


@inner
def _block(data: Any, at: Any, end: Any) -> Any:
    """Return how many items an array's next block has and where they begin; a place of -1 if it is malformed."""
    count, at = _varint(data, at, end)
    if at >= 0 and count < 0:
        count = -count
        _, at = _varint(data, at, end)
    if at >= 0 and (count < 0 or count > end - at):
        at = np.int64(-1)
    return count, at


@kernel(reference.walk_records)
def walk_records(data: NDArray[np.uint8], program: NDArray[np.int64], kept: NDArray[np.int64]) -> int:
    """Walk ``len(kept)`` records from the start of `data`; return where they end, or -1 if they are malformed.

    Args:
        data: A block's bytes.
        program: How a record is laid out.
        kept: Filled with what is kept, a row for each record.
    """
    end = np.int64(len(data))
    at = np.int64(0)
    remaining = np.zeros(MAX_ARRAY_DEPTH, np.int64)
    for record in range(len(kept)):
        for slot in range(kept.shape[1]):
            kept[record, slot] = ABSENT
        depth = 0
        step = 0
        while program[step, 0] != END:
            operation, a = program[step, 0], program[step, 1]
            step += 1
            if operation == JUMP:
                step = a
            elif operation == SKIP:
                if a < 0 or a > end - at:  # a sum might overflow
                    return _MALFORMED
                at += a
            elif operation in (LOOP, ARRAY):
                if operation == ARRAY:
                    if depth == MAX_ARRAY_DEPTH:
                        return _MALFORMED
                    remaining[depth] = 0
                    depth += 1
                    item, behind = step, a
                else:
                    item, behind = a, step
                    remaining[depth - 1] -= 1
                if remaining[depth - 1] == 0:
                    remaining[depth - 1], at = _block(data, at, end)
                    if at < 0:
                        return _MALFORMED
                if remaining[depth - 1] == 0:
                    depth -= 1
                    step = behind
                else:
                    step = item
            else:
                number, at = _varint(data, at, end)
                if at < 0:
                    return _MALFORMED
                if operation == LONG:
                    if a >= 0:
                        kept[record, a] = number
                elif operation == BYTES:
                    if number < 0 or number > end - at:
                        return _MALFORMED
                    if a >= 0:
                        kept[record, a] = at
                        kept[record, a + 1] = number
                    at += number
                else:
                    if number < 0 or number >= a:
                        return _MALFORMED
                    step += number
    return int(at)
