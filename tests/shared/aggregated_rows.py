"""Computes aggregates of rows, one row after another: counts, sums, minima and maxima.

Takes rows by field id, aggregates and columns to group by; returns the rows of the answer, with counts.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import oracle

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from twostage.aggregates.totals import Aggregate
    from twostage.schema import Field


def aggregated(
    rows: Iterable[Mapping[int, Any]], aggregates: Sequence[Aggregate], groups: Sequence[Field]
) -> Counter[Any]:
    """Aggregate row by row, as Spark does: NaN is greatest, and NULL is its own group."""
    kept: dict[Any, list[Mapping[int, Any]]] = {} if groups else {(): []}
    for row in rows:
        kept.setdefault(tuple(row[field.id] for field in groups), []).append(row)
    result = []
    for group, members in kept.items():
        values: list[Any] = []
        for part in aggregates:
            if part.field is None:
                values.append(len(members))
                continue
            present = [row[part.field.id] for row in members if row[part.field.id] is not None]
            match part.function:
                case "count":
                    values.append(len(present))
                case "distinct":
                    values.append(len({oracle.exact(value) for value in present}))
                case "sum":
                    values.append(sum(present) if present else None)
                case "min":
                    values.append(min(present, key=oracle._order, default=None))
                case "max":
                    values.append(max(present, key=oracle._order, default=None))
        result.append((*group, *values))
    return Counter(tuple(map(oracle.exact, row)) for row in result)
