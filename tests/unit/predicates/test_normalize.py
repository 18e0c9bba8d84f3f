"""Normal forms keep every predicate's truth value, NULL included, and have the form they promise."""

from __future__ import annotations

import itertools
import random

import pytest

from random_predicates import answer
from twostage.predicates.normalize import MAX_LEAVES, normalize, pull_common_factors
from twostage.predicates.predicate import (
    And,
    Column,
    Compare,
    Constant,
    In,
    IsNull,
    Not,
    Or,
    conjuncts,
    leaves,
)
from twostage.schema import Primitive

FLAGS = [Column(i, (name,), Primitive("boolean")) for i, name in enumerate("abcd")]
LEAVES = [Compare("=", column, True) for column in FLAGS]
ROWS = list(itertools.product([True, False, None], repeat=len(FLAGS)))


def random_tree(rng, depth):
    if depth == 0 or rng.random() < 0.2:
        roll = rng.random()
        if roll < 0.1:
            return Constant(rng.choice([True, False, None]))
        column = rng.choice(FLAGS)
        return (
            IsNull(column)
            if roll < 0.25
            else Compare(rng.choice(["=", "<>", "<=>"]), column, rng.random() < 0.5)
        )
    if rng.random() < 0.25:
        return Not(random_tree(rng, depth - 1))
    children = tuple(random_tree(rng, depth - 1) for _ in range(rng.randint(2, 3)))
    return rng.choice([And, Or])(children)


def is_literal(predicate):
    return not isinstance(predicate.child if isinstance(predicate, Not) else predicate, And | Or | Not)


def has_form(predicate, outer, inner):
    clauses = predicate.children if isinstance(predicate, outer) else (predicate,)
    return all(
        all(map(is_literal, clause.children)) if isinstance(clause, inner) else is_literal(clause)
        for clause in clauses
    )


@pytest.mark.parametrize("seed", range(8))
def test_truth_is_kept(seed):
    rng = random.Random(seed)
    for _ in range(60):
        predicate = random_tree(rng, rng.randint(1, 3))
        expected = [answer(predicate, row) for row in ROWS]
        for mode, outer, inner in (("cnf", And, Or), ("dnf", Or, And)):
            normal = normalize(predicate, mode)
            assert [answer(normal, row) for row in ROWS] == expected, f"{predicate}\n{normal}"
            assert has_form(normal, outer, inner) or normal == predicate, f"{predicate}\n{normal}"
        pulled = pull_common_factors(predicate)
        assert [answer(pulled, row) for row in ROWS] == expected, f"{predicate}\n{pulled}"
        assert normalize(predicate, "none") is predicate


def test_forms():
    a, b, c, d = LEAVES
    assert normalize(Or((And((a, b)), And((c, d)))), "cnf") == And(
        (Or((a, c)), Or((a, d)), Or((b, c)), Or((b, d)))
    )
    assert normalize(And((Or((a, b)), Or((c, d)))), "dnf") == Or(
        (And((a, c)), And((a, d)), And((b, c)), And((b, d)))
    )
    assert normalize(And((a, Or((a, b)))), "cnf") == a
    assert normalize(Or((And((a, b)), a)), "dnf") == a
    assert normalize(Not(Or((a, b))), "cnf") == And(
        (Compare("<>", FLAGS[0], True), Compare("<>", FLAGS[1], True))
    )


def test_contradictions_stay():
    """x AND NOT x is NULL where x is."""
    predicate = And((LEAVES[0], Not(LEAVES[0])))
    assert answer(normalize(predicate, "dnf"), [None] * 4) is None


def test_blow_up_is_refused():
    columns = [Column(i, (f"c{i}",), Primitive("int")) for i in range(60)]
    pairs = [
        And((Compare("=", a, 1), Compare("=", b, 2)))
        for a, b in zip(columns[::2], columns[1::2], strict=True)
    ]
    predicate = Or(tuple(pairs))
    assert normalize(predicate, "cnf") is predicate
    assert normalize(predicate, "dnf") == predicate
    fits = Or(tuple(pairs[:10]))
    normal = normalize(fits, "cnf")
    assert len(conjuncts(normal)) == 1024 or normal is fits
    assert len(list(leaves(normal))) <= MAX_LEAVES + 1024 * 10


def test_long_lists_count_for_more():
    long = In(Column(0, ("c",), Primitive("int")), tuple(range(10_000)))
    wide = Or(
        (
            long,
            *(
                And((Compare("=", FLAGS[i % 4], True), Compare("=", Column(i, ("x",), Primitive("int")), i)))
                for i in range(8)
            ),
        )
    )
    assert normalize(wide, "cnf") is wide


def test_common_factors():
    a, b, c, _ = LEAVES
    assert pull_common_factors(Or((And((a, b)), And((a, c))))) == And((a, Or((b, c))))
    assert pull_common_factors(Or((And((a, b)), a))) == a
    assert pull_common_factors(Or((And((a, b)), c))) == Or((And((a, b)), c))
    assert pull_common_factors(Not(Or((And((a, b)), And((a, c)))))) == Not(And((a, Or((b, c)))))
