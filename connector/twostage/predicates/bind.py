"""Bind a Spark predicate to the table's schema: column names become field ids, literals become internal values.

Takes the JSON that the planner's Java classes send (see `bind_predicate`); returns a `Predicate`. A node is bound
only if we evaluate it exactly as Spark does. Anything else becomes `Unknown`, and the predicate that contains it
stays with Spark.
"""

from __future__ import annotations

import base64
from dataclasses import replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np

from twostage.columns import is_truncated, spark_type
from twostage.predicates import predicate as tree
from twostage.predicates.decimal_as_double import any_as_double, compare_as_double
from twostage.predicates.key_bloom import takes_bloom
from twostage.predicates.key_set import takes_keys
from twostage.predicates.key_tuples import takes_tuples
from twostage.predicates.predicate import (
    Column,
    Compare,
    CompareColumns,
    CompareLength,
    HasElement,
    In,
    InBloom,
    InKeys,
    InTuples,
    IsNull,
    JoinKeySet,
    KeyBloom,
    Predicate,
    StringMatch,
    Unknown,
)
from twostage.predicates.top import MAX_TOP_ROWS, TYPES, TopRows
from twostage.schema import List, Map, Primitive

if TYPE_CHECKING:
    from collections.abc import Mapping

    from twostage.schema import Field, Schema, Type

_MATCHES = {"starts_with": "prefix", "ends_with": "suffix", "contains": "contains"}
_COMPARABLE = frozenset(
    "boolean int long float double decimal string uuid fixed binary date timestamp timestamptz".split()
)
# Casts that preserve order and equality, or whose rounding is identical in NumPy and Java.
_WIDENING = {
    "int": ("long", "float", "double"),
    "long": ("double",),
    "float": ("double",),
}
_SPARK_TO_ICEBERG = {"integer": "int", "long": "long", "float": "float", "double": "double"}


def is_comparable(kind: Type) -> bool:
    """Return whether we compare values of this type exactly as Spark does."""
    return isinstance(kind, Primitive) and (kind.name in _COMPARABLE or is_truncated(kind))


def column_of(field: Field, path: tuple[str, ...]) -> Column:
    """Return a predicate column for a field; nanosecond timestamps are cast to the microseconds Spark sees.

    Values and bounds in files and manifests are in nanoseconds, so `Column.type` stays the nanosecond type.
    """
    if not is_truncated(field.type):
        return Column(field.id, path, field.type)
    assert isinstance(field.type, Primitive)
    name = field.type.name
    return Column(field.id, path, Primitive(name), Primitive(name.removesuffix("_ns")))


class _CannotBindError(Exception):
    """A node that cannot be bound; the message describes it."""


def bind_predicate(raw: Mapping[str, Any], schema: Schema, *, case_sensitive: bool = False) -> Predicate:
    """Bind one predicate.

    Args:
        raw: ``{"op": "and"|"or", "children": […]}``, ``{"op": "not", "child": …}``,
            ``{"op": "="|"<>"|"<"|"<="|">"|">="|"<=>", "left": term, "right": term}``,
            ``{"op": "in", "term": …, "values": [literal, …]}``, ``{"op": "is_null"|"is_not_null", "term": …}``,
            ``{"op": "starts_with"|"ends_with"|"contains", "left": term, "right": term}``,
            ``{"op": "array_contains"|"map_contains_key", "left": term, "right": term}``,
            ``{"op": "in_bloom", "term": …, "type": …, "filter": Base64, "count": number}`` (`key_bloom.py`),
            ``{"op": "in_keys", "term": …, "type": …, "keys": Base64, "count": number}`` (`key_set.py`),
            ``{"op": "in_tuples", "terms": [term, …], "types": […], "keys": Base64, "count": number}`` (`key_tuples.py`),
            ``{"op": "true"|"false"}``; a term is ``{"column": [names]}``, ``{"literal": value, "type": …}`` or
            ``{"cast": term, "type": …}`` or ``{"call": "CHAR_LENGTH", "of": term}``; anything else binds to `Unknown`.
        schema: The scan's schema.
        case_sensitive: Whether names must match exactly (``spark.sql.caseSensitive``).

    Returns:
        The predicate, with `Unknown` in place of what cannot be evaluated exactly.
    """
    binder = _Binder(schema, case_sensitive=case_sensitive)
    return binder.predicate(raw)


def bind_top(raw: Mapping[str, Any], schema: Schema, *, case_sensitive: bool = False) -> TopRows | None:
    """Bind a query's ``ORDER BY … LIMIT`` (top-n).

    Args:
        raw: ``{"column": [names], "descending": …, "nulls_first": …, "keys": number, "count": number}``: the first
            sort key (None if it is an expression), the number of sort keys, and the number of rows.
        schema: The table's own columns.
        case_sensitive: Whether names must match exactly (``spark.sql.caseSensitive``).

    Returns:
        None if it cannot prune: the first key is not a top-level column of a type in `TYPES`, or `count` exceeds
        `MAX_TOP_ROWS`.
    """
    if raw["column"] is None or len(raw["column"]) != 1 or not 0 < raw["count"] <= MAX_TOP_ROWS:
        return None
    found = schema.find(tuple(raw["column"]), case_sensitive=case_sensitive)
    if found is None or not isinstance(found.type, Primitive) or found.type.name not in TYPES:
        return None
    return TopRows(
        column=Column(found.id, (found.name,), found.type),
        count=raw["count"],
        descending=raw["descending"],
        nulls_first=raw["nulls_first"],
        has_more_keys=raw["keys"] > 1,
    )


class _Binder:
    def __init__(self, schema: Schema, *, case_sensitive: bool) -> None:
        self.schema = schema
        self.case_sensitive = case_sensitive

    def predicate(self, raw: Mapping[str, Any]) -> Predicate:
        match raw.get("op"):
            case "and":
                return tree.both(*(self.predicate(child) for child in raw["children"]))
            case "or":
                return tree.either(*(self.predicate(child) for child in raw["children"]))
            case "not":
                return tree.Not(self.predicate(raw["child"]))
        try:
            return self._leaf(raw)
        except _CannotBindError as error:
            return Unknown(str(error))

    def _leaf(self, raw: Mapping[str, Any]) -> Predicate:
        op = raw.get("op")
        if op in ("true", "false"):
            return tree.TRUE if op == "true" else tree.FALSE
        if "column" in raw:  # a boolean column used as a predicate
            column = self._column(raw)
            if column.type != Primitive("boolean"):
                raise _CannotBindError(str(column))
            return Compare("=", column, value=True)
        if "literal" in raw and raw.get("type") in ("boolean", "void"):
            return tree.Constant(raw["literal"])
        if op in ("is_null", "is_not_null"):
            test = IsNull(self._column(raw["term"], any_type=True))
            return test if op == "is_null" else tree.Not(test)
        if op == "in":
            return self._in(raw)
        if op == "in_bloom":
            return self._in_bloom(raw)
        if op == "in_keys":
            return self._in_keys(raw)
        if op == "in_tuples":
            return self._in_tuples(raw)
        if op in tree.COMPARISONS:
            return self._comparison(str(op), raw["left"], raw["right"])
        if op in ("array_contains", "map_contains_key"):
            return self._has_element(raw)
        if op in _MATCHES:
            column = self._column(raw["left"])
            if column.type != Primitive("string") or column.cast or raw["right"].get("type") != "string":
                raise _CannotBindError(f"{op}({column})")
            if raw["right"].get("literal") is None:
                return tree.Constant(None)
            return StringMatch(_MATCHES[op], column, str(raw["right"]["literal"]))
        raise _CannotBindError(str(raw.get("name") or raw.get("unknown") or op))

    def _comparison(self, op: str, left: Mapping[str, Any], right: Mapping[str, Any]) -> Predicate:
        if "literal" in left and "literal" not in right:
            return self._comparison(tree.mirrored(op), right, left)
        if left.get("call") == "CHAR_LENGTH":
            return self._length(op, left["of"], right)
        if "literal" in right and (decimal := self._decimal_as_double(left)) is not None:
            value = self._literal(right, replace(decimal, cast=Primitive("double")))
            if value is None:
                return IsNull(decimal) if op == "<=>" else tree.Constant(None)
            return compare_as_double(op, decimal, value)
        column = self._column(left)
        if "literal" not in right:
            other = self._column(right)
            if spark_type(column.value_type) != spark_type(other.value_type):
                raise _CannotBindError(f"{column} {op} {other}")
            if {column.value_type, other.value_type} & {Primitive("uuid")} and column.type != other.type:
                raise _CannotBindError(f"{column} {op} {other}")
            return CompareColumns(op, column, other)
        value = self._literal(right, column)
        if value is None:
            return IsNull(column) if op == "<=>" else tree.Constant(None)
        return Compare(op, column, value)

    def _length(self, op: str, of: Mapping[str, Any], right: Mapping[str, Any]) -> Predicate:
        column = self._column(of)
        if column.type != Primitive("string") or column.cast or right.get("type") != "integer":
            raise _CannotBindError(f"length({column})")
        if right["literal"] is None:
            return IsNull(column) if op == "<=>" else tree.Constant(None)
        return CompareLength(op, column, int(right["literal"]))

    def _has_element(self, raw: Mapping[str, Any]) -> Predicate:
        column = self._column(raw["left"], any_type=True)
        match raw["op"], column.type:
            case ("array_contains", List(element=inner)) | ("map_contains_key", Map(key=inner)):
                pass
            case _:
                raise _CannotBindError(f"{raw['op']}({column})")
        if not isinstance(inner.type, Primitive) or inner.type.name not in _COMPARABLE or column.cast:
            raise _CannotBindError(f"{raw['op']}({column})")
        element = Column(inner.id, self.schema.path(inner.id), inner.type)
        value = self._literal(raw["right"], element)
        return tree.Constant(None) if value is None else HasElement(column, element, value)

    def _decimal_as_double(self, raw: Mapping[str, Any]) -> Column | None:
        """Return the decimal column in ``CAST(column AS DOUBLE)``; None if the term is anything else."""
        if raw.get("type") != "double" or "column" not in raw.get("cast", ()):
            return None
        column = self._column(raw["cast"])
        return column if _is_decimal(column.type) else None

    def _in(self, raw: Mapping[str, Any]) -> Predicate:
        decimal = self._decimal_as_double(raw["term"])
        if decimal is not None:
            doubles = [
                self._literal(item, replace(decimal, cast=Primitive("double"))) for item in raw["values"]
            ]
            given = [value for value in doubles if value is not None]
            found = any_as_double(decimal, given, has_null=len(given) < len(doubles))
            return found or Unknown(f"cast({decimal} as double) IN (…)")
        column = self._column(raw["term"])
        values = [self._literal(item, column) for item in raw["values"]]
        present = tuple(dict.fromkeys(value for value in values if value is not None))
        has_null = len(present) != len(values) and None in values
        if not present:
            return tree.Constant(None) if has_null else Unknown(f"{column} IN ()")
        return In(column, present, has_null=has_null)

    def _in_bloom(self, raw: Mapping[str, Any]) -> Predicate:
        column = self._column(raw["term"])
        if spark_type(column.value_type) != raw["type"] or not takes_bloom(column.value_type):
            raise _CannotBindError(f"{column} IN Bloom filter of {raw['type']}")
        return InBloom(column, KeyBloom(base64.b64decode(raw["filter"]), raw["count"]))

    def _in_keys(self, raw: Mapping[str, Any]) -> Predicate:
        column = self._column(raw["term"])
        if spark_type(column.value_type) != raw["type"] or not takes_keys(column.value_type):
            raise _CannotBindError(f"{column} IN set of {raw['type']}")
        return InKeys(column, JoinKeySet(base64.b64decode(raw["keys"]), raw["count"]))

    def _in_tuples(self, raw: Mapping[str, Any]) -> Predicate:
        columns = tuple(self._column(term) for term in raw["terms"])
        for column, kind in zip(columns, raw["types"], strict=True):
            if spark_type(column.value_type) != kind or not takes_tuples(column.value_type):
                raise _CannotBindError(f"{column} in tuples of {kind}")
        return InTuples(columns, JoinKeySet(base64.b64decode(raw["keys"]), raw["count"]))

    def _column(self, raw: Mapping[str, Any], *, any_type: bool = False) -> Column:
        if "cast" in raw:
            return self._cast(raw)
        if "column" not in raw:
            raise _CannotBindError(str(raw.get("unknown") or raw.get("name") or raw))
        path = tuple(raw["column"])
        field = self.schema.find(path, case_sensitive=self.case_sensitive)
        if field is None:
            raise _CannotBindError(".".join(path))
        if not any_type and not is_comparable(field.type):
            raise _CannotBindError(f"{'.'.join(path)}: {field.type}")
        return column_of(field, self.schema.path(field.id))

    def _cast(self, raw: Mapping[str, Any]) -> Column:
        column = self._column(raw["cast"])
        target = raw.get("type")
        if spark_type(column.value_type) == target:
            return column
        kind = column.type
        assert isinstance(kind, Primitive)
        wider = _SPARK_TO_ICEBERG.get(str(target))
        if column.cast is None and wider in _WIDENING.get(kind.name, ()):
            return Column(column.field_id, column.path, kind, Primitive(str(wider)))
        decimal, digits = _decimal(target), _digits(kind)
        if column.cast is None and digits is not None and decimal is not None:
            # A widening cast to decimal preserves the value, and decimals of any scale compare by value.
            is_wider = decimal.scale >= kind.scale and decimal.precision - decimal.scale >= digits
            if is_wider:
                return Column(column.field_id, column.path, kind, decimal)
        raise _CannotBindError(f"cast({column} as {target})")

    def _literal(self, raw: Mapping[str, Any], column: Column) -> Any:
        """Return the literal in the internal form of the column's type after its cast; None for NULL."""
        if "literal" not in raw:
            raise _CannotBindError(str(raw.get("unknown") or raw))
        value, kind = raw["literal"], column.value_type
        if value is None:
            return None
        if raw.get("type") != spark_type(kind) and not (_decimal(raw.get("type")) and _is_decimal(kind)):
            raise _CannotBindError(f"{column} with a literal of type {raw.get('type')}")
        assert isinstance(kind, Primitive)
        match kind.name:
            case "float":
                return float(np.float32(value))
            case "double":
                return float(value)
            case "decimal":
                return Decimal(str(value))
            case "fixed" | "binary":
                return base64.b64decode(value)
            case "boolean":
                return bool(value)
            case "string" | "uuid":
                return str(value)
        return int(value)


def _decimal(text: Any) -> Primitive | None:
    if not isinstance(text, str) or not text.startswith("decimal("):
        return None
    precision, _, scale = text[len("decimal(") : -1].partition(",")
    return Primitive("decimal", precision=int(precision), scale=int(scale))


def _digits(kind: Primitive) -> int | None:
    """Return the maximum number of integer digits of an exact numeric type; None for any other type."""
    digits = {"int": 10, "long": 19, "decimal": kind.precision - kind.scale}
    return digits.get(kind.name)


def _is_decimal(kind: Any) -> bool:
    return isinstance(kind, Primitive) and kind.name == "decimal"
