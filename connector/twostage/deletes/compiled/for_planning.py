"""Compiled deletes read while planning, for a scan that Spark's own Parquet reader is to do.

Takes the ranges of a scan's data files; gives the positions that the equality deletes of each remove, or the reason why
they cannot all be had. The rules: all or nothing; only entries are read, never an equality-delete file; no more
than some bytes and seconds of them.
"""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from pyroaring import BitMap64

from twostage.deletes.cache import fingerprint
from twostage.deletes.compiled.store import (
    KIND,
    ChosenPlace,
    entry_name,
    find_entry,
    places_of,
    prefix_of,
    set_with_positions,
    whole,
)
from twostage.deletes.positions.position_deletes import DeletedPositions
from twostage.errors import ResourceLimitError
from twostage.metrics import Metrics
from twostage.storage.ranges import cost_of

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from twostage.deletes.compiled.store import EntryName, Place
    from twostage.task import DeleteFile, ScanContext, ScanTask

MOST_BYTES = 32 * 2**20
"""Of all entries together: what as many rows as are looked up for Spark take, and as much again."""
MOST_SECONDS = 2.0
"""After which no more entries are asked for."""
_IGNORED = ("delete_compiled.ignored", "delete_cache.ignored")


def read_compiled(
    context: ScanContext, files: Sequence[Sequence[ScanTask]], metrics: Metrics
) -> list[DeletedPositions] | str:
    """Return the positions that equality deletes remove of each data file, none where it has none; or what is lacking.

    Args:
        context: The scan.
        files: For each data file the ranges that the scan would read.
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
    wanted = [place for place, parts in enumerate(files) if _equality(parts[0])]
    said = f"{len(wanted)} of {len(files)} files have equality deletes"
    seen = Metrics()
    # Of few keys, too: compile-deletes keeps them when asked, and to read them costs nothing here.
    places = places_of(context, None, seen)
    if not places:
        return f"{said}, and there is no place for compiled ones"
    reader = _Reader(context, places)
    deadline = time.monotonic() + MOST_SECONDS
    is_remote = any(isinstance(place, ChosenPlace) and place.is_remote for place in places)
    step = cost_of(None, context.settings.parallel_requests, is_remote=is_remote).parallel
    # One first: where nothing was compiled, one request tells.
    for numbers in (wanted[:1], *(wanted[start : start + step] for start in range(1, len(wanted), step))):
        if time.monotonic() > deadline:
            return f"{said}, and reading compiled ones takes more than {MOST_SECONDS:.0f} s"
        try:
            bitmaps = reader.read([files[number] for number in numbers])
        except ResourceLimitError:
            return f"{said}, compiled ones of more than {MOST_BYTES:,} bytes"
        for number, bitmap in zip(numbers, bitmaps, strict=True):
            if bitmap is None:
                task = files[number][0]
                is_ignored = any(seen.counters[counter] for counter in _IGNORED)
                why = (
                    "whose compiled ones are damaged or unreadable" if is_ignored else reader.why_absent(task)
                )
                return f"{said}, {why}: {task.written_path.rpartition('/')[2]}"
            found[number] = DeletedPositions(KIND, bitmap, len(bitmap))
    metrics.merge(seen)
    metrics.add("delete_compiled.hits", len(wanted))
    return found


def _equality(task: ScanTask) -> list[DeleteFile]:
    return [delete for delete in task.deletes if delete.content == "equality"]


class _Reader:
    """Reads entries of one scan, bounded."""

    def __init__(self, context: ScanContext, places: Collection[Place]) -> None:
        self._context = context
        self._places = places
        self._left = MOST_BYTES
        self._digests: dict[int, str] = {}
        """Of each delete file: thousands of them may apply to each of many data files."""

    def read(self, files: Sequence[Sequence[ScanTask]]) -> list[BitMap64 | None]:
        """Return a bitmap for each data file, None for one that has no entry; many requests wait at the same time.

        Raises:
            ResourceLimitError: Together with those read before they take too many bytes.
        """
        if len(files) == 1:
            bitmaps = [self._read_file(files[0])]
        else:
            with ThreadPoolExecutor(len(files), "twostage-compiled") as pool:
                bitmaps = list(pool.map(self._read_file, files))
        self._left -= sum(len(bitmap.serialize()) for bitmap in bitmaps if bitmap is not None)
        if self._left < 0:
            raise ResourceLimitError("FILE_TOO_LARGE", "Compiled deletes are too large", stage="deletes")
        return bitmaps

    def _read_file(self, parts: Sequence[ScanTask]) -> BitMap64 | None:
        """Return what is kept of the whole file, or of all of its ranges; else so beside its positional deletes."""
        for besides in (False, True) if len(parts[0].deletes) > len(_equality(parts[0])) else (False,):
            found = self._find(whole(parts[0]), besides=besides)
            if found is None and len(parts) > 1:
                found = self._join(parts, besides=besides)
            if found is not None:
                return found
        return None

    def _join(self, parts: Sequence[ScanTask], *, besides: bool) -> BitMap64 | None:
        bitmaps = []
        for part in parts:
            bitmap = self._find(part, besides=besides)
            if bitmap is None:
                return None
            bitmaps.append(bitmap)
        return BitMap64.union(*bitmaps)

    def _find(self, task: ScanTask, *, besides: bool) -> BitMap64 | None:
        return find_entry(self._context, self._name(task, besides=besides), self._places, self._left)

    def _name(self, task: ScanTask, *, besides: bool = False) -> EntryName:
        deletes = _equality(task)
        delete_set = task.delete_set or fingerprint.of_set(map(self._digest, deletes))
        if besides:
            delete_set = set_with_positions(task, delete_set)
        return entry_name(self._context, task, deletes, delete_set)

    def _digest(self, delete: DeleteFile) -> str:
        found = self._digests.get(id(delete))
        if found is None:
            found = self._digests[id(delete)] = fingerprint.of_delete(delete)
        return found

    def why_absent(self, task: ScanTask) -> str:
        """Tell whether there is an entry of the data file at all: under other deletes, or of some of its ranges."""
        prefix = prefix_of(self._name(task))
        if any(place.has(prefix) for place in self._places):
            return "compiled for other deletes, or not all of it"
        return "not compiled"
