"""Evaluating predicates over Arrow arrays, against an interpreter that goes row by row."""

from __future__ import annotations

import math
import random
from collections import Counter
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from random_predicates import ARROW, OPS, POOLS, answer, build, exact_array, random_predicate
from twostage.errors import InternalError
from twostage.predicates.evaluate import evaluate
from twostage.predicates.predicate import (
    And,
    Column,
    Compare,
    CompareColumns,
    In,
    IsNull,
    Not,
    StringMatch,
    Unknown,
    leaves,
    push_not_down,
)
from twostage.schema import Primitive, parse_type

KERNELS = pytest.mark.parametrize("kernels", [True, False], ids=["kernels", "numpy"])


@pytest.fixture(autouse=True)
def _compile_at_once(monkeypatch):
    monkeypatch.setenv("TWOSTAGE_JIT", "always")


def tristate(truth):
    assert truth.true.dtype == np.bool_
    null = np.zeros(len(truth.true), np.bool_) if truth.null is None else truth.null
    assert null.dtype == np.bool_
    assert not (null & truth.true).any()
    assert (truth.false == ~(truth.true | null)).all()
    return [None if n else bool(t) for t, n in zip(truth.true, null, strict=True)]


def check(predicate, rows, columns):
    expected = [answer(predicate, row) for row in rows]
    for kernels in (True, False):
        truth = evaluate(predicate, columns, len(rows), kernels=kernels)
        assert tristate(truth) == expected, f"{predicate}\n{columns}"
    return expected


@pytest.mark.parametrize("seed", range(12))
def test_random_predicates(seed):
    rng = random.Random(seed)
    answers: Counter[object] = Counter()
    for _ in range(300):
        kinds = [rng.choice(list(POOLS)) for _ in range(rng.randint(1, 3))]
        kinds += rng.choices(kinds, k=rng.randint(0, 2))
        num_rows = rng.choice([0, 1, 2, 5, 17, 40])
        null_share = rng.choice([0, 0, 0.2, 1])
        lists = [
            [None if rng.random() < null_share else rng.choice(POOLS[kind]) for _ in range(num_rows)]
            for kind in kinds
        ]
        columns = {
            i: build(rng, values, kind) for i, (values, kind) in enumerate(zip(lists, kinds, strict=True))
        }
        rows = list(zip(*lists, strict=True))
        predicate = random_predicate(rng, kinds)
        answers.update(check(predicate, rows, columns))
        answers["pushed"] += check(push_not_down(predicate), rows, columns) == check(predicate, rows, columns)
    assert answers["pushed"] == 300
    assert min(answers[value] for value in (True, False, None)) > 500, answers


@pytest.mark.parametrize("kind", POOLS)
@KERNELS
def test_every_comparison_of_every_pair_of_values(kind, kernels):
    pool = [*POOLS[kind], None]
    left = [a for a in pool for _ in pool]
    right = [b for _ in pool for b in pool]
    rng = random.Random(1)
    columns = {0: build(rng, left, kind), 1: build(rng, right, kind)}
    a, b = (Column(i, (f"c{i}",), parse_type(kind)) for i in (0, 1))
    rows = list(zip(left, right, strict=True))
    for op in OPS:
        predicates = [CompareColumns(op, a, b), *(Compare(op, a, value) for value in POOLS[kind])]
        for predicate in predicates:
            truth = evaluate(predicate, columns, len(rows), kernels=kernels)
            assert tristate(truth) == [answer(predicate, row) for row in rows], str(predicate)
    for value in POOLS[kind]:
        for has_null in (False, True):
            predicate = In(a, (value, POOLS[kind][0]), has_null)
            truth = evaluate(predicate, columns, len(rows), kernels=kernels)
            assert tristate(truth) == [answer(predicate, row) for row in rows], str(predicate)


@pytest.mark.parametrize("kind", ["int", "long", "string", "decimal(38,4)", "double", "binary"])
def test_long_in_lists(kind):
    rng = random.Random(kind)
    make = {
        "int": lambda: rng.randrange(-(2**31), 2**31),
        "long": lambda: rng.randrange(-(2**63), 2**63),
        "string": lambda: "user-" + "é" * rng.randrange(3) + str(rng.randrange(10**6)),
        "decimal(38,4)": lambda: Decimal(rng.randrange(-(10**37), 10**37)).scaleb(-4),
        "double": rng.random,
        "binary": lambda: rng.randbytes(rng.randrange(12)),
    }[kind]
    listed = [make() for _ in range(3_000)]
    values = [*listed[::3], *(make() for _ in range(1_000)), *([None] * 10)]
    rng.shuffle(values)
    column = Column(0, ("c",), parse_type(kind))
    array = pa.array(values, ARROW[kind])
    known = set(listed)
    for has_null in (False, True):
        expected = [
            None if v is None else True if v in known else None if has_null else False for v in values
        ]
        predicate = In(column, tuple(listed), has_null)
        for form in (array, pa.concat_arrays([array[:7], array])[7:]):
            for kernels in (True, False):
                assert tristate(evaluate(predicate, {0: form}, len(values), kernels=kernels)) == expected
    assert tristate(evaluate(In(column, tuple(listed[:1])), {0: array}, len(values))).count(True) >= 1


def test_a_dictionary_longer_than_the_rows():
    words = [f"w{number}" for number in range(100)]
    codes = pa.array([5, None, 99, 5], pa.int32())
    array = pa.DictionaryArray.from_arrays(codes, pa.array(words))
    column = Column(0, ("c",), Primitive("string"))
    predicate = And((StringMatch("prefix", column, "w"), In(column, ("w5", "w6")), Not(IsNull(column))))
    assert tristate(evaluate(predicate, {0: array}, 4)) == [True, False, False, True]
    assert tristate(evaluate(Compare("<>", column, "w5"), {0: array}, 4)) == [False, None, True, False]


@pytest.mark.parametrize("values", [[None] * 4, [], [None]])
def test_dictionaries_and_columns_of_nulls(values):
    column = Column(0, ("c",), Primitive("string"))
    empty = pa.DictionaryArray.from_arrays(pa.array(values, pa.int32()), pa.array([], pa.string()))
    for array in (empty, pa.array(values, pa.null()), pa.array(values, pa.string())):
        for predicate, expected in (
            (IsNull(column), True),
            (Compare("=", column, "a"), None),
            (Compare("<=>", column, "a"), False),
            (CompareColumns("<=>", column, column), True),
            (CompareColumns("<", column, column), None),
            (In(column, ("a", "b")), None),
            (In(column, ()), False),
            (In(column, (), True), None),
            (StringMatch("contains", column, ""), None),
        ):
            assert tristate(evaluate(predicate, {0: array}, len(values))) == [expected] * len(values)


@pytest.mark.parametrize(
    "array",
    [
        pa.array([[1], None, []], pa.list_(pa.int32())),
        pa.array([{"a": 1}, None, {"a": None}], pa.struct([("a", pa.int32())])),
        pa.array([[("k", 1)], None, []], pa.map_(pa.string(), pa.int32())),
        pa.array([b"\0" * 16, None, b"\1" * 16], pa.uuid()),
        pa.array(["a", None, "b"], pa.string_view()),
        pa.RunEndEncodedArray.from_arrays([1, 2, 3], pa.array([1, None, 2])),
    ],
    ids=lambda array: str(array.type).partition("<")[0],
)
def test_is_null_of_any_type(array):
    column = Column(0, ("c",), parse_type("string"))
    assert tristate(evaluate(IsNull(column), {0: array}, 3)) == [False, True, False]
    assert tristate(evaluate(Not(IsNull(column)), {0: array[1:]}, 2)) == [False, True]


@KERNELS
def test_literals_beyond_the_column(kernels):
    column = Column(0, ("c",), Primitive("int"))
    array = exact_array([2**31 - 1, -(2**31), 0], "int")
    for value in (2**31, 2**40, 2**70, -(2**31) - 1, -(2**70)):
        for op in OPS:
            predicate = Compare(op, column, value)
            expected = [answer(predicate, [number]) for number in (2**31 - 1, -(2**31), 0)]
            assert tristate(evaluate(predicate, {0: array}, 3, kernels=kernels)) == expected, str(predicate)
    predicate = In(column, (2**31, 0, 2**70, -(2**63)))
    assert tristate(evaluate(predicate, {0: array}, 3, kernels=kernels)) == [False, False, True]


def test_floats_compare_by_value_with_literals_that_no_float_is():
    column = Column(0, ("c",), Primitive("float"))
    array = pa.array([0.1, math.inf, -0.0], pa.float32())
    nearest = array[0].as_py()
    assert nearest > 0.1
    for value in (0.1, 1e300, -1e300, 5e-324, nearest):
        for op in OPS:
            predicate = Compare(op, column, value)
            expected = [answer(predicate, [number]) for number in array.to_pylist()]
            assert tristate(evaluate(predicate, {0: array}, 3)) == expected, str(predicate)


@pytest.mark.parametrize("cast", ["float", "double"])
def test_integers_round_once_as_java_does(cast):
    """By way of a double, 2**60 + 2**36 + 1 would become the float below it."""
    values = [2**60 + 2**36 + 1, -(2**60) - 2**36 - 1, 2**24 + 1, 2**53 + 1, 2**63 - 1, -(2**63)]
    column = Column(0, ("c",), Primitive("long"), Primitive(cast))
    array = pa.array(values, pa.int64())
    for value in (2.0**60, 2.0**60 + 2.0**37, -(2.0**60) - 2.0**37, 2.0**24, 2.0**53, 2.0**63, -(2.0**63)):
        for predicate in (*(Compare(op, column, value) for op in OPS), In(column, (value,))):
            expected = [answer(predicate, [number]) for number in values]
            assert tristate(evaluate(predicate, {0: array}, len(values))) == expected, str(predicate)


def test_the_same_column_in_many_forms_at_once():
    """What one evaluation remembers of a column must not be mixed up: dictionary, decoded, cast."""
    column = Column(0, ("c",), Primitive("int"))
    wide, exact = (
        Column(0, ("c",), Primitive("int"), parse_type(cast)) for cast in ("double", "decimal(12,2)")
    )
    array = exact_array([1, 2, 3], "int")
    predicate = And(
        (
            Compare(">", wide, 0.5),
            CompareColumns("=", exact, exact),
            Compare("<=", exact, Decimal("2.50")),
            Compare(">=", column, 1),
            CompareColumns("<=", wide, wide),
        )
    )
    assert tristate(evaluate(predicate, {0: array}, 3)) == [True, True, False]
    text = Column(1, ("s",), Primitive("string"))
    words = pa.DictionaryArray.from_arrays(pa.array([2, 1, 0], pa.int32()), pa.array(["a", "b", "c"]))
    predicate = And((Compare("<>", text, "c"), CompareColumns("=", text, text), Compare("<>", text, "c")))
    assert tristate(evaluate(predicate, {1: words}, 3)) == [False, True, True]


INT, TEXT = Column(0, ("c",), Primitive("int")), Column(1, ("s",), Primitive("string"))


@pytest.mark.parametrize(
    "predicate",
    [
        Unknown("upper"),
        Not(Unknown("upper")),
        Compare("=", INT, "1"),
        Compare("=", INT, True),
        Compare("=", INT, 1.0),
        Compare("=", TEXT, b"a"),
        Compare("=", TEXT, 1),
        In(INT, ("a",)),
        In(TEXT, (b"a",)),
        StringMatch("prefix", INT, "1"),
        CompareColumns("=", INT, TEXT),
        Compare("=", Column(9, ("gone",), Primitive("int")), 1),
        Compare("=", Column(2, ("short",), Primitive("int")), 1),
        Compare("=", Column(3, ("nested",), Primitive("int")), 1),
        Compare("=", Column(0, ("c",), Primitive("int"), Primitive("string")), "1"),
        Compare("=", Column(0, ("c",), Primitive("int"), parse_type("decimal(9,0)")), Decimal(1)),
        Compare("=", Column(4, ("d",), Primitive("double"), Primitive("float")), 1.0),
        Compare("=", Column(5, ("m",), parse_type("decimal(9,2)"), parse_type("decimal(9,1)")), Decimal(1)),
        Compare("=", Column(5, ("m",), parse_type("decimal(9,2)")), Decimal("NaN")),
        Compare("=", Column(6, ("t",), Primitive("timestamp")), 1),
        Compare("=", Column(7, ("t",), Primitive("timestamp")), 1),
        Compare("=", Column(8, ("t",), Primitive("date")), 1),
    ],
    ids=str,
)
def test_what_does_not_fit_is_our_bug_and_says_so(predicate):
    columns = {
        0: pa.array([1, 2], pa.int32()),
        1: pa.array(["a", "b"]),
        2: pa.array([1], pa.int32()),
        3: pa.array([[1], [2]]),
        4: pa.array([1.0, 2.0]),
        6: pa.array([1, 2], pa.timestamp("ns")),
        7: pa.array([1, 2], pa.timestamp("ms")),
        8: pa.array([1, 2], pa.date64()),
        5: pa.array([Decimal("1.00"), None], pa.decimal128(9, 2)),
    }
    with pytest.raises(InternalError, match="BAD_PREDICATE"):
        evaluate(predicate, columns, 2)


def test_arrays_are_left_alone():
    """Answers may share arrays, so combining them must change none."""
    nulls = pa.array([1, None, 3], pa.int32())
    column = Column(0, ("c",), Primitive("int"))
    predicate = And((Not(IsNull(column)), Compare(">", column, 0), Not(Compare("=", column, 3))))
    for _ in range(2):
        assert tristate(evaluate(predicate, {0: nulls}, 3)) == [True, False, False]
    assert nulls.to_pylist() == [1, None, 3]


def test_the_leaves_of_the_random_predicates_cover_the_language():
    rng = random.Random(0)
    seen: Counter[str] = Counter()
    for _ in range(2_000):
        for leaf in leaves(random_predicate(rng, list(POOLS))):
            seen[type(leaf).__name__] += 1
            if getattr(leaf, "column", None) is not None and leaf.column.cast:
                seen["cast"] += 1
    assert (
        min(
            seen[name]
            for name in ("Compare", "CompareColumns", "In", "IsNull", "StringMatch", "Constant", "cast")
        )
        > 50
    )
