"""How full hash tables of keys may be, and how they grow: never past their budget, never past `MAX_LOAD`."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from twostage.deletes.keys import hash_table
from twostage.deletes.keys.budget import Budget
from twostage.deletes.keys.hash_table import (
    GROWTH,
    MAX_LOAD,
    MIN_SLOTS,
    RECORD_LOAD,
    WORD_LOAD,
    frozen,
    plan_capacity,
    run,
    scratch,
)
from twostage.errors import ResourceLimitError
from twostage_native import probe

AMPLE = Budget(2**60, lambda: 0)


@settings(deadline=None)
@given(
    count=st.integers(0, 10**6),
    capacity=st.integers(0, 10**6),
    slot_bytes=st.sampled_from([8, 10, 12]),
    extra=st.integers(0, 10**6),
    limit=st.integers(0, 3 * 10**7),
    in_use=st.integers(0, 10**6),
    load=st.sampled_from([WORD_LOAD, RECORD_LOAD]),
)
def test_a_plan_holds_the_keys_and_keeps_the_budget(
    count: int, capacity: int, slot_bytes: int, extra: int, limit: int, in_use: int, load: float
) -> None:
    budget = Budget(limit, lambda: in_use)
    needed = max(MIN_SLOTS, int(count / load) + 1)
    try:
        planned = plan_capacity(count, capacity, slot_bytes, extra, budget, load)
    except ResourceLimitError as error:
        assert error.code == "DELETE_KEYS_TOO_LARGE"
        assert in_use + needed * slot_bytes + extra > limit  # not even what is needed fits
        assert count >= capacity * MAX_LOAD
        return
    if planned == capacity:
        assert count <= capacity * MAX_LOAD
        assert count <= capacity * load or in_use + needed * slot_bytes + extra > limit
    else:
        assert planned > capacity * load
        assert count <= planned * load
        assert in_use + planned * slot_bytes + extra <= limit  # beside the old slots, which are in use
        assert planned in (needed, max(needed, int(capacity * GROWTH)))


def test_a_table_that_is_filled_key_by_key_is_seldom_moved() -> None:
    """Each move copies all keys: their number grows with the logarithm of the count."""
    capacity = moves = 0
    for count in range(1, 100_000):
        planned = plan_capacity(count, capacity, 10, 0, AMPLE)
        moves += planned != capacity
        capacity = planned
    assert moves < 15
    assert capacity < 100_000 / WORD_LOAD * GROWTH + 2


def test_near_the_budget_a_table_grows_to_what_is_needed_then_fills_up() -> None:
    needed = int(1000 / WORD_LOAD) + 1
    assert plan_capacity(1000, 1600, 10, 0, AMPLE) == 2400
    assert plan_capacity(1000, 1600, 10, 0, Budget(23_990, lambda: 0)) == needed
    full = Budget(10 * needed - 1, lambda: 0)
    assert plan_capacity(1000, 1600, 10, 0, full) == 1600
    assert plan_capacity(1439, 1600, 10, 0, full) == 1600
    with pytest.raises(ResourceLimitError, match="task-memory"):
        plan_capacity(1440, 1600, 10, 0, full)


class Recorded:
    """A kernel that notes how it was run."""

    def __init__(self) -> None:
        self.ways: list[str] = []

    def __call__(self, *_: int) -> str:
        return "kernel"

    def twin(self, *_: int) -> str:
        return "twin"

    def compiled(self, *_: int) -> None:
        self.ways.append("compiled")


@pytest.mark.parametrize(
    ("kernels", "keys", "expected", "is_compiled"),
    [(False, 2**30, "twin", False), (True, 9, "kernel", False), (True, 10, "kernel", True)],
)
def test_kernels_are_compiled_at_once_for_many_keys_only(
    monkeypatch: pytest.MonkeyPatch, kernels: bool, keys: int, expected: str, is_compiled: bool
) -> None:
    monkeypatch.setattr(hash_table, "MIN_KEYS_TO_COMPILE", 10)
    kernel = Recorded()
    assert run(kernel, kernels, 1, 2, keys=keys) == expected  # type: ignore[arg-type]
    assert bool(kernel.ways) is is_compiled


def test_a_frozen_view_shares_the_memory_and_leaves_the_array_writable() -> None:
    array = np.arange(3)
    view = frozen(array)
    array[0] = 7
    assert view.tolist() == [7, 1, 2]
    with pytest.raises(ValueError, match="read-only"):
        view[0] = 1


def test_scratch_has_room_for_a_block_of_each_part() -> None:
    assert (scratch().shape, scratch().dtype) == ((3, probe.BLOCK_ROWS), np.uint64)
