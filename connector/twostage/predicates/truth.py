"""Answers of predicates, in Spark's three-valued logic.

Takes answers for the same rows; gives the answer of their AND or OR. The rule: exactly Kleene's logic, and
no answer is changed in place, for answers share arrays.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Bools = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class Truth:
    """A predicate's answer for each row. Treat the arrays as read-only: answers may share them.

    Attributes:
        true: Where the predicate is true.
        null: Where it is NULL; never where `true` is. None: nowhere.
    """

    true: Bools
    null: Bools | None

    @property
    def false(self) -> Bools:
        """Where the predicate is false."""
        return ~self.not_false

    @property
    def not_false(self) -> Bools:
        """Where the predicate is true or NULL."""
        return self.true if self.null is None else self.true | self.null

    def __and__(self, other: Truth) -> Truth:
        true = self.true & other.true
        if self.null is None and other.null is None:
            return Truth(true, None)
        return Truth(true, (self.not_false & other.not_false) > true)

    def __or__(self, other: Truth) -> Truth:
        true = self.true | other.true
        if self.null is None or other.null is None:
            null = self.null if other.null is None else other.null
            return Truth(true, None if null is None else null > true)
        return Truth(true, (self.null | other.null) > true)

    def take(self, places: NDArray[np.int64]) -> Truth:
        """Return the answer for some rows."""
        return Truth(self.true[places], None if self.null is None else self.null[places])

    def put(self, places: NDArray[np.int64], part: Truth) -> Truth:
        """Return the answer with that of the rows at `places` replaced."""
        true = self.true.copy()
        true[places] = part.true
        if self.null is None and part.null is None:
            return Truth(true, None)
        null = np.zeros(len(true), np.bool_) if self.null is None else self.null.copy()
        null[places] = False if part.null is None else part.null
        return Truth(true, null)
