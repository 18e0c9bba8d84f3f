"""The kinds of indexes that there are, by name: a new one is a module, and a line here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from twostage.indexes.kinds.bins import Bins
from twostage.indexes.kinds.bit_slices import BitSlices
from twostage.indexes.kinds.elements import Elements
from twostage.indexes.kinds.postings import Postings
from twostage.indexes.kinds.sorted_rows import SortedRows
from twostage.indexes.kinds.values import Values

if TYPE_CHECKING:
    from twostage.indexes.kind import IndexKind

KINDS: dict[str, IndexKind] = {
    kind.name: kind for kind in (Values(), Postings(), SortedRows(), Bins(), BitSlices(), Elements())
}
"""In the order in which they are tried: exact answers first."""
