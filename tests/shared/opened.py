"""Opens single data files with the product's readers, without a table around them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from declared.types import Column, column_json
from twostage.data_files.avro_file import AvroDataFile
from twostage.data_files.orc_file import OrcDataFile
from twostage.data_files.parquet_file import ParquetDataFile
from twostage.metrics import Metrics
from twostage.options import ReadSettings
from twostage.schema import Schema, parse_schema
from twostage.task import ScanContext, ScanTask, Storage

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    import pyarrow as pa

    from twostage.data_files.data_file import DataFile

READERS: dict[str, type[DataFile]] = {"orc": OrcDataFile, "avro": AvroDataFile, "parquet": ParquetDataFile}


def schema_of(columns: Sequence[Column]) -> Schema:
    """Return declared columns as the product's schema."""
    return parse_schema({"schema-id": 0, "type": "struct", "fields": [column_json(c) for c in columns]})


def open_file(
    path: Path,
    schema: Schema,
    *,
    mapping: tuple[Any, ...] | None = None,
    start: int = 0,
    length: int | None = None,
    metrics: Metrics | None = None,
    storage: Storage = Storage(),
    **settings: Any,
) -> DataFile:
    """Open a file, or the part of it that starts in a range of bytes."""
    size = path.stat().st_size
    context = ScanContext(
        scan_id="test",
        table="table",
        snapshot_id=1,
        schema=schema,
        projection=schema.fields,
        name_mapping=mapping,
        storage=storage,
        settings=ReadSettings(**settings),
    )
    task = ScanTask(
        path=str(path),
        written_path=str(path),
        format=path.suffix[1:],
        file_size=size,
        record_count=0,
        start=start,
        length=size if length is None else length,
        sequence_number=1,
        spec_id=0,
    )
    return READERS[path.suffix[1:]](context, task, metrics or Metrics())


def read_all(path: Path, schema: Schema, **options: Any) -> list[list[pa.Array]]:
    """Return the columns of each row group."""
    with open_file(path, schema, **options) as file:
        return [file.read(group, schema.fields, "fetch") for group in file.row_groups()]
