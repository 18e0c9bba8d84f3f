"""What a Spark task learns from row group to row group, and when it stops reading in two stages."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from scan_values import context_of
from twostage.metrics import Metrics
from twostage.predicates.predicate import TRUE, And, Column, Compare
from twostage.predicates.prune import Match
from twostage.predicates.top import Threshold, TopRows
from twostage.reading.filter import RowFilter
from twostage.reading.task_state import MAX_KEPT_SHARE, MIN_ROW_GROUPS_FILTERED, Learned
from twostage.schema import Primitive

A, B = (Column(i, (name,), Primitive("int")) for i, name in enumerate("ab"))
PREDICATE = And((Compare("=", A, 1), Compare("<", B, 5)))
TOP = TopRows(column=B, count=3, descending=True, nulls_first=False, threshold=Threshold(7))


def learned(*, top: TopRows | None = None, **settings: bool) -> Learned:
    return Learned.of(context_of(Path("/lake"), settings=settings, predicate=PREDICATE, top=top), Metrics())


def test_before_the_first_row_group() -> None:
    state = learned()
    assert state.predicate.exact == PREDICATE
    assert [one.predicate for one in state.row_filter.conjuncts] == list(PREDICATE.children)
    assert (state.best, state.wanted, state.keeps_nearly_all) == (None, TRUE, False)


@pytest.mark.parametrize("is_on", [True, False])
def test_the_filter_follows_the_options(is_on: bool) -> None:
    row_filter = learned(reorder_filters=is_on, kernels=is_on).row_filter
    assert (row_filter.reorder, row_filter.kernels) == (is_on, is_on)


def test_bounds_that_prove_all_rows_spare_the_filter() -> None:
    state = learned()
    for matching in Match:
        assert bool(state.filter_for(matching).conjuncts) == (matching is not Match.ALL)
    assert state.filter_for(Match.SOME) is state.row_filter  # one, so that its costs are learned


def test_the_best_rows_so_far_are_one_more_conjunct() -> None:
    state = learned(top=TOP)
    assert state.wanted == Compare(">=", B, 7)
    parts = [one.predicate for one in state.filter_for(Match.SOME).conjuncts]
    assert parts == [Compare(">=", B, 7), *PREDICATE.children]
    assert [one.predicate for one in state.filter_for(Match.ALL).conjuncts] == [Compare(">=", B, 7)]
    nothing_reached = learned(top=replace(TOP, threshold=None))
    assert nothing_reached.wanted == TRUE
    assert nothing_reached.filter_for(Match.SOME) is nothing_reached.row_filter


@pytest.mark.parametrize(
    ("kept", "expected"),
    [
        ([900, 900], False),  # exactly the share: not more
        ([900, 901], True),
        ([1000, 1000], True),
        ([1000, 700], False),
        ([1000], False),  # of a single row group
        ([], False),
        ([0, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000], True),  # 11 of 12
    ],
)
def test_a_filter_that_keeps_nearly_all_rows(kept: list[int], expected: bool) -> None:
    assert (MAX_KEPT_SHARE, MIN_ROW_GROUPS_FILTERED) == (0.9, 2)
    state = learned()
    for count in kept:
        state.add_filtered(1000)
        state.add_kept(count, state.filter_for(Match.SOME))
    assert state.keeps_nearly_all is expected


def test_rows_that_another_filter_kept_do_not_count() -> None:
    """Those of row groups that bounds prove: the scan's filter had no part in it."""
    state = learned()
    for _ in range(3):
        state.add_filtered(1000)
        state.add_kept(1000, state.filter_for(Match.ALL))
        state.add_kept(1000, RowFilter(state.row_filter.conjuncts))
    assert (state.rows_filtered, state.rows_kept, state.keeps_nearly_all) == (3000, 0, False)


def test_the_best_rows_are_always_read_in_two_stages() -> None:
    """The more rows are seen, the fewer are among the best."""
    state = learned(top=replace(TOP, threshold=None))
    for _ in range(3):
        state.add_filtered(1000)
        state.add_kept(1000, state.row_filter)
    assert state.rows_kept == 3000
    assert not state.keeps_nearly_all
