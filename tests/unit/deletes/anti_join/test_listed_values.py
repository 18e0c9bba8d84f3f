"""The different values of a key column: none is missing, and those that match are found as a set finds them."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings, strategies as st

from random_predicates import answer
from twostage.deletes.anti_join import listed_values
from twostage.deletes.anti_join.listed_values import NUMBERS, is_one_of, list_values
from twostage.deletes.keys.encoding import encode_column
from twostage.deletes.keys.key_columns import KeyField
from twostage.predicates.predicate import FALSE, TRUE
from twostage.schema import Field, Primitive, parse_type

ARROW = {
    "int": pa.int32(),
    "long": pa.int64(),
    "date": pa.date32(),
    "time": pa.time64("us"),
    "timestamp": pa.timestamp("us"),
    "timestamptz": pa.timestamp("us", "UTC"),
    "timestamp_ns": pa.timestamp("ns"),
    "timestamptz_ns": pa.timestamp("ns", "UTC"),
    "string": pa.string(),
    "binary": pa.binary(),
}
POOLS = {
    "string": ["", "a", "ab", "é", "a\0"],
    "binary": [b"", b"\xff", b"a", b"a\0"],
}
NUMBER_POOL = [0, 1, 7, 86_399, 100_000]


def key_of(kind: str) -> KeyField:
    found = parse_type(kind)
    assert isinstance(found, Primitive)
    return KeyField(Field(id=1, name="k", type=found, required=False), found, ("k",))


def array_of(kind: str, values: list) -> pa.Array:
    if kind in POOLS or kind in ("int", "long"):
        return pa.array(values, ARROW[kind])
    return pa.array(values, pa.int32() if kind == "date" else pa.int64()).cast(ARROW[kind])


def column_of(kind: str, values: list):
    return encode_column(array_of(kind, values), key_of(kind).kind)


def plain(kind: str, values: list) -> set:
    """Return the values as delete files are searched for them: text as bytes."""
    return {value.encode() if kind == "string" else value for value in values if value is not None}


@settings(deadline=None, max_examples=150)
@given(data=st.data(), kind=st.sampled_from(sorted(ARROW)))
def test_the_values_of_several_row_groups_and_the_rows_that_have_one(data, kind):
    pool = st.sampled_from([*POOLS.get(kind, NUMBER_POOL), None])
    groups = data.draw(st.lists(st.lists(pool, max_size=6), max_size=4))
    others = data.draw(st.lists(pool, max_size=30))
    wanted = {value for group in groups for value in group}
    found = list_values(key_of(kind), [column_of(kind, group) for group in groups])
    assert found is not None
    assert set(found.plain) == plain(kind, list(wanted))
    assert len(found.plain) == len(set(found.plain)) == len(found.array)
    assert found.may_null == (None in wanted)
    assert found.among(column_of(kind, others)).tolist() == [value in wanted for value in others]
    predicate = is_one_of(key_of(kind), found)
    for value in {*others, *wanted}:
        assert (answer(predicate, {1: value}) is True) == (value in wanted)


def test_kinds_of_numbers():
    assert set(ARROW) == NUMBERS | {"string", "binary"}


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        ("double", [0.5]),
        ("float", [0.5]),
        ("boolean", [True]),
        ("fixed[2]", [b"ab"]),
        ("uuid", ["f79c3e09-677c-4bbd-a479-512f87f77b4e"]),
    ],
)
def test_types_that_bounds_or_arrow_compare_in_another_way_are_not_listed(kind, values):
    """-0.0 and NaN, for instance."""
    array = pa.array(values, pa.binary(2)) if kind.startswith("fixed") else pa.array(values)
    if kind == "float":
        array = array.cast(pa.float32())
    assert list_values(key_of(kind), [encode_column(array, key_of(kind).kind)]) is None


@pytest.mark.parametrize("kind", ["long", "string"])
def test_many_values_are_not_listed(kind, monkeypatch):
    monkeypatch.setattr(listed_values, "MAX_LISTED_VALUES", 10)
    values = list(range(11)) if kind == "long" else [f"t{n}" for n in range(11)]
    listed = lambda *groups: list_values(key_of(kind), [column_of(kind, group) for group in groups])
    assert listed(values) is None
    assert listed(values[:10]) is not None
    assert listed(values[:6], values[5:10]) is not None
    assert listed(values[:6], values[5:]) is None
    # A long column is not even looked at, though it may hold one value.
    assert listed(values[:1] * 20) is not None
    assert listed(values[:1] * 21) is None


@pytest.mark.parametrize("values", [[5], list(range(50))])
def test_few_values_and_many(values):
    """The few are compared one by one."""
    found = list_values(key_of("long"), [column_of("long", values)])
    rows = [*range(-3, 60), None]
    assert found.among(column_of("long", rows)).tolist() == [row in values for row in rows]


@pytest.mark.parametrize("may_null", [True, False])
@pytest.mark.parametrize("kind", ["long", "string"])
def test_a_delete_file_that_lacks_the_column_has_null_there(kind, may_null):
    values = [*POOLS.get(kind, NUMBER_POOL), *([None] if may_null else [])]
    found = list_values(key_of(kind), [column_of(kind, values)])
    absent = encode_column(pa.nulls(3), key_of(kind).kind)
    assert found.among(absent).tolist() == [may_null] * 3


def test_the_predicate_of_nothing_and_of_null_alone():
    none = list_values(key_of("long"), [])
    assert is_one_of(key_of("long"), none) == FALSE
    only_null = list_values(key_of("long"), [column_of("long", [None, None])])
    assert str(is_one_of(key_of("long"), only_null)) == "k IS NULL"


def test_text_that_is_no_utf8_rules_nothing_out():
    """It has no literal; its rows are still found."""
    column = encode_column(pa.array([b"\xff", b"a"]), key_of("string").kind)
    found = list_values(key_of("string"), [column])
    assert set(found.plain) == {b"\xff", b"a"}
    assert is_one_of(key_of("string"), found) == TRUE
    assert found.among(column).all()
    assert np.array_equal(found.among(column_of("string", ["a", "b"])), [True, False])
