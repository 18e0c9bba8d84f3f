"""Dictionaries of column chunks: exactly the rows' values, or unknown."""

from __future__ import annotations

import datetime
import math
import random
from collections import Counter
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from twostage.formats.parquet.dictionary import dictionary_values, is_all_dictionary
from twostage.formats.parquet.filters import prune_by_dictionary
from twostage.predicates.predicate import And, Compare, Constant, In, IsNull, Not, Or, StringMatch, Unknown
from twostage.schema import Primitive
from written_files import IDS, Opened, P, column

EPOCH = datetime.datetime(1970, 1, 1)


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
