"""Contexts, tasks and delete files for the tests of `twostage.deletes`."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from declared.files import FileOptions, write_rows
from declared.types import Column
from twostage.options import ReadSettings
from twostage.schema import Schema, parse_schema
from twostage.task import DeleteFile, ScanContext, ScanTask, Storage

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path


def schema_of(columns: Sequence[Column]) -> Schema:
    from declared.types import column_json

    return parse_schema({"schema-id": 0, "fields": [column_json(column) for column in columns]})


def context_of(folder: Path, columns: Sequence[Column] = (), **changes: Any) -> ScanContext:
    settings = {"kernels": True, **changes.pop("settings", {})}
    values: dict[str, Any] = {
        "scan_id": "scan",
        "table": "table",
        "snapshot_id": 1,
        "schema": schema_of(columns),
        "projection": (),
        "storage": Storage(root=str(folder)),
        "settings": ReadSettings(**settings),
    }
    return ScanContext(**{**values, **changes})


def task_of(*deletes: DeleteFile, **changes: Any) -> ScanTask:
    values: dict[str, Any] = {
        "path": "/lake/data.parquet",
        "written_path": "/lake/data.parquet",
        "format": "parquet",
        "file_size": 1000,
        "record_count": 1_000_000,
        "start": 0,
        "length": 1000,
        "sequence_number": 1,
        "spec_id": 0,
        "deletes": deletes,
    }
    return ScanTask(**{**values, **changes})


def delete_of(path: Path, content: str, **changes: Any) -> DeleteFile:
    values: dict[str, Any] = {
        "content": content,
        "format": path.suffix[1:],
        "path": str(path),
        "written_path": str(path),
        "file_size": os.path.getsize(path) if path.exists() else 0,
        "record_count": 1,
        "sequence_number": 5,
    }
    return DeleteFile(**{**values, **changes})


def write_keys(
    path: Path,
    columns: Sequence[Column],
    rows: Sequence[Mapping[int, Any]],
    ids: Sequence[int],
    **changes: Any,
) -> DeleteFile:
    """Write an equality-delete file in the format of the path's suffix."""
    options = FileOptions(format=path.suffix[1:], row_group_size=7, **changes.pop("options", {}))
    write_rows(path, columns, rows, options)
    changes.setdefault("record_count", len(rows))
    return delete_of(path, "equality", equality_ids=tuple(ids), **changes)
