"""Spark's Bloom filters in Python: the hashes of its SQL function, both versions, kernels and twins."""

from __future__ import annotations

import base64
import struct
import zlib

import numpy as np
import pyarrow as pa
import pytest
import xxhash

from twostage.errors import InternalError
from twostage.predicates.bind import bind_predicate
from twostage.predicates.evaluate import evaluate
from twostage.predicates.key_bloom import may_be_keys, takes_bloom
from twostage.predicates.lanes import read_lane
from twostage.predicates.predicate import Column, InBloom, KeyBloom, Not, both, is_exact, without_implied
from twostage.predicates.prune import Match, match
from twostage.schema import Field, Primitive, Schema

_MASK32, _MASK64 = 0xFFFFFFFF, 2**64 - 1


def _murmur(item: int, seed: int) -> int:
    """Murmur3_x86_32.hashLong, from its definition."""

    def turn(word: int, bits: int) -> int:
        return (word << bits | word >> (32 - bits)) & _MASK32

    hashed = seed & _MASK32
    for word in (item & _MASK32, item >> 32 & _MASK32):
        mixed = turn(word * 0xCC9E2D51 & _MASK32, 15) * 0x1B873593 & _MASK32
        hashed = (turn(hashed ^ mixed, 13) * 5 + 0xE6546B64) & _MASK32
    hashed ^= 8
    hashed = (hashed ^ hashed >> 16) * 0x85EBCA6B & _MASK32
    hashed = (hashed ^ hashed >> 13) * 0xC2B2AE35 & _MASK32
    return hashed ^ hashed >> 16


def _signed(value: int, bits: int) -> int:
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


def _places(hashed: int, size: int, num_hashes: int, seed: int, version: int) -> list[int]:
    first = _murmur(hashed, seed)
    second = _signed(_murmur(hashed, first), 32)
    first, found = _signed(first, 32), []
    combined = first * (2**31 - 1) if version == 2 else first
    for _ in range(num_hashes):
        combined = _signed(combined + second, 64 if version == 2 else 32)
        found.append((~combined if combined < 0 else combined) % size)
    return found


def _hash(value: int | str, kind: str) -> int:
    raw = (
        value.encode()
        if isinstance(value, str)
        else value.to_bytes(4 if kind in ("int", "date") else 8, "little", signed=True)
    )
    return xxhash.xxh64_intdigest(raw, seed=42)


def bloom_of(values, kind: str, version: int = 1, seed: int = 0, num_words: int = 40) -> KeyBloom:
    """Make a filter as Spark does, by plain Python."""
    words = [0] * num_words
    for value in values:
        for place in _places(_hash(value, kind), 64 * num_words, 4, seed, version):
            words[place // 64] |= 1 << place % 64
    head = struct.pack(">iii", 2, 4, seed) if version == 2 else struct.pack(">ii", 1, 4)
    return KeyBloom(head + struct.pack(">i", num_words) + struct.pack(f">{num_words}Q", *words), len(values))


ARROW = {
    "int": pa.int32(),
    "long": pa.int64(),
    "date": pa.date32(),
    "timestamptz": pa.timestamp("us", "UTC"),
    "string": pa.string(),
}


@pytest.mark.parametrize("kind", sorted(ARROW))
@pytest.mark.parametrize(("version", "seed"), [(1, 0), (2, 0), (2, -77)])
@pytest.mark.parametrize("kernels", [True, False])
def test_each_key_passes_and_few_others(kind, version, seed, kernels):
    draw = np.random.default_rng(5)
    if kind == "string":
        values = ["x" * int(size) + str(number) for number, size in enumerate(draw.integers(0, 70, 600))]
        values += ["", "ü", "a" * 31, "a" * 32, "a" * 33, "a" * 64, "abcd", "abcdefgh"]
    else:
        width = 31 if kind in ("int", "date") else 62
        values = [int(value) for value in draw.integers(-(2**width), 2**width, 600)] + [0, 1, -1]
        if kind == "timestamptz" or kind == "date":
            values = [value % 10**6 for value in values]
    keys = values[::3]
    bloom = bloom_of(keys, kind, version, seed)
    if kind == "string":
        array = pa.array(values, pa.string())
    else:
        array = pa.array(values, pa.int32() if kind in ("int", "date") else pa.int64()).cast(ARROW[kind])
    found = may_be_keys(bloom, read_lane(array), Primitive(kind), kernels=kernels)
    size = 64 * 40
    words = struct.unpack_from(">40Q", bloom.data, 16 if version == 2 else 12)
    expected = [
        all(words[p // 64] >> p % 64 & 1 for p in _places(_hash(v, kind), size, 4, seed, version))
        for v in values
    ]
    assert found.tolist() == expected
    assert all(found[::3])
    assert not all(found)


def test_a_column_of_dictionaries_and_nulls():
    column = Column(1, ("s",), Primitive("string"))
    leaf = InBloom(column, bloom_of(["a", "c"], "string"))
    array = pa.array(["a", None, "b", "c", "a"]).dictionary_encode()
    truth = evaluate(leaf, {1: array}, 5)
    assert truth.true.tolist() == [True, False, False, True, True]
    assert truth.null.tolist() == [False, True, False, False, False]
    assert str(leaf) == "s IN Bloom filter of 2 keys"
    assert is_exact(leaf)
    assert match(leaf, lambda _: None) is Match.SOME


def test_an_int_under_a_cast_to_long_is_hashed_as_long():
    column = Column(1, ("n",), Primitive("int"), Primitive("long"))
    leaf = InBloom(column, bloom_of([5, 7], "long"))
    assert evaluate(leaf, {1: pa.array([5, 6, 7], pa.int32())}, 3).true.tolist() == [True, False, True]


def test_binding():
    schema = Schema(
        fields=(
            Field(id=1, name="n", type=Primitive("int"), required=False),
            Field(id=2, name="d", type=Primitive("double"), required=False),
        ),
        schema_id=0,
    )
    bloom = bloom_of([5], "int")
    raw = {"op": "in_bloom", "term": {"column": ["n"]}, "type": "integer", "count": 1}
    raw["filter"] = base64.b64encode(bloom.data).decode()
    bound = bind_predicate(raw, schema)
    assert bound == InBloom(Column(1, ("n",), Primitive("int")), bloom)
    assert not is_exact(bind_predicate({**raw, "type": "long"}, schema))
    assert not is_exact(bind_predicate({**raw, "term": {"column": ["d"]}, "type": "double"}, schema))
    present = bind_predicate({"op": "is_not_null", "term": {"column": ["n"]}}, schema)
    assert isinstance(present, Not)
    assert without_implied(both(present, bound)) == bound


def test_compressed_bytes():
    bloom = bloom_of([5, 7], "long")
    leaf = InBloom(Column(1, ("n",), Primitive("long")), KeyBloom(zlib.compress(bloom.data, 1), 2))
    assert evaluate(leaf, {1: pa.array([5, 6, 7])}, 3).true.tolist() == [True, False, True]


def test_types_that_are_hashed():
    assert takes_bloom(Primitive("date"))
    assert not takes_bloom(Primitive("double"))


@pytest.mark.parametrize(
    "data",
    [b"", b"\x78\x9c", b"\x00" * 12, struct.pack(">iii", 3, 4, 1) + bytes(16), struct.pack(">iii", 1, 4, 9)],
)
def test_other_bytes_are_no_filter(data):
    with pytest.raises(InternalError, match="No Bloom filter"):
        may_be_keys(KeyBloom(data, 1), read_lane(pa.array([1])), Primitive("long"), kernels=False)
