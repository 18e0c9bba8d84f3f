"""The kind ``elements``: what it says of lists and maps bounds what the filter finds, for every type of element."""

from __future__ import annotations

import random
from decimal import Decimal

import pyarrow as pa
import pytest

from index_columns import FIELD, Values, build, check, literals_of, opened, times_ignored
from twostage.columns import arrow_type
from twostage.indexes.kinds.elements import non_null_elements
from twostage.indexes.kinds.registered import KINDS
from twostage.metrics import Metrics
from twostage.predicates.predicate import Column, Compare, HasElement, IsNull
from twostage.schema import Field, List, Map, Primitive, parse_type

ROWS = 5_000
DRAWN = {
    "boolean": lambda rng: rng.random() < 0.5,
    "int": lambda rng: rng.randrange(-3000, 3000),
    "long": lambda rng: rng.randrange(-(2**40), 2**40) * 5,
    "float": lambda rng: rng.choice([0.0, -0.0, float("nan"), float("inf"), rng.randrange(900) / 4]),
    "double": lambda rng: rng.choice([0.0, -0.0, float("nan"), rng.random()]),
    "decimal(9,2)": lambda rng: Decimal(rng.randrange(10**6)).scaleb(-2),
    "decimal(38,2)": lambda rng: Decimal(rng.randrange(10**6)).scaleb(-2),
    "date": lambda rng: rng.randrange(-500, 9000),
    "timestamp": lambda rng: rng.randrange(-(2**50), 2**50),
    "timestamptz": lambda rng: rng.randrange(-(2**50), 2**50),
    "string": lambda rng: rng.choice(["", "é", f"prefix-{rng.randrange(2000)}", "x" * 70]),
    "uuid": lambda rng: f"{rng.randrange(2000):032x}",
    "binary": lambda rng: rng.choice([b"", b"\xff", rng.randbytes(3)]),
}


def listed(kind, rng, nulls):
    def row():
        if rng.random() < nulls:
            return None
        size = rng.choice([0, 1, 1, 2, 5])
        return [None if rng.random() < nulls else DRAWN[str(kind)](rng) for _ in range(size)]

    return pa.array([row() for _ in range(ROWS)], pa.list_(arrow_type(kind)))


def list_column(kind):
    element = Column(FIELD + 1, ("tags", "element"), kind)
    return Column(FIELD, ("tags",), List(Field(id=FIELD + 1, name="element", type=kind))), element


@pytest.mark.parametrize("kind", DRAWN)
@pytest.mark.parametrize("nulls", [0.0, 0.2])
def test_lists_of_each_type(tmp_path, kind, nulls):
    rng, kind = random.Random(f"{kind} {nulls}"), parse_type(kind)
    array = listed(kind, rng, nulls)
    column, element = list_column(kind)
    index = opened(build(tmp_path, Values(array, kind, chunk=700), ("elements",)))
    assert check(index, IsNull(column), array).is_exact
    answered = 0
    for literal in literals_of(non_null_elements(array)[1], kind, rng):
        answer = check(index, HasElement(column, element, literal), array)
        answered += len(answer.possible) < ROWS
    assert answered or kind == Primitive("boolean")


def test_memory_that_is_exceeded_is_spilled(tmp_path):
    rng, kind = random.Random(3), Primitive("long")
    array = listed(kind, rng, 0.1)
    column, element = list_column(kind)
    index = opened(build(tmp_path, Values(array, kind), ("elements",), budget=2**16))
    for literal in literals_of(non_null_elements(array)[1], kind, rng):
        assert check(index, HasElement(column, element, literal), array) is not None


def test_keys_of_maps(tmp_path):
    rng, kind = random.Random(4), Primitive("string")
    rows = [
        None
        if rng.random() < 0.1
        else [(key, None) for key in rng.sample(["a", "b", "c", "d"], rng.randrange(3))]
        for _ in range(ROWS)
    ]
    array = pa.array(rows, pa.map_(pa.string(), pa.int32()))
    key = Field(id=FIELD + 1, name="key", type=kind, required=True)
    value = Field(id=FIELD + 2, name="value", type=Primitive("int"))
    column, element = Column(FIELD, ("m",), Map(key, value)), Column(FIELD + 1, ("m", "key"), kind)
    index = opened(build(tmp_path, Values(array, kind), ("elements",)))
    for literal in ("a", "d", "none"):
        check(index, HasElement(column, element, literal), array)


@pytest.mark.parametrize("rows", [[], [None] * 9, [[]] * 9, [[None]] * 9])
def test_lists_without_values(tmp_path, rows):
    kind = Primitive("int")
    array = pa.array(rows, pa.list_(pa.int32()))
    column, element = list_column(kind)
    index = opened(build(tmp_path, Values(array, kind), ("elements",)))
    assert not check(index, HasElement(column, element, 1), array).possible


def test_elements_of_a_type_that_was_promoted(tmp_path):
    array = pa.array([[1], [2, None], None] * 400, pa.list_(pa.int32()))
    index = opened(build(tmp_path, Values(array, Primitive("int")), ("elements",)))
    column, element = list_column(Primitive("long"))
    now = array.cast(pa.list_(pa.int64()))
    for literal in (1, 2, 3, 2**40):
        check(index, HasElement(column, element, literal), now)


def test_a_damaged_index_is_ignored_with_one_warning(tmp_path):
    rng, kind = random.Random(8), Primitive("int")
    array = listed(kind, rng, 0.1)
    column, element = list_column(kind)
    path = build(tmp_path, Values(array, kind), ("elements",))
    leaves = (HasElement(column, element, 7), IsNull(column))
    assert times_ignored(path, rng, 60, leaves, array)


def test_other_kinds_say_nothing_of_elements_and_this_one_nothing_else(tmp_path):
    kind = Primitive("int")
    plain = pa.array(range(1000), pa.int32())
    column, element = list_column(kind)
    index = opened(build(tmp_path, Values(plain, kind), ("values", "postings")))
    assert index.find(HasElement(column, element, 5), Metrics()) is None
    array = pa.array([[1]] * 9, pa.list_(pa.int32()))
    index = opened(build(tmp_path, Values(array, kind), ("elements",), name="y.puffin"))
    assert index.find(Compare("=", Column(FIELD, ("c",), kind), 1), Metrics()) is None


def test_which_types_have_it():
    of = KINDS["elements"].refuses
    inner = lambda kind: Field(id=2, name="element", type=kind)
    assert of(List(inner(Primitive("string")))) is None
    assert of(Map(inner(Primitive("date")), inner(Primitive("variant")))) is None
    assert "no elements" in of(Primitive("string"))
    for kind in (Primitive("variant"), List(inner(Primitive("int")))):
        assert "not compared" in of(List(inner(kind)))
    for name in ("values", "postings", "sorted", "bins"):
        assert KINDS[name].refuses(List(inner(Primitive("int")))) is not None
