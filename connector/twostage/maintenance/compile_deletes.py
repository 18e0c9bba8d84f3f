"""The commands ``compile-deletes`` and ``clean``: compile equality deletes, and remove what is no longer needed.

Takes the reader's options; writes an entry for each data file that has equality deletes, to the host's cache
and to the folder or bucket that ``deletes.compiled-dir`` names. The rule: an entry is made by probing every
row of its data file, whatever position deletes remove; entries are removed by name, and by the version that
wrote them, and no other table's are touched.
"""

from __future__ import annotations

import contextlib
import os
import uuid
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING

from twostage.deletes.anti_join.choose import TaskDeletes
from twostage.deletes.cache import fingerprint
from twostage.deletes.cache.host import SUFFIX, HostCache
from twostage.deletes.compiled.entry_name import EntryName, entry_name, name_set_with_positions
from twostage.deletes.compiled.find import expected_bytes
from twostage.deletes.compiled.recorder import Recorder
from twostage.deletes.compiled.store import MAX_ENTRY_BYTES, FolderStore, PendingEntry, stores_for
from twostage.errors import OptionError, StorageError, TwoStageError
from twostage.metrics import Metrics
from twostage.planning.plan import refuse_inside
from twostage.predicates.predicate import TRUE
from twostage.selection import Selection
from twostage.storage import files
from twostage.storage.location import join, parse_location
from twostage.storage.pending_write import PendingWrite
from twostage.storage.ranges import cost_of
from twostage.task import TaskGroup

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from pyroaring import BitMap64

    from twostage.deletes.compiled.store import CompiledStore
    from twostage.options import ReadOptions
    from twostage.reading.files_ahead import FilesAhead
    from twostage.table.metadata import Snapshot
    from twostage.table.pinned import PinnedTable
    from twostage.task import DeleteFile, ScanContext, ScanPlan, ScanTask

    Item = tuple[ScanContext, ScanTask]
    Run = Callable[[Sequence[Item]], Iterable[Metrics]]

_WHOLE = 2**62
"""A split size in bytes that no file reaches: an entry is of a whole file."""


@dataclass(frozen=True, slots=True)
class Cleaned:
    """How many entries were removed, and how many were kept."""

    removed: int
    kept: int


def plan_compiling(options: ReadOptions, confs: Mapping[str, str]) -> list[Item]:
    """Return the data files that have equality deletes, each with its scan.

    Raises:
        OptionError: There is no place to keep what would be compiled.
    """
    table = _load(options, confs)
    items = list(_items(_plan(table, options, table.snapshot)))
    if items and not stores_for(items[0][0], Metrics()):
        raise OptionError(
            "NO_PLACE",
            "There is no place to keep compiled deletes",
            stage="options",
            hint="Set deletes.compiled-dir, or deletes.cache=host with a deletes.cache-dir that only this user can access.",
        )
    return items


def compile_files(items: Iterable[Item]) -> Iterator[Metrics]:
    """Compile data files' equality deletes, unless they have entries; yield the counters of each.

    In object stores several files are read and written concurrently, as many as in a scan.

    Raises:
        StorageError: An entry could not be stored; those before it are.
    """
    for context, group in groupby(items, itemgetter(0)):
        tasks = tuple(task for _, task in group)
        if any(_takes_requests(place) for place in (context.settings.compiled_dir, tasks[0].path)):
            yield from _compile_together(context, tasks)
        else:
            for task in tasks:
                yield from _compile_file(context, task)


def _takes_requests(place: str | None) -> bool:
    return place is not None and not parse_location(place).is_local


def _compile_together(context: ScanContext, tasks: tuple[ScanTask, ...]) -> Iterator[Metrics]:
    from twostage.reading.files_ahead import FilesAhead  # noqa: PLC0415 - only compiling reads

    with FilesAhead(TaskGroup(index=0, context=context, tasks=tasks), Metrics()) as ahead:
        yield from ahead.files(partial(_compile_file, context, ahead=ahead))


def _compile_file(context: ScanContext, task: ScanTask, ahead: FilesAhead | None = None) -> Iterator[Metrics]:
    """Compile one data file's equality deletes; yield the counters once the entry is stored."""
    metrics = Metrics()
    metrics.add("delete_compiled.files")
    deletes = tuple(delete for delete in task.deletes if delete.content == "equality")
    name = entry_name(context, task, deletes)
    stores = stores_for(context, metrics)
    found = [_read(store, name, task, ahead) for store in stores]
    bitmap = next((one for one in found if one is not None), None)
    if bitmap is None:
        bitmap = _probe(context, task, deletes, metrics, ahead)
        metrics.add("delete_compiled.made")
    metrics.add("delete_compiled.rows", len(bitmap))
    lacking = [store for store, one in zip(stores, found, strict=True) if one is None]
    if lacking:
        entry = PendingEntry(name, bitmap, lacking, metrics)
        if not entry.is_kept(PendingWrite.block if ahead is None else ahead.turns.wait):
            reason = "; ".join(metrics.choices) or "there is no place"
            raise StorageError("NOT_KEPT", f"Compiled deletes could not be stored: {reason}", stage="deletes")
    yield metrics


def _read(store: CompiledStore, name: EntryName, task: ScanTask, ahead: FilesAhead | None) -> BitMap64 | None:
    """Return an entry's bitmap, if a store has it; other data files are read while an object store answers."""
    if ahead is None or not isinstance(store, FolderStore) or not store.is_remote:
        return store.read(name.text)
    contents, place, asked = ahead.deletes.contents, store.place(name.text), None
    with contextlib.suppress(TwoStageError):  # reading runs into it again, and reports it
        asked = contents.ask_beside(store.storage, place, MAX_ENTRY_BYTES, expected_bytes(task))
    return store.read(name.text, asked=asked)


def _probe(
    context: ScanContext,
    task: ScanTask,
    deletes: tuple[DeleteFile, ...],
    metrics: Metrics,
    ahead: FilesAhead | None,
) -> BitMap64:
    """Return the positions of a data file's rows that equality deletes remove, whatever else removes them.

    Keys that fit in memory are loaded, for the next data files as well.
    """
    from twostage.data_files.open_data_file import open_data_file  # noqa: PLC0415 - as above

    reads, deletes_ahead = (None, None) if ahead is None else (ahead.reads, ahead.deletes)
    recorder = Recorder()
    with open_data_file(context, task, metrics, reads) as data_file:
        equality = TaskDeletes(context, task, metrics, deletes_ahead).load(deletes)
        for row_group in recorder.counted(data_file.row_groups()):
            if row_group.num_rows:
                keys = {i: data_file.read_leaf(row_group, i) for i in equality.field_ids}
                deleted = equality.deleted(keys, row_group.num_rows)
                recorder.add(row_group.first_row, Selection.all(row_group.num_rows), deleted)
    return recorder.bitmap


def clean(options: ReadOptions, confs: Mapping[str, str], step: Callable[[int, int], None]) -> Cleaned:
    """Remove a table's entries and key sets that none of its snapshots needs, or that an earlier version wrote.

    Args:
        options: The reader's; the snapshot that they choose does not matter.
        confs: Spark's, for catalogs.
        step: Called with the number of snapshots examined so far, and in total.
    """
    table = _load(options, confs)
    live: set[tuple[str, str]] = set()
    snapshots = list(table.metadata.snapshots.values())
    context = None
    for number, snapshot in enumerate(snapshots):
        step(number, len(snapshots))
        plan = _plan(table, options, snapshot)
        context = plan.context
        for one, task in _items(plan):
            name = entry_name(one, task, [d for d in task.deletes if d.content == "equality"])
            live.add((name.data_file, name.delete_set))
            live.add((name.data_file, name_set_with_positions(task, name.delete_set)))
    step(len(snapshots), len(snapshots))
    context = context or _plan(table, options, None).context
    return _remove(context, live, set(table.metadata.snapshots))


def _remove(context: ScanContext, live: set[tuple[str, str]], snapshots: set[int]) -> Cleaned:
    table = fingerprint.of_table(context)
    removed = kept = 0

    def is_needed(name: str) -> bool:
        entry = EntryName.parse(name)
        return entry is None or (entry.data_file, entry.delete_set) in live

    cache = HostCache.find(context.settings, Metrics())
    if cache is not None:
        for name in cache.names(f"positions-{table}-"):
            if is_needed(name) and not cache.is_older(name):
                kept += 1
            else:
                cache.remove(name)
                removed += 1
        for name in cache.names(f"keys-{table}-"):
            description = cache.describe(name, "keys")
            if description is not None and description.values.get("snapshot") in snapshots:
                kept += 1
            else:
                cache.remove(name)
                removed += 1
    if context.settings.compiled_dir is None:
        return Cleaned(removed, kept)
    store = FolderStore(context.settings.compiled_dir, context.storage, Metrics())
    names = [
        entry.name
        for entry in files.list_folder(store.storage, store.storage.root)
        if entry.name.startswith(f"positions-{table}-") and entry.name.endswith(SUFFIX)
    ]
    # The version that wrote an entry is in its first bytes, not in its name.
    parallel = cost_of(None, context.settings.parallel_requests, is_remote=store.is_remote).parallel
    with ThreadPoolExecutor(max(1, parallel), "twostage-compiled") as pool:
        stays = list(pool.map(lambda name: is_needed(name) and not store.is_older(name), names))
    for name, is_kept in zip(names, stays, strict=True):
        if not is_kept:
            files.remove(store.storage, join(store.storage.root, name))
    removed += stays.count(False) + files.remove_stale(store.storage, store.storage.root)
    return Cleaned(removed, kept + stays.count(True))


def _load(options: ReadOptions, confs: Mapping[str, str]) -> PinnedTable:
    from twostage.catalog.load_table import load_table  # noqa: PLC0415 - executors need no catalog

    table = load_table(options, confs)
    refuse_inside(table, options.settings.compiled_dir)
    if table.metadata_table is not None:
        raise OptionError("BAD_OPTION", "A metadata table has no deletes to compile", stage="options")
    return table


def _plan(table: PinnedTable, options: ReadOptions, snapshot: Snapshot | None) -> ScanPlan:
    from twostage.planning.plan import plan_scan  # noqa: PLC0415 - executors need no planner

    return plan_scan(
        replace(table, snapshot=snapshot),
        replace(options, split_size=_WHOLE),
        projection=(),
        predicate=TRUE,
        hint=TRUE,
        limit=None,
        parallelism=os.cpu_count() or 1,
        scan_id=uuid.uuid4().hex,
    )


def _items(plan: ScanPlan) -> Iterator[Item]:
    for group in plan.groups:
        for task in group.tasks:
            if any(delete.content == "equality" for delete in task.deletes):
                yield group.context, task
