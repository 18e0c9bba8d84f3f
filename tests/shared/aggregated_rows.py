"""What aggregates of rows are: counts, sums, minima and maxima, added up one row after the other.

Takes rows by field id, aggregates and columns to group by; gives the rows of the answer, each as often as it occurs.
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
    """Aggregate row by row, as Spark does: NaN is the greatest, NULL a group of its own."""
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
