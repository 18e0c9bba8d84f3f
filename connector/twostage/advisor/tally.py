"""The sums of one table's scans: votes, frequencies, quantiles, times.

Takes logged scans one by one and keeps sums by template, so that a log of any length fits into memory;
returns what recommendations are made from. The rule: a scan counts once, and the order of scans only affects
which of equally heavy queries are shown.
"""

from __future__ import annotations

from array import array
from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from twostage.advisor.byte_model import Emulation
from twostage.advisor.byte_savings import ByteSavings
from twostage.advisor.frequency import ColumnVotes, named_columns, ranked
from twostage.advisor.latency import fit_latency
from twostage.advisor.logged_scan import INDEX, SPARK
from twostage.advisor.selectivity import Cardinalities, key_of_leaf, with_spread_shares
from twostage.advisor.templates import MAX_HEAVIEST_FILTERS, MAX_TEXT, Template, form_of
from twostage.advisor.votes import Alternative, Vote, estimator_of, score, votes_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from twostage.advisor.column_metadata import ColumnMetadata, TableColumns
    from twostage.advisor.latency import LatencyModel
    from twostage.advisor.logged_predicate import LoggedPredicate
    from twostage.advisor.logged_scan import LoggedScan
    from twostage.advisor.thresholds import Thresholds

QUANTILES = (0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 1.0)
MAX_TEMPLATES = 20_000
"""Kept at once: if there are more, those so far vote."""


@dataclass(slots=True)
class UnlistedScans:
    """Scans no longer distinguished by form, and the bytes that they read."""

    scans: int = 0
    bytes: int = 0


class Tally:
    """The sums of one table's scans.

    Args:
        table: Its name.
        thresholds: What counts.
        known: The cardinalities of its columns.
        columns: The table's columns; votes for others are dropped. None: not known.
        metadata: The table's; with it, bytes are predicted.
    """

    def __init__(
        self,
        table: str,
        thresholds: Thresholds,
        known: Cardinalities | None = None,
        columns: frozenset[str] | None = None,
        metadata: TableColumns | None = None,
    ) -> None:
        self.table = table
        self.thresholds = thresholds
        self.known = known or Cardinalities()
        self._entries_per_row = {
            name: each for name, each in self.known.entries_per_row.items() if each != 1.0
        }
        """Where it is not 1: an index of a list saves reading its elements, so these are counted."""
        self.columns = columns
        self._missing: Counter[str] = Counter()
        self.scans = 0
        self.filtered = 0
        self.measured = 0
        """Scans that were measured by twostage, so that bytes of filters are known."""
        self.by_spark = self.of_unknown_rows = 0
        """Scans with a filter by Spark's own reader; those whose number of rows to filter is not known."""
        self.entries = self.bytes_filter = self.bytes_read = 0
        self.time_deletes = 0
        self.time_tasks = 0
        self.deleted_by_equality = 0
        self.most_deleted = 0
        """Rows that equality deletes removed from one scan, at most."""
        self.scans_with_deletes = 0
        """Scans that equality deletes removed rows from."""
        self._slowed: dict[str, int] = {}
        self.operators: dict[str, Counter[str]] = defaultdict(Counter)
        """How often a filter has an operator on a column, by column."""
        self.ordered: Counter[str] = Counter()
        """Top-n scans, by the column that orders them."""
        self.answered: Counter[str] = Counter()
        """Scans whose aggregates indexes answered, for all data files or for most; by column."""
        self.metadata = metadata
        self._kinds = (
            {}
            if metadata is None
            else {name: _kinds(one, metadata.files) for name, one in metadata.columns.items()}
        )
        self.existing: dict[str, tuple[str, ...]] = (
            {}
            if metadata is None
            else {name: one.indexed for name, one in metadata.columns.items() if one.indexed}
        )
        """The kinds of existing indexes, by column."""
        self.costs = {} if metadata is None else metadata.bytes_per_row
        """Bytes per row of each column, if known."""
        self._savings = ByteSavings(self.existing)
        self._byte_votes: dict[tuple[frozenset[str], ...], list[float]] = {}
        """Of scans that cannot be emulated: other readers do not log a filter's bytes."""
        self._bytes_estimated = 0.0
        self._saved_by: Counter[str] = Counter()
        self._templates: dict[tuple[object, ...], Template] = {}
        self._voted: list[Template] = []
        self.unlisted = UnlistedScans()
        """Scans of the forms beyond `MAX_TEMPLATES`, which have voted, but are no longer distinguished."""
        self._votes: dict[tuple[frozenset[str], ...], list[float]] = {}
        self._frequencies: dict[str, tuple[int, float]] = {}
        self._scores: dict[str, tuple[int, float]] = {}
        self._voters: Counter[str] = Counter()
        self._heaviest: dict[str, dict[str, float]] = defaultdict(dict)
        self._in_filter, self._after, self._read, self._times = (array("d") for _ in range(4))

    def add(self, scan: LoggedScan) -> None:
        """Add a scan of this table."""
        if answered := scan.answered_columns:
            self.answered.update(answered)
        if scan.reader == INDEX:
            return  # nothing was read that could be saved
        if scan.top and (column := scan.order_column) is not None:
            self.ordered[column] += 1
        self.scans += 1
        in_filter = scan.entries_of(self._entries_per_row)
        self._in_filter.append(in_filter)
        self._after.append(scan.entries_after_filter)
        self._read.append(scan.bytes_read)
        # If a query has several scans, it is not known which of them took the time.
        alone = scan.query_milliseconds is not None and scan.scans == 1 and not scan.failed
        self._times.append((scan.query_milliseconds or 0) / 1000 if alone else float("nan"))
        self.bytes_read += scan.bytes_read
        self.time_deletes += scan.count("time.deletes")
        self.time_tasks += scan.count("time.tasks")
        if deleted := scan.count("rows.deleted.equality"):
            self._add_deletes(scan, deleted)
        whole = scan.filter
        if whole is None or in_filter < self.thresholds.entries:
            return
        self.filtered += 1
        self.by_spark += scan.reader == SPARK
        self.of_unknown_rows += not scan.knows_rows
        self.entries += in_filter
        self.measured += scan.reader == "twostage" and scan.is_measured
        self.bytes_filter += scan.count("bytes.filter")
        for leaf in whole.leaves():
            for column in key_of_leaf(leaf):
                self.operators[column][leaf.op] += 1
        form = form_of(scan, whole, self.known, self.thresholds.selectivity)
        template = self._templates.get(form)
        if template is None:
            if len(self._templates) >= MAX_TEMPLATES:
                self._settle()
            template = self._templates[form] = Template(scan, whole, self.thresholds.selectivity)
        template.add(scan, whole, in_filter)

    def _add_deletes(self, scan: LoggedScan, deleted: int) -> None:
        self.deleted_by_equality += deleted
        self.most_deleted = max(self.most_deleted, deleted)
        self.scans_with_deletes += 1
        spent, known = scan.count("time.deletes"), self._slowed
        if len(known) < MAX_HEAVIEST_FILTERS or spent > min(known.values()):
            text = scan.text[:MAX_TEXT] or "(no filter)"
            known[text] = max(known.get(text, 0), spent)
            if len(known) > MAX_HEAVIEST_FILTERS:
                del known[min(known, key=lambda text: (known[text], text))]

    def slowed_by_deletes(self) -> list[str]:
        """Return the filters of the scans for which deletes took the longest, the slowest first."""
        return sorted(self._slowed, key=lambda text: (self._slowed[text], text), reverse=True)

    def _settle(self) -> None:
        """Let the templates vote."""
        templates = list(self._templates.values())
        self._templates.clear()
        for template in templates:
            self._vote(template)
        self._voted += templates
        if len(self._voted) > MAX_TEMPLATES:
            self._voted.sort(key=lambda one: -one.bytes_read)
            for template in self._voted[MAX_TEMPLATES:]:
                self.unlisted.scans += template.count
                self.unlisted.bytes += template.bytes_read
            del self._voted[MAX_TEMPLATES:]

    @property
    def templates(self) -> list[Template]:
        """The forms of the scans with a filter, up to `MAX_TEMPLATES`, those that read the most; see `unlisted`."""
        self._settle()
        return self._voted

    def _vote(self, template: Template) -> None:
        scan, whole = template.mean()
        if scan.reader == SPARK:
            return  # it reads no index, and which scans are handed to it does not depend on what is indexed
        whole = with_spread_shares(whole, self.known)
        emulation = None
        if self.metadata is not None:
            emulation = Emulation.of(scan, self.metadata, template.summed(), template.count)
        for vote in votes_of(scan, whole, self.known, self.thresholds):
            if (kept := self._of_present(vote, template.count)).alternatives:
                self._count(kept, template)
        if emulation is not None:
            for column in self.existing.keys() & {name for leaf in whole.leaves() for name in leaf.columns}:
                others = {name: kinds for name, kinds in self.existing.items() if name != column}
                gained = (emulation.saved(self.existing) or 0.0) - (emulation.saved(others) or 0.0)
                self._saved_by[column] += round(gained * template.count)
        else:
            self._estimate_bytes(template, scan, whole)
        named = named_columns(self.table, whole, self.thresholds, self.known)
        if emulation is not None:
            in_order = dict.fromkeys(
                name for part in emulation.parts for leaf in part.leaves() for name in leaf.columns
            )
            columns = [name for name in in_order if name in named and name in self._kinds]
            self._savings.add(emulation, columns, self._kinds, template.count)
        for column in named:
            times, weight = self._frequencies.get(column, (0, 0.0))
            self._frequencies[column] = (times + template.count, weight + template.entries)
        key, scored = score(scan, self.known, self.thresholds)
        for column in key:
            times, weight = self._scores.get(column, (0, 0.0))
            self._scores[column] = (times + template.count, weight + scored * template.count)

    def _estimate_bytes(self, template: Template, scan: LoggedScan, whole: LoggedPredicate) -> None:
        """Let scans by another reader vote in bytes: a column's entries take its bytes per row."""
        if scan.reader == "twostage" or not self.costs:
            return  # for ours it is known that the filter read nothing
        estimator = estimator_of(scan, self.known, self.thresholds, self.costs)
        self._bytes_estimated += estimator.entries(whole) * template.count
        for vote in estimator.votes(whole):
            kept = self._present(vote)
            sums = self._byte_votes.setdefault(tuple(one.columns for one in kept), [0.0] * len(kept))
            for place, one in enumerate(kept):
                sums[place] += one.saved * template.count

    def _of_present(self, vote: Vote, count: int) -> Vote:
        """Return a vote without alternatives over columns that the table no longer has."""
        if self.columns is None:
            return vote
        for one in vote.alternatives:
            for column in one.columns - self.columns:
                self._missing[column] += count
        return Vote(alternatives=self._present(vote))

    def _present(self, vote: Vote) -> tuple[Alternative, ...]:
        columns = self.columns
        return tuple(one for one in vote.alternatives if columns is None or one.columns <= columns)

    def _count(self, vote: Vote, template: Template) -> None:
        sums = self._votes.setdefault(
            tuple(one.columns for one in vote.alternatives), [0.0] * len(vote.alternatives)
        )
        mean = max(1.0, template.entries / template.count)
        for place, one in enumerate(vote.alternatives):
            sums[place] += one.saved * template.count
            for column in one.columns:
                self._voters[column] += template.count
                for entries, text in template.heaviest:
                    known = self._heaviest[column]
                    known[text] = max(known.get(text, 0.0), one.saved * entries / mean)
                    if len(known) > MAX_HEAVIEST_FILTERS:
                        del known[min(known, key=lambda text: (known[text], text))]

    @property
    def votes(self) -> list[Vote]:
        """The sums of all votes with the same alternatives in the same order."""
        self._settle()
        return _votes(self._votes)

    @property
    def byte_votes(self) -> list[Vote]:
        """The same in predicted bytes, for every set of indexes on a filter's columns; see `knows_bytes`.

        Scans by other readers vote as they do in entries, weighted by their columns' bytes per row.
        """
        self._settle()
        return self._savings.votes + _votes(self._byte_votes)

    @property
    def bytes_weighed(self) -> float:
        """The total that `byte_votes` are part of: filter columns' bytes, measured, or estimated for other readers."""
        self._settle()
        return self.bytes_filter + self._bytes_estimated

    @property
    def missing(self) -> Counter[str]:
        """Columns that votes name and the table does not have, and how often."""
        self._settle()
        return self._missing

    def frequencies(self) -> list[ColumnVotes]:
        """Return the columns by the strategy *frequency*, the best first."""
        self._settle()
        return ranked(self._frequencies)

    def scores(self) -> list[ColumnVotes]:
        """Return the columns by the strategy *score*, the best first."""
        self._settle()
        return ranked(self._scores)

    def voters(self, column: str) -> int:
        """Return how many votes name a column."""
        self._settle()
        return self._voters[column]

    def heaviest(self, column: str) -> list[str]:
        """Return the filters of the queries that a column would save the most, the heaviest first."""
        self._settle()
        known = self._heaviest.get(column, {})
        return sorted(known, key=lambda text: (known[text], text), reverse=True)

    @property
    def knows_bytes(self) -> bool:
        """Whether bytes are predicted, because those of columns are known."""
        return bool(self.costs)

    def saved_by_existing(self, column: str) -> int:
        """Return the bytes that the index of a column saves the log's scans, net of those read from it."""
        self._settle()
        return self._saved_by[column]

    def bytes_saved(self, saved_entries: float) -> float | None:
        """Return the filter columns' bytes for entries that are not scanned, if all columns took the same.

        None if none was measured.
        """
        if not self.measured or not self.entries or not self.bytes_filter:
            return None
        return self.bytes_filter * min(1.0, saved_entries / self.entries)

    def quantiles(self) -> dict[str, list[float]]:
        """Return the quantiles `QUANTILES` of entries in the filter, bytes read and seconds; without a scan NaN.

        Seconds are of queries with one scan.
        """
        found = {}
        for name, values in (
            ("entries_in_filter", self._in_filter),
            ("bytes_read", self._read),
            ("seconds", self._times),
        ):
            numbers = np.array(values)
            numbers = numbers[~np.isnan(numbers)]
            found[name] = (
                [float(one) for one in np.quantile(numbers, QUANTILES, method="inverted_cdf")]
                if len(numbers)
                else [float("nan")] * len(QUANTILES)
            )
        return found

    def latency(self) -> LatencyModel | None:
        """Return the latency model of the table's queries; None for too few."""
        times = np.array(self._times)
        known = ~np.isnan(times)
        return fit_latency(np.array(self._in_filter)[known], np.array(self._after)[known], times[known])


def _votes(summed: Mapping[tuple[frozenset[str], ...], list[float]]) -> list[Vote]:
    return [
        Vote(
            alternatives=tuple(
                Alternative(columns=columns, saved=saved)
                for columns, saved in zip(alternatives, sums, strict=True)
            )
        )
        for alternatives, sums in summed.items()
        if alternatives
    ]


def _kinds(known: ColumnMetadata, files: int) -> tuple[str, ...]:
    """Return the kinds of index that a column would have."""
    if known.has_elements:
        return ("elements",)
    return ("values",) if known.has_bitmaps(files) else ("postings", "files", "sorted")
