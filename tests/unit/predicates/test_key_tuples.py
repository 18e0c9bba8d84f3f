"""Tuples of a join's keys: the rows of plain Python's own sets, by hashes from another library, kernels and twins."""

from __future__ import annotations

import base64
import datetime
import random
import struct
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
import xxhash

from twostage.errors import InternalError
from twostage.predicates.bind import bind_predicate
from twostage.predicates.evaluate import evaluate
from twostage.predicates.key_set import key_set
from twostage.predicates.key_tuples import may_be_tuples, takes_tuples
from twostage.predicates.lanes import read_lane
from twostage.predicates.predicate import (
    Column,
    Compare,
    InTuples,
    IsNull,
    Not,
    both,
    columns,
    is_exact,
    without_implied,
)
from twostage.predicates.prune import Match, match
from twostage.schema import Field, Primitive, Schema

NAN = float("nan")
CENTS = Primitive("decimal", precision=12, scale=2)
EPOCH = datetime.date(1970, 1, 1)
KINDS = {
    "int": (Primitive("int"), pa.int32(), [0, 1, -1, 2**31 - 1, -(2**31), 77]),
    "long": (Primitive("long"), pa.int64(), [0, 1, -1, 2**63 - 1, -(2**63), 2**32]),
    "date": (
        Primitive("date"),
        pa.date32(),
        [EPOCH, datetime.date(2024, 2, 29), datetime.date(1969, 12, 31)],
    ),
    "string": (
        Primitive("string"),
        pa.string(),
        ["", "a", "ü", "abcd", "abcdefgh", "x" * 31, "x" * 32, "y" * 71],
    ),
    "float": (Primitive("float"), pa.float32(), [0.0, -0.0, NAN, 1.5, float("inf"), -2.25]),
    "double": (Primitive("double"), pa.float64(), [0.0, -0.0, NAN, 1.1, float("-inf"), 5e-324]),
    "decimal": (CENTS, pa.decimal128(12, 2), [Decimal("0.00"), Decimal("-1.50"), Decimal("9999999999.99")]),
}
"""Types by name: ours, Arrow's and some values."""


def plain(value):
    """What a join compares: NaN is one value, and -0.0 is 0.0."""
    if isinstance(value, float):
        return "NaN" if value != value else value + 0.0
    return value


def hash_of(values, kinds) -> int:
    """Spark's xxhash64 of several columns, signed, from its definition."""
    seed = 42
    for value, kind in zip(values, kinds, strict=True):
        if kind == "string":
            raw = value.encode()
        elif kind in ("float", "double"):
            normal = NAN if value != value else value + 0.0
            raw = struct.pack("<f" if kind == "float" else "<d", normal)
        elif kind == "decimal":
            raw = struct.pack("<q", int(value.scaleb(2)))
        elif kind == "date":
            raw = struct.pack("<i", (value - EPOCH).days)
        else:
            raw = struct.pack("<i" if kind == "int" else "<q", value)
        seed = xxhash.xxh64_intdigest(raw, seed=seed)
    return seed - 2**64 if seed >= 2**63 else seed


def leaf_of(kinds, tuples) -> InTuples:
    hashes = sorted({hash_of(one, kinds) for one in tuples})
    named = tuple(Column(place + 1, (f"c{place}",), KINDS[kind][0]) for place, kind in enumerate(kinds))
    return InTuples(named, key_set(np.array(hashes, np.int64)))


@pytest.mark.parametrize("kernels", [True, False])
@pytest.mark.parametrize(
    "kinds",
    [
        ("int", "int"),
        ("long", "string"),
        ("string", "date", "int"),
        ("float", "double"),
        ("decimal", "string", "float"),
    ],
)
def test_rows(kinds, kernels):
    pick = random.Random(f"{kinds}")
    rows = [
        tuple(pick.choice([None, *KINDS[kind][2], *KINDS[kind][2]]) for kind in kinds) for _ in range(400)
    ]
    tuples = [row for row in rows[::7] if None not in row]
    expected = {tuple(map(plain, one)) for one in tuples}
    leaf = leaf_of(kinds, tuples)
    arrays = [pa.array([row[place] for row in rows], KINDS[kind][1]) for place, kind in enumerate(kinds)]
    for given in (
        arrays,
        [array.dictionary_encode() for array in arrays],
        [array.slice(3, 200) for array in arrays],
    ):
        part = rows[3:203] if len(given[0]) == 200 else rows
        truth = evaluate(
            leaf, {place + 1: array for place, array in enumerate(given)}, len(part), kernels=kernels
        )
        assert truth.true.tolist() == [tuple(map(plain, row)) in expected for row in part]
        assert truth.null.tolist() == [None in row for row in part]
    assert 0 < len(expected) < len({tuple(map(plain, row)) for row in rows})


def test_a_column_that_no_file_has_is_null():
    leaf = leaf_of(("int", "int"), [(1, 2)])
    truth = evaluate(leaf, {1: pa.array([1, 2], pa.int32()), 2: pa.nulls(2)}, 2)
    assert not truth.true.any()
    assert truth.null.all()


def test_what_it_tells_of_itself():
    leaf = leaf_of(("int", "string"), [(1, "a"), (2, "b")])
    assert str(leaf) == "(c0, c1) IN set of 2 keys"
    assert is_exact(leaf)
    assert columns(both(leaf, Compare("=", leaf.columns[0], 1))) == leaf.columns
    assert without_implied(both(Not(IsNull(leaf.columns[1])), leaf)) == leaf
    assert match(leaf, lambda _: None) is Match.SOME


def test_binding():
    schema = Schema(
        fields=tuple(
            Field(id=place + 1, name=name, type=kind, required=False)
            for place, (name, kind) in enumerate(
                (("c0", Primitive("int")), ("c1", Primitive("string")), ("raw", Primitive("binary")))
            )
        ),
        schema_id=0,
    )
    leaf = leaf_of(("int", "string"), [(1, "a"), (2, "b")])
    raw = {
        "op": "in_tuples",
        "terms": [{"column": ["c0"]}, {"column": ["c1"]}],
        "types": ["integer", "string"],
    }
    raw |= {"keys": base64.b64encode(leaf.keys.data).decode(), "count": 2}
    assert bind_predicate(raw, schema) == leaf
    assert not is_exact(bind_predicate({**raw, "types": ["long", "string"]}, schema))
    other = {**raw, "terms": [{"column": ["c0"]}, {"column": ["raw"]}], "types": ["integer", "binary"]}
    assert not is_exact(bind_predicate(other, schema))


def test_types():
    assert all(takes_tuples(kind) for kind, _, _ in KINDS.values())
    assert not takes_tuples(Primitive("decimal", precision=19, scale=0))
    assert not takes_tuples(Primitive("boolean"))


def test_values_of_another_type_are_an_error():
    lane = read_lane(pa.array([1.5]))
    with pytest.raises(InternalError, match="No tuple has keys of type int"):
        may_be_tuples(key_set(np.array([1])), [lane], [Primitive("int")], 1, kernels=False)
