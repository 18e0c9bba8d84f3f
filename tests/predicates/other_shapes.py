"""Random leaves of all other shapes: the source may hand them back to Spark, and never answer them wrongly.

Takes a random generator; gives `Drawn` predicates: casts, mixed types, arithmetic, functions, collations, moments.
"""

from __future__ import annotations

import math

from nasty_values import POOLS
from promised_shapes import FIELDS, NUMBERS, OPERATORS, STRINGS, TIMES, PromisedShapes

from written_predicates import Drawn, apply, field, literal, quote


class OtherShapes(PromisedShapes):
    """Draws leaves that may be handed back; some are made of promised ones."""

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
                "decimal(9,2)",
                "decimal(38,10)",
            )
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
                    "9007199254740993",
                    "1.5",
                    "99999999.995",
                    "1e-50",
                    "127Y",
                    "300S",
                    "16777217",
                    "-1e-10",
                )
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
                "{0} - {1} {2} 0",
                "try_add({0}, {1}) {2} 7",
                "try_divide({0}, {1}) {2} 1",
                "round({0}) {2} 1",
            )
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
                "length(x1) {2} {3}",
                "upper({0}) {2} 'AB'",
                "substring({0}, 1, 1) = 'a'",
                "coalesce({1}, 7) {2} 7",
                "isnan({1})",
                "NOT isnan({1})",
                "contains({0}, s2)",
                "startswith(x1, X'61')",
                "nullif({1}, 1) {2} 7",
                "CASE WHEN b1 THEN {1} {2} 1 ELSE b2 END",
                "greatest({1}, 1) {2} 7",
                "trim({0}) = '7'",
                "hash({1}) > 0",
                "if({1} {2} 1, b1, {0} = 'a')",
                "{0} || 'b' = 'ab'",
                "bit_length({0}) {2} {3}",
                "{0} IN (s2, 'a')",
                "length({0}) IN (1, {3}, NULL)",
                "length({0}) = length(s2)",
                "length({0}) BETWEEN 1 AND 3",
            )
        )
        return Drawn(form.format(text, number, op, length), "function", False)

    def collated(self) -> Drawn:
        name, op = self.random.choice(STRINGS), self.random.choice(OPERATORS)
        collation = self.random.choice(
            ("UTF8_LCASE", "UNICODE", "UNICODE_CI", "UTF8_BINARY", "UTF8_BINARY_RTRIM")
        )
        form = self.random.choice(
            (
                "{0} COLLATE {1} {2} {3}",
                "{0} {2} {3} COLLATE {1}",
                "{0} COLLATE {1} IN ({3}, 'b')",
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
                "{0} {1} TIMESTAMP'2024-03-10 02:30:00'",
                "{0} {1} TIMESTAMP'2024-11-03 01:30:00'",
                "hour(ts1) {1} 2",
                "{0} {1} TIMESTAMP_NTZ'2024-03-10 02:30:00'",
                "{0} {1} DATE'2024-03-10'",
                "{0} {1} '2024-03-10'",
                "{0} {1} '1969-12-31 23:59:59.999999'",
                "date_trunc('day', {0}) {1} TIMESTAMP'1970-01-01 00:00:00'",
                "{0} + INTERVAL 1 DAY {1} TIMESTAMP'2024-03-11 00:00:00'",
                "date_add(day1, 1) {1} DATE'1970-01-01'",
                "cast(n1 as date) {1} DATE'0001-01-01'",
                "cast(n1 as date) {1} DATE'9999-12-31'",
                "{0} {1} '0001-01-01'",
                "cast(n1 as date) IN (DATE'1970-01-01', NULL)",
                "cast(n1 as date) {1} day1",
                "{0} {1} DATE'0001-01-01'",
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
