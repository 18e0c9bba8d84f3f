"""The binary encoding of variants: metadata, objects, arrays, and whole columns of scalars.

Takes Python bytes, or Arrow arrays of one type; returns a variant's bytes. The rule: what is read is checked
against its own length, and `ValueError` says what does not fit; what is written is an encoding that any
reader accepts.
Source: apache/parquet-format, VariantEncoding.md.
"""

from __future__ import annotations

import struct
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

NULL = b"\x00"
"""The variant null, which is a value; a missing variant is SQL's NULL."""
_PRIMITIVE, _SHORT_STRING, _OBJECT, _ARRAY = range(4)
_VERSION = 1
_SORTED = 0x10
_FIXED_SIZES = {0: 0, 1: 0, 2: 0, 3: 1, 4: 2, 5: 4, 6: 8, 7: 8, 8: 5, 9: 9, 10: 17, 11: 4, 12: 8, 13: 8, 14: 4,
                17: 8, 18: 8, 19: 8, 20: 16}  # fmt: skip
"""Bytes after the header byte, by primitive type."""
_BINARY, _STRING = 15, 16
_DECIMALS = ((9, 8, 4), (18, 9, 8), (38, 10, 16))
"""Triples: greatest precision, primitive type, bytes of the unscaled value."""
_MOMENTS = {("us", True): 12, ("us", False): 13, ("ns", True): 18, ("ns", False): 19}
_MAX_SHORT_STRING_BYTES = 63
_MAX_NARROW_COUNT = 255
"""Elements or fields, at most, whose count takes one byte."""


class Names(dict[bytes, int]):
    """A metadata's field names and their numbers; looking up an unknown name adds it.

    By the specification all names of a variant are in its metadata. Some writers leave out those of shredded fields,
    and Spark reads their files, too.
    """

    def __init__(self, raw: bytes) -> None:
        self.raw = raw
        self.listed = _read_names(raw)
        # Of equal names, which only unsorted metadata may have, the first one counts.
        super().__init__(zip(reversed(self.listed), reversed(range(len(self.listed))), strict=True))
        self.known = len(self.listed)
        """How many names were read, rather than added: a value in the file can refer only to these."""

    def __missing__(self, name: bytes) -> int:
        self[name] = number = len(self.listed)
        self.listed.append(name)
        return number

    def encode(self) -> bytes:
        """Return the metadata, as it was read if no name was added."""
        if len(self.listed) == self.known:
            return self.raw
        offsets = [0, *accumulate(map(len, self.listed))]
        size = _width(max(offsets[-1], len(self.listed)))
        head = bytes((_VERSION | (size - 1) << 6,))
        return b"".join(
            (head, len(self.listed).to_bytes(size, "little"), _numbers(offsets, size), *self.listed)
        )


def _read_names(raw: bytes) -> list[bytes]:
    if not raw or raw[0] & 0x0F != _VERSION:
        raise ValueError("its metadata is of no known version")
    size = (raw[0] >> 6) + 1
    count = int.from_bytes(raw[1 : 1 + size], "little")
    first = 1 + size + (count + 1) * size
    if first > len(raw):
        raise ValueError("its metadata is too short")
    offsets = _read_numbers(raw, 1 + size, count + 1, size)
    if first + offsets[-1] > len(raw) or any(a > b for a, b in pairwise(offsets)):
        raise ValueError("its metadata has names outside of itself")
    return [raw[first + a : first + b] for a, b in pairwise(offsets)]


def is_object(value: bytes) -> bool:
    """Tell whether a value is an object."""
    return value[:1] != b"" and value[0] & 3 == _OBJECT


def read_object(value: bytes) -> list[tuple[int, bytes]]:
    """Return an object's fields as the numbers of their names, and values, in the object's order.

    Raises:
        ValueError: The bytes are not an object, or its fields reach beyond its end or overlap: a thousand fields that
            share 20 kB would become 20 MB.
    """
    if not is_object(value):
        raise ValueError("it is shredded as an object, and its value is none")
    ids_at, count, id_size, offset_size = _object_head(value)
    offsets_at = ids_at + count * id_size
    first = offsets_at + (count + 1) * offset_size
    if first > len(value):
        raise ValueError("an object is longer than its bytes")
    ids = _read_numbers(value, ids_at, count, id_size)
    offsets = _read_numbers(value, offsets_at, count + 1, offset_size)
    fields, remaining = [], len(value) - first
    for number, offset in zip(ids, offsets, strict=False):
        start = first + offset
        end = start + _size(value, start)  # values may lie in any order
        remaining -= end - start
        if end > len(value) or remaining < 0:
            raise ValueError("an object is longer than its bytes")
        fields.append((number, value[start:end]))
    return fields


def _object_head(value: bytes, at: int = 0) -> tuple[int, int, int, int]:
    """Return where the ids of an object's names begin, their number, and the bytes of an id and of an offset."""
    head = value[at]
    width = 4 if head & 0x40 else 1
    count = int.from_bytes(value[at + 1 : at + 1 + width], "little")
    return at + 1 + width, count, (head >> 4 & 3) + 1, (head >> 2 & 3) + 1


def _size(value: bytes, at: int) -> int:
    """Return how many bytes the value at a position claims to have."""
    if at >= len(value):
        raise ValueError("a value begins behind the end of its bytes")
    head = value[at]
    basic, kind = head & 3, head >> 2
    if basic == _SHORT_STRING:
        return 1 + kind
    if basic == _PRIMITIVE:
        if kind in (_BINARY, _STRING):
            return 5 + int.from_bytes(value[at + 1 : at + 5], "little")
        if kind not in _FIXED_SIZES:
            raise ValueError(f"a value has the unknown type {kind}")
        return 1 + _FIXED_SIZES[kind]
    if basic == _OBJECT:
        ids_at, count, id_size, offset_size = _object_head(value, at)
        offsets_at = ids_at + count * id_size
    else:
        width = 4 if head & 0x10 else 1
        count = int.from_bytes(value[at + 1 : at + 1 + width], "little")
        offset_size = (head >> 2 & 3) + 1
        offsets_at = at + 1 + width
    last = offsets_at + count * offset_size
    end = last + offset_size
    return end - at + int.from_bytes(value[last:end], "little")


def encode_object(ids: Sequence[int], values: Sequence[bytes]) -> bytes:
    """Return an object of values and the numbers of their names, in the order of the names."""
    offsets = [0, *accumulate(map(len, values))]
    count = len(ids)
    id_size, offset_size = _width(max(ids, default=0)), _width(offsets[-1])
    head = _OBJECT | (offset_size - 1) << 2 | (id_size - 1) << 4 | (0x40 if count > _MAX_NARROW_COUNT else 0)
    return b"".join((_counted(head, count), _numbers(ids, id_size), _numbers(offsets, offset_size), *values))


def encode_array(offsets: Sequence[int], values: bytes) -> bytes:
    """Return an array of elements.

    Args:
        offsets: Where each element begins in `values`, and where the last one ends.
        values: The encoded elements, one after the other.
    """
    count = len(offsets) - 1
    size = _width(offsets[-1])
    head = _ARRAY | (size - 1) << 2 | (0x10 if count > _MAX_NARROW_COUNT else 0)
    return b"".join((_counted(head, count), _numbers(offsets, size), values))


def _counted(head: int, count: int) -> bytes:
    return (
        bytes((head, count)) if count <= _MAX_NARROW_COUNT else bytes((head,)) + count.to_bytes(4, "little")
    )


def _width(number: int) -> int:
    """Return how many bytes a number takes, 1 to 4."""
    return max(1, (number.bit_length() + 7) // 8)


def _numbers(numbers: Sequence[int], size: int) -> bytes:
    if size == 1:
        return bytes(numbers)
    if size == 3:
        return b"".join([number.to_bytes(3, "little") for number in numbers])
    return struct.pack(f"<{len(numbers)}{'H' if size == 2 else 'I'}", *numbers)


def _read_numbers(data: bytes, at: int, count: int, size: int) -> list[int]:
    raw = data[at : at + count * size]
    if size == 1:
        return [*raw]
    if size == 3:
        return [int.from_bytes(raw[i : i + 3], "little") for i in range(0, len(raw), 3)]
    return [*struct.unpack(f"<{count}{'H' if size == 2 else 'I'}", raw)]


def encode_scalars(array: pa.Array) -> pa.Array:
    """Return a column of scalars as variants (large_binary), NULL where they are NULL.

    Raises:
        ValueError: The type cannot be shredded, or text is not UTF-8.
    """
    kind, types = array.type, pa.types
    if types.is_boolean(kind):
        return _from_bytes(array, np.where(_filled(array), 1 << 2, 2 << 2).astype(np.uint8)[:, None])
    if types.is_signed_integer(kind):
        return _fixed(array, {1: 3, 2: 4, 4: 5, 8: 6}[kind.bit_width // 8], _filled(array))
    if types.is_float32(kind) or types.is_float64(kind):
        return _fixed(array, 14 if types.is_float32(kind) else 7, _filled(array))
    if types.is_date32(kind):
        return _fixed(array, 11, _filled(array.view(pa.int32())))
    if types.is_timestamp(kind) and kind.unit in ("us", "ns"):
        return _fixed(array, _MOMENTS[kind.unit, kind.tz is not None], _filled(array.view(pa.int64())))
    if types.is_time64(kind) and kind.unit == "us":
        return _fixed(array, 17, _filled(array.view(pa.int64())))
    if types.is_decimal128(kind):
        return _decimals(array)
    if types.is_fixed_size_binary(kind) and kind.byte_width == 16:
        return _fixed(array, 20, _raw(array, 16))
    if types.is_string(kind) or types.is_large_string(kind):
        return _texts(array, _STRING)
    if types.is_binary(kind) or types.is_large_binary(kind):
        return _texts(array, _BINARY)
    raise ValueError(f"it is shredded as {kind}, which is no type for that")


def _filled(array: pa.Array) -> NDArray[np.generic]:
    """Return the values; those of NULLs are arbitrary."""
    if array.null_count:
        array = array.fill_null(pa.scalar(0).cast(array.type))
    values: NDArray[np.generic] = array.to_numpy(zero_copy_only=False)
    return values


def _raw(array: pa.Array, width: int) -> NDArray[np.uint8]:
    """Return the values of a type of fixed width in bytes: shape (rows, width)."""
    data = array.buffers()[1]
    if data is None:
        return np.zeros((len(array), width), np.uint8)
    whole = np.frombuffer(data, np.uint8, (array.offset + len(array)) * width)
    return whole[array.offset * width :].reshape(len(array), width)


def _fixed(array: pa.Array, kind: int, values: NDArray[np.generic]) -> pa.Array:
    count = len(array)
    tail = (
        np.ascontiguousarray(values).view(np.uint8).reshape(count, -1)
        if count
        else np.zeros((0, 1), np.uint8)
    )
    encoded = np.empty((count, 1 + tail.shape[1]), np.uint8)
    encoded[:, 0] = kind << 2
    encoded[:, 1:] = tail
    return _from_bytes(array, encoded)


def _from_bytes(array: pa.Array, rows: NDArray[np.uint8]) -> pa.Array:
    """Return rows of bytes, shape (rows, width), as large_binary that is NULL where `array` is."""
    count, width = rows.shape
    offsets = np.arange(0, width * count + 1, width, dtype=np.int64)
    validity = array.is_valid().buffers()[1] if array.null_count else None
    buffers = [validity, pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(rows))]
    return pa.Array.from_buffers(pa.large_binary(), count, buffers, array.null_count)


def _decimals(array: pa.Array) -> pa.Array:
    raw = _raw(array, 16)
    low, high = raw[:, :8].copy().view(np.int64).ravel(), raw[:, 8:].copy().view(np.int64).ravel()
    valid = array.is_valid().to_numpy(zero_copy_only=False)
    low, high = low[valid], high[valid]
    fits = {16: True, 8: bool((high == low >> 63).all())}
    fits[4] = fits[8] and bool((low == low.astype(np.int32)).all())
    digits = array.type.precision
    # A value may have more digits than its type.
    kind, width = next(
        (kind, width) for precision, kind, width in _DECIMALS if digits <= precision and fits[width]
    )
    scale = np.full((len(array), 1), array.type.scale, np.uint8)
    return _fixed(array, kind, np.concatenate([scale, raw[:, :width]], axis=1))


def _texts(array: pa.Array, kind: int) -> pa.Array:
    if kind == _STRING:
        try:
            array.validate(full=True)
        except pa.ArrowInvalid:
            raise ValueError("it holds text that is no UTF-8") from None
    data = array.cast(pa.large_binary())
    sizes = _filled(pc.binary_length(array).cast(pa.uint32()))
    heads = _fixed(array, kind, sizes)
    if kind == _STRING:
        short = _from_bytes(array, (sizes << 2 | _SHORT_STRING).astype(np.uint8)[:, None])  # type: ignore[operator]
        heads = pc.if_else(pa.array(sizes <= _MAX_SHORT_STRING_BYTES), short, heads)  # type: ignore[operator]
    return pc.binary_join_element_wise(heads, data, pa.scalar(b"", pa.large_binary()))
