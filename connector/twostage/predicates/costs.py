"""Measured costs of a predicate's parts, and the order to evaluate them in.

Takes measurements made while rows are filtered: how many rows a part was evaluated for, how many of these it decided
(FALSE in an AND, TRUE in an OR), and how long it took, reading included. Orders the parts by nanoseconds per decided
row, ascending, which is optimal for independent predicates. A part that has not been measured yet is ranked
by a guess. The order never changes a result.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from twostage.predicates.predicate import (
    And,
    Compare,
    CompareColumns,
    CompareLength,
    Constant,
    HasElement,
    In,
    InBloom,
    InKeys,
    InTuples,
    IsNull,
    Not,
    Or,
    StringMatch,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from twostage.predicates.predicate import Predicate

DECAY = 0.5
"""Weight of the earlier measurements when a new one is added: files differ, and so do selectivities."""
_SIDES = frozenset({"<", "<=", ">", ">="})


@dataclass(slots=True)
class Cost:
    """Cost of one part so far; recent measurements weigh more (`DECAY`). Until there are any, `guess` is the rank."""

    guess: float
    rows_in: float = 0.0
    rows_settled: float = 0.0
    nanoseconds: float = 0.0

    def add(self, rows_in: int, rows_settled: int, nanoseconds: int) -> None:
        """Add one measurement."""
        self.rows_in = self.rows_in * DECAY + rows_in
        self.rows_settled = self.rows_settled * DECAY + rows_settled
        self.nanoseconds = self.nanoseconds * DECAY + nanoseconds

    @property
    def rank(self) -> float:
        """Nanoseconds per decided row."""
        return self.guess if self.rows_in == 0 else self.nanoseconds / max(self.rows_settled, 0.5)


class Costs:
    """Costs of a predicate's parts, at any depth. Parts are identified by object identity, not equality.

    Attributes:
        clock: Returns nanoseconds, to time parts by; if a task's files take turns, excludes the turns of
            other files.
        bytes_read: Returns the bytes of columns read for the filter so far, likewise.
    """

    def __init__(self) -> None:
        self.clock: Callable[[], int] = time.perf_counter_ns
        self.bytes_read: Callable[[], int] = int
        self._costs: dict[int, tuple[Predicate, Cost]] = {}
        self._first: dict[tuple[int, ...], int] = {}
        self.changes: list[str] = []
        """Report lines about parts that now go first; the caller that reports them clears the list."""
        self._children: dict[int, tuple[Predicate, int, int, int, int]] = {}
        self._stands_for: dict[int, Predicate] = {}

    def of(self, part: Predicate) -> Cost:
        """Return a part's cost, mutable."""
        found = self._costs.get(id(part))
        if found is None:
            found = self._costs[id(part)] = (
                part,
                Cost(guess(part)),
            )  # referenced, so that its id is not reused
        return found[1]

    def count_child(
        self, part: Predicate, rows_in: int, rows_out: int, nanoseconds: int, column_bytes: int
    ) -> None:
        """Count one evaluation of a child of an AND or OR: the rows it was evaluated for, and those it was true for."""
        if (whole := self._stands_for.get(id(part))) is not None:
            self.count_child(whole, rows_in, rows_out, nanoseconds, column_bytes)
        _, known_in, known_out, known_time, known_bytes = self._children.get(id(part), (part, 0, 0, 0, 0))
        self._children[id(part)] = (
            part,
            known_in + rows_in,
            known_out + rows_out,
            known_time + nanoseconds,
            known_bytes + column_bytes,
        )

    def count_as(self, part: Predicate, whole: Predicate) -> None:
        """Until `take_children`, also count evaluations of `part`, a residual, as those of `whole`, a child of an AND or OR."""
        self._stands_for[id(part)] = whole

    def take_children(self) -> list[tuple[Predicate, int, int, int, int]]:
        """Return the counts of `count_child` since the last call: part, rows in, rows out, nanoseconds, bytes of columns."""
        found = list(self._children.values())
        self._children.clear()
        self._stands_for.clear()
        return found

    def transfer(self, old: Predicate, new: Predicate) -> None:
        """Transfer the measurements of a part to the one that replaces it."""
        _, cost = self._costs.pop(id(old), (old, None))
        if cost is not None:
            self._costs[id(new)] = (new, cost)

    def order(self, parts: Sequence[Predicate], word: str) -> list[Predicate]:
        """Return the parts of an AND or OR in the order of evaluation; `word` names the operator in reports.

        The two sides of a range stay together, in the given order, and are ranked together: the first one
        pays for reading the column, so on their own they would swap places with every row group, and the rows
        that satisfy both would not be measured.
        """
        together: dict[object, list[Predicate]] = {}
        for part in parts:
            limited = _limited_column(part)
            together.setdefault(id(part) if limited is None else ("range", limited), []).append(part)
        groups = sorted(together.values(), key=self._rank)
        ordered = [part for group in groups for part in group]
        if len(ordered) > 1:
            key, first = tuple(map(id, parts)), id(ordered[0])
            if self._first.setdefault(key, first) != first:
                self._first[key] = first
                self.changes.append(f"{word} reordered by cost: {_short(str(ordered[0]))} goes first")
        return ordered

    def _rank(self, parts: list[Predicate]) -> float:
        """Return the nanoseconds per row decided by parts that are evaluated one after the other."""
        costs = [self.of(part) for part in parts]
        if len(costs) == 1 or any(cost.rows_in == 0 for cost in costs):
            return min(cost.rank for cost in costs)
        nanoseconds = sum(cost.nanoseconds for cost in costs)
        return nanoseconds / max(sum(cost.rows_settled for cost in costs), 0.5)


def _limited_column(part: Predicate) -> int | None:
    """Return the field id of the column that a comparison limits from one side."""
    if isinstance(part, Compare) and part.op in _SIDES:
        return part.column.field_id
    return None


def guess(predicate: Predicate) -> float:
    """Return a rank for a part that has not been measured yet: selective predicates on narrow types first."""
    match predicate:
        case Constant():
            return 0.0
        case Compare(op, column, _):
            return (1.0 if op in ("=", "<=>") else 3.0) * (2.0 if str(column.type) == "string" else 1.0)
        case In(column, values):
            return 1.5 * (2.0 if str(column.type) == "string" else 1.0) + len(values) * 1e-6
        case InKeys(_, keys):
            return 1.5 + keys.count * 1e-6
        case StringMatch() | CompareColumns() | CompareLength() | InBloom():
            return 6.0
        case InTuples(columns, keys):
            return 5.0 * len(columns) + keys.count * 1e-6  # after the keys of each column
        case IsNull() | HasElement():
            return 8.0
        case Not(child):
            return 20.0 + guess(child)
        case And(children) | Or(children):
            return 2.0 + sum(guess(child) for child in children)
    return 100.0


def _short(text: str, width: int = 60) -> str:
    return text if len(text) <= width else text[: width - 1] + "…"
