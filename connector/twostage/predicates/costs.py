"""What the parts of a predicate were measured to cost, and the order to ask them in.

Takes measurements while rows are filtered: how many rows a part was asked about, for how many its answer
settled the matter (FALSE in an AND, TRUE in an OR), and how long it took, reading included. Gives the order:
ascending by nanoseconds for each row settled, which is the best one for independent parts. Until a part was
measured, a guess stands for it. The rule: the order never changes an answer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from twostage.predicates.predicate import (
    And,
    Compare,
    CompareColumns,
    CompareLength,
    Constant,
    In,
    IsNull,
    Not,
    Or,
    StringMatch,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from twostage.predicates.predicate import Predicate

FADE = 0.5
"""What earlier measurements count for with each new one: files differ, and so do their parts."""


@dataclass(slots=True)
class Cost:
    """What one part cost so far; later measurements count for more."""

    guess: float
    rows_in: float = 0.0
    rows_settled: float = 0.0
    nanoseconds: float = 0.0

    def add(self, rows_in: int, rows_settled: int, nanoseconds: int) -> None:
        """Add one measurement."""
        self.rows_in = self.rows_in * FADE + rows_in
        self.rows_settled = self.rows_settled * FADE + rows_settled
        self.nanoseconds = self.nanoseconds * FADE + nanoseconds

    @property
    def rank(self) -> float:
        """Nanoseconds for each row settled."""
        return self.guess if self.rows_in == 0 else self.nanoseconds / max(self.rows_settled, 0.5)


class Costs:
    """The costs of a predicate's parts, at any depth. The parts must be the same objects each time."""

    def __init__(self) -> None:
        self._costs: dict[int, tuple[Predicate, Cost]] = {}
        self._first: dict[tuple[int, ...], int] = {}
        self.changes: list[str] = []
        """Sentences that say which part now goes first; whoever reports them empties the list."""

    def of(self, part: Predicate) -> Cost:
        """Return a part's cost, to be read or added to."""
        found = self._costs.get(id(part))
        if found is None:
            found = self._costs[id(part)] = (part, Cost(guess(part)))  # held, so that its id stays its own
        return found[1]

    def rename(self, old: Predicate, new: Predicate) -> None:
        """Let a part that stands in another's place go on with what was measured of that one."""
        _, cost = self._costs.pop(id(old), (old, None))
        if cost is not None:
            self._costs[id(new)] = (new, cost)

    def order(self, parts: Sequence[Predicate], word: str) -> list[Predicate]:
        """Return the parts of an AND or OR (the `word`), the one to ask first first."""
        ordered = sorted(parts, key=lambda part: self.of(part).rank)
        if len(ordered) > 1:
            key, first = tuple(map(id, parts)), id(ordered[0])
            if self._first.setdefault(key, first) != first:
                self._first[key] = first
                self.changes.append(f"{word} reordered by cost: {_short(str(ordered[0]))} goes first")
        return ordered


def guess(predicate: Predicate) -> float:
    """Guess a rank before anything was measured: selective and narrow first."""
    match predicate:
        case Constant():
            return 0.0
        case Compare(op, column, _):
            return (1.0 if op in ("=", "<=>") else 3.0) * (2.0 if str(column.type) == "string" else 1.0)
        case In(column, values):
            return 1.5 * (2.0 if str(column.type) == "string" else 1.0) + len(values) * 1e-6
        case StringMatch() | CompareColumns() | CompareLength():
            return 6.0
        case IsNull():
            return 8.0
        case Not(child):
            return 20.0 + guess(child)
        case And(children) | Or(children):
            return 2.0 + sum(guess(child) for child in children)
    return 100.0


def _short(text: str, width: int = 60) -> str:
    return text if len(text) <= width else text[: width - 1] + "…"
