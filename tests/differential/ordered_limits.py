"""A random ORDER BY … LIMIT, and whether the rows that a scan returns hold the first ones, as a plain sort finds them."""

from __future__ import annotations

import struct
from collections import Counter
from typing import TYPE_CHECKING, Any

from twostage.predicates.predicate import Column
from twostage.predicates.top import TopRows

if TYPE_CHECKING:
    import random

    from twostage.schema import Field


def rank(value: Any, top: TopRows) -> tuple[bool, Any]:
    """Return what sorts as the query asks; `value` is NULL or of the form that `oracle.exact` gives."""
    if value is None:
        return (not top.nulls_first, 0)
    kind, held = value
    if kind == "float":  # NaN last, 0.0 with -0.0
        held = (1, 0.0) if held == "nan" else (0, struct.unpack("<d", held)[0])
    elif kind == "str":
        held = held.encode()
    return (top.nulls_first, Reversed(held) if top.descending else held)


class Reversed:
    """A key that sorts the other way round."""

    def __init__(self, key: Any) -> None:
        self.key = key

    def __lt__(self, other: Reversed) -> bool:
        return bool(other.key < self.key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Reversed) and bool(other.key == self.key)

    def __hash__(self) -> int:
        return hash(self.key)


def random_top(pick: random.Random, fields: tuple[Field, ...]) -> TopRows:
    kinds = sorted({field.type.name for field in fields})
    kind = pick.choice(kinds)
    field = pick.choice([field for field in fields if field.type.name == kind])
    return TopRows(
        column=Column(field.id, (field.name,), field.type),
        count=pick.choice((1, 2, 3, 5, 9, 20, 50)),
        descending=pick.random() < 0.5,
        nulls_first=pick.random() < 0.5,
        has_more_keys=pick.random() < 0.5,
    )


def check_top(
    found: list[tuple[Any, ...]], expected: list[tuple[Any, ...]], top: TopRows, place: str
) -> None:
    """Compare what was returned with all rows, sorted; the first column is the key."""
    assert not Counter(found) - Counter(expected), f"{place}: rows that are none"
    ranks = sorted(rank(row[0], top) for row in expected)[: top.count]
    assert sorted(rank(row[0], top) for row in found)[: top.count] == ranks, place
    if top.has_more_keys and len(ranks) == top.count:
        needed = [row for row in expected if not ranks[-1] < rank(row[0], top)]
        assert not Counter(needed) - Counter(found), f"{place}: rows equal to the last are missing"
