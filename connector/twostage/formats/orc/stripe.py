"""Columns of an ORC stripe as Arrow arrays.

Takes an open file, a stripe with its footer, and the wanted leaves; returns one array for each column that
holds some of them, structs cut to those. The rules: only the streams of these columns are read; each stream
holds exactly the values that rows and lengths call for, or `ValueError` is raised; nothing is allocated
beyond the limit, whatever the file claims.
Source: ORC specification v1, "Column Encodings".

A *mask* tells which rows hold a value: bool, one for each row, None if all do. `count` is how many do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from twostage.errors import ResourceLimitError, UnsupportedFeatureError
from twostage.formats.orc import compression, run_length
from twostage.formats.orc.decimals import read_decimals
from twostage.formats.orc.streams import DATA, DICTIONARY, LENGTH, PRESENT, SECONDARY, places_of, read_streams
from twostage.formats.orc.timestamps import read_timestamps

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence, Set as AbstractSet

    from numpy.typing import NDArray

    from twostage.formats.file_schema import FileField
    from twostage.formats.orc.tail import OrcType, Stripe, StripeFooter, Tail

    Mask = NDArray[np.bool_] | None

_DICTIONARY_ENCODINGS = (1, 3)
MAX_OFFSET = 2**31 - 1
"""The reach of the 32-bit offsets of lists and text."""
DAY_MICROS = 86_400_000_000
_INTEGERS = {"short": np.int16, "int": np.int32, "long": np.int64, "date": np.int32}
_LONGS = {"time": pa.time64("us"), "micros": pa.timestamp("us")}
_TEXTS = ("string", "varchar", "char")


class StripeReader:
    """Decodes columns of one stripe, once.

    Args:
        file: The open file.
        tail: Its tail.
        stripe: The stripe.
        footer: The stripe's footer.
        meanings: By column number, what the column's ORC type does not tell: ``uuid`` (a binary), ``time`` (a long),
            ``micros`` (a timestamp without zone in a long, as Spark writes it), and ``instant`` (a timestamp that is
            wanted as an instant, not as the writer's local time).
        limit: Bytes that one stream or one array may take.
    """

    def __init__(
        self,
        file: pa.NativeFile,
        tail: Tail,
        stripe: Stripe,
        footer: StripeFooter,
        *,
        meanings: Mapping[int, str],
        limit: int,
    ) -> None:
        self._file = file
        self._tail = tail
        self._stripe = stripe
        self._footer = footer
        self._meanings = meanings
        self._limit = limit
        self._streams: dict[tuple[int, int], bytes] = {}
        self.num_bytes = 0
        """Read by `read`."""

    def read(self, fields: Sequence[FileField], wanted: AbstractSet[int]) -> list[pa.Array]:
        """Return one array for each field that has wanted leaves, of the stripe's number of rows.

        Raises:
            ValueError: A stream is damaged, or its values contradict the rows.
            ResourceLimitError: A stream or an array takes more than the limit.
            UnsupportedFeatureError: A column's type or time zone cannot be read.
        """
        self._check_size(self._stripe.num_rows)
        pairs = self._pairs(fields, wanted)
        self._streams, self.num_bytes = read_streams(self._file, self._footer, _all_columns(pairs, wanted))
        live, count = self._mask(self._tail.schema, self._stripe.num_rows, None)
        if count != self._stripe.num_rows:
            raise ValueError("rows are missing from the root column")
        return [self._decode(kind, field, wanted, self._stripe.num_rows, live) for kind, field in pairs]

    def places(self, fields: Sequence[FileField], wanted: AbstractSet[int]) -> list[tuple[int, int]]:
        """Return the places (offset, length) of the file that `read` reads."""
        return places_of(self._footer, _all_columns(self._pairs(fields, wanted), wanted))

    def _pairs(
        self, fields: Sequence[FileField], wanted: AbstractSet[int]
    ) -> list[tuple[OrcType, FileField]]:
        pairs = zip(self._tail.schema.children, fields, strict=True)
        return [(child, field) for child, field in pairs if field.has_any(wanted)]

    def _stream(self, kind: OrcType, stream: int) -> bytes:
        packed = self._streams.get((kind.column, stream), b"")
        return compression.unpack(packed, self._tail.codec, self._tail.block_size, self._limit)

    def _check_size(self, count: int) -> None:
        if count * 8 > self._limit:
            raise ResourceLimitError(
                "STRIPE_TOO_LARGE",
                f"A column of an ORC stripe takes more than the task's budget of {self._limit} bytes, "
                f"values: {count}",
                stage="fetch",
                hint="Raise the option 'task-memory'.",
            )

    def _mask(self, kind: OrcType, num_rows: int, live: Mask) -> tuple[Mask, int]:
        """Return the mask of a column below `live`, the mask of its parent, and how many rows hold a value."""
        count = num_rows if live is None else int(np.count_nonzero(live))
        if (kind.column, PRESENT) not in self._streams:
            return live, count
        present = run_length.booleans(self._stream(kind, PRESENT), count)
        if live is not None:
            mask = live.copy()
            mask[live] = present
            present = mask
        count = int(np.count_nonzero(present))
        return (None if count == num_rows else present), count

    def _integers(self, kind: OrcType, stream: int, count: int, *, signed: bool) -> NDArray[np.int64]:
        version = 1 if self._footer.encodings[kind.column][0] in (0, 1) else 2
        return run_length.integers(self._stream(kind, stream), count, signed=signed, version=version)

    def _lengths(self, kind: OrcType, count: int) -> NDArray[np.int64]:
        lengths = self._integers(kind, LENGTH, count, signed=False)
        if count and (int(lengths.min()) < 0 or int(lengths.max()) > self._limit):
            raise ValueError(f"column {kind.column} holds a negative or huge length")
        return lengths

    def _decode(
        self, kind: OrcType, field: FileField, wanted: AbstractSet[int], num_rows: int, live: Mask
    ) -> pa.Array:
        mask, count = self._mask(kind, num_rows, live)
        if kind.kind == "struct":
            parts, fields = [], []
            for child, inner in zip(kind.children, field.children, strict=True):
                if inner.has_any(wanted):
                    parts.append(self._decode(child, inner, wanted, num_rows, mask))
                    fields.append(pa.field(inner.name, parts[-1].type))
            buffers = [_bits(mask)]
            return pa.Array.from_buffers(
                pa.struct(fields), num_rows, buffers, null_count=num_rows - count, children=parts
            )
        if kind.kind in ("list", "map"):
            return self._nested(kind, field, wanted, num_rows, mask, count)
        if kind.kind in _TEXTS or kind.kind == "binary":
            array = self._texts(kind, mask, count, num_rows)
            if (
                kind.kind == "char"
            ):  # stored padded to its length; to Iceberg the spaces are not part of the text
                return pc.utf8_rtrim(array, characters=" ")
            return array.cast(pa.binary(16)) if self._meanings.get(kind.column) == "uuid" else array
        return self._fixed(kind, field, mask, count, num_rows)

    def _nested(
        self,
        kind: OrcType,
        field: FileField,
        wanted: AbstractSet[int],
        num_rows: int,
        mask: Mask,
        count: int,
    ) -> pa.Array:
        offsets = _offsets(self._lengths(kind, count), mask, num_rows)
        total = int(offsets[-1])
        self._check_size(total)
        if total > MAX_OFFSET:
            raise ValueError(f"column {kind.column} holds {total} elements")
        parts = []
        for child, inner in zip(kind.children, field.children, strict=True):
            is_wanted = inner.has_any(wanted)
            parts.append(self._decode(child, inner, wanted, total, None) if is_wanted else pa.nulls(total))
        target: pa.DataType
        if kind.kind == "map":
            if parts[0].null_count:
                raise ValueError(f"column {kind.column} has a NULL key")
            target = pa.map_(parts[0].type, parts[1].type)
            entries = pa.struct([target.key_field, target.item_field])
            parts = [pa.Array.from_buffers(entries, total, [None], null_count=0, children=parts)]
        else:
            target = pa.list_(parts[0].type)
        buffers = [_bits(mask), pa.py_buffer(offsets.astype(np.int32))]
        return pa.Array.from_buffers(target, num_rows, buffers, null_count=num_rows - count, children=parts)

    def _texts(self, kind: OrcType, mask: Mask, count: int, num_rows: int) -> pa.Array:
        encoding, size = self._footer.encodings[kind.column]
        if encoding in _DICTIONARY_ENCODINGS:
            self._check_size(size)
            entries = self._lengths(kind, size)
            words = self._text_array(kind, entries, self._stream(kind, DICTIONARY), None, size)
            indices = self._integers(kind, DATA, count, signed=False)
            if count and (int(indices.min()) < 0 or int(indices.max()) >= size):
                raise ValueError(f"column {kind.column} refers to a word outside its dictionary")
            total = int(entries[indices].sum())
            self._check_size(total // 8)
            if total > MAX_OFFSET:
                words = words.cast(pa.large_binary() if kind.kind == "binary" else pa.large_string())
            places = pa.array(_spread(indices, mask, num_rows), mask=None if mask is None else ~mask)
            return words.take(places)
        return self._text_array(kind, self._lengths(kind, count), self._stream(kind, DATA), mask, num_rows)

    def _text_array(
        self, kind: OrcType, lengths: NDArray[np.int64], data: bytes, mask: Mask, num_rows: int
    ) -> pa.Array:
        offsets = _offsets(lengths, mask, num_rows)
        if int(offsets[-1]) != len(data):
            raise ValueError(f"column {kind.column} has {len(data)} bytes of text, its lengths {offsets[-1]}")
        text = kind.kind in _TEXTS
        if len(data) > MAX_OFFSET:
            target = pa.large_string() if text else pa.large_binary()
            ends = pa.py_buffer(offsets)
        else:
            target = pa.string() if text else pa.binary()
            ends = pa.py_buffer(offsets.astype(np.int32))
        buffers = [_bits(mask), ends, pa.py_buffer(data)]
        array = pa.Array.from_buffers(target, num_rows, buffers)
        if text:
            array.validate(full=True)  # raises if the bytes are not UTF-8
        return array

    def _fixed(self, kind: OrcType, field: FileField, mask: Mask, count: int, num_rows: int) -> pa.Array:
        match kind.kind:
            case "boolean":
                bits = _spread(run_length.booleans(self._stream(kind, DATA), count), mask, num_rows)
                return pa.array(bits, pa.bool_(), mask=None if mask is None else ~mask)
            case "byte":
                small = run_length.byte_values(self._stream(kind, DATA), count).view(np.int8)
                return _array(pa.int8(), small, mask, num_rows)
            case "short" | "int" | "long" | "date":
                wide = self._integers(kind, DATA, count, signed=True)
                values = wide.astype(_INTEGERS[kind.kind])
                if kind.kind != "long" and not np.array_equal(values, wide):
                    raise ValueError(f"column {field.name!r} holds a number too large for its type")
                target = pa.date32() if kind.kind == "date" else pa.from_numpy_dtype(values.dtype)
                if kind.kind == "long":
                    target = _LONGS.get(self._meanings.get(kind.column, ""), target)
                if pa.types.is_time(target) and count and not 0 <= wide.min() <= wide.max() < DAY_MICROS:
                    raise ValueError(f"column {field.name!r} holds a time outside of the day")
                return _array(target, values, mask, num_rows)
            case "float" | "double":
                target, layout = (pa.float32(), "<f4") if kind.kind == "float" else (pa.float64(), "<f8")
                data = self._stream(kind, DATA)
                if len(data) != count * target.bit_width // 8:
                    raise ValueError(f"column {field.name!r} has {len(data)} bytes for {count} numbers")
                return _array(target, np.frombuffer(data, layout), mask, num_rows)
            case "decimal":
                if not 0 < kind.precision <= 38 or kind.scale > kind.precision:
                    raise UnsupportedFeatureError(
                        "UNSUPPORTED_ORC_TYPE",
                        f"Column {field.name!r} is a decimal without a precision",
                        stage="fetch",
                    )
                scales = self._integers(kind, SECONDARY, count, signed=True)
                packed = read_decimals(self._stream(kind, DATA), scales, kind.precision, kind.scale)
                return packed if mask is None else packed.take(_places(mask))
            case "timestamp" | "timestamp_instant":
                local = self._meanings.get(kind.column) != "instant"
                values, unit = read_timestamps(
                    self._integers(kind, DATA, count, signed=True),
                    self._integers(kind, SECONDARY, count, signed=False),
                    zone="UTC" if kind.kind == "timestamp_instant" else self._footer.time_zone,
                    local=local,
                    name=field.name,
                )
                zone = None if kind.kind == "timestamp" and local else "UTC"
                return _array(pa.timestamp(unit, zone), values, mask, num_rows)
        raise UnsupportedFeatureError(
            "UNSUPPORTED_ORC_TYPE",
            f"Column {field.name!r} has a type that is not read: {kind.kind}",
            stage="fetch",
        )


def _all_columns(pairs: Iterable[tuple[OrcType, FileField]], wanted: AbstractSet[int]) -> set[int]:
    return {column for kind, field in pairs for column in _columns(kind, field, wanted)}


def _columns(kind: OrcType, field: FileField, wanted: AbstractSet[int]) -> Iterable[int]:
    yield kind.column
    if field.children:
        for child, inner in zip(kind.children, field.children, strict=True):
            if inner.has_any(wanted):
                yield from _columns(child, inner, wanted)


def _spread(values: NDArray[Any], mask: Mask, num_rows: int) -> NDArray[Any]:
    """Return an array of `num_rows` with the values where rows hold one, and zeros elsewhere."""
    if mask is None:
        return values
    spread = np.zeros(num_rows, values.dtype)
    spread[mask] = values
    return spread


def _offsets(lengths: NDArray[np.int64], mask: Mask, num_rows: int) -> NDArray[np.int64]:
    """Return Arrow offsets (``num_rows + 1``) of values with these lengths; NULLs take no space."""
    offsets = np.zeros(num_rows + 1, np.int64)
    np.cumsum(_spread(lengths, mask, num_rows), out=offsets[1:])
    return offsets


def _bits(mask: Mask) -> pa.Buffer | None:
    return None if mask is None else pa.py_buffer(np.packbits(mask, bitorder="little"))


def _array(target: pa.DataType, values: NDArray[np.generic], mask: Mask, num_rows: int) -> pa.Array:
    spread = _spread(values, mask, num_rows)
    return pa.Array.from_buffers(target, num_rows, [_bits(mask), pa.py_buffer(np.ascontiguousarray(spread))])


def _places(mask: NDArray[np.bool_]) -> pa.Array:
    """Return for each row the position of its value among those present, NULL where it has none."""
    return pa.array(np.cumsum(mask) - 1, mask=~mask)
