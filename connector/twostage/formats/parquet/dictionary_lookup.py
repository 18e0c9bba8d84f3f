"""Looks values up by number in a dictionary page or a plain-encoded page.

Takes plain-encoded bytes and the numbers of some values; returns these values as bytes, and decodes no
others. The rule: a malformed page has no values here; pyarrow decodes it whole, and reports what is wrong.
Source: parquet-format, Encodings.md, "Plain" and "Dictionary Encoding".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from twostage.formats.parquet import plain_values
from twostage.formats.parquet.dictionary import plain_page
from twostage.formats.parquet.schema_tree import BYTE_ARRAY
from twostage_native.page_values import text_ends

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from twostage.formats.parquet.file_metadata import ColumnChunk
    from twostage.formats.parquet.schema_tree import Leaf

MAX_SLICES = 16
"""Up to this many values, slicing bytes one by one is faster than NumPy's indexing."""


class FixedWidthValues:
    """Values of one width in bytes."""

    def __init__(self, plain: memoryview, count: int, width: int) -> None:
        self._plain, self._count, self._width = plain, count, width

    def __len__(self) -> int:
        return self._count

    def look_up(self, codes: NDArray[np.int64]) -> list[bytes]:
        """Return the values of codes (int64), joined in any number of pieces."""
        return fixed_width_values(self._plain, self._count, self._width, codes)


class ByteArrays:
    """Byte arrays, each after its length (four bytes)."""

    def __init__(self, plain: memoryview, count: int) -> None:
        self._plain = plain
        self._ends = text_ends(np.frombuffer(plain, np.uint8), count)

    def __len__(self) -> int:
        return len(self._ends)

    def look_up(self, codes: NDArray[np.int64]) -> list[bytes]:
        """Return the values of codes (int64), one each."""
        ends = self._ends
        if len(codes) <= MAX_SLICES:
            places = codes.tolist()
            return [
                bytes(self._plain[(ends.item(code - 1) if code else 0) + 4 : ends.item(code)])
                for code in places
            ]
        starts = np.where(codes > 0, ends[codes - 1], 0) + 4
        limits = zip(starts.tolist(), ends[codes].tolist(), strict=True)
        return [bytes(self._plain[start:end]) for start, end in limits]


def read_dictionary(
    raw: memoryview, leaf: Leaf, chunk: ColumnChunk, max_texts: int | None, *, verify: bool
) -> FixedWidthValues | ByteArrays | None:
    """Return the values of a dictionary page, header included.

    None if the page is malformed, or holds more than `max_texts` byte arrays.
    """
    page = plain_page(bytes(raw), chunk.codec_name, verify_checksum=verify)
    if page is None:
        return None
    plain, count = page
    if leaf.physical == BYTE_ARRAY:
        return ByteArrays(plain, count) if max_texts is None or count <= max_texts else None
    width = plain_values.width_of(leaf)
    return FixedWidthValues(plain, count, width) if width and count * width == len(plain) else None


def fixed_width_values(plain: memoryview, count: int, width: int, places: NDArray[np.int64]) -> list[bytes]:
    """Return those of `count` values of one width that lie at `places` (int64), joined in any number of pieces."""
    if len(places) <= MAX_SLICES:
        return [bytes(plain[place * width : (place + 1) * width]) for place in places.tolist()]
    return [np.frombuffer(plain, np.uint8, count * width).reshape(count, width)[places].tobytes()]
