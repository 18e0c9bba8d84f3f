"""Bloom filters and dictionaries: never a row lost, and rows really spared."""

from __future__ import annotations

import datetime
import io
import math
import random
import uuid
from collections import Counter
from dataclasses import replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from twostage.parquet import bloom
from twostage.parquet.dictionary import dictionary_values, is_all_dictionary
from twostage.parquet.filters import bloom_may_contain, prune_by_bloom, prune_by_dictionary
from twostage.parquet.footer import Footer, read_footer
from twostage.predicates.predicate import (
    And,
    Column,
    Compare,
    CompareColumns,
    Constant,
    In,
    IsNull,
    Not,
    Or,
    StringMatch,
    Unknown,
)
from twostage.schema import Primitive

if TYPE_CHECKING:
    from pathlib import Path

    from twostage.parquet.schema_tree import Leaf

P = Primitive
IDS = [uuid.UUID(int=(i * 2**97 + i * 0xABCDEF) % 2**128) for i in range(200)]
EPOCH = datetime.datetime(1970, 1, 1)


class Opened:
    """A file in memory with its footer, and the file's leaves by field id (their order)."""

    def __init__(self, table: pa.Table, kinds: list[Primitive], **options: Any) -> None:
        sink = io.BytesIO()
        pq.write_table(table, sink, **options)
        self.open(sink.getvalue(), kinds)

    def open(self, data: bytes, kinds: list[Primitive]) -> None:
        self.data = data
        self.file = pa.BufferReader(data)
        self.footer: Footer = read_footer(self.file, self.file.size(), "p")
        self.kinds = kinds

    def leaf_of(self, field_id: int) -> tuple[Leaf, Primitive] | None:
        return (self.footer.leaves[field_id], self.kinds[field_id]) if field_id < len(self.kinds) else None

    def pruned(self, function: Any, predicate: Any, group: int = 0) -> bool:
        row_group = self.footer.row_groups[group]
        return bool(function(self.file, self.footer, row_group, predicate, self.leaf_of, "p"))


def column(kind: Primitive, field_id: int = 0) -> Column:
    return Column(field_id, (f"c{field_id}",), kind)


# --- Bloom ------------------------------------------------------------------------------------------------

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
    monkeypatch.setattr(bloom, "MAX_WHOLE", 64)
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
    assert bloom.xxh64(data) == expected


# --- dictionaries -----------------------------------------------------------------------------------------

TYPES: list[tuple[pa.DataType, Primitive, list[Any], list[Any]]] = [
    (pa.int32(), P("long"), [1, 5, 9], [1, 5, 9]),
    (pa.int64(), P("long"), [1, 5, 2**50], [1, 5, 2**50]),
    (pa.float32(), P("double"), [0.5, math.nan, -0.0], [0.5, math.nan, 0.0]),
    (pa.float64(), P("double"), [0.1, math.inf, 7.0], [0.1, math.inf, 7.0]),
    (pa.string(), P("string"), ["", "é", "zz" * 30], ["", "é", "zz" * 30]),
    (pa.binary(), P("binary"), [b"", b"\xff"], [b"", b"\xff"]),
    (pa.binary(16), P("uuid"), [IDS[1].bytes, IDS[2].bytes], [str(IDS[1]), str(IDS[2])]),
    (pa.date32(), P("date"), [datetime.date(1970, 1, 3), datetime.date(1969, 12, 31)], [2, -1]),
    (pa.timestamp("ms", tz="UTC"), P("timestamptz"), [EPOCH, EPOCH.replace(year=1960)], [0, -315_619_200_000_000]),
    (pa.timestamp("us"), P("timestamp"), [EPOCH.replace(microsecond=7)], [7]),
    (pa.decimal128(20, 2), P("decimal", 22, 2), [Decimal("-1.25"), Decimal("3.00")], [Decimal("-1.25"), Decimal("3.00")]),
    (pa.decimal128(38, 0), P("decimal", 38, 0), [Decimal(10**37), Decimal(-1)], [Decimal(10**37), Decimal(-1)]),
]  # fmt: skip


@pytest.mark.parametrize("options", [
    {"compression": "none"}, {"compression": "snappy"}, {"compression": "zstd", "data_page_version": "2.0"},
    {"compression": "gzip"}, {"compression": "brotli", "write_page_checksum": True}, {"compression": "lz4"},
    {"version": "1.0"}, {"store_decimal_as_integer": True},
], ids=str)  # fmt: skip
@pytest.mark.parametrize(("arrow", "kind", "stored", "internal"), TYPES, ids=str)
def test_dictionaries_hold_exactly_the_rows_values(
    options: dict[str, Any], arrow: pa.DataType, kind: Primitive, stored: list[Any], internal: list[Any]
) -> None:
    rows = [*stored, *stored, None, stored[0]]
    opened = Opened(pa.table({"c": pa.array(rows, arrow)}), [kind], write_statistics=False, **options)
    chunk = opened.footer.row_groups[0].columns[0]
    assert is_all_dictionary(chunk)
    values = dictionary_values(opened.file, opened.footer.leaves[0], chunk)
    assert values is not None
    assert Counter(map(repr, values.to_pylist())) == Counter(
        map(repr, pa.array(stored, values.type).to_pylist())
    )
    c = column(kind)
    for value in internal:
        assert not opened.pruned(prune_by_dictionary, Compare("=", c, value))
        assert not opened.pruned(prune_by_dictionary, Not(In(c, (value,)))) or len(internal) == 1
    assert opened.pruned(prune_by_dictionary, Not(In(c, tuple(internal))))
    assert not opened.pruned(prune_by_dictionary, IsNull(c))
    assert not opened.pruned(prune_by_dictionary, Not(IsNull(c)))


def test_dictionary_of_trees() -> None:
    kinds = [P("long"), P("string")]
    table = pa.table({"a": [1, 5, 9, 9], "b": ["apple", "pear", "plum", "plum"]})
    opened = Opened(table, kinds)
    a, b = column(kinds[0]), column(kinds[1], 1)
    ask = lambda predicate: opened.pruned(prune_by_dictionary, predicate)  # noqa: E731
    assert ask(And((Compare(">", a, 5), Compare("<", a, 9))))
    assert not ask(And((Compare(">=", a, 5), Compare("<", a, 9))))
    assert ask(StringMatch("contains", b, "each"))
    assert ask(StringMatch("suffix", b, "rum"))
    assert not ask(StringMatch("suffix", b, "lum"))
    assert ask(Or((Compare("=", a, 4), StringMatch("prefix", b, "peat"))))
    assert not ask(Or((Compare("=", a, 5), StringMatch("prefix", b, "peat"))))
    assert ask(Or((And((Compare("=", a, 4), Unknown("x"))), Compare("=", b, "fig"))))
    assert not ask(Unknown("x"))
    assert not ask(Constant(True))
    assert ask(Constant(None))
    assert ask(Not(In(b, ("apple", "pear", "plum"))))
    assert ask(IsNull(b))
    assert ask(In(a, tuple(i for i in range(-2_000, 2_000) if i not in (1, 5, 9))))


def test_pages_that_fell_back_to_plain_are_not_pruned() -> None:
    rng = random.Random(5)
    values = ["same"] * 3_000 + [f"{rng.random()}" for _ in range(30_000)]
    opened = Opened(
        pa.table({"c": values}), [P("string")], dictionary_pagesize_limit=10_000, data_page_size=2_000, write_batch_size=100
    )  # fmt: skip
    chunk = opened.footer.row_groups[0].columns[0]
    assert chunk.dictionary_page_offset is not None
    assert not is_all_dictionary(chunk)
    assert not opened.pruned(prune_by_dictionary, Compare("=", column(P("string")), values[-1]))
    assert not opened.pruned(prune_by_dictionary, Compare("=", column(P("string")), "0.absent"))
    without = replace(chunk, encoding_stats=None)
    assert not is_all_dictionary(without)
    assert is_all_dictionary(replace(chunk, encoding_stats=None, encodings=(2, 3)))
    assert not is_all_dictionary(replace(chunk, encoding_stats=None, encodings=(8, 3, 0)))
    assert not is_all_dictionary(replace(chunk, encoding_stats=((2, 0, 1),)))


def test_a_large_dictionary_is_left_alone() -> None:
    values = [f"{i:0100d}" for i in range(12_000)]
    opened = Opened(
        pa.table({"c": values}), [P("string")], compression="none", dictionary_pagesize_limit=2**22
    )
    assert is_all_dictionary(opened.footer.row_groups[0].columns[0])
    assert not opened.pruned(prune_by_dictionary, Compare("=", column(P("string")), f"{7:0100d}x"))


@pytest.mark.parametrize("codec", ["none", "snappy", "zstd", "gzip", "lz4", "brotli"])
def test_a_broken_dictionary_is_unknown_or_still_right(codec: str) -> None:
    rng = random.Random(codec)
    values = [f"value {i}" for i in range(40)]
    opened = Opened(pa.table({"c": values * 3}), [P("string")], compression=codec, write_page_checksum=True)
    chunk, leaf = opened.footer.row_groups[0].columns[0], opened.footer.leaves[0]
    start = chunk.dictionary_page_offset
    assert start is not None
    unknown = 0
    for _ in range(300):
        data = bytearray(opened.data)
        at = rng.randrange(start, chunk.data_page_offset)
        data[at] ^= 1 << rng.randrange(8)
        found = dictionary_values(pa.BufferReader(bytes(data)), leaf, chunk)
        unknown += found is None
        assert found is None or found.to_pylist() == values
    assert unknown > 250


@pytest.mark.parametrize("codec", ["none", "snappy", "zstd", "gzip", "lz4", "brotli"])
def test_a_dictionary_page_that_lies_of_its_size_is_unknown(codec: str) -> None:
    rng = random.Random(codec)
    opened = Opened(pa.table({"c": pa.array([3, 4, 5] * 9)}), [P("long")], compression=codec)
    chunk, leaf = opened.footer.row_groups[0].columns[0], opened.footer.leaves[0]
    start = chunk.dictionary_page_offset
    assert start is not None
    for _ in range(400):
        data = bytearray(opened.data)
        for _ in range(rng.choice([1, 2])):
            data[rng.randrange(start, start + 16)] = rng.randrange(256)
        found = dictionary_values(pa.BufferReader(bytes(data)), leaf, chunk)
        assert found is None or len(found) <= 2**20


@pytest.mark.parametrize("seed", range(4))
def test_no_row_is_ever_lost(seed: int) -> None:
    """Random files and predicates: a pruned row group holds no row for which plain Python says TRUE."""
    rng = random.Random(seed)
    kinds = [P("long"), P("string"), P("double")]
    pruned: Counter[str] = Counter()
    for _ in range(120):
        rows = rng.randrange(1, 30)
        pools: list[list[Any]] = [
            rng.sample(range(-20, 20), rng.randrange(1, 9)),
            [f"k{i}" for i in rng.sample(range(20), rng.randrange(1, 9))],
            [float(i) / 2 for i in rng.sample(range(-9, 9), rng.randrange(1, 6))],
        ]
        nulls = rng.choice([0, 0, 0.3])
        data = [[None if rng.random() < nulls else rng.choice(pool) for _ in range(rows)] for pool in pools]
        table = pa.table(
            {f"c{i}": pa.array(values, kind) for i, (values, kind) in enumerate(
                zip(data, [pa.int64(), pa.string(), pa.float64()], strict=True))}
        )  # fmt: skip
        opened = Opened(
            table, kinds, row_group_size=rng.choice([5, 100]), use_dictionary=rng.random() < 0.7,
            compression=rng.choice(["none", "zstd", "snappy"]), data_page_version=rng.choice(["1.0", "2.0"]),
            bloom_filter_options={f"c{i}": {"ndv": 30, "fpp": 0.01} for i in range(3)},
        )  # fmt: skip
        for _ in range(12):
            predicate, test = random_predicate(rng, kinds, 2)
            for group in opened.footer.row_groups:
                span = range(group.first_row, group.first_row + group.num_rows)
                matches = any(test([values[row] for values in data]) is True for row in span)
                for function in (prune_by_bloom, prune_by_dictionary):
                    if opened.pruned(function, predicate, group.index):
                        pruned[function.__name__] += 1
                        assert not matches, (
                            str(predicate),
                            [values[span.start : span.stop] for values in data],
                        )
    assert min(pruned["prune_by_bloom"], pruned["prune_by_dictionary"]) > 100, pruned


def random_predicate(rng: random.Random, kinds: list[Primitive], depth: int) -> tuple[Any, Any]:
    """Return a predicate and a Python function of a row that says the same."""
    if depth and rng.random() < 0.5:
        parts = [random_predicate(rng, kinds, depth - 1) for _ in range(2)]
        tests = [part[1] for part in parts]
        if rng.random() < 0.5:
            return And(tuple(part[0] for part in parts)), lambda row: all_of([test(row) for test in tests])
        return Or(tuple(part[0] for part in parts)), lambda row: any_of([test(row) for test in tests])
    if depth and rng.random() < 0.2:
        inner, test = random_predicate(rng, kinds, depth - 1)
        return Not(inner), lambda row: None if test(row) is None else not test(row)
    place = rng.randrange(3)
    c = column(kinds[place], place)
    value: Any = [rng.randrange(-20, 20), f"k{rng.randrange(20)}", rng.randrange(-9, 9) / 2][place]
    match rng.randrange(5):
        case 0:
            return IsNull(c), lambda row: row[place] is None
        case 1:
            return Compare("<=>", c, value), lambda row: row[place] == value
        case 2:
            return Compare("<", c, value), lambda row: None if row[place] is None else row[place] < value
        case 3 if place == 1:
            return StringMatch(
                "suffix", c, value[-1]
            ), lambda row: None if row[1] is None else row[1].endswith(value[-1])
    return In(c, (value,)), lambda row: None if row[place] is None else row[place] == value


def all_of(parts: list[bool | None]) -> bool | None:
    return False if False in parts else None if None in parts else True


def any_of(parts: list[bool | None]) -> bool | None:
    return True if True in parts else None if None in parts else False
