"""A random filter with keys of joins: its own conjuncts, which may hold keys, too, and the keys beside them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from marked_rows import FILE, LAST_UPDATED, POSITION, ROW_ID, SPEC_ID
from twostage.predicates import predicate as tree

if TYPE_CHECKING:
    import random

    from drawn_keys import DrawnKeys
    from random_queries import _Maker

METADATA = (FILE, POSITION, SPEC_ID, ROW_ID, LAST_UPDATED)
"""The metadata columns whose values are drawn from the rows."""


def conjuncts(
    maker: _Maker, keys: DrawnKeys, pick: random.Random
) -> tuple[list[tree.Predicate], list[tree.Predicate]]:
    """Return a filter's own conjuncts, and keys of joins."""
    own = [maker.predicate(pick.choice((0, 1, 2)))] if pick.random() < 0.75 else []
    joined = [one for _ in range(pick.choice((0, 1, 1, 2))) if (one := keys.draw()) is not None]
    texts = [column for column in maker.columns if str(column.value_type) == "string"]
    if texts and pick.random() < 0.3:
        length = tree.CompareLength(pick.choice(tree.COMPARISONS[:-1]), pick.choice(texts), pick.choice((0, 1, 2, 5, 17)))  # fmt: skip
        own.append(pick.choice((length, tree.Or((length, maker.predicate(1))))))
    if joined and pick.random() < 0.3:
        one = joined.pop()
        own.append(pick.choice((tree.Or((one, maker.predicate(1))), tree.Not(one))))
    return own, joined
