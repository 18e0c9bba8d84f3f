"""Which data files ``ORDER BY … LIMIT`` can do without, and in which order the others are read.

Takes the files that predicates left, with what is known of the first sort key in each; gives those that may hold
one of the first rows, best first, and a value that enough rows reach. The rule: only files whose rows all match, and
live but for a known number, prove anything, and a file goes only if each of its rows is strictly worse than what they prove.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from twostage.predicates.predicate import TRUE
from twostage.predicates.prune import Match, match
from twostage.predicates.top import reached_by

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Callable, Sequence

    from twostage.planning.splits import Candidate
    from twostage.predicates.bounds import Bounds
    from twostage.predicates.top import TopRows

TOP_SHARE = 0.02
"""What stage two is expected to read of the columns that neither filter nor sort."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownFile:
    """A file to read. `is_sure`: all its rows match, and all live but `gone` of them; its counts can be relied upon."""

    candidate: Candidate
    key: Bounds | None
    """What is known of the first sort key."""
    is_sure: bool
    gone: int = 0

    @property
    def rows(self) -> int | None:
        """How many rows the manifest says it has; None for none, or where nobody counted: there may be some."""
        return max(0, self.candidate.task.record_count) or None

    def bounds_of(self, _: int) -> Bounds | None:
        """Return what is known of the only field that is asked for."""
        return self.key


def keep_best(
    top: TopRows, files: Sequence[KnownFile], counters: Counter[str], choices: list[str]
) -> tuple[list[Candidate], TopRows]:
    """Return the files that may hold one of the first rows, best first, and `top` with what is reached for certain."""
    found = reached_by(top, [(*_known(file), file.gone) for file in files if file.is_sure])
    if found is None:
        return [file.candidate for file in top.best_first(files, _known)], top
    reached, proofs = found
    top = replace(top, reached=reached)
    wanted = top.no_worse(reached)
    kept = []
    for file in files:
        if wanted == TRUE or file.rows is None or match(wanted, file.bounds_of, file.rows) is not Match.NONE:
            kept.append(file)
        else:
            counters["files.pruned.top-n"] += 1
            counters["rows.considered"] += file.rows
            counters["rows.pruned"] += file.rows
    if wanted != TRUE:
        choices.append(f"First {top.count}: enough rows of {proofs} files have {wanted}.")
    return [file.candidate for file in top.best_first(kept, _known)], top


def _known(file: KnownFile) -> tuple[Callable[[int], Bounds | None], int | None]:
    return file.bounds_of, file.rows
