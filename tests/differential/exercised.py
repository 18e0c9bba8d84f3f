"""What a run of random pairs exercised, so that a run that proves nothing is told from one that does.

Takes each pair's query, result and the kinds of delete that took rows from its table; gives shares, and how
often each cell (kind of delete, type of column, operator) was met.
"""

from __future__ import annotations

import itertools
from collections import Counter
from typing import TYPE_CHECKING

import random_values
from twostage.predicates import predicate as tree

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from core_scan import Result
    from random_queries import Query

DELETES = ("position", "vector", "equality")
TYPES = tuple(sorted({kind.partition("(")[0].partition("[")[0] for kind in random_values.PRIMITIVES}))
TEXT_OPERATORS = ("prefix", "suffix", "contains")
CELLS = tuple(
    (delete, kind, operator)
    for delete, kind in itertools.product(DELETES, TYPES)
    for operator in (*tree.COMPARISONS, "in", "is null", *(TEXT_OPERATORS if kind == "string" else ()))
)
AT_WORK = (
    "rows.deleted.position",
    "rows.deleted.vector",
    "rows.deleted.equality",
    "rows.filtered",
    "files.pruned.partition",
    "files.pruned.bounds",
    "row_groups.pruned.statistics",
    "row_groups.pruned.dictionary",
    "row_groups.pruned.bloom",
    "row_groups.pruned.filter",
    "delete_files.skipped",
    "delete_files.skipped.predicate",
    "row_groups.untouched",
    "row_groups.pruned.deletes",
    "pages.read",
)
"""Counters of which none may be zero after some hundred pairs."""


class Exercised:
    """Counts over the pairs of a run; a pair that was asked and not added had other rows than the oracle."""

    def __init__(self) -> None:
        self.asked = self.pairs = self.non_empty = self.skipping = 0
        self.counters: Counter[str] = Counter()
        self.cells: Counter[tuple[str, str, str]] = Counter(dict.fromkeys(CELLS, 0))

    def add(self, query: Query, result: Result, deleted: Iterable[str]) -> None:
        """Count a pair; `deleted` are the kinds of delete that took rows of its table away."""
        self.pairs += 1
        self.non_empty += bool(result.rows)
        self.skipping += result.count("row_groups.pruned") > 0
        self.counters.update({k: n for k, n in result.metrics.counters.items() if "time" not in k})
        met = set(operators(query.predicate))
        self.cells.update((kind, *cell) for kind in deleted for cell in met)

    @property
    def rarest(self) -> tuple[int, tuple[str, str, str]]:
        """The cell that was met least often."""
        return min((count, cell) for cell, count in self.cells.items())

    def figures(self) -> dict[str, float | str]:
        """Return what the scoreboard shows."""
        count, cell = self.rarest
        return {
            "pairs": self.pairs,
            "non_empty": round(self.non_empty / self.pairs, 3),
            "row_group_skipped": round(self.skipping / self.pairs, 3),
            "cells": len(self.cells),
            "rarest_cell": " ".join(cell),
            "rarest_cell_hits": count,
        }


def operators(predicate: tree.Predicate) -> Iterator[tuple[str, str]]:
    """Yield (type of column, operator) of every leaf on a primitive column."""
    match predicate:
        case tree.Not(child):
            yield from operators(child)
        case tree.And(children) | tree.Or(children):
            for child in children:
                yield from operators(child)
        case tree.Compare(operator, column, _) | tree.CompareColumns(operator, column, _):
            yield column.type.name, operator
        case tree.In(column, _, _):
            yield column.type.name, "in"
        case tree.StringMatch(kind, column, _):
            yield "string", kind
        case tree.IsNull(column) if hasattr(column.type, "name"):
            yield column.type.name, "is null"
