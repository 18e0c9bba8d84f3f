"""The plain twin of `avro_walk`: same arguments, same answers, one value at a time.

Takes and returns what the kernel of the same name does, and shares no code with it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_ABSENT = -(2**63)
_MAX_ARRAY_DEPTH = 8


class _Bytes:
    """Bytes that are taken from the front."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def skip(self, count: int) -> None:
        if not 0 <= count <= len(self.data) - self.at:
            raise ValueError(count)
        self.at += count

    def number(self) -> int:
        value = 0
        for place in range(10):
            byte = self.data[self.at]
            self.at += 1
            value |= (byte & 0x7F) << (7 * place)
            if byte < 0x80:
                value &= 2**64 - 1
                return (value >> 1) ^ -(value & 1)
        raise ValueError("more than ten bytes")


def walk_records(data: NDArray[np.uint8], program: NDArray[np.int64], kept: NDArray[np.int64]) -> int:
    """Walk ``len(kept)`` records; return where they end, or -1 if they are malformed."""
    source = _Bytes(data.tobytes())
    steps = [(row[0], row[1]) for row in program.tolist()]
    kept[:] = _ABSENT
    try:
        for row in kept:
            _run(source, steps, 0, row, 0)
    except (IndexError, ValueError, OverflowError):
        return -1
    return source.at


def _run(source: _Bytes, steps: list[tuple[int, int]], step: int, row: NDArray[np.int64], depth: int) -> None:
    """Run until END or the LOOP of an item."""
    while True:
        operation, a = steps[step]
        step += 1
        match operation:
            case 0 | 7:
                return
            case 1:
                value = source.number()
                if a >= 0:
                    row[a] = value
            case 2:
                count = source.number()
                if a >= 0:
                    row[a], row[a + 1] = source.at, count
                source.skip(count)
            case 3:
                source.skip(a)
            case 4:
                branch = source.number()
                if not 0 <= branch < a:
                    raise ValueError(branch)
                step += branch
            case 5:
                step = a
            case 6:
                if depth == _MAX_ARRAY_DEPTH:
                    raise ValueError(depth)
                while count := source.number():
                    if count < 0:
                        source.number()
                    if abs(count) > len(source.data) - source.at:
                        raise ValueError(count)
                    for _ in range(abs(count)):
                        _run(source, steps, step, row, depth + 1)
                step = a
