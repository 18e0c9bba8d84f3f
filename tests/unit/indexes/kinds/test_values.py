"""Value bitmaps: the rows of each value, counts, ends and blocks, against a dictionary in Python."""

from __future__ import annotations

import random
from decimal import Decimal

import pyarrow as pa
import pytest
from pyroaring import BitMap

from index_columns import FIELD, Values, build, check, leaves, literals_of, opened, times_ignored
from twostage.columns import arrow_type
from twostage.indexes.kinds.values import Values as Kind, ValuesReader
from twostage.metrics import Metrics
from twostage.predicates.predicate import Column, Compare
from twostage.schema import Field, List, Primitive

DRAWN = {
    "boolean": lambda drawn: drawn.random() < 0.3,
    "int": lambda drawn: drawn.randrange(-700, 700),
    "date": lambda drawn: drawn.randrange(20_000, 20_100),
    "string": lambda drawn: f"value-{drawn.randrange(900)}" * drawn.randrange(1, 3),
    "binary": lambda drawn: bytes(drawn.randrange(256) for _ in range(drawn.randrange(2))),
    "decimal": lambda drawn: Decimal(drawn.randrange(-999, 999)).scaleb(-2),
}


def drawn_column(name: str, drawn: random.Random, rows: int) -> tuple[Primitive, list, pa.Array]:
    kind = Primitive("decimal", precision=20, scale=2) if name == "decimal" else Primitive(name)
    values = [None if drawn.random() < 0.1 else DRAWN[name](drawn) for _ in range(rows)]
    if name == "date":
        return kind, values, pa.array(values, pa.int32()).view(pa.date32())
    return kind, values, pa.array(values, arrow_type(kind))


def ask(index, question):
    found = index.of_kind(FIELD, ValuesReader, question, Metrics())
    assert found is not None
    return found


@pytest.mark.parametrize("budget", [2**28, 2**14], ids=["at once", "spilled"])
@pytest.mark.parametrize("name", DRAWN)
def test_each_value_has_its_rows(tmp_path, name, budget):
    drawn = random.Random(f"{name} {budget}")
    kind, _, array = drawn_column(name, drawn, 6_000)
    index = opened(build(tmp_path, Values(array, kind), ("values",), budget))
    expected: dict = {}
    for row, value in enumerate(array.to_pylist()):
        if value is not None:
            expected.setdefault(value, []).append(row)
    arrays, counts = ask(index, lambda one, reader: one.counts(reader))
    values = [value for part in arrays for value in part.to_pylist()]
    assert values == sorted(expected, key=lambda value: value.encode() if isinstance(value, str) else value)
    assert counts.tolist() == [len(expected[value]) for value in values]
    assert ask(index, lambda one, reader: one.num_values) == len(expected)
    found = {}
    for number in range(ask(index, lambda one, reader: one.num_blocks)):
        block, rows = ask(index, lambda one, reader, n=number: one.block(n, reader))
        found.update(zip(block.to_pylist(), rows, strict=True))
    assert found == {value: BitMap(rows) for value, rows in expected.items()}
    assert ask(index, lambda one, reader: one.ends(reader)).to_pylist() == [values[0], values[-1]]
    assert 0 < ask(index, lambda one, reader: one.nbytes()) < (tmp_path / "x.puffin").stat().st_size


@pytest.mark.parametrize("name", DRAWN)
def test_answers_are_exact(tmp_path, name):
    drawn = random.Random(f"answers {name}")
    kind, _, array = drawn_column(name, drawn, 3_000)
    index = opened(build(tmp_path, Values(array, kind), ("values",)))
    column = Column(FIELD, ("x",), kind)
    answered = 0
    for leaf in leaves(column, literals_of(array, kind, drawn), drawn):
        answer = check(index, leaf, array)
        assert answer is not None, leaf
        assert answer.possible == answer.certain, leaf
        answered += 1
    assert answered >= 10


def test_a_column_of_nulls(tmp_path):
    array = pa.nulls(100, pa.int64())
    index = opened(build(tmp_path, Values(array, Primitive("long")), ("values",)))
    assert ask(index, lambda one, reader: one.num_values) == 0
    assert len(ask(index, lambda one, reader: one.ends(reader))) == 0
    assert not check(index, Compare("=", Column(FIELD, ("x",), Primitive("long")), 1), array).possible


def test_a_single_value_reads_one_block(tmp_path):
    kind = Primitive("long")
    array = pa.array([number % 5_000 for number in range(50_000)])
    index = opened(build(tmp_path, Values(array, kind), ("values",)))
    column = Column(FIELD, ("x",), kind)
    answer = check(index, Compare("=", column, 4_321), array)
    assert len(answer.possible) == 10
    assert answer.cost.nbytes < (tmp_path / "x.puffin").stat().st_size / 5
    everything = index.cost(Compare(">=", column, 0), Metrics())
    assert everything.nbytes > 5 * index.cost(Compare("=", column, 4_321), Metrics()).nbytes


def test_damage_is_noticed(tmp_path):
    drawn = random.Random("damage")
    kind, _, array = drawn_column("int", drawn, 500)
    path = build(tmp_path, Values(array, kind), ("values",))
    asked = list(leaves(Column(FIELD, ("x",), kind), [array.drop_null()[0].as_py(), 0, 699], drawn))
    assert times_ignored(path, drawn, 60, asked, array) > 20


def test_what_it_refuses():
    of = Kind().refuses
    assert of(List(Field(id=2, name="element", type=Primitive("long")))) is not None
    assert of(Primitive("boolean")) is None
