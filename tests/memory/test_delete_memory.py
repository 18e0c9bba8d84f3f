"""What many deletes hold at most, measured in a child process: equality keys, and positions in one file."""

from __future__ import annotations

import struct
import zlib

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyroaring import BitMap64

from declared.files import VECTOR_MAGIC
from figures import FULL, record
from limited_process import LimitedProcess

MIB = 2**20
KEYS = 10_000_000
POSITIONS = 100_000_000


@pytest.fixture(autouse=True)
def _kernels(monkeypatch):
    """Compile in the small load that comes first: a hundred megabytes are Numba's, not the deletes'."""
    monkeypatch.setenv("TWOSTAGE_JIT", "always")


def ask(**request):
    """Load in a fresh child; a small load first: what libraries take is not the deletes'."""
    with LimitedProcess("delete_loads:load", memory=64 * 2**30, seconds=280, pool="") as process:
        if "types" in request:
            small = request["path"].with_name("small.parquet")
            # Far apart: hash tables, whose kernels are compiled here.
            keys = [pa.array(["a", "b"] if kind == "string" else [1, 2**62]) for kind in request["types"]]
            write_keys(small, keys)
            process.ask({**request, "path": str(small), "delete": {"content": "equality", "record_count": 2}})
        return process.ask({**request, "path": str(request["path"])})


def write_keys(path, columns):
    fields = [
        pa.field(f"k{number}", column.type, metadata={"PARQUET:field_id": str(number)})
        for number, column in enumerate(columns, start=1)
    ]
    table = pa.Table.from_arrays(columns, schema=pa.schema(fields))
    pq.write_table(table, path, use_dictionary=False, row_group_size=MIB)


def longs(count, *, apart=1):
    """Distinct odd numbers in no order, close to each other or `apart` times as far."""
    return (np.random.default_rng(count).permutation(np.arange(count)) * 2 + 1) * apart


def texts(numbers):
    """Return 16 digits for each number."""
    digits = (numbers[:, None] // 10 ** np.arange(15, -1, -1) % 10 + ord("0")).astype(np.uint8)
    offsets = np.arange(len(numbers) + 1, dtype=np.int32) * 16
    return pa.StringArray.from_buffers(len(numbers), pa.py_buffer(offsets), pa.py_buffer(digits.tobytes()))


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("name", "types", "count", "budget"),
    [
        ("10m_close_longs", ["long"], KEYS, 128 * MIB),
        ("10m_longs", ["long"], KEYS, 512 * MIB),
        pytest.param(
            "50m_longs", ["long"], 5 * KEYS, 2048 * MIB, marks=pytest.mark.skipif(not FULL, reason="nightly")
        ),
        pytest.param(
            "10m_long_text",
            ["long", "string"],
            KEYS,
            2048 * MIB,
            marks=pytest.mark.skipif(not FULL, reason="nightly"),
        ),
    ],
)
def test_equality_keys(tmp_path, name, types, count, budget):
    path = tmp_path / "keys.parquet"
    apart = 1 if "close" in name else 1001
    values = longs(count, apart=apart)
    write_keys(path, [pa.array(values), texts(values)][: len(types)])
    numbers = [apart, 2 * apart, (2 * count - 1) * apart, (2 * count + 1) * apart]
    asked = [numbers, [f"{n:016}" for n in numbers]]
    answer = ask(
        path=path,
        types=types,
        delete={"content": "equality", "record_count": count},
        asked=asked[: len(types)],
        budget=budget,
    )
    assert answer.get("deleted") == [True, False, True, False], answer
    print(name, answer["held"] / MIB, answer["seconds"])
    record("R8", **{f"{name}_mib": round(answer["held"] / MIB)})
    assert answer["held"] < budget + 128 * MIB


def test_keys_above_the_budget(tmp_path):
    """The error comes when a table would have to grow past the budget, not when memory is gone."""
    path = tmp_path / "keys.parquet"
    write_keys(path, [pa.array(longs(KEYS, apart=1001))])
    answer = ask(
        path=path,
        types=["long"],
        delete={"content": "equality", "record_count": KEYS},
        asked=[[1]],
        budget=64 * MIB,
    )
    assert answer["class"] == "DELETE_KEYS_TOO_LARGE", answer
    assert "task-memory" in answer["detail"]
    assert answer["held"] < 64 * MIB + 128 * MIB
    record("R8", over_budget=answer["class"], over_budget_seconds=round(answer["seconds"], 2))


def blob_of(body):
    whole = VECTOR_MAGIC + body
    return struct.pack(">I", len(whole)) + whole + struct.pack(">I", zlib.crc32(whole))


def random_bitmap():
    """Return 100 M positions and some, one in eight at random, as a 64-bit bitmap's bytes, and their number.

    Laid out by hand: pyroaring would hold all of them as numbers first.
    """
    containers = -(-POSITIONS // 8192)
    rng = np.random.default_rng(7)
    words = rng.integers(0, 2**64, (3, containers, 1024), np.uint64)
    bits = np.bitwise_and.reduce(words, axis=0)
    counts = np.bitwise_count(bits).sum(axis=1)
    heads = np.stack([np.arange(containers), counts - 1], axis=1).astype("<u2")
    offsets = (8 + 8 * containers + 8192 * np.arange(containers)).astype("<u4")
    body = (
        struct.pack("<QIII", 1, 0, 12346, containers) + heads.tobytes() + offsets.tobytes() + bits.tobytes()
    )
    return body, int(counts.sum())


@pytest.mark.parametrize(("name", "most"), [("runs", 64 * MIB), ("random", 200 * MIB)])
def test_positions_of_a_vector(tmp_path, name, most):
    if name == "runs":
        bitmap = BitMap64()
        bitmap.add_range(5, 5 + POSITIONS // 2)
        bitmap.add_range(2 * POSITIONS, 2 * POSITIONS + POSITIONS // 2)
        bitmap.run_optimize()
        body, count = bitmap.serialize(), POSITIONS
        asked, expected = (0, 8), [5, 6, 7]
    else:
        body, count = random_bitmap()
        bitmap = BitMap64.deserialize(body)
        asked = (2**28, 100)
        expected = [row for row in range(100) if 2**28 + row in bitmap]
    blob = blob_of(body)
    path = tmp_path / "vector.puffin"
    path.write_bytes(b"PFA1" + blob)
    answer = ask(
        path=path,
        delete={
            "content": "vector",
            "record_count": count,
            "content_offset": 4,
            "content_size": len(blob),
            "referenced_data_file": "/lake/data.parquet",
        },
        asked=asked,
        budget=512 * MIB,
    )
    assert (answer.get("deleted"), answer.get("count")) == (expected, count), answer
    print(name, answer["held"] / MIB, answer["seconds"])
    record("R9", **{f"{name}_mib": round(answer["held"] / MIB), f"{name}_positions": count})
    assert answer["held"] < 2 * most


@pytest.mark.timeout(600)
@pytest.mark.skipif(not FULL, reason="writing 100 M rows takes a minute: nightly")
@pytest.mark.parametrize(("name", "most"), [("file_runs", 64 * MIB), ("file_random", 200 * MIB)])
def test_positions_of_a_delete_file(tmp_path, name, most):
    path = tmp_path / "positions.parquet"
    fields = [
        pa.field(name, kind, nullable=False, metadata={"PARQUET:field_id": str(number)})
        for name, kind, number in (("file_path", pa.string(), 2147483546), ("pos", pa.int64(), 2147483545))
    ]
    with pq.ParquetWriter(path, pa.schema(fields), use_dictionary=["file_path"]) as writer:
        for start in range(0, POSITIONS, 4 * MIB):
            rows = np.arange(start, min(POSITIONS, start + 4 * MIB))
            rows = rows if name == "file_runs" else rows * 8 + rows * 7919 % 8
            paths = pa.DictionaryArray.from_arrays(np.zeros(len(rows), np.int32), ["/lake/data.parquet"])
            writer.write_table(
                pa.Table.from_arrays([paths.dictionary_decode(), pa.array(rows)], schema=pa.schema(fields))
            )
    answer = ask(
        path=path, delete={"content": "position", "record_count": POSITIONS}, asked=(0, 8), budget=512 * MIB
    )
    assert answer.get("count") == POSITIONS, answer
    print(name, answer["held"] / MIB, answer["seconds"])
    record("R9", **{f"{name}_mib": round(answer["held"] / MIB)})
    assert answer["held"] < 2 * most
