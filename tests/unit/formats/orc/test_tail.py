"""Tails of ORC files: what pyarrow says of the same file, and tails made by hand that contradict themselves."""

from __future__ import annotations

import io
import random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import orc

from twostage.errors import TwoStageError, UnsupportedFeatureError
from twostage.formats.orc.tail import FIRST_READ, KINDS, OrcType, Stripe, Tail, read_stripe_footer, read_tail

from .protobuf_writer import blob, number

STRUCT, LIST, MAP, UNION, INT, LONG = (
    KINDS.index(kind) for kind in ("struct", "list", "map", "union", "int", "long")
)


class CountingFile:
    """The bytes of a file, and how often they were read."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.reads = 0

    def read_at(self, length: int, offset: int) -> pa.Buffer:
        self.reads += 1
        return pa.py_buffer(self.data[offset : offset + length])


def tail_of(data: bytes) -> Tail:
    return read_tail(pa.BufferReader(data), len(data))


def written(table: pa.Table, **options: Any) -> bytes:
    out = io.BytesIO()
    orc.write_table(table, out, **options)
    return out.getvalue()


@pytest.mark.parametrize("codec", ["uncompressed", "zlib", "snappy", "lz4", "zstd"])
def test_equals_what_pyarrow_reads(codec: str) -> None:
    numbers = np.random.default_rng(1).integers(0, 2**63, 30_000)  # which no codec makes smaller
    data = written(pa.table({"a": numbers}), compression=codec, stripe_size=1, batch_size=1024)
    tail, theirs = tail_of(data), orc.ORCFile(io.BytesIO(data))
    counts = [len(theirs.read_stripe(i)) for i in range(theirs.nstripes)]
    assert len(counts) > 2
    assert tail.num_rows == theirs.nrows == 30_000
    assert tail.codec == theirs.compression.lower().replace("uncompressed", "none")
    assert tail.block_size == theirs.compression_size
    assert [stripe.num_rows for stripe in tail.stripes] == counts
    assert [stripe.first_row for stripe in tail.stripes] == [sum(counts[:i]) for i in range(len(counts))]
    assert tail.stripes[0].offset == len(b"ORC")
    last = tail.stripes[-1]
    end = last.offset + last.index_length + last.data_length + last.footer_length
    assert end == len(b"ORC") + theirs.content_length == len(data) - tail.num_bytes
    assert len(tail.stripe_statistics) == theirs.nstripe_statistics == len(counts)


def test_types_are_numbered_in_preorder() -> None:
    inner = pa.struct([("x", pa.int32()), ("y", pa.list_(pa.decimal128(9, 2)))])
    kind = pa.map_(pa.string(), inner)
    schema = pa.schema([pa.field("m", kind, metadata={"iceberg.id": "7"}), ("b", pa.bool_())])
    tail = tail_of(written(pa.Table.from_pylist([], schema)))
    found = []

    def walk(one: OrcType) -> None:
        found.append((one.column, one.kind, one.names))
        for child in one.children:
            walk(child)

    walk(tail.schema)
    assert found == [
        (0, "struct", ("m", "b")),
        (1, "map", ()),
        (2, "string", ()),
        (3, "struct", ("x", "y")),
        (4, "int", ()),
        (5, "list", ()),
        (6, "decimal", ()),
        (7, "boolean", ()),
    ]
    assert (tail.num_columns, tail.num_rows) == (8, 0)
    assert tail.schema.children[0].attributes == {"iceberg.id": "7"}
    decimal = tail.schema.children[0].children[1].children[1].children[0]
    assert (decimal.precision, decimal.scale) == (9, 2)


def test_one_read_of_a_small_tail_and_two_of_a_large_one() -> None:
    for num_columns, reads in ((10, 1), (2_000, 2)):
        data = written(pa.table({f"column {i}": [i] for i in range(num_columns)}), compression="uncompressed")
        file = CountingFile(data)
        tail = read_tail(file, len(data))
        assert (tail.num_columns, file.reads) == (num_columns + 1, reads)
        assert (tail.num_bytes > FIRST_READ) == (reads == 2)


def kind_of(kind: int, children: tuple[int, ...] = (), names: tuple[str, ...] = ()) -> bytes:
    message = number(1, kind) + b"".join(number(2, child) for child in children)
    return message + b"".join(blob(3, name.encode()) for name in names)


ROOT = kind_of(STRUCT, (1,), ("a",))
PAGES = b"ORC" + bytes(100)


def stripe(offset: int = 3, rows: int = 5, lengths: tuple[int, int, int] = (10, 20, 5)) -> bytes:
    values = [offset, *lengths, rows]
    return b"".join(number(tag, value) for tag, value in enumerate(values, start=1))


def made(
    *,
    types: tuple[bytes, ...] = (ROOT, kind_of(LONG)),
    stripes: tuple[bytes, ...] = (stripe(),),
    rows: int = 5,
    statistics: bytes = blob(1, blob(1, b"")),
    more: bytes = b"",
    script: bytes = number(4, 0) + number(4, 12),
    magic: bytes = b"ORC",
    lengths: tuple[int, int] | None = None,
) -> bytes:
    """Return an uncompressed file: a footer, the statistics of its stripes, and a PostScript."""
    footer = b"".join(blob(3, one) for one in stripes) + b"".join(blob(4, one) for one in types)
    footer += number(6, rows) + more
    of_footer, of_statistics = lengths or (len(footer), len(statistics))
    post = number(1, of_footer) + number(5, of_statistics) + script + blob(8000, magic)
    return PAGES + statistics + footer + post + bytes([len(post)])


def test_a_made_tail_is_read() -> None:
    tail = tail_of(made(script=number(4, 0) + number(4, 11) + number(6, 9), more=number(9, 4)))
    assert (tail.num_rows, tail.num_columns, tail.codec) == (5, 2, "none")
    assert (tail.writer, tail.writer_version) == (4, 9)
    assert tail.stripes == (
        Stripe(index=0, first_row=0, num_rows=5, offset=3, index_length=10, data_length=20, footer_length=5),
    )
    assert [child.kind for child in tail.schema.children] == ["long"]
    assert tail_of(made(script=b"")).num_rows == 5  # the first writers stated no version


WRONG = {
    "no magic bytes": made(magic=b"ORX").replace(PAGES, bytes(len(PAGES))),
    "a tail longer than the file": made(lengths=(10**6, 0)),
    "a tail longer than any": made(lengths=(2**40, 0)),
    "other rows than the stripes'": made(rows=6),
    "stripes that overlap": made(stripes=(stripe(), stripe(offset=37)), rows=10),
    "a stripe behind the pages": made(stripes=(stripe(offset=80),)),
    "a stripe of negative rows": made(stripes=(stripe(rows=2**64 - 5),), rows=2**64 - 5),
    "no types": made(types=()),
    "an unknown type": made(types=(ROOT, kind_of(len(KINDS)))),
    "a struct without names": made(types=(kind_of(STRUCT, (1,)), kind_of(LONG))),
    "a list of two": made(types=(ROOT, kind_of(LIST, (2, 3)), kind_of(INT), kind_of(INT))),
    "a map of one": made(types=(ROOT, kind_of(MAP, (2,)), kind_of(INT))),
    "a number with children": made(types=(ROOT, kind_of(INT, (2,)), kind_of(INT))),
    "a type within itself": made(types=(ROOT, kind_of(LIST, (1,)))),
    "a child out of order": made(types=(ROOT, kind_of(LIST, (3,)), kind_of(INT), kind_of(INT))),
    "types of no column": made(types=(ROOT, kind_of(LONG), kind_of(LONG))),
    "nested too deep": made(types=(ROOT, *(kind_of(LIST, (i,)) for i in range(2, 150)), kind_of(LONG))),
    "blocks too large": made(script=number(2, 1) + number(3, 2**24)),
    "a name that is not UTF-8": made(
        types=(number(1, STRUCT) + number(2, 1) + blob(3, b"\xff"), kind_of(LONG))
    ),
    "no bytes": b"",
    "a few bytes": b"ORC\x00",
    "a PostScript of nothing": b"ORC" + bytes(20),
    "a PostScript longer than the file": b"ORC" + b"\xff" * 20,
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_tail_is_an_error(name: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011
        tail_of(WRONG[name])


def test_a_child_that_is_missing_is_an_error() -> None:
    """`storage.files.translate_errors` counts both kinds as damage."""
    with pytest.raises((ValueError, LookupError)):
        tail_of(made(types=(ROOT,)))


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (made(script=number(4, 2) + number(4, 0)), "UNSUPPORTED_ORC_VERSION"),
        (made(script=number(4, 1999)), "UNSUPPORTED_ORC_VERSION"),
        (made(script=number(2, 3)), "UNSUPPORTED_COMPRESSION"),
        (made(more=blob(10, b"")), "UNSUPPORTED_ENCRYPTION"),
        (made(types=(kind_of(LONG),)), "UNSUPPORTED_ORC_TYPE"),
    ],
)
def test_what_is_refused_by_name(data: bytes, code: str) -> None:
    with pytest.raises(UnsupportedFeatureError) as caught:
        tail_of(data)
    assert caught.value.code == code


@pytest.mark.parametrize("statistics", [b"", b"\xff", blob(1, b"") * 2, number(1, 3)])
def test_damaged_statistics_are_none(statistics: bytes) -> None:
    """They only prune: a file is readable without."""
    assert tail_of(made()).stripe_statistics == (blob(1, b""),)
    assert tail_of(made(statistics=statistics)).stripe_statistics == ()


def test_damaged_bytes_are_a_tail_or_an_error() -> None:
    """Whatever is returned is consistent: stripes lie one behind the other, before the tail."""
    pick = random.Random(5)
    whole = made(stripes=(stripe(), stripe(offset=38, rows=7)), rows=12)
    read = wrong = 0
    for _ in range(2_000):
        data = bytearray(whole)
        for _ in range(pick.randint(1, 2)):
            data[pick.randrange(len(PAGES), len(data))] = pick.randrange(256)
        try:
            tail = tail_of(bytes(data))
        except (ValueError, LookupError, OSError, TwoStageError):
            wrong += 1
            continue
        read += 1
        end = 0
        for one in tail.stripes:
            assert end <= one.offset
            end = one.offset + one.index_length + one.data_length + one.footer_length
        assert end <= len(data) - tail.num_bytes
        assert tail.num_rows == sum(one.num_rows for one in tail.stripes)
    assert min(read, wrong) > 100


def with_stripe_footer(footer: bytes) -> tuple[pa.BufferReader, Tail]:
    """Return a file of one stripe of 30 bytes with this footer, and its tail."""
    data = bytearray(made(stripes=(stripe(lengths=(10, 20, len(footer))),)))
    data[33 : 33 + len(footer)] = footer
    return pa.BufferReader(bytes(data)), tail_of(bytes(data))


def stream(kind: int, column: int, length: int) -> bytes:
    return blob(1, number(1, kind) + number(2, column) + number(3, length))


ENCODINGS = blob(2, b"") + blob(2, number(1, 3) + number(2, 9))


def test_a_stripes_footer() -> None:
    file, tail = with_stripe_footer(
        stream(6, 0, 10) + stream(0, 1, 4) + stream(1, 1, 16) + ENCODINGS + blob(3, b"UTC")
    )
    footer = read_stripe_footer(file, tail, tail.stripes[0])
    places = [(one.kind, one.column, one.offset, one.length) for one in footer.streams]
    assert places == [(6, 0, 3, 10), (0, 1, 13, 4), (1, 1, 17, 16)]
    assert (footer.encodings, footer.time_zone) == (((0, 0), (3, 9)), "UTC")


@pytest.mark.parametrize(
    "footer",
    [
        stream(1, 1, 31) + ENCODINGS,
        stream(1, 1, 20) + stream(1, 0, 11) + ENCODINGS,
        stream(1, 1, 2**63) + ENCODINGS,
        stream(1, 1, 30) + blob(2, b""),
        stream(1, 1, 30) + ENCODINGS + blob(2, b""),
        b"\xff" * 9,
    ],
)
def test_a_wrong_stripe_footer_is_an_error(footer: bytes) -> None:
    file, tail = with_stripe_footer(footer)
    with pytest.raises(ValueError):  # noqa: PT011
        read_stripe_footer(file, tail, tail.stripes[0])


def test_an_encrypted_stripe_is_refused_by_name() -> None:
    file, tail = with_stripe_footer(ENCODINGS + blob(4, b""))
    with pytest.raises(UnsupportedFeatureError) as caught:
        read_stripe_footer(file, tail, tail.stripes[0])
    assert caught.value.code == "UNSUPPORTED_ENCRYPTION"
