"""Random aggregate queries, and the tables that they query.

Takes a random generator; returns SQL in which `{v}` is a placeholder for the reader, as in ``FROM
{v}_plain``. Every query has one right answer: where ties matter (as for LIMIT), rows are ordered by all
columns or by a unique one.
"""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

import oracle
from declared.types import arrow_array
from tables import Table

if TYPE_CHECKING:
    import random
    from pathlib import Path

COLUMNS = {
    "id": "long!",
    "p": "string",
    "q": "int",
    "n": "int",
    "w": "string",
    "x": "double",
    "f": "float",
    "d": "decimal(9,2)",
    "day": "date",
    "ts": "timestamptz",
    "flag": "boolean",
    "void": "int",
    "s": {"a": "int", "b": "string"},
}
ORDERED = ("id", "p", "q", "n", "w", "x", "f", "d", "day", "ts", "flag", "void", "added", "s.a")
NUMBERS = ("id", "q", "n", "added", "s.a")
LITERALS = ("1", "'x'", "true", "1.5", "1 + 1", "NULL", "CAST(NULL AS INT)", "DATE'2024-01-01'", "2.5D")
KINDS = ("plain", "evolved", "vectors", "positions", "equality", "uncounted", "empty")


def make_table(kind: str, folder: Path, pick: random.Random) -> Path:
    """Write a table of one of the `KINDS`, and its live rows as ``rows.parquet`` beside it; return the table's path."""
    version = 3 if kind in ("vectors", "evolved") else pick.choice((1, 2)) if kind == "plain" else 2
    table = Table(folder / "t", COLUMNS, version=version, partition=() if kind == "equality" else ["p", "q"])
    if kind == "equality":
        table.partition_by(["p", "q"])
    files = []
    for number in range(0 if kind == "empty" else 3):
        if kind == "evolved" and number == 1:
            table.add_column("added", "int", default=42)
        if kind == "evolved" and number == 2:
            table.partition_by(["p"])
        cells = [(p, q) for p in (None, "a", "b") for q in (None, 1, 2)]
        rows = [_row(100 * number + i, *pick.choice(cells), pick) for i in range(25)]
        if kind == "evolved" and number:
            rows = [{**row, "added": None if row["id"] % 4 == 0 else row["id"] % 9} for row in rows]
        metrics = "counts" if kind == "uncounted" and number == 1 else "full"
        files += table.append_all(rows, metrics=metrics)
    if kind != "evolved":
        table.add_column("added", "int")
    if kind == "vectors":
        table.delete_vectors({files[0]: [0], files[-1]: range(len(files[-1].rows))})
    elif kind == "positions":
        table.delete_positions({files[0]: [0], files[2]: range(len(files[2].rows))})
    elif kind == "equality":
        table.delete_equal(["id"], [{"id": 101}, {"id": 104}])
        table.delete_equal(["n"], [{"n": None}, {"n": 3}], like=files[0])
    path = table.write()
    live = oracle.live_rows(table.content())
    arrays = {c.name: arrow_array(c, [row.get(c.id) for row in live], ids=None) for c in table.columns}
    pq.write_table(pa.table(arrays), folder / "rows.parquet")
    return path


def _row(number: int, p: str | None, q: int | None, pick: random.Random) -> dict:
    row = {
        "n": pick.randint(-5, 20),
        "w": pick.choice(("", "key", "key-1", "ü", "long text, longer than bounds")),
        "x": pick.choice((1.5, -2.25, 1e300, float("inf"), float("nan"), 7.0)),
        "f": pick.randint(1, 40) / 4,
        "d": Decimal(pick.randint(-500, 500)).scaleb(-2),
        "day": 19_000 + pick.randint(0, 90),
        "ts": 1_700_000_000_000_000 + pick.randint(0, 10**12),
        "flag": pick.random() < 0.5,
        "s": {"a": pick.randint(0, 9), "b": pick.choice(("u", "v"))},
    }
    return {name: value for name, value in row.items() if pick.random() < 0.85} | {
        "id": number,
        "p": p,
        "q": q,
    }


class Drawing:
    """Draws queries."""

    def __init__(self, pick: random.Random) -> None:
        self.pick = pick

    def chance(self, share: float) -> bool:
        return self.pick.random() < share

    def query(self) -> str:
        """Return one query; its columns are c0, c1 …"""
        shapes = (self.grouped, self.grouped, self.grouped, self.grouped, self.nested, self.joined)
        sql = self.pick.choice((*shapes, self.scalars, self.filtered_by_aggregates, self.united))()
        if self.chance(0.12):
            sql = f"SELECT DISTINCT * FROM ({sql})"
        return sql

    # ---- where rows come from

    def table(self) -> str:
        kind = self.pick.choice((*KINDS, "plain", "evolved"))
        return f"{{v}}_{kind}"

    def source(self) -> str:
        """Return a relation with all columns under their own names."""
        table = self.table()
        draw = self.pick.random()
        if draw < 0.7:
            return table
        if draw < 0.76:
            return f"(SELECT * FROM {table} WHERE {self.condition()})"
        if draw < 0.82:
            return f"(SELECT id, q AS q, p, n AS void, void AS n, w, x, f, d, day, ts, flag, added, s FROM {table})"
        if draw < 0.86:
            return f"(SELECT *, 1 AS one FROM {table})"
        if draw < 0.9:
            return f"(SELECT * FROM {table} ORDER BY id LIMIT {self.pick.choice((0, 1, 7, 1000))})"
        if draw < 0.95:
            return f"(SELECT DISTINCT * EXCEPT (s), s FROM {table})"
        return f"(SELECT * FROM {table} UNION ALL SELECT * FROM {{v}}_plain)"

    def condition(self) -> str:
        plain = [
            "p = 'a'",
            "p IS NULL",
            "q = 1",
            "q IN (1, 2)",
            "p = 'a' OR q = 2",
            "p <=> NULL AND q > 0",
            "NOT (p = 'b')",
            "id >= 0",
            f"id < {self.pick.choice((0, 100, 113, 200, 1000))}",
            f"id BETWEEN 100 AND {self.pick.choice((120, 199))}",
            f"n > {self.pick.randint(-6, 20)}",
            "day >= DATE'2022-01-01'",
            "length(w) > 2",
            "x > 0 AND p IS NOT NULL",
            "added = 42",
            "s.a = 3",
            "true",
            "1 = 0",
            "CAST(NULL AS BOOLEAN)",
        ]
        found = self.pick.choice(plain)
        return f"({found}) AND ({self.pick.choice(plain)})" if self.chance(0.15) else found

    def where(self, share: float = 0.35) -> str:
        return f" WHERE {self.condition()}" if self.chance(share) else ""

    # ---- aggregates

    def aggregate(self, columns: tuple[str, ...] = ORDERED, numbers: tuple[str, ...] = NUMBERS) -> str:
        column, number, literal = (self.pick.choice(of) for of in (columns, numbers, LITERALS))
        distinct = "DISTINCT " if self.chance(0.15) else ""
        function = self.pick.choice(("min", "max"))
        draw = self.pick.random()
        if draw < 0.18:
            found = self.pick.choice(("count(*)", "count(1)"))
        elif draw < 0.28:
            found = f"count({self.pick.choice(('', '', 'DISTINCT '))}{literal})"
        elif draw < 0.44:
            found = f"count({distinct}{column})"
        elif draw < 0.78:
            found = f"{function}({distinct}{column})"
        elif draw < 0.8:
            found = f"{function}({distinct}{literal})"
        elif draw < 0.83:
            other = self.pick.choice((self.pick.choice(columns), literal))
            found = f"count({distinct}{column}, {other})"
        elif draw < 0.85:
            found = f"{self.pick.choice(('min', 'max', 'count'))}({distinct}{number} + 1)"
        elif draw < 0.87:
            found = f"{function}(coalesce({number}, {self.pick.choice((0, -1))}))"
        elif draw < 0.95:
            summed = self.pick.choice((number, number, "d", "q")) if numbers is NUMBERS else number
            found = f"{self.pick.choice(('sum', 'sum', 'avg', 'try_sum'))}({distinct}{summed})"
        elif draw < 0.97:
            found = f"sum({distinct}1)"
        else:
            found = self.pick.choice(
                (f"count_if({number} > 3)", f"bit_or({number})", f"bool_or({number} = 1)")
            )
        if self.chance(0.08) and found != "count(*)":
            condition = self.pick.choice(
                (f"{number} > 3", "true", "false", "CAST(NULL AS BOOLEAN)", f"{number} IS NOT NULL")
            )
            found += f" FILTER (WHERE {condition})"
        return found

    def value(self, *columns: tuple[str, ...]) -> str:
        """Return an expression over aggregates."""
        one = self.aggregate(*columns)
        draw = self.pick.random()
        if draw < 0.8:
            return one
        if draw < 0.84:
            return f"CAST({one} AS STRING)"
        if draw < 0.88:
            return f"{one} IS NULL"
        if draw < 0.92:
            return f"struct({one}, {self.aggregate(*columns)})"
        if draw < 0.96:
            return f"concat('<', {one}, '|', {self.aggregate(*columns)})"
        return f"CASE WHEN count(*) > 3 THEN {one} END"

    def values(self, start: int, *columns: tuple[str, ...]) -> str:
        many = range(start, start + self.pick.choice((1, 1, 1, 2, 3)))
        return ", ".join(f"{self.value(*columns)} AS c{number}" for number in many)

    # ---- queries

    def grouped(self) -> str:
        """Return aggregates of a relation, by all kinds of groups."""
        source, where = self.source(), self.where()
        having = ""
        if self.chance(0.2):
            having = f" HAVING {self.pick.choice((f'{self.aggregate()} IS NOT NULL', 'count(*) > 5', 'max(id) >= 110', 'min(n) < 0', 'count(DISTINCT 1) = 1'))}"
        draw = self.pick.random()
        if draw < 0.3:
            return f"SELECT {self.values(0)} FROM {source}{where}{having}"
        if draw < 0.65:
            keys = self.pick.choice((("p",), ("q",), ("p", "q"), ("q", "p"), ("P",)))
        elif draw < 0.85:
            keys = self.pick.choice(
                (("day",), ("q % 2",), ("upper(p)",), ("n", "p"), ("s.b",), ("flag",), ("q + 0", "p"))
            )
        else:
            keys = ("p", "q")
        names = ", ".join(f"{key} AS c{number}" for number, key in enumerate(keys))
        listed = ", ".join(keys)
        by = f" GROUP BY {listed}"
        if draw >= 0.85:
            by = self.pick.choice(
                (
                    " GROUP BY ROLLUP (p, q)",
                    " GROUP BY CUBE (p, q)",
                    " GROUP BY GROUPING SETS ((p), (q), ())",
                    " GROUP BY GROUPING SETS ((p, q))",
                    " GROUP BY p, GROUPING SETS ((q), ())",
                )
            )
        if self.chance(0.08):
            return f"SELECT DISTINCT {names} FROM {source}{where}"
        if draw < 0.85 and self.chance(0.1):
            by = self.pick.choice(
                (
                    " GROUP BY ALL",
                    f" GROUP BY {', '.join(str(i + 1) for i in range(len(keys)))}",
                    f"{by}, 'x'",
                )
            )
        start = len(keys)
        if self.chance(0.1):  # a window over aggregates
            window = self.pick.choice(
                (
                    "sum(count(*)) OVER ()",
                    "max(count(*)) OVER (PARTITION BY count(*) > 9)",
                    "count(1) OVER ()",
                )
            )
            return f"SELECT {names}, {window} AS c{start}, {self.values(start + 1)} FROM {source}{where}{by}{having}"
        values = self.values(start)
        if self.chance(0.15):
            ordinals = [str(i + 1) for i in range(values.count(" AS c") + start)]
            order = ", ".join(f"{i}{self.pick.choice(('', ' DESC', ' NULLS LAST'))}" for i in ordinals)
            return f"SELECT {names}, {values} FROM {source}{where}{by}{having} ORDER BY {order} LIMIT {self.pick.choice((1, 2, 5))}"
        return f"SELECT {names}, {values} FROM {source}{where}{by}{having}"

    def nested(self) -> str:
        """Return aggregates of aggregates."""
        inner_keys = self.pick.choice((("p",), ("p", "q"), ("q",)))
        names = ", ".join(inner_keys)
        inner = (
            f"SELECT {names}, {self.aggregate()} AS a0, {self.pick.choice(('min(id)', 'max(n)', 'count(*)', 'count(DISTINCT 1)'))} AS a1"
            f" FROM {self.source()}{self.where()} GROUP BY {names}"
        )
        where = self.pick.choice(("", "", " WHERE a1 > 3", f" WHERE {inner_keys[0]} IS NOT NULL"))
        by = self.pick.choice(("", f" GROUP BY {inner_keys[0]}"))
        return f"SELECT {self.values(0, ('a1', *inner_keys), ('a1',))} FROM ({inner}){where}{by}"

    def joined(self) -> str:
        """Return aggregates joined, or aggregates of joined rows."""
        key = self.pick.choice(("p", "q"))
        if self.chance(0.3):
            rows = f"{self.source()} l JOIN (SELECT id AS other, {key} AS k FROM {self.table()}) r ON l.{key} = r.k AND l.id < r.other + 5"
            return f"SELECT {self.values(0)} FROM {rows}{self.where(0.3)}"
        sides = [
            f"(SELECT {key} AS k{side}, {self.value()} AS v{side} FROM {self.source()}{self.where()} GROUP BY {key})"
            for side in (0, 1)
        ]
        how = self.pick.choice(("JOIN", "LEFT JOIN", "FULL JOIN", "LEFT SEMI JOIN"))
        wanted = "k0 AS c0, v0 AS c1" + ("" if "SEMI" in how else ", k1 AS c2, v1 AS c3")
        return f"SELECT {wanted} FROM {sides[0]} {how} {sides[1]} ON {self.pick.choice(('k0 = k1', 'k0 <=> k1'))}"

    def scalars(self) -> str:
        """Return scalar subqueries, alone or with aggregates."""
        one, two = (f"(SELECT {self.aggregate()} FROM {self.source()}{self.where()})" for _ in range(2))
        if self.chance(0.5):
            return f"SELECT {one} AS c0, {two} AS c1"
        return f"SELECT {one} AS c0, {self.value()} AS c1 FROM {self.source()}{self.where()}"

    def filtered_by_aggregates(self) -> str:
        """Return rows, or aggregates of rows, filtered by aggregates."""
        inner = self.pick.choice(
            (
                f"id = (SELECT {self.pick.choice(('min', 'max'))}(id) FROM {self.table()}{self.where()})",
                f"p IN (SELECT p FROM {self.table()} GROUP BY p HAVING {self.pick.choice(('count(*)', 'count(DISTINCT 1)', 'max(id)'))} > 1)",
                f"EXISTS (SELECT count(*) FROM {self.table()} WHERE 1 = 0)",
                f"n > (SELECT count(DISTINCT 'x') FROM {self.table()})",
                "id > (SELECT count(id) FROM {v}_plain o WHERE o.p = t.p)",
            )
        )
        wanted = self.pick.choice(("id AS c0, p AS c1", "count(*) AS c0, max(id) AS c1", self.values(0)))
        return f"SELECT {wanted} FROM {self.table()} t WHERE {inner}"

    def united(self) -> str:
        """Return aggregates of several tables as rows."""
        parts = [
            f"SELECT CAST({self.aggregate()} AS STRING) AS c0 FROM {self.source()}{self.where()}"
            for _ in range(2)
        ]
        return self.pick.choice((" UNION ALL ", " UNION ", " EXCEPT ", " INTERSECT ")).join(parts)
