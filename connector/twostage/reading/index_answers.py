"""What a data file's indexes tell about the scan's conjuncts: for each, which rows may and which must meet it.

Takes an open data file and the scan's indexes; returns for a row group the rows that may meet all conjuncts,
the conjuncts still to evaluate on them, and the known truth of their parts, row by row. A leaf is looked up
if the lookup and the remaining checks read fewer bytes than its column; leaves without an answer count as
unknown, so an AND is narrowed by its other parts, and an OR is true where one of them is certain. The rules:
a row is dropped only if an index proves that a conjunct is not true for it; exact answers are not checked
again, all others are; a bad index is treated as missing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from twostage.data_files.computed_columns import COMPUTED
from twostage.indexes import bitmaps
from twostage.indexes.answer import ROWS_OF_A_PAGE
from twostage.indexes.combined import combine
from twostage.indexes.open_index import open_index, open_index_of
from twostage.indexes.wanted import Range, ranges_in
from twostage.predicates import predicate as tree
from twostage.predicates.key_set import listed_between
from twostage.predicates.prune import Match, match as match_bounds
from twostage.predicates.truth import Truth
from twostage.predicates.value_range import value_range
from twostage.reading.prune_row_groups import row_group_bounds
from twostage.selection import Selection
from twostage.storage import ranges

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray
    from pyroaring import BitMap

    from twostage.data_files.data_file import DataFile
    from twostage.data_files.row_group import RowGroup
    from twostage.indexes.answer import IndexAnswer
    from twostage.indexes.data_file_index import DataFileIndex
    from twostage.metrics import Metrics
    from twostage.predicates.predicate import Leaf, Predicate

    _IndexedLeaf = (
        tree.Compare | tree.CompareLength | tree.HasElement | tree.In | tree.IsNull | tree.StringMatch | Range
    )
    from twostage.reading.scan_predicate import Conjunct, ScanPredicate
    from twostage.storage.ranged_object import RangedObject

INDEXED = tree.Compare | tree.CompareLength | tree.HasElement | tree.In | tree.IsNull | tree.StringMatch
"""Leaves that an index may answer."""
MAX_LISTED_KEYS = 1_000
"""Join keys within a file's bounds: up to this many are looked up in its index, as an IN list."""
MIN_GAIN = 1.5
"""Bytes of a column, divided by those of its index plus those of the column read to check the answer. Below
this, bitmaps of many rows took more CPU than the column."""


@dataclass(frozen=True, slots=True, eq=False)
class ConjunctAnswer:
    """What indexes tell about one conjunct.

    Attributes:
        bounds: The rows of the data file that may meet it, and those that certainly do.
        predicate: What to evaluate for rows that `bounds` do not decide: true for the same rows as the
            conjunct.
        known: The rows for which parts of `predicate` are TRUE and NULL, by the `id` of the part.
    """

    bounds: IndexAnswer
    predicate: Predicate
    known: Mapping[int, tuple[BitMap, BitMap]]

    def described(self, conjunct: Conjunct) -> str:
        """Return the report's text for it."""
        return f"{conjunct.text}: by index, {self.bounds.certainty}"

    @staticmethod
    def of(predicate: Predicate, answers: Mapping[int, IndexAnswer]) -> ConjunctAnswer:
        """Return the answer for a conjunct, from the answers of its leaves by `id`.

        NOTs are only around leaves, so a part may be FALSE instead of NULL: a leaf whose answer is an upper
        bound is evaluated only on the rows that it allows. Rows for which the conjunct is certain are not
        evaluated.
        """
        num_rows = next(iter(answers.values())).num_rows
        bounds = combine(predicate, answers, num_rows)
        known: dict[int, tuple[BitMap, BitMap]] = {}

        def known_as(true: BitMap) -> Predicate:
            part = tree.Unknown("known by an index")
            known[id(part)] = true, bitmaps.whole(0)
            return part

        def rewritten(part: Predicate) -> Predicate:
            match part:
                case tree.And(children):
                    return tree.And(tuple(map(rewritten, children)))
                case tree.Or(children):
                    return tree.Or(tuple(map(rewritten, children)))
            leaf = part.child if isinstance(part, tree.Not) else part
            answer = answers.get(id(leaf))
            if answer is None:
                return part
            if _tells_all(answer):
                known[id(leaf)] = answer.possible, answer.possible_not_false - answer.possible
                return part
            possible = (~answer if leaf is not part else answer).possible
            return tree.And((known_as(possible), part)) if len(possible) < num_rows else part

        whole = rewritten(predicate)
        if bounds.certain:
            whole = tree.Or((known_as(bounds.certain), whole))
        return ConjunctAnswer(bounds, whole, known)


@dataclass(slots=True, eq=False)
class FileAnswers:
    """The answers of one open data file's indexes, looked up when the first row group needs them.

    Args:
        data_file: The file.
        predicate: The scan's predicate.
        requested: The requested remote index files, by path.
    """

    data_file: DataFile
    predicate: ScanPredicate
    requested: Mapping[str, RangedObject]
    _answers: dict[int, ConjunctAnswer] | None = None
    """By the `id` of a conjunct."""

    def of(self, row_group: RowGroup, metrics: Metrics) -> RowGroupAnswers | None:
        """Return the indexes' answers for a row group; None if there are none."""
        if self._answers is None:
            self._answers = self._ask(metrics)
        return RowGroupAnswers(self._answers, row_group) if self._answers else None

    def _ask(self, metrics: Metrics) -> dict[int, ConjunctAnswer]:
        indexes = self._opened(metrics)
        found: dict[int, ConjunctAnswer] = {}
        if not indexes:
            return found
        remaining: BitMap | None = None
        for _, conjunct, offers in self._offers(indexes, metrics):
            rows = None if remaining is None else len(remaining)
            answers = self._answers_of(offers, rows, metrics)
            if not answers:
                continue
            found[id(conjunct)] = answer = ConjunctAnswer.of(conjunct.predicate, answers)
            # The two leaves of a range share one answer.
            read = {id(one): one.cost.nbytes for one in answers.values()}
            metrics.count_index_bytes(answer.described(conjunct), sum(read.values()))
            possible = answer.bounds.possible
            remaining = possible if remaining is None else remaining & possible
        metrics.add("indexes.used", bool(found))
        return found

    def _opened(self, metrics: Metrics) -> list[DataFileIndex]:
        """Return the file's usable indexes."""
        data_file = self.data_file
        context, wanted = data_file.context, data_file.context.indexes
        if wanted is None:
            return []
        metrics.add("indexes.asked")
        opened = []
        for group in wanted.groups:
            index = open_index(context, wanted.place, group, data_file.task, metrics, self.requested)
            if index is not None and not index.is_of(data_file.version):
                index = open_index_of(
                    context, wanted.place, group, data_file.task, metrics, data_file.version
                )
            if index is not None and data_file.is_indexed_by(index):
                opened.append(index)
        return opened

    def _offers(
        self, indexes: Sequence[DataFileIndex], metrics: Metrics
    ) -> list[tuple[int, Conjunct, list[_Offer]]]:
        """Return the conjuncts that indexes answer in part or in full, cheapest first: that may spare others."""
        found = []
        for conjunct in self.predicate.conjuncts:
            offers = self._offers_of(conjunct.predicate, indexes, metrics)
            if offers:
                found.append((sum(offer.nbytes for offer in offers), conjunct, offers))
        return sorted(found, key=lambda one: one[0])

    def _offers_of(
        self, predicate: Predicate, indexes: Sequence[DataFileIndex], metrics: Metrics
    ) -> list[_Offer]:
        """Return the offers for the leaves of a conjunct: one for the two leaves of a range, or one per leaf."""
        offers: list[_Offer] = []
        done: set[int] = set()
        for one in ranges_in(predicate):
            offer = self._offer(one, indexes, metrics)
            if offer is not None:
                offers.append(offer)
                done |= {id(one.low), id(one.high)}
        alone = [leaf for leaf in tree.leaves(predicate) if id(leaf) not in done]
        return offers + [
            offer for leaf in alone if (offer := self._offer(leaf, indexes, metrics)) is not None
        ]

    def _listed(self, leaf: tree.InKeys) -> tree.In | None:
        """Return the join keys within the file's bounds as a list, if they are few enough to look up in an index."""
        lowest: Any = None
        highest: Any = None
        for row_group in self.data_file.row_groups():
            bounds_of = row_group_bounds(self.data_file, row_group)
            values = value_range(leaf.column, bounds_of, row_group.num_rows)
            if not values.may_value:
                continue
            if values.lower is None or values.upper is None:
                lowest = highest = None
                break
            lowest = values.lower if lowest is None else min(lowest, values.lower)
            highest = values.upper if highest is None else max(highest, values.upper)
        return listed_between(leaf, lowest, highest, MAX_LISTED_KEYS)

    def _offer(self, leaf: Leaf | Range, indexes: Sequence[DataFileIndex], metrics: Metrics) -> _Offer | None:
        lookup = leaf
        if isinstance(leaf, tree.InKeys) and any(leaf.column.field_id in one.field_ids for one in indexes):
            lookup = self._listed(leaf) or leaf
        if not isinstance(lookup, INDEXED | Range) or not isinstance(leaf, INDEXED | Range | tree.InKeys):
            return None
        field_id, constants = leaf.column.field_id, self.data_file.task.constants
        if field_id in COMPUTED or field_id in constants:
            return None
        for index in indexes:
            if field_id not in index.field_ids:
                continue
            cost = index.cost(lookup, metrics)
            if cost is None and isinstance(leaf, Range):
                continue
            if cost is None:
                metrics.choices[f"index of {leaf.column} not read: its kinds do not answer the filter"] += 1
                continue
            return _Offer(leaf, lookup, index, cost.nbytes + cost.requests * self._request, cost.unsure)
        return None

    def _answers_of(
        self, offers: Sequence[_Offer], remaining: int | None, metrics: Metrics
    ) -> dict[int, IndexAnswer]:
        """Return the answers of a conjunct's leaves whose lookups pay off, by the leaf's `id`.

        Args:
            offers: What indexes can answer.
            remaining: How many rows other conjuncts leave; None: all.
            metrics: Gains what was read, and why something was not.
        """
        found = {}
        for offer in offers:
            name = offer.leaf.column
            num_parts, column_bytes, num_pages = self._column_cost(offer.leaf)
            share = 1.0 if remaining is None else min(1.0, remaining / max(1, num_pages))
            checked = min(share, offer.to_check / max(1, num_pages))
            without = column_bytes * share + num_parts * self._request
            needed = offer.nbytes + column_bytes * checked
            if needed * MIN_GAIN > without:
                metrics.choices[
                    f"index of {name} not read: it would save too few bytes, "
                    f"{_about(needed)} instead of {_about(without)}, requests included"
                ] += 1
                continue
            answer = offer.index.find(offer.lookup, metrics)
            if answer is not None:
                parts = (offer.leaf.low, offer.leaf.high) if isinstance(offer.leaf, Range) else (offer.leaf,)
                found.update({id(part): answer for part in parts})
                metrics.add("indexes.bytes_read", answer.cost.nbytes)
                kinds = ", ".join(answer.kinds)
                metrics.choices[f"index of {name} read ({kinds}): {answer.certainty}"] += 1
        return found

    @property
    def _request(self) -> int:
        """The bytes that can be read in the time of one request."""
        settings = self.data_file.context.settings
        return ranges.cost_of(settings.merge_gap, None, is_remote=self.data_file.is_remote).gap

    def _column_cost(self, leaf: _IndexedLeaf | tree.InKeys) -> tuple[int, int, int]:
        """Return the row groups for which a leaf's column would be read, its bytes there, and about how many pages.

        Bounds rule out some row groups, and decide the leaf for others.
        """
        sides = (leaf.low, leaf.high) if isinstance(leaf, Range) else (leaf,)
        parts = size = pages = 0
        for row_group in self.data_file.row_groups():
            bounds_of = row_group_bounds(self.data_file, row_group)
            if all(match_bounds(one, bounds_of, row_group.num_rows) is not Match.SOME for one in sides):
                continue
            if match_bounds(self.predicate.prunable, bounds_of, row_group.num_rows) is not Match.NONE:
                parts += 1
                size += self.data_file.stored_bytes(row_group, {leaf.column.field_id})
                pages += -(-row_group.num_rows // ROWS_OF_A_PAGE)
        return parts, size, pages


@dataclass(frozen=True, slots=True, eq=False)
class _Offer:
    """A leaf that an index can answer, the bytes that takes (including requests), and about how many rows to check."""

    leaf: _IndexedLeaf | tree.InKeys
    lookup: _IndexedLeaf
    """The leaf; for a key set, its keys as an IN list."""
    index: DataFileIndex
    nbytes: int
    to_check: int


@dataclass(slots=True, eq=False)
class RowGroupAnswers:
    """The indexes' answers for one row group."""

    _answers: Mapping[int, ConjunctAnswer]
    _row_group: RowGroup
    _parts: dict[int, Truth] = field(default_factory=dict)

    def narrow(
        self, selection: Selection, conjuncts: Sequence[Conjunct], metrics: Metrics
    ) -> tuple[Selection, tuple[Conjunct, ...]]:
        """Return the rows that may meet all of `conjuncts`, and the conjuncts still to evaluate on them."""
        left = []
        for conjunct in conjuncts:
            answer = self._answers.get(id(conjunct))
            if answer is None:
                left.append(conjunct)
                continue
            before, started = selection.count, metrics.clock()
            selection = selection & Selection.of(self._marks(answer.bounds.possible))
            if not answer.bounds.is_exact:
                left.append(conjunct)
            spent = metrics.clock() - started
            metrics.count_predicate(answer.described(conjunct), before, selection.count, spent)
            metrics.add(conjunct.counter, before - selection.count)
        return selection, tuple(left)

    def known_parts(self, conjunct: Conjunct, rows: Selection) -> tuple[Predicate, dict[int, Truth]]:
        """Return what to evaluate for a conjunct on some rows, and the known truth of its parts, by their `id`."""
        answer = self._answers.get(id(conjunct))
        if answer is None:
            return conjunct.predicate, {}
        known = {part: _of_rows(self._truth(part, *found), rows) for part, found in answer.known.items()}
        return answer.predicate, known

    def _truth(self, part: int, true: BitMap, null: BitMap) -> Truth:
        if part not in self._parts:
            self._parts[part] = Truth(self._marks(true), self._marks(null) if null else None)
        return self._parts[part]

    def _marks(self, bitmap: BitMap) -> NDArray[np.bool_]:
        """Return a bool for each row of the row group."""
        first, num_rows = self._row_group.first_row, self._row_group.num_rows
        marks = np.zeros(num_rows, np.bool_)
        within = bitmap & bitmaps.between(first, first + num_rows)
        if within:
            marks[np.frombuffer(within.to_array(), np.uint32).astype(np.int64) - first] = True
        return marks


def _about(nbytes: float) -> str:
    """Round a number of bytes to a power of two, so that many files share one report line.

    >>> _about(700_000), _about(3)
    ('about 512 KiB', 'about 1 KiB')
    """
    return f"about {2 ** round(math.log2(max(1024.0, nbytes) / 1024)):,} KiB"


def _of_rows(truth: Truth, rows: Selection) -> Truth:
    return truth if rows.mask is None else truth.take(rows.indices())


def _tells_all(answer: IndexAnswer) -> bool:
    """Whether the truth value of each row is known, NULL included."""
    return answer.is_exact and len(answer.possible_not_false) == len(answer.certain_not_false)
