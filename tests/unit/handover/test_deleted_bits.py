"""Deleted rows as bits: what is set, how it travels, and that making it takes little memory."""

from __future__ import annotations

import base64
import os
import random
import tracemalloc
import zlib

import numpy as np
import pytest
from pyroaring import BitMap64

from twostage.deletes.positions.position_deletes import DeletedPositions
from twostage.handover import deleted_bits
from twostage.handover.deleted_bits import num_bits, read_deleted
from twostage.metrics import Metrics
from twostage.options import parse_options
from twostage.schema import Schema
from twostage.task import DeleteFile, ScanContext, ScanTask

SEED = int(os.environ.get("TWOSTAGE_SEED", "1"))
KEYS = DeleteFile(content="equality", format="parquet", path="d", written_path="d", file_size=9, record_count=1,
                  sequence_number=2, equality_ids=(1,))  # fmt: skip


def context() -> ScanContext:
    return ScanContext(scan_id="", table="t", snapshot_id=1, schema=Schema(schema_id=0, fields=()), projection=(),
                       settings=parse_options({"path": "/t"}).settings)  # fmt: skip


def task(name: str, rows: int, *, deletes: bool) -> ScanTask:
    return ScanTask(path=name, written_path=name, format="parquet", file_size=100, record_count=rows, start=0,
                    length=100, sequence_number=1, spec_id=0, deletes=(KEYS,) if deletes else ())  # fmt: skip


def positions(rows) -> DeletedPositions:
    bitmap = BitMap64(rows)
    return DeletedPositions("compiled", bitmap, len(bitmap))


def unpacked(found) -> np.ndarray:
    data = zlib.decompress(b"".join(map(base64.b64decode, found.texts)))
    return np.unpackbits(np.frombuffer(data, np.uint8), bitorder="little")[: found.size]


def test_each_row_of_each_file_has_its_bit(monkeypatch):
    monkeypatch.setattr(deleted_bits, "_ROWS_PER_CHUNK", 64)
    monkeypatch.setattr(deleted_bits, "_BYTES_PER_TEXT", 7)
    pick = random.Random(SEED)
    print("seed", SEED)
    for _ in range(50):
        files, gone = [], []
        for number in range(pick.randrange(1, 6)):
            rows = pick.choice([1, 7, 8, 63, 64, 65, 500])
            has = pick.random() < 0.7
            files.append(task(f"f{number}", rows, deletes=has))
            # Some lie behind the file's end, as positions may.
            gone.append(pick.sample(range(rows + 9), pick.randrange(rows + 9)) if has else [])
        metrics = Metrics()
        found = read_deleted(context(), files, [positions(rows) for rows in gone], metrics)
        if not any(file.deletes for file in files):
            assert found is None
            continue
        bits = unpacked(found)
        assert found.size == num_bits(files)
        for file, rows, first in zip(files, gone, found.firsts, strict=True):
            own = bits[first : first + file.record_count]
            assert len(own) == file.record_count
            assert set(np.flatnonzero(own)) == {row for row in rows if row < file.record_count}
        assert found.rows == found.by_equality == metrics.counters["rows.deleted.compiled"] == bits.sum()
        assert found.files == sum(
            any(r < f.record_count for r in g) for f, g in zip(files, gone, strict=True)
        )


@pytest.mark.parametrize(("share", "is_shorter"), [(0.001, True), (0.5, False)])
def test_bits_that_do_not_compress_are_sent_as_they_are(share, is_shorter):
    rows = 2**21
    gone = np.flatnonzero(np.random.default_rng(SEED).random(rows) < share).astype(np.uint64)
    found = read_deleted(context(), [task("f", rows, deletes=True)], [positions(gone)], Metrics())
    letters = sum(map(len, found.texts))
    assert (letters < rows // 8 // 2) == is_shorter
    assert letters < rows // 8 * 1.4
    assert (np.flatnonzero(unpacked(found)) == gone).all()


def test_memory_is_that_of_the_bits():
    """A gigabyte it would be with eight bytes a position."""
    rows = 2**27
    every = BitMap64()
    every.add_range(0, rows)
    every -= BitMap64(range(0, rows, 4099))
    deleted = DeletedPositions("compiled", every, len(every))
    tracemalloc.start()
    try:
        found = read_deleted(context(), [task("f", rows, deletes=True)], [deleted], Metrics())
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert found.rows == len(every)
    assert peak < 5 * rows // 8
