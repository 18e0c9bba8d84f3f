"""Rows of a metadata table as bytes of a task, and back."""

from __future__ import annotations

import pyarrow as pa

from twostage.metadata_tables.rows import read_rows, write_rows
from twostage.metrics import Metrics


def test_rows_come_back_and_are_counted() -> None:
    batch = pa.record_batch({"id": [1, None], "st": [{"a": "x"}, None]})
    for given, rows in ((batch, 2), (batch.slice(0, 0), 0)):
        metrics = Metrics()
        found = list(read_rows(write_rows(given), metrics))
        assert pa.Table.from_batches(found, batch.schema).to_pylist() == given.to_pylist()
        assert metrics.counters["rows.considered"] == rows
