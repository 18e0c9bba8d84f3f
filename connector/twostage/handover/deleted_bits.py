"""The deleted rows of a scan's files as a bit set, in which Spark looks rows up.

Takes data files with their positional deletes and deletion vectors, and the positions that their equality deletes remove;
gives one bit for each row of a file with deletes, set where the row is deleted, and each file's first bit. The rule: a
file's bits begin on a byte, and those of files without deletes begin after all others, where no bit is set.
"""

from __future__ import annotations

import base64
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from twostage.deletes.positions.position_deletes import load_positions
from twostage.deletes.positions.read_together import read_together

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from twostage.deletes.positions.position_deletes import DeletedPositions
    from twostage.metrics import Metrics
    from twostage.task import ScanContext, ScanTask

_ROWS_PER_CHUNK = 2**18
"""Rows are marked in chunks that fit the CPU's cache: 5 M of 10 M rows take 10 ms, and twice that in chunks of 4 M rows."""
_SAMPLE_BYTES = 2**13
_NUM_SAMPLES = 8
_MIN_COMPRESSION_RATIO = 4
"""Bits are compressed if samples of them shrink at least this many times; otherwise sending them as they are is faster."""
_BYTES_PER_TEXT = 3 * 2**20
"""Compressed bytes in one text: Jackson, which reads the answer, refuses texts of 20,000,000 characters."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletedBits:
    """The deleted rows of a scan's files: one bit for each row, set where it is deleted."""

    firsts: list[int]
    """For each file, the bit of its first row."""
    size: int
    """Bits."""
    texts: list[str]
    """The bits in bytes, lowest bit first: compressed by zlib, cut into parts, each in Base64."""
    rows: int
    by_equality: int
    """Of these, the rows that only equality deletes remove."""
    files: int
    """Files that have deleted rows."""


def num_bits(files: Sequence[ScanTask]) -> int:
    """Return the size of the bit set.

    After the bits of the files with deletes come as many as the longest of the other files has rows: all other files
    begin there, and none of these bits is set.
    """
    return _bits_of_files_with_deletes(files) + max(
        (task.record_count for task in files if not task.deletes), default=0
    )


def _bits_of_files_with_deletes(files: Sequence[ScanTask]) -> int:
    return sum(_whole_bytes(task.record_count) for task in files if task.deletes)


def _whole_bytes(num_rows: int) -> int:
    return -(-num_rows // 8) * 8


def read_deleted(
    context: ScanContext,
    files: Sequence[ScanTask],
    compiled: Sequence[DeletedPositions],
    metrics: Metrics,
) -> DeletedBits | None:
    """Read which rows positional deletes and vectors delete, and add those of equality deletes; None if no file has deletes.

    Args:
        context: The scan.
        files: Its data files.
        compiled: What equality deletes remove of each file.
        metrics: Gains ``delete_files.*``, ``rows.deleted.*`` and the time.

    Raises:
        TwoStageError: A delete file is not there or damaged.
    """
    if not any(task.deletes for task in files):
        return None
    size, after_deletes = num_bits(files), _bits_of_files_with_deletes(files)
    packed = np.zeros(-(-size // 8), np.uint8)
    firsts, next_first, rows, by_equality, with_rows = [], 0, 0, 0, 0
    with metrics.timed("deletes"), read_together(context, files) as contents:
        for task, by_keys in zip(files, compiled, strict=True):
            firsts.append(next_first if task.deletes else after_deletes)
            if not task.deletes:
                continue
            positions = load_positions(context, task, metrics, contents)
            every = positions | by_keys
            count = every.bitmap.range_cardinality(0, task.record_count)
            metrics.add(f"rows.deleted.{positions.kind}", positions.count)
            by_equality += count - positions.count
            rows += count
            with_rows += count > 0
            _mark(packed[next_first // 8 :], every, task.record_count)
            next_first += _whole_bytes(task.record_count)
        metrics.add("rows.deleted.compiled", by_equality)
        return DeletedBits(
            firsts=firsts,
            size=size,
            texts=_texts(packed.data),
            rows=rows,
            by_equality=by_equality,
            files=with_rows,
        )


def _mark(packed: NDArray[np.uint8], positions: DeletedPositions, num_rows: int) -> None:
    """Set the bits of the deleted rows among the first `num_rows`."""
    for start in range(0, num_rows, _ROWS_PER_CHUNK):
        length = min(_ROWS_PER_CHUNK, num_rows - start)
        places = positions.within(start, length)
        if len(places):
            deleted = np.zeros(length, np.bool_)
            deleted[places] = True
            bits = np.packbits(deleted, bitorder="little")
            packed[start // 8 : start // 8 + len(bits)] = bits


def _texts(data: memoryview) -> list[str]:
    step = max(_SAMPLE_BYTES, len(data) // _NUM_SAMPLES)
    sample = b"".join(data[start : start + _SAMPLE_BYTES] for start in range(0, len(data), step))
    compresses_well = len(zlib.compress(sample, 1)) * _MIN_COMPRESSION_RATIO <= len(sample)
    sent = zlib.compress(data, 1 if compresses_well else 0)
    return [
        base64.b64encode(sent[start : start + _BYTES_PER_TEXT]).decode("ascii")
        for start in range(0, len(sent), _BYTES_PER_TEXT)
    ]
