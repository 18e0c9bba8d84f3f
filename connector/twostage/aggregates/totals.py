"""The running aggregates of a query: what files' metadata and indexes say, added up group by group.

Takes a `FileProof`, or the groups of a file; gives the rows of the answer. The rule: a file is added whole or not at all.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from twostage.aggregates.sums import MAX_EXACT, Sum, is_safe, result, sum_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from twostage.aggregates.file_proofs import FileProof
    from twostage.schema import Field

MAX_GROUPS = 10_000
"""Groups of an answer, which are kept in the driver."""
MAX_DISTINCT = 2**20
"""Distinct values that are kept for ``count(DISTINCT …)``."""

Function = Literal["rows", "count", "distinct", "min", "max", "sum"]
Group = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Aggregate:
    """``count(*)`` (``rows``), or `function` of a column; ``distinct`` counts its distinct values."""

    function: Function
    field: Field | None = None


class Totals:
    """The aggregates of all groups.

    Args:
        aggregates: The functions.
        is_grouped: Whether there are groups; without, there is one row even if no row matches.
    """

    def __init__(self, aggregates: tuple[Aggregate, ...], *, is_grouped: bool) -> None:
        self._aggregates = aggregates
        self._groups: dict[Group, list[Any]] = {} if is_grouped else {(): initial(aggregates)}
        self._distinct = 0
        self._magnitudes = [0] * len(aggregates)

    def add_proof(self, known: FileProof) -> str | None:
        """Add what metadata proves about a file; return what it does not prove, if anything."""
        if not known.rows:
            return None
        found = _values_of(known, self._aggregates)
        return found if isinstance(found, str) else self.add({known.group: found})

    def add(self, groups: Mapping[Group, list[Any]]) -> str | None:
        """Add the groups of a file, each with a value for every aggregate: a set for ``distinct``, a `Sum` for ``sum``; return why not, if it cannot be."""
        if len(self._groups) + len(groups) > MAX_GROUPS and len(self._groups.keys() | groups) > MAX_GROUPS:
            return f"more than {MAX_GROUPS} groups"
        self._distinct += sum(
            len(values[place])
            for place, part in enumerate(self._aggregates)
            if part.function == "distinct"
            for values in groups.values()
        )
        if self._distinct > MAX_DISTINCT:
            return f"more than {MAX_DISTINCT:,} distinct values"
        for place, part in enumerate(self._aggregates):
            if part.function == "sum" and part.field is not None:
                added = sum(one.magnitude for values in groups.values() if (one := values[place]) is not None)
                as_double = _may_be_averaged(part.field, self._aggregates)
                if not is_safe(part.field.type, self._magnitudes[place] + added, as_double=as_double):
                    return f"the sum of {part.field.name} depends on the order of its rows"
                self._magnitudes[place] += added
        for group, values in groups.items():
            total = self._groups.get(group)
            if total is None:
                total = self._groups[group] = initial(self._aggregates)
            for place, part in enumerate(self._aggregates):
                total[place] = _merged(part.function, total[place], values[place])
        return None

    @property
    def may_be_mixed(self) -> bool:
        """Whether other rows may be added to the sums: whether they overflow then does not depend on the order."""
        return all(
            magnitude <= MAX_EXACT
            for part, magnitude in zip(self._aggregates, self._magnitudes, strict=True)
            if part.field is not None and str(part.field.type) in ("int", "long")
        )

    def rows(self) -> tuple[tuple[Any, ...], ...]:
        """Return the rows of the answer: the values of the groups, then those of the aggregates."""
        return tuple(
            (*group, *map(_finished, self._aggregates, values)) for group, values in self._groups.items()
        )


def _may_be_averaged(field: Field, aggregates: tuple[Aggregate, ...]) -> bool:
    """Tell whether an average may be made of a column's sum: Spark asks for that sum and the number of values.

    Of a column that is never NULL, that number is the number of rows.
    """
    return any(
        (part.function == "count" and part.field is not None and part.field.id == field.id)
        or (part.function == "rows" and field.required)
        for part in aggregates
    )


def initial(aggregates: tuple[Aggregate, ...]) -> list[Any]:
    """Return the aggregates of no rows."""
    empty: dict[str, Any] = {"rows": 0, "count": 0, "min": None, "max": None, "sum": None}
    return [set() if part.function == "distinct" else empty[part.function] for part in aggregates]


def _finished(part: Aggregate, value: Any) -> Any:
    if isinstance(value, set):
        return len(value)
    if isinstance(value, Sum):
        assert part.field is not None
        return result(part.field.type, value)
    return value


def _merged(function: Function, left: Any, right: Any) -> Any:
    match function:
        case "rows" | "count":
            return left + right
        case "distinct":
            left |= right
            return left
    if left is None or right is None:
        return right if left is None else left
    if function == "sum":
        return left + right
    return right if _is_less(right, left) == (function == "min") else left


def _is_less(left: Any, right: Any) -> bool:
    """Tell whether a value sorts before another; NaN is the greatest."""
    if isinstance(left, float) and (math.isnan(left) or math.isnan(right)):
        return not math.isnan(left)
    return bool(left < right)


def _values_of(known: FileProof, aggregates: tuple[Aggregate, ...]) -> list[Any] | str:
    """Return the aggregates of a file, all of whose live rows match; or what its metadata does not tell."""
    values: list[Any] = []
    for part in aggregates:
        if part.field is None:
            values.append(known.rows)
            continue
        name = part.field.name
        column = known.column(part.field)
        if isinstance(column, str):
            return column
        is_empty = column.nulls == known.rows
        if part.function == "count":
            if column.nulls is None:
                return f"a file does not say how many values {name} has"
            values.append(known.rows - column.nulls)
        elif part.function == "sum":
            if is_empty:
                values.append(None)
            elif column.nulls == 0 and column.lower is not None and column.lower == column.upper:
                values.append(sum_of(part.field.type, [(column.lower, known.rows)]))
            else:
                return f"a file's metadata does not give the sum of {name}"
        elif part.function == "distinct":
            if is_empty:
                values.append(set())
            elif column.lower is not None and column.lower == column.upper:
                values.append({column.lower})
            else:
                return f"a file's metadata does not give the distinct values of {name}"
        else:
            value = column.lower if part.function == "min" else column.upper
            if value is None and not is_empty:
                return f"a file's metadata does not give the {part.function} of {name}"
            values.append(None if is_empty else value)
    return values
