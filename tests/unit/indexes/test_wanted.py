"""What leaves ask of keys: see also `test_data_file_index`, where every one is compared with the filter."""

from __future__ import annotations

from decimal import Decimal

import pytest

from twostage.indexes.wanted import Interval, after_prefix, wanted_of
from twostage.predicates.predicate import Column, Compare, In, StringMatch
from twostage.schema import Primitive

LONG, TEXT = Primitive("long"), Primitive("string")


def column(kind, cast=None):
    return Column(1, ("x",), kind, cast)


@pytest.mark.parametrize(
    ("leaf", "intervals"),
    [
        (Compare("=", column(LONG), 5), (Interval(5, 5),)),
        (Compare("=", column(LONG), 2**70), ()),
        (Compare("<", column(LONG), 5), (Interval(-(2**127), 4),)),
        (Compare("<=", column(LONG, Primitive("decimal", 30, 5)), Decimal("5.5")), (Interval(-(2**127), 5),)),
        (In(column(LONG), (7, 5, 7)), (Interval(5, 5), Interval(7, 7))),
    ],
)
def test_numbers(leaf, intervals):
    wanted = wanted_of(leaf, LONG)
    assert wanted is not None
    assert wanted.intervals == intervals
    assert not wanted.is_negated


def test_not_equal_is_the_complement():
    wanted = wanted_of(Compare("<>", column(LONG), 5), LONG)
    assert wanted is not None
    assert wanted.is_negated
    assert len(wanted.points) == 1


def test_prefixes_are_intervals():
    wanted = wanted_of(StringMatch("prefix", column(TEXT), "ab"), TEXT)
    assert wanted is not None
    assert wanted.intervals == (Interval(b"ab", b"ac"),)
    assert after_prefix(b"\xff\xff") is None


def test_suffixes_and_casts_that_round_are_not_told_by_keys():
    assert wanted_of(StringMatch("suffix", column(TEXT), "ab"), TEXT) is None
    assert wanted_of(Compare("=", column(LONG, Primitive("double")), 1.0), LONG) is None
    assert wanted_of(Compare("=", column(Primitive("date")), 1), LONG) is None
