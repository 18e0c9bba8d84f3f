"""Evaluation of a predicate over Arrow arrays, in Spark's three-valued logic.

Takes a predicate tree and the columns' arrays; returns a `Truth`: TRUE, FALSE or NULL for each row. The result is
exactly Spark's for every row, whatever the encoding or offset of an array and whatever its null slots
contain. A predicate that cannot be evaluated this way raises `InternalError`.

ANDs and ORs short-circuit per row: a child is evaluated only for the rows that earlier children left
undecided, once that is worth the cost of gathering them.
"""

from __future__ import annotations

import time
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from twostage.predicates.compare_lanes import (
    bad_predicate,
    cast_lane,
    compare_lanes,
    compare_list,
    compare_literal,
    decode,
    is_nanoseconds,
    match_text,
    misfit,
)
from twostage.predicates.elements import any_of_each, elements_of
from twostage.predicates.key_bloom import may_be_keys
from twostage.predicates.key_set import are_keys
from twostage.predicates.key_tuples import may_be_tuples
from twostage.predicates.lanes import Text, count_characters, gather, read_lane, read_nulls
from twostage.predicates.predicate import (
    FALSE,
    TRUE,
    And,
    Column,
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
from twostage.predicates.row_columns import RowColumns
from twostage.predicates.truth import Truth

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from twostage.predicates.costs import Costs
    from twostage.predicates.lanes import Lane
    from twostage.predicates.predicate import Predicate

    Bools = NDArray[np.bool_]
    _OfOneColumn = Compare | CompareLength | In | InBloom | InKeys | StringMatch

MIN_ROWS_PER_UNDECIDED = 4
"""Rows per undecided row, from which an AND or OR continues with the undecided rows only: gathering costs 1
to 2 ns a row. `make bench-filters` times ORs of ANDs against pyarrow."""
MIN_ROWS_PER_UNDECIDED_NUMBER = 16
"""The same if the next child compares numbers that are already in memory, which costs only 0.1 ns a row."""


def evaluate(
    predicate: Predicate,
    columns: Mapping[int, pa.Array] | RowColumns,
    num_rows: int,
    *,
    kernels: bool = True,
    costs: Costs | None = None,
    known: Mapping[int, Truth] | None = None,
) -> Truth:
    """Evaluate a predicate over `num_rows` rows.

    Args:
        predicate: The tree; it must hold no `Unknown`.
        columns: Arrays by field id, in the type of the column before its cast; a value inside a NULL struct is
            NULL. Columns that the evaluation does not reach are not read.
        num_rows: The length of each array.
        kernels: Run compiled kernels; False: their NumPy twins.
        costs: Orders the children of ANDs and ORs by measured cost, and records new measurements; None: children
            are evaluated in the given order.
        known: The truth of parts of the predicate, by their `id`: they are not evaluated, and come first.

    Raises:
        InternalError: The predicate has an `Unknown`, a column is missing, or types do not fit each other.

    >>> from twostage.schema import Primitive
    >>> column = Column(1, ("x",), Primitive("int"))
    >>> truth = evaluate(Compare(">", column, 1), {1: pa.array([1, 2, None])}, 3)
    >>> truth.true, truth.null
    (array([False,  True, False]), array([False, False,  True]))
    """
    given = columns if isinstance(columns, RowColumns) else RowColumns.of(columns, num_rows)
    return _Evaluation(given, kernels=kernels, costs=costs, known=known or {}).evaluate(predicate)


class _Evaluation:
    """The evaluation of predicates over some rows; caches the columns' nulls and lanes."""

    def __init__(
        self, columns: RowColumns, *, kernels: bool, costs: Costs | None, known: Mapping[int, Truth]
    ) -> None:
        self.columns = columns
        self.num_rows = columns.num_rows
        self.kernels = kernels
        self.costs = costs
        self.known = known
        self.nulls: dict[int, Bools | None] = {}
        self.lanes: dict[tuple[Any, ...], Lane] = {}

    def evaluate(self, predicate: Predicate) -> Truth:
        """Evaluate a predicate of any kind."""
        if (known := self.known.get(id(predicate))) is not None:
            return known
        match predicate:
            case And(children) | Or(children):
                is_or = isinstance(predicate, Or)
                known_parts = [child for child in children if id(child) in self.known]
                others: Sequence[Predicate] = [child for child in children if id(child) not in self.known]
                if self.costs is not None and len(others) > 1:
                    others = self.costs.order(others, "OR" if is_or else "AND")
                children = (*known_parts, *others)
                return self._fold(children, is_or=is_or)
            case Not(child):
                truth = self.evaluate(child)
                return Truth(truth.false, truth.null)
            case Constant(value):
                everywhere = np.ones(self.num_rows, np.bool_)
                return Truth(everywhere if value else ~everywhere, everywhere if value is None else None)
            case IsNull(column):
                nulls = self._nulls(column)
                return Truth(np.zeros(self.num_rows, np.bool_) if nulls is None else nulls, None)
            case CompareColumns():
                return self._compare_columns(predicate)
            case InTuples():
                return self._in_tuples(predicate)
            case HasElement():
                return self._has_element(predicate)
            case Compare() | CompareLength() | In() | InBloom() | InKeys() | StringMatch():
                return self._leaf(predicate)
        raise bad_predicate(f"Predicate cannot be evaluated: {predicate}")

    def _fold(self, children: Sequence[Predicate], *, is_or: bool) -> Truth:
        """Combine the children of an AND or OR; see the module docstring about short-circuiting.

        A row is undecided until it is TRUE in an OR, FALSE in an AND.
        """
        truth = self.evaluate(FALSE if is_or else TRUE)
        undecided, count = np.ones(self.num_rows, np.bool_), self.num_rows
        clock = time.perf_counter_ns if self.costs is None else self.costs.clock
        for number, child in enumerate(children):
            if count == 0 and number:
                break
            if count * self._min_rows_per_undecided(child) < self.num_rows:
                places = np.flatnonzero(undecided)
                known = {part: found.take(places) for part, found in self.known.items()}
                rest = _Evaluation(
                    self.columns.take(places), kernels=self.kernels, costs=self.costs, known=known
                )
                part, before = rest._fold(children[number:], is_or=is_or), truth.take(places)
                return truth.put(places, before | part if is_or else before & part)
            started, read = clock(), 0 if self.costs is None else self.costs.bytes_read()
            other = self.evaluate(child)
            spent = clock() - started
            if number:
                other = truth | other if is_or else truth & other
            truth = other
            undecided = ~truth.true if is_or else truth.not_false
            remaining = int(np.count_nonzero(undecided))
            if self.costs is not None and id(child) not in self.known:
                self.costs.of(child).add(count, count - remaining, spent)
                read = self.costs.bytes_read() - read
                self.costs.count_child(child, count, count - remaining if is_or else remaining, spent, read)
            count = remaining
        return truth

    def _min_rows_per_undecided(self, child: Predicate) -> int:
        """Return the rows per undecided row from which the child is evaluated on the undecided rows only."""
        match child:
            case Compare(_, _, str() | bytes() | Decimal()):
                return MIN_ROWS_PER_UNDECIDED
            case Compare(_, column, _) | IsNull(column) if self.columns.has_read(column.field_id):
                return MIN_ROWS_PER_UNDECIDED_NUMBER
        return MIN_ROWS_PER_UNDECIDED

    def _leaf(self, leaf: _OfOneColumn) -> Truth:
        hits = self._hits(leaf, self._array(leaf.column), "rows")
        nulls = self._nulls(leaf.column)
        true = hits if nulls is None else hits > nulls
        if isinstance(leaf, In):
            if leaf.has_null:
                return Truth(true, ~true)
            if not leaf.values:  # since Spark 4.0, NULL IN () is FALSE
                return Truth(true, None)
        if isinstance(leaf, Compare | CompareLength) and leaf.op == "<=>":
            return Truth(true, None)
        return Truth(true, nulls)

    def _hits(self, leaf: _OfOneColumn, array: pa.Array, form: str) -> Bools:
        """Return for each row whether the leaf is true; arbitrary where the column is NULL."""
        if pa.types.is_null(array.type):
            return np.zeros(len(array), np.bool_)
        if isinstance(array, pa.DictionaryArray):
            if len(array.dictionary) > len(array):
                return self._hits(leaf, array.dictionary_decode(), "decoded")
            return gather(self._hits(leaf, array.dictionary, "dictionary"), array)
        lane = self._lane(leaf.column, array, form)
        match leaf:
            case Compare(op, column, value):
                return compare_literal(op, column, lane, value, kernels=self.kernels)
            case CompareLength(op, column, value):
                if not isinstance(lane, Text) or not lane.is_string:
                    raise misfit(column, value)
                return compare_literal(op, column, count_characters(array), value, kernels=self.kernels)
            case In(column, values):
                return compare_list(column, lane, values, kernels=self.kernels)
            case InBloom(column, bloom):
                return may_be_keys(bloom, lane, column.value_type, kernels=self.kernels)
            case InKeys(column, keys):
                return are_keys(keys, lane, column.value_type, kernels=self.kernels)
            case StringMatch(kind, column, value):
                return match_text(kind, column, lane, value, kernels=self.kernels)

    def _has_element(self, leaf: HasElement) -> Truth:
        array, nulls = self._array(leaf.column), self._nulls(leaf.column)
        if pa.types.is_null(array.type):
            return Truth(np.zeros(self.num_rows, np.bool_), nulls)
        offsets, elements = elements_of(array)
        inner = _Evaluation(
            RowColumns.of({leaf.element.field_id: elements}, len(elements)),
            kernels=self.kernels,
            costs=None,
            known={},
        )
        found = inner.evaluate(Compare("=", leaf.element, leaf.value))
        true = any_of_each(found.true, offsets)
        null = None if found.null is None else any_of_each(found.null, offsets) > true
        if nulls is not None:  # the elements of a NULL list are arbitrary
            true, null = true > nulls, nulls if null is None else null | nulls
        return Truth(true, null)

    def _in_tuples(self, leaf: InTuples) -> Truth:
        null = None
        for column in leaf.columns:
            nulls = self._nulls(column)
            null = nulls if null is None else null if nulls is None else null | nulls
        arrays = [decode(self._array(column), column) for column in leaf.columns]
        if any(pa.types.is_null(array.type) for array in arrays):
            return Truth(np.zeros(self.num_rows, np.bool_), null)
        lanes = [
            self._lane(column, array, "cast") for column, array in zip(leaf.columns, arrays, strict=True)
        ]
        kinds = [column.value_type for column in leaf.columns]
        hits = may_be_tuples(leaf.keys, lanes, kinds, self.num_rows, kernels=self.kernels)
        return Truth(hits if null is None else hits > null, null)

    def _compare_columns(self, leaf: CompareColumns) -> Truth:
        hits = self._hits_of_columns(leaf)
        left, right = self._nulls(leaf.left), self._nulls(leaf.right)
        null = right if left is None else left if right is None else left | right
        true = hits if null is None else hits > null
        if leaf.op != "<=>":
            return Truth(true, null)
        return Truth(true if left is None or right is None else true | (left & right), None)

    def _hits_of_columns(self, leaf: CompareColumns) -> Bools:
        op, sides = leaf.op, (leaf.left, leaf.right)
        arrays = [decode(self._array(column), column) for column in sides]
        if any(pa.types.is_null(array.type) for array in arrays):
            return np.zeros(self.num_rows, np.bool_)
        left, right = (self._lane(column, array, "cast") for column, array in zip(sides, arrays, strict=True))
        hits = compare_lanes(op, left, right, kernels=self.kernels)
        if hits is None:
            raise bad_predicate(f"Columns' types do not compare: {leaf}")
        return hits

    def _array(self, column: Column) -> pa.Array:
        array = self.columns.array(column.field_id)
        if array is None or len(array) != self.num_rows:
            length = "none" if array is None else len(array)
            raise bad_predicate(f"Expected {self.num_rows} rows of column {column}, got {length}")
        return array

    def _nulls(self, column: Column) -> Bools | None:
        if column.field_id not in self.nulls:
            self.nulls[column.field_id] = read_nulls(self._array(column))
        return self.nulls[column.field_id]

    def _lane(self, column: Column, array: pa.Array, form: str) -> Lane:
        """Return the lane of a column's array after its cast; `form` names the array (rows, dictionary, …)."""
        key = (column.field_id, form, column.cast)
        if key not in self.lanes:
            if pa.types.is_timestamp(array.type) and (array.type.unit == "ns") != is_nanoseconds(column):
                raise bad_predicate(f"Column {column} of type {column.type} came as {array.type}")
            self.lanes[key] = cast_lane(read_lane(array), column)
        return self.lanes[key]
