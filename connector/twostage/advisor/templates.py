"""Sums of scans of one form: a million logged scans have few templates, each represented by its mean scan.

Takes logged scans one by one; returns `Template`s. Two scans have the same form if they read and return the
same columns by the same operators, and each part of their filters keeps a similar share of the rows: between
the same powers of two, and with S on the same side of the threshold above which a column counts. The rules:
sums are exact; only what is derived from the mean scan is an estimate, unless the template has one scan; and
the mean scan's columns count if those of each scan do.
"""

from __future__ import annotations

import heapq
import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from twostage.advisor.selectivity import selectivity, with_spread_shares

if TYPE_CHECKING:
    from collections.abc import Iterator

    from twostage.advisor.logged_predicate import LoggedPredicate
    from twostage.advisor.logged_scan import LoggedScan
    from twostage.advisor.selectivity import Cardinalities

MAX_HEAVIEST_FILTERS = 3
"""Kept per template: those that scanned the most."""
MAX_TEXT = 200
"""Characters shown of a filter."""
_COUNTERS = (
    *("rows.considered", "rows.pruned", "rows.fetched", "spark.rows", "handed_over.rows"),
    *("rows.deleted.position", "rows.deleted.vector", "rows.deleted.equality", "rows.deleted.compiled"),
    *(
        "files.read",
        "row_groups.considered",
        "bytes.filter",
        "bytes.read",
        "handed_over.bytes",
        "spark.files.bytes",
        "indexes.bytes_read",
        "indexes.used",
        "files.pruned.index",
    ),
    *(f"row_groups.pruned.{by}" for by in ("statistics", "dictionary", "bloom", "deletes")),
)
"""Counters that estimates are computed from."""


@dataclass(slots=True, eq=False)
class Template:
    """Scans of one form.

    Attributes:
        first: One of them.
        whole: Its filter.
        count: How many there were.
        entries: Entries scanned in all their filters.
        threshold: S above which a column counts.
        heaviest: The filters that scanned the most: entries and text.
    """

    first: LoggedScan
    whole: LoggedPredicate
    threshold: float = 1.0
    count: int = 0
    entries: int = 0
    heaviest: list[tuple[int, str]] = field(default_factory=list)
    _counters: dict[str, int] = field(default_factory=dict)
    _rows: list[int] = field(default_factory=list)

    def add(self, scan: LoggedScan, whole: LoggedPredicate, entries: int) -> None:
        """Add a scan of this form."""
        self.count += 1
        self.entries += entries
        sums = self._counters
        for name in _COUNTERS:
            if number := scan.counters.get(name):
                sums[name] = sums.get(name, 0) + number
        rows: list[int] = []
        _collect(whole, rows)
        self._rows = rows if self.count == 1 else [a + b for a, b in zip(self._rows, rows, strict=True)]
        heaviest = self.heaviest
        if len(heaviest) < MAX_HEAVIEST_FILTERS or entries > heaviest[0][0]:
            text = (whole.text or scan.text)[:MAX_TEXT]
            if all(text != known for _, known in heaviest):
                push = heapq.heappush if len(heaviest) < MAX_HEAVIEST_FILTERS else heapq.heappushpop
                push(heaviest, (entries, text))

    @property
    def heaviest_text(self) -> str:
        """The filter that scanned the most."""
        return max(self.heaviest, default=(0, ""))[1]

    @property
    def bytes_read(self) -> int:
        """Bytes that all of them read: as `LoggedScan.bytes_read`, and from indexes."""
        sums = self._counters
        read = sums.get("bytes.read") or sums.get("handed_over.bytes") or sums.get("spark.files.bytes") or 0
        return read + sums.get("indexes.bytes_read", 0)

    def mean(self) -> tuple[LoggedScan, LoggedPredicate]:
        """Return the mean scan, and its filter."""
        if self.count == 1:
            return self.first, self.whole
        rows = iter(self._rows)
        whole = _with_means(self.whole, rows, self.count, self.threshold)
        counters = {name: round(number / self.count) for name, number in self._counters.items()}
        return replace(self.first, predicate=whole, hint=None, counters=counters), whole

    def summed(self) -> LoggedPredicate:
        """Return the filter with the summed rows of all of them: a mean of less than half a row is not none."""
        return _with_sums(self.whole, iter(self._rows))


def form_of(
    scan: LoggedScan, whole: LoggedPredicate, known: Cardinalities, threshold: float
) -> tuple[object, ...]:
    """Return what scans of one template have in common, as a key.

    Args:
        scan: One of them.
        whole: Its filter.
        known: Of the table's columns.
        threshold: S above which a column counts: the mean of scans on both sides would be on one of them.
    """
    indexed = scan.count("indexes.used") > 0 or scan.count("files.pruned.index") > 0
    form, spread = _form(whole), whole
    for child in whole.children:
        if child.rows_in is None:
            spread = with_spread_shares(whole, known)  # by which the template votes
            break
    sides: list[bool] = []
    _add_sides(spread, known, threshold, sides)
    return scan.reader, scan.columns, scan.rows_read.bit_length(), indexed, form, *sides


def _add_sides(part: LoggedPredicate, known: Cardinalities, threshold: float, sides: list[bool]) -> None:
    """Add for each leaf whether it counts."""
    if part.children:
        for child in part.children:
            _add_sides(child, known, threshold, sides)
    elif part.rows_in:  # as `selectivity` has it, inlined: a log has a million scans
        sides.append(part.rows_in > threshold * max(part.rows_out or 0, 0.5))
    else:
        sides.append(selectivity(part, known).value > threshold)


def _form(part: LoggedPredicate) -> tuple[object, ...]:
    rows_in = part.rows_in
    left = None if rows_in is None else (rows_in // max(part.rows_out or 0, 1)).bit_length()
    if part.children:
        return part.op, left, *map(_form, part.children)
    return part.op, left, part.columns, part.count.bit_length()


def _collect(part: LoggedPredicate, rows: list[int]) -> None:
    if part.rows_in is not None:
        rows.append(part.rows_in)
        rows.append(part.rows_out or 0)
    for child in part.children:
        _collect(child, rows)


def _with_sums(part: LoggedPredicate, rows: Iterator[int]) -> LoggedPredicate:
    rows_in, rows_out = part.rows_in, part.rows_out
    if rows_in is not None:
        rows_in, rows_out = next(rows), next(rows)
    children = tuple(_with_sums(child, rows) for child in part.children)
    return replace(part, rows_in=rows_in, rows_out=rows_out, children=children)


def _with_means(part: LoggedPredicate, rows: Iterator[int], count: int, threshold: float) -> LoggedPredicate:
    rows_in, rows_out = part.rows_in, part.rows_out
    if rows_in is not None:
        all_in, all_out = next(rows), next(rows)
        did_count = rows_in > threshold * max(rows_out or 0, 0.5)
        rows_in, rows_out = round(all_in / count), round(all_out / count)
        if not part.children and rows_in and (rows_in > threshold * max(rows_out, 0.5)) != did_count:
            # Rounding put the share on the other side of the threshold.
            least = math.ceil(rows_in / threshold)
            rows_out = max(0, least - 1) if did_count else least
    children = tuple(_with_means(child, rows, count, threshold) for child in part.children)
    return replace(part, rows_in=rows_in, rows_out=rows_out, children=children)
