"""Deletion vectors: every Roaring container, many blobs in a file, and what they supersede."""

from __future__ import annotations

import struct
import zlib
from typing import TYPE_CHECKING

import pytest
from settings import VECTORS, each_of

from check import check, ids
from core_scan import open_table, scan
from declared.files import vector_blob
from tables import DataFile, Table
from twostage.errors import CorruptFileError

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = each_of(*VECTORS)


@pytest.fixture
def table(tmp_path: Path) -> Table:
    return Table(tmp_path, {"id": "long", "k": "int"}, version=3)


def big(table: Table, count: int) -> DataFile:
    """Append a file of `count` rows, quickly compressible."""
    return table.append(ids(count), row_group_size=40_000)


@pytest.mark.parametrize(
    "positions",
    [[0], [99], [0, 99], range(100), range(40, 60), range(0, 100, 2)],
    ids=["first", "last", "both", "all", "run", "every second"],
)
def test_positions_of_a_small_file(table: Table, positions: list[int]) -> None:
    file = table.append(ids(100), row_group_size=30)
    table.delete_vectors({file: positions})
    result = check(table, set(range(100)) - set(positions))
    assert result.metrics.counters["rows.deleted.vector"] == len(positions)


@pytest.mark.parametrize(
    "positions",
    [
        [*range(0, 66_000, 1000)],
        [*range(0, 66_000, 3)],
        [*range(100, 65_900)],
        [*range(5), *range(1000, 30_000, 7), *range(40_000, 60_000), 65_535, 65_536, 65_999],
    ],
    ids=["array", "bitmap", "run", "mixed"],
)
def test_each_container_over_two_keys(table: Table, positions: list[int]) -> None:
    file = big(table, 66_000)
    table.delete_vectors({file: positions})
    table.write()
    check(table, sorted(set(range(66_000)) - set(positions)))


def test_an_empty_vector_deletes_nothing(table: Table) -> None:
    file = table.append(ids(3))
    table.delete_vectors({file: []})
    check(table, [0, 1, 2])


def test_one_puffin_file_with_a_vector_for_each_data_file(table: Table) -> None:
    rows = ids(40)
    files = [table.append(rows[start : start + 10]) for start in (0, 10, 20, 30)]
    table.delete_vectors({files[0]: [0], files[1]: range(10), files[3]: [9, 4]})
    check(table, set(range(40)) - {0, *range(10, 20), 39, 34})


def test_the_newest_vector_replaces_the_former(table: Table) -> None:
    file = table.append(ids(10))
    table.delete_vectors({file: [0]})
    table.delete_vectors({file: [0, 1]})
    table.delete_vectors({file: [0, 1, 9]})
    check(table, range(2, 9))


def test_a_vector_supersedes_positional_files(table: Table) -> None:
    table.version = 2
    file, other = table.append(ids(10)), table.append(ids(10, id=lambda i: i + 10))
    table.delete_positions({file: [0, 1], other: [5]})
    table.version = 3
    table.delete_vectors({file: [1, 2]})  # a writer would keep 0; the vector alone counts all the same
    check(table, {*range(20)} - {1, 2, 15})


def test_a_vector_older_than_its_file_does_not_apply(table: Table) -> None:
    with table.transaction():
        file = table.append(ids(3), sequence_number=2)
        table.delete_vectors({file: [0]})  # sequence number 1
    table.append(ids(1, id=[10]))
    check(table, [0, 1, 2, 10])


def test_a_vector_and_its_file_in_one_commit(table: Table) -> None:
    with table.transaction():
        file = table.append(ids(3))
        table.delete_vectors({file: [0]})
    check(table, [1, 2])


def test_vectors_in_partitions(tmp_path: Path) -> None:
    table = Table(tmp_path, {"id": "long", "p": "int"}, version=3, partition=["p"])
    zero, one = table.append_all(ids(10, p=lambda i: i // 5))
    table.delete_vectors({zero: [0], one: [1]})
    check(table, set(range(10)) - {0, 6})


def test_vectors_apply_to_every_split(table: Table) -> None:
    file = table.append(ids(100), row_group_size=10)
    table.delete_vectors({file: range(0, 100, 9)})
    check(table, set(range(100)) - set(range(0, 100, 9)), split_size="1")


def corrupted(kind: str) -> bytes:
    """Return a vector of positions 1 and 2 that breaks its format in one way."""
    blob = bytearray(vector_blob([1, 2]))
    match kind:
        case "crc":
            blob[-1] ^= 1
        case "magic":
            blob[4] ^= 1
        case "length":
            blob[3] += 1
        case "cut":
            return bytes(blob[:12])
        case "empty":
            return b"\x00"
        case "bit":
            blob[20] ^= 4
        case "count":
            body = b"\xd1\xd3\x39\x64" + struct.pack("<q", 2**40) + bytes(blob[16:-4])
            return struct.pack(">I", len(body)) + body + struct.pack(">I", zlib.crc32(body))
    return bytes(blob)


@pytest.mark.parametrize("kind", ["crc", "magic", "length", "cut", "empty", "bit", "count"])
def test_a_damaged_vector_is_an_error(table: Table, kind: str) -> None:
    file = table.append(ids(10))
    table.delete_vectors({file: [1, 2]}, blobs={file: corrupted(kind)})
    with pytest.raises(CorruptFileError, match="TWOSTAGE.CORRUPT") as caught:
        check(table, [0, *range(3, 10)])
    assert caught.value.path is not None
    assert caught.value.path.endswith(".puffin")


def test_a_cardinality_that_disagrees_is_an_error(table: Table) -> None:
    file = table.append(ids(10))
    table.delete_vectors({file: [1, 2]}, blobs={file: vector_blob([1, 2, 3])})
    with pytest.raises(CorruptFileError, match="TWOSTAGE.CORRUPT"):
        check(table, [0, *range(3, 10)])


def test_a_position_beyond_32_bits_is_an_error(table: Table) -> None:
    """It is decoded, and found to lie past the file's rows."""
    file = table.append(ids(10))
    table.delete_vectors({file: [1, 2**40 + 5]})
    with pytest.raises(CorruptFileError, match="TWOSTAGE.CORRUPT_VECTOR.*past the data file's 10 rows"):
        check(table, [0, *range(2, 10)])


def test_the_manifest_says_whose_a_vector_is(table: Table) -> None:
    """The Puffin footer names the second file; as in Iceberg's reader nobody reads it."""
    first, second = table.append(ids(3)), table.append(ids(3, id=lambda i: 10 + i))
    with table.transaction():
        (vector,) = table.delete_vectors({second: [0]})
        vector.entry["referenced_data_file"] = first.path
    table.write()
    assert sorted(row[0][1] for row in scan(open_table(table.folder)).rows) == [1, 2, 10, 11, 12]


def test_a_vector_of_a_file_that_the_table_lacks_deletes_nothing(table: Table) -> None:
    gone, file = table.append(ids(3)), table.append(ids(3, id=lambda i: 10 + i))
    table.delete_vectors({gone: [0]})
    table.remove(gone)
    check(table, [10, 11, 12])
    table.delete_vectors({file: [1]})
    check(table, [10, 12])
