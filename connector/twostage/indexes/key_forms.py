"""Sortable numbers for a column's values, numbers and text alike, and their quantiles.

Takes the values of a column in chunks; gives their mapping to int64 keys in Spark's order (`KeyForm`), and quantiles of these.
The rule: of two values the greater one never has the lesser key; where keys of text are equal, only the text decides.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow.compute as pc

from twostage.indexes.keys import distinct, key_class, order_keys
from twostage.indexes.kind import non_null
from twostage.predicates.lanes import Text, read_lane

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

    from twostage.indexes.kind import ColumnValues
    from twostage.indexes.wanted import Interval

    Longs = NDArray[np.int64]

_SAMPLED = 1 << 18
"""Values that quantiles are drawn from: the rows of 256 quantiles, a few thousand each, then differ by a tenth."""
MAX_PREFIX = 2**12
"""Bytes of the texts' common prefix that keys leave out."""
_WORD = 8


@dataclass(frozen=True, slots=True)
class KeyForm:
    """How text becomes numbers: the eight bytes after `prefix`, which all values begin with; None for numbers."""

    prefix: bytes | None

    def keys(self, array: pa.Array) -> Longs | None:
        """Return sortable int64 keys; None where there are none."""
        if self.prefix is None:
            return order_keys(array)
        lane = read_lane(array)
        assert isinstance(lane, Text)
        skip = len(self.prefix)
        offsets = lane.offsets.astype(np.int64)
        first, last = int(offsets[0]), int(offsets[-1])  # the array may be a slice of a much longer one
        padded = np.concatenate([lane.data[first:last], np.zeros(skip + _WORD, np.uint8)])
        starts, ends = offsets[:-1] - first + skip, offsets[1:] - first
        # A word at each byte: 14 to 17 ns a text, where gathering byte by byte takes 60 to 80.
        words = np.ndarray((len(padded) - _WORD + 1,), ">u8", padded, strides=(1,))[starts].astype(np.uint64)
        left = np.clip(ends - starts, 0, _WORD)
        unused = (8 * (_WORD - left)).astype(np.uint64)
        return _signed(np.where(left == 0, np.uint64(0), words >> unused << unused))

    def limits(self, interval: Interval) -> tuple[int, int, bool]:
        """Return the least and the greatest key of an interval's values, and whether all values with keys from one to the other are in it.

        Not so for text: a value with the first or last key may lie outside.
        """
        if self.prefix is None:
            assert isinstance(interval.low, int)
            assert isinstance(interval.high, int)
            return interval.low, interval.high, True
        low, high = self._key(interval.low), self._key(interval.high)
        return low, high, False

    def _key(self, text: int | bytes | None) -> int:
        """Return a key k such that values less than `text` have keys up to k, and others keys from k on."""
        assert self.prefix is not None
        if text is None:
            return 2**63 - 1
        assert isinstance(text, bytes)
        skip = len(self.prefix)
        head = text[:skip]
        if head != self.prefix[: len(head)] or len(head) < skip:
            return -(2**63) if head <= self.prefix else 2**63 - 1
        return int.from_bytes(text[skip : skip + _WORD].ljust(_WORD, b"\0"), "big") - 2**63


def _signed(words: NDArray[np.uint64]) -> Longs:
    return (words ^ np.uint64(1 << 63)).view(np.int64)


def form_of(values: ColumnValues) -> KeyForm:
    """Return how values become keys."""
    if key_class(values.type) != "text":
        return KeyForm(None)
    prefix: bytes | None = None
    for _, array in non_null(values.chunks()):
        for scalar in pc.min_max(array).values():  # their common prefix is that of all
            text = scalar.as_buffer().to_pybytes()
            prefix = text if prefix is None else _shared(prefix, text)
        if not prefix:
            break
    return KeyForm((prefix or b"")[:MAX_PREFIX])


def _shared(left: bytes, right: bytes) -> bytes:
    for place, (a, b) in enumerate(zip(left, right, strict=False)):
        if a != b:
            return left[:place]
    return left[: min(len(left), len(right))]


def sample_keys(values: ColumnValues, form: KeyForm) -> Longs | None:
    """Return keys of evenly spaced rows, sorted; None where some value has no key."""
    step = max(1, values.num_rows // _SAMPLED)
    drawn = []
    for _, array in non_null(values.chunks()):
        keys = form.keys(array)
        if keys is None:
            return None
        drawn.append(keys[::step])
    return np.sort(np.concatenate(drawn)) if drawn else np.zeros(0, np.int64)


def quantiles(sample: Longs, bins: int) -> Longs:
    """Return the greatest keys of all bins but the last, ascending; where there are few values, each has its own bin."""
    values = distinct(sample)
    if len(values) <= bins:
        return values[:-1]
    places = np.arange(1, bins) * len(sample) // bins
    return distinct(sample[places])[: bins - 1]
