"""Avro containers: what fastavro wrote comes back record by record, and what a header does not announce is an error."""

from __future__ import annotations

import io
import random
from collections import Counter
from typing import Any

import fastavro
import pytest

from twostage.errors import CorruptFileError, ResourceLimitError, TwoStageError, UnsupportedFeatureError
from twostage.formats.avro.container import (
    SYNC_BYTES,
    iterate_records,
    min_bytes,
    open_avro,
    open_header,
    read_records,
)
from twostage.formats.varint import write_zigzag

SCHEMA = {
    "type": "record",
    "name": "row",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "text", "type": ["null", "string"]},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
    ],
}
SYNC = bytes(range(16))


def rows(count: int) -> list[dict[str, Any]]:
    return [{"id": i - 5, "text": None if i % 3 else "é" * i, "day": i * 1000} for i in range(count)]


def write(records: list[dict[str, Any]], schema: Any = SCHEMA, **options: Any) -> bytes:
    out = io.BytesIO()
    fastavro.writer(out, schema, records, sync_marker=SYNC, **options)
    return out.getvalue()


def opened(data: bytes) -> Any:
    return open_avro(data, path="f.avro", code="CORRUPT_MANIFEST")


def corrupt(data: bytes, schema: Any = SCHEMA) -> str:
    """Return the message of the error that a damaged container ends in."""
    with pytest.raises(CorruptFileError) as caught:
        read_records(opened(data), schema)
    assert (caught.value.code, caught.value.path) == ("CORRUPT_MANIFEST", "f.avro")
    return str(caught.value)


def block(count: int, content: bytes) -> bytes:
    return write_zigzag(count) + write_zigzag(len(content)) + content + SYNC


@pytest.mark.parametrize("codec", ["null", "deflate"])
def test_records_come_back_as_stored(codec: str) -> None:
    """Without logical types: a date stays a number, which Python's own dates need not hold."""
    data = write(rows(100), codec=codec, sync_interval=200, metadata={"format-version": "2"})
    file = opened(data)
    assert (file.codec, file.metadata["format-version"]) == (codec, "2")
    assert len(file.blocks) > 3
    assert read_records(file, SCHEMA) == rows(100)
    by_block = list(iterate_records(file, SCHEMA))
    assert [len(records) for records in by_block] == [count for count, _ in file.blocks]
    assert [record for records in by_block for record in records] == rows(100)


def test_a_projection_skips_fields() -> None:
    wanted = {**SCHEMA, "fields": SCHEMA["fields"][1:2]}
    expected = [{"text": row["text"]} for row in rows(10)]
    assert read_records(opened(write(rows(10))), SCHEMA, wanted) == expected


def test_no_records() -> None:
    assert read_records(opened(write([])), SCHEMA) == []
    assert read_records(opened(write([]) + block(0, b"")), SCHEMA) == []


def test_the_header_alone_tells_where_the_blocks_begin() -> None:
    data = write(rows(3))
    file, sync, position = open_header(data[:-20], path="f.avro", code="X")
    assert (file.blocks, sync) == ((), SYNC)
    assert data[position - SYNC_BYTES : position] == SYNC
    assert data[position:] == block(3, opened(data).blocks[0][1])
    for length in range(position):
        with pytest.raises(CorruptFileError):
            open_header(data[:length], path="f.avro", code="X")


def test_metadata_in_blocks_that_tell_their_size() -> None:
    """A negative count is followed by the block's bytes (Avro specification, "Maps")."""
    data = write(rows(2))
    assert data[4] == 4  # two entries, as zigzag
    end = open_header(data, path="", code="")[2] - SYNC_BYTES
    entries = data[5 : end - 1]
    other = data[:4] + write_zigzag(-2) + write_zigzag(len(entries)) + entries + data[end - 1 :]
    assert opened(other) == opened(data)


@pytest.mark.parametrize("data", [b"", b"Obj", b"PAR1" + bytes(50), b"Obj\x02" + bytes(50)])
def test_what_is_no_container(data: bytes) -> None:
    assert "Not an Avro file" in corrupt(data)


def test_metadata_of_more_entries_than_bytes() -> None:
    assert "announces" in corrupt(b"Obj\x01" + write_zigzag(2**40) + bytes(50))


def test_an_encrypted_file_is_refused_by_name() -> None:
    with pytest.raises(UnsupportedFeatureError) as caught:
        opened(b"AGS1" + bytes(50))
    assert caught.value.code == "UNSUPPORTED_ENCRYPTION"


@pytest.mark.parametrize(
    "schema", ['"long"', "[]", '["null"]', '{"type": "array", "items": "int"}', "{", "1"]
)
def test_a_schema_that_is_no_record(schema: str) -> None:
    entry = b"\x16avro.schema" + write_zigzag(len(schema)) + schema.encode()
    assert "malformed" in corrupt(b"Obj\x01\x02" + entry + b"\x00" + SYNC)


def test_a_record_may_be_optional() -> None:
    data = write(rows(2))
    ((_, content),) = opened(data).blocks
    union = ["null", SCHEMA]
    one, other = io.BytesIO(), io.BytesIO()
    fastavro.writer(one, union, rows(2), sync_marker=SYNC)
    for row in rows(2):
        fastavro.schemaless_writer(other, union, row)
    file = opened(one.getvalue())
    assert file.blocks == ((2, other.getvalue()),) != ((2, content),)
    assert read_records(file, union) == rows(2)


@pytest.mark.parametrize("count", [1, 19, 21, 40, 2**40, -1, -20])
def test_a_block_holds_exactly_the_records_that_it_announces(count: int) -> None:
    """A count that a bit flip made smaller would lose records without a trace."""
    data = write(rows(20))
    ((_, content),) = opened(data).blocks
    start = data[: -len(block(20, content))]
    assert read_records(opened(start + block(20, content)), SCHEMA) == rows(20)
    assert "malformed" in corrupt(start + block(count, content))


def test_a_block_of_more_bytes_than_its_records() -> None:
    data = write(rows(1))
    ((_, content),) = opened(data).blocks
    start = data[: -len(block(1, content))]
    assert "malformed" in corrupt(start + block(1, content + b"\x00"))
    assert "malformed" in corrupt(start + block(1, content[:-1]))
    assert "sync marker" in corrupt(start + block(1, content)[:-1] + b"\xff")
    assert "malformed" in corrupt(start + block(1, content)[:-1])


@pytest.mark.parametrize("codec", ["null", "deflate", "bzip2", "xz"])
def test_blocks_decompress_to_no_more_than_the_limit(codec: str) -> None:
    """The limit is that of all blocks together, and what is within it comes back."""
    records = [{"id": 1, "text": "x" * 5_000, "day": 0}] * 20
    file = opened(write(records, codec=codec, sync_interval=20_000))
    assert len(file.blocks) > 1
    assert read_records(file, SCHEMA, limit=200_000) == records
    with pytest.raises(ResourceLimitError) as caught:
        read_records(file, SCHEMA, limit=90_000)
    assert caught.value.code == "AVRO_TOO_LARGE"


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ("null", 0),
        ("long", 1),
        ("string", 1),
        (["null", "null"], 1),
        ({"type": "null"}, 0),
        ({"type": "fixed", "name": "f", "size": 0}, 0),
        ({"type": "fixed", "name": "f", "size": 16}, 1),
        ({"type": "record", "name": "r", "fields": []}, 0),
        ({"type": "record", "name": "r", "fields": [{"name": "a", "type": "null"}]}, 0),
        (
            {
                "type": "record",
                "name": "r",
                "fields": [{"name": "a", "type": "null"}, {"name": "b", "type": "int"}],
            },
            1,
        ),
        ({"type": "array", "items": "int"}, 1),
        ({"type": "map", "values": "null"}, 1),
    ],
)
def test_the_bytes_that_a_value_takes_at_least(schema: Any, expected: int) -> None:
    assert min_bytes(schema) == expected


def test_items_of_no_bytes_are_refused() -> None:
    """A block of ten bytes could announce 2**60 of them."""
    with pytest.raises(ValueError, match="no bytes"):
        min_bytes({"type": "array", "items": "null"})
    nothing = {"type": "record", "name": "r", "fields": [{"name": "a", "type": "null"}]}
    assert "no bytes" in corrupt(write([{"a": None}], nothing), nothing)


def test_damaged_bytes_are_the_records_or_an_error() -> None:
    """No crash and no foreign exception; a cut file is always noticed."""
    pick = random.Random(3)
    whole = write(rows(20), sync_interval=100)
    found = Counter[str]()
    for _ in range(500):
        data = bytearray(whole)
        data[pick.randrange(len(data))] = pick.randrange(256)
        try:
            found["read"] += len(read_records(opened(bytes(data)), SCHEMA)) > 0
        except TwoStageError as error:
            found[error.code] += 1
    assert found["CORRUPT_MANIFEST"] > 100
    ends = {len(whole) - len(rest) for rest in _rests(whole)}
    for length in range(len(whole)):
        if length not in ends:
            corrupt(whole[:length])


def _rests(data: bytes) -> list[bytes]:
    """Return what is behind the header and behind each block, where a file may end."""
    position = open_header(data, path="", code="")[2]
    found = [data[position:]]
    for count, content in opened(data).blocks:
        position += len(block(count, content))
        found.append(data[position:])
    return found
