"""Random queries with joins of other shapes than `drawn_joins`: computed keys, renamed columns, set
operations, LATERAL.

Names of tables are in braces; every table has the columns of `odd_joined_tables.ALL_COLUMNS`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from odd_joined_tables import ALL_COLUMNS, SIDES

if TYPE_CHECKING:
    import random

SIMPLE = tuple(name for name in ALL_COLUMNS if name not in ("id", "v", "p"))
SAME = ("{one}.{key} = {other}.{key}", "{one}.{key} IS NOT DISTINCT FROM {other}.{key}")
COMPUTED = (
    "{one}.n + 1 = {other}.n",
    "{one}.n = {other}.n + 1",
    "-{one}.n = {other}.n - 10",
    "{one}.n % 3 = {other}.v",
    "coalesce({one}.n, 0) = {other}.n",
    "coalesce({one}.n, 0) = coalesce({other}.n, 0)",
    "nullif({one}.n, 3) = {other}.n",
    "upper({one}.s) = upper({other}.s)",
    "trim({one}.s) = {other}.s",
    "left({one}.s, 6) = {other}.s",
    "CAST({one}.n AS STRING) = CAST({other}.n AS STRING)",
    "CAST({one}.n AS STRING) = {other}.p.q.b",
    "to_date({one}.ts) = {other}.day",
    "to_date({one}.ts) = to_date({other}.local)",
    "year({one}.day) = year({other}.day) AND {one}.n = {other}.n",
    "{one}.p = {other}.p",
    "{one}.p.q = {other}.p.q",
    "({one}.n, {one}.s) = ({other}.n, {other}.s)",
    "array({one}.n, {one}.l) = array({other}.n, {other}.l)",
    "struct({one}.n, {one}.wide) = struct({other}.n, {other}.wide)",
    "{one}.n = {other}.n AND {one}.n = {other}.l",
    "{one}.n = {other}.n AND {one}.v = {other}.n",
    "({one}.n = {other}.n OR {one}.s = {other}.s)",
    "({one}.n = {other}.n OR {one}.n IS NULL)",
    "{one}.n = {other}.n AND ({one}.s = {other}.s OR {other}.v < 3)",
    "{one}.flag = ({other}.v < 5) AND {one}.n = {other}.n",
    "{one}.n <=> {other}.n AND {one}.s <=> {other}.s AND {one}.day = {other}.day",
    "{one}.wide = {other}.real",
    "{one}.real = {other}.n",
    "{one}.amount = {other}.wide",
    "{one}.fine = {other}.n",
    "{one}.n = {other}.amount AND {one}.l = {other}.fine",
    "{one}.l = {other}.n AND {one}.fine = {other}.amount AND {one}.s = {other}.s",
    "CAST({one}.amount AS INT) = {other}.n",
    "{one}.n BETWEEN {other}.n AND {other}.n",
    "{one}.n >= {other}.n AND {one}.n <= {other}.n",
)
"""Join conditions of two sides."""
OTHER_COLUMNS: dict[str, tuple[str, ...]] = {
    "v": ("n", "coalesce(n, v)", "v % 4"),
    "n": ("v", "id % 12", "n + 1", "coalesce(n, 4)", "nullif(n, 5)", "CASE WHEN v < 5 THEN n END", "try_cast(l AS INT)"),
    "l": ("id", "CAST(n AS BIGINT)", "l + 1", "coalesce(l, n)", "CAST(v AS BIGINT)"),
    "s": ("p.q.b", "u", "upper(s)", "concat(s, '')", "coalesce(s, 'a1')", "left(s, 2)"),
    "real": ("CAST(n AS FLOAT)", "-real", "CAST(wide AS FLOAT)"),
    "wide": ("CAST(real AS DOUBLE)", "wide + 0", "CAST(n AS DOUBLE)"),
    "amount": ("CAST(fine AS DECIMAL(9,2))", "CAST(n AS DECIMAL(9,2))", "-amount"),
    "day": ("to_date(ts)", "to_date(local)", "date_add(day, 1)"),
    "ts": ("CAST(day AS TIMESTAMP)", "CAST(local AS TIMESTAMP)"),
    "flag": ("v < 5", "n > 4", "NOT flag"),
    "fine": ("CAST(amount AS DECIMAL(11,4))", "CAST(n AS DECIMAL(11,4))"),
    "local": ("CAST(day AS TIMESTAMP_NTZ)", "CAST(ts AS TIMESTAMP_NTZ)"),
    "u": ("s", "lower(u)"),
    "p": ("named_struct('a', l, 'q', named_struct('b', s))", "named_struct('a', id, 'q', p.q)"),
}  # fmt: skip
"""Other expressions for a column of a side."""
KINDS = ("JOIN", "JOIN", "JOIN", "JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "LEFT SEMI JOIN", "LEFT ANTI JOIN")  # fmt: skip
HINTS = ("BROADCAST({})", "MERGE({})", "SHUFFLE_HASH({})", "SHUFFLE_REPLICATE_NL({})")


def random_shape(pick: random.Random, fact: str) -> str:
    """Return a query whose largest table is mostly `fact`."""
    drawn = _Shape(pick, fact)
    return pick.choice(
        (drawn.joined, drawn.joined, drawn.joined, drawn.combined, drawn.shared, drawn.lateral)
    )()


class _Shape:
    def __init__(self, pick: random.Random, fact: str) -> None:
        self.pick, self.fact = pick, fact

    def chance(self, share: float) -> bool:
        return self.pick.random() < share

    def table(self, first: float) -> str:
        return f"{{{self.fact if self.chance(first) else self.pick.choice(SIDES)}}}"

    def filter(self, name: str) -> str:
        number = self.pick.randrange(12)
        return self.pick.choice(
            (
                f"{name}.v < {number}",
                f"{name}.v = {number % 10}",
                f"{name}.n < {number}",
                f"{name}.v + 0 < {number}",
                f"{name}.n IS NULL",
                f"({name}.n IS NULL OR {name}.v < {number})",
                f"{name}.s LIKE '%{number}'",
            )
        )

    def side(self, first: float) -> str:
        """Return a table, or one whose columns are computed, renamed or united."""
        table = self.table(first)
        draw = self.pick.random()
        if draw < 0.35:
            return table
        if draw < 0.5:
            return f"(SELECT * FROM {table} t WHERE {self.filter('t')})"
        if draw < 0.75:
            return self.other_columns(table)
        if draw < 0.85:
            return f"(SELECT * FROM {table} UNION ALL {self.other_columns(self.table(0.3))[1:-1]})"
        if draw < 0.9:
            return f"(SELECT DISTINCT * FROM {table})"
        if draw < 0.95:
            return f"(SELECT * FROM {table} ORDER BY id LIMIT {self.pick.randrange(20)} OFFSET {self.pick.randrange(3)})"
        return f"(SELECT * FROM {table} t WHERE {self.filter('t')} UNION SELECT * FROM {self.table(0.3)})"

    def other_columns(self, table: str) -> str:
        changed = set(self.pick.sample(sorted(OTHER_COLUMNS), self.pick.choice((1, 2, 4))))
        shown = [
            f"{self.pick.choice(OTHER_COLUMNS[name])} AS {name}" if name in changed else name
            for name in ALL_COLUMNS
        ]
        where = f" WHERE {self.filter('t')}" if self.chance(0.4) else ""
        return f"(SELECT {', '.join(shown)} FROM {table} t{where})"

    def condition(self, one: str, other: str) -> str:
        parts = []
        if self.chance(0.35):
            for key in self.pick.sample(SIMPLE, self.pick.choice((1, 1, 2, 3))):
                parts.append(self.pick.choice((*SAME, SAME[0])).format(one=one, other=other, key=key))
        if not parts or self.chance(0.3):
            names = (one, other) if self.chance(0.5) else (other, one)
            parts.append(self.pick.choice(COMPUTED).format(one=names[0], other=names[1]))
        if self.chance(0.15):
            parts.append(self.filter(other))
        return " AND ".join(parts)

    def joined(self) -> str:
        """Return a query of two or three sides."""
        names = ["a", "b", "c"][: 2 + self.chance(0.3)]
        sql, visible = f"{self.side(0.85)} a", ["a"]
        for name in names[1:]:
            kind = self.pick.choice(KINDS)
            sql += f" {kind} {self.side(0.1)} {name} ON {self.condition(self.pick.choice(visible), name)}"
            if not kind.startswith(("LEFT SEMI", "LEFT ANTI")):
                visible.append(name)
        where = " AND ".join(self.filter(name) for name in visible if self.chance(0.5))
        hint = (
            f"/*+ {self.pick.choice(HINTS).format(self.pick.choice(names))} */ " if self.chance(0.6) else ""
        )
        shown = [f"{name}.{column}" for name in visible for column in ("id", self.pick.choice(SIMPLE))]
        return f"SELECT {hint}{', '.join(shown)} FROM {sql}{' WHERE ' + where if where else ''}"

    def combined(self) -> str:
        """Return an intersection or a difference, which are joins that treat NULLs as equal."""
        columns = ", ".join(self.pick.sample(SIMPLE, self.pick.choice((1, 1, 2, 3))))
        word = self.pick.choice(("INTERSECT", "INTERSECT", "INTERSECT ALL", "EXCEPT", "EXCEPT ALL"))
        sides = [
            f"SELECT {columns} FROM {self.side(first)} t WHERE {self.filter('t')}" for first in (0.85, 0.1)
        ]
        sql = f" {word} ".join(sides if self.chance(0.8) else sides[::-1])
        return (
            f"SELECT * FROM ({sql}) x JOIN {self.table(0.5)} y USING ({columns})" if self.chance(0.2) else sql
        )

    def shared(self) -> str:
        """Return a query that uses a common table expression twice."""
        inner = self.joined_ids()
        one, other = self.pick.sample(("t.v < 5", "t.v >= 3", "t.n IS NOT NULL", "true"), 2)
        how = self.pick.choice(
            (
                f"SELECT id FROM t WHERE {one} UNION ALL SELECT id FROM t WHERE {other}",
                "SELECT x.id, y.v FROM t x JOIN t y ON x.id = y.id AND y.v < 7",
                f"SELECT id FROM t WHERE n = (SELECT max(n) FROM t WHERE {one})",
                f"SELECT x.id FROM {self.table(0.9)} x WHERE (x.n, x.v) IN (SELECT n, v FROM t WHERE {one})",
                f"SELECT x.id FROM {self.table(0.9)} x WHERE (x.n, x.v) NOT IN (SELECT n, v FROM t WHERE {one} AND n IS NOT NULL)",
                f"SELECT x.id FROM {self.table(0.9)} x WHERE x.n IN (SELECT n FROM t) OR x.v IN (SELECT v FROM t WHERE {one})",
            )
        )
        return f"WITH t AS ({inner}) {how}"

    def joined_ids(self) -> str:
        kind = self.pick.choice(("JOIN", "JOIN", "LEFT JOIN", "LEFT SEMI JOIN"))
        return f"SELECT a.id, a.n, a.v FROM {self.side(0.85)} a {kind} {self.side(0.1)} b ON {self.condition('a', 'b')}"

    def lateral(self) -> str:
        """Return a query of a correlated subquery."""
        key = self.pick.choice(SIMPLE)
        inner = f"FROM {self.table(0.6)} q WHERE q.{key} = a.{key} AND {self.filter('q')}"
        outer = self.side(0.5)
        return self.pick.choice(
            (
                f"SELECT a.id, x.m FROM {outer} a, LATERAL (SELECT max(q.id) m {inner}) x",
                f"SELECT a.id, x.id j FROM {outer} a, LATERAL (SELECT q.id {inner}) x WHERE {self.filter('a')}",
                f"SELECT a.id, x.id j FROM {outer} a LEFT JOIN LATERAL (SELECT q.id {inner}) x ON a.id < x.id",
                f"SELECT a.id, (SELECT count(*) {inner}) m FROM {outer} a WHERE {self.filter('a')}",
                f"SELECT a.id FROM {outer} a WHERE a.v < (SELECT max(q.v) {inner})",
                f"SELECT a.id FROM {outer} a WHERE EXISTS (SELECT 1 {inner}) OR a.v = 3",
                f"SELECT a.id FROM {outer} a WHERE a.v = 3 AND NOT EXISTS (SELECT 1 {inner} AND q.v > a.v)",
            )
        )
