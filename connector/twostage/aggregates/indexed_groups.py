"""Aggregates of selected rows of one data file, by the bitmaps of its columns.

Takes the indexes of a data file, a bitmap of its rows, and what its metadata proves about columns; gives for each group that has
rows the values of the aggregates, as `totals.py` adds them up. The rule: as Spark aggregates these rows; NULL is a group of its
own, and an extreme of floats that is zero is not answered, because its sign is not known.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from twostage.aggregates.file_proofs import COMPARED, GROUPED, ColumnProof
from twostage.aggregates.indexed_file import UnansweredError
from twostage.aggregates.sums import sum_of
from twostage.schema import Primitive

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pyroaring import BitMap

    from twostage.aggregates.indexed_file import IndexedFile
    from twostage.aggregates.sums import Sum
    from twostage.aggregates.totals import Aggregate, Group
    from twostage.schema import Field

GROUPED_BY_INDEX = GROUPED | {"float", "double"}
"""Types to group by, and whose distinct values are counted: an index has one zero and one NaN, as Spark's groups have."""
COMPARED_BY_INDEX = COMPARED | {"string"}
"""Types of minima and maxima: an index has whole texts, in Spark's order."""
_NOTHING = ColumnProof(None)


class GroupsOfFile:
    """Aggregates of one data file.

    Args:
        file: Its indexes.
        proof_of: What metadata proves about a column over all rows of the file, or why it proves nothing.
        constant_of: The value that the partition gives a column in all rows; ``...`` where it does not.
    """

    def __init__(
        self,
        file: IndexedFile,
        proof_of: Callable[[Field], ColumnProof | str],
        constant_of: Callable[[Field], Any],
    ) -> None:
        self._file = file
        self._proof_of = proof_of
        self._constant_of = constant_of
        self._proofs: dict[int, ColumnProof] = {}

    def aggregate(
        self, rows: BitMap, groups: Sequence[Field], aggregates: Sequence[Aggregate]
    ) -> dict[Group, list[Any]]:
        """Return the aggregates of some rows.

        Args:
            rows: Positions in the file.
            groups: The columns to group by.
            aggregates: The functions.

        Raises:
            UnansweredError: Indexes do not tell, or it would take too long.
        """
        if not rows:
            return {}
        if len(groups) == 1 and len(rows) == self._file.num_rows:
            counted = self._counted(groups[0], aggregates)
            if counted is not None:
                return counted
        return {
            group: [self._value(part, members) for part in aggregates]
            for group, members in self._divided(rows, groups)
        }

    def _counted(self, by: Field, aggregates: Sequence[Aggregate]) -> dict[Group, list[Any]] | None:
        """Return the aggregates of all rows by one column, if its values' numbers of rows suffice; else None."""
        if self._constant(by) is not ...:
            return None
        if not all(
            part.field is None
            or (part.function == "count" and (part.field.id == by.id or self._proof(part.field).nulls == 0))
            for part in aggregates
        ):
            return None
        values, counts, nulls = self._file.counts(by)
        found: dict[Group, list[Any]] = {
            (value,): [count] * len(aggregates) for value, count in zip(values, counts, strict=True)
        }
        if nulls:
            is_null = [part.field is not None and part.field.id == by.id for part in aggregates]
            found[None,] = [0 if one else nulls for one in is_null]
        return found

    def _divided(self, rows: BitMap, groups: Sequence[Field]) -> Iterator[tuple[Group, BitMap]]:
        """Yield each group with its members among the rows."""
        if not groups:
            yield (), rows
            return
        first, *others = groups
        constant = self._constant(first)
        if constant is not ...:
            for group, members in self._divided(rows, others):
                yield (constant, *group), members
            return
        null = self._file.nulls(first)
        values = self._file.values(first)
        self._file.budget.compare(len(values) + 1, self._file.num_rows)
        for value, own in (*values, (None, null)):
            members = rows & own
            if members:
                for group, rest in self._divided(members, others):
                    yield (value, *group), rest

    def _constant(self, field: Field) -> Any:
        """Return the value that a column has in all rows of the file; ``...`` where that is not known."""
        value = self._constant_of(field)
        known = self._proof(field)
        if value is ... and known.nulls == self._file.num_rows:
            return None
        is_single = known.nulls == 0 and known.lower is not None and known.lower == known.upper
        if value is ... and is_single:
            value = known.lower
        # A default may be -0.0; groups have one zero.
        return 0.0 if isinstance(value, float) and value == 0 else value

    # --- one aggregate of the rows of one group, one or more --------------------------------------------

    def _value(self, part: Aggregate, rows: BitMap) -> Any:
        if part.field is None:
            return len(rows)
        known = self._proof(part.field).of_part(self._file.num_rows, len(rows))
        match part.function:
            case "count":
                return self._count(part.field, rows, known)
            case "distinct":
                return self._distinct(part.field, rows, known)
            case "sum":
                return self._sum(part.field, rows, known)
        return self._extreme(part.field, rows, known, last=part.function == "max")

    def _proof(self, field: Field) -> ColumnProof:
        if field.id not in self._proofs:
            found = self._proof_of(field)
            self._proofs[field.id] = _NOTHING if isinstance(found, str) else found
        return self._proofs[field.id]

    def _count(self, field: Field, rows: BitMap, known: ColumnProof) -> int:
        if known.nulls is not None:
            return len(rows) - known.nulls
        null = self._file.nulls(field)
        self._file.budget.compare(1, self._file.num_rows)
        return len(rows) - int(rows.intersection_cardinality(null))

    def _extreme(self, field: Field, rows: BitMap, known: ColumnProof, *, last: bool) -> Any:
        if known.nulls == len(rows):
            return None
        found = known.upper if last else known.lower
        if found is None:
            assert isinstance(field.type, Primitive)
            if field.type.name not in COMPARED_BY_INDEX:
                raise UnansweredError(f"an index does not compare values of type {field.type}")
            found = self._file.extreme(field, rows, last=last)
        if isinstance(found, float) and found == 0:
            raise UnansweredError(f"an extreme of {field.name} is a zero, of either sign")
        return found

    def _sum(self, field: Field, rows: BitMap, known: ColumnProof) -> Sum | None:
        if known.nulls == len(rows):
            return None
        if known.nulls == 0 and known.lower is not None and known.lower == known.upper:
            return sum_of(field.type, [(known.lower, len(rows))])
        present = rows if known.nulls == 0 else rows - self._file.nulls(field)
        return self._file.sum(field, present) if present else None

    def _distinct(self, field: Field, rows: BitMap, known: ColumnProof) -> set[Any]:
        if known.nulls == len(rows):
            return set()
        if known.lower is not None and known.lower == known.upper:
            return {known.lower}
        assert isinstance(field.type, Primitive)
        if field.type.name not in GROUPED_BY_INDEX:
            raise UnansweredError(f"an index does not tell values of type {field.type} apart")
        if len(rows) == self._file.num_rows:
            return set(self._file.counts(field)[0])
        values = self._file.values(field)
        self._file.budget.compare(len(values), self._file.num_rows)
        return {value for value, own in values if own.intersect(rows)}
