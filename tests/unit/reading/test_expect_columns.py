"""Which columns of a row group are asked for beside equality deletes, and when that ends."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from twostage.metrics import Metrics
from twostage.reading.aligned_columns import LiveColumns
from twostage.reading.expect_columns import MAX_ROW_GROUPS_EXPECTED, ExpectedColumns
from twostage.reading.payoff import Payoffs
from twostage.schema import Field, Primitive, Schema
from twostage.selection import Selection

KEY, KEY_TOO, NAME, PLACE = (
    Field(id=number, name=name, type=Primitive("long"), required=False)
    for number, name in enumerate(("key", "key_too", "name", "place"), start=1)
)
ROWS = 100
GROUP = SimpleNamespace(num_rows=ROWS)
DELETES = (SimpleNamespace(equality_ids=(1,)), SimpleNamespace(equality_ids=(2, 4)))
UNPROVEN = Selection.of(np.arange(ROWS) < 10)
LIVE = Selection.of(np.arange(ROWS) < 20)


class File:
    """A data file that notes what it is asked for; `place` is a constant of it."""

    def __init__(self, *, is_remote=True, must_fetch=True, prefetch=True):
        schema = Schema(schema_id=0, fields=(KEY, KEY_TOO, NAME, PLACE))
        context = SimpleNamespace(
            schema=schema, projection=(KEY, NAME), settings=SimpleNamespace(prefetch=prefetch)
        )
        self.asked = []
        self.data_file = self
        self.context = context
        self.is_remote = is_remote
        self.task = SimpleNamespace(constants={PLACE.id: 3})
        self.deletes = SimpleNamespace(equality=SimpleNamespace(must_fetch=lambda _: must_fetch))
        self.learned = SimpleNamespace(
            payoffs=Payoffs(), row_groups_expected=0, best=None, holds_enough=False
        )

    def leaf_target(self, field_id):
        return self.context.schema.field(field_id), 0

    def expect(self, _, targets, rows=None):
        self.asked.append(([one.name for one in targets], None if rows is None else rows.count))

    def expected(self, live=LIVE):
        return ExpectedColumns(self, GROUP, LiveColumns(live, lambda *_: None))


def before_deletes(file, *, left):
    """Ask for columns of a row group as long as delete files are fetched; then so many rows are left."""
    expected = file.expected()
    expected.ask_before_deletes(DELETES, UNPROVEN)
    expected._columns.live = LIVE.first(left)
    return expected


def test_keys_of_rows_that_may_be_deleted_and_columns_of_all_that_are_left():
    """A key that is selected is read for all rows; of constants there is nothing to read."""
    file = File()
    before_deletes(file, left=19).learn(Metrics())
    assert file.asked == [(["key_too"], 10), (["key", "name"], 20)]
    assert file.learned.row_groups_expected == 0


def test_what_comes_in_vain_is_let_go_of():
    file, metrics = File(), Metrics()
    before_deletes(file, left=0).learn(metrics)
    assert file.asked[-1] == ([], None)
    assert file.learned.row_groups_expected == 0


@pytest.mark.parametrize("given", [{"is_remote": False}, {"must_fetch": False}, {"prefetch": False}])
def test_nothing_is_asked_for_that_does_not_save_a_trip(given):
    file = File(**given)
    before_deletes(file, left=19).learn(Metrics())
    assert file.asked == []


def test_columns_come_with_keys_once_the_deletes_are_known():
    file = File(must_fetch=False)
    expected = file.expected()
    expected.ask_before_keys([2])
    assert file.asked == [(["key", "name"], 20)]
    expected.ask_before_keys([2])
    assert len(file.asked) == 1
    other = File(must_fetch=False)
    other.expected().ask_before_keys(
        [PLACE.id]
    )  # no key is read: the select columns are asked for at once in any case
    assert other.asked == []


def test_under_top_n_only_keys_are_asked_for():
    """Rows that are beaten are not fetched."""
    file = File()
    file.learned.best = object()
    before_deletes(file, left=19).learn(Metrics())
    assert file.asked == [(["key"], 20), (["key_too"], 10), ([], None)]


def test_few_row_groups_until_something_is_known():
    file = File()
    running = [before_deletes(file, left=1) for _ in range(3 * MAX_ROW_GROUPS_EXPECTED)]
    assert file.learned.row_groups_expected == MAX_ROW_GROUPS_EXPECTED
    running[0].learn(Metrics())  # it had a row left
    many = [before_deletes(file, left=1) for _ in range(3 * MAX_ROW_GROUPS_EXPECTED)]
    assert file.learned.row_groups_expected == 4 * MAX_ROW_GROUPS_EXPECTED - 1
    assert all(one._has_asked for one in many)


def test_it_ends_where_no_row_is_left():
    file, metrics = File(), Metrics()
    for _ in range(10):
        before_deletes(file, left=0).learn(metrics)
    assert len([asked for asked, _ in file.asked if asked == ["key", "name"]]) == 3
    assert any("equality deletes" in choice for choice in metrics.choices)


@pytest.mark.parametrize(("live", "asked"), [(71, [(["key", "name"], None)]), (70, [])])
def test_most_rows_of_a_row_group_are_asked_for_whole(live, asked):
    file = File()
    file.expected(Selection.of(np.arange(ROWS) < live)).ask_for_most()
    assert file.asked == asked


def test_whole_columns_are_let_go_of_where_no_row_is_left():
    file, metrics = File(), Metrics()
    expected = file.expected(Selection.all(ROWS))
    expected.ask_for_most()
    expected._columns.live = LIVE.first(0)
    expected.learn(metrics)
    assert file.asked == [(["key", "name"], None), ([], None)]
    assert not metrics.choices


def test_whole_columns_are_not_asked_for_under_top_n():
    file = File()
    file.learned.best = object()
    expected = file.expected(Selection.all(ROWS))
    expected.ask_for_most()
    assert file.asked == []


def test_nothing_is_asked_for_while_waiting_rows_hold_enough():
    file = File()
    file.learned.holds_enough = True
    before_deletes(file, left=19).learn(Metrics())
    file.expected(Selection.all(ROWS)).ask_for_most()
    assert file.asked == []
    file.learned.holds_enough = False
    file.expected(Selection.all(ROWS)).ask_for_most()
    assert file.asked == [(["key", "name"], None)]
