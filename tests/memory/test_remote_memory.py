"""Many files ahead in an object store, each with delete files: what a read holds at most, measured in a child process.

The bound is the task's memory and a base: the client's copies and connections, a file's bytes while it is decoded, and footers.
Two rules keep it, each alone: files begin by what they and their delete files take, and bytes are asked for up to a budget.
Held: 67 to 85 MiB, with either rule or both; 168 to 203 MiB with neither.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from figures import record
from late_store import serve_late
from limited_process import LimitedProcess
from tables import Table

MIB = 2**20
TASK_MEMORY = 16 * MIB
BASE = 104 * MIB
FILES, ROWS, POSITIONS = 64, 10, 300_000
DELETES = pa.schema(
    [
        pa.field("file_path", pa.string(), nullable=False, metadata={"PARQUET:field_id": "2147483546"}),
        pa.field("pos", pa.int64(), nullable=False, metadata={"PARQUET:field_id": "2147483545"}),
    ]
)
KEYS = pa.schema(
    [
        pa.field("id", pa.int64(), metadata={"PARQUET:field_id": "1"}),
        pa.field("other", pa.binary(), metadata={"PARQUET:field_id": "99"}),
    ]
)


def write(folder, files, positions):
    """Write a table of small data files, each with a delete file of so many positions, of which one is a row's."""
    table = Table(folder, {"id": "long"}, version=2)
    table.location = f"s3://lake/{folder.name}"
    draw = np.random.default_rng(1)
    with table.transaction():
        for number in range(files):
            file = table.append([{"id": ROWS * number + n} for n in range(ROWS)])
            (delete,) = table.delete_positions({file: [1]}, bounds=True)
            behind = np.unique(draw.integers(ROWS, 2**23, positions - 1))
            rows = pa.concat_arrays([pa.array([1]), pa.array(behind)])
            paths = pa.array([file.path] * len(rows))
            place = folder / "data" / Path(delete.path).name
            pq.write_table(
                pa.Table.from_arrays([paths, rows], schema=DELETES),
                place,
                use_dictionary=["file_path"],
                compression="none",
            )
            delete.entry["file_size_in_bytes"] = place.stat().st_size
            delete.entry["record_count"] = len(rows)
    table.write()
    return files * (ROWS - 1), sum(path.stat().st_size for path in (folder / "data").glob("deletes-*"))


@pytest.mark.timeout(500)
def test_files_ahead_with_deletes_stay_within_the_task_s_memory(tmp_path):
    write(tmp_path / "small", 4, 10)
    rows, delete_bytes = write(tmp_path / "t", FILES, POSITIONS)
    assert delete_bytes > 140 * MIB
    with (
        serve_late(tmp_path, latency=0.02) as store,
        LimitedProcess("memory_reads:read", memory=64 * 2**30, seconds=400, pool="") as process,
    ):
        options = {**store.options, "task_memory": str(TASK_MEMORY)}
        for _ in range(2):  # what libraries take is not the read's
            process.ask({"path": "s3://lake/small", "options": options})
        answer = process.ask({"path": "s3://lake/t", "options": options})
    assert answer["class"] == "rows", answer
    assert answer["rows"] == rows
    record("memory", remote_deletes_mib=round(answer["held"] / MIB))
    print(f"held {answer['held'] / MIB:.0f} MiB")
    assert answer["held"] < TASK_MEMORY + BASE, answer


def write_keys(folder, files, padding):
    """Write a table with so many equality-delete files of a few keys and a column that nobody needs, of so many bytes."""
    table = Table(folder, {"id": "long"}, version=2)
    table.location = f"s3://lake/{folder.name}"
    draw = np.random.default_rng(1)
    with table.transaction():
        for number in range(4):
            table.append([{"id": 100 * number + n} for n in range(100)])
    with table.transaction():
        for number in range(files):
            delete = table.delete_equal(["id"], [{"id": number}])
            place = folder / "data" / Path(delete.path).name
            other = pa.array([draw.bytes(padding // 10) for _ in range(10)])
            keys = pa.array([number, *range(1000, 1009)])
            pq.write_table(
                pa.Table.from_arrays([keys, other], schema=KEYS),
                place,
                use_dictionary=False,
                compression="none",
            )
            delete.entry["file_size_in_bytes"] = place.stat().st_size
            delete.entry["record_count"] = len(keys)
    table.write()
    return 400 - files


@pytest.mark.timeout(500)
def test_equality_deletes_to_load_are_not_all_in_memory_at_once(tmp_path):
    """What is waited for before their keys are loaded is bounded; before, it was all of the table's delete files."""
    write_keys(tmp_path / "small", 4, 1000)
    rows = write_keys(tmp_path / "t", 50, 6 * MIB)
    with (
        serve_late(tmp_path, latency=0.02) as store,
        LimitedProcess("memory_reads:read", memory=64 * 2**30, seconds=400, pool="") as process,
    ):
        options = {**store.options, "task_memory": str(TASK_MEMORY), "deletes.stream": "never"}
        for _ in range(2):
            process.ask({"path": "s3://lake/small", "options": options})
        answer = process.ask({"path": "s3://lake/t", "options": options})
    assert answer["class"] == "rows", answer
    assert answer["rows"] == rows
    record("memory", remote_equality_mib=round(answer["held"] / MIB))
    print(f"held {answer['held'] / MIB:.0f} MiB")
    assert answer["held"] < TASK_MEMORY + BASE, answer
