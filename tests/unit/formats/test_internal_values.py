"""Values in internal form as Arrow arrays: Python's own dates, times and decimals say what comes out."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings, strategies as st

from twostage.columns import MICROSECOND_PRECISION, arrow_type
from twostage.formats.internal_values import constant, values
from twostage.schema import Primitive, Type, parse_schema

EPOCH = dt.datetime(1970, 1, 1)
NOON = 12 * 3600 * 10**6 + 5


def kind_of(written: Any) -> Type:
    return parse_schema({"schema-id": 0, "fields": [{"id": 1, "name": "c", "type": written}]}).fields[0].type


STRUCT = {
    "type": "struct",
    "fields": [
        {"id": 5, "name": "day", "type": "date"},
        {"id": 6, "name": "time", "type": "time"},
        {"id": 7, "name": "number", "type": "int", "initial-default": 7},
    ],
}
CASES: list[tuple[Any, Any, Any]] = [
    ("boolean", True, True),
    ("int", -(2**31), -(2**31)),
    ("long", 2**63 - 1, 2**63 - 1),
    ("double", 0.5, 0.5),
    ("string", "é", "é"),
    ("uuid", "f79c3e09-677c-4bbd-a479-3f349cb785e7", "f79c3e09-677c-4bbd-a479-3f349cb785e7"),
    ("binary", b"\x00\xff", b"\x00\xff"),
    ("fixed[2]", b"ab", b"ab"),
    ("date", -1, dt.date(1969, 12, 31)),
    ("time", NOON, dt.time(12, 0, 0, 5)),
    ("timestamp", -1, EPOCH - dt.timedelta(microseconds=1)),
    ("timestamptz", NOON, (EPOCH + dt.timedelta(microseconds=NOON)).replace(tzinfo=dt.UTC)),
    ("decimal(9,2)", Decimal("1.5"), Decimal("1.50")),
    ("decimal(38,0)", Decimal(10**38 - 1), Decimal(10**38 - 1)),
    ("decimal(38,38)", Decimal(f"-0.{'9' * 38}"), Decimal(f"-0.{'9' * 38}")),
    ({"type": "list", "element-id": 8, "element": "date"}, [0, None], [dt.date(1970, 1, 1), None]),
    (
        {"type": "map", "key-id": 8, "key": "date", "value-id": 9, "value": "decimal(9,2)"},
        [(1, Decimal(2)), (2, None)],
        [(dt.date(1970, 1, 2), Decimal("2.00")), (dt.date(1970, 1, 3), None)],
    ),
    (STRUCT, {5: 1, 6: NOON, 7: 3}, {"day": dt.date(1970, 1, 2), "time": dt.time(12, 0, 0, 5), "number": 3}),
    (STRUCT, {}, {"day": None, "time": None, "number": 7}),
    (
        {"type": "list", "element-id": 8, "element": STRUCT},
        [{5: 0}, None],
        [{"day": dt.date(1970, 1, 1), "time": None, "number": 7}, None],
    ),
]


@pytest.mark.parametrize(("written", "value", "expected"), CASES)
def test_values_and_constants(written: Any, value: Any, expected: Any) -> None:
    """One value for all rows, and values one by one, are the same array."""
    kind = kind_of(written)
    many, one = values(kind, [value, None, value]), constant(kind, value, 3)
    for built in (many, one):
        built.validate(full=True)
        assert built.type == arrow_type(kind)
    assert many.to_pylist() == [expected, None, expected]
    assert one.to_pylist() == [expected] * 3


@pytest.mark.parametrize("written", [case[0] for case in CASES])
def test_null_and_no_rows(written: Any) -> None:
    kind = kind_of(written)
    assert constant(kind, None, 2).to_pylist() == [None, None]
    for none in (constant(kind, None, 0), values(kind, [])):
        assert (len(none), none.type) == (0, arrow_type(kind))


@settings(deadline=None)
@given(st.integers(-(10**38) + 1, 10**38 - 1), st.integers(0, 38))
def test_decimals_keep_all_their_digits(unscaled: int, scale: int) -> None:
    """Python's default context would round to 28."""
    number = Decimal((unscaled < 0, tuple(map(int, str(abs(unscaled)))), -scale))
    kind = kind_of(f"decimal(38,{scale})")
    for built in (values(kind, [number]), constant(kind, number, 1)):
        assert built.to_pylist() == [number]


@settings(deadline=None)
@given(st.integers(-(2**63), 2**63 - 1))
def test_nanoseconds_that_are_read_as_microseconds_are_floored(nanos: int) -> None:
    for name in ("timestamp_ns", "timestamptz_ns"):
        whole = Primitive(name)
        cut = Primitive(name, precision=MICROSECOND_PRECISION)
        for kind, expected in ((whole, nanos), (cut, nanos // 1000)):
            for built in (values(kind, [nanos]), constant(kind, nanos, 1)):
                assert built.type == arrow_type(kind)
                assert built.view(pa.int64()).to_pylist() == [expected]


@pytest.mark.parametrize("days", [-(2**31), 2**31 - 1])
def test_dates_beyond_pythons(days: int) -> None:
    for built in (values(Primitive("date"), [days]), constant(Primitive("date"), days, 1)):
        assert built.view(pa.int32()).to_pylist() == [days]
