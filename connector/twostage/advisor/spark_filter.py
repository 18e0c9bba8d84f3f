"""Parses the filters of a scan by Spark's own reader, as its plan shows them, into a logged predicate.

Takes expressions as Spark prints them, ``[isnotnull(dev#93), (dev#93 = d9)]``: attributes have numbers,
strings have no quotes. Returns a `LoggedPredicate` without figures. The rule: what is not understood becomes
an ``unknown`` leaf, and nothing is evaluated.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from twostage.advisor.logged_predicate import LoggedPredicate, without_implied

if TYPE_CHECKING:
    from collections.abc import Iterator

_COLUMN = r"(?P<column>\w+#\d+L?(?:\.\w+)*)"
_COMPARISON = re.compile(rf"{_COLUMN} (?P<op>=|<=>|<|<=|>|>=) (?P<value>.*)", re.DOTALL)
_NULL = re.compile(rf"(?P<op>isnull|isnotnull)\({_COLUMN}\)")
_LIST = re.compile(rf"{_COLUMN} (?:IN \((?P<items>.*)\)|INSET (?P<set>.*))", re.DOTALL)
_MATCH = re.compile(rf"(?P<op>StartsWith|EndsWith|Contains)\({_COLUMN}, (?P<value>.*)\)", re.DOTALL)
_INSET = re.compile(rf"\(?{_COLUMN} INSET ")
_ATTRIBUTE = re.compile(r"(\w+)#\d+L?")
_SUFFIX = re.compile(r"_\d+_[0-9a-f]{1,16}$")
"""The end of a column's name in a scan that we handed over: field id, and hex digits that no file's column
has."""
_MORE = re.compile(r"\.\.\. (\d{1,9}) more fields")
_NUMBER = re.compile(r"-?[0-9]{1,18}")
_OPS = {"StartsWith": "prefix", "EndsWith": "suffix", "Contains": "contains"}
_NEGATED = {"=": "<>", "<": ">=", "<=": ">", ">": "<=", ">=": "<", "not is null": "is null"}
_MAX_DEPTH = 100
_MAX_TEXT = 200_000
_MAX_SHOWN = 1_000


def parse_spark_filters(text: str) -> LoggedPredicate | None:
    """Return the conjunction of a scan's ``DataFilters``; None for an empty list.

    >>> parse_spark_filters("[isnotnull(dev_2_ff#9), (dev_2_ff#9 = d9)]").text
    "dev = 'd9'"
    """
    items = text.strip().removeprefix("[").removesuffix("]").strip()
    if not items:
        return None
    if len(items) > _MAX_TEXT:
        return _unknown(items, negate=False)
    parts = [part for item in _items(items) for part in _parse(item.strip(), depth=0, negate=False).conjuncts]
    shown = " AND ".join(f"({part.text})" if part.children else part.text for part in parts)
    return without_implied(parts, shown[:_MAX_SHOWN])


def plain_name(name: str) -> str:
    """Return a column's name without what handing over appends to it: ``dev_2_636693382652d210`` is ``dev``."""
    return _SUFFIX.sub("", name)


def _items(text: str) -> Iterator[str]:
    """Yield the items of a list; the values of ``INSET``, which has no parentheses, stay one item."""
    found: list[str] = []
    for item in _split(text, ", "):
        if found and _INSET.match(found[-1]) and not _ATTRIBUTE.search(item):
            found[-1] += f", {item}"
        else:
            found.append(item)
    yield from found


def _split(text: str, separator: str) -> Iterator[str]:
    """Yield the parts of a text between separators outside parentheses."""
    depth = begin = place = 0
    while place < len(text):
        character = text[place]
        depth += (character == "(") - (character == ")")
        if depth == 0 and text.startswith(separator, place):
            yield text[begin:place]
            place += len(separator)
            begin = place
        else:
            place += 1
    yield text[begin:]


def _parse(text: str, *, depth: int, negate: bool) -> LoggedPredicate:
    if depth > _MAX_DEPTH:
        return _unknown(text, negate=negate)
    if text.startswith("NOT "):
        return _parse(text.removeprefix("NOT "), depth=depth + 1, negate=not negate)
    if not (text.startswith("(") and text.endswith(")")):
        return _leaf(text, negate=negate) or _unknown(text, negate=negate)
    inner = text[1:-1]
    if _COMPARISON.fullmatch(inner):  # its string may contain any word
        return _leaf(inner, negate=negate) or _unknown(text, negate=negate)
    for word in ("AND", "OR"):
        sides = list(_split(inner, f" {word} "))
        if len(sides) > 1:
            op = "and" if (word == "AND") != negate else "or"
            children: list[LoggedPredicate] = []
            for side in sides:
                part = _parse(side, depth=depth + 1, negate=negate)
                children.extend(part.children if part.op == op else (part,))
            shown = f" {op.upper()} ".join(f"({one.text})" if one.children else one.text for one in children)
            return LoggedPredicate(op=op, children=tuple(children), text=shown[:_MAX_SHOWN])
    return _leaf(inner, negate=negate) or _unknown(text, negate=negate)


def _leaf(text: str, *, negate: bool) -> LoggedPredicate | None:
    """Return the leaf in a text without enclosing parentheses; None if it is not a leaf."""
    if match := _COMPARISON.fullmatch(text):
        value = match["value"]
        if other := re.fullmatch(_COLUMN, value):
            return _made(match["op"], [match["column"], other["column"]], None, 0, negate=negate)
        return _made(match["op"], [match["column"]], [value], 1, negate=negate)
    if match := _NULL.fullmatch(text):
        op = "is null" if match["op"] == "isnull" else "not is null"
        return _made(op, [match["column"]], None, 0, negate=negate)
    if match := _MATCH.fullmatch(text):
        return _made(_OPS[match["op"]], [match["column"]], [match["value"]], 1, negate=negate)
    if match := _LIST.fullmatch(text):
        values = match["items"].split(",") if match["items"] is not None else match["set"].split(", ")
        more = _MORE.search(values[-1])
        if more:
            values = [one for one in values if not _MORE.search(one)]
        return _made(
            "in", [match["column"]], values, len(values) + int(more[1] if more else 0), negate=negate
        )
    return None


def _made(
    op: str, columns: list[str], values: list[str] | None, count: int, *, negate: bool
) -> LoggedPredicate:
    if negate:
        op = _NEGATED.get(op, f"not {op}")
    names = tuple(map(_name, columns))
    literals = None if values is None else tuple(map(_literal, values))
    shown = [
        str(one) if isinstance(one, int) else "'" + one.replace("'", "''") + "'" for one in literals or ()
    ]
    right = f"({', '.join(shown)})" if op.endswith("in") and values is not None else ", ".join(shown)
    text = " ".join(filter(None, (names[0], op.upper(), right or ".".join(names[1:]))))
    if op.endswith("is null"):
        text = f"{names[0]} IS {'NOT ' if op.startswith('not') else ''}NULL"
    return LoggedPredicate(op=op, columns=names, values=literals, count=count, text=text[:_MAX_SHOWN])


def _name(column: str) -> str:
    attribute, *fields = column.split(".")
    return ".".join((plain_name(attribute.partition("#")[0]), *fields))


def _literal(text: str) -> Any:
    return int(text) if _NUMBER.fullmatch(text) else text


def _unknown(text: str, *, negate: bool) -> LoggedPredicate:
    shown = _ATTRIBUTE.sub(lambda found: plain_name(found[1]), text[: 2 * _MAX_SHOWN])
    return LoggedPredicate(op="unknown", text=(f"NOT {shown}" if negate else shown)[:_MAX_SHOWN])
