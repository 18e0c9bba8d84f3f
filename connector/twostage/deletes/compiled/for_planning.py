"""Reads compiled deletes while planning, for a scan that Spark's own Parquet reader will do.

Takes the tasks of a scan's data files; returns the positions that the equality deletes of each file remove,
or the reason why some are unknown. The rules: all or nothing; only entries are read, never an equality-delete
file, at most 32 MiB of them and at most `MAX_LOOKUPS` lookups. The decision does not depend on time, so two
runs of a query use the same reader.

Benefit: the column "by Spark" in docs/benchmarks-deletes.md.
"""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from pyroaring import BitMap64

from twostage.deletes.cache import fingerprint
from twostage.deletes.compiled.entry_name import (
    entry_name,
    name_prefix,
    name_set_with_positions,
    whole_file_task,
)
from twostage.deletes.compiled.store import COMPILED, FolderStore, read_entry, stores_for
from twostage.deletes.positions.position_deletes import DeletedPositions
from twostage.errors import ResourceLimitError
from twostage.metrics import Metrics
from twostage.storage.ranges import cost_of

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from twostage.deletes.compiled.entry_name import EntryName
    from twostage.deletes.compiled.store import CompiledStore
    from twostage.task import DeleteFile, ScanContext, ScanTask

MAX_BYTES_OF_ALL = 32 * 2**20
"""Of all entries together: twice the size, as bits, of the deleted rows that may be passed to Spark."""
MAX_LOOKUPS = 4_096
"""Entry names to look up in a local folder or the host's cache, whether they exist or not."""
MAX_REMOTE_LOOKUPS = 512
"""The same if each lookup is a request: eight at a time, with a latency of 30 ms, they take 2 s."""
_IGNORED = ("delete_compiled.ignored", "delete_cache.ignored")


def read_compiled(
    context: ScanContext, files: Sequence[Sequence[ScanTask]], metrics: Metrics
) -> list[DeletedPositions] | str:
    """Return, per data file, the positions that its equality deletes remove; or a sentence about what is missing.

    Args:
        context: The scan.
        files: For each data file, the tasks that would read it.
        metrics: Gains ``delete_compiled.*`` and the time.
    """
    if not any(_equality(parts[0]) for parts in files):
        return [DeletedPositions() for _ in files]
    with metrics.timed("deletes"):
        return _read(context, files, metrics)


def _read(
    context: ScanContext, files: Sequence[Sequence[ScanTask]], metrics: Metrics
) -> list[DeletedPositions] | str:
    found = [DeletedPositions() for _ in files]
    with_deletes = [number for number, parts in enumerate(files) if _equality(parts[0])]
    said = f"{len(with_deletes)} of {len(files)} files have equality deletes"
    seen = Metrics()
    # Even if keys are few: `compile-deletes` also writes entries for them, and reading them costs little
    # here.
    stores = stores_for(context, seen)
    if not stores:
        return f"{said}, and there is no place for compiled ones"
    is_remote = any(isinstance(store, FolderStore) and store.is_remote for store in stores)
    limit = MAX_REMOTE_LOOKUPS if is_remote else MAX_LOOKUPS
    reader = _Reader(context, stores)
    step = cost_of(None, context.settings.parallel_requests, is_remote=is_remote).parallel
    least = 1
    # One first: if nothing was compiled, a single request tells.
    for numbers in (
        with_deletes[:1],
        *(with_deletes[start : start + step] for start in range(1, len(with_deletes), step)),
    ):
        if max(least, reader.lookups) > limit:
            return f"{said}, and finding compiled ones takes more than {limit:,} lookups"
        try:
            bitmaps = reader.read([files[number] for number in numbers])
        except ResourceLimitError:
            return f"{said}, compiled ones of more than {MAX_BYTES_OF_ALL:,} bytes"
        for number, bitmap in zip(numbers, bitmaps, strict=True):
            if bitmap is None:
                task = files[number][0]
                is_ignored = any(seen.counters[counter] for counter in _IGNORED)
                why = (
                    "whose compiled ones are damaged or unreadable" if is_ignored else reader.why_absent(task)
                )
                return f"{said}, {why}: {task.written_path.rpartition('/')[2]}"
            found[number] = DeletedPositions(COMPILED, bitmap, len(bitmap))
        least = len(with_deletes)
    metrics.merge(seen)
    metrics.add("delete_compiled.hits", len(with_deletes))
    return found


def _equality(task: ScanTask) -> list[DeleteFile]:
    return [delete for delete in task.deletes if delete.content == "equality"]


class _Reader:
    """Reads entries of one scan, within limits.

    Attributes:
        lookups: Entry names looked up so far, including those in this process's memory: the choice must not
            depend on what ran before.
    """

    def __init__(self, context: ScanContext, stores: Collection[CompiledStore]) -> None:
        self._context = context
        self._stores = stores
        self.lookups = 0
        self._counting = threading.Lock()
        self._bytes_left = MAX_BYTES_OF_ALL
        self._digests: dict[int, str] = {}
        """Fingerprints by the id of a delete file: thousands of them may apply to each of many data files."""

    def read(self, files: Sequence[Sequence[ScanTask]]) -> list[BitMap64 | None]:
        """Return a bitmap for each data file, None for one that has no entry; requests run in parallel.

        Raises:
            ResourceLimitError: They and the entries read before take too many bytes.
        """
        if len(files) == 1:
            bitmaps = [self._read_file(files[0])]
        else:
            with ThreadPoolExecutor(len(files), "twostage-compiled") as pool:
                bitmaps = list(pool.map(self._read_file, files))
        self._bytes_left -= sum(len(bitmap.serialize()) for bitmap in bitmaps if bitmap is not None)
        if self._bytes_left < 0:
            raise ResourceLimitError("FILE_TOO_LARGE", "Compiled deletes are too large", stage="deletes")
        return bitmaps

    def _read_file(self, parts: Sequence[ScanTask]) -> BitMap64 | None:
        """Return the whole file's entry or the union of its parts', of equality deletes alone or with positions."""
        for with_positions in (False, True) if len(parts[0].deletes) > len(_equality(parts[0])) else (False,):
            found = self._find(whole_file_task(parts[0]), with_positions=with_positions)
            if found is None and len(parts) > 1:
                found = self._join(parts, with_positions=with_positions)
            if found is not None:
                return found
        return None

    def _join(self, parts: Sequence[ScanTask], *, with_positions: bool) -> BitMap64 | None:
        bitmaps = []
        for part in parts:
            bitmap = self._find(part, with_positions=with_positions)
            if bitmap is None:
                return None
            bitmaps.append(bitmap)
        return BitMap64.union(*bitmaps)

    def _find(self, task: ScanTask, *, with_positions: bool) -> BitMap64 | None:
        with self._counting:
            self.lookups += 1
        return read_entry(
            self._context, self._name(task, with_positions=with_positions), self._stores, self._bytes_left
        )

    def _name(self, task: ScanTask, *, with_positions: bool = False) -> EntryName:
        deletes = _equality(task)
        delete_set = task.delete_set or fingerprint.of_set(map(self._digest, deletes))
        if with_positions:
            delete_set = name_set_with_positions(task, delete_set)
        return entry_name(self._context, task, deletes, delete_set)

    def _digest(self, delete: DeleteFile) -> str:
        found = self._digests.get(id(delete))
        if found is None:
            found = self._digests[id(delete)] = fingerprint.of_delete(delete)
        return found

    def why_absent(self, task: ScanTask) -> str:
        """Return why there is no entry: whether the data file has any, for other deletes or a part of it."""
        prefix = name_prefix(self._name(task))
        if any(store.has(prefix) for store in self._stores):
            return "compiled for other deletes, or not all of it"
        return "not compiled"
