"""Vectors of SQL truth values: TRUE, FALSE or NULL for each row.

AND and OR follow Kleene's three-valued logic. No array is modified in place, because vectors share arrays.
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
    """A predicate's truth value for each row. The arrays are shared: treat them as read-only.

    Attributes:
        true: Shape (rows,): whether the predicate is TRUE.
        null: Shape (rows,): whether it is NULL, disjoint from `true`; None if it is NULL for no row.
    """

    true: Bools
    null: Bools | None

    @property
    def false(self) -> Bools:
        """Whether the predicate is FALSE, for each row."""
        return ~self.not_false

    @property
    def not_false(self) -> Bools:
        """Whether the predicate is TRUE or NULL, for each row."""
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
        """Return the truth values of the rows with these indices."""
        return Truth(self.true[places], None if self.null is None else self.null[places])

    def put(self, places: NDArray[np.int64], part: Truth) -> Truth:
        """Return a copy in which the rows with the indices `places` have the truth values of `part`."""
        true = self.true.copy()
        true[places] = part.true
        if self.null is None and part.null is None:
            return Truth(true, None)
        null = np.zeros(len(true), np.bool_) if self.null is None else self.null.copy()
        null[places] = False if part.null is None else part.null
        return Truth(true, null)
