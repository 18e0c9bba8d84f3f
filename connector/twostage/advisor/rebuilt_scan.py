"""A logged scan, rebuilt to be planned again: a table's columns, and bound predicates.

Takes a `LoggedScan` and the table's schema; returns a projection and predicates, made from the logged tree
and its literals by the binder that Spark's own predicates go through. The rules: no text in a log is parsed,
let alone executed; and a scan that is not fully logged is refused with a reason, never replayed in part.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass, replace
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any

from twostage.advisor.selectivity import HAS_ELEMENT
from twostage.columns import project_names, spark_type
from twostage.errors import TwoStageError
from twostage.predicates.bind import bind_predicate
from twostage.predicates.predicate import COMPARISONS, TRUE, is_exact, weaken
from twostage.schema import List, Primitive, element_of, parse_type

if TYPE_CHECKING:
    from twostage.advisor.logged_predicate import LoggedPredicate
    from twostage.advisor.logged_scan import LoggedScan
    from twostage.predicates.predicate import Predicate
    from twostage.schema import Field, Schema

_MATCHES = {"prefix": "starts_with", "suffix": "ends_with", "contains": "contains"}
_NOT = "not "


class CannotReplayError(ValueError):
    """Why a logged scan cannot be replayed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RebuiltScan:
    """What `plan_scan` takes.

    Attributes:
        projection: The columns returned.
        predicate: What was evaluated.
        hint: What only pruned, as far as it is logged.
        limit: The maximum number of rows of a task.
    """

    projection: tuple[Field, ...]
    predicate: Predicate
    hint: Predicate
    limit: int | None


def rebuild(scan: LoggedScan, schema: Schema) -> RebuiltScan:
    """Return a scan of a log, bound to a table's schema.

    Raises:
        CannotReplayError: The log leaves something out, or the table has no such column; the message says what.
    """
    if scan.top:
        raise CannotReplayError("a top-n scan, whose order is logged as text only")
    if scan.predicate is None:
        raise CannotReplayError("twostage evaluated no filter in it")
    predicate = bind_predicate(_raw(scan.predicate, schema), schema, case_sensitive=True)
    if not is_exact(predicate):
        raise CannotReplayError("a part of its filter is not of a form that twostage evaluates on this table")
    hint: Predicate = TRUE
    if scan.hint is not None:
        try:
            hint = weaken(bind_predicate(_raw(scan.hint, schema), schema, case_sensitive=True))
        except CannotReplayError:
            hint = TRUE  # it only prunes
    try:
        projection = project_names(schema, scan.columns, case_sensitive=True)
    except TwoStageError:
        raise CannotReplayError("the table lacks some of its columns") from None
    return RebuiltScan(projection=projection, predicate=predicate, hint=hint, limit=scan.limit)


def _raw(part: LoggedPredicate, schema: Schema) -> dict[str, Any]:
    """Return a logged predicate in the form that `bind_predicate` takes."""
    if part.op in ("and", "or"):
        return {"op": part.op, "children": [_raw(child, schema) for child in part.children]}
    if part.op.startswith(_NOT):
        return {"op": "not", "child": _leaf(part, part.op.removeprefix(_NOT), schema)}
    return _leaf(part, part.op, schema)


def _leaf(part: LoggedPredicate, op: str, schema: Schema) -> dict[str, Any]:
    if op == HAS_ELEMENT and len(part.columns) == 1:
        return _has_element(part, schema)
    terms = [_term(name, part.type, schema) for name in part.columns]
    if op == "is null" and len(terms) == 1:
        return {"op": "is_null", "term": {"column": terms[0]["names"]}}
    if op in COMPARISONS and len(terms) == 2:
        return {"op": op, "left": _column(terms[0]), "right": _column(terms[1])}
    known = op in COMPARISONS or op in _MATCHES or op == "in"
    if not known or len(terms) != 1:
        raise CannotReplayError(f"the log does not spell out a part of its filter ({op})")
    literals = _literals(part)
    if op == "in":
        return {"op": "in", "term": _column(terms[0]), "values": literals}
    if len(literals) != 1:
        raise CannotReplayError("a comparison without its literal")
    return {"op": _MATCHES.get(op, op), "left": _column(terms[0]), "right": literals[0]}


def _has_element(part: LoggedPredicate, schema: Schema) -> dict[str, Any]:
    (name,) = part.columns
    for names in ((name,), tuple(name.split("."))):
        field = schema.find(names)
        element = None if field is None else element_of(field.type)
        if field is not None and element is not None:
            literals = _literals(replace(part, type=str(element.type)))
            if len(literals) != 1:
                raise CannotReplayError("a comparison without its literal")
            op = "array_contains" if isinstance(field.type, List) else "map_contains_key"
            return {"op": op, "left": {"column": list(names)}, "right": literals[0]}
    raise CannotReplayError("the table lacks some of its columns")


def _term(name: str, type_name: str, schema: Schema) -> dict[str, Any]:
    """Return a column by the names of its path, and the type it was cast to, if that is not its own."""
    for names in ((name,), tuple(name.split("."))):
        field = schema.find(names)
        if field is not None:
            kind = _type(type_name) if type_name else field.type
            return {"names": list(names), "cast": None if kind == field.type else spark_type(kind)}
    raise CannotReplayError("the table lacks some of its columns")


def _column(term: dict[str, Any]) -> dict[str, Any]:
    column = {"column": term["names"]}
    return column if term["cast"] is None else {"cast": column, "type": term["cast"]}


def _type(name: str) -> Primitive:
    try:
        kind = parse_type(name)
    except TwoStageError:
        kind = None
    if not isinstance(kind, Primitive):
        raise CannotReplayError("a literal of an unknown type")
    return kind


def _literals(part: LoggedPredicate) -> list[dict[str, Any]]:
    if part.values is None:
        raise CannotReplayError("the log has no literals (query-log-literals=false)")
    if len(part.values) < part.count:
        raise CannotReplayError("a list of which the log has only the first literals")
    kind = _type(part.type)
    return [{"literal": _literal(value, kind), "type": spark_type(kind)} for value in part.values]


def _literal(value: Any, kind: Primitive) -> Any:
    """Return a literal as Spark would send it; None for NULL.

    Raises:
        CannotReplayError: It is not of the type.
    """
    if value is None:
        return None
    try:
        match kind.name:
            case "boolean":
                is_right = isinstance(value, bool)
            case "float" | "double":
                value, is_right = float(value), not isinstance(value, bool)
            case "decimal":
                is_right = isinstance(value, str) and len(value) <= _MAX_DIGITS and _is_decimal(value)
            case "fixed" | "binary":
                value, is_right = base64.b64encode(bytes.fromhex(value)).decode(), True
            case "string" | "uuid":
                is_right = isinstance(value, str)
            case _:
                is_right = isinstance(value, int) and not isinstance(value, bool) and abs(value) <= 1 << 63
    except (ValueError, TypeError, OverflowError):
        is_right = False
    if not is_right:
        raise CannotReplayError("a literal that is not of its type")
    return value


_MAX_DIGITS = 60
"""Characters of a decimal: 38 digits, a sign, a point, an exponent."""


def _is_decimal(text: str) -> bool:
    try:
        return Decimal(text).is_finite()
    except InvalidOperation:
        return False
