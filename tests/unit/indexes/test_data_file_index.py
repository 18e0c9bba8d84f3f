"""Indexes of one data file, every kind and type, against the filter on the values themselves."""

from __future__ import annotations

import json
import random
import struct
import uuid
import zlib
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from pyroaring import BitMap

from index_columns import FIELD, PLAIN_KINDS, Values, build, check, leaves, literals_of, opened, times_ignored
from twostage.columns import arrow_type
from twostage.indexes import puffin
from twostage.indexes.kinds.registered import KINDS
from twostage.indexes.kinds.values import ValuesReader
from twostage.indexes.puffin import read_footer
from twostage.metrics import Metrics
from twostage.predicates.predicate import Column, Compare, In, IsNull
from twostage.schema import Primitive

DECIMAL, WIDE = (Primitive("decimal", precision=p, scale=2) for p in (9, 38))
TYPES = [
    *(Primitive(name) for name in "boolean int long float double date timestamp timestamptz".split()),
    *(Primitive(name) for name in "timestamp_ns string uuid binary".split()),
    DECIMAL,
    WIDE,
    Primitive("fixed", length=4),
]
SHAPES = ["few", "many", "one", "clustered", "nulls", "empty"]


def values_of(kind: Primitive, shape: str, drawn: random.Random, rows: int = 400) -> pa.Array:
    """Return a column of some type and distribution."""
    if shape == "empty":
        return pa.array([], arrow_type(kind))
    if shape == "nulls":
        return pa.nulls(rows, arrow_type(kind))
    distinct = {"few": 7, "many": rows, "one": 1, "clustered": 40}[shape]
    pool = [_value(kind, drawn) for _ in range(distinct)]
    picked = [drawn.choice(pool) if shape != "many" else pool[row] for row in range(rows)]
    if shape == "clustered":
        picked = [pool[row * distinct // rows] for row in range(rows)]
    if shape != "one":
        picked = [None if drawn.random() < 0.1 else value for value in picked]
    array = pa.array(picked, _plain(arrow_type(kind)))
    return array.cast(arrow_type(kind)) if array.type != arrow_type(kind) else array


def _plain(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_timestamp(kind):
        return pa.int64()
    return pa.int32() if pa.types.is_date(kind) else kind


def _value(kind: Primitive, drawn: random.Random):
    match kind.name:
        case "boolean":
            return drawn.random() < 0.5
        case "int" | "date":
            return drawn.randrange(-1000, 1000)
        case "float" | "double":
            special = [0.0, -0.0, float("nan"), float("inf"), float("-inf")]
            return drawn.choice(special) if drawn.random() < 0.1 else float(np.float32(drawn.gauss(0, 100)))
        case "decimal":
            return Decimal(drawn.randrange(-(10**30 if kind == WIDE else 10**6), 10**6)).scaleb(-2)
        case "string":
            return (
                "prefix-" * drawn.randrange(3)
                + drawn.choice("aé\U0001f600z") * drawn.randrange(30)
                + str(drawn.random())[:4]
            )
        case "uuid":
            return str(uuid.UUID(int=drawn.getrandbits(128)))
        case "binary":
            return drawn.randbytes(drawn.randrange(12))
        case "fixed":
            return drawn.randbytes(4)
    return drawn.randrange(-(2**40), 2**40)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("kind", TYPES, ids=str)
def test_answers_are_those_of_the_filter(tmp_path, kind, shape):
    seed = random.randrange(2**32)
    print("seed", seed)
    drawn = random.Random(seed)
    array = values_of(kind, shape, drawn)
    column = Column(FIELD, ("x",), kind)
    asked = list(leaves(column, literals_of(array, kind, drawn), drawn))
    for name, one in KINDS.items():
        if one.refuses(kind):
            continue
        index = opened(build(tmp_path, Values(array, kind), (name,)))
        answered = 0
        for leaf in asked:
            answer = check(index, leaf, array)
            answered += answer is not None
            if answer is not None and name == "values":
                assert answer.is_exact
        assert answered > 3 or shape == "nulls" or kind == WIDE
    index = opened(
        build(tmp_path, Values(array, kind), tuple(n for n in KINDS if not KINDS[n].refuses(kind)))
    )
    for leaf in asked:
        check(index, leaf, array)


@pytest.mark.parametrize("name", PLAIN_KINDS)
def test_a_small_budget_changes_nothing(tmp_path, name):
    drawn = random.Random(7)
    array = pa.array([f"{drawn.randrange(1000)}-{'x' * drawn.randrange(60)}" for _ in range(6_000)])
    kind = Primitive("string")
    if KINDS[name].refuses(kind):
        array, kind = pa.array([drawn.randrange(-(2**40), 2**40) for _ in range(60_000)]), Primitive("long")
    ample = build(tmp_path, Values(array, kind), (name,), name="ample").read_bytes()
    small = build(tmp_path, Values(array, kind), (name,), budget=2**16, name="small")
    if name != "values":  # there the runs' limits decide the blocks'
        assert small.read_bytes() == ample
    index = opened(small)
    for value in array[:20].to_pylist():
        check(index, Compare("=", Column(FIELD, ("x",), kind), value), array)
        check(index, Compare(">", Column(FIELD, ("x",), kind), value), array)


@pytest.mark.parametrize(
    ("built", "now", "cast", "value"),
    [
        ("int", "long", None, 7),
        ("int", "int", "long", 7),
        ("int", "int", "double", 7.5),
        ("int", "int", "double", float("nan")),
        ("int", "int", "double", float("-inf")),
        ("long", "long", None, 7),
        ("float", "double", None, 0.5),
        ("float", "float", "double", 0.1),
        ("timestamp_ns", "timestamp_ns", "timestamp", 1),
    ],
)
@pytest.mark.parametrize("name", PLAIN_KINDS)
def test_promoted_and_cast_columns(tmp_path, built, now, cast, value, name):
    if KINDS[name].refuses(Primitive(built)):
        pytest.skip(f"columns of type {built} have no such index")
    drawn = random.Random(3)
    numbers = [drawn.randrange(-20, 20) * (700 if built == "timestamp_ns" else 1) for _ in range(500)]
    if built == "float":
        numbers = [number / 4 for number in numbers]
    array = pa.array(numbers, _plain(arrow_type(Primitive(built)))).cast(arrow_type(Primitive(built)))
    index = opened(build(tmp_path, Values(array, Primitive(built)), (name,)))
    column = Column(FIELD, ("x",), Primitive(now), Primitive(cast) if cast else None)
    read = array.cast(arrow_type(Primitive(now)))
    answered = [
        check(index, Compare(op, column, value), read) for op in ("=", "<>", "<", "<=", ">", ">=", "<=>")
    ]
    answered.append(check(index, In(column, (value,)), read))
    is_interval = name == "postings" and built == "timestamp_ns"  # of a thousand nanoseconds each
    assert any(answer is not None for answer in answered) != is_interval


def test_what_the_index_cannot_tell_it_does_not_answer(tmp_path):
    array = pa.array([1, 2, 3], pa.int64())
    index = opened(build(tmp_path, Values(array, Primitive("long")), tuple(PLAIN_KINDS)))
    metrics = Metrics()
    for column in (
        Column(FIELD, ("x",), Primitive("long"), Primitive("double")),  # rounds
        Column(FIELD, ("x",), Primitive("timestamp")),  # another type than it was built for
        Column(FIELD + 1, ("y",), Primitive("long")),
    ):
        assert index.find(Compare("=", column, 1), metrics) is None
        assert index.cost(Compare("=", column, 1), metrics) is None
    assert not metrics.counters


def test_edges_of_containers_and_of_words(tmp_path):
    """2^16 rows fill a container of a bitmap; 64 a word of a slice."""
    for rows in (1, 63, 64, 65, 2**16 - 1, 2**16, 2**16 + 1):
        array = pa.array(np.arange(rows) % 300)
        index = opened(build(tmp_path, Values(array, Primitive("long"), chunk=7777), ("bins", "postings")))
        column = Column(FIELD, ("x",), Primitive("long"))
        answer = index.find(Compare("=", column, (rows - 1) % 300), Metrics())
        assert answer is not None
        assert rows - 1 in answer.possible
        check(index, Compare(">=", column, 250), array)


def test_counts_and_bitmaps_of_values(tmp_path):
    array = pa.array([1.0, -0.0, None, 0.0, float("nan"), 1.0])
    index = opened(build(tmp_path, Values(array, Primitive("double"), chunk=2), ("values",)))
    found = index.value_counts(FIELD, Metrics())
    assert found is not None
    assert str(found.values.to_pylist()) == "[0.0, 1.0, nan]"
    assert found.counts.tolist() == [2, 2, 1]
    assert found.nulls == 1
    rows = index.of_kind(FIELD, ValuesReader, lambda kind, reader: kind.block(0, reader)[1], Metrics())
    assert rows == [BitMap([1, 3]), BitMap([0, 5]), BitMap([4])]
    assert index.nulls(FIELD, Metrics()) == BitMap([2])
    assert (
        opened(build(tmp_path, Values(array, Primitive("double")), ("bins",))).value_counts(FIELD, Metrics())
        is None
    )


def test_bins_of_texts_go_by_what_follows_their_common_beginning(tmp_path):
    array = pa.array([f"{'x' * 300}{number:06}" for number in range(2_000)])
    column = Column(FIELD, ("x",), Primitive("string"))
    index = opened(build(tmp_path, Values(array, Primitive("string")), ("bins",)))
    for value in ("x" * 300 + "000700", "x" * 300, "x" * 299, "x" * 301, "y", "w", "", "x" * 300 + "0007"):
        for op in ("=", "<", ">="):
            answer = check(index, Compare(op, column, value), array)
            assert len(answer.unsure) < 30


def test_sorted_rows_find_ranges_of_few_rows_and_leave_wide_ones(tmp_path):
    drawn = np.random.default_rng(8)
    numbers = np.concatenate([drawn.integers(-(2**62), 2**62, 150_000), np.full(50_000, 7)])
    drawn.shuffle(numbers)
    array = pa.array(numbers)
    column = Column(FIELD, ("x",), Primitive("long"))
    index = opened(build(tmp_path, Values(array, Primitive("long"), chunk=50_000), ("sorted",)))
    ascending = np.sort(numbers)
    for leaf, rows in (
        (Compare("<", column, int(ascending[1_000])), 1_000),
        (Compare(">=", column, int(ascending[-300])), 300),
        (Compare("=", column, int(ascending[5])), 1),
        (In(column, tuple(ascending[:900:3].tolist())), 300),
        (Compare("<", column, int(ascending[0])), 0),
        (Compare(">", column, 2**62), 0),
    ):
        answer = check(index, leaf, array)
        cost = index.cost(leaf, Metrics())
        assert len(answer.certain) <= rows <= len(answer.possible) <= rows + 2 + rows // 10
        assert len(answer.unsure) <= 2 * cost.unsure
        assert answer.cost.nbytes <= 2 * cost.nbytes
    for leaf in (
        Compare("<", column, int(ascending[100_000])),
        Compare("=", column, 7),  # a quarter of the rows
        Compare("<=", column, 7),
    ):
        assert index.find(leaf, Metrics()) is None
        assert index.cost(leaf, Metrics()) is None


def test_a_value_of_megabytes_and_many_values(tmp_path):
    array = pa.array(["x" * 300_000, "y", "x" * 300_000 + "z", None, *map(str, range(5_000))])
    column = Column(FIELD, ("x",), Primitive("string"))
    for name in PLAIN_KINDS:
        if KINDS[name].refuses(Primitive("string")):
            continue
        index = opened(build(tmp_path, Values(array, Primitive("string")), (name,)))
        for value in ("x" * 300_000, "y", "xx", "4999"):
            answer = check(index, Compare("=", column, value), array)
            assert answer is not None
            check(index, Compare("<", column, value), array)


def test_it_is_of_one_version_of_the_file(tmp_path):
    index = opened(build(tmp_path, Values(pa.array([1]), Primitive("long")), ()))
    assert index.is_of(b"")
    assert index.is_of(b"any")
    index._etag = b"one".hex()
    assert index.is_of(b"one")
    assert not index.is_of(b"two")
    assert index.find(IsNull(Column(FIELD, ("x",), Primitive("long"))), Metrics()).is_exact


@pytest.mark.parametrize("name", PLAIN_KINDS)
def test_a_damaged_index_is_ignored_with_one_warning(tmp_path, name):
    seed = random.randrange(2**32)
    print("seed", seed)
    drawn = random.Random(seed)
    array = pa.array([drawn.randrange(500) for _ in range(4_000)])
    path = build(tmp_path, Values(array, Primitive("long")), (name,))
    column = Column(FIELD, ("x",), Primitive("long"))
    asked = (Compare("=", column, 7), Compare("<", column, 300), IsNull(column))
    assert times_ignored(path, drawn, 100, asked, array) > 15


@pytest.mark.parametrize("name", PLAIN_KINDS)
def test_made_up_directories_end_in_a_warning_or_an_answer(tmp_path, name):
    """With right checksums: whoever writes there decides which rows are returned, but nothing else may happen."""
    seed = random.randrange(2**32)
    print("seed", seed)
    drawn = random.Random(seed)
    array = pa.array([drawn.randrange(500) for _ in range(3_000)])
    path = build(tmp_path, Values(array, Primitive("long")), (name,))
    data = path.read_bytes()
    with pa.OSFile(str(path)) as file:
        footer, _ = read_footer(file)
    (directory,) = (blob for blob in footer.blobs.values() if blob.part == "directory")
    column = Column(FIELD, ("x",), Primitive("long"))
    ignored = 0
    for number in range(80):
        body = bytearray(data[directory.offset : directory.offset + directory.length])
        for _ in range(drawn.choice((1, 1, 4))):
            body[drawn.randrange(len(body))] = drawn.choice((0, 1, 127, 255))
        if number < 32:
            body[number] ^= 1  # what the directory begins with says most
        path.write_bytes(with_blob(data, directory.offset, bytes(body)))
        index = opened(path)
        metrics = Metrics()
        for leaf in (Compare("=", column, 7), Compare("<", column, 300)):
            index.cost(leaf, metrics)
            answer = index.find(leaf, metrics)
            assert answer is None or not answer.possible or answer.possible.max() < len(array)
        index.value_counts(FIELD, metrics)
        assert set(metrics.counters) <= {"indexes.ignored"}
        ignored += index.is_bad
    assert ignored or name == "bins"  # whose directory is mostly bounds of bins


def with_blob(data: bytes, offset: int, body: bytes) -> bytes:
    """Return an index file with other bytes in one blob, and the checksums that belong to them."""
    (length,) = struct.unpack("<i", data[-12:-8])
    plain = json.loads(data[-12 - length : -12])
    plain["properties"].pop("footer-crc32")
    (blob,) = (one for one in plain["blobs"] if one["offset"] == offset)
    blob["properties"]["crc32"] = str(zlib.crc32(body))
    plain["properties"]["footer-crc32"] = str(puffin._crc_of(plain))
    payload = puffin._canonical(plain)
    whole = data[:offset] + body + data[offset + len(body) : -16 - length]
    return whole + b"PFA1" + payload + struct.pack("<i4s4s", len(payload), bytes(4), b"PFA1")


def test_of_two_kinds_the_one_that_leaves_fewer_rows_to_check_is_asked(tmp_path):
    """`sorted` reads a little less of an equality than `postings` does, and leaves all texts that begin alike to check."""
    values = [f"device-{number * 7919 % 100_000:06}" for number in range(100_000)]
    array, column = pa.array(values), Column(FIELD, ("x",), Primitive("string"))
    kinds = ("postings", "sorted")
    by_kind = {
        kind: opened(build(tmp_path / kind, Values(array, Primitive("string")), (kind,))) for kind in kinds
    }
    index = opened(build(tmp_path / "both", Values(array, Primitive("string")), kinds))
    leaf = Compare("=", column, "device-000077")
    costs = {kind: one.cost(leaf, Metrics()) for kind, one in by_kind.items()}
    assert costs["sorted"].nbytes < costs["postings"].nbytes
    assert costs["sorted"].unsure > 10 * costs["postings"].unsure
    assert check(index, leaf, array).kinds == ("postings",)
    assert check(index, Compare(">=", column, "device-099990"), array).kinds == ("sorted",)
