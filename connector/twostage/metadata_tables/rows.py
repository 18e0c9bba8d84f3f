"""Rows of a metadata table, on their way from the driver to a worker inside a task.

Takes Arrow batches and returns their bytes, or the reverse. The rule: nothing is read from storage here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Iterator

    from twostage.metrics import Metrics


def write_rows(batch: pa.RecordBatch) -> bytes:
    """Return a batch as an Arrow IPC stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return bytes(sink.getvalue())


def read_rows(data: bytes, metrics: Metrics) -> Iterator[pa.RecordBatch]:
    """Yield the batches that `write_rows` wrote."""
    for batch in pa.ipc.open_stream(data):
        metrics.add("rows.considered", batch.num_rows)
        yield batch
