"""Kleene's logic on arrays: every pair of answers, with and without a mask of NULLs."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from twostage.predicates.truth import Truth

VALUES = (True, False, None)


def truth(values: list[bool | None]) -> Truth:
    null = np.array([value is None for value in values])
    return Truth(np.array([value is True for value in values]), null if null.any() else None)


def answers(given: Truth) -> list[bool | None]:
    nulls = np.zeros(len(given.true), np.bool_) if given.null is None else given.null
    assert not (given.true & nulls).any(), "TRUE and NULL exclude each other"
    return [None if null else bool(true) for true, null in zip(given.true, nulls, strict=True)]


def conjunction(a: bool | None, b: bool | None) -> bool | None:
    return False if False in (a, b) else None if None in (a, b) else True


def disjunction(a: bool | None, b: bool | None) -> bool | None:
    return True if True in (a, b) else None if None in (a, b) else False


@pytest.mark.parametrize("left", [VALUES, (True, False)], ids=["nullable", "not null"])
@pytest.mark.parametrize("right", [VALUES, (True, False)], ids=["nullable", "not null"])
def test_and_or(left: tuple[bool | None, ...], right: tuple[bool | None, ...]) -> None:
    pairs = list(product(left, right))
    a, b = truth([one for one, _ in pairs]), truth([other for _, other in pairs])
    assert answers(a & b) == [conjunction(*pair) for pair in pairs]
    assert answers(a | b) == [disjunction(*pair) for pair in pairs]


@pytest.mark.parametrize("values", [[True, False, None], [True, False]])
def test_false_and_not_false(values: list[bool | None]) -> None:
    given = truth(values)
    assert given.false.tolist() == [value is False for value in values]
    assert given.not_false.tolist() == [value is not False for value in values]


@pytest.mark.parametrize("whole", [[None, True, False, True], [False, True, False, True]])
@pytest.mark.parametrize("part", [[None, True], [False, True]])
def test_take_and_put(whole: list[bool | None], part: list[bool | None]) -> None:
    given, places = truth(whole), np.array([0, 3])
    assert answers(given.take(places)) == [whole[0], whole[3]]
    before = answers(given)
    assert answers(given.put(places, truth(part))) == [part[0], whole[1], whole[2], part[1]]
    assert answers(given) == before, "answers share arrays: none is changed in place"
