"""What a leaf of a predicate asks of a column's keys: single keys, or an interval of them.

Takes a leaf, and the type that its column had when it was indexed; gives a `Wanted`, or None where keys cannot tell. The
rule: exactly the non-NULL values for which the leaf is TRUE, or with `is_negated` FALSE, are wanted; a literal that the
column cannot hold is restated as one that it can, never rounded.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from twostage.indexes.keys import (
    float_keys,
    hash_bytes,
    hash_numbers,
    hash_words,
    is_same_domain,
    key_class,
)
from twostage.predicates.literals import as_integers, as_texts, as_whole, as_words
from twostage.predicates.predicate import (
    And,
    Compare,
    CompareLength,
    HasElement,
    In,
    Or,
    StringMatch,
    leaves,
)
from twostage.schema import Primitive
from twostage_native.members import canonical_bits

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from twostage.indexes.keys import KeyClass
    from twostage.predicates.predicate import Column, Predicate

    Leaf: TypeAlias = "Compare | HasElement | In | StringMatch | CompareLength | Range"

_LEAST, _GREATEST = -(2**127), 2**127 - 1
"""Limits of any number's key."""
_LONG_LEAST, _LONG_GREATEST = -(2**63), 2**63 - 1


@dataclass(frozen=True, slots=True)
class Interval:
    """Keys from `low` to `high`, both inclusive; bytes for text, where `high` is exclusive and None is no limit.

    Empty where `low` is greater than `high`.
    """

    low: int | bytes
    high: int | bytes | None


@dataclass(frozen=True, slots=True, eq=False)
class Wanted:
    """What a leaf asks for.

    Attributes:
        key_class: Of the column.
        intervals: Of keys, ascending and disjoint. Those of single values hold one key each.
        points: For single values their hashes (uint64), one for each; None for an interval.
        is_negated: The leaf is TRUE for the non-NULL values that are *not* wanted.
    """

    key_class: KeyClass
    intervals: tuple[Interval, ...]
    points: NDArray[np.uint64] | None
    is_negated: bool = False


@dataclass(frozen=True, slots=True)
class Range:
    """Two comparisons of one column that must both be TRUE: ``>`` or ``>=``, and ``<`` or ``<=``."""

    low: Compare
    high: Compare

    @property
    def column(self) -> Column:
        """The column that both compare."""
        return self.low.column


def wanted_of(leaf: Leaf, built: Primitive) -> Wanted | None:
    """Return what a leaf asks of the keys of a column that had the type `built` when it was indexed."""
    if isinstance(leaf, HasElement):
        return wanted_of(Compare("=", leaf.element, leaf.value), built)
    column = leaf.column
    own = key_class(built)
    if own is None or not isinstance(column.type, Primitive) or not is_same_domain(built, column.type):
        return None
    match leaf:
        case Compare("<>", _, value):
            found = _equal(own, built, column, (value,))
            return None if found is None else Wanted(own, found.intervals, found.points, is_negated=True)
        case Compare("=" | "<=>", _, value):
            return _equal(own, built, column, (value,))
        case Compare(op, _, value):
            interval = _ordered(own, built, column, op, value)
            return None if interval is None else Wanted(own, (interval,), None)
        case In(_, values):
            return _equal(own, built, column, values)
        case Range(low, high):
            first, last = (_ordered(own, built, column, one.op, one.value) for one in (low, high))
            if first is None or last is None:
                return None
            return Wanted(own, (_shared(first, last),), None)
        case StringMatch("prefix", _, value) if own == "text" and column.cast is None:
            prefix = value.encode("utf-8", "surrogatepass")
            return Wanted(own, (Interval(prefix, after_prefix(prefix)),), None)
    return None


def ranges_in(predicate: Predicate) -> list[Range]:
    """Return the ranges in a predicate whose NOTs are around leaves: children of one AND that compare one column.

    A comparison in several places, as in a filter in disjunctive normal form, is part of none: elsewhere it may lack its
    counterpart.
    """
    times = Counter(map(id, leaves(predicate)))
    return [one for one in _neighbours(predicate) if times[id(one.low)] == times[id(one.high)] == 1]


def _neighbours(predicate: Predicate) -> list[Range]:
    if isinstance(predicate, Or):
        return [one for child in predicate.children for one in _neighbours(child)]
    if not isinstance(predicate, And):
        return []
    found = [one for child in predicate.children for one in _neighbours(child)]
    lows: dict[Column, Compare] = {}
    highs: dict[Column, Compare] = {}
    for child in predicate.children:
        if isinstance(child, Compare) and child.op in (">", ">="):
            lows.setdefault(child.column, child)
        elif isinstance(child, Compare) and child.op in ("<", "<="):
            highs.setdefault(child.column, child)
    return found + [Range(low, highs[column]) for column, low in lows.items() if column in highs]


def after_prefix(prefix: bytes) -> bytes | None:
    """Return the least text that is greater than all with this prefix; None if there is none.

    >>> after_prefix(b"ab"), after_prefix(bytes([97, 255])), after_prefix(b"")
    (b'ac', b'b', None)
    """
    stripped = prefix.rstrip(b"\xff")
    return stripped[:-1] + bytes([stripped[-1] + 1]) if stripped else None


def _equal(own: KeyClass, built: Primitive, column: Column, values: tuple[Any, ...]) -> Wanted | None:
    cast = _cast_of(own, column)
    if cast is None:
        return None
    if cast == "nanoseconds":
        if len(values) != 1:
            return None
        low = int(values[0]) * 1000
        return Wanted(own, (_clipped(low, low + 999),), None)
    match own:
        case "text":
            offsets, data = as_texts(values)
            texts = [data[a:b].tobytes() for a, b in itertools.pairwise(offsets)]
            points = tuple(Interval(text, text + b"\0") for text in sorted(texts))
            return Wanted(own, points, hash_bytes(offsets, data))
        case "float":
            bits = np.unique(canonical_bits(np.array(values, np.float64)))
            keys = np.unique(float_keys(bits.view(np.float64))).tolist()
            return Wanted(own, tuple(Interval(key, key) for key in keys), hash_numbers(bits))
        case "decimal":
            words = as_words(values, built.scale)
            keys = sorted((high << 64) | (low % 2**64) for low, high in words.tolist())
            return Wanted(own, tuple(Interval(key, key) for key in keys), hash_words(words))
    if cast == "double":
        values = tuple(Decimal(value) for value in values if math.isfinite(value))
    whole = as_integers([int(value) if isinstance(value, bool) else value for value in values])
    return Wanted(own, tuple(Interval(key, key) for key in whole.tolist()), hash_numbers(whole))


def _ordered(own: KeyClass, built: Primitive, column: Column, op: str, value: Any) -> Interval | None:
    """Return the interval of ``column op value`` for one of <, <=, >, >=."""
    cast = _cast_of(own, column)
    if cast is None:
        return None
    if own == "text":
        text = value.encode("utf-8", "surrogatepass") if isinstance(value, str) else bytes(value)
        after = text + b"\0"
        return {
            "<": Interval(b"", text),
            "<=": Interval(b"", after),
            ">": Interval(after, None),
            ">=": Interval(text, None),
        }[op]
    if own == "float":
        (key,) = float_keys(np.array([value], np.float64)).tolist()
        return _interval(op, key, _LONG_LEAST, _LONG_GREATEST)
    if cast == "nanoseconds":
        floor = int(value) * 1000
        return _interval(
            {"<=": "<", ">": ">="}.get(op, op), floor + 1000 * (op in ("<=", ">")), _LEAST, _GREATEST
        )
    if cast == "double" and not math.isfinite(value):
        is_below = value == -math.inf
        is_all = (op in ("<", "<=")) != is_below
        return Interval(_LEAST, _GREATEST) if is_all else Interval(1, 0)
    if isinstance(value, bool):
        value = int(value)
    exact = Decimal(value) if isinstance(value, float) else value
    restated = as_whole(op, exact, built.scale if own == "decimal" else 0, 128)
    if isinstance(restated, bool):
        return Interval(_LEAST, _GREATEST) if restated else Interval(1, 0)
    return _interval(*restated, _LEAST, _GREATEST)


def _interval(op: str, key: int, least: int, greatest: int) -> Interval:
    match op:
        case "<":
            return Interval(least, key - 1)
        case "<=":
            return Interval(least, key)
        case ">":
            return Interval(key + 1, greatest)
    return Interval(key, greatest)


def _shared(first: Interval, last: Interval) -> Interval:
    """Return what two intervals have in common, the first without an upper limit and the last without a lower one."""
    if isinstance(first.low, int) and isinstance(last.high, int):  # either may be empty
        assert isinstance(first.high, int)
        assert isinstance(last.low, int)
        return Interval(max(first.low, last.low), min(first.high, last.high))
    return Interval(first.low, last.high)


def _clipped(low: int, high: int) -> Interval:
    return Interval(max(low, _LEAST), min(high, _GREATEST))


def _cast_of(own: KeyClass, column: Column) -> str | None:
    """Return what a column's cast means for its keys: ``same``, ``double`` or ``nanoseconds``; None: it rounds."""
    cast, kind = column.cast, column.type
    if cast is None or cast == kind:
        return "same"
    assert isinstance(kind, Primitive)
    if own == "integer" and f"{cast.name}_ns" == kind.name:
        return "nanoseconds"
    match own, cast.name:
        case ("integer", "long" | "decimal") | ("float", "double"):
            return "same"
        case "decimal", "decimal":
            return "same"
        case "integer", "double" if kind.name == "int":
            return "double"
    return None
