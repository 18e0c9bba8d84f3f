"""Bucket hashes against the values that the table spec publishes (appendix B)."""

from __future__ import annotations

import datetime
from decimal import Decimal

import mmh3
import numpy as np
import pytest

from twostage.predicates.key_set import key_set
from twostage.predicates.predicate import And, Column, Compare, Constant, In, InKeys, Not, Or
from twostage.schema import Primitive
from twostage.table.bucket_transform import bucket_of, buckets_of, hashed_bytes, narrow, unscaled

EPOCH = datetime.datetime(1970, 1, 1)


def micros(text):
    return (datetime.datetime.fromisoformat(text) - EPOCH) // datetime.timedelta(microseconds=1)


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        (Primitive("int"), 34, 2017239379),
        (Primitive("long"), 34, 2017239379),
        (Primitive("decimal", precision=9, scale=2), Decimal("14.20"), -500754589),
        (Primitive("date"), (datetime.date(2017, 11, 16) - EPOCH.date()).days, -653330422),
        (Primitive("time"), (22 * 3600 + 31 * 60 + 8) * 1_000_000, -662762989),
        (Primitive("timestamp"), micros("2017-11-16T22:31:08"), -2047944441),
        (Primitive("timestamp"), micros("2017-11-16T22:31:08.000001"), -1207196810),
        (Primitive("timestamptz"), micros("2017-11-16T22:31:08"), -2047944441),
        (Primitive("timestamp_ns"), micros("2017-11-16T22:31:08") * 1000, -2047944441),
        (Primitive("timestamp_ns"), micros("2017-11-16T22:31:08.000001") * 1000 + 1, -1207196810),
        (Primitive("timestamptz_ns"), micros("2017-11-16T22:31:08.000001") * 1000 + 999, -1207196810),
        (Primitive("string"), "iceberg", 1210000089),
        (Primitive("uuid"), "f79c3e09-677c-4bbd-a479-3f349cb785e7", 1488055340),
        (Primitive("fixed", length=4), b"\x00\x01\x02\x03", -188683207),
        (Primitive("binary"), b"\x00\x01\x02\x03", -188683207),
    ],
)
def test_published_hashes(kind, value, expected):
    data = hashed_bytes(kind, value)
    assert mmh3.hash(data) == expected
    assert bucket_of(kind, value, 16) == (expected & 0x7FFFFFFF) % 16


@pytest.mark.parametrize("kind", ["boolean", "float", "double", "variant", "unknown"])
def test_types_without_a_bucket(kind):
    assert bucket_of(Primitive(kind), 1.0, 16) is None


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (Primitive("uuid"), "no uuid"),
        (Primitive("long"), 2**70),
        (Primitive("string"), "\ud800"),
        (Primitive("decimal", precision=9, scale=2), Decimal("1.234")),
        (Primitive("decimal", precision=9, scale=2), Decimal("NaN")),
    ],
)
def test_values_that_are_not_hashed_for_certain(kind, value):
    assert bucket_of(kind, value, 16) is None


@pytest.mark.parametrize("digits", [1, 127, 128, 255, 256, 32767, 32768, 10**30])
def test_decimals_hash_their_minimal_twos_complement(digits):
    kind = Primitive("decimal", precision=38, scale=3)
    for number in (digits, -digits, -digits - 1):
        data = hashed_bytes(kind, Decimal(f"{number}E-3"))
        assert int.from_bytes(data, "big", signed=True) == number
        assert len(data) == 1 or not -(2 ** (8 * len(data) - 9)) <= number < 2 ** (8 * len(data) - 9)


def test_unscaled_ignores_the_decimal_context():
    assert (
        unscaled(Decimal("12345678901234567890123456789012345.678"), 3)
        == 12345678901234567890123456789012345678
    )
    assert unscaled(Decimal("1E+2"), 1) == 1000
    assert unscaled(Decimal("-0.10"), 1) == -1


def test_narrow_replaces_only_what_the_bucket_decides():
    a, b = Column(1, ("a",), Primitive("int")), Column(2, ("b",), Primitive("int"))
    only_five = lambda kind, value: value == 5
    keep = Compare("=", b, 4)
    assert narrow(Compare("=", a, 4), 1, only_five) == Constant(False)
    assert narrow(Compare("<>", a, 4), 1, only_five) == Constant(True)
    assert narrow(Compare("<=>", a, 5), 1, only_five) == Compare("<=>", a, 5)
    assert narrow(Compare("<", a, 4), 1, only_five) == Compare("<", a, 4)
    assert narrow(In(a, (4, 5, 6)), 1, only_five) == In(a, (5,))
    assert narrow(In(a, (4, 6), True), 1, only_five) == Constant(None)
    assert narrow(Or((Compare("=", a, 4), keep)), 1, only_five) == keep
    assert narrow(And((Compare("=", a, 4), keep)), 1, only_five) == Constant(False)
    assert narrow(Not(Compare("=", a, 4)), 1, only_five) == Not(Constant(False))


def test_narrow_leaves_casts_that_change_the_hash():
    cast = Column(1, ("a",), Primitive("int"), Primitive("double"))
    assert narrow(Compare("=", cast, 4.0), 1, lambda kind, value: False) == Compare("=", cast, 4.0)
    widened = Column(1, ("a",), Primitive("int"), Primitive("long"))
    assert narrow(Compare("=", widened, 4), 1, lambda kind, value: False) == Constant(False)


def test_buckets_of_many_numbers():
    draw = np.random.default_rng(3)
    numbers = np.concatenate([draw.integers(-(2**63), 2**63 - 1, 500), [0, -1, -(2**63), 2**63 - 1]])
    for width in (1, 7, 16, 2**31 - 1):
        expected = [bucket_of(Primitive("long"), int(number), width) for number in numbers]
        assert buckets_of(numbers, width).tolist() == expected


@pytest.mark.parametrize("kind", ["int", "date", "timestamptz"])
def test_a_set_of_keys_is_narrowed(kind):
    leaf = InKeys(Column(1, ("a",), Primitive(kind)), key_set(np.array([1, 5])))
    assert narrow(leaf, 1, lambda *_: None, lambda _: False) == Constant(False)
    assert narrow(Not(leaf), 1, lambda *_: None, lambda _: False) == Not(Constant(False))
    assert narrow(leaf, 1, lambda *_: None, lambda _: True) == leaf
    assert narrow(leaf, 2, lambda *_: None, lambda _: False) == leaf
    assert narrow(leaf, 1, lambda *_: None) == leaf


def test_a_set_of_decimals_is_not():
    kind = Primitive("decimal", precision=9, scale=2)
    leaf = InKeys(Column(1, ("a",), kind), key_set(np.array([1, 5])))
    assert narrow(leaf, 1, lambda *_: None, lambda _: False) == leaf
