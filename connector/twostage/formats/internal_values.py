"""Values in internal form as Arrow arrays: partition constants, initial defaults, and metadata tables' rows.

Takes values in the internal form of `schema.py` (a date in days, a struct by field id, a map as pairs);
returns arrays of exactly `columns.arrow_type` of their type.
"""

from __future__ import annotations

from decimal import Context, Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from twostage.columns import arrow_type, is_truncated
from twostage.schema import List, Map, Primitive, Struct, Type

if TYPE_CHECKING:
    from collections.abc import Sequence

_EXACT = Context(prec=76)
"""Python's default context has 28 digits, a decimal has up to 38."""


def constant(kind: Type, value: Any, num_rows: int) -> pa.Array:
    """Return an array of one value, repeated `num_rows` times; NULL for None."""
    target = arrow_type(kind)
    if value is None:
        return pa.nulls(num_rows, target)
    return pa.repeat(_scalar(kind, value, target), num_rows)


def values(kind: Type, items: Sequence[Any]) -> pa.Array:
    """Return an array of values."""
    target = arrow_type(kind)
    return pa.array([_python_value(kind, item) for item in items], _with_numbers(target)).cast(target)


def _scalar(kind: Type, value: Any, target: pa.DataType) -> pa.Scalar:
    if isinstance(kind, Primitive):
        if kind.name == "date" or kind.name.startswith("timestamp"):
            width = pa.int32() if kind.name == "date" else pa.int64()
            return pa.array([_python_value(kind, value)], width).view(target)[0]
        if kind.name == "time":
            return pa.array([value * 1000], pa.int64()).view(target)[0]
        if kind.name == "decimal":
            value = Decimal(value).quantize(Decimal(f"1E-{kind.scale}"), context=_EXACT)
        return pa.scalar(value, target)
    return pa.array([_python_value(kind, value)], _with_numbers(target))[0].cast(target)


def _python_value(kind: Type, value: Any) -> Any:
    """Return a value as `pa.array` takes it; dates and times stay numbers, which are cast to their type later."""
    if value is None:
        return None
    if isinstance(kind, Struct):
        return {
            field.name: _python_value(
                field.type, value[field.id] if value.get(field.id) is not None else field.initial_default
            )
            for field in kind.fields
        }
    if isinstance(kind, List):
        return [_python_value(kind.element.type, item) for item in value]
    if isinstance(kind, Map):
        return [
            (_python_value(kind.key.type, key), _python_value(kind.value.type, item)) for key, item in value
        ]
    if kind.name == "decimal":
        return Decimal(value).quantize(Decimal(f"1E-{kind.scale}"), context=_EXACT)
    if is_truncated(kind):
        return value // 1000
    return value * 1000 if kind.name == "time" else value


def _with_numbers(target: pa.DataType) -> pa.DataType:
    """Return the type with dates, times and timestamps replaced by the integers that store them."""
    if pa.types.is_date(target):
        return pa.int32()
    if pa.types.is_timestamp(target) or pa.types.is_time(target):
        return pa.int64()
    if pa.types.is_struct(target):
        fields = [target.field(i) for i in range(target.num_fields)]
        return pa.struct([field.with_type(_with_numbers(field.type)) for field in fields])
    if pa.types.is_map(target):
        return pa.map_(
            _with_numbers(target.key_type), target.item_field.with_type(_with_numbers(target.item_type))
        )
    if pa.types.is_list(target):
        return pa.list_(target.value_field.with_type(_with_numbers(target.value_type)))
    return target
