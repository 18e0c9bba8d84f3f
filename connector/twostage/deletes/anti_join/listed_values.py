"""The few distinct values of a key column in some rows, for which delete files are searched before a probe.

Takes a key column's comparable form; returns its values, if they are few and of a type that bounds and Arrow
compare as Iceberg does. The rule: a key that equals a row has a listed value in each listed column; equality
itself is not decided here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from twostage.deletes.keys.encoding import TEXT
from twostage.deletes.keys.hash_table import MAX_KEYS_TO_COMPARE
from twostage.predicates.predicate import Column, In, IsNull, both, either

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from twostage.deletes.keys.encoding import KeyColumn
    from twostage.deletes.keys.key_columns import KeyField
    from twostage.predicates.predicate import Predicate

MAX_LISTED_VALUES = 4096
"""Distinct values of a key column, by which delete files and their row groups are skipped; they take 1 ms to
collect."""
NUMBERS = frozenset("int long date time timestamp timestamptz timestamp_ns timestamptz_ns".split())
"""Types whose key words are compared as integers."""


@dataclass(frozen=True, slots=True, eq=False)
class ListedValues:
    """Distinct values of a key column.

    Attributes:
        plain: The values in Iceberg's internal form: int, or bytes for text.
        may_null: Whether NULL is among them.
        array: The same values for Arrow: uint64 words, or large_binary.
    """

    plain: tuple[Any, ...]
    may_null: bool
    array: pa.Array

    def among(self, column: KeyColumn) -> NDArray[np.bool_]:
        """Return which rows of a key column have one of the values, a bool each."""
        found: NDArray[np.bool_]
        if column.valid is not None and not column.valid.any():
            # A file that lacks the column yields words even for text.
            return np.full(len(column.words), self.may_null)
        if column.text is None and len(self.array) <= MAX_KEYS_TO_COMPARE:
            found = np.zeros(len(column.words), np.bool_)
            for word in self.array.to_numpy():
                found |= column.words[:, 0] == word
        else:
            given = pa.array(column.words[:, 0]) if column.text is None else column.text
            found = np.asarray(pc.is_in(given, self.array))
        if column.valid is not None:
            found = np.where(column.valid, found, self.may_null)
        return found


def list_values(key: KeyField, columns: Iterable[KeyColumn]) -> ListedValues | None:
    """Return the values of one key column of several row groups; None if they are many, or of another type."""
    name = key.kind.name
    if name not in NUMBERS and name not in ("string", "binary"):
        return None
    values: set[Any] = set()
    may_null = False
    for one in columns:
        if len(one.words) > 2 * MAX_LISTED_VALUES:
            return None
        valid = np.ones(len(one.words), np.bool_) if one.valid is None else one.valid
        may_null |= not valid.all()
        if name in TEXT:
            assert one.text is not None
            values.update(text for text in one.text.to_pylist() if text is not None)
        else:
            values.update(one.words[valid, 0].view(np.int64).tolist())
        if len(values) > MAX_LISTED_VALUES:
            return None
    plain = tuple(values)
    if name in TEXT:
        return ListedValues(plain, may_null, pa.array(plain, pa.large_binary()))
    return ListedValues(plain, may_null, pa.array(np.array(plain, np.int64).view(np.uint64)))


def is_one_of(key: KeyField, values: ListedValues) -> Predicate:
    """Return the predicate that tests whether the column has one of these values."""
    column = Column(key.field.id, key.names, key.kind)
    plain = values.plain
    if key.kind.name == "string":
        try:
            plain = tuple(text.decode() for text in plain)
        except UnicodeDecodeError:
            return both()
    known = In(column, plain) if plain else either()
    return either(known, IsNull(column)) if values.may_null else known
