"""Answers of indexes against brute force over truth values."""

from __future__ import annotations

import itertools
import random

import pytest
from pyroaring import BitMap

from twostage.indexes.answer import IndexAnswer, LookupCost

T, F, N = True, False, None


def kleene_and(a, b):
    return F if F in (a, b) else N if N in (a, b) else T


def kleene_or(a, b):
    return T if T in (a, b) else N if N in (a, b) else F


def negate(a):
    return None if a is None else not a


def answer_of(truths, unsure):
    """Return the answer of a leaf with these truth values, of which some FALSE or TRUE rows are not known."""
    true = {row for row, value in enumerate(truths) if value is True}
    null = BitMap(row for row, value in enumerate(truths) if value is None)
    return IndexAnswer.of_leaf(
        len(truths),
        possible=BitMap(true | (set(unsure) - set(null))),
        certain=BitMap(true - set(unsure)),
        null=null,
        cost=LookupCost(requests=1, nbytes=10),
        kinds=("values",),
    )


def check(answer, truths):
    true = BitMap(row for row, value in enumerate(truths) if value is True)
    not_false = BitMap(row for row, value in enumerate(truths) if value is not False)
    assert answer.certain <= true <= answer.possible
    assert answer.certain_not_false <= not_false <= answer.possible_not_false


def test_operators_over_all_pairs_of_truth_values():
    pairs = list(itertools.product((T, F, N), repeat=2))
    left, right = [a for a, _ in pairs], [b for _, b in pairs]
    a, b = answer_of(left, ()), answer_of(right, ())
    for made, truths in (
        (a & b, [kleene_and(*pair) for pair in pairs]),
        (a | b, [kleene_or(*pair) for pair in pairs]),
        (~a, [negate(value) for value in left]),
        (~(a & ~b), [negate(kleene_and(x, negate(y))) for x, y in pairs]),
    ):
        check(made, truths)
        assert made.is_exact
        assert made.possible == BitMap(row for row, value in enumerate(truths) if value is True)


def test_random_trees_stay_within_bounds():
    seed = random.randrange(2**32)
    print("seed", seed)
    drawn = random.Random(seed)
    for _ in range(200):
        rows = drawn.randrange(1, 40)
        stack = []
        for _ in range(6):
            truths = [drawn.choice((T, F, N)) for _ in range(rows)]
            stack.append((answer_of(truths, [r for r in range(rows) if drawn.random() < 0.2]), truths))
        while len(stack) > 1:
            (a, x), (b, y) = stack.pop(), stack.pop()
            if drawn.random() < 0.3:
                a, x = ~a, [negate(value) for value in x]
            is_or = drawn.random() < 0.5
            stack.append((a | b if is_or else a & b, list(map(kleene_or if is_or else kleene_and, x, y))))
            check(*stack[-1])


@pytest.mark.parametrize(
    ("possible", "certain", "expected"),
    [
        ([1], [1], "exact"),
        ([], [], "exact"),
        ([1, 2], [], "at most"),
        ([1, 2], [1], "between"),
        ([0, 1, 2], [1], "at least"),
    ],
)
def test_certainty(possible, certain, expected):
    answer = IndexAnswer.of_leaf(3, possible=BitMap(possible), certain=BitMap(certain), null=BitMap())
    assert answer.certainty == expected
    assert answer.unsure == BitMap(set(possible) - set(certain))


def test_costs_and_kinds_add_up():
    one, other = answer_of([T, F], ()), answer_of([F, F], ())
    assert (one & other).cost == LookupCost(requests=2, nbytes=20)
    assert (one | other).kinds == ("values",)
