"""The plain twins of `page_values`: same arguments, same answers, from Python's own numbers.

Take and return what the kernels of the same names do, and share no code with them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray


def _runs(data: bytes, width: int, count: int) -> Iterator[tuple[int, int, int | None, int]]:
    """Yield runs: the first value's number, how many, the value if it is one, where packed values begin."""
    at = before = 0
    while before < count:
        number = shift = 0
        while True:
            if at >= len(data) or shift > 28:
                return
            byte = data[at]
            at += 1
            number |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                break
        if number < 2:
            return
        if number & 1:
            length, value, start = number // 2 * 8, None, at
            at += number // 2 * width
        else:
            length, start, size = number // 2, at, -(-width // 8)
            if at + size > len(data):
                return
            value = int.from_bytes(data[at : at + size], "little")
            at += size
        yield before, length, value, start
        before += length


def codes_at(data: NDArray[np.uint8], width: int, count: int, places: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the values at `places` of a hybrid; -1 for those that cannot be determined."""
    codes = np.full(len(places), -1, np.int64)
    remaining = iter(enumerate(places.tolist()))
    number, place = next(remaining, (0, count))
    raw = data.tobytes()
    for before, length, value, start in _runs(raw, width, count):
        while place < min(count, before + length):
            if value is not None:
                codes[number] = value
            else:
                first = (place - before) * width
                end = start + -(-(first + width) // 8)
                if end > len(raw):
                    return codes
                packed = int.from_bytes(raw[start + first // 8 : end], "little")
                codes[number] = (packed >> first % 8) & ((1 << width) - 1)
            number, place = next(remaining, (0, count))
        if place >= count:
            break
    return codes


def ranks_at(data: NDArray[np.uint8], count: int, places: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return how many levels are set before each place, or -1 if its own is not; then how many in all."""
    ranks = np.full(len(places) + 1, -1, np.int64)
    raw, num_set, reached = data.tobytes(), 0, 0
    for before, length, value, start in _runs(raw, 1, count):
        size = min(length, count - before)
        inside = range(*np.searchsorted(places, [before, before + size]).tolist())
        if value is not None:
            if value > 1:
                return ranks
            for number in inside:
                ranks[number] = num_set + int(places[number]) - before if value else -1
            num_set += size * value
        else:
            packed = int.from_bytes(raw[start : start + -(-size // 8)], "little")
            if start + -(-size // 8) > len(raw):
                return ranks
            for number in inside:
                place = int(places[number]) - before
                if packed >> place & 1:
                    ranks[number] = num_set + (packed & ((1 << place) - 1)).bit_count()
            num_set += (packed & ((1 << size) - 1)).bit_count()
        reached = before + size
    if reached < count or (len(places) and places[-1] >= count):
        return ranks
    ranks[-1] = num_set
    return ranks


def text_ends(data: NDArray[np.uint8], count: int) -> NDArray[np.int64]:
    """Return where byte arrays end; empty if they do not fill the bytes."""
    known = _ends_of_short_texts(data, count)
    if known is not None:
        return known
    raw, at, ends = data.tobytes(), 0, []
    for _ in range(count):
        if at + 4 > len(raw):
            break
        at += 4 + int.from_bytes(raw[at : at + 4], "little")
        ends.append(at)
    return np.array(ends if at == len(raw) and len(ends) == count else [], np.int64)


def _ends_of_short_texts(data: NDArray[np.uint8], count: int) -> NDArray[np.int64] | None:
    """Return where byte arrays end, if all that looks like a length below 256 is one, and leads to the next.

    Takes a tenth of the walk's time. None otherwise: texts are longer, empty or hold zeros.
    """
    if len(data) < 4 or count < 1:
        return None
    is_zero = data == 0
    starts = np.flatnonzero(is_zero[1:-2] & is_zero[2:-1] & is_zero[3:])
    if len(starts) != count or starts[0] != 0:
        return None
    ends = starts + 4 + data[starts]
    return ends if ends[-1] == len(data) and np.array_equal(ends[:-1], starts[1:]) else None
