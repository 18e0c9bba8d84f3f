"""Where keys lie: intervals hold every key, and gaps between them hold none."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from twostage.deletes.keys import intervals
from twostage.deletes.keys.intervals import DeleteKeyRange, KeyDomain, intervals_in, intervals_of
from twostage.predicates.bounds import Bounds
from twostage.schema import Primitive

LONGS = st.integers(-(2**63), 2**63 - 1) | st.integers(-40, 40)


def covered(lowers: np.ndarray, uppers: np.ndarray, value: int) -> bool:
    return any(low <= value <= high for low, high in zip(lowers.tolist(), uppers.tolist(), strict=True))


def check(numbers: list[int], lowers: np.ndarray, uppers: np.ndarray) -> None:
    edges = [edge for pair in zip(lowers.tolist(), uppers.tolist(), strict=True) for edge in pair]
    assert edges == sorted(edges), "ascending, and no two overlap"
    assert set(edges) <= set(numbers), "as narrow as can be"
    assert all(covered(lowers, uppers, number) for number in numbers)


@settings(deadline=None)
@given(st.lists(LONGS, min_size=1, max_size=60))
def test_intervals_of_numbers(numbers: list[int]) -> None:
    lowers, uppers = intervals_of(np.array(numbers, np.int64))
    check(numbers, lowers, uppers)
    for number in numbers:  # a gap of one number is a gap
        if number + 1 not in numbers and number < 2**63 - 1:
            assert not covered(lowers, uppers, number + 1)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("count", [300, 20_000])
def test_where_there_are_many_the_widest_gaps_are_kept(
    monkeypatch: pytest.MonkeyPatch, seed: int, count: int
) -> None:
    limit = next(name for name, value in vars(intervals).items() if value == 16_384)
    monkeypatch.setattr(intervals, limit, 64)
    pick = np.random.default_rng(seed)
    numbers = pick.integers(0, 10**12, count)
    numbers[: count // 2] = pick.integers(0, 1000, count // 2)
    lowers, uppers = intervals_of(numbers.copy())
    assert len(lowers) <= 64
    check(numbers.tolist(), lowers, uppers) if count < 1000 else None
    places = np.searchsorted(uppers, numbers)
    assert ((lowers[places] <= numbers) & (numbers <= uppers[places])).all()
    assert int((uppers - lowers).sum()) < int(numbers.max() - numbers.min())


@settings(deadline=None)
@given(st.lists(st.booleans(), max_size=80), st.integers(-100, 100))
def test_intervals_of_a_direct_table(taken: list[bool], low: int) -> None:
    codes = np.array([9 if one else 0 for one in taken], np.uint8)
    lowers, uppers = intervals_in(low, codes)
    for place in range(-1, len(taken) + 1):
        expected = 0 <= place < len(taken) and taken[place]
        assert covered(lowers, uppers, low + place) == expected


LONG, DOUBLE = Primitive("long"), Primitive("double")


def key_range(lower: int | None, upper: int | None, nulls: int | None = 0) -> DeleteKeyRange:
    return DeleteKeyRange(LONG, Bounds(lower=lower, upper=upper, null_count=nulls), 1)


def test_the_domain_of_several_files() -> None:
    domain = KeyDomain.of_files([key_range(5, 9), key_range(1, 2), key_range(8, 12), key_range(20, 20)])
    assert domain.uppers is not None
    assert list(zip(domain.lowers, domain.uppers, strict=True)) == [(1, 2), (5, 12), (20, 20)]
    assert not domain.may_null
    with_null = KeyDomain.of_files([key_range(5, 9), DeleteKeyRange(LONG, Bounds(null_count=1), 1)])
    assert (with_null.may_null, list(with_null.lowers)) == (True, [5])
    unknown = KeyDomain.of_files([key_range(5, 9), key_range(None, 7)])
    assert unknown.uppers is None


def test_nan_is_a_key_of_floats_alone() -> None:
    for kind, nans, expected in (
        (DOUBLE, None, True),
        (DOUBLE, 0, False),
        (DOUBLE, 2, True),
        (LONG, None, False),
    ):
        bounds = Bounds(lower=1, upper=2, null_count=0, nan_count=nans)
        assert DeleteKeyRange(kind, bounds, 5).may_nan == expected
