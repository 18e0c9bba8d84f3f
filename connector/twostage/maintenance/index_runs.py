"""The runs of table-wide indexes, for their owner: which data files they cover; merging, cleaning and removing.

Takes an `IndexPlace` and its listing; leaves fewer or smaller runs with the same content. The rule: a run is
removed only if another one has its data files, or none of them is live, or nothing can read it. Also
recognizes files that a killed builder left.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING

from twostage.errors import CorruptFileError, MissingFileError
from twostage.indexes.file_key_runs import merge_runs
from twostage.indexes.file_keys import FANOUT, FILES, open_run, read_run
from twostage.indexes.place import list_indexes, old_run
from twostage.metrics import Metrics
from twostage.storage import files

if TYPE_CHECKING:
    from collections.abc import Container, Iterable

    from twostage.indexes.file_keys import ScannedFiles
    from twostage.indexes.place import IndexPlace, TableIndexes

_OLD_PART_NAME = re.compile(r"tmp[a-z0-9_]{8}")


def covered_files(
    place: IndexPlace, indexes: TableIndexes, field_id: int, scanned: ScannedFiles, budget: int
) -> set[bytes]:
    """Return the data files (`file_key`) that a column's runs cover, except those replaced since."""
    covered: set[bytes] = set()
    for run in indexes.runs_of(field_id):
        opened = open_run(place, run, Metrics(), budget)
        if opened is not None:
            covered |= opened.members - opened.replaced(scanned)
    return covered


def remove_bad_runs(place: IndexPlace, indexes: TableIndexes, field_ids: Iterable[int]) -> int:
    """Remove unusable runs of some columns: damaged, truncated, or of another version; return how many.

    Raises:
        StorageError: The store failed, so a run's state is unknown.
    """
    removed = 0
    for run in [run for field_id in field_ids for run in indexes.runs_of(field_id)]:
        try:
            read_run(place, run)
        except MissingFileError:
            continue
        except (CorruptFileError, ValueError, LookupError):
            files.remove(place.storage, place.path(run.name))
            removed += 1
    return removed


def merge_fresh(
    place: IndexPlace, field_id: int, before: Container[str], budget: int, metrics: Metrics
) -> None:
    """Merge the new runs of a column into one, then every level that has `FANOUT` runs.

    Args:
        place: Where they are.
        field_id: The column.
        before: The names of earlier runs.
        budget: Bytes of memory.
        metrics: Gains warnings.
    """
    fresh = [run for run in list_indexes(place, metrics).runs_of(field_id) if run.name not in before]
    if len(fresh) > 1 and merge_runs(place, fresh, budget, metrics) is None:
        return
    while True:
        runs = list_indexes(place, metrics).runs_of(field_id)
        levels = Counter(run.level for run in runs)
        full = [level for level, count in levels.items() if count >= FANOUT]
        if not full:
            return
        own = [run for run in runs if run.level <= min(full)]
        if merge_runs(place, own, budget, metrics) is None:
            return


def clean_runs(place: IndexPlace, indexes: TableIndexes, live: set[bytes], budget: int) -> tuple[int, int]:
    """Remove runs without live data files, and rewrite those with more dead than live ones.

    Returns:
        How many were removed, and kept.
    """
    wanted = {i for group in indexes.groups for i, kinds in group.columns if FILES in kinds}
    removed, kept = remove_old_runs(place), 0
    for run in indexes.runs:
        opened = open_run(place, run, Metrics(), budget)
        alive = 0 if opened is None or run.field_id not in wanted else len(opened.members & live)
        if not alive:
            files.remove(place.storage, place.path(run.name))
            removed += 1
            continue
        if opened is not None and alive * 2 < len(opened.members):
            merge_runs(place, [run], budget, Metrics(), live)
        kept += 1
    return removed, kept


def remove_runs(place: IndexPlace, indexes: TableIndexes, field_ids: Container[int]) -> int:
    """Remove all runs of some columns; return how many."""
    names = [run.name for run in indexes.runs if run.field_id in field_ids]
    for name in names:
        files.remove(place.storage, place.path(name))
    return len(names) + remove_old_runs(place, field_ids)


def remove_old_runs(place: IndexPlace, field_ids: Container[int] | None = None) -> int:
    """Remove runs of an earlier version, which nothing reads, of some columns (None: of all); return how many."""
    names = [
        entry.name
        for entry in files.list_folder(place.storage, place.folder)
        if (found := old_run(entry.name)) is not None and (field_ids is None or found in field_ids)
    ]
    for name in names:
        files.remove(place.storage, place.path(name))
    return len(names)


def is_half_written(name: str) -> bool:
    """Tell whether a file in the table's own folder is half written, also by the names of earlier versions.

    >>> is_half_written("tmpk2_x91ab"), is_half_written("files-v2-3-0-0f.puffin")
    (True, False)
    """
    return files.is_half_written(name) or _OLD_PART_NAME.fullmatch(name) is not None
