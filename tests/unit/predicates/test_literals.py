"""Literals as what lanes hold: restated comparisons against every integer of a small lane, and exact sets."""

from __future__ import annotations

import math
import operator
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from twostage.errors import InternalError
from twostage.predicates import literals
from twostage.predicates.literals import as_float, as_integers, as_texts, as_whole, as_words, prepare_once

COMPARE = {
    "=": operator.eq,
    "<=>": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
NUMBERS = st.integers(-1000, 1000) | st.decimals(-1000, 1000, allow_nan=False, places=3) | st.sampled_from(
    [Decimal("1E+70"), Decimal("-1E+70"), Decimal("1E-400"), Decimal("-1E-400"), Decimal("0E+9"), 2**70, -(2**70)]
)  # fmt: skip


@settings(deadline=None)
@given(NUMBERS, st.sampled_from(sorted(COMPARE)), st.integers(0, 2))
def test_a_restated_comparison_answers_alike_for_every_integer_of_the_lane(
    value: int | Decimal, op: str, scale: int
) -> None:
    restated = as_whole(op, value, scale, 8)
    for unscaled in range(-128, 128):
        wanted = COMPARE[op](Decimal(f"{unscaled}E-{scale}"), value)
        found = restated if isinstance(restated, bool) else COMPARE[restated[0]](unscaled, restated[1])
        assert found == wanted, (unscaled, op, value)
    if not isinstance(restated, bool):
        assert -128 <= restated[1] < 128


@settings(deadline=None)
@given(st.lists(NUMBERS | st.sampled_from([2**63 - 1, 2**63, -(2**63), -(2**63) - 1])))
def test_listed_integers_are_those_a_long_can_be(values: list[int | Decimal]) -> None:
    wanted = {int(v) for v in values if v == int(v) and -(2**63) <= v < 2**63} if values else set()
    assert as_integers(values).tolist() == sorted(wanted)


@settings(deadline=None)
@given(st.lists(NUMBERS), st.integers(0, 2))
def test_listed_decimals_are_those_of_the_scale(values: list[int | Decimal], scale: int) -> None:
    found = as_words(values, scale)
    numbers = {int.from_bytes(pair.tobytes(), "little", signed=True) for pair in found}
    scaled = [Decimal(v).scaleb(scale) for v in values if Decimal(v).adjusted() < 26]  # exact in 28 digits
    assert numbers >= {int(s) for s in scaled if s == int(s)}
    assert all(any(Decimal(f"{number}E-{scale}") == value for value in values) for number in numbers)
    assert len(found) == len(numbers)


@pytest.mark.parametrize("value", [Decimal("NaN"), Decimal("Infinity")])
def test_what_is_no_number_is_no_literal(value: Decimal) -> None:
    with pytest.raises(InternalError, match="BAD_PREDICATE"):
        as_whole("=", value, 0, 64)


@pytest.mark.parametrize("value", [0.1, 1.5, 1e300, -1e300, math.inf, math.nan, 3.0e38])
def test_a_float_compares_by_value_with_a_lane_of_floats(value: float) -> None:
    """0.1 as a double is less than 0.1 as a float: it must not be rounded to it."""
    given_lane = np.array([np.float32(0.1), np.float32(1.5), np.float32(3e38), np.inf, -np.inf], np.float32)
    literal = as_float(value, given_lane.dtype)
    assert (given_lane < literal).tolist() == [float(one) < value for one in given_lane]
    assert (given_lane == literal).tolist() == [float(one) == value for one in given_lane]
    assert as_float(value, np.dtype(np.float64)).dtype == np.float64


def test_texts_are_laid_out_as_arrow_does() -> None:
    offsets, data = as_texts(["a", "", "é", "a", b"\xff"])
    assert offsets.tolist() == [0, 1, 1, 3, 4]
    assert data.tobytes() == "aé".encode() + b"\xff"
    assert not data.flags.writeable


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.setattr(literals, "_prepared", {})
    return []


def test_a_tuple_is_prepared_once_for_each_lane(made: list[str]) -> None:
    values, same = (1, 2), tuple([1, 2])
    for listed, kind in ((values, "a"), (values, "a"), (values, "b"), (same, "a")):
        prepare_once(listed, kind, lambda: made.append("made"))
    assert len(made) == 3, "by identity: an equal tuple may hold values of other types"


def test_what_is_remembered_is_bounded(made: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    limit = next(name for name, value in vars(literals).items() if value == 1_000_000)
    monkeypatch.setattr(literals, limit, 5)
    first, second, long = (1, 2, 3), (4, 5, 6), tuple(range(6))
    for listed in (first, first, second, first, long, long):
        prepare_once(listed, "kind", lambda: made.append("made"))
    # `second` does not fit beside `first`, which is made again; `long` never fits.
    assert len(made) == 5
