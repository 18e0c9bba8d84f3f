"""Brute force: which rows a declared table has, and which of them a predicate keeps.

Takes the declared content (`declared.content.Content`) and predicate trees (`twostage.predicates.predicate`,
as plain data); returns rows. Everything is done row by row in plain Python, by the Iceberg spec and Spark's
three-valued logic. The rule: no code of the product decides anything here.
"""

from __future__ import annotations

import itertools
import math
import struct
import uuid
import zlib
from collections import Counter
from decimal import Decimal
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from declared.content import Content, DataFile, EqualityDelete, PositionDelete, VectorDelete
from declared.types import Column, Kind, ListOf, MapOf, Struct, walk
from twostage.predicates import predicate as tree

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from twostage import schema as product_schema

ABSENT = object()


# ---- which rows live


def live_rows(content: Content, deleted: Counter[str] | None = None) -> list[dict[int, Any]]:
    """Return the live rows by field id, resolved to every field that the table ever had.

    Args:
        content: The snapshot.
        deleted: Counts the rows that each kind of delete removes, if given.
    """
    counts = Counter[str]() if deleted is None else deleted
    rows = []
    for file in content.data:
        positions = _deleted_positions(content, file)
        equality = [
            d for d in content.deletes if isinstance(d, EqualityDelete) and _in_scope(content, d, file)
        ]
        keys = [(d, {_key(_stored_key(content, d, row)) for row in d.rows}) for d in equality]
        resolve = resolver(content, file)
        for position, stored in enumerate(file.rows):
            if position in positions:
                counts[positions[position]] += 1
                continue
            row = resolve(stored)
            if any(_key(tuple(row.get(i) for i in d.ids)) in known for d, known in keys):
                counts["equality"] += 1
                continue
            rows.append(row)
    return rows


def _deleted_positions(content: Content, file: DataFile) -> dict[int, str]:
    for delete in content.deletes:
        if (
            isinstance(delete, VectorDelete)
            and delete.data_file == file.path
            and file.sequence <= delete.sequence
        ):
            return dict.fromkeys(delete.positions, "vector")
    found: dict[int, str] = {}
    for delete in content.deletes:
        if not isinstance(delete, PositionDelete) or file.sequence > delete.sequence:
            continue
        if delete.spec_id == file.spec_id and _key(delete.partition) == _key(file.partition):
            found.update((position, "position") for path, position in delete.positions if path == file.path)
    return found


def _in_scope(content: Content, delete: EqualityDelete, file: DataFile) -> bool:
    if file.sequence >= delete.sequence:
        return False
    if all(part.transform == "void" for part in content.specs[delete.spec_id]):
        return True
    return delete.spec_id == file.spec_id and _key(delete.partition) == _key(file.partition)


def _stored_key(content: Content, delete: EqualityDelete, row: dict[int, Any]) -> tuple[Any, ...]:
    flat: dict[int, Any] = {}
    _flatten(delete.columns, row, flat)
    return tuple(_promoted(content.all_columns[i].type, flat[i]) for i in delete.ids)


def _flatten(columns: Iterable[Column], row: Mapping[int, Any] | None, into: dict[int, Any]) -> None:
    """Put the row's values, including those inside structs, into one dict; what a file lacks is left out."""
    for column in columns:
        value = ABSENT if row is not None and column.id not in row else (row or {}).get(column.id)
        if value is ABSENT:
            continue
        into[column.id] = value
        if isinstance(column.type, Struct):
            _flatten(column.type.fields, value, into)


def resolver(content: Content, file: DataFile) -> Callable[[Mapping[int, Any]], dict[int, Any]]:
    """Return a function from a stored row to its values of all fields outside lists and maps, by id, in
    current types.

    A field that the file lacks has the partition's constant, its initial default or NULL.
    """
    held = {column.id for column, _ in walk(file.columns)}
    constants = {
        part.source: value
        for part, value in zip(content.specs[file.spec_id], file.partition, strict=True)
        if part.transform == "identity"
    }
    fields = fields_of(content)
    structs = {
        child.id: column.id
        for column in fields.values()
        if isinstance(column.type, Struct)
        for child in column.type.fields
    }

    def resolve(stored: Mapping[int, Any]) -> dict[int, Any]:
        flat: dict[int, Any] = {}
        _flatten(file.columns, stored, flat)
        row: dict[int, Any] = {}
        for field_id, column in fields.items():
            if field_id in held:
                value = flat.get(field_id)
                if isinstance(column.type, Struct | ListOf | MapOf):
                    value = _rebuilt(column, value, held)
                row[field_id] = _promoted(column.type, value)
            elif field_id in constants:
                row[field_id] = constants[field_id]
            elif (parent := structs.get(field_id)) is not None and row[parent] is None:
                row[field_id] = None
            else:
                row[field_id] = column.default
        return row

    return resolve


def fields_of(content: Content) -> dict[int, Column]:
    """Return every field by id: as in the scan's columns, or in its last form if they lack it."""
    return dict(content.all_columns) | {column.id: column for column, _ in walk(content.columns)}


def _rebuilt(column: Column, value: Any, held: set[int]) -> Any:
    """Return a nested value in the field's last type: missing sub-fields get their default."""
    if value is None:
        return None
    match column.type:
        case Struct(fields):
            return {f.id: _rebuilt(f, value.get(f.id), held) if f.id in held else f.default for f in fields}
        case ListOf(element):
            return [_rebuilt(element, item, held) for item in value]
        case MapOf(key, item):
            return [(_rebuilt(key, k, held), _rebuilt(item, v, held)) for k, v in value]
    return _promoted(column.type, value)


def _promoted(kind: Kind, value: Any) -> Any:
    return float(value) if kind == "double" and value is not None else value


def _key(values: Sequence[Any]) -> tuple[Any, ...]:
    """Return values whose equality is that of deletes: NULL = NULL, NaN = NaN, -0.0 is not 0.0."""
    return tuple(exact(value) for value in values)


def exact(value: Any) -> Any:
    """Return a hashable form that distinguishes -0.0 from 0.0 and types from each other, and equates all NaN."""
    if isinstance(value, float):
        return ("float", "nan" if math.isnan(value) else struct.pack("<d", value))
    if isinstance(value, dict):
        return ("struct", tuple((key, exact(item)) for key, item in sorted(value.items())))
    if isinstance(value, list | tuple):
        return ("list", tuple(exact(item) for item in value))
    if isinstance(value, Decimal):
        return ("decimal", value)
    if isinstance(value, uuid.UUID):
        return ("str", str(value))
    return (type(value).__name__, value)


# ---- which rows a predicate keeps


def evaluate(predicate: tree.Predicate, row: Mapping[int, Any]) -> bool | None:
    """Return TRUE, FALSE or NULL (None) as Spark does."""
    match predicate:
        case tree.Constant(value):
            return value
        case tree.Not(child):
            found = evaluate(child, row)
            return None if found is None else not found
        case tree.And(children):
            results = [evaluate(child, row) for child in children]
            return False if False in results else None if None in results else True
        case tree.Or(children):
            results = [evaluate(child, row) for child in children]
            return True if True in results else None if None in results else False
        case tree.IsNull(column):
            return row[column.field_id] is None
        case tree.Compare(op, column, literal):
            return _compare(op, _value(column, row), literal)
        case tree.CompareColumns(op, left, right):
            return _compare(op, _value(left, row), _value(right, row))
        case tree.In(column, literals, has_null):
            value = _value(column, row)
            if value is None:
                return None
            hit = _order(value) in _orders(type(value), literals)
            return True if hit else None if has_null else False
        case tree.InKeys(column, keys):  # of integers: each as the difference from its predecessor
            value = _value(column, row)
            steps = struct.iter_unpack("<q", zlib.decompress(keys.data))
            return None if value is None else value in itertools.accumulate(step for (step,) in steps)
        case tree.HasElement(column, _, literal):
            value = _value(column, row)
            if value is None:
                return None
            items = [item[0] if isinstance(item, tuple) else item for item in value]  # a map's are pairs
            hits = [_compare("=", item, literal) for item in items]
            return True if True in hits else None if None in hits else False
        case tree.StringMatch(kind, column, text):
            value = _value(column, row)
            if value is None:
                return None
            if kind == "contains":
                return text in value
            return value.startswith(text) if kind == "prefix" else value.endswith(text)
    raise NotImplementedError(str(predicate))


def _compare(op: str, left: Any, right: Any) -> bool | None:
    if left is None or right is None:
        return (left is None and right is None) if op == "<=>" else None
    low, high = _order(left), _order(right)
    match op:
        case "=" | "<=>":
            return bool(low == high)
        case "<>":
            return bool(low != high)
        case "<":
            return bool(low < high)
        case "<=":
            return bool(low <= high)
        case ">":
            return bool(low > high)
        case ">=":
            return bool(low >= high)
    raise NotImplementedError(op)


def _order(value: Any) -> Any:
    """Return a key that sorts as in Spark: NaN last and equal to itself, strings as UTF-8 bytes."""
    if isinstance(value, float):
        return (1, 0.0) if math.isnan(value) else (0, value)
    return value.encode() if isinstance(value, str) else value


@lru_cache(maxsize=64)
def _orders(_kind: type, literals: tuple[Any, ...]) -> frozenset[Any]:
    # The kind is part of the key: (0,), (0.0,) and (False,) are equal tuples.
    return frozenset(map(_order, literals))


def _value(column: tree.Column, row: Mapping[int, Any]) -> Any:
    value = row[column.field_id]
    if value is None or column.cast is None:
        return value
    match column.cast.name:
        case "double":
            return float(value)
        case "float":
            return struct.unpack("<f", struct.pack("<f", value))[0]
        case "decimal":
            return Decimal(value)
        case "int" | "long":
            return int(value)
    raise NotImplementedError(str(column.cast))


# ---- comparing


def project(row: Mapping[int, Any], fields: Sequence[product_schema.Field]) -> tuple[Any, ...]:
    """Return the row's values of these fields in comparable form; structs have only the wanted fields."""
    return tuple(_projected(row.get(field.id), field.type) for field in fields)


def _projected(value: Any, kind: Any) -> Any:
    if value is None:
        return None
    match type(kind).__name__:
        case "Struct":
            return ("struct", tuple(_projected(value.get(f.id), f.type) for f in kind.fields))
        case "List":
            return ("list", tuple(_projected(item, kind.element.type) for item in value))
        case "Map":
            pairs = [(_projected(k, kind.key.type), _projected(v, kind.value.type)) for k, v in value]
            return ("map", tuple(sorted(pairs, key=repr)))
    return exact(value)


def batch_rows(batch: pa.RecordBatch) -> list[tuple[Any, ...]]:
    """Return an Arrow batch's rows in the form of `project`."""
    columns = [_arrow_values(column) for column in batch.columns]
    return list(zip(*columns, strict=True)) if columns else [()] * batch.num_rows


def _arrow_values(array: pa.Array) -> list[Any]:
    kind = array.type
    valid = array.is_valid().to_pylist()
    if pa.types.is_dictionary(kind):
        return _arrow_values(array.dictionary_decode())
    if isinstance(kind, pa.UuidType):
        return [None if v is None else exact(uuid.UUID(bytes=v)) for v in array.storage.to_pylist()]
    if pa.types.is_struct(kind):
        children = [_arrow_values(array.field(index)) for index in range(kind.num_fields)]
        return [("struct", tuple(c[i] for c in children)) if ok else None for i, ok in enumerate(valid)]
    if pa.types.is_map(kind):
        pairs = list(zip(_arrow_values(array.keys), _arrow_values(array.items), strict=True))
        offsets = array.offsets.to_pylist()
        return [
            ("map", tuple(sorted(pairs[offsets[i] : offsets[i + 1]], key=repr))) if ok else None
            for i, ok in enumerate(valid)
        ]
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        items, offsets = _arrow_values(array.values), array.offsets.to_pylist()
        return [
            ("list", tuple(items[offsets[i] : offsets[i + 1]])) if ok else None for i, ok in enumerate(valid)
        ]
    if pa.types.is_date32(kind):
        array = array.cast(pa.int32())
    elif pa.types.is_timestamp(kind):
        array = array.cast(pa.int64())
    elif pa.types.is_time64(kind):
        array = array.cast(pa.time64("us")).cast(pa.int64())
    return [None if value is None else exact(value) for value in array.to_pylist()]


def difference(got: Iterable[tuple[Any, ...]], expected: Iterable[tuple[Any, ...]]) -> str:
    """Return what differs between two multisets of rows; empty if they are equal."""
    found, wanted = Counter(got), Counter(expected)
    if found == wanted:
        return ""
    missing, extra = wanted - found, found - wanted
    return (
        f"{sum(found.values())} rows instead of {sum(wanted.values())}; "
        f"missing {missing.total()}: {list(missing)[:3]}; extra {extra.total()}: {list(extra)[:3]}"
    )
