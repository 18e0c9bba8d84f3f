"""Which executor reads which data files: the same one in every query, so that its workers' caches are reused.

Takes the groups of a plan and Spark's executors; returns groups of the same tasks, and the executor that
should read each group. Uses rendezvous hashing (Thaler and Ravishankar, 1998), so that a file keeps its
executor while others come and go, with bounded loads (Mirrokni, Thorup and Zadimoghaddam, 2016): once an
executor has its share, further files go to others.

Benefit: with several hosts, workers find footers, indexes and deletes in their caches
(docs/object-stores.md).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import xxhash

if TYPE_CHECKING:
    from collections.abc import Sequence

    from twostage.task import ScanPlan, ScanTask

MAX_SHARE = 1.1
"""Bytes of one executor, relative to an even share. A higher limit moves fewer files, but leaves executors
idle."""


def place(plan: ScanPlan, executors: Sequence[str]) -> tuple[ScanPlan, tuple[str, ...]]:
    """Return the plan with its tasks grouped by executor, and the executor of each group.

    A plan is returned unchanged, without executors, if there are fewer than two of them, under a limit or
    top-n (whose first files decide what else is read), and for a metadata table.

    Args:
        plan: The scan's plan; each of its groups becomes one Spark task.
        executors: Their names, in the form that Spark's scheduler accepts as preferred locations.
    """
    groups, context = plan.groups, plan.context
    if len(executors) < 2 or not groups or context.limit is not None or context.top is not None:
        return plan, ()
    if any(group.rows is not None for group in groups):
        return plan, ()
    # With fewer groups than executors, always the same few executors read the table.
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
    """Return each executor's tasks, in order: a file goes to its most preferred executor that has room."""
    shares: dict[str, list[ScanTask]] = {executor: [] for executor in executors}
    loads = dict.fromkeys(executors, 0)
    room = MAX_SHARE * _weight(tasks) / len(executors)
    for task in tasks:
        ranked = _by_preference(task.path, executors)
        home = next((one for one in ranked if loads[one] + task.length <= room), None)
        if home is None:  # no executor has room for it
            home = min(ranked, key=loads.__getitem__)
        shares[home].append(task)
        loads[home] += task.length
    return list(shares.values())


def _by_preference(name: str, executors: Sequence[str]) -> list[str]:
    """Return the executors in the order in which `name` prefers them."""
    return sorted(executors, key=lambda executor: xxhash.xxh64_intdigest(f"{executor}\n{name}".encode()))


def _cut(tasks: list[ScanTask], parts: int) -> list[tuple[ScanTask, ...]]:
    """Split tasks into at most `parts` non-empty parts of about equal bytes; none if there are no tasks."""
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
