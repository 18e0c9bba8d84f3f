"""Reads a Parquet file of any origin as the data file of a table, in a child process; see `limited_process`.

Takes ``path``; gives the class: ``rows`` that pass pyarrow's full validation, or ``typed`` with the error's code. The
table's schema is made from the file's own, columns found by name; what Iceberg has no type for is left out.
"""

from __future__ import annotations

import itertools
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from twostage.data_files.parquet_file import ParquetDataFile
from twostage.deletes.anti_join.build_from_deletes import EqualityDeletes
from twostage.errors import InternalError, TwoStageError
from twostage.formats.parquet.footer import read_footer
from twostage.metrics import Metrics
from twostage.options import ReadSettings
from twostage.predicates.predicate import Column, IsNull, Or
from twostage.reading.filter import RowFilter
from twostage.reading.one_stage import read_one_stage
from twostage.schema import Primitive, parse_schema
from twostage.selection import Selection
from twostage.task import ScanContext, ScanTask

PLAIN: dict[pa.DataType, str] = {
    pa.bool_(): "boolean",
    **dict.fromkeys((pa.int8(), pa.int16(), pa.int32(), pa.uint8(), pa.uint16()), "int"),
    **dict.fromkeys((pa.int64(), pa.uint32()), "long"),
    **dict.fromkeys((pa.float16(), pa.float32()), "float"),
    pa.float64(): "double",
    **dict.fromkeys((pa.string(), pa.large_string()), "string"),
    **dict.fromkeys((pa.binary(), pa.large_binary()), "binary"),
    pa.date32(): "date",
}


def read_corpus_file(request: dict[str, Any]) -> dict[str, Any]:
    """Answer one request; see the module."""
    path = request["path"]
    try:
        with pa.OSFile(path) as file:
            size = file.size()
            footer = read_footer(file, size, path)
        fields, mapping = _schema(path)
        rows = sum(_read(path, size, fields, mapping, two_stage) for two_stage in (True, False))
    except InternalError as error:
        return {"class": "UNTYPED", "detail": str(error)}
    except TwoStageError as error:
        return {"class": "typed", "code": error.code, "path": error.path, "stage": error.stage}
    return {"class": "rows", "rows": rows, "said": 2 * footer.num_rows, "columns": len(fields)}


def _schema(path: str) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return Iceberg fields and a name mapping for the file; one column that it lacks where pyarrow has no schema."""
    ids = _Ids()
    try:
        schema = pq.ParquetFile(path, arrow_extensions_enabled=False).schema_arrow
    except (pa.ArrowException, OSError, ValueError):
        schema = pa.schema([pa.field("absent", pa.int64())])
    pairs = [pair for field in schema if (pair := _field(field, field.name, ids)) is not None]
    return [field for field, _ in pairs], [mapped for _, mapped in pairs]


class _Ids:
    """Gives fields their ids: the file's own, once each, or others."""

    def __init__(self) -> None:
        self._others = itertools.count(2**20)  # beyond the ids that files have
        self._given: set[int] = set()

    def of(self, field: pa.Field) -> int:
        own = int((field.metadata or {}).get(b"PARQUET:field_id", 0))
        if own < 1 or own in self._given:  # the product is to find the second one, not the schema's parser
            return next(self._others)
        self._given.add(own)
        return own


def _field(field: pa.Field, name: str, ids: _Ids) -> tuple[dict[str, Any], dict[str, Any]] | None:
    field_id = ids.of(field)
    parts: list[tuple[str, pa.Field]] = []
    kind = field.type
    if pa.types.is_struct(kind):
        parts = [(child.name, child) for child in kind]
    elif pa.types.is_list(kind):
        parts = [("element", kind.value_field)]
    elif pa.types.is_map(kind):
        parts = [("key", kind.key_field), ("value", kind.item_field)]
    inner = [found for label, child in parts if (found := _field(child, label, ids)) is not None]
    if len(inner) < len(parts):
        return None
    fields = [found for found, _ in inner]
    target: Any = _plain(kind)
    if pa.types.is_struct(kind):
        target = {"type": "struct", "fields": fields}
    elif pa.types.is_list(kind):
        target = {
            "type": "list",
            "element-id": fields[0]["id"],
            "element": fields[0]["type"],
            "element-required": False,
        }
    elif pa.types.is_map(kind):
        target = {"type": "map", "value-required": False}
        for label, found in zip(("key", "value"), fields, strict=True):
            target |= {f"{label}-id": found["id"], label: found["type"]}
    if target is None:
        return None
    found = {"id": field_id, "name": name, "required": False, "type": target}
    return found, {"field-id": field_id, "names": [name], "fields": [mapped for _, mapped in inner]}


def _plain(kind: pa.DataType) -> str | None:
    if pa.types.is_timestamp(kind):
        return "timestamp" if kind.tz is None else "timestamptz"
    if pa.types.is_time(kind):
        return "time"
    if pa.types.is_decimal128(kind):
        return f"decimal({kind.precision},{kind.scale})" if kind.scale >= 0 else None
    if pa.types.is_fixed_size_binary(kind):
        return f"fixed[{kind.byte_width}]"
    return PLAIN.get(kind)


def _read(
    path: str, size: int, fields: list[dict[str, Any]], mapping: list[dict[str, Any]], two_stage: bool
) -> int:
    """Read every row group, whole or as a stream; ask bounds, dictionaries and Bloom filters too."""
    schema = parse_schema({"schema-id": 0, "type": "struct", "fields": fields})
    context = ScanContext(
        scan_id="corpus",
        table="corpus",
        snapshot_id=1,
        schema=schema,
        projection=schema.fields,
        name_mapping=tuple(mapping),
        settings=ReadSettings(two_stage=two_stage),
    )
    task = ScanTask(
        path=path,
        written_path=path,
        format="parquet",
        file_size=size,
        record_count=0,
        start=0,
        length=size,
        sequence_number=1,
        spec_id=0,
    )
    columns = [
        Column(field.id, (field.name,), field.type)
        for field in schema.fields
        if isinstance(field.type, Primitive)
    ]
    nothing = Or(tuple(IsNull(column) for column in columns)) if len(columns) > 1 else None
    rows = 0
    with ParquetDataFile(context, task, Metrics()) as file:
        for group in file.row_groups():
            for field_id in schema.field_ids():
                file.bounds(group, field_id)
            if nothing is not None:
                file.cannot_match(group, nothing, probe_dictionaries=True)
            if two_stage:
                for array in file.read(group, schema.fields, "fetch"):
                    assert len(array) == group.num_rows
                    array.validate(full=True)
                rows += group.num_rows
                continue
            everything, none = Selection.all(group.num_rows), EqualityDeletes((), 0)
            for batch in read_one_stage(file, group, RowFilter(), everything, none, Metrics()):
                batch.validate(full=True)
                rows += batch.num_rows
    return rows
