"""Sets of a join's keys against Python's own sets: rows, bounds and bytes, at the ends of the 64 bits too."""

from __future__ import annotations

import base64
import math
import random
import zlib
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from twostage.errors import InternalError
from twostage.predicates.bind import bind_predicate
from twostage.predicates.bounds import Bounds
from twostage.predicates.evaluate import evaluate
from twostage.predicates.key_set import key_set, listed_between, numbers_of, ordered, range_of, takes_keys
from twostage.predicates.predicate import (
    Column,
    Compare,
    In,
    InKeys,
    JoinKeySet,
    Not,
    both,
    columns,
    is_exact,
    without_implied,
)
from twostage.predicates.prune import Match, match
from twostage.schema import Field, Primitive, Schema

LEAST, GREATEST = -(2**63), 2**63 - 1
CENTS = Primitive("decimal", precision=12, scale=2)
ARROW = {
    "int": pa.int32(),
    "long": pa.int64(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us"),
    "timestamptz": pa.timestamp("us", "UTC"),
}


def leaf_of(kind: Primitive, keys) -> InKeys:
    return InKeys(Column(1, ("k",), kind), key_set(np.array(sorted(set(keys)), np.int64)))


@pytest.mark.parametrize("kind", sorted(ARROW))
@pytest.mark.parametrize("kernels", [True, False])
@pytest.mark.parametrize("spread", [40, 10**6, 2**31 - 10])
def test_rows(kind, kernels, spread):
    pick = random.Random(f"{kind} {spread}")
    rows = [pick.choice((None, pick.randint(-spread, spread))) for _ in range(3000)]
    keys = {pick.randint(-spread, spread) for _ in range(1500)} | {
        row for row in rows[::3] if row is not None
    }
    narrow = pa.int32() if kind in ("int", "date") else pa.int64()
    array = pa.array(rows, narrow).cast(ARROW[kind])
    leaf = leaf_of(Primitive(kind), keys)
    for given in (array, array.slice(7, 900), array.dictionary_encode()):
        truth = evaluate(leaf, {1: given}, len(given), kernels=kernels)
        values = [None if row is None else row for row in (rows[7:907] if len(given) == 900 else rows)]
        assert truth.true.tolist() == [row in keys for row in values]
        assert truth.null.tolist() == [row is None for row in values]


@pytest.mark.parametrize("kernels", [True, False])
def test_the_ends_of_64_bits(kernels):
    keys = [LEAST, LEAST + 1, -1, 0, GREATEST - 1, GREATEST, *range(100, 120)]
    rows = [LEAST, LEAST + 2, -1, 1, None, GREATEST, GREATEST - 2, 110]
    leaf = leaf_of(Primitive("long"), keys)
    assert numbers_of(leaf.keys).tolist() == sorted(keys)
    truth = evaluate(leaf, {1: pa.array(rows, pa.int64())}, len(rows), kernels=kernels)
    assert truth.true.tolist() == [row in keys for row in rows]


@pytest.mark.parametrize("kernels", [True, False])
def test_decimals(kernels):
    keys = [-150, 0, 25, 10**12 - 1, *range(1000, 1100, 3)]
    rows = [
        Decimal("-1.50"),
        Decimal("0.00"),
        None,
        Decimal("0.26"),
        Decimal("9999999999.99"),
        Decimal("10.03"),
    ]
    array = pa.array(rows, pa.decimal128(12, 2))
    leaf = leaf_of(CENTS, keys)
    truth = evaluate(leaf, {1: array}, len(rows), kernels=kernels)
    assert truth.true.tolist() == [True, True, False, False, True, True]
    assert range_of(leaf) == (
        Compare(">=", leaf.column, Decimal("-1.50")),
        Compare("<=", leaf.column, Decimal("9999999999.99")),
    )
    wide = pa.array([Decimal(2**64) / 100], pa.decimal128(38, 2))  # its lower 64 bits are those of 0
    assert not evaluate(leaf, {1: wide}, 1, kernels=kernels).true.any()


FLOATS = [-math.inf, -1.5, -0.0, 0.0, 1.5, math.inf, math.nan, 0.1, -1e-40, 1e30]


@pytest.mark.parametrize("kernels", [True, False])
@pytest.mark.parametrize("kind", ["float", "double"])
def test_floats(kernels, kind):
    numbers = np.array(FLOATS, np.float32 if kind == "float" else np.float64)
    for keys in ([0.0], [-0.0, math.nan], [math.inf, 1.5], numbers.tolist()):
        leaf = leaf_of(Primitive(kind), ordered(np.array(keys)).tolist())
        array = pa.array([*numbers.tolist(), None], pa.float32() if kind == "float" else pa.float64())
        truth = evaluate(leaf, {1: array}, len(array), kernels=kernels)
        expected = [any(x == y or (x != x and y != y) for y in keys) for x in numbers.tolist()]
        assert truth.true.tolist() == [*expected, False]


def test_bounds_of_floats():
    kind = Primitive("double")
    leaf = leaf_of(kind, ordered(np.array([-2.0, 0.0, 7.5])).tolist())
    for lower, upper, nans, expected in (
        (-1.0, -0.5, 0, Match.NONE),
        (-1.0, -0.0, 0, Match.SOME),
        (-0.0, 0.0, 0, Match.ALL),
        (7.5, 7.5, 0, Match.ALL),
        (7.5, 7.5, 1, Match.SOME),
        (8.0, math.inf, 0, Match.NONE),
        (-math.inf, -3.0, None, Match.SOME),  # NaN, for all that is known, and between: 0.0
        (None, None, None, Match.SOME),
    ):
        given = Bounds(lower=lower, upper=upper, null_count=0, nan_count=nans, value_count=5)
        assert match(leaf, lambda _, given=given: given, 5) is expected, (lower, upper, nans)
    only = leaf_of(kind, ordered(np.array([math.nan])).tolist())
    given = Bounds(lower=1.0, upper=2.0, null_count=0, nan_count=0, value_count=5)
    assert match(only, lambda _: given, 5) is Match.NONE
    assert match(only, lambda _: Bounds(lower=1.0, upper=2.0, null_count=0), 5) is Match.SOME
    low, high = range_of(leaf)
    assert (low.value, high.value) == (-2.0, 7.5)
    assert math.isnan(range_of(only)[0].value)


def test_other_values_are_an_error():
    for kind, array in (
        (Primitive("long"), pa.array(["a"])),
        (Primitive("double"), pa.array([1])),
        (Primitive("long"), pa.array([1.0])),
        (CENTS, pa.array([Decimal("1.0")], pa.decimal128(12, 1))),
    ):
        with pytest.raises(InternalError, match="No set has keys of type"):
            evaluate(leaf_of(kind, [1]), {1: array}, 1)


@pytest.mark.parametrize("kind", [Primitive("long"), Primitive("date"), CENTS])
def test_bounds_against_each_value(kind):
    """A range is left out only if none of its values is a key, and needs no filter only if each of them is."""
    pick = random.Random(str(kind))
    seen = set()
    for _ in range(600):
        keys = {pick.randint(-30, 30) for _ in range(pick.choice((1, 5, 50)))}
        low, high = sorted(pick.randint(-35, 35) for _ in range(2))
        nulls = pick.choice((0, 0, 2, None))

        def bound(number):
            return Decimal(number).scaleb(-2) if kind is CENTS else number

        given = Bounds(lower=bound(low), upper=bound(high), null_count=nulls, value_count=10)
        found = match(leaf_of(kind, keys), lambda _, given=given: given, 10)
        held = [number in keys for number in range(low, high + 1)]
        best = Match.ALL if all(held) and nulls == 0 else Match.SOME if any(held) else Match.NONE
        assert found is best
        seen.add(found)
    assert len(seen) == 3


def test_bounds_that_are_missing_or_finer():
    leaf = leaf_of(CENTS, [150, 152])
    for lower, upper, expected in (
        (None, None, Match.SOME),
        (None, Decimal("1.49"), Match.NONE),
        (Decimal("1.53"), None, Match.NONE),
        (Decimal("1.501"), Decimal("1.519"), Match.NONE),
        (Decimal("1.499"), Decimal("1.501"), Match.ALL),
        (Decimal("1.5"), Decimal("1.52"), Match.SOME),
    ):
        given = Bounds(lower=lower, upper=upper, null_count=0, value_count=5)
        assert match(leaf, lambda _, given=given: given, 5) is expected, (lower, upper)
    nothing = Bounds(null_count=5, value_count=5)
    assert match(leaf, lambda _: nothing, 5) is Match.NONE
    long = leaf_of(Primitive("long"), [LEAST, 7, GREATEST])
    for lower, upper, expected in (
        (LEAST, LEAST, Match.ALL),
        (8, GREATEST - 1, Match.NONE),
        (8, 2**63 + 10, Match.SOME),
        (-(2**63) - 10, 0, Match.SOME),
    ):
        given = Bounds(lower=lower, upper=upper, null_count=0, value_count=5)
        assert match(long, lambda _, given=given: given, 5) is expected, (lower, upper)


def test_binding():
    schema = Schema(
        fields=(
            Field(id=1, name="k", type=Primitive("int"), required=False),
            Field(id=2, name="d", type=Primitive("string"), required=False),
        ),
        schema_id=0,
    )
    leaf = leaf_of(Primitive("int"), [5, 9])
    raw = {"op": "in_keys", "term": {"column": ["k"]}, "type": "integer", "count": 2}
    raw["keys"] = base64.b64encode(leaf.keys.data).decode()
    bound = bind_predicate(raw, schema)
    assert bound == leaf
    assert str(bound) == "k IN set of 2 keys"
    assert [column.field_id for column in columns(bound)] == [1]
    assert not is_exact(bind_predicate({**raw, "type": "long"}, schema))
    assert not is_exact(bind_predicate({**raw, "term": {"column": ["d"]}, "type": "string"}, schema))
    present = bind_predicate({"op": "is_not_null", "term": {"column": ["k"]}}, schema)
    assert isinstance(present, Not)
    assert without_implied(both(present, bound)) == bound


def test_types():
    assert takes_keys(Primitive("timestamptz"))
    assert takes_keys(Primitive("decimal", precision=18, scale=18))
    assert not takes_keys(Primitive("decimal", precision=19, scale=0))
    assert not takes_keys(Primitive("string"))


@pytest.mark.parametrize(
    "data",
    [b"", b"no zlib", zlib.compress(b"1234567"), zlib.compress(bytes(16)), zlib.compress(bytes(8)) + b"x"],
)
def test_other_bytes_are_no_set(data):
    with pytest.raises(InternalError, match="No set"):
        numbers_of(JoinKeySet(data, 2))


@pytest.mark.parametrize("kind", ["long", "date", "double", "decimal(12, 2)"])
def test_keys_of_a_range_as_a_list(kind):
    """Within the bounds, the list and the set say the same of each value."""
    kind = CENTS if "decimal" in kind else Primitive(kind)
    numbers = [-700, -1, 0, 3, 5, 9000]
    leaf = leaf_of(
        kind, ordered(np.array(numbers, np.float64)).tolist() if kind.name == "double" else numbers
    )
    values = {"double": [float(n) for n in numbers], "decimal": [Decimal(n).scaleb(-2) for n in numbers]}
    shown = values.get(kind.name, numbers)
    for low, high in ((0, 5), (1, 4), (-700, 9000), (-(10**6), 0)):
        ends = [
            {"double": (0, float(end)), "decimal": Decimal(end).scaleb(-2)}.get(kind.name, end)
            for end in (low, high)
        ]
        expected = tuple(value for value, number in zip(shown, numbers, strict=True) if low <= number <= high)
        found = listed_between(leaf, *ends, 6)
        assert found == In(leaf.column, expected)
        assert listed_between(leaf, *ends, len(expected) - 1) is None
    assert listed_between(leaf, None, None, 6) == In(leaf.column, tuple(shown))
    assert (
        listed_between(leaf, *[{"double": (0, 1.0), "decimal": Decimal("0.01")}.get(kind.name, 1)] * 2, 6)
        is None
    )
