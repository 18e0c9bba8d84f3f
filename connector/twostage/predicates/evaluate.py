"""Which rows a predicate is true for, in Spark's three-valued logic.

Takes a predicate tree and the columns' Arrow arrays; gives a `Truth`: where it is true, where NULL. The
rule: exactly Spark's answer, for every row, whatever the array's encoding, offset or the garbage in its
null slots; what cannot be answered so is an `InternalError`, never a guess.
"""

from __future__ import annotations

import time
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from twostage.errors import InternalError
from twostage.predicates.lanes import Numbers, Text, Wide, count_characters, gather, read_lane, read_nulls
from twostage.predicates.literals import (
    as_float,
    as_integers,
    as_text,
    as_texts,
    as_whole,
    as_words,
    remember,
)
from twostage.predicates.predicate import (
    FALSE,
    TRUE,
    And,
    Column,
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
from twostage.predicates.row_columns import RowColumns
from twostage.predicates.truth import Truth
from twostage.schema import Primitive
from twostage_native import compare, members, strings

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from twostage.predicates.costs import Costs
    from twostage.predicates.lanes import Lane
    from twostage.predicates.predicate import Predicate
    from twostage_native._jit import Kernel

    Bools = NDArray[np.bool_]
    _OfOneColumn = Compare | CompareLength | In | StringMatch

_FLOATS = {"float": np.float32, "double": np.float64}
_ORDERS: dict[str, tuple[Callable[..., Bools], bool]] = {
    "=": (compare.equal, False),
    "<=>": (compare.equal, False),
    "<>": (compare.equal, True),
    "<": (compare.less, False),
    ">=": (compare.less, True),
    "<=": (compare.less_equal, False),
    ">": (compare.less_equal, True),
}
"""For each comparison, the one to ask and whether to negate its answer: Spark's order is total."""
_SIGNS: dict[str, Callable[[NDArray[np.int8]], Bools]] = {
    "=": lambda signs: signs == 0,
    "<=>": lambda signs: signs == 0,
    "<>": lambda signs: signs != 0,
    "<": lambda signs: signs < 0,
    "<=": lambda signs: signs <= 0,
    ">": lambda signs: signs > 0,
    ">=": lambda signs: signs >= 0,
}


SPARSE = 4
"""Below one undecided row in SPARSE, an AND or OR goes on with those rows alone: to cut takes 1 to 2 ns a row."""
SPARSE_NUMBERS = 16
"""The same where the next part compares numbers that were read: 0.1 ns a row."""


def evaluate(
    predicate: Predicate,
    columns: Mapping[int, pa.Array] | RowColumns,
    num_rows: int,
    *,
    kernels: bool = True,
    costs: Costs | None = None,
) -> Truth:
    """Evaluate a predicate over `num_rows` rows.

    Args:
        predicate: The tree; it must hold no `Unknown`.
        columns: The array of each leaf column by field id, in the column's own type, nulls of the structs
            around it applied. Columns that nobody asks for are not read.
        num_rows: How long each array is.
        kernels: Run compiled kernels where they pay; False: plain NumPy only.
        costs: Measures the children of ANDs and ORs, and orders them; None: they are asked as they stand.

    Raises:
        InternalError: An `Unknown`, a missing column, or types that do not fit each other.

    >>> column = Column(1, ("x",), Primitive("int"))
    >>> truth = evaluate(Compare(">", column, 1), {1: pa.array([1, 2, None])}, 3)
    >>> truth.true, truth.null
    (array([False,  True, False]), array([False, False,  True]))
    """
    given = columns if isinstance(columns, RowColumns) else RowColumns.of(columns, num_rows)
    return _Evaluation(given, kernels=kernels, costs=costs).evaluate(predicate)


class _Evaluation:
    """The columns of some rows, and what was already read of them."""

    def __init__(self, columns: RowColumns, *, kernels: bool, costs: Costs | None) -> None:
        self.columns = columns
        self.num_rows = columns.num_rows
        self.kernels = kernels
        self.costs = costs
        self.nulls: dict[int, Bools | None] = {}
        self.lanes: dict[tuple[Any, ...], Lane] = {}

    def evaluate(self, predicate: Predicate) -> Truth:
        """Answer a predicate of any kind."""
        match predicate:
            case And(children) | Or(children):
                is_or = isinstance(predicate, Or)
                if self.costs is not None:
                    children = tuple(self.costs.order(children, "OR" if is_or else "AND"))
                return self._fold(children, is_or=is_or)
            case Not(child):
                answer = self.evaluate(child)
                return Truth(answer.false, answer.null)
            case Constant(value):
                everywhere = np.ones(self.num_rows, np.bool_)
                return Truth(everywhere if value else ~everywhere, everywhere if value is None else None)
            case IsNull(column):
                nulls = self._nulls(column)
                return Truth(np.zeros(self.num_rows, np.bool_) if nulls is None else nulls, None)
            case CompareColumns():
                return self._compare_columns(predicate)
            case Compare() | CompareLength() | In() | StringMatch():
                return self._leaf(predicate)
        raise _bad(f"Predicate cannot be evaluated: {predicate}")

    def _fold(self, children: Sequence[Predicate], *, is_or: bool) -> Truth:
        """Combine the children's answers; each is asked about few rows but the undecided ones.

        Undecided is what is not yet TRUE in an OR, not yet FALSE in an AND.
        """
        answer = self.evaluate(FALSE if is_or else TRUE)
        undecided, count = np.ones(self.num_rows, np.bool_), self.num_rows
        for number, child in enumerate(children):
            if count == 0 and number:
                break
            if count * self._sparse(child) < self.num_rows:
                places = np.flatnonzero(undecided)
                rest = _Evaluation(self.columns.cut(places), kernels=self.kernels, costs=self.costs)
                part, before = rest._fold(children[number:], is_or=is_or), answer.take(places)
                return answer.put(places, before | part if is_or else before & part)
            started = time.perf_counter_ns()
            other = self.evaluate(child)
            spent = time.perf_counter_ns() - started
            if number:
                other = answer | other if is_or else answer & other
            answer = other
            undecided = ~answer.true if is_or else answer.not_false
            left = int(np.count_nonzero(undecided))
            if self.costs is not None:
                self.costs.of(child).add(count, count - left, spent)
            count = left
        return answer

    def _sparse(self, child: Predicate) -> int:
        """Return below which share of undecided rows (one in …) a child is asked about those alone."""
        match child:
            case Compare(_, column, value) if not isinstance(value, str | bytes | Decimal):
                return SPARSE_NUMBERS if self.columns.holds(column.field_id) else SPARSE
            case IsNull(column):
                return SPARSE_NUMBERS if self.columns.holds(column.field_id) else SPARSE
        return SPARSE

    def _leaf(self, leaf: _OfOneColumn) -> Truth:
        hits = self._hits(leaf, self._array(leaf.column), "rows")
        nulls = self._nulls(leaf.column)
        true = hits if nulls is None else hits > nulls
        if isinstance(leaf, In):
            if leaf.has_null:
                return Truth(true, ~true)
            if not leaf.values:  # Spark since 4.0: nothing, not even NULL, is in the empty list
                return Truth(true, None)
        if isinstance(leaf, Compare | CompareLength) and leaf.op == "<=>":
            return Truth(true, None)
        return Truth(true, nulls)

    def _hits(self, leaf: _OfOneColumn, array: pa.Array, form: str) -> Bools:
        """Return where the leaf is true; a NULL row's answer means nothing."""
        if pa.types.is_null(array.type):
            return np.zeros(len(array), np.bool_)
        if isinstance(array, pa.DictionaryArray):
            if len(array.dictionary) > len(array):
                return self._hits(leaf, array.dictionary_decode(), "decoded")
            return gather(self._hits(leaf, array.dictionary, "dictionary"), array)
        lane = self._lane(leaf.column, array, form)
        match leaf:
            case Compare(op, column, value):
                return self._compare(op, column, lane, value)
            case CompareLength(op, column, value):
                if not isinstance(lane, Text) or not lane.is_string:
                    raise _misfit(column, value)
                return self._compare(op, column, count_characters(array), value)
            case In(column, values):
                return self._in(column, lane, values)
            case StringMatch(kind, column, value):
                if not isinstance(lane, Text) or not lane.is_string:
                    raise _misfit(column, value)
                if kind == "contains":
                    return strings.contains(lane.offsets, lane.data, as_text(value))
                search = strings.starts_with if kind == "prefix" else strings.ends_with
                return self._run(search, lane.offsets, lane.data, as_text(value))

    def _compare(self, op: str, column: Column, lane: Lane, value: Any) -> Bools:
        match lane, value:
            case Numbers(values), bool() if values.dtype.kind == "b":
                return _ordered(op, values, np.bool_(value))
            case Numbers(values), int() | float() if values.dtype.kind == "f" and type(value) is not bool:
                return _ordered(op, values, as_float(value, values.dtype))
            case Numbers(values), int() | Decimal() if values.dtype.kind == "i" and type(value) is not bool:
                restated = as_whole(op, value, 0, 8 * values.itemsize)
                if isinstance(restated, bool):
                    return np.full(len(values), restated)
                return _ordered(restated[0], values, values.dtype.type(restated[1]))
            case Wide(words, scale), Decimal():
                restated = as_whole(op, value, scale, 128)
                if isinstance(restated, bool):
                    return np.full(len(words), restated)
                op, whole = restated
                low, high = np.frombuffer(whole.to_bytes(16, "little", signed=True), np.int64)
                return _SIGNS[op](self._run(compare.sign_wide, words, high, low))
            case Text(offsets, data, is_string), str() | bytes() if is_string == isinstance(value, str):
                literal = as_text(value)
                if op in ("=", "<=>", "<>"):
                    same = self._run(strings.equal_text, offsets, data, literal)
                    return ~same if op == "<>" else same
                return _SIGNS[op](self._run(strings.sign_text, offsets, data, literal))
        raise _misfit(column, value)

    def _in(self, column: Column, lane: Lane, listed: tuple[Any, ...]) -> Bools:
        if not all(_fits(lane, value) for value in listed[:1]):
            raise _misfit(column, listed[0])
        match lane:
            case Numbers(values) if values.dtype.kind == "b":
                return np.isin(values, [bool(value) for value in listed])
            case Numbers(values) if values.dtype.kind == "f":
                prepared = remember(listed, "float", lambda: _prepared_floats(listed))
                return self._run(members.in_integers, members.canonical_bits(values), *prepared)
            case Numbers(values):
                prepared = remember(listed, "integer", lambda: members.prepare_integers(as_integers(listed)))
                return self._run(members.in_integers, values, *prepared)
            case Wide(words, scale):
                prepared = remember(listed, scale, lambda: members.prepare_wide(as_words(listed, scale)))
                return self._run(members.in_wide, words, *prepared)
            case Text(offsets, data):
                prepared = remember(listed, "text", lambda: strings.prepare_texts(*as_texts(listed)))
                return self._run(strings.in_texts, offsets, data, *prepared)

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
        arrays = [_decoded(self._array(column), column) for column in sides]
        if any(pa.types.is_null(array.type) for array in arrays):
            return np.zeros(self.num_rows, np.bool_)
        left, right = (self._lane(column, array, "cast") for column, array in zip(sides, arrays, strict=True))
        match left, right:
            case Numbers(a), Numbers(b) if a.dtype.kind == b.dtype.kind:
                return _ordered(op, a, b)
            case Wide(a, scale), Wide(b, other_scale) if scale == other_scale:
                return _SIGNS[op](self._run(compare.sign_wide_columns, a, b))
            case Text(), Text() if left.is_string == right.is_string:
                texts = (left.offsets, left.data, right.offsets, right.data)
                if op in ("=", "<=>", "<>"):
                    same = self._run(strings.equal_text_columns, *texts)
                    return ~same if op == "<>" else same
                return _SIGNS[op](self._run(strings.sign_text_columns, *texts))
        raise _bad(f"Columns' types do not compare: {leaf}")

    def _run(self, kernel: Kernel, *arguments: Any) -> NDArray[Any]:
        answer: NDArray[Any] = kernel(*arguments) if self.kernels else kernel.twin(*arguments)
        return answer

    def _array(self, column: Column) -> pa.Array:
        array = self.columns.array(column.field_id)
        if array is None or len(array) != self.num_rows:
            length = "none" if array is None else len(array)
            raise _bad(f"Expected {self.num_rows} rows of column {column}, got {length}")
        return array

    def _nulls(self, column: Column) -> Bools | None:
        if column.field_id not in self.nulls:
            self.nulls[column.field_id] = read_nulls(self._array(column))
        return self.nulls[column.field_id]

    def _lane(self, column: Column, array: pa.Array, form: str) -> Lane:
        """Return the values of one form of a column's array, after the column's cast."""
        key = (column.field_id, form, column.cast)
        if key not in self.lanes:
            if pa.types.is_timestamp(array.type) and (array.type.unit == "ns") != _is_nanoseconds(column):
                raise _bad(f"Column {column} of type {column.type} came as {array.type}")
            self.lanes[key] = _widened(read_lane(array), column)
        return self.lanes[key]


def _prepared_floats(listed: tuple[float, ...]) -> Any:
    return members.prepare_integers(np.unique(members.canonical_bits(np.array(listed, np.float64))))


def _ordered(op: str, left: NDArray[Any], right: Any) -> Bools:
    order, negate = _ORDERS[op]
    hits = order(left, right)
    return np.logical_not(hits, out=hits) if negate else hits


def _fits(lane: Lane, value: Any) -> bool:
    """Tell whether a literal is of the lane's family."""
    match lane:
        case Numbers(values) if values.dtype.kind == "b":
            return isinstance(value, bool)
        case Numbers(values) if values.dtype.kind == "f":
            return isinstance(value, int | float) and not isinstance(value, bool)
        case Numbers():
            return isinstance(value, int | Decimal) and not isinstance(value, bool)
        case Wide():
            return isinstance(value, Decimal)
        case Text():
            return isinstance(value, str if lane.is_string else bytes)


def _widened(lane: Lane, column: Column) -> Lane:
    """Apply a cast where the value changes or its family does: to a float, rounding as Java does."""
    cast, kind = column.cast, column.type
    if cast is None or cast == kind:
        return lane
    is_wider = cast.name == "decimal" and cast.precision - cast.scale >= _digits(column)
    if isinstance(lane, Numbers) and lane.values.dtype.kind in "if":
        is_float = lane.values.dtype.kind == "f"
        if cast.name in _FLOATS and not (is_float and cast.name == "float"):
            return Numbers(_frozen(lane.values.astype(_FLOATS[cast.name])))
        if not is_float and cast.name == "long":
            return lane
        if not is_float and is_wider:
            return lane
        if _is_nanoseconds(column) and f"{cast.name}_ns" == str(kind):
            return Numbers(_frozen(lane.values // 1000))  # rounds down, before 1970 too
    if isinstance(lane, Wide) and is_wider and cast.scale >= lane.scale:
        return lane
    raise _bad(f"Not a widening cast: {column}")


def _frozen(values: NDArray[Any]) -> NDArray[Any]:
    values.flags.writeable = False
    return values


def _is_nanoseconds(column: Column) -> bool:
    return isinstance(column.type, Primitive) and column.type.name.endswith("_ns")


def _digits(column: Column) -> int:
    """Return how many digits before the point a number column's values can have."""
    kind = column.type
    if isinstance(kind, Primitive) and kind.name == "decimal":
        return kind.precision - kind.scale
    return 10 if isinstance(kind, Primitive) and kind.name == "int" else 19


def _decoded(array: pa.Array, column: Column) -> pa.Array:
    """Return plain values, and decimals in the scale of the cast, which a comparison of columns needs."""
    if isinstance(array, pa.DictionaryArray):
        array = array.dictionary_decode()
    cast = column.cast
    if cast is None or cast.name != "decimal" or pa.types.is_null(array.type):
        return array
    try:
        if pa.types.is_integer(array.type):
            array = array.cast(pa.decimal128(19, 0))
        return array.cast(pa.decimal128(cast.precision, cast.scale))
    except pa.ArrowInvalid as error:
        raise _bad(f"Cast overflows: {column}: {error}") from error


def _misfit(column: Column, value: Any) -> InternalError:
    return _bad(f"Literal does not fit column {column}: {value!r}")


def _bad(message: str) -> InternalError:
    return InternalError("BAD_PREDICATE", message, stage="filter")
