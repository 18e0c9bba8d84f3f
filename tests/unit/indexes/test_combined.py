"""What indexes say of predicates: bounds that hold for every truth value that a leaf without an answer may have."""

from __future__ import annotations

import itertools
import random

import pytest

from twostage.indexes import bitmaps
from twostage.indexes.answer import IndexAnswer
from twostage.indexes.combined import combine, every_row, never_true, no_row, unknown
from twostage.predicates.predicate import And, Column, Compare, Not, Or
from twostage.schema import Primitive

ROWS = 27


def leaf(name: str) -> Compare:
    return Compare("=", Column(1, (name,), Primitive("int")), 1)


def truth(predicate, values):
    """Evaluate with Kleene's tables."""
    match predicate:
        case And(children):
            found = [truth(one, values) for one in children]
            return False if False in found else None if None in found else True
        case Or(children):
            found = [truth(one, values) for one in children]
            return True if True in found else None if None in found else False
        case Not(child):
            found = truth(child, values)
            return None if found is None else not found
    return values[id(predicate)]


def drawn(pick, leaves, depth):
    if depth == 0 or pick.random() < 0.2:
        return pick.choice(leaves)
    if pick.random() < 0.3:
        return Not(drawn(pick, leaves, depth - 1))
    children = tuple(drawn(pick, leaves, depth - 1) for _ in range(pick.choice((1, 2, 3))))
    return pick.choice((And, Or))(children)


@pytest.mark.parametrize("seed", range(200))
def test_bounds_hold_for_every_row(seed):
    """Each row is one combination of the three leaves' truth values."""
    pick = random.Random(seed)
    leaves = [leaf(name) for name in "abc"]
    rows = list(itertools.product((True, False, None), repeat=3))
    answers = {}
    for place, one in enumerate(leaves[: pick.choice((1, 2, 3))]):
        true = {n for n, values in enumerate(rows) if values[place] is True}
        null = {n for n, values in enumerate(rows) if values[place] is None}
        false = set(range(ROWS)) - true - null
        spare = set(pick.sample(sorted(false), pick.choice((0, 3))))
        sure = set(pick.sample(sorted(true), len(true) - pick.choice((0, 4))))
        answers[id(one)] = IndexAnswer.of_leaf(
            ROWS,
            possible=bitmaps.of_rows(sorted(true | spare)),
            certain=bitmaps.of_rows(sorted(sure)),
            null=bitmaps.of_rows(sorted(null)),
        )
    predicate = drawn(pick, leaves, 3)
    found = combine(predicate, answers, ROWS)
    for number, values in enumerate(rows):
        known = truth(predicate, {id(one): value for one, value in zip(leaves, values, strict=True)})
        assert (number in found.certain) <= (known is True) <= (number in found.possible), f"seed {seed}"
        is_not_false = known is not False
        assert (number in found.certain_not_false) <= is_not_false <= (number in found.possible_not_false)


def test_what_is_known_of_all_rows():
    every, none = set(range(4)), set()
    for answer, expected in (
        (every_row(4), (every, every)),
        (no_row(4), (none, none)),
        (never_true(4), (none, none)),
        (unknown(4), (every, none)),
        (~every_row(4), (none, none)),
        (~no_row(4), (every, every)),
        (~never_true(4), (every, none)),  # of a row that is NULL, the NOT is too
        (~unknown(4), (every, none)),
        (combine(And(()), {}, 4), (every, every)),
        (combine(Or(()), {}, 4), (none, none)),
    ):
        assert (set(answer.possible), set(answer.certain)) == expected
