"""Builds the index of one data file: all kinds of all its columns, published whole or not at all.

Takes the values of some columns, in the order of the rows; gives an index file at its place. The rules: every row of the data
file is in it, deleted ones included; memory stays within a budget; a half-written file has another name, or no footer,
and is ignored; and building again gives an equivalent index.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from pyroaring import BitMap

from twostage.errors import mask
from twostage.indexes import bitmaps
from twostage.indexes.data_file_index import NULLS
from twostage.indexes.file_stamp import NO_STAMP
from twostage.indexes.kind import MAX_ROWS_OF_A_FILE, BuildResources
from twostage.indexes.kinds.registered import KINDS
from twostage.indexes.puffin import IndexWriter
from twostage.storage import files

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from twostage.indexes.kind import ColumnValues
    from twostage.task import Storage

_COPIED = 4 * 2**20
"""Bytes of the finished file that are copied at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Built:
    """What was built.

    Attributes:
        nbytes: Of the index file.
        refused: Which kinds could not index which values, and why, as text.
    """

    nbytes: int
    refused: tuple[str, ...] = ()


def build_index(
    storage: Storage,
    path: str,
    columns: Sequence[tuple[ColumnValues, Sequence[str]]],
    properties: Mapping[str, str],
    budget: int,
) -> Built:
    """Build and publish the index of a data file.

    Args:
        storage: Of the place.
        path: The index file's.
        columns: Each column with the names of its kinds.
        properties: What the footer says of the data file.
        budget: Bytes of memory.

    Raises:
        StorageError: It could not be written.
    """
    refused: list[str] = []
    with tempfile.TemporaryDirectory(prefix="twostage-index-") as folder:
        resources = BuildResources(folder=Path(folder), budget=budget)
        made = Path(folder, "index")
        with made.open("wb") as stream:
            writer = IndexWriter(stream, dict(properties))
            for values, kinds in columns:
                if values.num_rows > MAX_ROWS_OF_A_FILE:
                    refused.append(f"a data file of {values.num_rows} rows")
                    break
                _write_nulls(values, writer)
                for name in kinds:
                    reason = KINDS[name].build(values, writer, resources)
                    if reason is not None:
                        refused.append(f"{name}: {reason}")
            writer.properties["columns"] = ",".join(str(values.field_id) for values, _ in columns)
            size = writer.close()
        files.write_stream(storage, path, _parts(made))
    return Built(nbytes=size, refused=tuple(refused))


def describe(
    data_file: str, path: str, num_rows: int, size: int, version: bytes, stamp: bytes = NO_STAMP
) -> dict[str, str]:
    """Return what the footer of an index says of its data file.

    Args:
        data_file: `fingerprint.of_data_file`.
        path: Its path in the metadata, for people.
        num_rows: Its rows.
        size: Its bytes.
        version: Its ETag, if it has one.
        stamp: Of a local file (`file_stamp`).
    """
    found = {"data-file": data_file, "path": mask(path), "rows": str(num_rows), "size": str(size)}
    if stamp != NO_STAMP:
        found["stamp"] = stamp.hex()
    return {**found, "etag": version.hex()} if version else found


def _write_nulls(values: ColumnValues, writer: IndexWriter) -> None:
    bitmap = BitMap()
    first = 0
    for chunk in values.chunks():
        if chunk.null_count == len(chunk):
            bitmap.add_range(first, first + len(chunk))
        elif chunk.null_count:
            bitmap |= bitmaps.of_rows(first + np.flatnonzero(chunk.is_null().to_numpy(zero_copy_only=False)))
        first += len(chunk)
    if first != values.num_rows:
        raise ValueError(f"{first} values of {values.num_rows} rows")
    writer.add(
        values.field_id,
        NULLS,
        "rows",
        bitmaps.serialize(bitmap),
        type=values.type,
        nulls=len(bitmap),
    )


def _parts(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while part := file.read(_COPIED):
            yield part
