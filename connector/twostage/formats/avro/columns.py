"""Columns of Avro files as Arrow arrays: the only place where Avro records become arrays.

Takes a container's blocks and the wanted leaves; returns one array for each field that has some,
structs cut to these. Data files (`data_files.avro_file`) and delete files (`deletes.files.avro`) are
both read here. Records pass through Python dictionaries, some 1 kB each for ten columns, so callers bound the
rows that are decoded at once. The rule: no value passes through Python's date, datetime or Decimal, which
cannot hold everything that Avro can.
Source: Apache Avro 1.11 specification; Iceberg table spec, appendix A, "Avro".
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from twostage.errors import UnsupportedFeatureError
from twostage.formats.avro.container import read_records
from twostage.formats.avro.schema import children_to_read, read_schema

if TYPE_CHECKING:
    from collections.abc import Sequence, Set as AbstractSet

    from numpy.typing import NDArray

    from twostage.formats.avro.container import AvroFile
    from twostage.formats.avro.schema import AvroType
    from twostage.formats.file_schema import FileField

_STORED = {
    "null": pa.null(),
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "enum": pa.string(),
    "bytes": pa.binary(),
}
_LOGICAL: dict[tuple[str, str | None], pa.DataType] = {
    ("int", "date"): pa.date32(),
    ("int", "time-millis"): pa.time32("ms"),
    ("long", "time-micros"): pa.time64("us"),
    ("long", "timestamp-millis"): pa.timestamp("ms"),
    ("long", "timestamp-micros"): pa.timestamp("us"),
    ("long", "timestamp-nanos"): pa.timestamp("ns"),
    ("long", "local-timestamp-millis"): pa.timestamp("ms"),
    ("long", "local-timestamp-micros"): pa.timestamp("us"),
    ("long", "local-timestamp-nanos"): pa.timestamp("ns"),
}
_DECIMAL_BYTES = 16
"""Of a decimal128."""


@dataclass(slots=True)
class AvroColumns:
    """Decodes columns of one file.

    Attributes:
        root: The file's schema.
        fields: Its fields with their ids, from `file_schema.identify`.
    """

    root: AvroType
    fields: Sequence[FileField]
    _whole: dict[str, Any] = field(init=False)
    """The schema that reads all fields: what a projection is resolved against."""

    def __post_init__(self) -> None:
        self._whole = read_schema(self.root, self.fields)

    def decode(self, file: AvroFile, wanted: AbstractSet[int], *, limit: int) -> list[pa.Array]:
        """Return one array for each field that has wanted leaves: the records of all blocks of `file`, in order.

        Without wanted leaves the records are decoded nevertheless: a block must hold what it announces.

        Args:
            file: The container, with the blocks to decode.
            wanted: Leaves, by their numbers in `fields`.
            limit: Bytes that the blocks may decompress to.

        Raises:
            CorruptFileError: A block does not hold exactly the records that it announces.
            ResourceLimitError: The blocks decompress to more than the limit.
            UnsupportedFeatureError: A union of several types, or a type that Iceberg does not have.
            ValueError: A value does not fit its type (also as `pa.ArrowException`).
        """
        projection = read_schema(self.root, self.fields, wanted) if wanted else None
        records = read_records(file, self._whole, projection, limit=limit)
        arrays = []
        for place, column in enumerate(self.fields):
            if column.has_any(wanted):
                kind = self.root.children[place]
                key = f"f{place}"
                stored = pa.array([record[key] for record in records], _stored_type(kind, column, wanted))
                if isinstance(stored, pa.ChunkedArray):
                    raise ValueError(f"column {column.name!r} holds more than 2 GiB in one run of blocks")
                arrays.append(_with_logical_types(stored, kind, column, wanted))
        return arrays


def _stored_type(kind: AvroType, field: FileField, wanted: AbstractSet[int]) -> pa.DataType:
    """Return the Arrow type of the values as fastavro returns them: maps are lists of pairs, a date is its days."""
    if kind.kind in ("record", "map"):
        kept = children_to_read(kind, field, wanted)
        parts = [pa.field(f"f{p}", _stored_type(kind.children[p], field.children[p], wanted)) for p in kept]
        return pa.list_(pa.struct(parts)) if kind.kind == "map" else pa.struct(parts)
    if kind.kind == "array":
        return pa.list_(_stored_type(kind.children[0], field.children[0], wanted))
    if kind.kind == "fixed":
        return pa.binary(kind.size)
    if kind.kind == "union":
        raise UnsupportedFeatureError(
            "UNSUPPORTED_AVRO_TYPE", f"Column {field.name!r} is a union of several types", stage="fetch"
        )
    return _STORED[kind.kind]


def _with_logical_types(
    array: pa.Array, kind: AvroType, field: FileField, wanted: AbstractSet[int]
) -> pa.Array:
    """Give an array its logical type, at every depth."""
    if kind.kind == "record":
        parts = [
            _with_logical_types(array.field(position), kind.children[place], field.children[place], wanted)
            for position, place in enumerate(children_to_read(kind, field, wanted))
        ]
        target = pa.struct([pa.field(f"f{i}", part.type) for i, part in enumerate(parts)])
        return pa.Array.from_buffers(
            target, len(array), array.buffers()[:1], array.null_count, children=parts
        )
    if kind.kind == "array":
        values = _with_logical_types(array.values, kind.children[0], field.children[0], wanted)
        return _nested(array, pa.list_(values.type), values)
    if kind.kind == "map":
        pairs = array.values
        kept = children_to_read(kind, field, wanted)
        parts = [
            _with_logical_types(
                pairs.field(kept.index(place)), kind.children[place], field.children[place], wanted
            )
            if place in kept
            else pa.nulls(len(pairs))
            for place in (0, 1)
        ]
        if kept[:1] == [0] and parts[0].null_count:
            raise ValueError(f"column {field.name!r} has a NULL key")
        target = pa.map_(parts[0].type, parts[1].type)
        entries = pa.StructArray.from_arrays(parts, fields=[target.key_field, target.item_field])
        return _nested(array, target, entries)
    if kind.logical == "decimal":
        return _decimals(array, kind, field)
    if (kind.kind, kind.logical) in _LOGICAL:
        made = array.view(_LOGICAL[kind.kind, kind.logical])
        if pa.types.is_time(made.type):
            made.validate(full=True)  # raises if a time lies outside the day
        return made
    return array


def _nested(array: pa.Array, target: pa.DataType, values: pa.Array) -> pa.Array:
    buffers = array.buffers()[:2]
    return pa.Array.from_buffers(target, len(array), buffers, array.null_count, children=[values])


def _decimals(array: pa.Array, kind: AvroType, field: FileField) -> pa.Array:
    """Return decimals of unscaled values in big-endian two's complement, of any length.

    Raises:
        UnsupportedFeatureError: A precision or scale that decimal128 does not have.
        ValueError: A value of more digits than the precision.
    """
    if not 0 < kind.precision <= 38 or not 0 <= kind.scale <= kind.precision:
        raise UnsupportedFeatureError(
            "UNSUPPORTED_AVRO_TYPE",
            f"Column {field.name!r} is decimal({kind.precision},{kind.scale})",
            stage="fetch",
        )
    if kind.kind == "fixed":
        lengths = np.full(len(array), kind.size, np.int64)
        starts = np.arange(len(array), dtype=np.int64) * kind.size
        content = array.buffers()[1]
    else:
        offsets = np.frombuffer(array.buffers()[1] or bytes(4), np.int32)[: len(array) + 1].astype(np.int64)
        starts, lengths = offsets[:-1], np.diff(offsets)
        content = array.buffers()[2]
    raw = np.frombuffer(content, np.uint8) if content is not None else np.zeros(0, np.uint8)
    valid = np.ones(len(array), np.bool_)
    if array.null_count:
        valid = array.is_valid().to_numpy(zero_copy_only=False)
    words = np.zeros((len(array), _DECIMAL_BYTES), np.uint8)
    for length in np.unique(lengths[valid]).tolist():
        rows = np.flatnonzero(valid & (lengths == length))
        words[rows] = _little_endian(raw, starts[rows], length, field)
    decimals = pa.Array.from_buffers(
        pa.decimal128(38, kind.scale), len(array), [array.buffers()[0], pa.py_buffer(words)], array.null_count
    )
    return decimals.cast(pa.decimal128(kind.precision, kind.scale))  # raises if there are more digits


def _little_endian(
    raw: NDArray[np.uint8], starts: NDArray[np.int64], length: int, field: FileField
) -> NDArray[np.uint8]:
    """Return the big-endian numbers of one length that begin at `starts`: shape (numbers, 16), little-endian."""
    if length == 0:
        return np.zeros((len(starts), _DECIMAL_BYTES), np.uint8)
    found = raw[starts[:, None] + np.arange(length)]
    sign = np.where(found[:, :1] >= 128, np.uint8(255), np.uint8(0))
    if length > _DECIMAL_BYTES:
        extra = length - _DECIMAL_BYTES
        fits = (found[:, :extra] == sign).all() and (
            (found[:, extra : extra + 1] >= 128) == (sign == 255)
        ).all()
        if not fits:
            raise ValueError(f"column {field.name!r} holds a decimal of more than 38 digits")
        found = found[:, extra:]
    words = np.repeat(sign, _DECIMAL_BYTES, axis=1)
    words[:, : found.shape[1]] = found[:, ::-1]
    return words
