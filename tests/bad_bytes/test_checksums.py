"""``verify-checksums`` on every read of Parquet: data, positional and equality deletes, dictionaries.

One byte of a page is another one, in files without compression, so that unverified it reads as another value.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from check import Columns
from core_scan import open_table, scan
from tables import FileOptions, Table
from twostage.deletes.cache.memory import CACHE
from twostage.errors import CorruptFileError
from twostage.predicates.predicate import TRUE, Compare

LAYOUT = {"compression": "none", "page_checksums": True}
WAYS = ({}, {"two-stage": "false"}, {"read.pages": "always"}, {"read.pages": "never"})


def change(place: str, before: bytes, after: bytes) -> None:
    """Change the first page that holds some bytes; statistics and the footer stay as they are."""
    data = Path(place).read_bytes()
    assert len(before) == len(after)
    assert before in data
    Path(place).write_bytes(data.replace(before, after, 1))


def rows_of(folder, where=None, **options):
    opened = open_table(folder, **options)
    schema = opened.table.schema
    found = scan(opened, schema.fields, where(Columns(schema)) if where else TRUE)
    return sorted(row[0][1] for row in found.rows), found


def long(value: int) -> bytes:
    return value.to_bytes(8, "little")


def data_table(folder: Path, **layout) -> Table:
    table = Table(folder, {"id": "long", "text": "string"})
    rows = [{"id": number, "text": f"key-{number % 4}"} for number in range(40)]
    table.append(rows, FileOptions(**LAYOUT, **layout), metrics="none")
    return table


def refused(folder, ending, where=None, **options):
    for way in WAYS:
        CACHE.clear()
        with pytest.raises(CorruptFileError, match=r"CRC|checksum") as caught:
            rows_of(folder, where, **{**way, **options})
        assert caught.value.path.endswith(ending)


def test_data(tmp_path):
    table = data_table(tmp_path, dictionary=False)
    table.write()
    change(table.content().data[0].path, long(7) + long(8), long(7) + long(99))
    refused(tmp_path, "file-0.parquet")
    refused(tmp_path, "file-0.parquet", lambda c: Compare("=", c("id"), 7))
    for way in WAYS:
        unverified, _ = rows_of(tmp_path, **way, **{"verify-checksums": "false"})
        assert 99 in unverified
        assert 8 not in unverified


def test_a_dictionary_that_pruning_reads(tmp_path):
    """``key-1`` is in the dictionary no more: its row group may not be skipped for that."""
    table = data_table(tmp_path)
    table.write()
    change(table.content().data[0].path, b"key-1", b"key-x")
    refused(tmp_path, "file-0.parquet", lambda c: Compare("=", c("text"), "key-1"))
    found, result = rows_of(
        tmp_path, lambda c: Compare("=", c("text"), "key-1"), **{"verify-checksums": "false"}
    )
    assert found == []
    assert result.count("row_groups.pruned.dictionary") == 0


def position_table(folder: Path) -> str:
    table = data_table(folder)
    file = table.append([{"id": 100 + number, "text": None} for number in range(20)])
    (delete,) = table.delete_positions({file: [3, 11]}, page_checksums=True)
    table.write()
    return str(delete.path)


def equality_table(folder: Path) -> str:
    table = data_table(folder)
    options = FileOptions(**LAYOUT, dictionary=False)
    delete = table.delete_equal(["id"], [{"id": 3}, {"id": 11}], options=options)
    table.write()
    return str(delete.path)


def flip_in_a_page(place: str) -> None:
    """Flip a bit of the last byte of the positions' last page; delete files are compressed."""
    chunk = pq.read_metadata(place).row_group(0).column(1)
    begin = chunk.dictionary_page_offset or chunk.data_page_offset
    data = bytearray(Path(place).read_bytes())
    data[begin + chunk.total_compressed_size - 1] ^= 1
    Path(place).write_bytes(data)


def test_positional_deletes(tmp_path):
    place = position_table(tmp_path)
    flip_in_a_page(place)
    refused(tmp_path, place)


def test_equality_deletes(tmp_path):
    place = equality_table(tmp_path)
    change(place, long(3) + long(11), long(3) + long(12))
    refused(tmp_path, place)
    CACHE.clear()
    unverified, _ = rows_of(tmp_path, **{"verify-checksums": "false"})
    assert 11 in unverified
    assert 12 not in unverified


def test_deletes_that_were_read_unverified_do_not_serve_a_scan_that_verifies(tmp_path):
    """Regression: the worker's cache of delete files gave them out again."""
    place = equality_table(tmp_path)
    change(place, long(3) + long(11), long(3) + long(12))
    CACHE.clear()
    rows_of(tmp_path, **{"verify-checksums": "false"})
    with pytest.raises(CorruptFileError, match="CRC"):
        rows_of(tmp_path)


def test_positions_that_were_read_unverified_do_not_serve_a_scan_that_verifies(tmp_path):
    """Regression: as above; the second scan opens the file again."""
    position_table(tmp_path)
    CACHE.clear()
    _, first = rows_of(tmp_path, **{"verify-checksums": "false"})
    _, second = rows_of(tmp_path)
    assert first.count("delete_files.opened") == second.count("delete_files.opened") == 1
