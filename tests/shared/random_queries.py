"""Random queries: a projection with pruned structs, a predicate tree over any columns, a limit.

Takes a seed, the scan's schema, the values that the table was drawn from and, if known, its live rows;
returns a `Query`. Most literals come from one live row, so that conjunctions keep something, too.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import random_values
from declared.types import plain
from twostage.predicates import predicate as tree
from twostage.schema import Field, Primitive, Schema, Struct

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_COMPARABLE = {kind.partition("(")[0].partition("[")[0] for kind in random_values.PRIMITIVES}
_CASTS = {"int": ("long", "double"), "float": ("double",), "long": ("double",)}


@dataclass(frozen=True)
class Query:
    """A query of a table."""

    projection: tuple[Field, ...]
    predicate: tree.Predicate
    hint: tree.Predicate
    limit: int | None


def random_query(
    seed: int, schema: Schema, pools: Mapping[int, list[Any]], rows: Sequence[Mapping[int, Any]] = ()
) -> Query:
    """Return the query of this seed."""
    maker = _Maker(random.Random(seed), schema, pools, rows)
    pick = maker.random
    return Query(
        projection=maker.projection(),
        predicate=tree.TRUE if pick.random() < 0.08 else maker.predicate(pick.choice((0, 1, 1, 2, 2, 3))),
        hint=maker.predicate(1) if pick.random() < 0.1 else tree.TRUE,
        limit=pick.randint(0, 12) if pick.random() < 0.15 else None,
    )


class _Maker:
    def __init__(
        self,
        random_: random.Random,
        schema: Schema,
        pools: Mapping[int, list[Any]],
        rows: Sequence[Mapping[int, Any]],
    ) -> None:
        self.random = random_
        self.row: Mapping[int, Any] = random_.choice(rows) if rows else {}
        self.nearness = random_.choice((0.5, 1.0, 1.0)) if rows else 0.0
        self.schema = schema
        self.pools = pools
        self.columns = [c for c in _struct_leaves(schema.fields, ()) if c.type.name in _COMPARABLE]

    def projection(self) -> tuple[Field, ...]:
        pick = self.random
        chance = pick.random()
        if chance < 0.3:
            return self.schema.fields
        if chance < 0.35:
            return ()
        chosen = pick.sample(self.schema.fields, pick.randint(1, len(self.schema.fields)))
        return tuple(self._pruned(field) for field in chosen)

    def _pruned(self, field: Field) -> Field:
        if not isinstance(field.type, Struct) or self.random.random() < 0.4:
            return field
        inner = field.type.fields
        kept = {f.id for f in self.random.sample(inner, self.random.randint(1, len(inner)))}
        return replace(field, type=Struct(tuple(self._pruned(f) for f in inner if f.id in kept)))

    def predicate(self, depth: int) -> tree.Predicate:
        pick = self.random
        if depth == 0:
            leaf = self._leaf()
            return tree.Not(leaf) if pick.random() < 0.2 else leaf
        match pick.choice(("and", "or", "or", "not")):
            case "not":
                return tree.Not(self.predicate(depth - 1))
            case "and":
                return tree.And(tuple(self.predicate(depth - 1) for _ in range(pick.randint(2, 3))))
        return tree.Or(tuple(self.predicate(depth - 1) for _ in range(pick.randint(2, 3))))

    def _leaf(self) -> tree.Predicate:
        pick = self.random
        if pick.random() < 0.02:
            return tree.Constant(pick.choice((True, False, None)))
        if pick.random() < 0.13:
            ids = self._any_ids() if pick.random() < 0.5 else [self._column().field_id]
            field = self.schema.field(pick.choice(ids))
            return tree.IsNull(tree.Column(field.id, self.schema.path(field.id), field.type))
        column = self._column()
        assert isinstance(column.type, Primitive)
        if pick.random() < 0.12:
            others = [c for c in self.columns if c.type == column.type]
            return tree.CompareColumns(pick.choice(tree.COMPARISONS), column, pick.choice(others))
        if pick.random() < 0.08 and column.type.name in _CASTS:
            column = replace(column, cast=Primitive(pick.choice(_CASTS[column.type.name])))
        if column.type.name == "string" and pick.random() < 0.3:
            text = self._literal(column)
            start = pick.randint(0, len(text))
            part = pick.choice((text[:start], text[start:], text[start : start + 2]))
            return tree.StringMatch(pick.choice(("prefix", "suffix", "contains")), column, part)
        if pick.random() < 0.2:
            values = tuple(dict.fromkeys(self._literal(column) for _ in range(pick.choice((1, 3, 30)))))
            return tree.In(column, values, has_null=pick.random() < 0.1)
        return tree.Compare(pick.choice(tree.COMPARISONS), column, self._literal(column))

    def _column(self) -> tree.Column:
        """Return a column of any type, each equally likely; the id, which all tables have, less so."""
        columns = [column for column in self.columns if column.path != ("id",)]
        if not columns or self.random.random() < 0.08:
            columns = self.columns
        kind = self.random.choice(sorted({column.type.name for column in columns}))
        return self.random.choice([column for column in columns if column.type.name == kind])

    def _any_ids(self) -> list[int]:
        return [field.id for field in self.schema.fields] + [column.field_id for column in self.columns]

    def _literal(self, column: tree.Column) -> Any:
        kind = str(column.value_type)
        pool = self.pools.get(column.field_id)
        held = self.row.get(column.field_id)
        if held is not None and column.cast is None and self.random.random() < self.nearness:
            value = held
        elif pool and column.cast is None and self.random.random() < 0.8:
            value = self.random.choice(pool)
        elif column.path == ("id",):
            value = self.random.randint(-1, 100)
        else:
            value = random_values.draw(self.random, kind)
        return plain(kind, value)


def _struct_leaves(fields: tuple[Field, ...], path: tuple[str, ...]) -> Any:
    for field in fields:
        if isinstance(field.type, Struct):
            yield from _struct_leaves(field.type.fields, (*path, field.name))
        elif isinstance(field.type, Primitive):
            yield tree.Column(field.id, (*path, field.name), field.type)
