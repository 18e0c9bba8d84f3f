"""Rows whose fate under equality deletes the page indexes of the key columns prove: nothing is read to tell it.

Takes a row group's live rows and the delete files that may touch it; gives the rows that must be asked about, and
takes away those of pages that hold nothing but deleted rows. The rules: bounds of delete files are asked before
any of them is opened, key tables after; a row is left out of the question only if its page proves the answer.
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
    from twostage.reading.aligned_columns import LiveColumns
    from twostage.reading.task_state import OpenTask
    from twostage.selection import Selection
    from twostage.task import DeleteFile

LEAST_SHARE = 0.1
"""Of the rows: proving fewer counts as in vain."""
MOST_ASKED = 0.9
"""Of the rows: where more are left to ask, all are asked, as to choose costs what it saves."""
CHECKED = 4
"""Keys that a page's bounds leave are looked up if there are so many times as many rows; in a dense table, always."""


@dataclass(slots=True, eq=False)
class KeyProof:
    """What the pages of the key columns prove of a row group's live rows.

    Attributes:
        pages: The pages.
        known: Which of them hold no key of the delete files, as these files' bounds tell, by equality ids.
        rows: The live rows.
        left: Those of them that these bounds do not settle.
        pays: Whether enough of them are settled.
    """

    pages: KeyPages
    known: Mapping[tuple[int, ...], NDArray[np.bool_]]
    rows: Selection
    left: Selection
    pays: bool

    @staticmethod
    def of(
        file: OpenTask,
        row_group: RowGroup,
        deletes: tuple[DeleteFile, ...],
        rows: Selection,
        metrics: Metrics,
    ) -> KeyProof | None:
        """Ask the pages about the bounds of delete files; None if that is of no use."""
        payoff = file.learned.key_pages
        if not deletes or not payoff.pays:
            return None
        pages = file.equality.pages(file.data_file, row_group, deletes)
        if pages is None:
            return None
        known = file.equality.missing_files(pages, deletes)
        untouched = np.logical_and.reduce(list(known.values()))
        left = rows - pages.rows(untouched)
        payoff.asked += 1
        pays = rows.count - left.count >= rows.count * LEAST_SHARE
        payoff.pruned += pays
        alive = pages.counts(rows) > 0
        metrics.add("key_pages.considered", int(alive.sum()))
        metrics.add("key_pages.untouched", int((alive & untouched).sum()))
        return KeyProof(pages, known, rows, left, pays)

    def settle(
        self,
        file: OpenTask,
        equality: EqualityDeletes,
        row_group: RowGroup,
        columns: LiveColumns,
        metrics: Metrics,
    ) -> NDArray[np.bool_] | None:
        """Take away the rows of pages that are deleted whole; tell which live rows must be asked; None: all."""
        counts = self.pages.counts(self.left)
        untouched = equality.missing(self.pages, self.known, self.left.count)
        metrics.add("key_pages.untouched", int(np.count_nonzero(counts[untouched])))
        counts = np.where(untouched, 0, counts)
        share = 1 if equality.is_dense else CHECKED
        none, every = self.pages.looked_up(equality.field_ids, equality.deleted, counts, share)
        metrics.add("key_pages.untouched", int(none.sum()))
        metrics.add("key_pages.deleted", int(every.sum()))
        gone = self.left & self.pages.rows(every)
        asked = self.left & self.pages.rows(~(untouched | none | every))
        payoff = file.learned.key_pages
        payoff.pruned += not self.pays and asked.count <= self.rows.count * (1 - LEAST_SHARE)
        if not payoff.pays:
            metrics.choices[
                f"pages of delete keys not asked any more: {payoff.asked} reads proved too little"
            ] += 1
        if asked.count > self.rows.count * MOST_ASKED:
            return None
        columns.condense(to_the_rows=True)
        is_asked, is_gone = columns.base.marks(asked), columns.base.marks(gone)
        if equality.recorder is not None:
            settled = columns.base.keep(~is_asked)
            equality.recorder.add(row_group.first_row, settled, is_gone[~is_asked])
        columns.keep(~is_gone)
        columns.condense(to_the_rows=True)
        metrics.add("rows.deleted.equality", gone.count)
        return is_asked[~is_gone]
