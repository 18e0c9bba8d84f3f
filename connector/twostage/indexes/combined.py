"""What indexes say about a whole predicate, by what they say about its leaves.

Takes a predicate and the answers of some of its leaves; gives an `IndexAnswer`. The rule: a leaf without an answer may be
anything, so that an AND is narrowed by its other parts, and an OR is TRUE where one of them is certain.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from twostage.indexes import bitmaps
from twostage.indexes.answer import IndexAnswer
from twostage.predicates import predicate as tree

if TYPE_CHECKING:
    from collections.abc import Mapping

    from twostage.predicates.predicate import Predicate


def combine(predicate: Predicate, answers: Mapping[int, IndexAnswer], num_rows: int) -> IndexAnswer:
    """Return for which rows of a data file a predicate is TRUE, at most and at least.

    Args:
        predicate: Any tree.
        answers: By the `id` of a leaf.
        num_rows: Of the data file.
    """
    match predicate:
        case tree.And(children) | tree.Or(children):
            # AND of nothing is TRUE, OR of nothing FALSE.
            found = every_row(num_rows) if isinstance(predicate, tree.And) else no_row(num_rows)
            for child in children:
                other = combine(child, answers, num_rows)
                found = found & other if isinstance(predicate, tree.And) else found | other
            return found
        case tree.Not(child):
            return ~combine(child, answers, num_rows)
    return answers.get(id(predicate)) or unknown(num_rows)


def every_row(num_rows: int) -> IndexAnswer:
    """Return the answer of a predicate that is TRUE for every row."""
    every = bitmaps.whole(num_rows)
    return IndexAnswer.of_leaf(num_rows, possible=every, certain=every, null=bitmaps.whole(0))


def no_row(num_rows: int) -> IndexAnswer:
    """Return the answer of a predicate that is FALSE for every row."""
    none = bitmaps.whole(0)
    return IndexAnswer.of_leaf(num_rows, possible=none, certain=none, null=none)


def never_true(num_rows: int) -> IndexAnswer:
    """Return the answer of a predicate that is FALSE or NULL for every row, it is unknown which."""
    every, none = bitmaps.whole(num_rows), bitmaps.whole(0)
    return IndexAnswer(
        num_rows=num_rows,
        possible=none,
        certain=none,
        possible_not_false=every,
        certain_not_false=none,
    )


def unknown(num_rows: int) -> IndexAnswer:
    """Return the answer of a predicate that may be anything for any row."""
    every, none = bitmaps.whole(num_rows), bitmaps.whole(0)
    return IndexAnswer(
        num_rows=num_rows,
        possible=every,
        certain=none,
        possible_not_false=every,
        certain_not_false=none,
    )
