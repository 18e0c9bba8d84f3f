"""Which executor reads which data files: the same one in every query, so that what its workers keep of them serves again.

Takes the groups of a plan and Spark's executors; returns groups of the same tasks, and for each the executor that should read
it. By rendezvous hashing (Thaler and Ravishankar, 1998), so that a file keeps its executor while others come and go, with
bounded loads (Mirrokni, Thorup and Zadimoghaddam, 2016): where an executor has its share, its next files go to others.

Earns: the footers, indexes and deletes that an executor's workers hold, where several hosts read (docs/object-stores.md).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import xxhash

if TYPE_CHECKING:
    from collections.abc import Sequence

    from twostage.task import ScanPlan, ScanTask

MAX_SHARE = 1.1
"""Of an even share of the bytes that one executor gets. More keeps more files where they were, and lets executors wait."""


def place(plan: ScanPlan, executors: Sequence[str]) -> tuple[ScanPlan, tuple[str, ...]]:
    """Return the plan with its tasks grouped by executor, and the executor of each group.

    A plan that has nothing to place is returned as it is, without executors: for fewer than two of them, under a limit or
    top-n, whose first files decide what else is read, and for a metadata table.

    Args:
        plan: Of a scan; each of its groups becomes one task of Spark's.
        executors: Their names, as Spark's scheduler takes them for preferred locations.
    """
    groups, context = plan.groups, plan.context
    if len(executors) < 2 or not groups or context.limit is not None or context.top is not None:
        return plan, ()
    if any(group.rows is not None for group in groups):
        return plan, ()
    # Fewer groups than executors: always the same few of them read the table.
    chosen = _by_preference(context.table_uuid or context.table, executors)[: len(groups)]
    found: list[tuple[ScanTask, ...]] = []
    homes: list[str] = []
    shares = _shares([task for group in groups for task in group.tasks], chosen)
    whole = sum(map(_weight, shares))
    for executor, tasks in zip(chosen, shares, strict=True):
        for part in _cut(tasks, round(len(groups) * _weight(tasks) / max(1, whole))):
            found.append(part)
            homes.append(executor)
    placed = tuple(replace(groups[0], index=index, tasks=tasks) for index, tasks in enumerate(found))
    choice = f"Tasks placed on {len(set(homes))} executors by their data files."
    return replace(plan, groups=placed, choices=(*plan.choices, choice)), tuple(homes)


def _shares(tasks: Sequence[ScanTask], executors: Sequence[str]) -> list[list[ScanTask]]:
    """Return each executor's tasks, in order: of the executors with room, a file's first by preference."""
    shares: dict[str, list[ScanTask]] = {executor: [] for executor in executors}
    loads = dict.fromkeys(executors, 0)
    room = MAX_SHARE * _weight(tasks) / len(executors)
    for task in tasks:
        ranked = _by_preference(task.path, executors)
        home = next((one for one in ranked if loads[one] + task.length <= room), None)
        if home is None:  # larger than what is left anywhere
            home = min(ranked, key=loads.__getitem__)
        shares[home].append(task)
        loads[home] += task.length
    return list(shares.values())


def _by_preference(name: str, executors: Sequence[str]) -> list[str]:
    """Return the executors, those first that should have what is named so."""
    return sorted(executors, key=lambda executor: xxhash.xxh64_intdigest(f"{executor}\n{name}".encode()))


def _cut(tasks: list[ScanTask], parts: int) -> list[tuple[ScanTask, ...]]:
    """Return tasks in so many parts of about equal bytes, none of them empty; no task, no part."""
    parts = max(1, min(parts, len(tasks)))
    target = _weight(tasks) / parts
    found: list[list[ScanTask]] = []
    done, last = 0, -1
    for task in tasks:
        number = min(parts - 1, int((done + task.length / 2) // max(1, target)))
        if number > last:
            found.append([])
            last = number
        found[-1].append(task)
        done += task.length
    return [tuple(part) for part in found]


def _weight(tasks: Sequence[ScanTask]) -> int:
    return sum(task.length for task in tasks)
