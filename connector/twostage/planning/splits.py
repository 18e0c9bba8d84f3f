"""Split data files into byte ranges and pack them into task groups, one per Spark task.

Takes one `Candidate` per file; returns groups of scan tasks of about equal cost. The ranges of a file are disjoint and
cover all of it, and a row group belongs to the range that contains its first byte, so each is read exactly once. The
same input gives the same groups.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from twostage.task import ScanTask

GROUPS_PER_CORE = 2
"""More groups would balance uneven ones better, but a Python task takes 30-65 ms to start."""
MIN_GROUP_BYTES = 16 * 2**20
"""Bytes that take about as long to decode as a Python task takes to start. In the point-lookup benchmark,
31 MiB in two tasks took 0.46 s of CPU, in four tasks (with a minimum of 8 MiB) 0.63 s."""
MAX_ROWS_PER_TASK = 500_000
"""While cores are idle: the joins and aggregates above a scan run in its tasks. In TPC-DS query 80 at scale
1, 2.6 M rows (11 MiB to read) made one task, so the whole stage ran on one core."""
MIN_ROWS_PER_TASK = 250_000
"""The same if most rows may be kept, up to `GROUPS_PER_CORE` groups per core: in TPC-DS query 67,
867,846 rows (4 MiB) of three files made one task of 3.0 s, most of it the rollup above; two tasks took 2.9
and 0.6 s, three 1.7, 1.5 and 0.5."""
MIN_RANGE_BYTES = 16 * 2**20
"""Bytes per range of a file without split offsets: if it has several row groups, they are rarely smaller."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A whole data file to read.

    Attributes:
        task: Its task, over all bytes of the file.
        cost: Bytes that reading it is expected to take.
        split_offsets: Byte offsets of its row groups, if the manifest has them.
    """

    task: ScanTask
    cost: int
    split_offsets: tuple[int, ...] = ()


def pack(
    candidates: Sequence[Candidate],
    *,
    parallelism: int,
    split_size: int | None = None,
    may_keep_most_rows: bool = False,
) -> list[tuple[ScanTask, ...]]:
    """Return the tasks of each group, in the order of the files.

    Args:
        candidates: The files, in order.
        parallelism: How many tasks can run at once.
        split_size: The cost of one group in bytes; None: about `GROUPS_PER_CORE` groups per core, and at
            least one per core if there are many rows.
        may_keep_most_rows: Whether the scan may return most of its rows.
    """
    total = sum(candidate.cost for candidate in candidates)
    if split_size is not None:
        target = split_size
    else:
        target = max(MIN_GROUP_BYTES, -(-total // (GROUPS_PER_CORE * max(1, parallelism))))
    # Groups of equal cost, because the longest one decides when the stage ends.
    num_groups = max(1, -(-total // target))
    if split_size is None and num_groups > parallelism > 0:
        # Whole rounds: three groups on two cores leave one core idle in the second round.
        rounds = -(-num_groups // parallelism)
        num_groups = parallelism * (rounds if total >= rounds * parallelism * MIN_GROUP_BYTES else rounds - 1)
    if split_size is None:
        rows = sum(candidate.task.record_count for candidate in candidates)
        num_groups = max(num_groups, min(parallelism, rows // MAX_ROWS_PER_TASK))
        if may_keep_most_rows:
            num_groups = max(num_groups, min(GROUPS_PER_CORE * parallelism, rows // MIN_ROWS_PER_TASK))
    target = max(1, -(-total // num_groups))
    groups: list[list[ScanTask]] = []
    done, last = 0, -1
    for candidate in candidates:
        for task, cost in _cut(candidate, target):
            # A range goes to the group in whose share of the total cost its midpoint is.
            place = min(num_groups - 1, (done + cost // 2) // target)
            if place > last:  # skip empty groups: a small split size makes billions of them
                groups.append([])
                last = place
            _append(groups[-1], task)
            done += cost
    return [tuple(group) for group in groups]


def _append(group: list[ScanTask], task: ScanTask) -> None:
    """Add a task to a group, merging it with the last one if their ranges are adjacent."""
    last = group[-1] if group else None
    if last is not None and last.written_path == task.written_path and last.start + last.length == task.start:
        group[-1] = replace(last, length=last.length + task.length)
    else:
        group.append(task)


def _cut(candidate: Candidate, target: int) -> Iterable[tuple[ScanTask, int]]:
    """Yield the ranges of a file with their costs, each at most about `target` if the row groups permit."""
    task, size = candidate.task, candidate.task.file_size
    pieces = -(-candidate.cost // target)
    starts = _range_starts(candidate, pieces) if pieces > 1 else [0]
    for start, end in zip(starts, [*starts[1:], size], strict=True):
        cost = candidate.cost * (end - start) // max(1, size)
        yield replace(task, start=start, length=end - start), cost


def _range_starts(candidate: Candidate, pieces: int) -> list[int]:
    size, offsets = candidate.task.file_size, candidate.split_offsets
    if _are_valid(offsets, size):
        # The first range starts at 0, so that every byte is covered and every range has a row group.
        return [0, *offsets[1:]]
    pieces = min(pieces, size // MIN_RANGE_BYTES)
    return [size * piece // pieces for piece in range(pieces)] if pieces > 1 else [0]


def _are_valid(offsets: Sequence[int], size: int) -> bool:
    """Return whether split offsets are usable: ascending and inside the file (spec, manifest field 132)."""
    return (
        bool(offsets)
        and offsets[0] >= 0
        and offsets[-1] < size
        and all(one < other for one, other in pairwise(offsets))
    )
