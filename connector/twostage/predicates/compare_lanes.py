"""Comparisons of lanes: with a literal, with an IN list, with a text pattern, with another lane.

Takes lanes (`lanes.py`) of shape (rows,) and literals in internal form; returns a bool array of shape (rows,). Where
the row is NULL, the result is arbitrary. The comparison is Spark's, by value: NaN = NaN and greater than any other
number, -0.0 = 0.0, text by unsigned bytes. A literal or column whose type does not fit raises `InternalError`.
"""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from twostage.errors import InternalError
from twostage.predicates.lanes import Numbers, Text, Wide
from twostage.predicates.literals import (
    as_float,
    as_integers,
    as_text,
    as_texts,
    as_whole,
    as_words,
    prepare_once,
)
from twostage.schema import Primitive
from twostage_native import compare, members, strings

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from twostage.predicates.lanes import Lane
    from twostage.predicates.predicate import Column
    from twostage_native._jit import Kernel

    Bools = NDArray[np.bool_]

_FLOATS = {"float": np.float32, "double": np.float64}
_ORDERS: dict[str, tuple[Callable[..., Bools], bool]] = {
    "=": (compare.equal, False),
    "<=>": (compare.equal, False),
    "<>": (compare.equal, True),
    "<": (compare.less, False),
    ">=": (compare.less, True),
    "<=": (compare.less_equal, False),
    ">": (compare.less_equal, True),
}
"""The kernel for each operator, and whether its result is negated: Spark's order is total, so >= is NOT <."""
_SIGNS: dict[str, Callable[[NDArray[np.int8]], Bools]] = {
    "=": lambda signs: signs == 0,
    "<=>": lambda signs: signs == 0,
    "<>": lambda signs: signs != 0,
    "<": lambda signs: signs < 0,
    "<=": lambda signs: signs <= 0,
    ">": lambda signs: signs > 0,
    ">=": lambda signs: signs >= 0,
}
"""Each operator's result for the sign of a three-way comparison."""


def compare_literal(op: str, column: Column, lane: Lane, value: Any, *, kernels: bool) -> Bools:
    """Compare each value of a lane with a literal.

    Args:
        op: One of `predicate.COMPARISONS`.
        column: The column, for error messages.
        lane: Its values, after its cast.
        value: The literal; not NULL.
        kernels: Run compiled kernels; False: their NumPy twins.
    """
    match lane, value:
        case Numbers(values), bool() if values.dtype.kind == "b":
            return _ordered(op, values, np.bool_(value))
        case Numbers(values), int() | float() if values.dtype.kind == "f" and type(value) is not bool:
            return _ordered(op, values, as_float(value, values.dtype))
        case Numbers(values), int() | Decimal() if values.dtype.kind == "i" and type(value) is not bool:
            restated = as_whole(op, value, 0, 8 * values.itemsize)
            if isinstance(restated, bool):
                return np.full(len(values), restated)
            return _ordered(restated[0], values, values.dtype.type(restated[1]))
        case Wide(words, scale), Decimal():
            restated = as_whole(op, value, scale, 128)
            if isinstance(restated, bool):
                return np.full(len(words), restated)
            op, whole = restated
            low, high = np.frombuffer(whole.to_bytes(16, "little", signed=True), np.int64)
            return _SIGNS[op](run(kernels, compare.sign_wide, words, high, low))
        case Text(offsets, data, is_string), str() | bytes() if is_string == isinstance(value, str):
            literal = as_text(value)
            if op in ("=", "<=>", "<>"):
                same = run(kernels, strings.equal_text, offsets, data, literal)
                return ~same if op == "<>" else same
            return _SIGNS[op](run(kernels, strings.sign_text, offsets, data, literal))
    raise misfit(column, value)


def compare_list(column: Column, lane: Lane, listed: tuple[Any, ...], *, kernels: bool) -> Bools:
    """Return for each value of a lane whether it is one of the literals `listed`, none of which is NULL."""
    if not all(_fits(lane, value) for value in listed[:1]):
        raise misfit(column, listed[0])
    match lane:
        case Numbers(values) if values.dtype.kind == "b":
            return np.isin(values, [bool(value) for value in listed])
        case Numbers(values) if values.dtype.kind == "f":
            prepared = prepare_once(listed, "float", lambda: _prepared_floats(listed))
            return run(kernels, members.in_integers, members.canonical_bits(values), *prepared)
        case Numbers(values):
            prepared = prepare_once(listed, "integer", lambda: members.prepare_integers(as_integers(listed)))
            return run(kernels, members.in_integers, values, *prepared)
        case Wide(words, scale):
            prepared = prepare_once(listed, scale, lambda: members.prepare_wide(as_words(listed, scale)))
            return run(kernels, members.in_wide, words, *prepared)
        case Text(offsets, data):
            prepared = prepare_once(listed, "text", lambda: strings.prepare_texts(*as_texts(listed)))
            return run(kernels, strings.in_texts, offsets, data, *prepared)


def match_text(kind: str, column: Column, lane: Lane, value: str, *, kernels: bool) -> Bools:
    """Return for each string of a lane whether it starts with, ends with or contains `value`, depending on `kind`."""
    if not isinstance(lane, Text) or not lane.is_string:
        raise misfit(column, value)
    if kind == "contains":
        return strings.contains(lane.offsets, lane.data, as_text(value))
    search = strings.starts_with if kind == "prefix" else strings.ends_with
    return run(kernels, search, lane.offsets, lane.data, as_text(value))


def compare_lanes(op: str, left: Lane, right: Lane, *, kernels: bool) -> Bools | None:
    """Compare two lanes row by row; None if their types do not compare."""
    match left, right:
        case Numbers(a), Numbers(b) if a.dtype.kind == b.dtype.kind:
            return _ordered(op, a, b)
        case Wide(a, scale), Wide(b, other_scale) if scale == other_scale:
            return _SIGNS[op](run(kernels, compare.sign_wide_columns, a, b))
        case Text(), Text() if left.is_string == right.is_string:
            texts = (left.offsets, left.data, right.offsets, right.data)
            if op in ("=", "<=>", "<>"):
                same = run(kernels, strings.equal_text_columns, *texts)
                return ~same if op == "<>" else same
            return _SIGNS[op](run(kernels, strings.sign_text_columns, *texts))
    return None


def run(kernels: bool, kernel: Kernel, *arguments: Any) -> NDArray[Any]:  # noqa: FBT001
    """Run a kernel, compiled or as its NumPy twin."""
    result: NDArray[Any] = kernel(*arguments) if kernels else kernel.twin(*arguments)
    return result


def _prepared_floats(listed: tuple[float, ...]) -> Any:
    return members.prepare_integers(np.unique(members.canonical_bits(np.array(listed, np.float64))))


def _ordered(op: str, left: NDArray[Any], right: Any) -> Bools:
    order, negate = _ORDERS[op]
    hits = order(left, right)
    return np.logical_not(hits, out=hits) if negate else hits


def _fits(lane: Lane, value: Any) -> bool:
    """Return whether a literal is comparable with the values of a lane."""
    match lane:
        case Numbers(values) if values.dtype.kind == "b":
            return isinstance(value, bool)
        case Numbers(values) if values.dtype.kind == "f":
            return isinstance(value, int | float) and not isinstance(value, bool)
        case Numbers():
            return isinstance(value, int | Decimal) and not isinstance(value, bool)
        case Wide():
            return isinstance(value, Decimal)
        case Text():
            return isinstance(value, str if lane.is_string else bytes)


def cast_lane(lane: Lane, column: Column) -> Lane:
    """Apply a column's widening cast to its lane; casts to float and double round as Java does."""
    cast, kind = column.cast, column.type
    if cast is None or cast == kind:
        return lane
    is_wider = cast.name == "decimal" and cast.precision - cast.scale >= _digits(column)
    if isinstance(lane, Numbers) and lane.values.dtype.kind in "if":
        is_float = lane.values.dtype.kind == "f"
        if cast.name in _FLOATS and not (is_float and cast.name == "float"):
            return Numbers(_frozen(lane.values.astype(_FLOATS[cast.name])))
        if not is_float and cast.name == "long":
            return lane
        if not is_float and is_wider:
            return lane
        if is_nanoseconds(column) and f"{cast.name}_ns" == str(kind):
            return Numbers(_frozen(lane.values // 1000))  # rounds down, before 1970 too
    if isinstance(lane, Wide) and is_wider and cast.scale >= lane.scale:
        return lane
    raise bad_predicate(f"Not a widening cast: {column}")


def _frozen(values: NDArray[Any]) -> NDArray[Any]:
    values.flags.writeable = False
    return values


def is_nanoseconds(column: Column) -> bool:
    """Return whether the column is a nanosecond timestamp."""
    return isinstance(column.type, Primitive) and column.type.name.endswith("_ns")


def _digits(column: Column) -> int:
    """Return the maximum number of integer digits of a numeric column."""
    kind = column.type
    if isinstance(kind, Primitive) and kind.name == "decimal":
        return kind.precision - kind.scale
    return 10 if isinstance(kind, Primitive) and kind.name == "int" else 19


def decode(array: pa.Array, column: Column) -> pa.Array:
    """Decode a dictionary, and cast decimals to the scale of the column's cast, so that columns compare at one scale."""
    if isinstance(array, pa.DictionaryArray):
        array = array.dictionary_decode()
    cast = column.cast
    if cast is None or cast.name != "decimal" or pa.types.is_null(array.type):
        return array
    try:
        if pa.types.is_integer(array.type):
            array = array.cast(pa.decimal128(19, 0))
        return array.cast(pa.decimal128(cast.precision, cast.scale))
    except pa.ArrowInvalid as error:
        raise bad_predicate(f"Cast overflows: {column}: {error}") from error


def misfit(column: Column, value: Any) -> InternalError:
    """Return the error for a literal that the column's values cannot be compared with."""
    return bad_predicate(f"Literal does not fit column {column}: {value!r}")


def bad_predicate(message: str) -> InternalError:
    """Return the error for a predicate that cannot be evaluated."""
    return InternalError("BAD_PREDICATE", message, stage="filter")
