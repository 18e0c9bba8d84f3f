"""ORC's run-length encodings of bytes, booleans and integers (versions 1 and 2).

Takes a decompressed stream and the number of values; returns them as a NumPy array of that length. The rule:
a stream that does not hold exactly that many values raises `ValueError`, before memory is allocated for more
than it holds.
Source: ORC specification v1, "Run Length Encoding".

Only run headers are read in a Python loop, some 1 µs each. The values of many runs are then decoded at once:
packed values are unpacked together, and runs of a constant step are computed from their first value and the
step.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from twostage.formats.varint import decode_zigzag, decode_zigzags, read_varint, read_zigzag

if TYPE_CHECKING:
    from numpy.typing import NDArray

_WIDTHS = (*range(1, 25), 26, 28, 30, 32, 40, 48, 56, 64)
"""Bits of a packed value, by the code of five bits in a run's header."""
_VALUES_AT_ONCE = 1 << 18
"""Values decoded at once: 2 MiB, and as much again for each of some six intermediate arrays."""
_MASK = 2**64 - 1


def byte_values(data: bytes, count: int) -> NDArray[np.uint8]:
    """Decode `count` bytes.

    Raises:
        ValueError: The stream holds a different number of values.
    """
    parts: list[bytes] = []
    position = found = 0
    while position < len(data):
        control = data[position]
        if control < 128:
            length = control + 3
            part = data[position + 1 : position + 2] * length
            position += 2
        else:
            length = 256 - control
            part = data[position + 1 : position + 1 + length]
            position += 1 + length
        if len(part) != length:
            raise ValueError("a run of bytes is cut off")
        found += length
        if found > count:
            break
        parts.append(part)
    _check(found, count)
    return np.frombuffer(b"".join(parts), np.uint8)


def booleans(data: bytes, count: int) -> NDArray[np.bool_]:
    """Decode `count` booleans: byte runs of eight booleans a byte, the first in the highest bit."""
    packed = byte_values(data, (count + 7) // 8)
    return np.unpackbits(packed, count=count).view(np.bool_)


def integers(data: bytes, count: int, *, signed: bool, version: int) -> NDArray[np.int64]:
    """Decode `count` integers of run-length encoding version 1 or 2.

    Raises:
        ValueError: The stream holds a different number of values, or is malformed.
    """
    runs = _Runs(data, count, signed=signed)
    read = _read_version_1 if version == 1 else _read_version_2
    position = 0
    while position < len(data):
        position = read(runs, position)
        runs.make()
    return runs.finish()


class _Runs:
    """Gathers runs, and decodes their values, `_VALUES_AT_ONCE` or a few more each time."""

    def __init__(self, data: bytes, count: int, *, signed: bool) -> None:
        self.data = data
        self.signed = signed
        self._count = count
        self.found = 0
        self._windows = np.ndarray((len(data) + 1,), ">u8", data + bytes(8), strides=(1,))
        self._done: list[NDArray[np.int64]] = []
        self._reset()

    def _reset(self) -> None:
        self._start = self.found
        self._packed: list[tuple[int, int, int, int]] = []
        self._sequences: list[tuple[int, int, int, int]] = []
        self._finished: list[tuple[int, NDArray[np.uint64]]] = []

    def _add(self, length: int) -> int:
        place = self.found - self._start
        self.found += length
        if self.found > self._count:
            raise ValueError(f"a stream holds more than {self._count} values")
        return place

    def packed(self, position: int, width: int, length: int) -> None:
        """Add values of `width` bits each."""
        self._packed.append((self._add(length), length, position * 8, width))

    def sequence(self, base: int, delta: int, length: int) -> None:
        """Add the values ``base``, ``base + delta``, ``base + 2 * delta`` and so on."""
        self._sequences.append((self._add(length), length, base & _MASK, delta & _MASK))

    def values(self, values: NDArray[np.uint64]) -> None:
        """Add values as they are."""
        self._finished.append((self._add(len(values)), values))

    def unpack(self, position: int, width: int, length: int) -> NDArray[np.uint64]:
        """Return `length` values of `width` bits each, the first in the highest bits."""
        bits = np.arange(length, dtype=np.int64) * width + position * 8
        return self._at(bits, np.uint64(width))

    def _at(self, bits: NDArray[np.int64], width: NDArray[np.uint64] | np.uint64) -> NDArray[np.uint64]:
        window = self._windows[bits >> 3].astype(np.uint64)
        # Eight bytes are enough: values of 64 bits begin at a byte, and the next smaller width is 56.
        result: NDArray[np.uint64] = (window << (bits & 7).astype(np.uint64)) >> (np.uint64(64) - width)
        return result

    def finish(self) -> NDArray[np.int64]:
        """Return all values."""
        if not self._done:
            self.make()
        _check(self.found, self._count)
        return self._done[0] if len(self._done) == 1 else np.concatenate(self._done)

    def make(self) -> None:
        """Decode the values of the runs gathered since the last call."""
        values = np.empty(self.found - self._start, np.uint64)
        if self._packed:
            place, length, bit, width = np.array(self._packed, np.int64).T
            within = _within(length)
            raw = self._at(
                np.repeat(bit, length) + within * np.repeat(width, length),
                np.repeat(width.astype(np.uint64), length),
            )
            values[np.repeat(place, length) + within] = decode_zigzags(raw) if self.signed else raw
        if self._sequences:
            place, length, base, delta = np.array(self._sequences, np.uint64).T
            length = length.astype(np.int64)
            within = _within(length)
            made = np.repeat(base, length) + np.repeat(delta, length) * within.astype(np.uint64)
            values[np.repeat(place.astype(np.int64), length) + within] = made
        for start, part in self._finished:
            values[start : start + len(part)] = part
        self._done.append(values.view(np.int64))
        self._reset()


def _within(length: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the place of each value within its run: 0, 1, … for one run after the other."""
    ends = np.cumsum(length)
    return np.arange(int(ends[-1]), dtype=np.int64) - np.repeat(ends - length, length)


def _check(found: int, count: int) -> None:
    if found != count:
        raise ValueError(f"a stream does not hold exactly {count} values")


def _read_version_1(runs: _Runs, position: int) -> int:
    """Gather runs from `position` on, some `_VALUES_AT_ONCE` values; return the position after them."""
    data = runs.data
    end = runs.found + _VALUES_AT_ONCE
    while position < len(data) and runs.found < end:
        control = data[position]
        if control < 128:
            delta = int.from_bytes(data[position + 1 : position + 2], "big", signed=True)
            base, position = read_varint(data, position + 2)
            runs.sequence(decode_zigzag(base) if runs.signed else base, delta, control + 3)
        else:
            position += 1
            values = []
            for _ in range(256 - control):
                value, position = read_varint(data, position)
                values.append(value)
            made = np.array(values, np.uint64)
            runs.values(decode_zigzags(made) if runs.signed else made)
    return position


def _read_version_2(runs: _Runs, position: int) -> int:
    """Gather runs from `position` on, some `_VALUES_AT_ONCE` values; return the position after them."""
    data, signed, size = runs.data, runs.signed, len(runs.data)
    end = runs.found + _VALUES_AT_ONCE
    while position < size and runs.found < end:
        first = data[position]
        if first < 64:  # one value, 3 to 10 times
            start = position + 1
            position = start + (first >> 3) + 1
            value = int.from_bytes(data[start:position], "big")
            runs.sequence((value >> 1) ^ -(value & 1) if signed else value, 0, (first & 7) + 3)
        else:
            code = (first >> 1) & 31
            length = ((first & 1) << 8 | data[position + 1]) + 1
            start = position + 2
            if first < 128:
                width = _WIDTHS[code]
                position = start + (length * width + 7) // 8
                if position <= size:
                    runs.packed(start, width, length)
            elif first < 192:
                position = _read_patched(runs, start, _WIDTHS[code], length)
            else:
                position = _read_deltas(runs, start, _WIDTHS[code] if code else 0, length)
        if position > size:
            raise ValueError("a run is cut off")
    return position


def _read_deltas(runs: _Runs, position: int, width: int, length: int) -> int:
    base, position = (read_zigzag if runs.signed else read_varint)(runs.data, position)
    delta, position = read_zigzag(runs.data, position)
    if width == 0:
        runs.sequence(base, delta, length)
        return position
    steps = max(length - 2, 0)
    end = position + (steps * width + 7) // 8
    if end <= len(runs.data):
        values = np.empty(length, np.uint64)
        values[0] = base & _MASK
        values[1:2] = delta & _MASK
        rest = runs.unpack(position, width, steps)
        values[2:] = rest if delta >= 0 else ~rest + np.uint64(1)
        runs.values(np.cumsum(values, dtype=np.uint64))
    return end


def _read_patched(runs: _Runs, position: int, width: int, length: int) -> int:
    data = runs.data
    third, fourth = data[position], data[position + 1]
    position += 2
    base_bytes, patch_width = (third >> 5) + 1, _WIDTHS[third & 31]
    gap_width, num_patches = (fourth >> 5) + 1, fourth & 31
    base = int.from_bytes(data[position : position + base_bytes], "big")
    sign = 1 << (base_bytes * 8 - 1)
    if base & sign:
        base = -(base & (sign - 1))
    position += base_bytes
    start = position
    position += (length * width + 7) // 8
    # The gap and the value of a patch together take the smallest encodable width that is wide enough.
    together = next((w for w in _WIDTHS if w >= gap_width + patch_width), 0)
    end = position + (num_patches * together + 7) // 8
    if together == 0 or end > len(data):
        raise ValueError("a patched run is cut off, or its patches are too wide")
    values = runs.unpack(start, width, length)
    place = 0
    for entry in runs.unpack(position, together, num_patches).tolist():
        place += entry >> patch_width & ((1 << gap_width) - 1)
        patch = (entry & ((1 << patch_width) - 1)) << width
        if place >= length:
            raise ValueError("a patch lies behind its run")
        values[place] |= np.uint64(patch & _MASK)
    runs.values(values + np.uint64(base & _MASK))
    return end
