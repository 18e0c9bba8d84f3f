"""From sorted indexes, the value that enough rows of a top-n query (``ORDER BY … LIMIT``) are known to reach.

Takes the data files that may hold the best rows, and the table's indexes; returns a threshold. A data file's
best rows are at one end of its ``sorted`` index, so a few kilobytes tell which value they reach; its bounds
tell only the value of the single best row. A filter then drops everything worse, and the same index answers
that filter. The rule: only rows that certainly match and are not deleted count; for a file with n deleted
rows, its n best rows do not count.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from twostage.indexes.keys import is_same_domain, value_of_key
from twostage.indexes.kinds.sorted_rows import SortedRows, SortedRowsReader
from twostage.indexes.of_files import ask_files
from twostage.metrics import Metrics
from twostage.predicates.top import Threshold
from twostage.schema import Primitive

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from twostage.indexes.of_files import FileIndexes
    from twostage.indexes.of_scan import ScanIndexes
    from twostage.indexes.place import IndexGroup
    from twostage.indexes.puffin import BlobReader
    from twostage.planning.top_n import RankedFile
    from twostage.predicates.top import TopRows
    from twostage.task import ScanContext

    Longs = NDArray[np.int64]

MAX_FILES_PROBED = 16
"""Data files whose indexes are read: if values are scattered, all indexes give nearly the same answer."""
MAX_ROWS_PROBED = 4_096
"""Rows to read from a data file's index: two or three blocks."""
MIN_ROWS_TO_PROBE = 100_000
"""In all data files: with fewer, reading the column takes less time than reading indexes."""
_TYPES = frozenset("int long double decimal date timestamp timestamptz".split())
"""Not strings, whose index keys are prefixes; nor floats, whose index keys are doubles that may lie between
floats."""


def threshold_from_indexes(
    context: ScanContext, top: TopRows, files: Sequence[RankedFile], indexes: ScanIndexes, metrics: Metrics
) -> Threshold | None:
    """Return a value that at least ``top.count`` live, matching rows equal or beat; None if indexes prove none.

    Args:
        context: The scan.
        top: The limit and its first sort key.
        files: The files that may hold one of the first rows.
        indexes: The scan's indexes; groups without the first sort key are ignored.
        metrics: Gains ``indexes.*``.
    """
    column = top.column
    kind = column.type
    if not isinstance(kind, Primitive) or kind.name not in _TYPES or column.cast is not None:
        return None
    groups = [
        group
        for group in indexes.groups
        if any(one == column.field_id and SortedRows.name in kinds for one, kinds in group.columns)
    ]
    if not groups or sum(file.rows or 0 for file in files) < MIN_ROWS_TO_PROBE:
        return None
    probed = [
        file
        for file in top.best_first(files, lambda file: (file.bounds_of, file.rows))
        if file.counts_are_exact
        and top.count + file.num_deleted <= MAX_ROWS_PROBED
        and column.field_id not in file.candidate.task.constants
    ][:MAX_FILES_PROBED]

    def probe(file: RankedFile, opened: FileIndexes) -> tuple[_Best | None, Metrics]:
        own = Metrics()
        return _best_of(top, file, opened, groups, own), own

    indexes = replace(indexes, groups=tuple(groups))
    answers = list(ask_files(context, indexes, probed, lambda file: file.candidate.task, probe))
    for _, own in answers:
        metrics.merge(own)
    return _reached(top, kind, [found for found, _ in answers if found is not None])


class _Best:
    """The index keys of a data file's best rows, best first, and its number of NULL rows."""

    def __init__(self, keys: Longs, nulls: int) -> None:
        self.keys = keys
        self.nulls = nulls


def _best_of(
    top: TopRows,
    file: RankedFile,
    indexes: FileIndexes,
    groups: Sequence[IndexGroup],
    metrics: Metrics,
) -> _Best | None:
    """Return a data file's best live rows, from the first of its indexes that is usable."""
    field_id, kind = top.column.field_id, top.column.type
    assert isinstance(kind, Primitive)
    for group in groups:
        index = indexes.open(group, metrics)
        if index is None:
            continue
        built = index.type_of(field_id, metrics)
        if built is None or built.name not in _TYPES or not is_same_domain(built, kind):
            continue

        def probe(rows: SortedRowsReader, reader: BlobReader) -> tuple[Longs, int]:
            keys = rows.best(top.count + file.num_deleted, reader, last=top.descending)
            metrics.add("indexes.bytes_read", reader.cost.nbytes)
            return keys, rows.count

        found = index.of_kind(field_id, SortedRowsReader, probe, metrics)
        if found is not None:
            keys, count = found
            nulls = max(0, index.num_rows - count - file.num_deleted)
            return _Best(keys[file.num_deleted :], nulls)
    return None


def _reached(top: TopRows, kind: Primitive, found: Sequence[_Best]) -> Threshold | None:
    wanted = top.count
    if top.nulls_first:
        wanted -= sum(one.nulls for one in found)
        if wanted <= 0:
            return Threshold(None)
    keys = np.concatenate([np.zeros(0, np.int64), *(one.keys for one in found)])
    if len(keys) < wanted:
        return None
    keys.sort()
    return Threshold(value_of_key(int(keys[-wanted] if top.descending else keys[wanted - 1]), kind))
