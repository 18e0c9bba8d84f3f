"""Whether a scan may return most rows despite join keys: many keys always, few if they are most integers of a file."""

from __future__ import annotations

import pytest

from twostage.planning.join_selectivity import MAX_FILES_COMPARED, MAX_SELECTIVE_KEYS, JoinSelectivity
from twostage.predicates.bounds import Bounds
from twostage.predicates.predicate import (
    TRUE,
    And,
    Column,
    Compare,
    In,
    InBloom,
    InKeys,
    InTuples,
    IsNull,
    JoinKeySet,
    KeyBloom,
    Not,
)
from twostage.schema import Primitive

COLUMN = Column(1, ("c1",), Primitive("long"))
NOT_NULL = Not(IsNull(COLUMN))
OWN = Compare("=", COLUMN, 1)


def may_keep_most_rows(predicate, *keys, files=((100, None),)):
    kept = JoinSelectivity(predicate, keys)
    for rows, bounds in files:
        kept.add(rows, {1: bounds}.get)
    return kept.may_keep_most_rows


@pytest.mark.parametrize(
    ("count", "expected"),
    [(0, False), (MAX_SELECTIVE_KEYS, False), (MAX_SELECTIVE_KEYS + 1, True), (10_000, True)],
)
def test_many_keys_without_another_filter_may_leave_most_rows(count, expected):
    for key in (
        In(COLUMN, tuple(range(count))),
        InKeys(COLUMN, JoinKeySet(b"", count)),
        InBloom(COLUMN, KeyBloom(b"", count)),
        InTuples((COLUMN, COLUMN), JoinKeySet(b"", count)),
    ):
        assert may_keep_most_rows(And((NOT_NULL, key)), key) is expected
        assert not may_keep_most_rows(And((OWN, key)), key)
        assert not may_keep_most_rows(And((NOT_NULL, key)))
        few = In(COLUMN, (1, 2))
        assert not may_keep_most_rows(And((key, few)), key, few)
    assert may_keep_most_rows(TRUE)
    assert not may_keep_most_rows(OWN)


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ([(100, Bounds(lower=1, upper=12))], True),
        ([(100, Bounds(lower=1, upper=24))], True),
        ([(100, Bounds(lower=1, upper=40))], False),
        ([(100, Bounds(lower=13, upper=14))], False),
        ([(100, Bounds(lower=1))], False),
        ([(100, Bounds(upper=12))], False),
        ([(100, None)], False),
        ([(100, Bounds(lower=1, upper=12)), (50, None)], True),
        ([(50, Bounds(lower=1, upper=12)), (100, None)], False),
        ([(100, None)] * MAX_FILES_COMPARED + [(10**9, Bounds(lower=1, upper=12))], False),
    ],
)
def test_few_keys_may_where_they_are_most_whole_numbers_between_the_bounds(files, expected):
    shops = In(COLUMN, tuple(range(1, 13)))
    assert may_keep_most_rows(And((NOT_NULL, shops)), shops, files=files) is expected
    assert not may_keep_most_rows(And((OWN, shops)), shops, files=files)
    two = In(COLUMN, (1, 2))
    assert not may_keep_most_rows(And((two, shops)), two, shops, files=files)
    assert not may_keep_most_rows(shops, files=files), "the list is the query's own"


@pytest.mark.parametrize("kind", ["string", "double", "timestamp", "boolean"])
def test_few_keys_of_other_types_leave_few_rows(kind):
    column = Column(1, ("c1",), Primitive(kind))
    keys = In(column, {"string": ("a",), "double": (1.0,), "timestamp": (1,), "boolean": (True,)}[kind])
    assert not may_keep_most_rows(
        keys, keys, files=[(100, Bounds(lower=keys.values[0], upper=keys.values[0]))]
    )
