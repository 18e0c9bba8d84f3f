"""Bloom filters: what is there is found, most of what is not is spared, and a broken filter proves nothing."""

from __future__ import annotations

import datetime
import math
import random
from dataclasses import replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
import pytest

from twostage.formats.parquet import bloom
from twostage.formats.parquet.filters import bloom_may_contain, prune_by_bloom
from twostage.predicates.predicate import And, Column, Compare, CompareColumns, In, Not, Or, Unknown
from twostage.schema import Primitive
from written_files import IDS, Opened, P, column

if TYPE_CHECKING:
    from pathlib import Path


CASES: list[tuple[pa.DataType, Primitive, Any, Any]] = [
    (pa.int32(), P("int"), lambda i: i * 7, lambda i: i * 7),
    (pa.int32(), P("long"), lambda i: i * 7 - 300, lambda i: i * 7 - 300),
    (pa.int64(), P("long"), lambda i: i * 10**12 - 5, lambda i: i * 10**12 - 5),
    (pa.float32(), P("double"), lambda i: i / 4, lambda i: i / 4),
    (pa.float64(), P("double"), lambda i: i / 3, lambda i: i / 3),
    (pa.string(), P("string"), lambda i: f"é{i}" * (i % 9), lambda i: f"é{i}" * (i % 9)),
    (pa.binary(), P("binary"), lambda i: bytes([i % 250]) * 40, lambda i: bytes([i % 250]) * 40),
    (pa.binary(16), P("uuid"), lambda i: IDS[i].bytes, lambda i: str(IDS[i])),
    (pa.binary(3), P("fixed", length=3), lambda i: bytes([i % 250] * 3), lambda i: bytes([i % 250] * 3)),
    (pa.date32(), P("date"), lambda i: datetime.date.fromordinal(719_163 + i), lambda i: i),
    (pa.timestamp("ms"), P("timestamp"), lambda i: i * 1_001, lambda i: i * 1_001_000),
    (pa.timestamp("us", tz="UTC"), P("timestamptz"), lambda i: i * 1_001, lambda i: i * 1_001),
    (pa.timestamp("ns"), P("timestamp_ns"), lambda i: i * 1_001, lambda i: i * 1_001),
    (pa.time64("us"), P("time"), lambda i: datetime.time(0, 0, 0, i), lambda i: i),
    (pa.decimal128(20, 2), P("decimal", 20, 2), lambda i: Decimal(i - 50) / 4, lambda i: Decimal(i - 50) / 4),
]


@pytest.mark.parametrize(("arrow", "kind", "stored", "internal"), CASES, ids=[str(case[0]) for case in CASES])
def test_bloom_finds_what_is_there_and_spares_what_is_not(
    arrow: pa.DataType, kind: Primitive, stored: Any, internal: Any
) -> None:
    numbers = range(0, 200, 2)
    table = pa.table({"c": pa.array([*(stored(i) for i in numbers), None], arrow)})
    opened = Opened(table, [kind], bloom_filter_options={"c": {"ndv": 200, "fpp": 0.01}})
    chunk, leaf = opened.footer.row_groups[0].columns[0], opened.footer.leaves[0]
    present = {internal(i) for i in numbers}
    for value in present:
        assert bloom_may_contain(opened.file, chunk, leaf, kind, [value]), value
    absent = {internal(i) for i in range(1, 200, 2)} - present
    spared = [value for value in absent if not bloom_may_contain(opened.file, chunk, leaf, kind, [value])]
    assert len(spared) > 0.8 * len(absent)
    assert not bloom_may_contain(opened.file, chunk, leaf, kind, spared)
    assert bloom_may_contain(opened.file, chunk, leaf, kind, [*spared, next(iter(present))])
    if spared:
        assert opened.pruned(prune_by_bloom, Compare("=", column(kind), spared[0]))


def test_decimals_stored_as_integers() -> None:
    table = pa.table({"c": pa.array([Decimal("1.25"), Decimal("-7.00")], pa.decimal128(9, 2))})
    options = {"store_decimal_as_integer": True, "bloom_filter_options": {"c": {"ndv": 10, "fpp": 0.001}}}
    opened = Opened(table, [P("decimal", 9, 2)], **options)
    ask = lambda text: opened.pruned(prune_by_bloom, Compare("=", column(P("decimal", 9, 2)), Decimal(text)))  # noqa: E731
    assert [ask("1.25"), ask("1.250"), ask("-7")] == [False, False, False]
    assert [ask("1.26"), ask("-6"), ask("1.255")] == [True, True, True]


def test_literals_outside_the_files_type_are_nowhere() -> None:
    opened = Opened(
        pa.table({"c": pa.array([1, 2**31 - 1], pa.int32())}),
        [P("long")],
        bloom_filter_options={"c": True},
        write_statistics=False,
    )
    assert opened.pruned(prune_by_bloom, Compare("=", column(P("long")), 2**40))
    assert not opened.pruned(prune_by_bloom, Compare("=", column(P("long")), 2**31 - 1))


@pytest.mark.parametrize("zero", [0.0, -0.0])
def test_zeros_are_equal_and_nan_is_not_asked(zero: float) -> None:
    opened = Opened(
        pa.table({"c": pa.array([zero, math.nan, 5.0])}), [P("double")], bloom_filter_options={"c": True}
    )
    for value in (0.0, -0.0, math.nan, 5.0):
        assert not opened.pruned(prune_by_bloom, Compare("=", column(P("double")), value))
    assert opened.pruned(prune_by_bloom, Compare("=", column(P("double")), 3.0))
    assert opened.pruned(prune_by_bloom, Compare("<=>", column(P("double")), 3.0))
    assert not opened.pruned(prune_by_bloom, Compare("<", column(P("double")), 3.0))


def test_nan_is_found_under_any_of_its_bits() -> None:
    other_nan = pa.array([0x7FF8000000000001], pa.int64()).view(pa.float64())
    opened = Opened(pa.table({"c": other_nan}), [P("double")], bloom_filter_options={"c": True})
    assert not opened.pruned(prune_by_bloom, Compare("=", column(P("double")), math.nan))


@pytest.mark.parametrize(("kind", "pruned"), [(P("float"), False), (P("double"), True)], ids=str)
def test_a_literal_between_two_floats(kind: Primitive, pruned: bool) -> None:
    """0.1 typed as a float is the nearest float; as a double it equals no float."""
    table = pa.table({"c": pa.array([0.1], pa.float32())})
    opened = Opened(table, [kind], bloom_filter_options={"c": True}, write_statistics=False)
    assert opened.pruned(prune_by_bloom, Compare("=", column(kind), 0.1)) is pruned


def test_a_cast_that_changes_the_instant_is_not_asked() -> None:
    table = pa.table({"c": pa.array([0], pa.timestamp("us"))})
    opened = Opened(table, [P("timestamp")], bloom_filter_options={"c": True}, write_statistics=False)
    shifted = Column(0, ("c",), P("timestamp"), P("timestamptz"))
    assert not opened.pruned(prune_by_bloom, Compare("=", shifted, 3_600_000_000))


def test_uuid_text_that_is_not_canonical_is_not_asked() -> None:
    table = pa.table({"c": pa.array([IDS[3].bytes], pa.binary(16))})
    opened = Opened(table, [P("uuid")], bloom_filter_options={"c": True}, write_statistics=False)
    assert not opened.pruned(prune_by_bloom, Compare("=", column(P("uuid")), str(IDS[4]).upper()))
    assert opened.pruned(prune_by_bloom, Compare("=", column(P("uuid")), str(IDS[4])))


def test_bloom_of_trees() -> None:
    kinds = [P("int"), P("string")]
    table = pa.table({"a": pa.array([1, 5, 9], pa.int32()), "b": ["x", "y", "z"]})
    opened = Opened(table, kinds, bloom_filter_options={"a": {"ndv": 9, "fpp": 1e-4}, "b": True})
    a, b = column(kinds[0]), column(kinds[1], 1)
    miss_a, hit_a = Compare("=", a, 4), Compare("=", a, 5)
    miss_b = In(b, ("xa", "xb"))
    ask = lambda predicate: opened.pruned(prune_by_bloom, predicate)  # noqa: E731
    assert ask(And((hit_a, miss_b)))
    assert ask(Or((miss_a, miss_b)))
    assert not ask(Or((hit_a, miss_b)))
    assert not ask(Not(miss_a))
    assert ask(Not(Compare("<>", a, 4)))
    assert ask(Or((Compare(">", a, 100), miss_b)))  # one part by statistics, the other by the filter
    assert ask(And((Unknown("upper"), miss_a)))
    assert not ask(Or((Unknown("upper"), miss_a)))
    assert ask(In(a, (2, 3, 4), has_null=True))
    assert not ask(In(a, (2, 3, 5)))
    assert ask(In(a, tuple(range(10, 5_000))))
    assert ask(In(a, (2, *range(10, 5_000))))  # only 2 lies within the statistics
    assert not ask(In(a, (1, *range(10, 5_000))))
    assert not ask(In(a, (9, *range(10, 5_000))))
    assert not ask(CompareColumns("=", a, a))
    widened = Column(0, ("a",), P("int"), P("long"))
    assert ask(Compare("=", widened, 4))
    assert not ask(Compare("=", widened, 5))
    assert not ask(Compare("=", Column(0, ("a",), P("int"), P("double")), 4.0))
    assert not ask(Compare("=", column(P("int"), 7), 4))  # not in the file


def test_a_filter_larger_than_one_read_is_asked_by_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    table = pa.table({"c": pa.array(range(0, 4_000, 2), pa.int64())})
    opened = Opened(table, [P("long")], bloom_filter_options={"c": {"ndv": 2_000, "fpp": 0.01}})
    answers = [opened.pruned(prune_by_bloom, Compare("=", column(P("long")), i)) for i in range(300)]
    monkeypatch.setattr(bloom, "MAX_WHOLE_BYTES", 64)
    assert answers == [opened.pruned(prune_by_bloom, Compare("=", column(P("long")), i)) for i in range(300)]
    assert not any(answers[::2])
    assert sum(answers) > 120
    assert not opened.pruned(prune_by_bloom, In(column(P("long")), tuple(range(1, 99, 2))))


def test_a_broken_filter_proves_nothing_false() -> None:
    rng = random.Random(11)
    table = pa.table({"c": pa.array(range(0, 200, 2), pa.int64())})
    opened = Opened(table, [P("long")], bloom_filter_options={"c": {"ndv": 100, "fpp": 0.01}})
    chunk = opened.footer.row_groups[0].columns[0]
    assert chunk.bloom_filter_offset is not None
    ask = Compare("=", column(P("long")), 3)
    assert opened.pruned(prune_by_bloom, ask)
    data = bytearray(opened.data)
    data[chunk.bloom_filter_offset : chunk.bloom_filter_offset + 16] = bytes(16)
    opened.file = pa.BufferReader(bytes(data))
    assert not opened.pruned(prune_by_bloom, ask)
    for _ in range(500):  # any header: an answer, no exception
        data[chunk.bloom_filter_offset : chunk.bloom_filter_offset + 16] = rng.randbytes(16)
        opened.file = pa.BufferReader(bytes(data))
        opened.pruned(prune_by_bloom, ask)
    leaf = opened.footer.leaves[0]
    for offset in (len(data) - 3, len(data) - 60):
        moved = replace(chunk, bloom_filter_offset=offset)
        assert bloom_may_contain(opened.file, moved, leaf, P("long"), [3])
    cut = pa.BufferReader(opened.data[: chunk.bloom_filter_offset + 30])
    assert bloom_may_contain(cut, chunk, leaf, P("long"), [3])


def test_filters_written_by_duckdb(tmp_path: Path) -> None:
    path = tmp_path / "d.parquet"
    duckdb.sql(
        f"COPY (SELECT (range % 200 * 2)::BIGINT AS i, 'v' || (range % 200 * 2) AS s FROM range(4000))"
        f" TO '{path}' (FORMAT PARQUET, BLOOM_FILTER_FALSE_POSITIVE_RATIO 0.01)"
    )
    opened = Opened(pa.table({"c": [1]}), [])
    opened.open(path.read_bytes(), [P("long"), P("string")])
    assert all(chunk.bloom_filter_offset for chunk in opened.footer.row_groups[0].columns)
    for field_id, kind, value in ((0, P("long"), int), (1, P("string"), lambda i: f"v{i}")):
        asked = [
            opened.pruned(prune_by_bloom, Compare("=", column(kind, field_id), value(i))) for i in range(400)
        ]
        assert not any(asked[::2])
        assert sum(asked[1::2]) > 180


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", 0xEF46DB3751D8E999),
        (b"a", 0xD24EC4F1A98C6E5B),
        (b"abc", 0x44BC2CF5AD770999),
        (b"Nobody inspects the spammish repetition", 0xFBCEA83C8A378BF1),
    ],
)
def test_xxh64_of_published_values(data: bytes, expected: int) -> None:
    assert bloom.xxh64_intdigest(data) == expected
