"""What the page index of key columns proves: pages that hold no delete key, and pages with only deleted rows.

Takes the bounds of a row group's pages; returns a bool for each run of rows within which no page of a key
column ends. The rules: a run about which nothing is proven is probed; a proof holds for every row of its run.
If there are few values between the bounds of a run (one if both bounds are equal, a few if integers are
close), the values are looked up instead of the rows.

Benefit: "page proofs" and "lookups of bounded values" in docs/benchmarks-deletes.md (``prune.pages``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pyarrow as pa

from twostage.columns import arrow_type
from twostage.deletes.keys.encoding import INTEGERS
from twostage.deletes.keys.intervals import DeleteKeyRange
from twostage.selection import Selection

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from twostage.data_files.data_file import DataFile
    from twostage.data_files.row_group import RowGroup
    from twostage.deletes.keys.intervals import KeyDomain
    from twostage.predicates.bounds import Bounds
    from twostage.schema import Primitive

MAX_RUNS = 20_000
"""Runs of a row group; with more, nothing is proven."""
VALUES_TRIED_FIRST = 16
"""Values of a run that are looked up first: they decide most runs with both deleted and other rows."""


AntiJoin: TypeAlias = "Callable[[Mapping[int, pa.Array], int], NDArray[np.bool_]]"
"""Takes key columns by field id and their number of rows; gives a bool for each row: whether it is deleted."""


@dataclass(frozen=True, slots=True, eq=False)
class _Column:
    """The pages of one key column, or the row group as a single page.

    Attributes:
        kind: The column's type.
        is_column: Whether it is a top-level column, not a field of a struct.
        bounds: The bounds of each page; None: unknown.
        num_rows: The number of rows of each page.
        page_of: For each run, the number of its page.
    """

    kind: Primitive
    is_column: bool
    bounds: Sequence[Bounds | None]
    num_rows: NDArray[np.int64]
    page_of: NDArray[np.int64]

    def runs_outside(self, domain: KeyDomain) -> NDArray[np.bool_]:
        """Return a bool for each run: whether it has no value of a domain."""
        disjoint = [
            domain.is_disjoint(DeleteKeyRange(self.kind, one, rows, counted=self.is_column))
            for one, rows in zip(self.bounds, self.num_rows.tolist(), strict=True)
        ]
        return np.array(disjoint, np.bool_)[self.page_of]


class KeyPages:
    """The pages of a row group's key columns, as runs of rows within which no page ends.

    Attributes:
        lengths: The number of rows in each run, int64.
    """

    def __init__(self, lengths: NDArray[np.int64], columns: Mapping[int, _Column]) -> None:
        self.lengths = lengths
        self._columns = columns

    @staticmethod
    def of(
        data_file: DataFile,
        row_group: RowGroup,
        field_ids: Iterable[int],
        bounds_of: Callable[[int], Bounds | None],
        kind_of: Callable[[int], Primitive],
        is_column: Callable[[int], bool],
    ) -> KeyPages | None:
        """Return the pages of these columns; None if none has a page index, or there are too many runs.

        Args:
            data_file: The file.
            row_group: Its row group.
            field_ids: The key columns.
            bounds_of: The bounds of a column in the whole row group, by field id.
            kind_of: A column's type.
            is_column: Whether a key is a top-level column, not a field of a struct; by field id.
        """
        found = {field_id: data_file.page_bounds(row_group, field_id) for field_id in field_ids}
        first_rows = [pages.first_rows for pages in found.values() if pages is not None]
        if not first_rows:
            return None
        starts: NDArray[np.int64] = np.unique(np.concatenate(first_rows))
        if len(starts) > MAX_RUNS:
            return None
        columns = {}
        for field_id, pages in found.items():
            bounds: Sequence[Bounds | None] = [bounds_of(field_id)] if pages is None else pages.bounds
            firsts = np.zeros(1, np.int64) if pages is None else pages.first_rows
            num_rows = np.diff(firsts, append=row_group.num_rows)
            page_of = np.searchsorted(firsts, starts, side="right") - 1
            columns[field_id] = _Column(kind_of(field_id), is_column(field_id), bounds, num_rows, page_of)
        return KeyPages(np.diff(starts, append=row_group.num_rows), columns)

    @staticmethod
    def of_row_group(
        num_rows: int,
        field_ids: Iterable[int],
        bounds_of: Callable[[int], Bounds | None],
        kind_of: Callable[[int], Primitive],
        is_column: Callable[[int], bool],
    ) -> KeyPages:
        """Return a row group of `num_rows` as a single run; see `of`."""
        rows, place = np.array([num_rows], np.int64), np.zeros(1, np.int64)
        columns = {
            field_id: _Column(kind_of(field_id), is_column(field_id), [bounds_of(field_id)], rows, place)
            for field_id in field_ids
        }
        return KeyPages(rows, columns)

    def rows(self, runs: NDArray[np.bool_]) -> Selection:
        """Return the rows of some runs."""
        return Selection.of(np.repeat(runs, self.lengths))

    def counts(self, rows: Selection) -> NDArray[np.int64]:
        """Return how many of these rows are in each run, int64."""
        if rows.mask is None:
            return self.lengths
        ends = np.append(0, np.cumsum(rows.mask, dtype=np.int64))[np.append(0, np.cumsum(self.lengths))]
        counts: NDArray[np.int64] = np.diff(ends)
        return counts

    def runs_outside(self, field_id: int, domain: KeyDomain) -> NDArray[np.bool_]:
        """Return a bool for each run: whether it has no value of a domain in a column."""
        return self._columns[field_id].runs_outside(domain)

    def decide_by_lookup(
        self, field_ids: Iterable[int], deleted: AntiJoin, counts: NDArray[np.int64], min_rows: int
    ) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Look up the values between a run's bounds, if they are few, instead of its rows.

        Args:
            field_ids: The key columns.
            deleted: Returns which of these columns' values are deleted, such as `EqualityDeletes.deleted`.
            counts: Rows of each run that would be probed.
            min_rows: How many of these rows there must be for each value.

        Returns:
            Two bools for each run: whether it holds no deleted value, and whether it holds only deleted
            values.
        """
        none, every = np.zeros(len(counts), np.bool_), np.zeros(len(counts), np.bool_)
        runs: list[int] = []
        sizes: list[int] = []
        chosen: dict[int, list[tuple[Any, int]]] = {field_id: [] for field_id in field_ids}
        if not all(self._columns[field_id].is_column for field_id in chosen):
            return none, every
        for run in np.flatnonzero(counts).tolist():
            possible = [self._possible(field_id, run) for field_id in chosen]
            spans = [span for one in possible if one is not None for span in one[1:]]
            size = max(spans, default=1)
            if None in possible or sum(span > 1 for span in spans) > 1 or size * min_rows > counts[run] + 3:
                continue
            runs.append(run)
            sizes.append(size)
            for values, one in zip(chosen.values(), possible, strict=True):
                assert one is not None
                values.append(one)
        if not runs:
            return none, every
        # The first values identify most runs that hold both deleted and other rows.
        tried = np.minimum(sizes, VALUES_TRIED_FIRST)
        hits = self._hits(deleted, chosen, tried)
        alike = np.flatnonzero((hits == 0) | (hits == tried)).tolist()
        if alike:
            runs, sizes = [runs[place] for place in alike], [sizes[place] for place in alike]
            chosen = {field_id: [values[place] for place in alike] for field_id, values in chosen.items()}
            hits = self._hits(deleted, chosen, np.array(sizes))
            none[runs] = hits == 0
            every[runs] = hits == np.array(sizes)
        return none, every

    def _hits(
        self,
        deleted: AntiJoin,
        chosen: Mapping[int, Sequence[tuple[Any, int]]],
        sizes: NDArray[np.int64],
    ) -> NDArray[np.int64]:
        """Return how many of the first `sizes` values of each run, from its lowest one on, are deleted."""
        arrays = {
            field_id: _array(self._columns[field_id].kind, values, sizes)
            for field_id, values in chosen.items()
        }
        marks = deleted(arrays, int(sizes.sum()))
        found: NDArray[np.int64] = np.add.reduceat(
            marks.astype(np.int64), np.append(0, np.cumsum(sizes)[:-1])
        )
        return found

    def _possible(self, field_id: int, run: int) -> tuple[Any, int] | None:
        """Return the lowest of the values that a column may have in a run, and how many there are; None: unknown."""
        column = self._columns[field_id]
        page = column.page_of[run]
        bounds = column.bounds[page]
        return None if bounds is None else _possible(column.kind, bounds, int(column.num_rows[page]))


def _possible(kind: Primitive, bounds: Bounds, rows: int) -> tuple[Any, int] | None:
    """Return the lowest of the values between bounds, and how many there are; None if they cannot be listed.

    Only integers have more than one.
    """
    lower, upper = bounds.lower, bounds.upper
    if bounds.null_count == rows == bounds.value_count and lower is None:
        return None, 1
    if bounds.null_count != 0 or bounds.value_count != rows or lower is None or upper is None:
        return None
    if kind.name in INTEGERS:
        span = upper - lower + 1
        return (lower, span) if 0 < span <= rows else None
    exact = bounds.exact_lower and bounds.exact_upper
    return (lower, 1) if kind.name in ("string", "binary") and exact and lower == upper else None


def _array(kind: Primitive, values: Sequence[tuple[Any, int]], sizes: NDArray[np.int64]) -> pa.Array:
    """Return, for each pair of lowest value and count, `sizes` consecutive values, or one value repeated."""
    target = arrow_type(kind)
    if kind.name not in INTEGERS:
        repeated = [lowest for (lowest, _), size in zip(values, sizes, strict=True) for _ in range(size)]
        return pa.array(repeated, target)
    counts = sizes
    starts = np.array([lowest or 0 for lowest, _ in values], np.int64)
    steps = np.array([span > 1 for _, span in values])
    nulls = np.array([lowest is None for lowest, _ in values])
    within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    numbers = np.repeat(starts, counts) + within * np.repeat(steps, counts)
    width = np.int32 if kind.name in ("int", "date") else np.int64
    return pa.array(numbers.astype(width), mask=np.repeat(nulls, counts)).view(target)
