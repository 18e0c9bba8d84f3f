"""Prove from bounds that no row, or every row, of a set matches a predicate.

Takes a predicate and the bounds of its columns over the rows of a file, row group or page; returns `Match.NONE` (the
predicate is TRUE for no row), `Match.ALL` (TRUE for every row) or `Match.SOME`. NONE and ALL are proofs under
Spark's semantics of NaN, -0.0 and NULL, and for truncated strings; when in doubt, the result is SOME.

Each leaf yields the set of truth values {TRUE, FALSE, NULL} that its rows may have. AND, OR and NOT combine these sets
by the tables of three-valued logic, so NOT needs no normal form.
"""

from __future__ import annotations

import enum
from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING, Any

from twostage.predicates.key_set import KeyCoverage, key_coverage
from twostage.predicates.predicate import (
    And,
    Column,
    Compare,
    CompareColumns,
    Constant,
    In,
    InKeys,
    IsNull,
    Not,
    Or,
    StringMatch,
)
from twostage.predicates.value_range import ValueRange, order_key, value_range
from twostage.schema import Primitive

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from twostage.predicates.predicate import Predicate
    from twostage.predicates.value_range import BoundsOf

_T, _F, _N = 1, 2, 4
_ANY = _T | _F | _N
"""Truth values (TRUE, FALSE, NULL) as bits of a set."""

MAX_CACHED_LISTS = 64
"""Sorted IN lists in the cache."""


class Match(enum.IntEnum):
    """For how many rows a predicate is TRUE: none, some (or unknown), all."""

    NONE = 0
    SOME = 1
    ALL = 2


def match(predicate: Predicate, bounds_of: BoundsOf, num_rows: int | None = None) -> Match:
    """Return for how many of the rows that `bounds_of` describes the predicate is TRUE.

    Args:
        predicate: Any tree; `Unknown` leaves prove nothing.
        bounds_of: Returns the bounds of a field over the rows, by field id; None if nothing is known.
        num_rows: The number of rows, if known.

    >>> from twostage.predicates.bounds import Bounds
    >>> column = Column(1, ("a",), Primitive("int"))
    >>> match(Compare(">", column, 9), lambda _: Bounds(lower=1, upper=7)).name
    'NONE'
    >>> match(Compare(">", column, 0), lambda _: Bounds(lower=1, upper=7, null_count=0)).name
    'ALL'
    """
    if num_rows == 0:
        return Match.NONE
    outcomes = _outcomes(predicate, bounds_of, num_rows)
    if not outcomes & _T:
        return Match.NONE
    return Match.ALL if outcomes == _T else Match.SOME


def _tables() -> tuple[list[list[int]], list[list[int]]]:
    """Return the AND and OR tables of sets of truth values: the result for each combination of members."""

    def both(a: int, b: int) -> int:
        return _F if _F in (a, b) else _N if _N in (a, b) else _T

    def either(a: int, b: int) -> int:
        return _T if _T in (a, b) else _N if _N in (a, b) else _F

    def table(combine: Callable[[int, int], int]) -> list[list[int]]:
        rows = [[0] * 8 for _ in range(8)]
        for left in range(8):
            for right in range(8):
                for a in (_T, _F, _N):
                    for b in (_T, _F, _N):
                        if left & a and right & b:
                            rows[left][right] |= combine(a, b)
        return rows

    return table(both), table(either)


_AND, _OR = _tables()


def _outcomes(predicate: Predicate, bounds_of: BoundsOf, num_rows: int | None) -> int:
    match predicate:
        case And(children) | Or(children):
            table, result, absorbing = (_AND, _T, _F) if isinstance(predicate, And) else (_OR, _F, _T)
            for child in children:
                result = table[result][_outcomes(child, bounds_of, num_rows)]
                if result == absorbing:
                    break
            return result
        case Not(child):
            outcomes = _outcomes(child, bounds_of, num_rows)
            return (outcomes & _N) | (_F if outcomes & _T else 0) | (_T if outcomes & _F else 0)
        case Constant(value):
            return _N if value is None else _T if value else _F
        case Compare(op, column, value):
            values = value_range(column, bounds_of, num_rows)
            return _compared(op, column, value, values)
        case In():
            return _listed(predicate, value_range(predicate.column, bounds_of, num_rows))
        case InKeys():
            return _among_keys(predicate, value_range(predicate.column, bounds_of, num_rows))
        case IsNull(column):
            values = value_range(column, bounds_of, num_rows)
            return (_T if values.may_null else 0) | (_F if values.may_value else 0)
        case StringMatch():
            return _string_matched(predicate, value_range(predicate.column, bounds_of, num_rows))
        case CompareColumns(op, left, right):
            if left.value_type != right.value_type:
                return _ANY
            return _columns_compared(
                op, value_range(left, bounds_of, num_rows), value_range(right, bounds_of, num_rows)
            )
    return _ANY


def _compared(op: str, column: Column, value: Any, values: ValueRange) -> int:
    kind = column.value_type
    key = order_key(kind, value) if isinstance(kind, Primitive) else None
    null = (_F if op == "<=>" else _N) if values.may_null else 0
    if not values.may_value:
        return null
    if key is None:
        return null | (_T | _F)
    return null | _ordered("=" if op == "<=>" else op, values, ValueRange(key, key, single=True))


def _ordered(op: str, left: ValueRange, right: ValueRange) -> int:
    """Return the possible outcomes of comparing any value of `left` with any of `right`; neither is NULL."""
    match op:
        case "=":
            apart = _before(left.upper, right.lower) or _before(right.upper, left.lower)
            equal = left.single and right.single and left.lower == right.lower
            return _F if apart else _T if equal else _T | _F
        case "<>":
            outcomes = _ordered("=", left, right)
            return {_T: _F, _F: _T}.get(outcomes, _T | _F)
        case "<":
            if _before(left.upper, right.lower):
                return _T
            return _F if _not_after(right.upper, left.lower) else _T | _F
        case "<=":
            if _not_after(left.upper, right.lower):
                return _T
            return _F if _before(right.upper, left.lower) else _T | _F
        case ">":
            return _ordered("<", right, left)
        case ">=":
            return _ordered("<=", right, left)
    return _T | _F


def _before(upper: Any, lower: Any) -> bool:
    return upper is not None and lower is not None and bool(upper < lower)


def _not_after(upper: Any, lower: Any) -> bool:
    return upper is not None and lower is not None and bool(upper <= lower)


def _columns_compared(op: str, left: ValueRange, right: ValueRange) -> int:
    outcomes = _ordered("=" if op == "<=>" else op, left, right) if left.may_value and right.may_value else 0
    if op != "<=>":
        return outcomes | (_N if left.may_null or right.may_null else 0)
    if left.may_null and right.may_null:
        outcomes |= _T
    if (left.may_null and right.may_value) or (right.may_null and left.may_value):
        outcomes |= _F
    return outcomes


_SORTED: dict[int, tuple[In, Sequence[Any] | None]] = {}


def _sorted_keys(leaf: In) -> Sequence[Any] | None:
    """Return the distinct order keys of an IN list, ascending; None if a value has no order key.

    Cached by the leaf's identity: sorting 10,000 values takes milliseconds, and planning evaluates the same leaf for
    each file.
    """
    cached = _SORTED.get(id(leaf))
    if cached is not None and cached[0] is leaf:
        return cached[1]
    kind = leaf.column.value_type
    keys: list[Any] = [
        order_key(kind, value) if isinstance(kind, Primitive) else None for value in leaf.values
    ]
    result = None if any(key is None for key in keys) else sorted(set(keys))
    if len(_SORTED) >= MAX_CACHED_LISTS:
        _SORTED.clear()
    _SORTED[id(leaf)] = (leaf, result)
    return result


def _listed(leaf: In, values: ValueRange) -> int:
    null = _N if values.may_null else 0
    miss = _N if leaf.has_null else _F
    if not values.may_value:
        return null
    keys = _sorted_keys(leaf)
    if keys is None:
        return null | _T | _F | miss
    start = 0 if values.lower is None else bisect_left(keys, values.lower)
    end = len(keys) if values.upper is None else bisect_right(keys, values.upper)
    if start >= end:
        return null | miss
    lower, upper = values.lower, values.upper
    whole = isinstance(lower, int) and isinstance(upper, int) and end - start == upper - lower + 1
    if values.single or whole:
        return null | _T  # every value within the bounds is listed
    return null | _T | miss


def _among_keys(leaf: InKeys, values: ValueRange) -> int:
    null = _N if values.may_null else 0
    if not values.may_value:
        return null
    coverage = key_coverage(leaf.keys, leaf.column.value_type, values.lower, values.upper)
    return null | {KeyCoverage.NONE: _F, KeyCoverage.SOME: _T | _F, KeyCoverage.ALL: _T}[coverage]


def _string_matched(leaf: StringMatch, values: ValueRange) -> int:
    null = _N if values.may_null else 0
    if not values.may_value:
        return null
    lower, upper, text = values.lower, values.upper, leaf.value
    if order_key(Primitive("string"), text) is None:
        return null | _T | _F
    if values.single and isinstance(lower, str):
        return null | (_T if _holds(leaf.kind, lower, text) else _F)
    if not text:
        return null | _T
    if leaf.kind == "prefix":
        low = lower if isinstance(lower, str) else ""
        high = upper if isinstance(upper, str) else None
        if (high is not None and high < text) or (low > text and not low.startswith(text)):
            return null | _F
        if high is not None and low.startswith(text) and high.startswith(text):
            return null | _T  # strings with a common prefix are contiguous, so truncated bounds prove it too
    return null | _T | _F


def _holds(kind: str, value: str, text: str) -> bool:
    if kind == "prefix":
        return value.startswith(text)
    return value.endswith(text) if kind == "suffix" else text in value
