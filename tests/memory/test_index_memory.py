"""Building indexes: what it holds at most beyond `task-memory`, whatever the values are, measured in a child process."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from figures import record
from limited_process import LimitedProcess
from tables import Table

MIB = 2**20
TASK_MEMORY = 32 * MIB
BATCHES = 96 * MIB
"""What reading and packing a batch of 65,536 values takes, and libraries that the build loads."""
ROWS = 8_000_000


def write(folder, array):
    """Write a table of one data file with one column of an array."""
    kind = "string" if pa.types.is_string(array.type) else "long"
    table = Table(folder, {"v": kind})
    with table.transaction():
        file = table.append([{}], metrics="none")
        field = pa.field("v", array.type, metadata={"PARQUET:field_id": "1"})
        pq.write_table(
            pa.Table.from_arrays([array], schema=pa.schema([field])), file.path, row_group_size=2**18
        )
        file.entry["file_size_in_bytes"] = (folder / "data" / file.path.rpartition("/")[2]).stat().st_size
        file.entry["record_count"] = len(array)
    table.write()


def values(name):
    """Return values that indexes take much memory of: of one key, of none, and all different."""
    drawn = np.random.default_rng(1)
    match name:
        case "one value":
            return pa.array(np.full(ROWS, 7))
        case "NULLs":
            return pa.array(np.zeros(ROWS, np.int64), mask=np.arange(ROWS) % 3 > 0)
        case "scattered":
            return pa.array(drawn.integers(0, 2**60, ROWS))
    return pa.array(drawn.integers(0, 1_000_000, ROWS // 4))


@pytest.fixture(scope="module")
def child(tmp_path_factory):
    """A child that has built all kinds before: what libraries take is not the build's."""
    folder = tmp_path_factory.mktemp("small")
    write(folder, pa.array(np.arange(1000) % 100))
    with LimitedProcess("memory_builds:build", memory=64 * 2**30, seconds=280, pool="") as process:

        def ask(path, kinds):
            answer = process.ask(
                {
                    "path": str(path),
                    "columns": ["v"],
                    "kinds": kinds,
                    "options": {"task_memory": str(TASK_MEMORY)},
                }
            )
            assert answer["class"] == "built", answer
            return answer

        ask(folder, "values,postings,sorted,bins,slices,files")
        yield ask


@pytest.mark.parametrize(
    ("name", "kinds"),
    [
        ("one value", "postings,sorted,bins,files"),
        ("NULLs", "postings,bins"),
        ("scattered", "postings,sorted,bins,slices,files"),
        ("a million values", "values"),
    ],
)
def test_builds_stay_within_the_budget(tmp_path, child, name, kinds):
    write(tmp_path / "t", values(name))
    answer = child(tmp_path / "t", kinds)
    record("memory", **{f"index of {name}_mib": round(answer["held"] / MIB)})
    assert answer["made"] == 1
    assert answer["held"] < TASK_MEMORY + BATCHES, answer
