"""Parse the option `filter`: a predicate as Spark SQL text, for reads without the planner.

Takes the text and the scan's schema; returns a `Predicate` without `Unknown`, because Spark does not evaluate it again.
Anything that we would not evaluate exactly as Spark does raises `OptionError`. The parser is sqlglot's, dialect
``spark``.
"""

from __future__ import annotations

import datetime
import math
import re
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any

from twostage.errors import OptionError, nearest
from twostage.predicates import predicate as tree
from twostage.predicates.bind import column_of, is_comparable
from twostage.predicates.predicate import (
    Column,
    Compare,
    CompareColumns,
    CompareLength,
    HasElement,
    In,
    IsNull,
    Predicate,
    StringMatch,
)
from twostage.schema import List, Map, Primitive, Schema, nearest_float, parse_value

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sqlglot import exp

    from twostage.schema import Type

_OPERATORS = {
    "EQ": "=",
    "NEQ": "<>",
    "LT": "<",
    "LTE": "<=",
    "GT": ">",
    "GTE": ">=",
    "NullSafeEQ": "<=>",
    "NullSafeNEQ": "<=>",
}
_ELEMENTS: dict[str, tuple[str, type[List | Map]]] = {
    "ArrayContains": ("expression", List),
    "MapContainsKey": ("key", Map),
}
"""By sqlglot's class: which argument is the value, and the column's type."""
_FLOATS = (Primitive("float"), Primitive("double"))
_WHOLE = {"int": 31, "long": 63}
"""Bits of an integer, without the sign bit."""
_MATCHES = {"StartsWith": "prefix", "EndsWith": "suffix", "Contains": "contains"}
_DATED = re.compile(r"\d{4}-\d{2}-\d{2}(?:[ T]\d{2}:\d{2}[^,]*)?")
_MAX_OFFSET = datetime.timedelta(hours=18)
"""Of a time zone, as in Java."""
_MAX_PRECISION = 38
_ELSEWHERE = "Put it into DataFrame.where or SQL: Spark evaluates it."
_NUMBERS = ("int", "long", "float", "double", "decimal")


def parse_filter(text: str, schema: Schema, *, case_sensitive: bool = False) -> Predicate:
    """Parse the option `filter`.

    Raises:
        OptionError: The text is not SQL, names an unknown column, or has an expression that we do not evaluate.

    >>> from twostage.schema import Field
    >>> schema = Schema(schema_id=0, fields=(Field(id=1, name="a", type=Primitive("long")),))
    >>> str(parse_filter("a IN (5, 7) OR a IS NULL", schema))
    'a IN (5, 7) OR a IS NULL'
    """
    import sqlglot  # noqa: PLC0415 - 0.2 s, and only this option needs it

    try:
        expression = sqlglot.parse_one(text, dialect="spark")
    except sqlglot.errors.SqlglotError as error:
        raise OptionError(
            "BAD_FILTER",
            f"Option 'filter' is not a SQL predicate: {text!r}",
            stage="options",
            hint=_where(error),
        ) from None
    return _FilterBinder(schema, case_sensitive=case_sensitive).predicate(expression)


def _where(error: Exception) -> str:
    """Return a hint with the position of a syntax error; sqlglot's own messages name its classes."""
    for one in getattr(error, "errors", ()):
        if one.get("line") is not None:
            return f"Not understood at or after line {one['line']}, column {one['col']}: {one.get('highlight')!r}."
    return "Expected a predicate such as: a IN (5, 7) OR b >= 'x'."


def _refuse(expression: exp.Expression, hint: str | None = None) -> OptionError:
    return OptionError(
        "UNSUPPORTED_FILTER",
        f"Option 'filter' contains something that twostage does not evaluate: {expression.sql('spark')}",
        stage="options",
        hint=hint or _ELSEWHERE,
    )


class _FilterBinder:
    """Translates sqlglot's syntax tree.

    Nodes are matched by class name, so that sqlglot (0.2 s to import) is loaded only if the option is set.
    """

    def __init__(self, schema: Schema, *, case_sensitive: bool) -> None:
        self.schema = schema
        self.case_sensitive = case_sensitive

    def predicate(self, node: exp.Expression) -> Predicate:
        """Translate a node that is a predicate."""
        kind = type(node).__name__
        negated = bool(node.args.get("negate"))
        found = self._connective(node) or self._leaf(node, kind)
        if found is None:
            raise _refuse(node)
        return tree.Not(found) if negated or kind == "NullSafeNEQ" else found

    def _connective(self, node: exp.Expression) -> Predicate | None:
        match type(node).__name__:
            case "Paren":
                return self.predicate(node.this)
            case "And":
                return tree.both(self.predicate(node.this), self.predicate(node.expression))
            case "Or":
                return tree.either(self.predicate(node.this), self.predicate(node.expression))
            case "Not":
                return tree.Not(self.predicate(node.this))
            case "Boolean":
                return tree.Constant(bool(node.this))
            case "Null":
                return tree.Constant(None)
        return None

    def _leaf(self, node: exp.Expression, kind: str) -> Predicate | None:
        if kind in ("Column", "Dot"):
            column = self._column(node)
            return Compare("=", column, value=True) if column.type == Primitive("boolean") else None
        if kind in _OPERATORS:
            return self._comparison(_OPERATORS[kind], node.this, node.expression)
        if kind == "Between" and not node.args.get("symmetric"):
            low = self._comparison(">=", node.this, node.args["low"])
            return tree.both(low, self._comparison("<=", node.this, node.args["high"]))
        if kind == "Is" and type(node.expression).__name__ == "Null":
            return IsNull(self._column(node.this))
        if kind == "In" and not node.args.get("query") and not node.args.get("unnest"):
            return self._in(node)
        if kind == "Like":
            return self._like(node)
        if kind in _MATCHES and self._is_string(node.this) and self._is_text(node.expression):
            return StringMatch(_MATCHES[kind], self._column(node.this), str(node.expression.this))
        if kind in _ELEMENTS:
            return self._has_element(node, *_ELEMENTS[kind])
        if kind == "IsNan" and (column := self._column(node.this)).type in _FLOATS:
            return tree.both(tree.Not(IsNull(column)), Compare("=", column, math.nan))
        return None

    def _has_element(self, node: exp.Expression, value_name: str, kind: type[List | Map]) -> Predicate:
        """Translate ``array_contains(column, literal)`` and ``map_contains_key(column, literal)``."""
        column, literal = self._column(node.this), node.args[value_name]
        if not isinstance(column.type, kind):
            raise _refuse(node, f"{column} is {column.type}.")
        inner = column.type.element if isinstance(column.type, List) else column.type.key
        element = column_of(inner, self.schema.path(inner.id))
        if not is_comparable(element.type) or element.cast:
            raise _refuse(node)
        if type(literal).__name__ == "Null":
            return tree.Constant(None)
        compared, value = self._literal(element, literal)
        if compared.cast or not _fits(element.type, value):  # Spark would cast the elements
            raise _refuse(node, f"Write a literal of the elements' type, {element.type}. " + _ELSEWHERE)
        return HasElement(column, element, value)

    def _is_string(self, node: exp.Expression) -> bool:
        return self._column(node).type == Primitive("string")

    @staticmethod
    def _is_text(node: exp.Expression) -> bool:
        return type(node).__name__ == "Literal" and bool(node.args.get("is_string"))

    def _like(self, node: exp.Expression) -> Predicate | None:
        if not self._is_string(node.this) or not self._is_text(node.expression):
            return None
        column, pattern = self._column(node.this), str(node.expression.this)
        if "_" in pattern or "\\" in pattern:
            raise _refuse(node, "LIKE may contain % but neither _ nor \\ here. " + _ELSEWHERE)
        inner = pattern.strip("%")
        begins, ends = not pattern.startswith("%"), not pattern.endswith("%")
        parts = re.split("%+", inner)
        if (
            len(parts) == 2 and begins and ends
        ):  # rewritten as Spark's LikeSimplification does: prefix and suffix must not overlap
            first, last = (
                StringMatch(kind, column, part)
                for kind, part in zip(("prefix", "suffix"), parts, strict=True)
            )
            return tree.both(CompareLength(">=", column, len(parts[0]) + len(parts[1])), first, last)
        if len(parts) > 1:
            raise _refuse(node, "LIKE may have % at its ends, or once within: 'a%b'. " + _ELSEWHERE)
        if begins and ends:
            return Compare("=", column, pattern)
        kinds = {(True, False): "prefix", (False, True): "suffix", (False, False): "contains"}
        return StringMatch(kinds[begins, ends], column, inner)

    def _length(self, op: str, node: exp.Expression, right: exp.Expression) -> Predicate:
        """Translate ``length(column) op number``."""
        column, number = self._column(node.this), _number(right)
        if column.type != Primitive("string") or node.args.get("binary"):
            raise _refuse(node, "length() takes a string column here. " + _ELSEWHERE)
        if type(right).__name__ == "Null":
            return IsNull(column) if op == "<=>" else tree.Constant(None)
        if not isinstance(number, Decimal) or number != int(number) or abs(number) >= 2**31:
            raise _refuse(node.parent or node, "Compare length() with a whole number.")
        return CompareLength(op, column, int(number))

    def _column(self, node: exp.Expression) -> Column:
        while type(node).__name__ == "Paren":
            node = node.this
        if type(node).__name__ == "Dot" or type(node).__name__ == "Column":
            path = tuple(part.name for part in node.parts)
        else:
            raise _refuse(node)
        field = self.schema.find(path, case_sensitive=self.case_sensitive)
        if field is None:
            known = [".".join(self.schema.path(field_id)) for field_id in self.schema.field_ids()]
            raise OptionError(
                "UNKNOWN_COLUMN",
                f"Option 'filter' names no such column: {'.'.join(path)!r}",
                stage="options",
                hint=nearest(".".join(path), known),
            )
        return column_of(field, self.schema.path(field.id))

    def _comparison(self, op: str, left: exp.Expression, right: exp.Expression) -> Predicate:
        left_is_column, right_is_column = _names_column(left), _names_column(right)
        if right_is_column and not left_is_column:
            return self._comparison(tree.mirrored(op), right, left)
        if type(left).__name__ == "Length" and not right_is_column:
            return self._length(op, left, right)
        if type(right).__name__ == "Length" and not left_is_column:
            return self._length(tree.mirrored(op), right, left)
        column = self._column(left)
        if right_is_column:
            other = self._column(right)
            if column.value_type != other.value_type or not is_comparable(column.value_type):
                hint = "Both columns need the same type, one that can be compared."
                raise _refuse(left.parent or left, hint)
            return CompareColumns(op, column, other)
        if type(right).__name__ == "Null":
            return IsNull(column) if op == "<=>" else tree.Constant(None)
        return Compare(op, *self._literal(column, right))

    def _in(self, node: exp.Expression) -> Predicate:
        column = self._column(node.this)
        items = node.expressions
        values = [self._literal(column, item) for item in items if type(item).__name__ != "Null"]
        has_null = len(values) < len(items)
        if not values:
            return tree.Constant(None) if has_null else tree.FALSE
        numbers = [value for _, value in values]
        if (
            isinstance(column.type, Primitive)
            and column.type.name == "decimal"
            and not _are_compared_exactly(column.type, numbers)
        ):
            raise _refuse(
                node,
                "Spark has no decimal type for all of these numbers; compare the column with each of them, by OR.",
            )
        widest = next((widened for widened, _ in values if widened.cast), column)
        return In(widest, tuple(dict.fromkeys(value for _, value in values)), has_null=has_null)

    def _literal(self, column: Column, node: exp.Expression) -> tuple[Column, Any]:
        """Return the column, widened as Spark would widen it, and the literal in internal form."""
        if not isinstance(column.type, Primitive):
            raise _refuse(node)
        number = _number(node)
        if number is not None and column.type.name in _NUMBERS:
            found = _as_number(column, number)
        else:
            found = _as_text(column, node)
        if found is None:
            raise _refuse(node, f"Write a literal of the column's type: {column} is {column.type}.")
        return found


def _fits(kind: Type, value: Any) -> bool:
    """Return whether a literal is within a type's range and scale."""
    assert isinstance(kind, Primitive)
    if kind.name in _WHOLE:
        return bool(-(2 ** _WHOLE[kind.name]) <= value < 2 ** _WHOLE[kind.name])
    if kind.name == "decimal":
        _, digits, exponent = value.as_tuple()
        return bool(-exponent <= kind.scale and len(digits) + exponent <= kind.precision - kind.scale)
    return True


def _names_column(node: exp.Expression) -> bool:
    while type(node).__name__ == "Paren":
        node = node.this
    return type(node).__name__ in ("Column", "Dot")


def _number(node: exp.Expression) -> Decimal | float | None:
    """Return a numeric literal: Decimal for 1 and 1.5, float for 1e3, as Spark types them; None for anything else."""
    sign = 1
    while type(node).__name__ in ("Neg", "Paren"):
        sign = -sign if type(node).__name__ == "Neg" else sign
        node = node.this
    if type(node).__name__ in ("TryCast", "Cast") and node.to.this.name in ("BIGINT", "DOUBLE"):
        number = _number(node.this)  # 5L, 1.5D
        if number is None:
            return None
        if node.to.this.name == "DOUBLE":
            value = float(number) * sign
            return value if math.isfinite(value) else None
        # CAST(1.7 AS BIGINT) is 1, and a value outside the range of a long is an error.
        is_long = isinstance(number, Decimal) and number == int(number) and -(2**63) <= number * sign < 2**63
        return number * sign if is_long else None
    if type(node).__name__ != "Literal" or node.args.get("is_string"):
        return None
    text = str(node.this)
    try:
        if "e" in text.lower():
            value = sign * float(text)
            return value if math.isfinite(value) else None
        number = Decimal(text)  # arithmetic would round to the decimal context's 28 digits
    except (ValueError, InvalidOperation):
        return None
    if len(number.as_tuple().digits) > _MAX_PRECISION:
        return None
    return number if sign > 0 else number.copy_negate()


def _are_compared_exactly(kind: Primitive, numbers: Iterable[Decimal]) -> bool:
    """Tell whether some Spark decimal type holds all values of `kind` and the literals; otherwise Spark rounds some."""
    whole, scale = kind.precision - kind.scale, kind.scale
    for number in numbers:
        _, digits, exponent = number.as_tuple()
        assert isinstance(exponent, int)
        whole, scale = max(whole, len(digits) + exponent), max(scale, -exponent)
    return whole + scale <= _MAX_PRECISION


def _as_number(column: Column, number: Decimal | float) -> tuple[Column, Any] | None:
    assert isinstance(column.type, Primitive)
    name = column.type.name
    if name in ("int", "long", "decimal"):
        if isinstance(number, float):
            return None
        if name == "decimal":
            return (column, number) if _are_compared_exactly(column.type, [number]) else None
        return (column, int(number)) if number == int(number) else None
    if name == "float" and nearest_float(float(number)) != float(number):
        return Column(column.field_id, column.path, column.type, Primitive("double")), float(number)
    if isinstance(number, Decimal) and number == int(number) and int(float(number)) != int(number):
        return None  # a whole number that a double cannot represent
    return column, float(number)


def _as_text(column: Column, node: exp.Expression) -> tuple[Column, Any] | None:
    value_type = column.value_type
    assert isinstance(value_type, Primitive)
    name, kind = value_type.name, type(node).__name__
    if kind == "Boolean":
        return (column, bool(node.this)) if name == "boolean" else None
    if kind == "HexString":
        digits = str(node.this)
        if name not in ("binary", "fixed") or not re.fullmatch(r"[0-9A-Fa-f]*", digits):
            return None
        return column, bytes.fromhex(digits.rjust(len(digits) + len(digits) % 2, "0"))  # X'F' is 0x0F
    if kind == "Cast" and type(node.this).__name__ == "Literal":  # DATE '…', TIMESTAMP '…'
        expected = {
            "DATE": ("date",),
            "TIMESTAMPTZ": ("timestamp", "timestamptz"),
            "TIMESTAMPNTZ": ("timestamp",),
        }
        if name not in expected.get(node.to.this.name, ()):
            return None
        node, kind = node.this, "Literal"
    if kind != "Literal" or not node.args.get("is_string"):
        return None
    text = str(node.this)
    if name in ("string", "uuid"):
        return column, text
    if not _DATED.fullmatch(text):  # Python also parses 20240102, 2024-W01-2 and 01:02:03,5; Spark does not
        return None
    try:
        if name == "date":
            return column, parse_value(value_type, text)
        if name in ("timestamp", "timestamptz"):
            offset = datetime.datetime.fromisoformat(text).utcoffset()
            if offset is not None and (abs(offset) > _MAX_OFFSET or offset.microseconds):
                return None
            zoned = offset is not None
            # A timestamp without an offset would need the session's time zone, which workers do not know.
            return (column, parse_value(value_type, text)) if zoned == (name == "timestamptz") else None
    except ValueError:
        return None
    return None
