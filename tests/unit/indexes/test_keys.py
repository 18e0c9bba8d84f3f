"""Keys and hashes: equal values have equal ones, whatever their type was."""

from __future__ import annotations

import random
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from twostage.errors import InternalError
from twostage.indexes import keys
from twostage.schema import Primitive


def test_a_promoted_column_keeps_its_hashes():
    numbers = [0, 1, -1, 2**31 - 1, -(2**31)]
    assert (
        keys.hash_values(pa.array(numbers, pa.int32())) == keys.hash_values(pa.array(numbers, pa.int64()))
    ).all()
    floats = [0.5, -0.0, float("inf"), float("nan")]
    assert (
        keys.hash_values(pa.array(floats, pa.float32())) == keys.hash_values(pa.array(floats, pa.float64()))
    ).all()
    decimals = [Decimal("1.25"), Decimal("-7.00")]
    narrow, wide = (keys.hash_values(pa.array(decimals, pa.decimal128(p, 2))) for p in (9, 38))
    assert (narrow == wide).all()


def test_zeros_and_nans_are_one():
    nans = np.array([0x7FF8000000000000, 0xFFF8000000000001], np.uint64).view(np.float64)
    array = pa.array(np.concatenate([nans, [0.0, -0.0]]), from_pandas=False)
    assert len(set(keys.hash_values(array).tolist())) == 2
    assert len(set(keys.order_keys(array).tolist())) == 2


def test_texts_of_any_length_are_hashed_by_what_they_hold():
    drawn = random.Random(5)
    texts = [drawn.randbytes(drawn.choice([0, 1, 7, 8, 9, 63, 64, 65, 200])) for _ in range(300)]
    whole = keys.hash_values(pa.array(texts, pa.binary()))
    shuffled = drawn.sample(range(300), 300)
    again = keys.hash_values(pa.array([b"pad", *(texts[i] for i in shuffled)], pa.large_binary())[1:])
    assert (whole[shuffled] == again).all()
    assert len(set(whole.tolist())) == len(set(texts))


def test_order_keys_sort_as_values_do():
    drawn = np.random.default_rng(6)
    floats = np.sort(np.concatenate([drawn.normal(0, 1e5, 500), [0.0, np.inf, -np.inf]]))
    assert (np.diff(keys.order_keys(pa.array(floats))) > 0).all()
    assert keys.order_keys(pa.array([Decimal(10**30)], pa.decimal128(38, 0))) is None
    assert keys.order_keys(pa.array(["a"])) is None


@pytest.mark.parametrize(
    ("built", "now", "serves"),
    [
        (Primitive("int"), Primitive("long"), True),
        (Primitive("long"), Primitive("int"), False),
        (Primitive("date"), Primitive("timestamp"), False),
        (Primitive("decimal", 9, 2), Primitive("decimal", 20, 2), True),
        (Primitive("decimal", 9, 2), Primitive("decimal", 20, 3), False),
        (Primitive("string"), Primitive("binary"), False),
    ],
)
def test_which_promotions_keep_an_index(built, now, serves):
    assert keys.is_same_domain(built, now) == serves


def test_types_without_keys():
    assert keys.key_class(Primitive("variant")) is None
    with pytest.raises(InternalError):
        keys.hash_values(pa.array([[1]]))
