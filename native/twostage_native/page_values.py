"""Single values out of Parquet's hybrid of runs and packed bits, without decoding those before them.

Takes the bytes (uint8) of definition levels or of dictionary codes, and ascending places (int64); returns the
values there (int64). A hybrid is a list of runs: an even number n, then one value that is repeated n / 2
times, in whole bytes; or an odd number n, then n // 2 groups of eight values, packed from the lowest bit up.
The rule: no step reads beyond the bytes, whatever they are.
Source: parquet-format, Encodings.md, "Run Length Encoding / Bit-Packing Hybrid".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from twostage_native import page_values_reference as reference
from twostage_native._jit import inner, kernel

if TYPE_CHECKING:
    from numpy.typing import NDArray


@inner
def _run(data: Any, at: Any, width: Any) -> Any:
    """Return a run: the place of its first value, how many values, whether packed, where the next run begins.

    A count of -1 if it exceeds the bytes or is empty.
    """
    end = np.int64(len(data))
    number = np.int64(0)
    shift = np.int64(0)
    while True:
        if at >= end or shift > 28:
            return at, np.int64(-1), False, at
        byte = np.int64(data[at])
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
        shift += 7
    count = number >> 1
    if count == 0:
        return at, np.int64(-1), False, at
    if number & 1:
        size = count * width
        # The last run may be cut off after the last value; what is read of it is checked value by value.
        return at, count * 8, True, at + size
    size = (width + 7) // 8
    if size > end - at:
        return at, np.int64(-1), False, at
    return at, count, False, at + size


@inner
def _bits(data: Any, at: Any, place: Any, width: Any) -> Any:
    """Return the packed value at a place of a run; -1 if it exceeds the bytes."""
    first = place * width
    byte = at + (first >> 3)
    last = at + ((first + width - 1) >> 3) if width > 0 else byte - 1
    if last >= len(data):
        return np.int64(-1)
    value = np.int64(0)
    shift = np.int64(0)
    while byte <= last:
        value |= np.int64(data[byte]) << shift
        byte += 1
        shift += 8
    return (value >> (first & 7)) & ((np.int64(1) << width) - 1)


@kernel(reference.codes_at)
def codes_at(data: NDArray[np.uint8], width: int, count: int, places: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the values at `places` (ascending) of a hybrid of `count` values of `width` bits, 32 at most.

    -1 stands for values that cannot be determined, because runs end, or exceed the bytes, before them.
    """
    codes = np.full(len(places), -1, np.int64)
    at = np.int64(0)
    before = np.int64(0)
    done = 0
    while done < len(places) and places[done] < count:
        first, length, is_packed, at = _run(data, at, width)
        if length < 0:
            break
        while done < len(places) and places[done] < count and places[done] < before + length:
            if is_packed:
                codes[done] = _bits(data, first, places[done] - before, width)
                if codes[done] < 0:
                    return codes
            else:
                value = np.int64(0)
                for byte in range((width + 7) // 8):
                    value |= np.int64(data[first + byte]) << np.int64(8 * byte)
                codes[done] = value
            done += 1
        before += length
    return codes


@kernel(reference.ranks_at)
def ranks_at(data: NDArray[np.uint8], count: int, places: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return how many of `count` one-bit levels are set before each place (ascending), -1 if its own is not.

    One more number follows: how many are set in all; -1 if the levels are malformed.
    """
    ranks = np.full(len(places) + 1, -1, np.int64)
    at = np.int64(0)
    before = np.int64(0)
    num_set = np.int64(0)
    done = 0
    while before < count:
        first, length, is_packed, at = _run(data, at, 1)
        if length < 0:
            return ranks
        length = min(length, count - before)
        if is_packed:
            if first + ((length + 7) >> 3) > len(data):
                return ranks
            for place in range(length):
                is_set = (data[first + (place >> 3)] >> (place & 7)) & 1
                if done < len(places) and places[done] == before + place:
                    if is_set:
                        ranks[done] = num_set
                    done += 1
                num_set += is_set
        else:
            if data[first] > 1:
                return ranks
            is_set = data[first]
            while done < len(places) and places[done] < before + length:
                if is_set:
                    ranks[done] = num_set + places[done] - before
                done += 1
            if is_set:
                num_set += length
        before += length
    if done < len(places):
        return ranks
    ranks[len(places)] = num_set
    return ranks


@kernel(reference.text_ends)
def text_ends(data: NDArray[np.uint8], count: int) -> NDArray[np.int64]:
    """Return where each of `count` plain-encoded byte arrays ends; each follows four bytes with its length.

    Empty if they do not fill the bytes exactly.
    """
    ends = np.empty(count, np.int64)
    at = np.int64(0)
    for number in range(count):
        if at + 4 > len(data):
            return ends[:0]
        length = np.int64(data[at]) | np.int64(data[at + 1]) << 8 | np.int64(data[at + 2]) << 16
        length |= np.int64(data[at + 3]) << 24
        at += 4 + length
        ends[number] = at
    return ends if at == len(data) else ends[:0]
