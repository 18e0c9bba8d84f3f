"""Columns of Avro delete files as Arrow arrays, values as stored.

Takes an open file and the fields wanted of it; gives batches of arrays whose Arrow types follow the logical
types of the file's schema. The rule: no value passes through Python's dates or decimals, which cannot hold
all that Avro can. Records do pass through Python dictionaries, one block of the file at a time.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from twostage.errors import CorruptFileError, ResourceLimitError
from twostage.table.avro import open_avro, read_records

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from twostage.deletes.delete_files import WantedField
    from twostage.task import DeleteFile, ScanContext

_ARROW = {
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
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


class _Field:
    """A primitive field of the file: the names that lead to it, and its Avro type without the union."""

    def __init__(self, names: tuple[str, ...], field_id: int | None, kind: Any) -> None:
        self.names = names
        self.field_id = field_id
        self.kind = kind


def read_avro(
    file: pa.NativeFile,
    size: int,
    context: ScanContext,
    delete: DeleteFile,
    wanted: Sequence[WantedField],
    batch_rows: int,
) -> Iterator[tuple[int, list[pa.Array | None]]]:
    """Yield batches: the number of rows, and an array (or None) for each wanted field.

    Raises:
        CorruptFileError: Not a whole Avro file, or a field appears twice.
        ResourceLimitError: The file is larger than the task's memory.
    """
    if size > context.settings.memory_budget:
        raise ResourceLimitError(
            "DELETE_FILE_TOO_LARGE",
            f"Avro delete file is larger than the task's budget: {size} bytes",
            path=delete.path,
            stage="deletes",
            hint="Raise the option 'task-memory'.",
        )
    avro = open_avro(bytes(file.read_at(size, 0)), path=delete.path, code="CORRUPT_DELETE_FILE")
    fields = list(_walk(avro.schema, (), {}))
    sources = [_find(fields, target, context, delete) for target in wanted]
    for block in avro.blocks:
        limit = context.settings.memory_budget
        records = read_records(replace(avro, blocks=(block,)), avro.schema, limit=limit)
        for start in range(0, len(records), batch_rows):
            part = records[start : start + batch_rows]
            yield len(part), [None if source is None else _array(part, source) for source in sources]


def _walk(record: Mapping[str, Any], names: tuple[str, ...], named: dict[str, Any]) -> Iterator[_Field]:
    """Yield the primitive fields through nested records; `named` collects types that later fields refer to."""
    for field in record["fields"]:
        kind, path = _without_union(field["type"]), (*names, field["name"])
        if isinstance(kind, str):
            kind = named.get(kind, kind)
        if isinstance(kind, dict) and "name" in kind:
            named[kind["name"]] = kind
            named[f"{kind.get('namespace', '')}.{kind['name']}"] = kind
        if isinstance(kind, dict) and kind.get("type") == "record":
            yield from _walk(kind, path, named)
        else:
            yield _Field(path, field.get("field-id"), kind)


def _without_union(kind: Any) -> Any:
    if not isinstance(kind, list):
        return kind
    others = [part for part in kind if part != "null"]
    if len(others) > 1:
        raise ValueError(f"a union of more than one type: {kind}")
    return others[0] if others else "null"


def _find(
    fields: Sequence[_Field], wanted: WantedField, context: ScanContext, delete: DeleteFile
) -> _Field | None:
    has_ids = any(field.field_id is not None for field in fields)
    matches = [field for field in fields if field.field_id == wanted.field_id]
    if not matches and not has_ids and context.name_mapping is not None:
        matches = [f for f in fields if _mapped_id(f.names, context.name_mapping) == wanted.field_id]
    elif not matches and (wanted.named or not has_ids):
        matches = [field for field in fields if field.names == wanted.names]
    if len(matches) > 1:
        raise CorruptFileError(
            "CORRUPT_DELETE_FILE",
            f"Delete file has more than one column with field id {wanted.field_id}",
            path=delete.path,
            stage="deletes",
        )
    return matches[0] if matches else None


def _mapped_id(names: tuple[str, ...], mapping: Sequence[Mapping[str, Any]]) -> int | None:
    entry: Mapping[str, Any] | None = None
    for name in names:
        entry = next((one for one in mapping if name in one.get("names", ())), None)
        if entry is None:
            return None
        mapping = entry.get("fields") or ()
    return entry.get("field-id") if entry else None


def _array(records: Sequence[Mapping[str, Any]], field: _Field) -> pa.Array:
    values: list[Any] = list(records)
    for name in field.names:
        values = [None if value is None else value[name] for value in values]
    kind, logical = field.kind, None
    if isinstance(kind, dict):
        kind, logical = kind["type"], kind.get("logicalType")
    if kind == "null":
        return pa.nulls(len(values))
    if logical == "decimal":
        return _decimals(values, field.kind)
    if kind == "fixed":
        return pa.array(values, pa.binary(field.kind["size"]))
    if kind not in _ARROW:
        raise ValueError(f"a key of Avro type {kind}")
    array = pa.array(values, _ARROW[kind])
    return array.view(_LOGICAL[kind, logical]) if (kind, logical) in _LOGICAL else array


def _decimals(values: Sequence[bytes | None], kind: Mapping[str, Any]) -> pa.Array:
    numbers = [0 if value is None else int.from_bytes(value, "big", signed=True) for value in values]
    content = b"".join(number.to_bytes(_DECIMAL_BYTES, "little", signed=True) for number in numbers)
    valid = pa.array([value is not None for value in values], pa.bool_())
    decimal = pa.decimal128(kind["precision"], kind.get("scale", 0))
    return pa.Array.from_buffers(decimal, len(values), [valid.buffers()[1], pa.py_buffer(content)])
