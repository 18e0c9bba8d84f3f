"""Columns of a stripe as Arrow arrays.

Takes an open file, a stripe with its footer, and which leaves are wanted; gives one array for each column
that holds some of them, structs cut to those. The rules: only the streams of these columns are read; each
stream holds exactly what rows and lengths ask for, or `ValueError` is raised; nothing is allocated beyond
the limit, whatever the file claims.
Source: ORC specification v1, "Column Encodings".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from twostage.errors import ResourceLimitError, UnsupportedFeatureError
from twostage.formats.orc import compression, run_length
from twostage.formats.orc.decimals import read_decimals
from twostage.formats.orc.moments import read_timestamps

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence, Set as AbstractSet

    from numpy.typing import NDArray

    from twostage.formats.file_schema import FileField
    from twostage.formats.orc.tail import OrcType, Stream, Stripe, StripeFooter, Tail

    Mask = NDArray[np.bool_] | None

PRESENT, DATA, LENGTH, DICTIONARY, SECONDARY = 0, 1, 2, 3, 5
_READ = (PRESENT, DATA, LENGTH, DICTIONARY, SECONDARY)
_DICTIONARY_ENCODINGS = (1, 3)
GAP = 64 * 2**10
"""Bytes between two wanted streams that are read along, which is cheaper than a request."""
MAX_OFFSET = 2**31 - 1
DAY_MICROS = 86_400_000_000
_INTEGERS = {"short": np.int16, "int": np.int32, "long": np.int64, "date": np.int32}
_LONGS = {"time": pa.time64("us"), "micros": pa.timestamp("us")}
_TEXTS = ("string", "varchar", "char")


class StripeReader:
    """Decodes columns of one stripe.

    Args:
        file: The open file.
        tail: Its tail.
        stripe: The stripe.
        footer: The stripe's footer.
        meanings: What columns stand for where their kind does not tell: ``uuid`` (binary), ``time`` (long),
            ``micros`` (a timestamp without zone in a long, as Spark writes it), and ``instant`` (a timestamp
            that is wanted as an instant, not as the writer's local time).
        limit: Bytes that one stream or array may take.
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

    def read(self, fields: Sequence[FileField], wanted: AbstractSet[int]) -> list[pa.Array]:
        """Return one array for each field that has wanted leaves."""
        self._check_size(self._stripe.num_rows)
        pairs = [
            (child, field)
            for child, field in zip(self._tail.schema.children, fields, strict=True)
            if _holds(field, wanted)
        ]
        columns: set[int] = set()
        for kind, field in pairs:
            columns.update(_columns(kind, field, wanted))
        self._load(columns)
        alive, count = self._mask(self._tail.schema, self._stripe.num_rows, None)
        if count != self._stripe.num_rows:
            raise ValueError("rows are missing from the root column")
        return [self._decode(kind, field, wanted, self._stripe.num_rows, alive) for kind, field in pairs]

    def _load(self, columns: AbstractSet[int]) -> None:
        """Read the streams of columns, neighbours in one request."""
        needed = [
            s for s in self._footer.streams if s.kind in _READ and (s.column in columns or s.column == 0)
        ]
        needed = [stream for stream in needed if stream.length]
        start = 0
        while start < len(needed):
            end = start + 1
            while end < len(needed) and _gap(needed[end - 1], needed[end]) <= GAP:
                end += 1
            first, last = needed[start], needed[end - 1]
            length = last.offset + last.length - first.offset
            data = bytes(self._file.read_at(length, first.offset))
            if len(data) != length:
                raise ValueError("the file ends within a stripe")
            self.num_bytes += length
            for stream in needed[start:end]:
                key = stream.column, stream.kind
                if key in self._streams:
                    raise ValueError(f"column {stream.column} has two streams of kind {stream.kind}")
                at = stream.offset - first.offset
                self._streams[key] = data[at : at + stream.length]
            start = end

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

    def _mask(self, kind: OrcType, num_rows: int, alive: Mask) -> tuple[Mask, int]:
        """Return which rows hold a value (None: all), and how many do."""
        count = num_rows if alive is None else int(np.count_nonzero(alive))
        if (kind.column, PRESENT) not in self._streams:
            return alive, count
        present = run_length.booleans(self._stream(kind, PRESENT), count)
        if alive is not None:
            mask = alive.copy()
            mask[alive] = present
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
        self, kind: OrcType, field: FileField, wanted: AbstractSet[int], num_rows: int, alive: Mask
    ) -> pa.Array:
        mask, count = self._mask(kind, num_rows, alive)
        if kind.kind == "struct":
            parts, fields = [], []
            for child, inner in zip(kind.children, field.children, strict=True):
                if _holds(inner, wanted):
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
            held = _holds(inner, wanted)
            parts.append(self._decode(child, inner, wanted, total, None) if held else pa.nulls(total))
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
            array.validate(full=True)  # raises where the bytes are no UTF-8
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


def _gap(one: Stream, other: Stream) -> int:
    return other.offset - one.offset - one.length


def _holds(field: FileField, wanted: AbstractSet[int]) -> bool:
    return any(leaf in wanted for leaf in range(field.first_leaf, field.end_leaf))


def _columns(kind: OrcType, field: FileField, wanted: AbstractSet[int]) -> Iterable[int]:
    yield kind.column
    if field.children:
        for child, inner in zip(kind.children, field.children, strict=True):
            if _holds(inner, wanted):
                yield from _columns(child, inner, wanted)


def _spread(values: NDArray[Any], mask: Mask, num_rows: int) -> NDArray[Any]:
    """Put the values where rows hold one."""
    if mask is None:
        return values
    spread = np.zeros(num_rows, values.dtype)
    spread[mask] = values
    return spread


def _offsets(lengths: NDArray[np.int64], mask: Mask, num_rows: int) -> NDArray[np.int64]:
    offsets = np.zeros(num_rows + 1, np.int64)
    np.cumsum(_spread(lengths, mask, num_rows), out=offsets[1:])
    return offsets


def _bits(mask: Mask) -> pa.Buffer | None:
    return None if mask is None else pa.py_buffer(np.packbits(mask, bitorder="little"))


def _array(target: pa.DataType, values: NDArray[np.generic], mask: Mask, num_rows: int) -> pa.Array:
    spread = _spread(values, mask, num_rows)
    return pa.Array.from_buffers(target, num_rows, [_bits(mask), pa.py_buffer(np.ascontiguousarray(spread))])


def _places(mask: NDArray[np.bool_]) -> pa.Array:
    return pa.array(np.cumsum(mask) - 1, mask=~mask)
