"""The joins whose keys filtered a scan, for its report: as Spark measured them.

Takes what `planner/KeyFilterMetrics.java` gathered when the query ended; returns plain values, and a line of
text for each.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from twostage.errors import mask
from twostage.predicates.predicate import Compare, In, InBloom, InKeys, InTuples

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from twostage.predicates.predicate import Predicate


@dataclass(frozen=True, slots=True, kw_only=True)
class KeysOfJoin:
    """Keys that a scan got from one join.

    >>> str(KeysOfJoin(column="id", sources=("Scan parquet dim",), milliseconds=85, broadcast=True))
    'id, after 85 ms, from the broadcast of Scan parquet dim'
    >>> str(KeysOfJoin(column="id", keys=7, form="set", sources=("dim",), milliseconds=85, built=60, broadcast=True))
    'id, 7 keys as set, after 85 ms, from the broadcast of dim, made in 60 ms'
    """

    column: str
    sources: tuple[str, ...]
    """What the join's other side reads, as EXPLAIN names it."""
    milliseconds: int
    """Until Spark had the keys, including running the other side if necessary; only then the scan began."""
    broadcast: bool
    """The keys are those of the join's broadcast; else Spark ran the side once more for them."""
    keys: int | None = None
    """How many there are, including NULL and repeated ones; None if unknown, as for Spark's Bloom filters."""
    built: int | None = None
    """Milliseconds that making the broadcast took: running the side, hashing its rows, sending them."""
    form: str = ""
    """What the scan made of them: ``list``, ``set``, ``range``, ``range and Bloom filter``; of several columns ``set of
    tuples``, or ``keys of each column``; empty: they only pruned."""

    @staticmethod
    def of(raw: Mapping[str, Any], filters: Sequence[Predicate] = ()) -> KeysOfJoin:
        """Parse what Java gathered; `filters` are the predicates that the scan made of keys."""
        column = str(raw["column"])
        return KeysOfJoin(
            column=column,
            sources=tuple(mask(str(name)) for name in raw["sources"]),
            milliseconds=int(raw["milliseconds"]),
            broadcast=bool(raw["broadcast"]),
            keys=raw.get("keys"),
            built=raw.get("built"),
            form=_form(column, filters),
        )

    def __str__(self) -> str:
        how = "the broadcast of" if self.broadcast else "a reading of its own of"
        form = f" as {self.form}" if self.form else ""
        count = f", {self.keys:,} keys{form}" if self.keys is not None else f",{form}" if form else ""
        made = f", made in {self.built:,} ms" if self.built else ""
        return f"{self.column}{count}, after {self.milliseconds:,} ms, from {how} {' and '.join(self.sources)}{made}"


def _form(column: str, filters: Sequence[Predicate]) -> str:
    """Return the forms of keys of a column, or of several in parentheses; Spark's names include the table."""
    if column.endswith(")"):
        tuples = [one.columns for one in filters if isinstance(one, InTuples)]
        shown = [
            f"({', '.join('.'.join(part.path) for part in columns)})".replace("`", "") for columns in tuples
        ]
        if any(column == name or column.endswith(f".{name}") for name in shown):
            return "set of tuples"
        return "keys of each column" if filters else ""
    found = []
    for one in filters:
        if not isinstance(one, Compare | In | InBloom | InKeys):
            continue
        name = ".".join(one.column.path)
        if column == name or column.endswith(f".{name}"):
            is_range = isinstance(one, Compare) and one.op != "="
            kind = {In: "list", Compare: "list", InBloom: "Bloom filter", InKeys: "set"}[type(one)]
            found.append("range" if is_range else kind)
    return " and ".join(dict.fromkeys(found))
