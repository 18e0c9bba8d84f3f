"""What an index says about a predicate: for which rows of a data file it is TRUE, at most and at least, in three-valued logic.

Takes bitmaps of row positions; gives an `IndexAnswer`, and the answers of AND, OR and NOT over them. The rule: bounds, never
guesses. Every row for which the predicate is TRUE is in `possible`, and it is TRUE for every row in `certain`; likewise
for the rows where it is not FALSE. NOT swaps and complements these bounds, so that it stays right where an index gives
too many rows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from pyroaring import BitMap

Certainty = Literal["exact", "at most", "at least", "between"]


ROWS_OF_A_PAGE = 20_000
"""Writers begin a new page after this many rows, or after 1 MiB: even a few scattered rows to check are in all pages."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LookupCost:
    """What a look-up takes: upper estimates.

    Attributes:
        requests: Reads.
        nbytes: Their bytes.
        unsure: About how many rows the answer will leave to check.
    """

    requests: int = 0
    nbytes: int = 0
    unsure: int = 0

    def __add__(self, other: LookupCost) -> LookupCost:
        return LookupCost(
            requests=self.requests + other.requests,
            nbytes=self.nbytes + other.nbytes,
            unsure=self.unsure + other.unsure,
        )


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class IndexAnswer:
    """For which rows of a data file a predicate is TRUE; make that of a leaf by `of_leaf`.

    Bitmaps are shared between answers: treat them as read-only. Deletes are not applied: positions are those of the
    data file, from 0 on.

    Attributes:
        num_rows: Of the data file.
        possible: Every row for which it is TRUE, and perhaps others.
        certain: Rows for which it is TRUE; a subset of `possible`.
        possible_not_false: Every row for which it is TRUE or NULL, and perhaps others.
        certain_not_false: Rows for which it is TRUE or NULL.
        cost: What was read for it.
        kinds: The kinds of indexes that answered.

    >>> few = IndexAnswer.of_leaf(4, possible=BitMap([1, 2]), certain=BitMap([1]), null=BitMap([3]))
    >>> few.certainty, (~few).possible, (~few).certain
    ('between', BitMap([0, 2]), BitMap([0]))
    """

    num_rows: int
    possible: BitMap
    certain: BitMap
    possible_not_false: BitMap
    certain_not_false: BitMap
    cost: LookupCost = LookupCost()
    kinds: tuple[str, ...] = ()

    @staticmethod
    def of_leaf(
        num_rows: int,
        *,
        possible: BitMap,
        certain: BitMap,
        null: BitMap,
        cost: LookupCost = LookupCost(),
        kinds: tuple[str, ...] = (),
    ) -> IndexAnswer:
        """Return the answer of a leaf.

        Args:
            num_rows: Of the data file.
            possible: Where the leaf may be TRUE.
            certain: Where it is.
            null: Exactly the rows for which it is NULL; none of them is in `possible`.
            cost: What was read for it.
            kinds: Which kinds of indexes answered.
        """
        return IndexAnswer(
            num_rows=num_rows,
            possible=possible,
            certain=certain,
            possible_not_false=possible | null,
            certain_not_false=certain | null,
            cost=cost,
            kinds=kinds,
        )

    @property
    def is_exact(self) -> bool:
        """Whether it tells for each row whether the predicate is TRUE: nothing is left to check."""
        return len(self.possible) == len(self.certain)

    @property
    def certainty(self) -> Certainty:
        """``exact``; ``at most``: check all of `possible`; ``between``: check `unsure`; ``at least``: nothing is ruled out."""
        if self.is_exact:
            return "exact"
        if len(self.possible) == self.num_rows:
            return "at least"
        return "between" if self.certain else "at most"

    @property
    def unsure(self) -> BitMap:
        """The rows to check: those in `possible` that are not in `certain`."""
        return self.possible - self.certain

    def __invert__(self) -> IndexAnswer:
        every = BitMap()
        every.add_range(0, self.num_rows)
        return replace(
            self,
            possible=every - self.certain_not_false,
            certain=every - self.possible_not_false,
            possible_not_false=every - self.certain,
            certain_not_false=every - self.possible,
        )

    def __and__(self, other: IndexAnswer) -> IndexAnswer:
        return self._with(
            other,
            self.possible & other.possible,
            self.certain & other.certain,
            self.possible_not_false & other.possible_not_false,
            self.certain_not_false & other.certain_not_false,
        )

    def __or__(self, other: IndexAnswer) -> IndexAnswer:
        return self._with(
            other,
            self.possible | other.possible,
            self.certain | other.certain,
            self.possible_not_false | other.possible_not_false,
            self.certain_not_false | other.certain_not_false,
        )

    def _with(self, other: IndexAnswer, *bounds: BitMap) -> IndexAnswer:
        possible, certain, possible_not_false, certain_not_false = bounds
        return IndexAnswer(
            num_rows=self.num_rows,
            possible=possible,
            certain=certain,
            possible_not_false=possible_not_false,
            certain_not_false=certain_not_false,
            cost=self.cost + other.cost,
            kinds=tuple(dict.fromkeys((*self.kinds, *other.kinds))),
        )
