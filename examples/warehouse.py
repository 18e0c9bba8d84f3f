"""Makes the demo's warehouse: a SQLite catalog and an events table with real deletes.

PyIceberg writes the data files. It cannot write delete files, so `delete_rows` and `delete_positions`
write them with pyarrow and commit them through PyIceberg's own snapshot producer.
"""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.manifest import (
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestContent,
    ManifestWriter,
    ManifestWriterV2,
)
from pyiceberg.table.snapshots import Operation
from pyiceberg.table.update.snapshot import _FastAppendFiles
from pyiceberg.typedef import Record

if TYPE_CHECKING:
    from pathlib import Path

    from pyiceberg.partitioning import PartitionSpec
    from pyiceberg.table import Table

ROWS_PER_FILE = 500_000
KINDS = ("view", "click", "cart", "buy", "login", "logout", "error", "refund")


class _DeleteManifestWriter(ManifestWriterV2):
    def content(self) -> ManifestContent:
        return ManifestContent.DELETES

    @property
    def _meta(self) -> dict[str, str]:
        return {**super()._meta, "content": "deletes"}


class _AppendDeletes(_FastAppendFiles):
    def new_manifest_writer(self, spec: PartitionSpec) -> ManifestWriter:
        metadata = self._transaction.table_metadata
        output = self.new_manifest_output()
        return _DeleteManifestWriter(spec, metadata.schema(), output, self._snapshot_id, self._compression)


def open_catalog(folder: Path) -> SqlCatalog:
    """Open (or make) the SQLite catalog ``lake`` of the warehouse in `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    return SqlCatalog("lake", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}")


def make_events(catalog: SqlCatalog, num_files: int, seed: int = 7) -> Table:
    """Make the table ``db.events``: `num_files` files of ROWS_PER_FILE events each, in time order."""
    catalog.create_namespace_if_not_exists("db")
    random = np.random.default_rng(seed)
    table: Table | None = None
    for number in range(num_files):
        batch = _events(random, first=number * ROWS_PER_FILE)
        if table is None:
            properties = {"write.parquet.row-group-limit": "100000"}
            table = catalog.create_table("db.events", batch.schema, properties=properties)
        table.append(batch)
    assert table is not None
    return table


def _events(random: np.random.Generator, first: int) -> pa.Table:
    count = ROWS_PER_FILE
    ids = np.arange(first, first + count)
    hexadecimal = np.char.mod("%016x", random.integers(0, 2**62, count))
    columns: dict[str, Any] = {
        "event_id": pa.array(ids),
        "user_id": pa.array(random.integers(0, 200_000, count)),
        "device_id": pa.array(np.char.add("device-", random.integers(0, 50_000, count).astype(str))),
        "ts": pa.array(1_760_000_000_000_000 + ids * 250_000, pa.timestamp("us", tz="UTC")),
        "kind": pa.array(np.array(KINDS)[random.integers(0, len(KINDS), count)]),
        "amount": pa.array(random.integers(0, 10**7, count).astype(np.float64) / 100),
        "session": pa.array(hexadecimal),
        "payload": pa.array(np.char.add(hexadecimal, np.char.multiply(hexadecimal, 3))),
    }
    for number in range(8):
        columns[f"metric_{number}"] = pa.array(random.random(count))
    return pa.table(columns)


def delete_rows(table: Table, column: str, values: list[int]) -> None:
    """Commit an equality-delete file: it deletes the rows whose `column` (a long) has one of `values`."""
    field = table.schema().find_field(column)
    metadata = {b"PARQUET:field_id": str(field.field_id).encode()}
    schema = pa.schema([pa.field(column, pa.int64(), metadata=metadata)])
    keys = pa.table([pa.array(values)], schema=schema)
    _commit(table, keys, DataFileContent.EQUALITY_DELETES, equality_ids=[field.field_id])


def delete_positions(table: Table, data_path: str, positions: list[int]) -> None:
    """Commit a positional delete file: it deletes these rows (counted from 0) of `data_path`."""
    schema = pa.schema(
        [
            pa.field("file_path", pa.string(), nullable=False, metadata={b"PARQUET:field_id": b"2147483546"}),
            pa.field("pos", pa.int64(), nullable=False, metadata={b"PARQUET:field_id": b"2147483545"}),
        ]
    )
    rows = pa.table([[data_path] * len(positions), positions], schema=schema)
    _commit(table, rows, DataFileContent.POSITION_DELETES)


def _commit(table: Table, rows: pa.Table, content: DataFileContent, **extra: Any) -> None:
    path = f"{table.location()}/data/delete-{uuid.uuid4()}.parquet"
    with table.io.new_output(path).create() as stream:
        pq.write_table(rows, stream)
    delete_file = DataFile.from_args(
        content=content,
        file_path=path,
        file_format=FileFormat.PARQUET,
        partition=Record(),
        record_count=rows.num_rows,
        file_size_in_bytes=len(table.io.new_input(path)),
        **extra,
    )
    delete_file.spec_id = table.spec().spec_id
    with table.transaction() as transaction:
        producer = _AppendDeletes(operation=Operation.DELETE, transaction=transaction, io=table.io)
        with producer as snapshot:
            snapshot.append_data_file(delete_file)
    table.refresh()
