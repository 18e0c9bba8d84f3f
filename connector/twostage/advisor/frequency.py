"""The strategy *frequency*: how often a column is filtered on, each scan weighted by the entries that its filter scanned.

Takes a logged filter; returns the columns that it counts for, and ranks columns by their counts. The rule: a
scan counts once for a column, however often its filter names it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from twostage.advisor.selectivity import key_of_leaf, selectivity

if TYPE_CHECKING:
    from twostage.advisor.logged_predicate import LoggedPredicate
    from twostage.advisor.selectivity import Cardinalities
    from twostage.advisor.thresholds import Thresholds


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnVotes:
    """A column's votes.

    Attributes:
        column: Its name.
        scans: Scans that voted for it.
        weight: The entries that they scanned in filters.
    """

    column: str
    scans: int
    weight: float


def named_columns(
    table: str, whole: LoggedPredicate, thresholds: Thresholds, known: Cardinalities
) -> frozenset[str]:
    """Return the columns that a filter names selectively enough, without those that have an index."""
    columns = {
        column
        for leaf in whole.leaves()
        for column in key_of_leaf(leaf)
        if selectivity(leaf, known).value > thresholds.selectivity
    }
    return frozenset(columns) - thresholds.indexed_of(table)


def ranked(counted: dict[str, tuple[int, float]]) -> list[ColumnVotes]:
    """Return columns, given scans and weight of each, by weight, then by scans, then by name."""
    found = [
        ColumnVotes(column=name, scans=times, weight=weight) for name, (times, weight) in counted.items()
    ]
    return sorted(found, key=lambda one: (-one.weight, -one.scans, one.column))
