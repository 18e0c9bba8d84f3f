"""How Spark is asked a random query: its predicate and its projection as SQL text.

Takes queries of `random_queries` and the schema they were drawn for; returns text that means the same
whatever the session's settings are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from twostage.predicates import predicate as tree
from twostage.schema import Field, Schema, Struct
from written_predicates import literal, quote

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_MATCHES = {"prefix": "startswith", "suffix": "endswith", "contains": "contains"}


def name(path: Sequence[str]) -> str:
    """Return a column's name in SQL."""
    return ".".join(f"`{part}`" for part in path)


def where(predicate: tree.Predicate) -> str:
    """Return a predicate in SQL."""
    match predicate:
        case tree.Constant(value):
            return "CAST(NULL AS BOOLEAN)" if value is None else str(value).lower()
        case tree.Not(child):
            return f"NOT ({where(child)})"
        case tree.And(children):
            return " AND ".join(f"({where(child)})" for child in children)
        case tree.Or(children):
            return " OR ".join(f"({where(child)})" for child in children)
        case tree.IsNull(column):
            return f"{name(column.path)} IS NULL"
        case tree.Compare(operator, column, value):
            return f"{_value(column)} {operator} {_literal(column, value)}"
        case tree.CompareColumns(operator, left, right):
            return f"{_value(left)} {operator} {_value(right)}"
        case tree.In(column, values, has_null):
            items = [_literal(column, value) for value in values] + ["NULL"] * has_null
            return f"{_value(column)} IN ({', '.join(items)})"
        case tree.StringMatch(kind, column, text):
            return f"{_MATCHES[kind]}({_value(column)}, {quote(text)})"
    raise NotImplementedError(str(predicate))


def _value(column: tree.Column) -> str:
    if column.cast is None:
        return name(column.path)
    return f"CAST({name(column.path)} AS {column.cast.name.replace('long', 'bigint')})"


def _literal(column: tree.Column, value: object) -> str:
    kind = str(column.value_type)
    return literal("binary" if kind.startswith("fixed") else kind, value)


def selected(
    fields: Sequence[Field], schema: Schema, path: tuple[str, ...] = ()
) -> Iterator[tuple[str, Field]]:
    """Yield a projection's columns, each with its name in SQL: for a pruned struct, the fields left in it."""
    for field in fields:
        inside = (*path, field.name)
        if isinstance(field.type, Struct) and field != schema.field(field.id):
            yield from selected(field.type.fields, schema, inside)
        else:
            yield name(inside), field
