"""What partition values say of their columns: bounds hold for every value that the transform maps there."""

from __future__ import annotations

import datetime
import math
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from declared.transforms import apply
from twostage.errors import CorruptFileError
from twostage.predicates.bounds import Bounds
from twostage.predicates.prune import order_key
from twostage.schema import parse_type
from twostage.table.transforms import Transform, partition_value, tighter, value_bounds

DAY = 86_400_000_000
TEMPORAL = ("year", "month", "day", "hour")
MOMENTS = st.integers(-80_000 * DAY, 80_000 * DAY)
VALUES: dict[str, Any] = {
    "int": st.integers(-(2**31), 2**31 - 1),
    "long": st.integers(-(2**63), 2**63 - 1),
    "decimal(9,2)": st.decimals(Decimal(-9999999), Decimal(9999999), places=2),
    "string": st.text(max_size=6),
    "binary": st.binary(max_size=6),
    "date": st.integers(-80_000, 80_000),
    "timestamp": MOMENTS,
    "timestamptz": MOMENTS,
}


@st.composite
def cases(draw: st.DrawFn) -> tuple[str, str, Any]:
    kind = draw(st.sampled_from(sorted(VALUES)))
    if kind in ("date", "timestamp", "timestamptz"):
        names = [name for name in TEMPORAL if kind != "date" or name != "hour"]
        transform = draw(st.sampled_from(["identity", *names]))
    else:
        transform = draw(st.sampled_from(["identity", f"truncate[{draw(st.integers(1, 40))}]"]))
    return kind, transform, draw(VALUES[kind])


@settings(deadline=None)
@given(cases())
def test_bounds_hold_for_the_value_that_was_transformed(case: tuple[str, str, Any]) -> None:
    kind, transform, value = case
    result = apply(transform, kind, value)
    bounds = value_bounds(Transform.parse(transform), parse_type(kind), result, 10)  # type: ignore[arg-type]
    if bounds is None:
        return
    key = order_key(parse_type(kind), value)  # type: ignore[arg-type]
    assert bounds.lower is None or order_key(parse_type(kind), bounds.lower) <= key  # type: ignore[arg-type]
    assert bounds.upper is None or key <= order_key(parse_type(kind), bounds.upper)  # type: ignore[arg-type]
    assert bounds.null_count == 0
    if bounds.exact_lower and bounds.exact_upper:
        assert bounds.lower == bounds.upper == value


@pytest.mark.parametrize(
    ("transform", "kind", "value", "lower", "upper"),
    [
        ("year", "date", 54, datetime.date(2024, 1, 1), datetime.date(2024, 12, 31)),
        ("month", "date", 649, datetime.date(2024, 2, 1), datetime.date(2024, 2, 29)),
        ("month", "date", 361, datetime.date(2000, 2, 1), datetime.date(2000, 2, 29)),
        ("day", "date", 5, datetime.date(1970, 1, 6), datetime.date(1970, 1, 6)),
        (
            "year",
            "date",
            -70,
            datetime.date(1899, 1, 1),
            datetime.date(1900, 12, 31),
        ),  # or what rounds up to it
    ],
)
def test_calendar(transform: str, kind: str, value: int, lower: datetime.date, upper: datetime.date) -> None:
    bounds = value_bounds(Transform.parse(transform), parse_type(kind), value, 1)  # type: ignore[arg-type]
    assert bounds is not None
    epoch = datetime.date(1970, 1, 1)
    assert epoch + datetime.timedelta(days=bounds.lower) == lower
    assert epoch + datetime.timedelta(days=bounds.upper) == upper


@pytest.mark.parametrize(
    ("text", "name", "width"),
    [
        ("identity", "identity", 0),
        ("bucket[16]", "bucket", 16),
        ("truncate [ 5 ]", "truncate", 5),
        ("bucket[0]", "unknown", 0),
        ("bucket[99999999999]", "unknown", 0),
        ("zorder", "unknown", 0),
        ("void", "void", 0),
        ("", "unknown", 0),
    ],
)
def test_names(text: str, name: str, width: int) -> None:
    assert Transform.parse(text) == Transform(name, width)


@pytest.mark.parametrize("transform", ["void", "zorder"])
def test_transforms_that_say_nothing(transform: str) -> None:
    parsed = Transform.parse(transform)
    assert value_bounds(parsed, parse_type("int"), 5, 10) is None  # type: ignore[arg-type]
    assert not parsed.keeps_null


@pytest.mark.parametrize("transform", ["identity", "bucket[4]", "truncate[4]"])
def test_null(transform: str) -> None:
    bounds = value_bounds(Transform.parse(transform), parse_type("int"), None, 10)  # type: ignore[arg-type]
    assert bounds == Bounds(null_count=10, value_count=10)


def test_nan_is_no_bound() -> None:
    bounds = value_bounds(Transform("identity"), parse_type("double"), math.nan, 3)  # type: ignore[arg-type]
    assert bounds == Bounds(null_count=0, nan_count=3, value_count=3)


def test_a_bucket_says_that_nothing_is_null() -> None:
    bounds = value_bounds(Transform.parse("bucket[4]"), parse_type("string"), 3, 10)  # type: ignore[arg-type]
    assert bounds is not None
    assert (bounds.lower, bounds.upper, bounds.null_count) == (None, None, 0)


def test_integers_that_java_wraps_around() -> None:
    """Truncating near the least int overflows in Java: such a partition may hold values from the other end."""
    truncate = Transform.parse("truncate[10]")
    top = value_bounds(truncate, parse_type("int"), 2_147_483_640, 1)  # type: ignore[arg-type]
    assert top is not None
    assert top.upper is None or top.upper >= 2**31 - 1
    wrapped = value_bounds(truncate, parse_type("int"), 2_147_483_646, 1)  # type: ignore[arg-type]
    assert wrapped is not None
    assert wrapped.lower is None
    middle = value_bounds(truncate, parse_type("int"), 40, 1)  # type: ignore[arg-type]
    assert middle is not None
    assert (middle.lower, middle.upper) == (40, 49)


@pytest.mark.parametrize(
    ("kind", "value"),
    [("int", "5"), ("int", True), ("string", 5), ("uuid", b"short"), ("boolean", 1), ("string", "\ud800")],
)
def test_a_value_of_another_type_is_refused(kind: str, value: Any) -> None:
    with pytest.raises(CorruptFileError, match="CORRUPT_MANIFEST"):
        partition_value(parse_type(kind), value)  # type: ignore[arg-type]


def test_values_in_their_internal_form() -> None:
    raw = bytes(range(16))
    assert partition_value(parse_type("uuid"), raw) == "00010203-0405-0607-0809-0a0b0c0d0e0f"  # type: ignore[arg-type]
    assert partition_value(parse_type("binary"), b"a") == b"a"  # type: ignore[arg-type]
    assert partition_value(parse_type("int"), None) is None  # type: ignore[arg-type]


NUMBERS = st.none() | st.integers(-5, 5)
BOUNDS = st.none() | st.builds(
    lambda low, high, nulls: Bounds(lower=low, upper=high, null_count=nulls),
    NUMBERS,
    NUMBERS,
    st.sampled_from([None, 0]),
)


@settings(deadline=None)
@given(BOUNDS, BOUNDS, st.integers(-6, 6))
def test_what_follows_from_two_descriptions(one: Bounds | None, other: Bounds | None, value: int) -> None:
    def allows(bounds: Bounds | None) -> bool:
        if bounds is None:
            return True
        return (bounds.lower is None or bounds.lower <= value) and (
            bounds.upper is None or value <= bounds.upper
        )

    found = tighter(parse_type("int"), one, other)  # type: ignore[arg-type]
    assert allows(found) == (allows(one) and allows(other))
    if found is not None:
        known = [b.null_count for b in (one, other) if b is not None and b.null_count is not None]
        assert found.null_count == (known[0] if known else None)
