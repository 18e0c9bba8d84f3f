"""Where the chunks of a Parquet file are, as pyarrow's own metadata has it."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pyarrow as pa
import pyarrow.parquet as pq

from twostage.data_files.parquet_chunks import (
    EXPECTED_DIVISOR,
    OLD_PADDING,
    RemoteChunks,
    chunk_ranges,
    expected_tail,
)
from twostage.formats.parquet.footer import read_footer
from twostage.schema import Field, Primitive, Schema


def footer_of(path):
    with pa.OSFile(str(path)) as file:
        return read_footer(file, path.stat().st_size, str(path))


def write(path, dictionary):
    table = pa.table({"a": list(range(100)), "b": ["x", "y"] * 50, "c": [0.5] * 100})
    pq.write_table(table, path, row_group_size=50, use_dictionary=dictionary)
    return pq.read_metadata(path)


def test_ranges_are_those_of_the_footer(tmp_path):
    for dictionary in (True, False):
        right = write(tmp_path / "f.parquet", dictionary)
        footer = footer_of(tmp_path / "f.parquet")
        for group in range(2):
            expected = []
            for leaf in (0, 2):
                chunk = right.row_group(group).column(leaf)
                start = chunk.dictionary_page_offset or chunk.data_page_offset
                expected.append((start, chunk.total_compressed_size))
            assert chunk_ranges(footer, footer.row_groups[group], {2, 0}) == expected


def test_old_writers_state_too_few_bytes(tmp_path):
    write(tmp_path / "f.parquet", False)
    footer = footer_of(tmp_path / "f.parquet")
    old = replace(footer, created_by="parquet-mr version 1.2.8")
    ((start, length),) = chunk_ranges(footer, footer.row_groups[0], [0])
    assert chunk_ranges(old, old.row_groups[0], [0]) == [(start, length + OLD_PADDING)]
    (last,) = chunk_ranges(footer, footer.row_groups[1], [2])
    assert chunk_ranges(old, old.row_groups[1], [2]) == [last]  # not into the footer


def test_the_expected_tail_goes_with_columns_and_row_groups():
    def schema(count):
        return Schema(
            schema_id=0,
            fields=tuple(Field(id=n, name=f"c{n}", type=Primitive("long")) for n in range(1, count + 1)),
        )

    assert expected_tail(schema(20), 2**20) < 20_000
    assert expected_tail(schema(120), 2**20) > 2 * expected_tail(schema(20), 2**20)
    assert expected_tail(schema(20), 2**30) > 4 * expected_tail(schema(20), 2**20)


class Asked:
    """A remote file that notes what it is asked to keep."""

    def __init__(self):
        self.kept = []

    def keep(self, places):
        self.kept.append(places)
        return SimpleNamespace(ranges=places)

    def forget(self, pending):
        self.kept.remove(pending.ranges)


def test_what_is_expected_is_asked_for_once_and_only_if_it_is_small(tmp_path):
    write(tmp_path / "f.parquet", False)
    footer, remote = footer_of(tmp_path / "f.parquet"), Asked()
    chunks = RemoteChunks(remote, footer)
    chunks.expect(0, {0, 1}, 2**30)
    chunks.expect(0, {0, 1}, 2**30)
    assert remote.kept == [chunk_ranges(footer, footer.row_groups[0], {0, 1})]
    chunks.expect(1, {0, 1}, 1000)
    assert len(remote.kept) == 1
    chunks.forget(0)
    chunks.forget(0)
    assert remote.kept == []


def test_pages_are_expected_beside_chunks_within_the_same_memory(tmp_path):
    write(tmp_path / "f.parquet", False)
    footer, remote = footer_of(tmp_path / "f.parquet"), Asked()
    chunks = RemoteChunks(remote, footer)
    ((offset, length),) = chunk = chunk_ranges(footer, footer.row_groups[0], {0})
    budget = EXPECTED_DIVISOR * (length + 30)
    chunks.expect(0, {0}, budget)
    chunks.expect(0, set(), budget, [(5, 20), (40, 10)])
    chunks.expect(0, {0}, budget, [(5, 20), (offset, length)])
    assert remote.kept == [chunk, [(5, 20), (40, 10)]]
    chunks.expect(0, set(), budget, [(60, 1)])  # one byte more than it may take
    assert len(remote.kept) == 2
    chunks.forget(0)
    assert remote.kept == []


def test_of_a_local_file_there_is_nothing_to_do(tmp_path):
    write(tmp_path / "f.parquet", False)
    chunks = RemoteChunks(None, footer_of(tmp_path / "f.parquet"))
    chunks.expect(0, {0}, 2**30)
    with chunks.held(0, {0}):
        chunks.forget(0)
