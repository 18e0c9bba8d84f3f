"""The strategy *parser*: the sets of columns to index for each query, and the entries that would have saved.

Takes a logged scan; returns its votes. `score` ranks columns one by one (the document's "Parser-based
Scoring"); `votes_of` emulates the scan (its "Parser-based Estimation"): L(p), the entries scanned to evaluate
p column by column, is

- for a leaf its column's entries per row, times the rows; 0 if the column has an index;
- for an OR the sum over its children;
- for an AND L(p1) + L(p2) / S1 + L(p3) / (S1 S2) + …: each child is evaluated on the rows that the ones before left.

With an index on the columns of child t, an AND begins with t at no cost, and everything before it shrinks by S_t. The rule:
the votes of one scan never promise more than L(p) of its whole filter.
Source: the design document of Apache Pinot's index tuner, II.2, II.3 and III.2.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from twostage.advisor.selectivity import Cardinalities, selectivity, with_spread_shares

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from twostage.advisor.logged_predicate import LoggedPredicate
    from twostage.advisor.logged_scan import LoggedScan
    from twostage.advisor.thresholds import Thresholds

MIN_SHARE_OF_BEST = 0.5
"""g0: another child of an AND becomes an alternative if it saves more than this share of what the best one saves."""
MAX_ALTERNATIVES = 5
"""Per vote: choosing among n takes 2**n sums."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Alternative:
    """A set of columns, and what indexes over all of them save: entries, or bytes in `byte_savings.py`."""

    columns: frozenset[str]
    saved: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Vote:
    """Alternatives, the best first: one of them counts, never two."""

    alternatives: tuple[Alternative, ...]

    def saved_by(self, columns: frozenset[str]) -> float:
        """Return what indexes over these columns save for it."""
        return max((one.saved for one in self.alternatives if one.columns <= columns), default=0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimator:
    """L(p) and votes over a number of rows.

    Attributes:
        rows: totalRows: the rows to filter after pruning by metadata.
        known: The cardinalities of the table's columns.
        indexed: Columns that have an index already.
        selectivity: Columns vote where S is larger than this.
        min_share_of_best: g0.
        enough: C0, entries: an AND that costs no more with one index needs no second one. None: `rows`, times
            the mean of `costs`.
        costs: Cost per row by column, such as bytes; with it, all of the above is in that unit, not entries.
            None: entries.
    """

    rows: float
    known: Cardinalities = field(default_factory=Cardinalities)
    indexed: frozenset[str] = frozenset()
    selectivity: float = 1.0
    min_share_of_best: float = MIN_SHARE_OF_BEST
    enough: float | None = None
    costs: Mapping[str, float] | None = None

    def entries(self, predicate: LoggedPredicate) -> float:
        """Return L(p): the entries that evaluating a predicate scans."""
        if predicate.op == "and":
            return sum(self._terms([self._child(child) for child in _as_evaluated(predicate.children)]))
        if predicate.op == "or":
            return sum(self.entries(child) for child in predicate.children)
        if self.costs is None:
            each, default = self.known.entries_per_row, 1.0
        else:
            each, default = self.costs, _mean(self.costs)
        return sum(
            self.rows * each.get(column, default)
            for column in predicate.columns
            if column not in self.indexed
        )

    def votes(self, predicate: LoggedPredicate) -> list[Vote]:
        """Return the votes of a query's whole filter."""
        if predicate.op == "or":
            return [vote for child in predicate.children for vote in self.votes(child)]
        if predicate.op == "and":
            return self._votes_of_and([self._child(child) for child in _as_evaluated(predicate.children)])
        child = self._child(predicate)
        if not child.can_vote or child.entries <= 0:
            return []
        return [Vote(alternatives=(Alternative(columns=child.columns, saved=child.entries),))]

    def _child(self, predicate: LoggedPredicate) -> _Child:
        found = selectivity(predicate, self.known)
        columns = _needed_columns(predicate)
        missing = columns - self.indexed
        return _Child(
            entries=self.entries(predicate),
            share=found.share,
            columns=missing,
            can_vote=bool(missing) and found.value > self.selectivity,
        )

    @staticmethod
    def _terms(children: Sequence[_Child]) -> list[float]:
        """Return what each child of an AND scans: L_i times the shares of those before it."""
        terms, left = [], 1.0
        for child in children:
            terms.append(left * child.entries)
            left *= child.share
        return terms

    def _votes_of_and(self, children: list[_Child]) -> list[Vote]:
        enough = self.enough
        if enough is None:
            enough = self.rows * (1.0 if self.costs is None else _mean(self.costs))
        votes: list[Vote] = []
        taken: frozenset[str] = frozenset()
        scale = 1.0
        while children:
            terms = self._terms(children)
            total = sum(terms)
            saved: list[tuple[float, int]] = []
            before = 0.0
            for place, child in enumerate(children):
                if child.can_vote and child.columns - taken:
                    # Without its own scan; the children before it scan the rows that it keeps.
                    least = child.share * before + sum(terms[place + 1 :])
                    saved.append((total - least, place))
                before += terms[place]
            saved = [(gain, place) for gain, place in saved if gain > 0]
            if not saved:
                break
            saved.sort(key=lambda one: (-one[0], one[1]))
            best, chosen = saved[0]
            alternatives: dict[frozenset[str], float] = {}
            for gain, place in saved[:MAX_ALTERNATIVES]:
                if gain == best or gain > best * self.min_share_of_best:
                    alternatives.setdefault(children[place].columns - taken, gain * scale)
            votes.append(
                Vote(
                    alternatives=tuple(
                        Alternative(columns=one, saved=gain) for one, gain in alternatives.items()
                    )
                )
            )
            if (total - best) * scale <= enough:
                break
            # The rest is evaluated on the rows that the chosen one leaves. Without the factor, the votes of one query
            # could promise more than it scans.
            scale *= children[chosen].share
            taken |= children[chosen].columns
            children = children[:chosen] + children[chosen + 1 :]
        return votes


@dataclass(frozen=True, slots=True, kw_only=True)
class _Child:
    """A child of an AND: L, 1 / S, and the columns whose indexes answer it, without those that have one."""

    entries: float
    share: float
    columns: frozenset[str]
    can_vote: bool


def _needed_columns(predicate: LoggedPredicate) -> frozenset[str]:
    """Return the columns that all need an index for a predicate to be answered by indexes; none if that cannot be."""
    from_leaves = [selectivity(leaf, Cardinalities()).key for leaf in predicate.leaves()]
    return frozenset().union(*from_leaves) if all(from_leaves) else frozenset()


def _as_evaluated(children: Sequence[LoggedPredicate]) -> list[LoggedPredicate]:
    """Return the children of an AND in the order in which they were evaluated, where that was measured."""
    if any(child.rows_in is None for child in children):
        return list(children)
    return sorted(children, key=lambda child: -(child.rows_in or 0))


def votes_of(
    scan: LoggedScan,
    whole: LoggedPredicate,
    known: Cardinalities,
    thresholds: Thresholds,
    costs: Mapping[str, float] | None = None,
) -> list[Vote]:
    """Return the votes of a scan for its filter `whole`, over the rows that metadata left to it; see `Estimator.costs`."""
    estimator = estimator_of(scan, known, thresholds, costs)
    return estimator.votes(whole) if estimator.rows else []


def estimator_of(
    scan: LoggedScan, known: Cardinalities, thresholds: Thresholds, costs: Mapping[str, float] | None = None
) -> Estimator:
    """Return what estimates a scan's votes, over the rows that metadata left to it."""
    return Estimator(
        rows=scan.rows_read,
        known=known,
        indexed=thresholds.indexed_of(scan.table),
        selectivity=thresholds.selectivity,
        costs=costs,
    )


def _mean(costs: Mapping[str, float]) -> float:
    """Return the cost of a column whose cost is not known."""
    return sum(costs.values()) / len(costs) if costs else 0.0


def score(scan: LoggedScan, known: Cardinalities, thresholds: Thresholds) -> tuple[frozenset[str], float]:
    """Return the key of a scan's whole filter, and its votes: the range that its index shrinks, and its own entries.

    (nESI_total - nESI_key) x (1 - 1/S) + nESI_key, the unbiased form of the document's section III.2. Where entries were
    not counted by column, every filter column of every row read counts.
    """
    if scan.filter is None:
        return frozenset(), 0.0
    whole = with_spread_shares(scan.filter, known)
    found = selectivity(whole, known)
    key = found.key - thresholds.indexed_of(scan.table)
    total = scan.entries_of(known.entries_per_row)
    if not key or not total or found.value <= thresholds.selectivity:
        return frozenset(), 0.0
    own = sum(
        _entries_of(scan, leaf, known)
        for leaf in whole.leaves()
        if key.issuperset(leaf.columns) and leaf.columns
    )
    own = min(own, total)
    return key, (total - own) * (1 - found.share) + own


def _entries_of(scan: LoggedScan, leaf: LoggedPredicate, known: Cardinalities) -> float:
    rows = scan.rows_read if leaf.rows_in is None else leaf.rows_in
    return rows * sum(known.entries_per_row.get(column, 1.0) for column in leaf.columns)
