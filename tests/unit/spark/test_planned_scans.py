"""What a plan of a scan may weigh: its Bloom filters go to each task."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from scan_values import context_of
from twostage.predicates.key_set import key_set
from twostage.predicates.predicate import (
    And,
    Column,
    Compare,
    InBloom,
    InKeys,
    InTuples,
    JoinKeySet,
    KeyBloom,
)
from twostage.schema import Primitive
from twostage.spark import planned_scans
from twostage.task import ScanPlan, TaskGroup

COLUMN = Column(1, ("n",), Primitive("int"))


@pytest.mark.parametrize(
    "bloom",
    [InBloom(COLUMN, KeyBloom(b"x" * 1000, 7)), InTuples((COLUMN, COLUMN), JoinKeySet(b"x" * 1000, 7))],
    ids=["bloom", "tuples"],
)
@pytest.mark.parametrize(("most", "kept"), [(8000, True), (7999, False)])
def test_filters_that_weigh_too_much_are_left_out(monkeypatch, most, kept, bloom):
    monkeypatch.setattr(planned_scans, "MAX_KEY_BYTES", most)
    low = Compare(">=", COLUMN, 3)
    context = context_of(Path("/lake"), predicate=And((low, bloom)), keys=(low, bloom))
    groups = tuple(TaskGroup(index=index, context=context, tasks=()) for index in range(8))
    plan = ScanPlan(context=context, groups=groups, estimated_rows=1, estimated_bytes=1)
    found = planned_scans._with_small_filters(plan)
    if kept:
        assert found is plan
    else:
        assert found.context.predicate == low
        assert all(group.context is found.context for group in found.groups)
        assert "too much memory" in found.choices[-1]


def test_tuples_are_left_out_before_the_keys_of_each_column(monkeypatch):
    monkeypatch.setattr(planned_scans, "MAX_KEY_BYTES", 1500)
    bloom, tuples = (
        InBloom(COLUMN, KeyBloom(b"x" * 1000, 7)),
        InTuples((COLUMN, COLUMN), JoinKeySet(b"x" * 1000, 7)),
    )
    context = context_of(Path("/lake"), predicate=And((bloom, tuples)), keys=(bloom, tuples))
    groups = (TaskGroup(index=0, context=context, tasks=()),)
    plan = ScanPlan(context=context, groups=groups, estimated_rows=1, estimated_bytes=1)
    found = planned_scans._with_small_filters(plan)
    assert found.groups[0].context.predicate == bloom
    assert found.context.keys == (bloom,)
    assert found.choices[-1] == "Tuples of join keys left out: too much memory in 1 tasks."


def test_of_a_set_that_weighs_too_much_the_range_stays(monkeypatch):
    monkeypatch.setattr(planned_scans, "MAX_KEY_BYTES", 1)
    own, keys = Compare(">", COLUMN, 3), InKeys(COLUMN, key_set(np.array([-7, 5, 1000])))
    context = context_of(Path("/lake"), predicate=And((own, keys)), keys=(keys,))
    groups = (TaskGroup(index=0, context=context, tasks=()),)
    plan = ScanPlan(context=context, groups=groups, estimated_rows=1, estimated_bytes=1)
    found = planned_scans._with_small_filters(plan).groups[0].context
    low, high = Compare(">=", COLUMN, -7), Compare("<=", COLUMN, 1000)
    assert found.predicate == And((own, low, high))
    assert found.keys == (low, high)
