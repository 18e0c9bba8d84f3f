"""Comparisons of lanes, compiled and in NumPy, against the interpreter of `random_predicates`, which goes value by value."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings, strategies as st

from random_predicates import CASTS, OPS, POOLS, cast_value, compare, exact_array
from twostage.errors import InternalError
from twostage.predicates.compare_lanes import (
    cast_lane,
    compare_lanes,
    compare_list,
    compare_literal,
    decode,
    is_nanoseconds,
    match_text,
)
from twostage.predicates.lanes import Numbers, Text, Wide, read_lane
from twostage.predicates.predicate import Column
from twostage.schema import Primitive, parse_type

if TYPE_CHECKING:
    from twostage.predicates.lanes import Lane

KERNELS = pytest.mark.parametrize("kernels", [True, False], ids=["kernels", "numpy"])
TEXT = Column(0, ("c",), Primitive("string"))


@pytest.fixture(autouse=True)
def _compile_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TWOSTAGE_JIT", "always")


def column(kind: str, cast: str | None = None) -> Column:
    types = [None if text is None else parse_type(text) for text in (kind, cast)]
    return Column(0, ("c",), *types)  # type: ignore[arg-type]


def lane(kind: str, values: list[Any] | None = None) -> Lane:
    return read_lane(exact_array(POOLS[kind] if values is None else values, kind))


@pytest.mark.parametrize("kind", POOLS)
@KERNELS
def test_with_a_literal(kind: str, kernels: bool) -> None:
    for op in OPS:
        for literal in POOLS[kind]:
            found = compare_literal(op, column(kind), lane(kind), literal, kernels=kernels)
            assert found.dtype == np.bool_
            assert found.tolist() == [compare(op, value, literal) for value in POOLS[kind]], (op, literal)


@pytest.mark.parametrize(
    ("kind", "literal"),
    [
        ("int", 2**31),
        ("int", -(2**70)),
        ("long", Decimal("1.5")),
        ("long", Decimal("-1.5")),
        ("decimal(9,2)", Decimal("1.255")),
        ("decimal(9,2)", Decimal("1E+40")),
        ("decimal(38,4)", Decimal("-1E-30")),
        ("float", 0.1),
        ("float", 1e300),
        ("double", 0.3),
    ],
)
@KERNELS
def test_with_a_literal_that_no_value_equals(kind: str, literal: Any, kernels: bool) -> None:
    """It is neither rounded nor wrapped around."""
    for op in OPS:
        found = compare_literal(op, column(kind), lane(kind), literal, kernels=kernels)
        assert found.tolist() == [compare(op, value, literal) for value in POOLS[kind]], op


@pytest.mark.parametrize("kind", POOLS)
@KERNELS
def test_with_another_lane(kind: str, kernels: bool) -> None:
    left = [value for value in POOLS[kind] for _ in POOLS[kind]]
    right = POOLS[kind] * len(POOLS[kind])
    for op in OPS:
        found = compare_lanes(op, lane(kind, left), lane(kind, right), kernels=kernels)
        assert found is not None
        assert found.tolist() == [compare(op, a, b) for a, b in zip(left, right, strict=True)], op


@pytest.mark.parametrize(
    ("left", "right"),
    [("int", "string"), ("string", "binary"), ("int", "double"), ("decimal(9,2)", "decimal(38,4)"), ("boolean", "int")],
)  # fmt: skip
def test_lanes_of_other_types_do_not_compare(left: str, right: str) -> None:
    """Decimals do at one scale only; the caller brings them to it."""
    values = lane(left), lane(right)
    assert compare_lanes("=", *values, kernels=False) is None


@pytest.mark.parametrize("kind", POOLS)
@KERNELS
def test_with_a_list(kind: str, kernels: bool) -> None:
    for listed in (tuple(POOLS[kind]), tuple(POOLS[kind][:1]), tuple(POOLS[kind][1::2]) * 2, ()):
        found = compare_list(column(kind), lane(kind), listed, kernels=kernels)
        expected = [any(compare("=", value, other) for other in listed) for value in POOLS[kind]]
        assert found.tolist() == expected, listed


@pytest.mark.parametrize(
    ("kind", "literal"),
    [("int", "1"), ("int", 1.0), ("int", True), ("double", "a"), ("double", True), ("boolean", 1),
     ("decimal(9,2)", 1), ("string", b"a"), ("binary", "a")],
)  # fmt: skip
def test_literals_of_another_type_are_refused(kind: str, literal: Any) -> None:
    with pytest.raises(InternalError, match=r"BAD_PREDICATE.*does not fit column c"):
        compare_literal("=", column(kind), lane(kind), literal, kernels=False)
    with pytest.raises(InternalError, match="BAD_PREDICATE"):
        compare_list(column(kind), lane(kind), (literal,), kernels=False)


TEXTS = st.text(st.sampled_from("abé日😀\x00"), max_size=12)


@settings(max_examples=200, deadline=None)
@given(st.lists(TEXTS, max_size=20), TEXTS, st.booleans())
def test_patterns_are_those_of_str(values: list[str], pattern: str, kernels: bool) -> None:
    texts = read_lane(pa.array(values, pa.string()))
    for kind, expected in (
        ("prefix", [value.startswith(pattern) for value in values]),
        ("suffix", [value.endswith(pattern) for value in values]),
        ("contains", [pattern in value for value in values]),
    ):
        assert match_text(kind, TEXT, texts, pattern, kernels=kernels).tolist() == expected, kind


def test_patterns_are_for_strings() -> None:
    for kind in ("int", "binary"):
        with pytest.raises(InternalError, match="BAD_PREDICATE"):
            match_text("prefix", column(kind), lane(kind), "a", kernels=False)


def values_of(found: Lane) -> list[Any]:
    """Return a lane's numbers; decimals as unscaled integers."""
    match found:
        case Numbers(values):
            return values.tolist()
        case Wide(words, _):
            return [int.from_bytes(pair.tobytes(), "little", signed=True) for pair in words]
        case Text():
            raise AssertionError(found)


@pytest.mark.parametrize(
    ("kind", "cast"),
    [(kind, cast) for kind in CASTS for cast in CASTS[kind] if not cast.startswith("decimal")],
)
def test_casts_round_as_java_does(kind: str, cast: str) -> None:
    of = column(kind, cast)
    given = lane(kind)
    found = values_of(cast_lane(given, of))
    expected = [cast_value(value, of) for value in POOLS[kind]]
    assert list(map(repr, map(float, found))) == list(map(repr, map(float, expected)))


@pytest.mark.parametrize("cast", [None, "long", "decimal(10,0)", "decimal(14,3)"])
def test_casts_that_change_no_number_copy_nothing(cast: str | None) -> None:
    """Literals are restated at the lane's scale instead."""
    given = lane("int")
    assert cast_lane(given, column("int", cast)) is given


def test_nanoseconds_are_cut_to_microseconds_downwards() -> None:
    given = Numbers(np.array([-1_001, -1_000, -1, 0, 999, 1_000]))
    for kind in ("timestamp", "timestamptz"):
        found = cast_lane(given, column(f"{kind}_ns", kind))
        assert values_of(found) == [-2, -1, -1, 0, 0, 1]
        assert is_nanoseconds(column(f"{kind}_ns"))
        assert not is_nanoseconds(column(kind))


@pytest.mark.parametrize(
    ("kind", "cast"),
    [
        ("int", "decimal(9,0)"),  # ten digits need more
        ("long", "decimal(18,0)"),
        ("double", "float"),
        ("double", "long"),
        ("int", "string"),
        ("decimal(9,2)", "decimal(9,1)"),
        ("decimal(9,2)", "decimal(9,3)"),
        ("timestamp", "timestamptz"),
        ("string", "binary"),
    ],
)
def test_casts_that_do_not_widen_are_refused(kind: str, cast: str) -> None:
    with pytest.raises(InternalError, match=r"BAD_PREDICATE.*Not a widening cast"):
        cast_lane(lane(kind), column(kind, cast))


def test_dictionaries_are_decoded_and_decimals_brought_to_the_casts_scale() -> None:
    words = pa.array(["a", None, "a"]).dictionary_encode()
    assert decode(words, TEXT).equals(pa.array(["a", None, "a"]))
    ints = pa.array([1, None], pa.int32())
    assert decode(ints, column("int", "long")) is ints
    assert decode(ints, column("int", "decimal(12,2)")).equals(
        pa.array([Decimal("1.00"), None], pa.decimal128(12, 2))
    )
    nulls = pa.nulls(2)
    assert decode(nulls, column("int", "decimal(12,2)")) is nulls
    with pytest.raises(InternalError, match=r"BAD_PREDICATE.*overflows"):
        decode(pa.array([2**31 - 1], pa.int32()), column("int", "decimal(9,2)"))
