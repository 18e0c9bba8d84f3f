"""The best rows so far of a scan with ``ORDER BY … LIMIT``, by the first sort key.

Takes the live, matching rows of one row group after another; keeps those that may still be among the best.
What later rows must meet is a predicate, `BestRows.wanted`: it prunes row groups and pages, and is one more
conjunct of the filter. The rule: of the rows seen by a task, `count` of the best are kept and, if there are
further sort keys, also all rows that tie with the last of them in the first key.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from twostage.predicates.evaluate import evaluate
from twostage.predicates.predicate import TRUE
from twostage.predicates.row_columns import RowColumns
from twostage.predicates.top import Threshold
from twostage.reading.aligned_columns import plain
from twostage.reading.prune_row_groups import row_group_bounds
from twostage.reading.scan_predicate import Conjunct
from twostage.schema import Primitive

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from twostage.data_files.data_file import DataFile
    from twostage.data_files.row_group import RowGroup
    from twostage.metrics import Metrics
    from twostage.predicates.predicate import Predicate
    from twostage.predicates.top import TopRows
    from twostage.reading.aligned_columns import LiveColumns
    from twostage.reading.filter import RowFilter

COUNTER = "rows.top-n"
ROW_GROUPS_COUNTER = "row_groups.pruned.top-n"
_SORTED_BY_ARROW = ("string", "decimal")
_NUMPY = {"int": pa.int32(), "date": pa.int32(), "float": pa.float32(), "double": pa.float64()}
"""The Arrow type by which NumPy sees a column's values; int64 if none is given."""


class SeenKeys:
    """The best values of the first sort key seen so far, at most `count`, and the number of NULLs.

    >>> from twostage.predicates.predicate import Column
    >>> from twostage.predicates.top import TopRows
    >>> key = Column(1, ("a",), Primitive("long"))
    >>> seen = SeenKeys(TopRows(column=key, count=2, descending=True, nulls_first=False))
    >>> seen.add(pa.array([5, None, 9, 7]))
    >>> seen.reached()
    Threshold(value=7)
    """

    def __init__(self, top: TopRows) -> None:
        self._top = top
        kind = top.column.type
        assert isinstance(kind, Primitive)
        self._kind = kind.name
        self._nulls = 0
        self._texts: pa.Array | None = None
        """Strings and decimals, best first."""
        self._numbers: NDArray[Any] | None = None
        """All others, in any order."""

    def add(self, values: pa.Array) -> None:
        """Add the keys of some rows."""
        count, descending = self._top.count, self._top.descending
        self._nulls = min(count, self._nulls + values.null_count)
        values = values.drop_null()
        if self._kind in _SORTED_BY_ARROW:
            if self._kind == "string":
                values = values.cast(pa.large_string())
            if self._texts is not None:
                values = pa.concat_arrays([self._texts, values])
            order = "descending" if descending else "ascending"
            best = pc.select_k_unstable(values, min(count, len(values)), [("", order)])
            self._texts = values.take(best)
            return
        numbers = values.view(_NUMPY.get(self._kind, pa.int64())).to_numpy(zero_copy_only=False)
        if self._numbers is not None:
            numbers = np.concatenate([self._numbers, numbers])
        if len(numbers) > count:  # NaN is the greatest here too
            place = len(numbers) - count if descending else count - 1
            parted = np.partition(numbers, place)
            numbers = parted[place:] if descending else parted[:count]
        self._numbers = numbers.copy()  # not a view of a row group's array

    def reached(self) -> Threshold | None:
        """Return the value of the last of the `count` best; None while fewer were seen."""
        count = self._top.count
        if self._top.nulls_first:
            if self._nulls >= count:
                return Threshold(None)
            count -= self._nulls
        found = self._kth(count)
        if found is None and not self._top.nulls_first and self._nulls + self._num_values >= count:
            return Threshold(None)
        return found

    @property
    def _num_values(self) -> int:
        return len(self._numbers) if self._numbers is not None else len(self._texts or ())

    def _kth(self, place: int) -> Threshold | None:
        if self._num_values < place:
            return None
        if self._numbers is not None:
            index = len(self._numbers) - place if self._top.descending else place - 1
            return Threshold(np.partition(self._numbers, index)[index].item())
        assert self._texts is not None
        try:
            return Threshold(self._texts[place - 1].as_py())
        except UnicodeDecodeError:  # invalid UTF-8 has no literal
            return None


class BestRows:
    """What one Spark task knows about its best rows."""

    def __init__(self, top: TopRows, *, kernels: bool = True) -> None:
        self.top = top
        self._kernels = kernels
        self._seen = SeenKeys(top)
        self._reached = top.threshold
        self._wanted = self._conjunct(top.no_worse(top.threshold))

    @property
    def wanted(self) -> Predicate:
        """What further rows must meet to be among the best."""
        return self._wanted.predicate

    def best_first(self, data_file: DataFile, row_groups: Iterable[RowGroup]) -> list[RowGroup]:
        """Return the row groups ordered by the best key that each may hold."""
        return self.top.best_first(
            row_groups, lambda group: (row_group_bounds(data_file, group), group.num_rows)
        )

    def joined_to(self, row_filter: RowFilter) -> RowFilter:
        """Return the filter with `wanted` as one more conjunct."""
        if self.wanted == TRUE:
            return row_filter
        return replace(
            row_filter,
            conjuncts=[self._wanted, *row_filter.conjuncts],
            shared=row_filter.shared | {self.top.column.field_id},
        )

    def admit_row_group(self, columns: LiveColumns, row_filter: RowFilter, metrics: Metrics) -> None:
        """Admit the live rows of a whole row group; if none remain, it counts as pruned by top-n."""
        if columns.live.count:
            self.admit(columns, row_filter, metrics)
            metrics.add(ROW_GROUPS_COUNTER, columns.live.count == 0)

    def admit(self, columns: LiveColumns, row_filter: RowFilter, metrics: Metrics) -> None:
        """Keep the live rows that may be among the best, and count them among those seen."""
        before = columns.live.count
        self._narrow(columns, self.wanted)
        if columns.live.count:
            columns.condense()
            keys, live = columns.column(self.top.column.field_id), columns.live.mask
            self._seen.add(plain(keys if live is None else keys.filter(pa.array(live))))
            reached = self._seen.reached()
            known = self._reached
            if reached is not None and (known is None or not self.top.is_better(known, reached)):
                self._reach(reached, row_filter)
                self._narrow(columns, self.top.no_worse(reached))
                if not self.top.has_more_keys:
                    self._drop_ties(columns, reached)
        metrics.add(COUNTER, before - columns.live.count)

    def cut(self, columns: LiveColumns, metrics: Metrics) -> None:
        """Keep those of a row group's rows, admitted earlier, that may still be among the best."""
        before = columns.live.count
        if before:
            self._narrow(columns, self.top.no_worse(self._reached))
            metrics.add(COUNTER, before - columns.live.count)
            metrics.add(ROW_GROUPS_COUNTER, columns.live.count == 0)

    def _reach(self, reached: Threshold, row_filter: RowFilter) -> None:
        self._reached = reached
        # `count` rows that equal or beat it were seen; of ties in the only key, any will do.
        wanted = self.top.no_worse(reached) if self.top.has_more_keys else self.top.better(reached)
        if wanted != self.wanted:
            row_filter.costs.transfer(self.wanted, wanted)
            self._wanted = self._conjunct(wanted)

    def _conjunct(self, wanted: Predicate) -> Conjunct:
        return Conjunct(wanted, f"among the first by {self.top}", (self.top.column.field_id,), COUNTER)

    def _drop_ties(self, columns: LiveColumns, reached: Threshold) -> None:
        """Drop live rows that tie with a value that all of them reach, beyond the first `count`."""
        spare = columns.live.count - self.top.count
        if spare <= 0:
            return
        columns.condense(force=True)
        kept = self._truth(columns, self.top.better(reached))
        ties = np.flatnonzero(~kept)
        kept[ties[: len(ties) - min(spare, len(ties))]] = True
        columns.keep(kept)

    def _narrow(self, columns: LiveColumns, predicate: Predicate) -> None:
        if predicate != TRUE and columns.live.count:
            columns.condense()
            columns.keep(self._truth(columns, predicate))

    def _truth(self, columns: LiveColumns, predicate: Predicate) -> NDArray[np.bool_]:
        field_id, count = self.top.column.field_id, columns.base.count
        arrays = RowColumns.of({field_id: columns.column(field_id)}, count)
        return evaluate(predicate, arrays, count, kernels=self._kernels).true.copy()
