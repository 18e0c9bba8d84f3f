"""A data file whose reads are recorded, and the names of its parts, found without code of the product.

The files are written by pyarrow: names come from pyarrow's own view of the footer and, for pages, from the
order in which reads inside one column chunk may start.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from twostage.storage import files

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from twostage.task import Storage


@dataclass
class Log:
    """What was read from data files, in order: (offset, bytes)."""

    reads: list[tuple[int, int]] = field(default_factory=list)

    @property
    def num_bytes(self) -> int:
        return sum(length for _, length in self.reads)


class Watched:
    """A file object that records its reads."""

    def __init__(self, path: str, log: Log) -> None:
        self._file = open(path, "rb", buffering=0)
        self._log = log
        self.closed = False
        self.mode = "rb"

    def seek(self, offset: int, whence: int = 0) -> int:
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        return self._file.tell()

    def read(self, length: int = -1) -> bytes:
        start = self._file.tell()
        data = self._file.read(length)
        self._log.reads.append((start, len(data)))
        return data

    def seekable(self) -> bool:
        return True

    def readable(self) -> bool:
        return True

    def close(self) -> None:
        self.closed = True
        self._file.close()


def watch(patch: pytest.MonkeyPatch) -> Log:
    """Open data files as watched ones from now on."""
    log = Log()
    open_file = files.open_file

    def opened(policy: Storage, path: str) -> pa.NativeFile:
        if path.endswith(".parquet"):
            return pa.PythonFile(Watched(path, log), mode="r")
        return open_file(policy, path)

    patch.setattr(files, "open_file", opened)
    return log


def parts(path: Path) -> Iterator[tuple[int, int, str]]:
    """Yield offset, end and name of each column chunk, and of what follows them."""
    metadata = pq.read_metadata(path)
    end = 4
    for group in range(metadata.num_row_groups):
        for leaf in range(metadata.num_columns):
            chunk = metadata.row_group(group).column(leaf)
            start = chunk.dictionary_page_offset or chunk.data_page_offset
            end = start + chunk.total_compressed_size
            yield start, end, f"{chunk.path_in_schema}[{group}]"
    size = path.stat().st_size
    footer = size - 8 - metadata.serialized_size
    if end < footer:
        yield end, footer, "indexes"
    yield footer, size, "footer"


def named(log: Log, path: Path) -> list[str]:
    """Return the reads by the names of what they cover; equal neighbours are counted."""
    found: list[str] = []
    for offset, length in log.reads:
        words = []
        for start, end, name in parts(path):
            covered = min(end, offset + length) - max(start, offset)
            if covered == end - start:
                words.append(name)
            elif covered > 0:
                words.append(f"part of {name}")
        found.append(" + ".join(words))
    runs = [(name, len(list(run))) for name, run in itertools.groupby(found)]
    return [name if count == 1 else f"{count} x {name}" for name, count in runs]


def page_starts(path: Path, group: int, leaf: int) -> tuple[list[tuple[int, int, int]], int]:
    """Return (offset, bytes, rows) of a chunk's data pages, and the bytes before the first."""
    chunk = pq.read_metadata(path).row_group(group).column(leaf)
    start = chunk.dictionary_page_offset or chunk.data_page_offset
    raw = path.read_bytes()[start : start + chunk.total_compressed_size]
    at, pages, before = 0, [], 0
    while at < len(raw):
        kind, size, values, header = _page_header(raw, at)
        if kind == 2:
            before += header + size
        else:
            pages.append((start + at, header + size, values))
        at += header + size
    return pages, before


def _page_header(raw: bytes, at: int) -> tuple[int, int, int, int]:
    """Read type, body length, values and header length by hand, as fastparquet does: the first fields only."""
    header, end = _struct(raw, at)
    details = header.get(5) or header.get(7) or header.get(8)
    return header[1], header[3], details[1], end - at


def _struct(raw: bytes, at: int) -> tuple[dict, int]:
    """Read a struct of Thrift's compact protocol: only what page headers contain."""
    fields, number = {}, 0
    while raw[at]:
        step, kind = raw[at] >> 4, raw[at] & 15
        at += 1
        number += step
        if kind in (1, 2):
            fields[number] = kind == 1
        elif kind == 12:
            fields[number], at = _struct(raw, at)
        elif kind == 8:
            length, at = _varint(raw, at)
            at += length
        else:
            value, at = _varint(raw, at)
            fields[number] = (value >> 1) ^ -(value & 1)
    return fields, at + 1


def _varint(raw: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = raw[at]
        at += 1
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return value, at


def needed_bytes(path: Path, rows: Sequence[int]) -> int:
    """Return the bytes that any reader needs: footer, the key's chunks, the others' pages with a live row."""
    metadata = pq.read_metadata(path)
    total = metadata.serialized_size + 8
    first = 0
    for group in range(metadata.num_row_groups):
        count = metadata.row_group(group).num_rows
        live = {row - first for row in rows if first <= row < first + count}
        first += count
        total += metadata.row_group(group).column(0).total_compressed_size
        for leaf in range(1, metadata.num_columns):
            pages, before = page_starts(path, group, leaf)
            row, kept = 0, 0
            for _, size, values in pages:
                if any(one in live for one in range(row, row + values)):
                    kept += size
                row += values
            total += kept + (before if kept else 0)
    return total
