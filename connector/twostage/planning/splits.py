"""Cuts data files into byte ranges and packs them into task groups.

Takes planned tasks, one a file, with what reading each is expected to cost; gives groups of tasks. The
rule: the ranges of a file are disjoint and cover it whole, so that each row group, which belongs to the
range its first byte lies in, is read exactly once. The same input gives the same groups.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from twostage.task import ScanTask

GROUPS_PER_CORE = 2
"""Enough to even out groups that turn out slower, few enough for a start-up of 30-65 ms each."""
LEAST_GROUP_BYTES = 16 * 2**20
"""What a worker decodes in about the time that a Python task takes besides. Needles of 31 MiB in two tasks took 0.46 s
of CPU where four, of at least 8 MiB each, took 0.63 s."""
LEAST_RANGE_BYTES = 16 * 2**20
"""Of a file that does not say where its row groups are; they are seldom smaller when there are several."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A whole file to read: its task, the expected bytes, and where its row groups begin if known."""

    task: ScanTask
    cost: int
    split_offsets: tuple[int, ...] = ()


def pack(
    candidates: Sequence[Candidate], *, parallelism: int, split_size: int | None = None
) -> list[tuple[ScanTask, ...]]:
    """Return the tasks of each group, in the order of the files.

    Args:
        candidates: Files, in order.
        parallelism: How many tasks run at once.
        split_size: Expected bytes of one group; None: about GROUPS_PER_CORE groups for each core.
    """
    total = sum(candidate.cost for candidate in candidates)
    if split_size is not None:
        target = split_size
    else:
        target = max(LEAST_GROUP_BYTES, -(-total // (GROUPS_PER_CORE * max(1, parallelism))))
    # As many groups as the target asks for, but all alike: the longest one decides when a stage ends.
    num_groups = max(1, -(-total // target))
    if split_size is None and num_groups > parallelism > 0:
        # Three groups on two cores leave one core idle half of the time.
        rounds = -(-num_groups // parallelism)
        num_groups = parallelism * (
            rounds if total >= rounds * parallelism * LEAST_GROUP_BYTES else rounds - 1
        )
    target = max(1, -(-total // num_groups))
    groups: list[list[ScanTask]] = []
    done, last = 0, -1
    for candidate in candidates:
        for task, cost in _cut(candidate, target):
            # A piece goes where its middle falls on the line of all costs.
            place = min(num_groups - 1, (done + cost // 2) // target)
            if place > last:  # places that no piece falls on are no groups: a small split size makes billions
                groups.append([])
                last = place
            _append(groups[-1], task)
            done += cost
    return [tuple(group) for group in groups]


def _append(group: list[ScanTask], task: ScanTask) -> None:
    """Add a task to a group; a range that continues the last one becomes part of it."""
    last = group[-1] if group else None
    if last is not None and last.written_path == task.written_path and last.start + last.length == task.start:
        group[-1] = replace(last, length=last.length + task.length)
    else:
        group.append(task)


def _cut(candidate: Candidate, target: int) -> Iterable[tuple[ScanTask, int]]:
    """Yield the ranges of a file and their costs, each near `target` at most if the row groups allow it."""
    task, size = candidate.task, candidate.task.file_size
    pieces = -(-candidate.cost // target)
    starts = _range_starts(candidate, pieces) if pieces > 1 else [0]
    for start, end in zip(starts, [*starts[1:], size], strict=True):
        cost = candidate.cost * (end - start) // max(1, size)
        yield replace(task, start=start, length=end - start), cost


def _range_starts(candidate: Candidate, pieces: int) -> list[int]:
    size, offsets = candidate.task.file_size, candidate.split_offsets
    if _are_valid(offsets, size):
        # The first range also holds what lies before the first row group; no range is without one.
        return [0, *offsets[1:]]
    pieces = min(pieces, size // LEAST_RANGE_BYTES)
    return [size * piece // pieces for piece in range(pieces)] if pieces > 1 else [0]


def _are_valid(offsets: Sequence[int], size: int) -> bool:
    """Whether the offsets can be where row groups begin: ascending and inside the file (spec, field 132)."""
    return (
        bool(offsets)
        and offsets[0] >= 0
        and offsets[-1] < size
        and all(one < other for one, other in pairwise(offsets))
    )
