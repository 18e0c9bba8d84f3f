"""Random predicates as SQL text and, where the DataFrame API has the same words, as a Column.

Takes a random generator; gives a `Drawn` predicate. `shape` names the form; `promised` tells whether every
leaf is one of the shapes that the first issue lists, so that the whole must be taken over.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from nasty_values import COLUMNS, LONG_TEXT, POOLS, YEAR_9999
from writing import Drawn, api_value, apply, field, literal, quote

if TYPE_CHECKING:
    import random

OPERATORS = ("=", "<>", "<", "<=", ">", ">=", "<=>", "==", "!=")
FIELDS = {**{name: kind for name, kind in COLUMNS.items() if isinstance(kind, str)}, "id": "long"}
FIELDS |= {"st.a": "int", "st.s": "string", "st.d": "double", "st.inner.b": "boolean"}
FIELDS["st.inner.p"] = "decimal(5,1)"
NUMBERS = [
    name for name, kind in FIELDS.items() if kind in ("int", "long", "float", "double") or kind[:3] == "dec"
]
STRINGS = [name for name, kind in FIELDS.items() if kind == "string"]
TIMES = [name for name, kind in FIELDS.items() if kind in ("date", "timestamp", "timestamptz")]


class Drawing:
    """Draws predicates from one generator."""

    def __init__(self, random_: random.Random) -> None:
        self.random = random_

    def predicate(self, depth: int = 2) -> Drawn:
        """Draw a predicate: a leaf, or AND, OR, NOT of smaller ones."""
        kind = self.random.random()
        if depth == 0 or kind < 0.45:
            return self.leaf()
        if kind < 0.6:
            return negated(self.predicate(depth - 1))
        parts = [self.predicate(depth - 1) for _ in range(self.random.choice((2, 2, 3)))]
        return joined(self.random.choice(("AND", "OR")), parts)

    def leaf(self) -> Drawn:
        """Draw a leaf: in six of ten cases one of the promised shapes."""
        if self.random.random() < 0.62:
            return self.random.choice(
                (self.compared, self.compared, self.compared, self.listed, self.listed, self.null_test)
                + (self.columns, self.matched, self.boolean, self.between)
            )()
        return self.random.choice(
            (self.cast, self.cast, self.mixed_columns, self.mixed_literal, self.mixed_literal, self.number)
            + (
                self.pattern,
                self.pattern,
                self.function,
                self.collated,
                self.moment,
                self.truth,
                self.decimal,
            )
        )()

    def value(self, kind: str) -> Any:
        """Draw a value from the rows' pool, or one that is near none of them."""
        if self.random.random() < 0.8:
            return self.random.choice(POOLS["int" if kind == "id" else kind])
        match kind:
            case "string" | "uuid":
                return self.random.choice(
                    ("", "zz", "a", "\U0001f600", LONG_TEXT, "b%", "NULL", "\u0000", "ab" * 9)
                )
            case "binary":
                return self.random.choice((b"", b"a" * 17, b"\xff\xff", b"\x00" * 9))
            case "date":
                return self.random.randrange(-719162, YEAR_9999)
        return self.random.choice(POOLS[kind])

    def name(self, *kinds: str) -> str:
        return self.random.choice([name for name, kind in FIELDS.items() if not kinds or kind in kinds])

    # shapes that must be taken over

    def compared(self) -> Drawn:
        name = self.name()
        kind, op = FIELDS[name], self.random.choice(OPERATORS)
        value = None if self.random.random() < 0.04 else self.value(kind)
        column = None if value is None else lambda: apply(op, field(name), api_value(kind, value))
        if self.random.random() < 0.2:
            return Drawn(f"{literal(kind, value)} {op} {name}", "literal first", True)
        return Drawn(f"{name} {op} {literal(kind, value)}", f"column {op} literal", True, column)

    def listed(self) -> Drawn:
        name = self.name()
        kind, how_many = FIELDS[name], self.random.choice((1, 2, 3, 9, 12, 30))
        if kind in ("int", "long") and self.random.random() < 0.15:
            values = [number * 3 - 900 for number in range(2000)]
        else:
            values = [self.value(kind) for _ in range(how_many)]
        has_null = self.random.random() < 0.25
        items = [literal(kind, value) for value in values] + ["NULL"] * has_null
        self.random.shuffle(items)
        word = "NOT IN" if self.random.random() < 0.3 else "IN"
        column = None
        if word == "IN" and not has_null and len(values) < 20:
            column = lambda: field(name).isin([api_value(kind, value) for value in values])
        return Drawn(f"{name} {word} ({', '.join(items)})", f"{word}{' with NULL' * has_null}", True, column)

    def null_test(self) -> Drawn:
        name = self.random.choice([*FIELDS, "st", "st.inner"])
        if self.random.random() < 0.5:
            return Drawn(f"{name} IS NULL", "IS NULL", True, lambda: field(name).isNull())
        return Drawn(f"{name} IS NOT NULL", "IS NOT NULL", True, lambda: field(name).isNotNull())

    def columns(self) -> Drawn:
        name = self.name()
        others = [other for other, kind in FIELDS.items() if kind == FIELDS[name]]
        other, op = self.random.choice(others), self.random.choice(OPERATORS)
        return Drawn(
            f"{name} {op} {other}", "two columns", True, lambda: apply(op, field(name), field(other))
        )

    def matched(self) -> Drawn:
        name = self.random.choice(STRINGS)
        value = self.value("string")
        part = value[: self.random.choice((1, 2, 16))] if self.random.random() < 0.7 else value
        kind = self.random.choice(("prefix", "suffix", "contains"))
        safe = part.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
        pattern = {"prefix": f"{safe}%", "suffix": f"%{safe}", "contains": f"%{safe}%"}[kind]
        plain = safe == part and part != "" and "\n" not in part
        calls = {"prefix": "startswith", "suffix": "endswith", "contains": "contains"}
        column = lambda: getattr(field(name), calls[kind])(part)
        if plain and self.random.random() < 0.7:
            return Drawn(f"{name} LIKE {quote(pattern)}", f"LIKE {kind}", True, column)
        return Drawn(f"{calls[kind]}({name}, {quote(part)})", calls[kind], True, column)

    def boolean(self) -> Drawn:
        name = self.name("boolean")
        form = self.random.choice(("{}", "NOT {}", "{} IS TRUE", "{} IS NOT FALSE", "{} <> false"))
        column = {"{}": lambda: field(name), "NOT {}": lambda: ~field(name)}.get(form)
        return Drawn(form.format(name), "boolean column", True, column)

    def between(self) -> Drawn:
        name = self.name()
        kind = FIELDS[name]
        low, high = self.value(kind), self.value(kind)
        column = lambda: field(name).between(api_value(kind, low), api_value(kind, high))
        return Drawn(
            f"{name} BETWEEN {literal(kind, low)} AND {literal(kind, high)}", "BETWEEN", True, column
        )

    # shapes that may be handed back

    def cast(self) -> Drawn:
        name = self.name()
        target = self.random.choice(
            (
                "string",
                "int",
                "long",
                "double",
                "float",
                "boolean",
                "date",
                "timestamp",
                "timestamptz",
                "binary",
            )
            + ("decimal(9,2)", "decimal(38,10)")
        )
        words = {"long": "bigint", "timestamp": "timestamp_ntz", "timestamptz": "timestamp"}
        call = self.random.choice(("CAST", "TRY_CAST", "TRY_CAST"))
        op = self.random.choice(OPERATORS)
        value = literal(target, self.value(target if target in POOLS else "string"))
        return Drawn(
            f"{call}({name} AS {words.get(target, target)}) {op} {value}", f"{call} to {target}", False
        )

    def mixed_columns(self) -> Drawn:
        names = self.random.choice((NUMBERS, NUMBERS, TIMES, [*STRINGS, "u1"]))
        name, other = self.random.choice(names), self.random.choice(names)
        op = self.random.choice(OPERATORS)
        return Drawn(
            f"{name} {op} {other}",
            "columns of two types",
            False,
            lambda: apply(op, field(name), field(other)),
        )

    def mixed_literal(self) -> Drawn:
        """A number column and a literal of another number type, in and out of its range."""
        name = self.random.choice(NUMBERS)
        kind = self.random.choice(("int", "long", "float", "double", "decimal(9,2)", "decimal(38,10)", "raw"))
        values = [self._number(kind) for _ in range(self.random.choice((1, 1, 3)))]
        if len(values) == 1:
            op = self.random.choice(OPERATORS)
            return Drawn(f"{name} {op} {values[0]}", f"number {op} {kind}", False)
        return Drawn(f"{name} IN ({', '.join(values)})", f"number IN {kind}", False)

    def _number(self, kind: str) -> str:
        if kind == "raw":
            return self.random.choice(
                (
                    "0",
                    "-0.0D",
                    "1.234",
                    "1e0",
                    "3000000000",
                    "-2147483649",
                    "9223372036854775808",
                    "0.1",
                    "1e39D",
                )
                + ("9007199254740993", "1.5", "99999999.995", "1e-50", "127Y", "300S", "16777217", "-1e-10")
            )
        return literal(kind, self.random.choice(POOLS[kind]))

    def number(self) -> Drawn:
        name, other = self.random.choice(NUMBERS), self.random.choice(NUMBERS)
        op = self.random.choice(OPERATORS)
        form = self.random.choice(
            (
                "{0} + 1 {2} {1}",
                "{0} * 2 {2} 14",
                "-{0} {2} {1}",
                "abs({0}) {2} 1",
                "{0} / 2 {2} 0.5",
                "{0} % 2 {2} 1",
            )
            + ("{0} - {1} {2} 0", "try_add({0}, {1}) {2} 7", "try_divide({0}, {1}) {2} 1", "round({0}) {2} 1")
        )
        return Drawn(form.format(name, other, op), "arithmetic", False)

    def pattern(self) -> Drawn:
        name = self.random.choice([*STRINGS, "u1"])
        pattern = self.random.choice(
            (
                "a%b",
                "a_b",
                "_",
                "__",
                "a%b%c",
                "",
                "%",
                "%%",
                "_%",
                "a\\%b",
                "a\\_b",
                "%a%b%",
                "\U0001f600%b",
                "a%",
            )
            + (
                "ab%ab",
                "abc%bc",
                "%\\\\%",
                "long %x",
                "x%a",
                "_\U0001f600_",
                "a%\U0001f600b",
                "aa%",
                "%a\nb%",
            )
        )
        word = self.random.choice(("LIKE", "LIKE", "LIKE", "NOT LIKE", "ILIKE", "RLIKE"))
        text = quote(pattern) if word != "RLIKE" else "'^[a-b]+$'"
        column = (lambda: field(name).like(pattern)) if word == "LIKE" else None
        return Drawn(f"{name} {word} {text}", f"{word} pattern", False, column)

    def function(self) -> Drawn:
        text, number = self.random.choice(STRINGS), self.random.choice(NUMBERS)
        op, length = self.random.choice(OPERATORS), self.random.choice((-1, 0, 1, 2, 3, 17, 10_000))
        form = self.random.choice(
            (
                "length({0}) {2} {3}",
                "length({0}) {2} {3}",
                "length({0}) {2} NULL",
                "char_length({0}) {2} {3}L",
            )
            + (
                "length(x1) {2} {3}",
                "upper({0}) {2} 'AB'",
                "substring({0}, 1, 1) = 'a'",
                "coalesce({1}, 7) {2} 7",
            )
            + (
                "isnan({1})",
                "NOT isnan({1})",
                "contains({0}, s2)",
                "startswith(x1, X'61')",
                "nullif({1}, 1) {2} 7",
            )
            + (
                "CASE WHEN b1 THEN {1} {2} 1 ELSE b2 END",
                "greatest({1}, 1) {2} 7",
                "trim({0}) = '7'",
                "hash({1}) > 0",
            )
            + (
                "if({1} {2} 1, b1, {0} = 'a')",
                "{0} || 'b' = 'ab'",
                "bit_length({0}) {2} {3}",
                "{0} IN (s2, 'a')",
            )
            + ("length({0}) IN (1, {3}, NULL)", "length({0}) = length(s2)", "length({0}) BETWEEN 1 AND 3")
        )
        return Drawn(form.format(text, number, op, length), "function", False)

    def collated(self) -> Drawn:
        name, op = self.random.choice(STRINGS), self.random.choice(OPERATORS)
        collation = self.random.choice(
            ("UTF8_LCASE", "UNICODE", "UNICODE_CI", "UTF8_BINARY", "UTF8_BINARY_RTRIM")
        )
        form = self.random.choice(
            ("{0} COLLATE {1} {2} {3}", "{0} {2} {3} COLLATE {1}", "{0} COLLATE {1} IN ({3}, 'b')")
            + (
                "startswith({0} COLLATE {1}, {3} COLLATE {1})",
                "contains({0}, 'A' COLLATE {1})",
                "{0} {2} s2 COLLATE {1}",
            )
        )
        if collation.startswith("UNICODE") and "long" in name:
            collation = "UTF8_LCASE"
        return Drawn(
            form.format(name, collation, op, quote(self.value("string"))), f"COLLATE {collation}", False
        )

    def moment(self) -> Drawn:
        name, op = self.random.choice(TIMES), self.random.choice(OPERATORS)
        form = self.random.choice(
            (
                "cast({0} as date) {1} DATE'2024-03-10'",
                "to_date({0}) {1} DATE'1969-12-31'",
                "year({0}) {1} 2024",
            )
            + (
                "{0} {1} TIMESTAMP'2024-03-10 02:30:00'",
                "{0} {1} TIMESTAMP'2024-11-03 01:30:00'",
                "hour(ts1) {1} 2",
            )
            + (
                "{0} {1} TIMESTAMP_NTZ'2024-03-10 02:30:00'",
                "{0} {1} DATE'2024-03-10'",
                "{0} {1} '2024-03-10'",
            )
            + (
                "{0} {1} '1969-12-31 23:59:59.999999'",
                "date_trunc('day', {0}) {1} TIMESTAMP'1970-01-01 00:00:00'",
            )
            + (
                "{0} + INTERVAL 1 DAY {1} TIMESTAMP'2024-03-11 00:00:00'",
                "date_add(day1, 1) {1} DATE'1970-01-01'",
            )
            + (
                "cast(n1 as date) {1} DATE'0001-01-01'",
                "cast(n1 as date) {1} DATE'9999-12-31'",
                "{0} {1} '0001-01-01'",
            )
            + (
                "cast(n1 as date) IN (DATE'1970-01-01', NULL)",
                "cast(n1 as date) {1} day1",
                "{0} {1} DATE'0001-01-01'",
            )
            + (
                "{0} {1} DATE'9999-12-31'",
                "{0} BETWEEN '1969-12-31' AND '2024-03-10 07:00:00Z'",
                "unix_micros(ts1) {1} 0",
            )
        )
        return Drawn(form.format(name, op), "moment", False)

    def truth(self) -> Drawn:
        """Predicates as values."""
        first, second = self.compared().sql, self.compared().sql
        form = self.random.choice(
            (
                "({0}) = ({1})",
                "({0}) <=> ({1})",
                "({0}) IS NULL",
                "({0}) IS NOT TRUE",
                "({0}) = b1",
                "coalesce({0}, b1)",
            )
            + (
                "({0}) IN (({1}), NULL)",
                "NULL OR ({0})",
                "NOT (NULL AND ({0}))",
                "({0}) <> ({1})",
                "st.inner = st.inner",
            )
        )
        return Drawn(form.format(first, second), "truth", False)

    def decimal(self) -> Drawn:
        """A decimal column and a double: what `df.price > 1.5` is."""
        name = self.random.choice([name for name in NUMBERS if FIELDS[name].startswith("decimal")])
        op = self.random.choice(OPERATORS)
        value = self.random.choice(
            (
                0.0,
                -0.0,
                1.5,
                1.23,
                0.1,
                7.0,
                1e-10,
                1e39,
                -1e39,
                math.nan,
                math.inf,
                -math.inf,
                9999999.99,
                2.0**64,
            )
            + (
                9223372036854775808.0,
                1e28,
                99999999999999.98,
                99999999999999.999,
                5e-324,
                1.2299999999999999,
                0.30000000000000004,
            )
        )
        if self.random.random() < 0.2:
            return Drawn(f"{name} IN ({literal('double', value)}, 1.5D, 7)", "decimal IN doubles", False)
        return Drawn(
            f"{name} {op} {literal('double', value)}",
            "decimal and double",
            False,
            lambda: apply(op, field(name), value),
        )


def negated(drawn: Drawn) -> Drawn:
    """NOT of a predicate."""
    column = None if drawn.column is None else lambda: ~drawn.column()
    return Drawn(f"NOT ({drawn.sql})", f"NOT {drawn.shape}", drawn.promised, column)


def joined(word: str, parts: list[Drawn]) -> Drawn:
    """AND or OR of predicates."""

    def column() -> Any:
        built = parts[0].column()
        for part in parts[1:]:
            built = built & part.column() if word == "AND" else built | part.column()
        return built

    return Drawn(
        f" {word} ".join(f"({part.sql})" for part in parts),
        word,
        all(part.promised for part in parts),
        column if all(part.by_api for part in parts) else None,
    )
