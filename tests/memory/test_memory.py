"""Wide rows, large row groups, many columns: what a read holds at most, measured in a child process.

The bound is that of docs/memory.md: `task-memory`, some 200 MiB for the base and the batches on their way, and 8 bytes for each
row of a row group. Every table here is far larger, decoded.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from figures import FULL, record
from limited_process import LimitedProcess
from tables import Table

MIB = 2**20
TASK_MEMORY = 128 * MIB
BASE_AND_BATCHES = 224 * MIB
"""Footers, masks and libraries that the read loads, and a batch of 32 MiB on its way: in the file's bytes, as pages
unpacked, as values, and as the rows taken."""
WIDE = 10**7


def write(folder, columns, **options):
    """Write columns (lists of chunks) as one row group, without dictionaries, and a table around the file."""
    kinds = {
        name: "string" if pa.types.is_string(chunks[0].type) else "long" for name, chunks in columns.items()
    }
    table = Table(folder, kinds)
    with table.transaction():
        file = table.append([{}], metrics="none")
        fields = [
            pa.field(name, chunks[0].type, metadata={"PARQUET:field_id": str(number)})
            for number, (name, chunks) in enumerate(columns.items(), start=1)
        ]
        arrays = [pa.chunked_array(chunks) for chunks in columns.values()]
        whole = pa.Table.from_arrays(arrays, schema=pa.schema(fields))
        pq.write_table(whole, file.path, use_dictionary=False, row_group_size=2**26, **options)
        file.entry["file_size_in_bytes"] = Path(file.path).stat().st_size
        file.entry["record_count"] = whole.num_rows
    table.write()
    footer = pq.read_metadata(file.path)
    assert footer.num_row_groups == 1
    return Path(file.path), footer.row_group(0).total_byte_size


@pytest.fixture(scope="module")
def child(tmp_path_factory):
    """A child that has read before: what libraries take is not the read's."""
    folder = tmp_path_factory.mktemp("small")
    table = Table(folder, {"id": "long", "text": "string"})
    table.append([{"id": i, "text": "a"} for i in range(10)])
    table.write()

    def ask(path, columns, where, **options):
        options.setdefault("task_memory", str(TASK_MEMORY))
        with LimitedProcess("memory_reads:read", memory=64 * 2**30, seconds=280, pool="") as process:
            for first in (["=", "id", 3], ["=", "text", "a"]):
                process.ask({"path": str(folder), "where": first})
            answer = process.ask({"path": str(path), "columns": columns, "where": where, "options": options})
        assert answer["class"] == "rows", answer
        return answer

    return ask


def bounded(name, answer, rows, bound=TASK_MEMORY + BASE_AND_BATCHES):
    record("memory", **{f"{name}_mib": round(answer["held"] / MIB)})
    assert answer["rows"] == rows, answer
    assert answer["held"] < bound, answer


@pytest.fixture(scope="module")
def wide(tmp_path_factory):
    """200 rows of 10 MB: 2 GB."""
    texts = [pa.array([f"{number}{'x' * WIDE}"]) for number in range(4)]
    columns = {"id": [pa.array(np.arange(200))], "text": texts * 50}
    folder = tmp_path_factory.mktemp("wide")
    _, size = write(folder, columns, compression="zstd", write_page_index=True)
    assert size > 200 * WIDE
    return folder


@pytest.mark.parametrize(
    ("name", "columns", "where", "rows"),
    [
        ("needle", None, ["=", "id", 151], 1),
        ("all", None, [">=", "id", 0], 200),
        ("filtered", ["id"], ["=", "text", f"3{'x' * WIDE}"], 50),
        ("filtered_none", None, [">", "text", "4"], 0),
        ("filtered_all", None, [">", "text", ""], 200),
    ],
)
def test_rows_of_ten_megabytes(wide, child, name, columns, where, rows):
    answer = child(wide, columns, where)
    bounded(f"wide_{name}", answer, rows)
    assert answer["largest"] < 64 * MIB


@pytest.fixture(scope="module", params=["zstd", "none"])
def large(request, tmp_path_factory):
    """32 Mi rows of four longs: a row group of 1 GiB, in the file too where it is not compressed."""
    low = pa.array(np.arange(2**20))
    columns = {
        "id": [pa.array(np.arange(2**25))],
        "k": [pa.array(np.arange(2**20) % 1000)] * 32,
        "a": [low] * 32,
        "b": [low] * 32,
    }
    folder = tmp_path_factory.mktemp("large")
    path, size = write(folder, columns, compression=request.param, write_page_index=True)
    assert size >= 2**30
    yield request.param, folder
    path.unlink()


# In every run of 1,048,576 rows, 0 … 999 comes 1,048 times, and 0 … 575 once more.
@pytest.mark.parametrize(
    ("name", "columns", "where", "rows"),
    [
        ("one_column", ["a"], ["=", "k", 5], 32 * 1049),
        ("dense", None, ["<", "k", 900], 32 * (1048 * 900 + 576)),
        ("no_filter", None, None, 2**25),
    ],
)
def test_row_group_of_a_gigabyte(large, child, name, columns, where, rows):
    codec, path = large
    answer = child(path, columns, where)
    bounded(f"row_group_{codec}_{name}", answer, rows, TASK_MEMORY + BASE_AND_BATCHES + 8 * 2**25)
    if where:
        assert answer["choices"] == ["read in windows: the filter columns of a row group exceed task-memory"]


def test_row_group_of_a_gigabyte_without_pages(large, child):
    """Read in one stage, because nothing finer than chunks is asked for; chunks are read through a buffer."""
    codec, path = large
    answer = child(path, None, ["<", "k", 900], **{"read.pages": "never"})
    bounded(f"row_group_{codec}_streamed", answer, 32 * (1048 * 900 + 576))


@pytest.fixture(scope="module")
def many(tmp_path_factory):
    """10,000 columns; nightly 10,000 rows of them, which are 800 MB."""
    rows = 10_000 if FULL else 100
    values = pa.array(np.arange(rows))
    columns = {f"c{number}": [values] for number in range(10_000)}
    folder = tmp_path_factory.mktemp("many")
    _, size = write(folder, columns, compression="zstd")
    return folder, size, rows


@pytest.mark.parametrize(
    ("name", "columns", "where"),
    [
        ("three", ["c1", "c5000", "c9999"], ["=", "c7", 50]),
        ("needle", None, ["=", "c7", 50]),
        ("all", None, None),
    ],
)
def test_ten_thousand_columns(many, child, name, columns, where):
    """A page of each column is unpacked at once; each has one page here, so for all columns that is everything."""
    path, size, rows = many
    pages = 0 if columns else 2 * size
    answer = child(path, columns, where)
    bounded(f"columns_{name}", answer, 1 if where else rows, TASK_MEMORY + BASE_AND_BATCHES + pages)
