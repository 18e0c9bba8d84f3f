"""What a footer says of chunks and of the file, and a footer as a file of its own, which pyarrow reads."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from twostage.formats.parquet.file_metadata import CODECS, ColumnChunk
from written_files import Opened

CHUNK = ColumnChunk(
    codec=6,
    encodings=(0,),
    num_values=100,
    compressed_size=50,
    uncompressed_size=60,
    data_page_offset=40,
    dictionary_page_offset=None,
    statistics=None,
    encoding_stats=None,
    bloom_filter_offset=None,
    bloom_filter_length=None,
    offset_index=None,
    column_index=None,
)


def test_codecs_are_numbered_as_in_the_format() -> None:
    """parquet.thrift, CompressionCodec."""
    assert CHUNK.codec_name == "ZSTD"
    assert {name: number for number, name in enumerate(CODECS)} == {
        "UNCOMPRESSED": 0,
        "SNAPPY": 1,
        "GZIP": 2,
        "LZO": 3,
        "BROTLI": 4,
        "LZ4": 5,
        "ZSTD": 6,
        "LZ4_RAW": 7,
    }


@pytest.mark.parametrize(("dictionary", "start"), [(None, 40), (4, 4), (90, 40)])
def test_a_chunk_begins_with_its_first_page(dictionary: int | None, start: int) -> None:
    """A dictionary page behind the data pages is a writer's mistake, which does not move the start."""
    assert replace(CHUNK, dictionary_page_offset=dictionary).start == start


@pytest.mark.parametrize(
    ("changed", "size"),
    [({}, 400), ({"uncompressed_size": 401}, 401), ({"text_size": 1_000}, 1_400), ({"num_values": 0}, 60)],
)
def test_what_decoded_values_take_at_least(changed: dict[str, Any], size: int) -> None:
    assert replace(CHUNK, **changed).decoded_size == size


def ids(*numbers: int | None) -> pa.Schema:
    """Return fields of text, with these ids."""
    made = [None if number is None else {"PARQUET:field_id": str(number)} for number in numbers]
    return pa.schema([pa.field(f"c{i}", pa.string(), metadata=one) for i, one in enumerate(made)])


def opened(schema: pa.Schema, **options: Any) -> Opened:
    rows = [{name: f"{name} {i}" for name in schema.names} for i in range(1_000)]
    return Opened(pa.Table.from_pylist(rows, schema), [], **options)


def test_a_footer_alone_is_a_file() -> None:
    file = opened(ids(1, 2), row_group_size=300)
    alone = pq.ParquetFile(pa.BufferReader(file.footer.alone()))
    whole = pq.ParquetFile(pa.BufferReader(file.data))
    assert alone.metadata.equals(whole.metadata)
    assert alone.schema_arrow.equals(whole.schema_arrow)
    assert len(file.footer.alone()) < len(file.data)


def test_where_the_page_indexes_begin() -> None:
    file = opened(ids(1, 2), row_group_size=300, write_page_index=True)
    start = file.footer.indexes_start()
    end_of_pages = max(
        chunk.start + chunk.compressed_size for group in file.footer.row_groups for chunk in group.columns
    )
    assert end_of_pages <= start < file.footer.offset
    assert start == min(
        place[0]
        for group in file.footer.row_groups
        for chunk in group.columns
        for place in (chunk.offset_index, chunk.column_index)
        if place is not None
    )
    without = opened(ids(1, 2))
    assert without.footer.indexes_start() == without.footer.offset


def test_the_only_leaf_of_an_id() -> None:
    footer = opened(ids(1, 2, 2, None)).footer
    assert footer.leaf_of(1) == footer.leaves[0]
    assert footer.leaf_of(2) is None
    assert footer.leaf_of(3) is None
