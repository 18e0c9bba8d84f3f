"""Footers: what pyarrow wrote is read as pyarrow says it is; what is wrong is a typed error."""

from __future__ import annotations

import io
import random
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import thrift_writer
from footer_views import our_view, pyarrow_views, same_view
from twostage.errors import CorruptFileError, TwoStageError, UnsupportedFeatureError
from twostage.formats.parquet.file_metadata import Footer
from twostage.formats.parquet.footer import FIRST_READ, read_footer


class CountingFile:
    """A file in memory that remembers what was read."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.reads: list[tuple[int, int]] = []

    def read_at(self, length: int, offset: int) -> bytes:
        self.reads.append((offset, length))
        return self.data[offset : offset + length]


def footer_of(data: bytes) -> Footer:
    return read_footer(CountingFile(data), len(data), "s3://bucket/file.parquet")  # type: ignore[arg-type]


def written(table: pa.Table, **options: Any) -> bytes:
    sink = io.BytesIO()
    pq.write_table(table, sink, **options)
    return sink.getvalue()


def table_of(num_rows: int) -> pa.Table:
    rng = random.Random(num_rows)
    ids = {b"PARQUET:field_id": b"7"}
    return pa.table(
        {
            "i": pa.array([rng.choice([None, 1, 2]) for _ in range(num_rows)], pa.int32()),
            "l": pa.array(range(num_rows), pa.int64()),
            "s": pa.array([f"v{i % 9}" for i in range(num_rows)]),
            "d": pa.array([Decimal(i) for i in range(num_rows)], pa.decimal128(20, 2)),
            "t": pa.array(range(num_rows), pa.timestamp("us", tz="UTC")),
            "n": pa.array([{"x": i, "y": [i] * (i % 3)} for i in range(num_rows)]),
            "m": pa.array([[("k", i)] for i in range(num_rows)], pa.map_(pa.string(), pa.int64())),
        },
        schema=pa.schema(
            [
                pa.field("i", pa.int32(), metadata=ids),
                pa.field("l", pa.int64(), nullable=False),
                pa.field("s", pa.string()),
                pa.field("d", pa.decimal128(20, 2)),
                pa.field("t", pa.timestamp("us", tz="UTC")),
                pa.field("n", pa.struct([("x", pa.int64()), ("y", pa.list_(pa.int64()))])),
                pa.field("m", pa.map_(pa.string(), pa.int64())),
            ]
        ),
    )


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"compression": "zstd", "row_group_size": 30},
        {"compression": "gzip", "data_page_version": "2.0", "row_group_size": 64},
        {"compression": "none", "use_dictionary": False, "write_page_index": True},
        {"compression": "lz4", "version": "1.0", "bloom_filter_options": {"l": {"ndv": 100, "fpp": 0.05}}},
        {"compression": "brotli", "store_decimal_as_integer": True, "write_statistics": False},
    ],
    ids=str,
)
@pytest.mark.parametrize("num_rows", [0, 1, 100])
def test_equals_what_pyarrow_reads(options: dict[str, Any], num_rows: int, tmp_path: Path) -> None:
    path = tmp_path / "file.parquet"
    path.write_bytes(written(table_of(num_rows), **options))
    footer = footer_of(path.read_bytes())
    same_view(our_view(footer), pyarrow_views([path])[0])
    assert footer.leaves[0].field_id == 7
    assert footer.leaf_of(7) == footer.leaves[0]
    assert footer.leaf_of(8) is None
    assert footer.key_values.keys() >= {"ARROW:schema"}
    first = 0
    for group in footer.row_groups:
        assert group.first_row == first
        assert 4 <= group.start < len(path.read_bytes())
        first += group.num_rows


def test_indexes_and_encodings_are_told() -> None:
    data = written(table_of(50), write_page_index=True, bloom_filter_options={"l": {"ndv": 100, "fpp": 0.05}})
    group = footer_of(data).row_groups[0]
    chunk = group.columns[1]
    assert chunk.bloom_filter_offset is not None
    assert chunk.offset_index is not None
    assert chunk.column_index is not None
    assert chunk.offset_index[0] + chunk.offset_index[1] <= len(data)
    assert group.columns[0].bloom_filter_offset is None
    text = group.columns[2]
    assert text.encoding_stats is not None
    assert {kind for kind, _, _ in text.encoding_stats} == {0, 2}
    assert text.statistics is not None
    assert (text.statistics.minimum, text.statistics.maximum) == (b"v0", b"v8")


def test_one_read_of_a_small_footer_and_two_of_a_large_one() -> None:
    small = CountingFile(written(table_of(50)))
    read_footer(small, len(small.data), "p")  # type: ignore[arg-type]
    assert len(small.reads) == 1
    large = CountingFile(written(pa.table({f"c{i}": [1, 2] for i in range(500)}), row_group_size=1))
    read_footer(large, len(large.data), "p")  # type: ignore[arg-type]
    assert len(large.reads) == 2
    assert large.reads[0][1] == FIRST_READ


# --- made footers -----------------------------------------------------------------------------------------

PAGES = b"PAR1" + bytes(100)


def chunk(**changed: Any) -> dict[int, tuple[str, Any]]:
    meta: dict[int, tuple[str, Any]] = {
        1: ("i32", changed.get("physical", 1)),
        2: ("list:i32", [0, 3]),
        3: ("list:binary", [changed.get("name", b"a")]),
        4: ("i32", changed.get("codec", 0)),
        5: ("i64", changed.get("values", 3)),
        6: ("i64", 40),
        7: ("i64", changed.get("size", 40)),
        9: ("i64", changed.get("data_page", 4)),
    }
    for number, key in ((14, "bloom"), (15, "bloom_length")):
        if key in changed:
            meta[number] = ("i64", changed[key])
    if "dictionary" in changed:
        meta[11] = ("i64", changed["dictionary"])
    fields: dict[int, tuple[str, Any]] = {2: ("i64", 0), 3: ("struct", meta)}
    if "file_path" in changed:
        fields[1] = ("binary", changed["file_path"])
    if changed.get("encrypted"):
        fields[8] = ("struct", {1: ("struct", {})})
        del fields[3]
    return fields


def element(name: bytes, **fields: Any) -> dict[int, tuple[str, Any]]:
    result: dict[int, tuple[str, Any]] = {4: ("binary", name)}
    for number, key in ((1, "physical"), (3, "repetition"), (5, "children"), (2, "length")):
        if key in fields:
            result[number] = ("i32", fields[key])
    return result


SCHEMA = [element(b"root", children=1), element(b"a", physical=1, repetition=0)]


def made(
    *, schema: Any = None, chunks: Any = None, rows: int = 3, group_rows: int = 3, more: Any = None
) -> bytes:
    group = {
        1: ("list:struct", [chunk()] if chunks is None else chunks),
        2: ("i64", 40),
        3: ("i64", group_rows),
    }
    raw = thrift_writer.struct(
        {
            1: ("i32", 2),
            2: ("list:struct", SCHEMA if schema is None else schema),
            3: ("i64", rows),
            4: ("list:struct", [group]),
            **(more or {}),
        }
    )
    return PAGES + raw + len(raw).to_bytes(4, "little") + b"PAR1"


def test_a_made_footer_is_read() -> None:
    footer = footer_of(made())
    assert (footer.num_rows, footer.leaves[0].path, footer.ordered) == (3, ("a",), (False,))
    assert footer.row_groups[0].columns[0].start == 4
    assert footer_of(made(chunks=[chunk(dictionary=0)])).row_groups[0].columns[0].start == 4


@pytest.mark.parametrize(
    ("offset", "length", "kept"), [(4, 50, True), (-4, 50, False), (4, 500, False), (2**40, 1, False)]
)
def test_a_bloom_filter_outside_the_file_is_none(offset: int, length: int, kept: bool) -> None:
    data = made(chunks=[chunk(bloom=offset, bloom_length=length)])
    assert (footer_of(data).row_groups[0].columns[0].bloom_filter_offset is not None) is kept


def test_a_list_in_the_bloom_filters_field_is_no_bloom_filter() -> None:
    """As Drill once wrote it: the file was refused."""
    written = chunk()
    written[3][1][14] = ("list:i32", [1, 2])
    assert footer_of(made(chunks=[written])).row_groups[0].columns[0].bloom_filter_offset is None


def nested(depth: int) -> list[Any]:
    groups = [element(b"g", children=1, repetition=1) for _ in range(depth)]
    return [*groups, element(b"a", physical=1, repetition=0)]


CORRUPT: dict[str, bytes] = {
    "empty": b"",
    "four bytes": b"PAR1",
    "bad magic": made()[:-4] + b"PAR2",
    "not parquet": b"x" * 1_000,
    "length zero": PAGES + bytes(4) + b"PAR1",
    "length huge": PAGES + b"\xff\xff\xff\xff" + b"PAR1",
    "length of whole file": PAGES + (112).to_bytes(4, "little") + b"PAR1",
    "garbage": PAGES + b"\x99" * 50 + (50).to_bytes(4, "little") + b"PAR1",
    "rows disagree": made(rows=4),
    "negative rows": made(rows=-3, group_rows=-3),
    "values disagree": made(chunks=[chunk(values=2)]),
    "negative values": made(chunks=[chunk(values=-1)], group_rows=-1, rows=-1),
    "negative size": made(chunks=[chunk(size=-1)]),
    "pages past the end": made(chunks=[chunk(size=400)]),
    "pages inside the footer": made(chunks=[chunk(size=105)]),
    "page offset negative": made(chunks=[chunk(data_page=-5)]),
    "page offset huge": made(chunks=[chunk(data_page=2**62)]),
    "dictionary past the end": made(chunks=[chunk(dictionary=2, data_page=90)]),
    "other physical type": made(chunks=[chunk(physical=2)]),
    "other column's chunk": made(chunks=[chunk(name=b"b")]),
    "column missing": made(chunks=[]),
    "column too many": made(chunks=[chunk(), chunk()]),
    "unknown physical type": made(schema=[SCHEMA[0], element(b"a", physical=12)]),
    "negative physical type": made(schema=[SCHEMA[0], element(b"a", physical=-1)]),
    "unknown repetition": made(schema=[SCHEMA[0], element(b"a", physical=1, repetition=3)]),
    "no schema": made(schema=[]),
    "children beyond the end": made(schema=[element(b"root", children=9), SCHEMA[1]]),
    "children huge": made(schema=[element(b"root", children=2**31 - 1), SCHEMA[1]]),
    "children negative": made(schema=[element(b"root", children=-1), SCHEMA[1]]),
    "elements left over": made(schema=[*SCHEMA, SCHEMA[1]]),
    "nested 1,000 deep": made(schema=nested(1_000)),
    "name is not UTF-8": made(schema=[SCHEMA[0], element(b"\xff", physical=1)]),
    "no row groups": PAGES + b"\x15\x04\x00" + (3).to_bytes(4, "little") + b"PAR1",
    "schema is a number": made(more={2: ("i32", 5)}),
    "codec is missing": made(chunks=[{3: ("struct", {1: ("i32", 1)})}]),
}


@pytest.mark.parametrize("name", CORRUPT)
def test_a_wrong_footer_is_a_corrupt_file(name: str) -> None:
    with pytest.raises(CorruptFileError) as caught:
        footer_of(CORRUPT[name])
    assert caught.value.code == "CORRUPT_PARQUET"
    assert caught.value.path == "s3://bucket/file.parquet"
    assert caught.value.stage == "prune"


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (made(chunks=[chunk(codec=17)]), "UNSUPPORTED_CODEC"),
        (made(chunks=[chunk(codec=-1)]), "UNSUPPORTED_CODEC"),
        (made(chunks=[chunk(encrypted=True)]), "ENCRYPTED_PARQUET"),
        (made(more={8: ("struct", {1: ("struct", {})})}), "ENCRYPTED_PARQUET"),
        (made()[:-4] + b"PARE", "ENCRYPTED_PARQUET"),
        (made(chunks=[chunk(file_path=b"other.parquet")]), "EXTERNAL_COLUMN_CHUNK"),
    ],
)
def test_what_pyarrow_cannot_be_asked_about_is_refused_by_name(data: bytes, code: str) -> None:
    with pytest.raises(UnsupportedFeatureError) as caught:
        footer_of(data)
    assert caught.value.code == code


def test_a_file_shorter_than_its_metadata_says_is_told() -> None:
    data = made()
    with pytest.raises(CorruptFileError, match="shorter"):
        read_footer(CountingFile(data), len(data) + 5, "p")  # type: ignore[arg-type]


@pytest.mark.parametrize("seed", range(4))
def test_mutated_footers_give_a_footer_or_a_typed_error(seed: int) -> None:
    rng = random.Random(seed)
    whole = written(table_of(40), row_group_size=25, write_page_index=True)
    length = int.from_bytes(whole[-8:-4], "little")
    outcomes = set()
    for _ in range(400):
        data = bytearray(whole)
        for _ in range(rng.choice([1, 1, 3])):
            at = len(data) - 1 - rng.randrange(length + 8)
            match rng.randrange(3):
                case 0:
                    data[at] ^= 1 << rng.randrange(8)
                case 1:
                    data[at] = rng.randrange(256)
                case _:
                    del data[at : at + rng.randrange(1, 9)]
        try:
            footer = footer_of(bytes(data))
            assert sum(group.num_rows for group in footer.row_groups) == footer.num_rows
            outcomes.add("read")
        except TwoStageError:
            outcomes.add("error")
    assert outcomes == {"read", "error"}
