"""Random join keys in every form that the planner sends, and which rows have them, in plain Python.

Takes a random generator, columns and live rows; returns `InKeys`, `InTuples`, lists and ranges with the
values that they were made from. The hashes of tuples are Spark's ``xxhash64``, from its definition.
"""

from __future__ import annotations

import math
import struct
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import xxhash

import oracle
import random_values
from twostage.predicates import predicate as tree
from twostage.predicates.key_set import FLOATS, key_set, takes_keys
from twostage.predicates.key_tuples import takes_tuples
from twostage.schema import Primitive

if TYPE_CHECKING:
    import random
    from collections.abc import Mapping, Sequence

    Row = Mapping[int, Any]

_WIDER = {"int": ("long",), "float": ("double",)}


class DrawnKeys:
    """Draws join keys for the columns of a table.

    Args:
        pick: The source of randomness.
        columns: The columns that may have keys.
        rows: Live rows, the source of most keys.
    """

    def __init__(self, pick: random.Random, columns: Sequence[tree.Column], rows: Sequence[Row]) -> None:
        self._pick, self._columns, self._rows = pick, columns, rows
        self._values: dict[bytes, set[Any]] = {}
        """The values of sets, by the sets' bytes."""

    def draw(self) -> tree.Predicate | None:
        """Return keys of one or several columns; None if the columns drawn have no such form."""
        draws = (self._set, self._set, self._tuples, self._list, self._range)
        return self._pick.choice(draws)()

    def evaluate(self, predicate: tree.Predicate, row: Row) -> bool | None:
        """Return TRUE, FALSE or NULL (None), as `oracle.evaluate` does."""
        match predicate:
            case tree.Not(child):
                found = self.evaluate(child, row)
                return None if found is None else not found
            case tree.And(children):
                results = [self.evaluate(child, row) for child in children]
                return False if False in results else None if None in results else True
            case tree.Or(children):
                results = [self.evaluate(child, row) for child in children]
                return True if True in results else None if None in results else False
            case tree.InKeys(column, keys):
                value = oracle._value(column, row)
                return None if value is None else _joined(value) in self._values[keys.data]
            case tree.InTuples(columns, keys):
                values = [oracle._value(column, row) for column in columns]
                return None if None in values else tuple(map(_joined, values)) in self._values[keys.data]
            case tree.CompareLength(op, column, value):
                text = oracle._value(column, row)
                return oracle._compare(op, None if text is None else len(text), value)
        return oracle.evaluate(predicate, row)

    def _value_of(self, column: tree.Column) -> Any:
        """Return a value of a live row, or another one; None if it is NULL."""
        row = self._pick.choice(self._rows) if self._rows and self._pick.random() < 0.7 else None
        value = random_values.draw(self._pick, str(column.type)) if row is None else row.get(column.field_id)
        return oracle._value(column, {column.field_id: value})

    def _set(self) -> tree.Predicate | None:
        drawn = [self._widened(column) for column in self._columns]
        fitting = [column for column in drawn if takes_keys(column.value_type)]
        if not fitting:
            return None
        column = self._pick.choice(fitting)
        values = {self._value_of(column) for _ in range(self._pick.choice((1, 4, 15)))} - {None}
        if not values:
            return None
        if column.value_type.name in ("int", "long", "date") and self._pick.random() < 0.2:  # no gaps
            first = min(values)
            values = set(range(first, min(first + self._pick.choice((1, 10, 60)), 2**31)) or [first])
        numbers = np.unique(np.array([_number(value, column.value_type) for value in values], np.int64))
        keys = key_set(numbers)
        self._values[keys.data] = {_joined(value) for value in values}
        return tree.InKeys(column, keys)

    def _tuples(self) -> tree.Predicate | None:
        fitting = [column for column in self._columns if takes_tuples(column.type)]
        if len(fitting) < 2:
            return None
        columns = tuple(self._pick.sample(fitting, min(len(fitting), self._pick.choice((2, 2, 3)))))
        tuples = set()
        for _ in range(self._pick.choice((1, 4, 20))):
            row = self._pick.choice(self._rows) if self._rows else {}
            found = tuple(row.get(column.field_id) for column in columns)
            tuples.add(tuple(map(self._value_of, columns)) if None in found else found)
        tuples = {one for one in tuples if None not in one}
        if not tuples:
            return None
        hashes = np.array([_hash(one, [column.type for column in columns]) for one in tuples], np.int64)
        keys = key_set(np.unique(hashes))
        self._values[keys.data] = {tuple(map(_joined, one)) for one in tuples}
        return tree.InTuples(columns, keys)

    def _some(self) -> tuple[tree.Column, list[Any]]:
        column = self._pick.choice(self._columns)
        values = {self._value_of(column) for _ in range(self._pick.choice((1, 2, 8)))} - {None}
        return column, sorted(values, key=oracle._order)

    def _list(self) -> tree.Predicate | None:
        column, values = self._some()
        return tree.In(column, tuple(values)) if values else None

    def _range(self) -> tree.Predicate | None:
        column, values = self._some()
        if not values:
            return None
        return tree.And((tree.Compare(">=", column, values[0]), tree.Compare("<=", column, values[-1])))

    def _widened(self, column: tree.Column) -> tree.Column:
        wider = self._pick.choice((None, *_WIDER.get(column.type.name, ())))
        return replace(column, cast=None if wider is None else Primitive(wider))


def _joined(value: Any) -> Any:
    """Return the value that a join compares: all NaN are equal, and -0.0 is 0.0."""
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else value + 0.0
    return value


def _number(value: Any, kind: Primitive) -> int:
    """Return the integer that represents a key in a set."""
    if kind.name in FLOATS:
        (bits,) = struct.unpack("<q", struct.pack("<d", math.nan if math.isnan(value) else value + 0.0))
        return int(bits) if bits >= 0 else int(bits) ^ (2**63 - 1)
    return int(value.scaleb(kind.scale)) if kind.name == "decimal" else int(value)


def _hash(values: Sequence[Any], kinds: Sequence[Primitive]) -> int:
    """Return Spark's ``xxhash64`` of several columns, signed."""
    seed = 42
    for value, kind in zip(values, kinds, strict=True):
        if kind.name == "string":
            raw = value.encode()
        elif kind.name in FLOATS:
            number = math.nan if math.isnan(value) else value + 0.0
            raw = struct.pack("<f" if kind.name == "float" else "<d", number)
        elif kind.name in ("int", "date"):
            raw = struct.pack("<i", value)
        else:
            raw = struct.pack("<q", _number(value, kind))
        seed = xxhash.xxh64(raw, seed=seed).intdigest()
    return seed - 2**64 if seed >= 2**63 else seed
