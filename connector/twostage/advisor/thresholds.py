"""Which logged scans and columns count: the thresholds of Pinot's index tuner.

Plain values. The rule: a table or scan that does not count has no vote.
Source: the index tuner's options in the design document of Apache Pinot's index tuner.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True, kw_only=True)
class Thresholds:
    """What counts.

    Attributes:
        selectivity: A column counts if its selectivity S is larger than this; S is 1 / the share of rows
            kept.
        entries: A scan counts if it scanned at least this many entries in its filter.
        queries: A table counts if at least this many of its scans count.
        tables: Only these tables count; None: all.
        indexed: Columns that already have an index, by table: they get no vote.
    """

    selectivity: float = 1.0
    entries: int = 0
    queries: int = 0
    tables: frozenset[str] | None = None
    indexed: Mapping[str, frozenset[str]] = field(default_factory=dict)

    def indexed_of(self, table: str) -> frozenset[str]:
        """Return a table's columns that have an index."""
        return self.indexed.get(table, frozenset())
