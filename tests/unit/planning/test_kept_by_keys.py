"""Whether keys of joins may leave most rows: many keys always, few where they are most of a file's whole numbers."""

from __future__ import annotations

import pytest

from twostage.planning.kept_by_keys import FEW_KEYS, MAX_FILES_ASKED, KeptByKeys
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


def may_be_most(predicate, *keys, files=((100, None),)):
    kept = KeptByKeys(predicate, keys)
    for rows, bounds in files:
        kept.add(rows, {1: bounds}.get)
    return kept.may_be_most


@pytest.mark.parametrize(
    ("count", "expected"), [(0, False), (FEW_KEYS, False), (FEW_KEYS + 1, True), (10_000, True)]
)
def test_many_keys_without_another_filter_may_leave_most_rows(count, expected):
    for key in (
        In(COLUMN, tuple(range(count))),
        InKeys(COLUMN, JoinKeySet(b"", count)),
        InBloom(COLUMN, KeyBloom(b"", count)),
        InTuples((COLUMN, COLUMN), JoinKeySet(b"", count)),
    ):
        assert may_be_most(And((NOT_NULL, key)), key) is expected
        assert not may_be_most(And((OWN, key)), key)
        assert not may_be_most(And((NOT_NULL, key)))
        few = In(COLUMN, (1, 2))
        assert not may_be_most(And((key, few)), key, few)
    assert may_be_most(TRUE)
    assert not may_be_most(OWN)


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
        ([(100, None)] * MAX_FILES_ASKED + [(10**9, Bounds(lower=1, upper=12))], False),
    ],
)
def test_few_keys_may_where_they_are_most_whole_numbers_between_the_bounds(files, expected):
    shops = In(COLUMN, tuple(range(1, 13)))
    assert may_be_most(And((NOT_NULL, shops)), shops, files=files) is expected
    assert not may_be_most(And((OWN, shops)), shops, files=files)
    two = In(COLUMN, (1, 2))
    assert not may_be_most(And((two, shops)), two, shops, files=files)
    assert not may_be_most(shops, files=files), "the list is the query's own"


@pytest.mark.parametrize("kind", ["string", "double", "timestamp", "boolean"])
def test_few_keys_of_other_types_leave_few_rows(kind):
    column = Column(1, ("c1",), Primitive(kind))
    keys = In(column, {"string": ("a",), "double": (1.0,), "timestamp": (1,), "boolean": (True,)}[kind])
    assert not may_be_most(keys, keys, files=[(100, Bounds(lower=keys.values[0], upper=keys.values[0]))])
