"""Parses a scan's filter, which Spark's plan shows as text for other readers, into a logged predicate.

Takes SQL as Iceberg's connector and ours write it, items separated by commas; returns a `LoggedPredicate`
without figures. The parser is sqlglot's. The rule: what is not understood becomes an ``unknown`` leaf, and
nothing is evaluated.
"""

from __future__ import annotations

import functools
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from twostage.advisor.logged_predicate import LoggedPredicate, without_implied

if TYPE_CHECKING:
    from sqlglot import exp

_COMPARISONS = {"EQ": "=", "NEQ": "<>", "LT": "<", "LTE": "<=", "GT": ">", "GTE": ">=", "NullSafeEQ": "<=>"}
_MIRRORED = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<=", "<=>": "<=>"}
_NEGATED = {"=": "<>", "<>": "=", "<": ">=", "<=": ">", ">": "<=", ">=": "<"}
_FUNCTIONS = {"StartsWith": "prefix", "EndsWith": "suffix", "Contains": "contains"}
_APOSTROPHE = re.compile(r"(?<=\w)'(?=\w)")
_CERTAIN_QUOTES = re.compile(
    r"""[^'"`\\\uE000\x00-\x1f]*(?:(?<![\w'])'(?!%')[^'"`\\\uE000\x00-\x1f]*'(?=[\s,)]|$)[^'"`\\\uE000\x00-\x1f]*)*"""
)
"""Text whose quotes are unambiguous."""
_LITERAL = re.compile(r"'[^']*'|(?<![\w.])\d+(?:\.\d+)?(?:[eE][+-]?\d+)?(?![\w.])")
_STRING_PLACEHOLDER = "\ue000{}\ue000"
_NUMBER_PLACEHOLDER = "8642{:03}2468"
_PLACEHOLDER = re.compile(r"\ue000(\d{1,3})\ue000|(?<![\w.])8642(\d{3})2468(?![\w.])")
"""The placeholder of a literal in a form, with the literal's index."""
_MAX_LITERALS = 200
_MAX_FORMS = 4_096
_MAX_TEXT = 200_000
_MAX_SHOWN = 1_000
_MAX_DIGITS = 19
"""Numbers with fewer digits stay integers: they fit into 64 bits."""


def parse_filters(text: str) -> LoggedPredicate | None:
    """Return the conjunction of a list of filters; None for an empty one.

    >>> parse_filters("dev IS NOT NULL, (id > 3 OR dev IN ('a', 'b'))").children[1].op
    'or'
    """
    text = text.strip()
    if not text or text.upper() == "TRUE":
        return None
    if len(text) > _MAX_TEXT:
        return _unknown(text)
    if len(text) > _MAX_SHOWN or not _CERTAIN_QUOTES.fullmatch(text):
        return _parse(text)
    # Queries differ by their literals: each form is parsed once, which takes 1 ms.
    literals: list[str] = []

    def placeholder(found: re.Match[str]) -> str:
        literals.append(found[0])
        if not found[0].startswith("'"):
            return _NUMBER_PLACEHOLDER.format(len(literals) - 1)
        start, _, end = _inside(found[0])  # they make LIKE a prefix, a suffix or both
        return f"'{start}{_STRING_PLACEHOLDER.format(len(literals) - 1)}{end}'"

    form = _LITERAL.sub(placeholder, text)
    parsed = _parsed_form(form) if len(literals) <= _MAX_LITERALS else None
    return _parse(text) if parsed is None else _filled(parsed, literals)


@functools.lru_cache(maxsize=_MAX_FORMS)
def _parsed_form(form: str) -> LoggedPredicate | None:
    """Return a parsed filter with placeholders for literals; None if a text is so long that it is cut."""
    parsed = _parse(form)
    parts = [parsed, *parsed.leaves(), *parsed.children] if parsed is not None else []
    return None if any(len(part.text) >= _MAX_SHOWN for part in parts) else parsed


def _filled(part: LoggedPredicate, literals: list[str]) -> LoggedPredicate:
    """Return a parsed form with literals in place of their placeholders."""

    def literal(found: re.Match[str]) -> str:
        return _inside(literals[int(found[1])])[1] if found[1] else literals[int(found[2])]

    return replace(
        part,
        text=_PLACEHOLDER.sub(literal, part.text)[:_MAX_SHOWN],
        values=None if part.values is None else tuple(_value(one, literals) for one in part.values),
        children=tuple(_filled(child, literals) for child in part.children),
    )


def _inside(quoted: str) -> tuple[str, str, str]:
    """Return a quoted string, without quotes, in three parts: leading ``%``, the rest, trailing ``%``."""
    inside = quoted[1:-1]
    start, end = (edge if edge == "%" else "" for edge in (inside[:1], inside[-1:]))
    return start, inside[len(start) : len(inside) - len(end)], end


def _value(value: Any, literals: list[str]) -> Any:
    """Return the literal of a placeholder; any other value as it is."""
    found = _PLACEHOLDER.fullmatch(str(value).lstrip("-").strip("%"))
    if found is None:
        return value
    if found[1]:
        return literals[int(found[1])][1:-1]
    return _number(literals[int(found[2])], -1 if str(value).startswith("-") else 1)


def _parse(text: str) -> LoggedPredicate | None:
    import sqlglot  # noqa: PLC0415 - 0.2 s, and only event logs need it

    items = None
    # Iceberg writes 'it's' for the string it's.
    for attempt in (text, _APOSTROPHE.sub(r"\\'", text)):
        try:
            items = sqlglot.parse_one(f"SELECT {attempt}", dialect="spark").expressions
            break
        except (sqlglot.errors.SqlglotError, RecursionError):
            continue
    if not items:
        return _unknown(text)
    parts = [part for item in items for part in _predicate(item).conjuncts]
    return without_implied(parts, text[:_MAX_SHOWN])


def _predicate(node: exp.Expression, *, negate: bool = False) -> LoggedPredicate:
    kind = type(node).__name__
    if kind in ("Paren", "Alias"):
        return _predicate(node.this, negate=negate)
    if kind == "Not":
        return _predicate(node.this, negate=not negate)
    if kind in ("And", "Or"):
        op = "and" if (kind == "And") != negate else "or"
        children: list[LoggedPredicate] = []
        for side in (node.this, node.expression):
            found = _predicate(side, negate=negate)
            children.extend(found.children if found.op == op else (found,))
        return LoggedPredicate(op=op, children=tuple(children), text=_shown(node, negate=negate))
    return _leaf(node, kind, negate=negate)


def _leaf(node: exp.Expression, kind: str, *, negate: bool) -> LoggedPredicate:
    text = _shown(node, negate=negate)
    left, right = _column(node.args.get("this")), _column(node.args.get("expression"))
    if kind in _COMPARISONS:
        op = _COMPARISONS[kind]
        if left is None and right is not None:
            left, op = right, _MIRRORED[op]
            values: tuple[Any, ...] | None = _literals([node.this])
        elif left is not None and right is not None:
            return LoggedPredicate(op=op, columns=(left, right), text=text)
        else:
            values = _literals([node.expression])
        if left is not None and values is not None:
            op = _NEGATED.get(op, f"not {op}") if negate else op
            return LoggedPredicate(op=op, columns=(left,), values=values, count=1, text=text)
    prefix = "not " if negate else ""
    if kind == "In" and left is not None:
        values = _literals(node.expressions)
        if values is not None:
            return LoggedPredicate(
                op=f"{prefix}in", columns=(left,), values=values, count=len(values), text=text
            )
    if kind == "Is" and left is not None and type(node.expression).__name__ == "Null":
        return LoggedPredicate(op=f"{prefix}is null", columns=(left,), text=text)
    if kind == "Like" and left is not None and (pattern := _literals([node.expression])) is not None:
        return LoggedPredicate(
            op=prefix + _like(str(pattern[0])), columns=(left,), values=pattern, count=1, text=text
        )
    if kind in _FUNCTIONS and left is not None and (values := _literals([node.expression])) is not None:
        return LoggedPredicate(
            op=prefix + _FUNCTIONS[kind], columns=(left,), values=values, count=1, text=text
        )
    return _unknown(text)


def _like(pattern: str) -> str:
    if pattern.startswith("%"):
        return "contains" if pattern.endswith("%") else "suffix"
    return "prefix"


def _column(node: Any) -> str | None:
    """Return a column's name, nested ones with dots; None for anything else."""
    match type(node).__name__:
        case "Column":
            return ".".join(part.name for part in node.parts)
        case "Dot":
            left = _column(node.this)
            return None if left is None else f"{left}.{node.expression.name}"
        case "Paren":
            return _column(node.this)
    return None


def _literals(nodes: list[Any]) -> tuple[Any, ...] | None:
    """Return the values of literals; None if one is not a literal."""
    found: list[Any] = []
    for node in nodes:
        sign = 1
        inner = node
        while type(inner).__name__ in ("Neg", "Cast", "Paren"):
            sign = -sign if type(inner).__name__ == "Neg" else sign
            inner = inner.this
        match type(inner).__name__:
            case "Literal" if inner.is_string:
                found.append(inner.this)
            case "Literal":
                found.append(_number(inner.this, sign))
            case "Boolean":
                found.append(bool(inner.this))
            case "HexString" | "DateStrToDate" | "TsOrDsToDate":
                found.append(str(inner.this))
            case _:
                return None
    return tuple(found)


def _number(text: str, sign: int) -> Any:
    """Return a number's value: whole numbers as integers, others as text."""
    is_whole = text.isdecimal() and len(text) < _MAX_DIGITS
    return sign * int(text) if is_whole else f"{'-' if sign < 0 else ''}{text}"


def _shown(node: exp.Expression, *, negate: bool) -> str:
    text = node.sql("spark")
    return (f"NOT ({text})" if negate else text)[:_MAX_SHOWN]


def _unknown(text: str) -> LoggedPredicate:
    return LoggedPredicate(op="unknown", text=text[:_MAX_SHOWN])
