"""The interface of key tables: direct, by words or by records."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from twostage.deletes.keys.budget import Budget
    from twostage.deletes.keys.encoding import KeyRows


class KeyTable(Protocol):
    """A table of keys that are NULL in the same columns."""

    kind: str
    budget: Budget

    @property
    def nbytes(self) -> int:
        """Return the bytes of private memory that the table takes."""

    @property
    def count(self) -> int:
        """Return the number of keys."""

    def insert(self, keys: KeyRows, code: int, sequences: NDArray[np.int64]) -> None:
        """Add keys under `code`; of two codes for a key, the one with the higher sequence number stays.

        Args:
            keys: The keys.
            code: Stands for a sequence number; never 0.
            sequences: The sequence number of each code.
        """

    def probe(self, keys: KeyRows, applies: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Return for each key whether it is in the table under a code that applies (a bool for each code)."""

    def widen_codes(self) -> None:
        """Make room for more than 65,535 codes."""

    def arrays(self) -> tuple[NDArray[Any], ...]:
        """Return the table's arrays, to be written to a file: one-dimensional and unsigned; see each kind."""

    def column(self, word: int, slots: int | None = None) -> NDArray[np.uint64]:
        """Return one word of all keys, or of those in the first `slots` slots."""
