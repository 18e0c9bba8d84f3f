"""The value that enough rows of a top-n query (``ORDER BY … LIMIT``) are known to reach, from sorted rows.

Takes the data files that may hold the best rows, and the table's indexes; gives a threshold. The
best rows of a data file stand at one end of its index of kind ``sorted``, so that a few kilobytes tell which value they
reach, whereas its bounds tell one that only the single best row reaches. Everything worse is then left out by a filter,
for which the same index has the rows. The rule: only rows that live and match for certain count, a file with n deleted
rows without its n best.
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

MAX_FILES_ASKED = 16
"""Data files whose indexes are asked: with scattered values all tell nearly the same."""
MAX_ROWS_ASKED = 4_096
"""That are asked of a data file: two or three blocks."""
MIN_ROWS_TO_ASK = 100_000
"""Of all data files: reading one column of fewer takes less time than asking."""
_TYPES = frozenset("int long double decimal date timestamp timestamptz".split())
"""Not text, of whose values keys are a part; nor floats, whose keys are doubles between them."""


def threshold_from_indexes(
    context: ScanContext, top: TopRows, files: Sequence[RankedFile], indexes: ScanIndexes, metrics: Metrics
) -> Threshold | None:
    """Return a value that at least ``top.count`` live, matching rows equal or beat; None if indexes tell none.

    Args:
        context: The scan's.
        top: The limit and its first sort key.
        files: What may hold one of the first rows.
        indexes: With the groups that have the first sort key.
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
    if not groups or sum(file.rows or 0 for file in files) < MIN_ROWS_TO_ASK:
        return None
    asked = [
        file
        for file in top.best_first(files, lambda file: (file.bounds_of, file.rows))
        if file.counts_are_exact
        and top.count + file.num_deleted <= MAX_ROWS_ASKED
        and column.field_id not in file.candidate.task.constants
    ][:MAX_FILES_ASKED]

    def ask(file: RankedFile, opened: FileIndexes) -> tuple[_Best | None, Metrics]:
        own = Metrics()
        return _best_of(top, file, opened, groups, own), own

    indexes = replace(indexes, groups=tuple(groups))
    answers = list(ask_files(context, indexes, asked, lambda file: file.candidate.task, ask))
    for _, own in answers:
        metrics.merge(own)
    return _reached(top, kind, [found for found, _ in answers if found is not None])


class _Best:
    """Of a data file: keys that its best rows reach, best first; and how many rows are NULL."""

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
    """Return what the first of a data file's indexes that can be used tells of its live rows."""
    field_id, kind = top.column.field_id, top.column.type
    assert isinstance(kind, Primitive)
    for group in groups:
        index = indexes.open(group, metrics)
        if index is None:
            continue
        built = index.type_of(field_id, metrics)
        if built is None or built.name not in _TYPES or not is_same_domain(built, kind):
            continue

        def ask(rows: SortedRowsReader, reader: BlobReader) -> tuple[Longs, int]:
            keys = rows.best(top.count + file.num_deleted, reader, last=top.descending)
            metrics.add("indexes.bytes_read", reader.cost.nbytes)
            return keys, rows.count

        found = index.of_kind(field_id, SortedRowsReader, ask, metrics)
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
