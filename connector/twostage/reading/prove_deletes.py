"""Rows that the key columns' page indexes prove to be deleted or not, so that their keys need not be read.

Takes a row group's live rows and the delete files that may hold their keys; returns the rows that must still
be probed, and those in pages with only deleted keys. The rules: the bounds of delete files are compared
before any of them is opened, their key sets after; a row goes unprobed only if its page proves the answer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from twostage.data_files.row_group import RowGroup
    from twostage.deletes.anti_join.build_from_deletes import EqualityDeletes
    from twostage.deletes.pruning.page_proofs import KeyPages
    from twostage.metrics import Metrics
    from twostage.reading.payoff import Payoff
    from twostage.reading.task_state import OpenFile
    from twostage.selection import Selection
    from twostage.task import DeleteFile

MIN_PROVEN_SHARE = 0.1
"""Of the rows: proving fewer counts as a failure."""
MAX_PROBED_SHARE = 0.9
"""Of the rows: if more must be probed, all are, because selecting them would cost what it saves."""
MIN_ROWS_PER_LOOKUP = 4
"""Rows of a page per key between its bounds: with fewer, these keys are not looked up; in a direct table one
is enough."""


@dataclass(frozen=True, slots=True, eq=False)
class ProvenRows:
    """What is proven about a row group's live rows; rows in neither selection are proven not to be deleted."""

    deleted: Selection
    unproven: Selection


@dataclass(frozen=True, slots=True, eq=False)
class KeyProof:
    """What the pages of key columns and the bounds of delete files prove about a row group's live rows.

    Attributes:
        pages: The pages.
        known: Which of them (bool, one for each run) hold no key of the delete files, by equality ids.
        rows: The live rows.
        unproven: Those of them that may be deleted.
        pays: Whether enough of them are proven.
    """

    pages: KeyPages
    known: Mapping[tuple[int, ...], NDArray[np.bool_]]
    rows: Selection
    unproven: Selection
    pays: bool

    @staticmethod
    def by_bounds(
        file: OpenFile,
        row_group: RowGroup,
        deletes: tuple[DeleteFile, ...],
        rows: Selection,
        metrics: Metrics,
    ) -> KeyProof | None:
        """Compare the pages with the bounds of delete files; None if that is not worthwhile."""
        payoff, equality = file.learned.payoffs.key_pages, file.deletes.equality
        if not deletes or not payoff.pays:
            return None
        pages = equality.key_pages(file.data_file, row_group, deletes)
        if pages is None:
            return None
        known = equality.runs_outside_bounds(pages, deletes)
        untouched = np.logical_and.reduce(list(known.values()))
        unproven = rows - pages.rows(untouched)
        pays = rows.count - unproven.count >= rows.count * MIN_PROVEN_SHARE
        payoff.add(pruned=pays)
        live = pages.counts(rows) > 0
        metrics.add("key_pages.considered", int(live.sum()))
        metrics.add("key_pages.untouched", int((live & untouched).sum()))
        return KeyProof(pages, known, rows, unproven, pays)

    def by_keys(self, equality: EqualityDeletes, payoff: Payoff, metrics: Metrics) -> ProvenRows | None:
        """Look up the pages' possible values in the key sets; None if nearly all rows must be probed."""
        counts = self.pages.counts(self.unproven)
        untouched = equality.runs_without_keys(self.pages, self.known, self.unproven.count)
        metrics.add("key_pages.untouched", int(np.count_nonzero(counts[untouched])))
        counts = np.where(untouched, 0, counts)
        share = 1 if equality.is_direct else MIN_ROWS_PER_LOOKUP
        none, every = self.pages.decide_by_lookup(equality.field_ids, equality.deleted, counts, share)
        metrics.add("key_pages.untouched", int(none.sum()))
        metrics.add("key_pages.deleted", int(every.sum()))
        deleted = self.unproven & self.pages.rows(every)
        unproven = self.unproven & self.pages.rows(~(untouched | none | every))
        payoff.pruned += not self.pays and unproven.count <= self.rows.count * (1 - MIN_PROVEN_SHARE)
        payoff.report(metrics)
        if unproven.count > self.rows.count * MAX_PROBED_SHARE:
            return None
        return ProvenRows(deleted, unproven)
