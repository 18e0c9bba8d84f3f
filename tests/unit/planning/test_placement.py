"""Placement: every task once, on executors that change as little as can be, none of them with much more than its share."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace

import pytest

from twostage.options import ReadSettings
from twostage.planning.placement import MAX_SHARE, place
from twostage.predicates.top import TopRows
from twostage.schema import Field, Primitive, Schema
from twostage.task import ScanContext, ScanPlan, ScanTask, TaskGroup

EXECUTORS = [f"executor_host{number}_{number}" for number in range(4)]


def plan_of(tasks: list[ScanTask], groups: int, **changed) -> ScanPlan:
    schema = Schema(schema_id=0, fields=(Field(id=1, name="id", type=Primitive(name="long"), required=True),))
    context = ScanContext(
        scan_id="1", table="t", snapshot_id=1, schema=schema, projection=(), table_uuid="u",
        settings=ReadSettings(), **changed,
    )  # fmt: skip
    size = -(-len(tasks) // groups)
    cut = [tuple(tasks[start : start + size]) for start in range(0, len(tasks), size)]
    found = tuple(TaskGroup(index=index, context=context, tasks=part) for index, part in enumerate(cut))
    return ScanPlan(context=context, groups=found, estimated_rows=1, estimated_bytes=1)


def files(count: int, rng: random.Random | None = None) -> list[ScanTask]:
    return [
        ScanTask(
            path=f"s3://b/t/{number}.parquet", written_path=f"s3://b/t/{number}.parquet", format="parquet",
            file_size=2**24, record_count=100, start=0, length=2**24 if rng is None else rng.randint(0, 2**26),
            sequence_number=1, spec_id=0,
        )
        for number in range(count)
    ]  # fmt: skip


def homes(plan: ScanPlan, executors: list[str]) -> dict[str, str]:
    placed, chosen = place(plan, executors)
    assert len(placed.groups) == len(chosen)
    assert [group.index for group in placed.groups] == list(range(len(chosen)))
    return {
        task.path: executor
        for group, executor in zip(placed.groups, chosen, strict=True)
        for task in group.tasks
    }


@pytest.mark.parametrize("seed", range(20))
def test_every_task_once_in_about_as_many_groups(seed):
    rng = random.Random(seed)
    tasks = files(rng.randint(1, 300), rng)
    plan = plan_of(tasks, rng.randint(1, len(tasks)))
    executors = EXECUTORS[: rng.randint(2, 4)]
    placed, chosen = place(plan, executors)
    assert Counter(task.path for group in placed.groups for task in group.tasks) == Counter(
        task.path for task in tasks
    )
    assert all(group.tasks for group in placed.groups)
    assert abs(len(chosen) - len(plan.groups)) <= len(executors)
    assert len(set(chosen)) <= len(plan.groups)
    loads = Counter()
    for group, executor in zip(placed.groups, chosen, strict=True):
        loads[executor] += sum(task.length for task in group.tasks)
    whole, used = sum(loads.values()), min(len(executors), len(plan.groups))
    assert max(loads.values()) <= MAX_SHARE * whole / used + max(task.length for task in tasks)


def test_the_same_files_go_to_the_same_executors_whatever_else_is_read():
    tasks = files(400)
    every = homes(plan_of(tasks, 16), EXECUTORS)
    assert homes(plan_of(tasks, 8), EXECUTORS) == every
    assert len(set(every.values())) == 4
    some = homes(plan_of(tasks[100:300], 8), EXECUTORS)
    # Only where an executor had its share do files go elsewhere.
    assert sum(every[path] == executor for path, executor in some.items()) > 180


def test_an_executor_that_goes_takes_its_files_only():
    tasks = files(400)
    before = homes(plan_of(tasks, 16), EXECUTORS)
    after = homes(plan_of(tasks, 16), EXECUTORS[:3])
    kept = [path for path, executor in before.items() if executor != EXECUTORS[3]]
    assert sum(before[path] == after[path] for path in kept) > 0.9 * len(kept)


def test_few_groups_go_to_the_same_few_executors():
    tasks = files(40)
    chosen = {tuple(place(plan_of(tasks, 2), order)[1]) for order in (EXECUTORS, EXECUTORS[::-1])}
    assert len(chosen) == 1
    assert len(set(chosen.pop())) == 2


def test_what_is_not_placed():
    tasks, top = files(8), TopRows.__new__(TopRows)
    plan = plan_of(tasks, 4)
    for executors in ([], EXECUTORS[:1]):
        assert place(plan, executors) == (plan, ())
    for changed in ({"limit": 3}, {"top": top}):
        cut = plan_of(tasks, 4, **changed)
        assert place(cut, EXECUTORS)[0] is cut
    nothing = replace(plan, groups=())
    assert place(nothing, EXECUTORS) == (nothing, ())
    rows = replace(plan, groups=(replace(plan.groups[0], rows=b""),))
    assert place(rows, EXECUTORS)[0] is rows
