"""Random joins as SQL; names of tables are in braces, and every table has the same columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

from odd_joined_tables import COLLATED, MIXED, SIDES, grouped_side, range_side

if TYPE_CHECKING:
    import random

KINDS = ("JOIN", "JOIN", "JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "LEFT SEMI JOIN", "LEFT ANTI JOIN")
FILTERING = ("JOIN", "JOIN", "RIGHT JOIN", "LEFT SEMI JOIN")
"""Joins in which keys of the right side filter the left one."""
HINTS = ("BROADCAST({})", "BROADCAST({})", "MERGE({})", "SHUFFLE_HASH({})")


def random_join(pick: random.Random, keys: tuple[str, ...], fact: str, *, filtered: bool = False) -> str:
    """Return a query of joins.

    Args:
        pick: The source of randomness.
        keys: Columns to join by. There are also `id`, unique, and `v`, of 0 to 9.
        fact: The table that most queries are about.
        filtered: Let keys of a filtered side filter it.
    """
    drawn = _Join(pick, (fact, *SIDES), keys, filtered=filtered)
    query = drawn.select()
    if pick.random() < 0.15:
        query = f"{query} UNION ALL {drawn.select()}"
    return query


class _Join:
    def __init__(
        self, pick: random.Random, tables: tuple[str, ...], keys: tuple[str, ...], *, filtered: bool
    ) -> None:
        self.pick, self.tables, self.keys, self.filtered = pick, tables, keys, filtered

    def chance(self, share: float) -> bool:
        return self.pick.random() < share

    def select(self) -> str:
        names = ["a", "b", "c"][: 2 + self.chance(0.4)]
        visible = ["a"]
        joins = f"{{{self.tables[0]}}} a" if self.filtered else f"{self.side(0.75)} a"
        for name in names[1:]:
            kind = self.pick.choice(FILTERING if self.filtered else KINDS)
            joins += f" {kind} {self.side(0.1)} {name} ON {self.condition(self.pick.choice(visible), name)}"
            if not kind.startswith(("LEFT SEMI", "LEFT ANTI")):
                visible.append(name)
        where = [self.filter(name) for name in visible if self.chance(0.6)]
        if self.filtered and len(visible) > 1:
            where.append(f"{visible[-1]}.v < {self.pick.randint(2, 9)}")
        if self.chance(0.3):
            where.append(self.subquery(visible[0]))
        hint = (
            f"/*+ {self.pick.choice(HINTS).format(self.pick.choice(names))} */ " if self.chance(0.6) else ""
        )
        columns = (
            ", ".join(f"{name}.id" for name in visible) + f", {visible[-1]}.{self.pick.choice(self.keys)} k"
        )
        if self.chance(0.25):
            return f"SELECT {hint}{visible[-1]}.v k, count(*) n, min({visible[0]}.id) m, 0 z FROM {joins}{self.clause(where)} GROUP BY 1"
        columns = ", ".join([*(f"{name}.id" for name in visible), *["NULL"] * (3 - len(visible))])
        return f"SELECT {hint}{columns}, {visible[-1]}.v FROM {joins}{self.clause(where)}"

    def clause(self, where: list[str]) -> str:
        return f" WHERE {' AND '.join(where)}" if where else ""

    def side(self, first: float) -> str:
        table = f"{{{self.tables[0] if self.chance(first) else self.pick.choice(self.tables)}}}"
        if first < 0.5 and self.chance(0.12):
            start = self.pick.randrange(8)
            return range_side(start, start + self.pick.randint(1, 12), self.pick.choice((1, 1, 2)))
        if self.chance(0.12):
            having = self.pick.choice(
                ("sum(v) > 3", "max(v) > 2", "count(*) > 1", "bool_or(flag)", "sum(l) > 5")
            )
            return grouped_side(table, self.pick.choice(("n", "l", "s", "day", "u", "amount")), having)
        if self.chance(0.2):
            return f"(SELECT * FROM {table} t WHERE {self.filter('t')})"
        return self.derived(table) if self.chance(0.2) else table

    def derived(self, table: str) -> str:
        """A side whose scan is below other operators, which join keys may or may not pass."""
        other = f"{{{self.pick.choice(self.tables)}}}"
        return self.pick.choice(
            (
                f"(SELECT * FROM {table} UNION ALL SELECT * FROM {other})",
                f"(SELECT DISTINCT * FROM {table})",
                f"(SELECT *, count(*) OVER (PARTITION BY {self.pick.choice(self.keys)}) FROM {table})",
                f"(SELECT * FROM {table} ORDER BY id LIMIT {self.pick.randrange(12)})",
                f"(SELECT t.* FROM {table} t LEFT JOIN {other} o ON t.id = o.id)",
                f"(SELECT t.* FROM {table} t JOIN VALUES (1), (2), (NULL) AS l(v) ON t.v = l.v)",
                f"(SELECT * FROM {table} t WHERE t.n = (SELECT max(n) FROM {other} o WHERE {self.filter('o')}))",
            )
        )

    def condition(self, one: str, other: str) -> str:
        parts = []
        for key in self.pick.sample(self.keys, 1 + self.chance(0.4) + self.chance(0.15)):
            equal = "<=>" if self.chance(0.1) else "="
            parts.append(f"{one}.{key} {equal} {other}.{key}")
        if self.chance(0.15 if self.filtered else 0.3):
            left, right = self.pick.choice(MIXED)
            if self.chance(0.5):
                left, right = right, left
            mixed = f"{one}.{left} = {other}.{right}"
            parts = [mixed] if self.chance(0.7) else [*parts, mixed]
        elif self.chance(0.1):
            parts = [f"{one}.s COLLATE {self.pick.choice(COLLATED)} = {other}.s"]
        if self.chance(0.2):
            parts.append(self.pick.choice((f"{other}.v < 7", f"{one}.v <= {other}.v", f"{one}.v > 1")))
        return " AND ".join(parts)

    def filter(self, name: str) -> str:
        return self.pick.choice(
            (
                f"{name}.v < {self.pick.randrange(11)}",
                f"{name}.v = {self.pick.randrange(10)}",
                f"{name}.n BETWEEN 2 AND {self.pick.randrange(12)}",
                f"{name}.v < 0",
                f"{name}.v >= 0",
                f"{name}.v + 0 < {self.pick.randrange(11)}",
                f"({name}.s LIKE 'a%' OR {name}.v IN (1, 2, 3))",
            )
        )

    def subquery(self, name: str) -> str:
        # Spark 4.3 itself fails on EXISTS by a field of a struct above an outer join: INTERNAL_ERROR_ATTRIBUTE_NOT_FOUND.
        key = self.pick.choice([one for one in self.keys if "." not in one])
        table = self.pick.choice(self.tables)
        inner = f"FROM {{{table}}} q WHERE {self.filter('q')}"
        return self.pick.choice(
            (
                f"{name}.{key} IN (SELECT q.{key} {inner})",
                f"EXISTS (SELECT 1 {inner} AND q.{key} = {name}.{key})",
                f"NOT EXISTS (SELECT 1 {inner} AND q.{key} = {name}.{key})",
                f"{name}.{key} = (SELECT max(q.{key}) {inner})",
                f"{name}.n NOT IN (SELECT q.n {inner})",
            )
        )
