"""Prune and order the data files of a top-n query (``ORDER BY … LIMIT``).

Takes the files that predicates kept, with the bounds of the first sort key in each; returns the files that
may contain one of the first rows, best first, and the threshold that they prove. Only files whose rows all
match, with a known maximum of deleted rows, prove a threshold; a file is pruned only if each of its rows is
strictly worse.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from twostage.predicates.predicate import TRUE
from twostage.predicates.prune import Match, match
from twostage.predicates.top import threshold_from_bounds

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Callable, Sequence

    from twostage.planning.splits import Candidate
    from twostage.predicates.bounds import Bounds
    from twostage.predicates.top import TopRows


@dataclass(frozen=True, slots=True, kw_only=True)
class RankedFile:
    """A file to read, with the bounds of the first sort key.

    Attributes:
        candidate: The file.
        key: Bounds of the first sort key; None if nothing is known.
        counts_are_exact: All rows match, and at most `num_deleted` of them are deleted.
        num_deleted: Upper limit of the number of deleted rows.
    """

    candidate: Candidate
    key: Bounds | None
    counts_are_exact: bool
    num_deleted: int = 0

    @property
    def rows(self) -> int | None:
        """The manifest's record count; None for 0 or less, which some writers store for an unknown count."""
        return max(0, self.candidate.task.record_count) or None

    def bounds_of(self, _: int) -> Bounds | None:
        """Return the bounds of the sort key, the only field that top-n looks up."""
        return self.key


def keep_best(
    top: TopRows, files: Sequence[RankedFile], counters: Counter[str], choices: list[str]
) -> tuple[list[Candidate], TopRows]:
    """Return the files that may contain one of the first rows, best first, and `top` with its proven threshold.

    Args:
        top: The first sort key and the limit.
        files: The files that predicates kept.
        counters: Pruned files and rows are added to it.
        choices: The threshold is added to it, for the report.
    """
    found = threshold_from_bounds(
        top, [(*_known(file), file.num_deleted) for file in files if file.counts_are_exact]
    )
    if found is None:
        return [file.candidate for file in top.best_first(files, _known)], top
    threshold, proofs = found
    top = replace(top, threshold=threshold)
    wanted = top.no_worse(threshold)
    kept = []
    for file in files:
        if wanted == TRUE or file.rows is None or match(wanted, file.bounds_of, file.rows) is not Match.NONE:
            kept.append(file)
        else:
            counters["files.pruned.top-n"] += 1
            counters["rows.considered"] += file.rows
            counters["rows.pruned"] += file.rows
    if wanted != TRUE:
        choices.append(f"First {top.count}: {proofs} files have enough rows with {wanted}.")
    return [file.candidate for file in top.best_first(kept, _known)], top


def _known(file: RankedFile) -> tuple[Callable[[int], Bounds | None], int | None]:
    return file.bounds_of, file.rows
