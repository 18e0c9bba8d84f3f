"""Random leaves of the shapes that the first issue lists: the source must take them over.

Takes a random generator; gives `Drawn` predicates over the columns of `nasty_values`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nasty_values import COLUMNS, LONG_TEXT, POOLS, YEAR_9999

from written_predicates import Drawn, api_value, apply, field, literal, quote

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


class PromisedShapes:
    """Draws leaves that must be taken over."""

    def __init__(self, random_: random.Random) -> None:
        self.random = random_

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
