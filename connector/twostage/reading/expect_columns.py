"""Columns of remote row groups that are requested before it is known which of their rows are wanted.

Takes a row group and what is known of its rows; requests the columns that will be read if rows remain,
together with data that must be waited for anyway: a request costs the store's latency, and a few more bytes
cost nothing. The rules: nothing requested here is waited for here; no rows change; and the task learns
whether the requests were useful, and stops if they are not. ``io.prefetch`` turns off requests along with
equality deletes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from twostage.storage.ranges import cost_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from twostage.data_files.row_group import RowGroup
    from twostage.metrics import Metrics
    from twostage.reading.aligned_columns import LiveColumns
    from twostage.reading.filter import RowFilter
    from twostage.reading.task_state import OpenFile
    from twostage.schema import Field
    from twostage.selection import Selection
    from twostage.task import DeleteFile

MAX_SMALL_BYTES = 64 * 2**10
"""Of a remote row group's select columns that are requested with the filter columns: they arrive within a
millisecond, and requesting them after the filter would cost the store's latency."""
MIN_SHARE_EXPECTED = 0.7
"""Of a row group's rows: if more remain before equality deletes, the select columns are requested with the
keys."""
MAX_ROW_GROUPS_EXPECTED = 8
"""Row groups of a task whose columns are in flight before it is known whether equality deletes leave any
rows: in a table with many upserts, most versions of a key are deleted."""


def expect_small_columns(file: OpenFile, row_group: RowGroup, row_filter: RowFilter) -> bool:
    """Request small select columns of a remote file with the filter columns; return whether it did.

    If a task has many files, others are read while one waits, and requests for rows that do not match delay
    them: a key in 96 files took 40 % longer (in 4 files, 20 to 25 % less). Small filter columns share the
    request.
    """
    data_file, learned, context = file.data_file, file.learned, file.data_file.context
    if not data_file.is_remote or not learned.has_few_files or learned.best is not None:
        return False
    if not learned.payoffs.small_columns.pays:
        return False
    read = {field_id for conjunct in row_filter.conjuncts for field_id in conjunct.field_ids}
    wanted = [field for field in context.projection if field.id not in read]
    cost = cost_of(context.settings.merge_gap, None, is_remote=True)
    most = min(cost.gap, MAX_SMALL_BYTES)
    if not read or not wanted or data_file.stored_bytes(row_group, {one.id for one in wanted}) > most:
        return False
    of_filter = [field for field in context.schema.fields if field.id in read]
    if data_file.stored_bytes(row_group, {field.id for field in (*wanted, *of_filter)}) <= most:
        wanted += of_filter
    data_file.expect(row_group, wanted)
    return True


def learn_small_columns(
    file: OpenFile, row_group: RowGroup, columns: LiveColumns, metrics: Metrics, *, was_expected: bool
) -> None:
    """Learn whether the columns that `expect_small_columns` requested are useful; discard them if not."""
    if not was_expected:
        return
    payoff = file.learned.payoffs.small_columns
    payoff.add(pruned=columns.live.count > 0)
    if columns.live.count == 0:
        file.data_file.expect(row_group, ())
        payoff.report(metrics)


class ExpectedColumns:
    """Requests a row group's columns along with delete files, or with their key columns.

    Args:
        file: The data file.
        row_group: Its row group.
        columns: The rows that the filter kept.
    """

    def __init__(self, file: OpenFile, row_group: RowGroup, columns: LiveColumns) -> None:
        self._file = file
        self._row_group = row_group
        self._columns = columns
        self._has_asked = self._has_asked_for_most = False

    def ask_for_most(self) -> None:
        """Request the whole select columns if most rows remain: few of them will be deleted."""
        learned = self._file.learned
        if not self._file.deletes.equality or learned.best is not None or learned.holds_enough:
            return
        if self._columns.live.count > self._row_group.num_rows * MIN_SHARE_EXPECTED:
            self._has_asked_for_most = True
            self._expect(self._others())

    def ask_before_deletes(self, deletes: Sequence[DeleteFile], unproven: Selection) -> None:
        """If delete files must be fetched, request the keys of rows that they may delete, and the select columns."""
        data_file = self._file.data_file
        if not self._may_ask() or not self._file.deletes.equality.must_fetch(deletes):
            return
        best, selected = self._file.learned.best, {one.id for one in data_file.context.projection}
        for field_id in self._unread(field_id for delete in deletes for field_id in delete.equality_ids):
            # As `probe_keys` reads them; keys that are select columns come with the others.
            if (best is not None or field_id not in selected) and field_id in data_file.context.schema:
                rows = self._columns.selection() if field_id in selected else unproven
                self._expect([data_file.leaf_target(field_id)[0]], rows)
        self._ask()

    def ask_before_keys(self, field_ids: Iterable[int]) -> None:
        """Request the select columns if key columns must be read."""
        if self._unread(field_ids) and self._may_ask():
            self._ask()

    def learn(self, metrics: Metrics) -> None:
        """Learn whether deletes left any rows; if not, discard the requested columns."""
        learned, is_left = self._file.learned, self._columns.live.count > 0
        if self._has_asked:
            learned.row_groups_expected -= 1
            payoff = learned.payoffs.before_deletes
            payoff.add(pruned=is_left)
            if not is_left:
                payoff.report(metrics)
        # Rows that wait for better ones may never be read.
        if (self._has_asked or self._has_asked_for_most) and (not is_left or learned.best is not None):
            self._file.data_file.expect(self._row_group, ())

    def _may_ask(self) -> bool:
        if self._has_asked or not self._file.data_file.is_remote:
            return False
        learned = self._file.learned
        payoff = learned.payoffs.before_deletes
        is_unknown = payoff.pruned == 0 and learned.row_groups_expected >= MAX_ROW_GROUPS_EXPECTED
        prefetch = self._file.data_file.context.settings.prefetch and not learned.holds_enough
        return prefetch and payoff.pays and not is_unknown

    def _ask(self) -> None:
        """Request the select columns that have not been read, including keys."""
        learned = self._file.learned
        self._has_asked = True
        learned.row_groups_expected += 1
        if learned.best is None:
            self._expect(self._others(), self._columns.selection())

    def _expect(self, targets: Sequence[Field], rows: Selection | None = None) -> None:
        if targets:
            self._file.data_file.expect(self._row_group, targets, rows)

    def _others(self) -> list[Field]:
        known = self._columns.read_columns()
        return [one for one in self._file.data_file.context.projection if one.id not in known]

    def _unread(self, field_ids: Iterable[int]) -> list[int]:
        known = {*self._columns.read_columns(), *self._file.data_file.task.constants}
        return [field_id for field_id in dict.fromkeys(field_ids) if field_id not in known]
