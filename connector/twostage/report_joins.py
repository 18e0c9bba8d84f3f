"""The joins whose keys filtered a scan, for its report: as Spark measured them.

Takes what `planner/KeyFilterMetrics.java` gathered when the query ended; gives plain values, and a line of text for each.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from twostage.errors import mask

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True, kw_only=True)
class KeysOfJoin:
    """Keys that one join gave a scan.

    >>> str(KeysOfJoin(column="id", sources=("Scan parquet dim",), milliseconds=85, broadcast=True))
    'id, after 85 ms, from the broadcast of Scan parquet dim'
    """

    column: str
    sources: tuple[str, ...]
    """What the join's other side reads, as EXPLAIN names it."""
    milliseconds: int
    """Until Spark had the keys: running the other side included. The scan began after that."""
    broadcast: bool
    """The keys are those of the join's broadcast; else Spark ran the side once more for them."""

    @staticmethod
    def of(raw: Mapping[str, Any]) -> KeysOfJoin:
        """Take what Java gathered."""
        return KeysOfJoin(
            column=str(raw["column"]),
            sources=tuple(mask(str(name)) for name in raw["sources"]),
            milliseconds=int(raw["milliseconds"]),
            broadcast=bool(raw["broadcast"]),
        )

    def __str__(self) -> str:
        how = "the broadcast of" if self.broadcast else "a reading of its own of"
        return f"{self.column}, after {self.milliseconds:,} ms, from {how} {' and '.join(self.sources)}"
