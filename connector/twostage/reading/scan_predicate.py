"""The scan's predicate in the forms that the stages of a read use, derived once per Spark task.

Takes the predicate and the hint of a `ScanContext`; returns one frozen value. Pruning of row groups and pages
uses `prunable` and `stored_conjuncts`, filtering of rows uses `conjuncts`: a predicate is normalized and
split only here. The rule: `prunable` implies `exact`, and `conjuncts` are together true for exactly the rows
for which `exact` is.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from twostage.data_files.computed_columns import stored_part
from twostage.indexes.wanted import ranges_in
from twostage.predicates import predicate as tree
from twostage.predicates.normalize import normalize, pull_common_factors

if TYPE_CHECKING:
    from twostage.predicates.predicate import Predicate
    from twostage.task import ScanContext


@dataclass(frozen=True, slots=True)
class Conjunct:
    """One of the parts that must all be true for a row."""

    predicate: Predicate
    text: str
    """Its name in the report."""
    field_ids: tuple[int, ...]
    """The columns that it reads."""
    counter: str = "rows.filtered"
    """The counter of the rows that it drops."""
    is_optional: bool = False
    """It tests for the keys of a join, which drops the rows anyway, so it may be skipped if it drops few."""


@dataclass(frozen=True, slots=True)
class ScanPredicate:
    """What a scan's rows must satisfy.

    Attributes:
        exact: The scan returns exactly the rows for which it is true.
        prunable: `exact` and the hint: rows for which it is not true need not be returned.
        stored: What `prunable` implies for columns stored in files, so that it can be tested with their
            pages, dictionaries and Bloom filters.
        stored_conjuncts: The parts of `stored`.
        without_keys: `prunable` without the join keys; None if it has none.
        keys: The join keys, which are parts of `prunable`.
        conjuncts: The parts of `exact`, normalized as the option ``filter.normalize`` says.
        shared: The ids of the columns that several leaves of `conjuncts` read, so that reading them whole
            pays.
    """

    exact: Predicate
    prunable: Predicate
    stored: Predicate
    stored_conjuncts: tuple[Predicate, ...]
    without_keys: Predicate | None
    keys: tuple[Predicate, ...]
    conjuncts: tuple[Conjunct, ...]
    shared: frozenset[int]

    @staticmethod
    def of(context: ScanContext) -> ScanPredicate:
        """Prepare the predicate of a scan."""
        prunable = tree.both(context.predicate, context.hint)
        stored = stored_part(prunable)
        normal = pull_common_factors(tree.push_not_down(context.predicate))
        normal = normalize(normal, context.settings.normalize)
        uses = Counter(column.field_id for leaf in tree.leaves(normal) for column in tree.columns(leaf))
        return ScanPredicate(
            exact=context.predicate,
            prunable=prunable,
            stored=stored,
            stored_conjuncts=tree.conjuncts(stored),
            without_keys=tree.both(*(part for part in tree.conjuncts(prunable) if part not in context.keys))
            if context.keys
            else None,
            keys=context.keys,
            conjuncts=tuple(_conjunct(part, part in context.keys) for part in _parts(normal, context)),
            shared=frozenset(field_id for field_id, count in uses.items() if count > 1),
        )


def _parts(normal: Predicate, context: ScanContext) -> tuple[Predicate, ...]:
    """Return the conjuncts; both sides of a range are one conjunct if an index reads less for them together."""
    parts = tree.conjuncts(normal)
    if context.indexes is None:
        return parts
    from twostage.indexes.kinds.registered import KINDS  # noqa: PLC0415 - most scans have no indexes

    for_ranges = {kind.name for kind in KINDS.values() if kind.answers_ranges}
    kinds = {field_id: names for group in context.indexes.groups for field_id, names in group.columns}
    plain = [part for part in parts if part not in context.keys]
    for one in ranges_in(tree.And(tuple(plain))) if len(plain) > 1 else ():
        answered = not for_ranges.isdisjoint(kinds.get(one.column.field_id, ()))
        if answered and {one.low, one.high} <= set(plain):
            place = parts.index(one.low)
            others = [part for part in parts if part not in (one.low, one.high)]
            both = tree.And((one.low, one.high))
            parts = (*others[:place], both, *others[place:])
    return parts


def _conjunct(part: Predicate, of_a_join: bool) -> Conjunct:  # noqa: FBT001
    field_ids = tuple(column.field_id for column in tree.columns(part))
    if of_a_join:
        return Conjunct(part, f"{part} (join)", field_ids, counter="rows.unjoined", is_optional=True)
    return Conjunct(part, str(part), field_ids)
