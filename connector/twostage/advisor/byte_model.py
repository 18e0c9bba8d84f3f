"""The bytes that indexes would save a logged scan: what its filter columns took, and what they would take.

Takes a logged scan and the metadata of the table's columns; emulates the reader. A conjunct's columns are
read only in pages that still have a live row, so later conjuncts read less; an index is used if it reads less
than its column (`reading.index_answers` decides by the same rule), and its answer narrows everything after
it. The rule: the emulation without indexes is scaled to the bytes that the scan measured, so only the
difference is a prediction.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from twostage.advisor.index_offers import Offer, holding_files, offer_of, pays
from twostage.advisor.selectivity import selectivity
from twostage.indexes.answer import ROWS_OF_A_PAGE
from twostage.reading.aligned_columns import MIN_ROWS_PER_LIVE_ROW, MIN_ROWS_PER_ROW_READ_ALONE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from twostage.advisor.column_metadata import ColumnMetadata, TableColumns
    from twostage.advisor.logged_predicate import LoggedPredicate
    from twostage.advisor.logged_scan import LoggedScan
    from twostage.advisor.selectivity import Cardinalities

    Indexed = Mapping[str, tuple[str, ...]]

PRIOR_ROWS = 100
"""A measurement on this many rows weighs as much as an estimate from the number of distinct values."""
HALF_A_ROW = 0.5
"""Rows assumed to match if none did and nothing else is known: a few rows without a match prove nothing."""


def bytes_saved(scan: LoggedScan, metadata: TableColumns, indexed: Indexed) -> float | None:
    """Return the bytes that indexes would save a scan, net of the bytes read from them.

    Args:
        scan: A scan that twostage read without indexes.
        metadata: The table's, with the bytes of its columns.
        indexed: The kinds of each column's index, by column.

    Returns:
        None if the scan was not measured, or the bytes of none of its filter columns are known.
    """
    emulation = Emulation.of(scan, metadata)
    return None if emulation is None else emulation.saved(indexed)


@dataclass(slots=True)
class _Read:
    """Reads of a row group's filter columns: bytes by column, their sum, and the rows left for the next conjunct."""

    columns: dict[str, float] = field(default_factory=dict)
    nbytes: float = 0.0
    rows: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Emulation:
    """A logged scan, as input to the emulation.

    Attributes:
        parts: The filter's conjuncts, in the order in which they were evaluated.
        metadata: The table's.
        known: Its cardinalities.
        files: Data files that the scan read.
        groups: Row groups that were not pruned.
        rows: Rows per row group that page bounds did not prune.
        returned: Rows that the scan returned.
        measured: Measured bytes of its filter columns; None if it already used indexes.
        projection: The columns that the scan returns.
    """

    parts: tuple[LoggedPredicate, ...]
    metadata: TableColumns
    known: Cardinalities
    files: int
    groups: int
    rows: float
    returned: int
    measured: int | None
    projection: tuple[str, ...]

    @staticmethod
    def of(
        scan: LoggedScan, metadata: TableColumns, summed: LoggedPredicate | None = None, count: int = 1
    ) -> Emulation | None:
        """Return the emulation of a scan; None if it was not measured.

        Args:
            scan: The scan, or the mean of several.
            metadata: The table's.
            summed: For a mean scan, its filter with the summed row counts of all scans: a few rows each are
                many together.
            count: The number of those scans.
        """
        whole = scan.filter if summed is None else summed
        measured = scan.count("bytes.filter")
        was_indexed = bool(scan.count("indexes.used") or scan.count("files.pruned.index"))
        if whole is None or scan.reader != "twostage" or (measured <= 0 and not was_indexed):
            return None
        pruned = ("statistics", "dictionary", "bloom", "deletes")
        left = scan.count("row_groups.considered") - sum(
            scan.count(f"row_groups.pruned.{by}") for by in pruned
        )
        groups = max(1, left)
        parts = tuple(sorted(whole.conjuncts, key=lambda part: -(part.rows_in or 0)))
        # A part that an index answered was evaluated on no row.
        rows = (
            scan.rows_read if was_indexed else max((part.rows_in or 0 for part in parts), default=0) / count
        ) / groups
        if rows <= 0:
            return None
        return Emulation(
            parts=parts,
            metadata=metadata,
            known=metadata.cardinalities,
            files=max(1, min(scan.count("files.read"), groups)),
            groups=groups,
            rows=rows,
            returned=scan.count("rows.fetched"),
            measured=None if was_indexed else measured,
            projection=scan.columns,
        )

    def saved(self, indexed: Indexed) -> float | None:
        """Return the bytes saved with indexes of some columns; None if no column's bytes are known."""
        before = self._read({}, self.rows, {})
        if before.nbytes <= 0:
            return None
        emulated = before.nbytes * self.groups
        # Anything beyond that was read for keys of equality deletes, which no index saves.
        measured = emulated if self.measured is None else min(self.measured, emulated)
        scale = measured / emulated
        kept, files_bytes = holding_files(self.parts, indexed, self)
        offers, left = self._paying_offers(indexed, kept)
        possible = {id(part): share for part in self.parts if (share := self._possible(part, offers)) < 1.0}
        after = self._read(offers, left, possible)
        groups = self.groups * kept
        fetched = groups * self._fetched(after) - self.groups * self._fetched(before)
        of_indexes = files_bytes + self.files * kept * sum(one.nbytes for one in offers.values())
        return measured - scale * groups * after.nbytes - fetched - of_indexes

    # --- what indexes answer ----------------------------------------------------------------------------

    def _paying_offers(self, indexed: Indexed, kept: float) -> tuple[dict[int, Offer], float]:
        """Return the offers that pay, by the `id` of their leaf, and the rows per row group that they leave."""
        found: dict[int, Offer] = {}
        choices: list[tuple[float, LoggedPredicate, list[tuple[LoggedPredicate, Offer]]]] = []
        if kept > 0:
            for part in self.parts:
                offers = [
                    (leaf, offer)
                    for leaf in part.leaves()
                    if (offer := offer_of(leaf, indexed, self)) is not None
                ]
                if offers:
                    choices.append((sum(offer.cost for _, offer in offers), part, offers))
        remaining: float | None = None
        for _, part, offers in sorted(choices, key=lambda choice: choice[0]):
            for leaf, offer in offers:
                if pays(offer, leaf.columns[0], remaining, self):
                    found[id(leaf)] = offer
            share = self._possible(part, found)
            if share < 1.0:
                every = self.rows * self.groups / self.files
                remaining = (every if remaining is None else remaining) * share
        left = self.rows * math.prod(self._possible(part, found) for part in self.parts)
        return found, left

    def _possible(self, part: LoggedPredicate, offers: Mapping[int, Offer]) -> float:
        """Return the share of rows for which a predicate may be true according to indexes."""
        if part.op == "and":
            return math.prod(self._possible(child, offers) for child in part.children)
        if part.op == "or":
            return min(1.0, sum(self._possible(child, offers) for child in part.children))
        offer = offers.get(id(part))
        return 1.0 if offer is None else min(1.0, self.share(part) + offer.unsure)

    def _is_answered(self, part: LoggedPredicate, offers: Mapping[int, Offer]) -> bool:
        """Tell whether indexes decide a predicate for every row."""
        return all(id(leaf) in offers and offers[id(leaf)].is_exact for leaf in part.leaves())

    # --- what is read -------------------------------------------------------------------------------------

    def _read(self, offers: Mapping[int, Offer], rows: float, possible: Mapping[int, float]) -> _Read:
        """Return what a row group's filter columns take if `rows` rows are live before the first conjunct."""
        read = _Read(rows=rows)
        # A conjunct narrowed by an index drops hardly any rows, and the reader learns to evaluate it last.
        for part in sorted(self.parts, key=lambda one: id(one) in possible):
            if not self._is_answered(part, offers):
                for leaf in part.leaves():
                    self._read_leaf(leaf, part, offers.get(id(leaf)), read)
            # The rows that an index ruled out are already dropped.
            read.rows *= min(1.0, self.share(part) / possible.get(id(part), 1.0)) if self.share(part) else 0.0
        return read

    def _read_leaf(
        self, leaf: LoggedPredicate, part: LoggedPredicate, offer: Offer | None, read: _Read
    ) -> None:
        rows = wanted = read.rows
        if leaf is not part and leaf.rows_in is not None and part.rows_in:
            wanted *= min(1.0, leaf.rows_in / part.rows_in)
        if offer is not None and offer.left is not None:
            wanted = min(wanted, offer.left * self.files / self.groups)
        elif offer is not None and leaf is not part:
            wanted *= 0.0 if offer.is_exact else min(1.0, self.share(leaf) + offer.unsure)
        if leaf is part or wanted * MIN_ROWS_PER_ROW_READ_ALONE <= rows:
            rows = wanted  # a column is read for all rows live before the AND or OR, or alone if for very few
        reached = self.reached(leaf)
        for column in leaf.columns:
            if column not in read.columns and rows > 0:
                read.columns[column] = self.bytes_of(column, rows) * reached
                read.nbytes += read.columns[column]

    def _fetched(self, read: _Read) -> float:
        """Return the bytes of a row group's returned filter columns, beyond those read for the filter."""
        named = {column for part in self.parts for leaf in part.leaves() for column in leaf.columns}
        rows = self.returned / self.groups
        return sum(
            max(0.0, self.bytes_of(column, rows) - read.columns.get(column, 0.0))
            for column in named & set(self.projection)
        )

    # --- what is known ------------------------------------------------------------------------------------

    def share(self, part: LoggedPredicate) -> float:
        """Return the share of rows for which a predicate is true: measured, and smoothed by an estimate.

        That none of 10,000 rows had a key, after another conjunct, is no proof if one in a million is
        estimated to have it: the share is at least 1 / (10,000 + 1,000,000).
        """
        estimated = selectivity(replace(part, rows_in=None), self.known)
        if part.share is None:
            return estimated.share
        rows_in, rows_out = part.rows_in or 0, part.rows_out or 0
        if part.children or estimated.value <= 1.0:
            return min(1.0, max(rows_out, HALF_A_ROW) / rows_in)
        smoothed = (rows_out + estimated.share * PRIOR_ROWS) / (rows_in + PRIOR_ROWS)
        return min(1.0, max(smoothed, 1.0 / (rows_in + estimated.value)))

    def reached(self, leaf: LoggedPredicate) -> float:
        """Return the share of the data files read whose bounds do not exclude a leaf.

        If bounds exclude a conjunct, the file is not read; an excluded part of an OR is not evaluated. The
        bytes read from its column tell more than the overlap of file bounds: most queries want the newest
        rows.
        """
        known = None if leaf in self.parts or len(leaf.columns) != 1 else self.column(leaf.columns[0])
        overlap = 1.0 if known is None or known.overlap is None else known.overlap
        expected = min(1.0, overlap + self.share(leaf))
        if expected == 1.0 or self.measured is None or not leaf.nbytes or not leaf.rows_in:
            return expected
        whole = self.bytes_of(leaf.columns[0], self.rows) * leaf.rows_in / self.rows
        return max(self.share(leaf), min(expected, leaf.nbytes / whole))

    def column(self, name: str) -> ColumnMetadata | None:
        """Return what is known about a column; None if its bytes are not."""
        known = self.metadata.columns.get(name)
        return known if known is not None and known.bytes and known.rows else None

    def bytes_of(self, name: str, rows: float) -> float:
        """Return the bytes read for `rows` rows of a column, scattered over a row group."""
        known = self.column(name)
        if known is None:
            return 0.0
        share = self.rows / known.rows
        whole = known.bytes * share
        if rows * MIN_ROWS_PER_LIVE_ROW >= self.rows:
            return whole
        pages = max(1.0, known.pages * share if known.pages else self.rows / ROWS_OF_A_PAGE)
        page_share = 1.0 - (1.0 - 1.0 / pages) ** rows if pages > 1 else -math.expm1(-rows)
        dictionary = min(whole, known.dictionary_bytes * share)
        return (whole - dictionary) * page_share - dictionary * math.expm1(-rows)
