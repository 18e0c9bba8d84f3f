"""`array_contains` and `map_contains_key` over Arrow arrays, against Python that goes row by row."""

from __future__ import annotations

import math
import random
from collections import Counter
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from twostage.columns import arrow_type
from twostage.predicates.evaluate import evaluate
from twostage.predicates.predicate import (
    And,
    Column,
    Compare,
    HasElement,
    IsNull,
    Not,
    Or,
    columns,
    push_not_down,
    without_implied,
)
from twostage.schema import Field, List, Map, Primitive, parse_type

POOLS = {
    "boolean": [True, False],
    "int": [-(2**31), -1, 0, 1, 2**31 - 1],
    "long": [-(2**63), -1, 0, 1, 2**63 - 1],
    "float": [0.0, -0.0, 1.5, math.inf, -math.inf, math.nan],
    "double": [0.0, -0.0, 0.1, math.inf, -math.inf, math.nan],
    "decimal(9,2)": [Decimal("0.00"), Decimal("-1.25"), Decimal("9999999.99")],
    "decimal(38,0)": [Decimal(0), Decimal(10**38 - 1), Decimal(-(10**38) + 1)],
    "date": [-1, 0, 20000],
    "timestamp": [-1, 0, 1_700_000_000_000_000],
    "timestamptz": [-1, 0, 1_700_000_000_000_000],
    "string": ["", "a", "ä", "\U0001f600", "a\x00", "b" * 300],
    "uuid": ["00000000-0000-0000-0000-000000000000", "f79c3e09-677c-4bbd-a479-3f349cb785e7"],
    "binary": [b"", b"\x00", b"\xff\x80"],
}


def contains(row, value):
    """Spark's array_contains: NaN equals NaN, 0.0 equals -0.0."""
    if row is None:
        return None
    is_nan = isinstance(value, float) and math.isnan(value)
    if any(item is not None and (item == value or (is_nan and item != item)) for item in row):
        return True
    return None if None in row else False


def tristate(truth):
    null = np.zeros(len(truth.true), np.bool_) if truth.null is None else truth.null
    assert not (null & truth.true).any()
    return [None if n else bool(t) for t, n in zip(truth.true, null, strict=True)]


def list_of(kind):
    element = Column(2, ("tags", "element"), parse_type(kind))
    return Column(1, ("tags",), List(Field(id=2, name="element", type=element.type))), element


@pytest.mark.parametrize("kernels", [True, False], ids=["kernels", "numpy"])
@pytest.mark.parametrize("kind", POOLS)
def test_lists_of_each_type(kind, kernels):
    rng, answers = random.Random(kind), Counter()
    column, element = list_of(kind)
    for share in (0.0, 0.3):
        rows = [
            None
            if rng.random() < share
            else [None if rng.random() < share else rng.choice(POOLS[kind]) for _ in range(rng.randrange(4))]
            for _ in range(200)
        ]
        array = pa.array(rows, arrow_type(column.type))
        for value in POOLS[kind]:
            leaf = HasElement(column, element, value)
            expected = [contains(row, value) for row in rows[13:]]
            for given in (array[13:], pa.concat_arrays([array[13:50], array[50:]])):
                assert tristate(evaluate(leaf, {1: given}, 187, kernels=kernels)) == expected
            negated = [None if one is None else not one for one in expected]
            assert tristate(evaluate(Not(leaf), {1: array[13:]}, 187, kernels=kernels)) == negated
            answers.update(expected)
    assert min(answers[one] for one in (True, False, None)) > 5


def test_keys_of_maps():
    key, value = Primitive("string"), Primitive("int")
    kind = Map(Field(id=2, name="key", type=key, required=True), Field(id=3, name="value", type=value))
    column, element = Column(1, ("m",), kind), Column(2, ("m", "key"), key)
    array = pa.array([[("a", 1)], None, [("b", None), ("a", 2)], [], [("b", 1)]], arrow_type(kind))
    leaf = HasElement(column, element, "a")
    assert tristate(evaluate(leaf, {1: array}, 5)) == [True, None, True, False, False]
    assert tristate(evaluate(leaf, {1: array[1:4]}, 3)) == [None, True, False]
    assert str(leaf) == "map_contains_key(m, 'a')"


def test_elements_that_are_codes():
    column, element = list_of("string")
    codes = pa.array(["a", None, "b", "a"]).dictionary_encode()
    array = pa.ListArray.from_arrays(pa.array([0, 2, 2, 4], pa.int32()), codes)
    found = evaluate(HasElement(column, element, "b"), {1: array}, 3)
    assert tristate(found) == [None, False, True]
    assert tristate(evaluate(HasElement(column, element, "zz"), {1: array}, 3)) == [None, False, False]


def test_a_null_list_hides_what_lies_behind_it():
    column, element = list_of("int")
    array = pa.ListArray.from_arrays(
        pa.array([0, 2, 3], pa.int32()), pa.array([1, None, 1], pa.int32()), mask=pa.array([True, False])
    )
    assert tristate(evaluate(HasElement(column, element, 1), {1: array}, 2)) == [None, True]


def test_columns_of_nothing():
    column, element = list_of("int")
    leaf = HasElement(column, element, 1)
    assert tristate(evaluate(leaf, {1: pa.nulls(3)}, 3)) == [None] * 3
    assert tristate(evaluate(leaf, {1: pa.array([], pa.list_(pa.int32()))}, 0)) == []
    assert tristate(evaluate(leaf, {1: pa.array([[], [None]], pa.list_(pa.null()))}, 2)) == [False, None]


def test_with_other_conditions():
    column, element = list_of("int")
    other = Column(5, ("n",), Primitive("int"))
    rows = [[number % 7, None] if number % 3 else [number % 7] for number in range(400)]
    numbers = [number % 50 for number in range(400)]
    arrays = {1: pa.array(rows, pa.list_(pa.int32())), 5: pa.array(numbers, pa.int32())}
    leaf, few = HasElement(column, element, 4), Compare("=", other, 11)
    is_few = [number == 11 for number in numbers]
    has = [contains(row, 4) for row in rows]
    both = [False if not few or one is False else one for few, one in zip(is_few, has, strict=True)]
    either = [True if few or one else one for few, one in zip(is_few, has, strict=True)]
    assert tristate(evaluate(And((few, leaf)), arrays, 400)) == both
    assert tristate(evaluate(Or((few, leaf)), arrays, 400)) == either


def test_what_the_tree_knows_of_it():
    column, element = list_of("int")
    leaf = HasElement(column, element, 1)
    assert columns(leaf) == (column,)
    assert str(leaf) == "array_contains(tags, 1)"
    assert without_implied(And((Not(IsNull(column)), leaf))) == leaf
    assert without_implied(And((Not(IsNull(column)), Not(leaf)))) == Not(leaf)
    assert push_not_down(Not(Or((leaf, IsNull(column))))) == And((Not(leaf), Not(IsNull(column))))
