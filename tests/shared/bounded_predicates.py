"""Random predicates, data with bounds that a correct writer might have written, and the truth row by row.

The interpreter is the oracle: plain values in Spark's semantics, NULL as None; it shares no code with the product but the
tree's classes.
"""

from __future__ import annotations

import functools
import math
import random
from decimal import Decimal
from typing import Any

from twostage.predicates.bounds import Bounds
from twostage.predicates.predicate import (
    And,
    Column,
    Compare,
    CompareColumns,
    Constant,
    In,
    IsNull,
    Not,
    Or,
    StringMatch,
)
from twostage.schema import Primitive

NAN = math.nan
POOLS: dict[str, list[Any]] = {
    "int": [-3, -1, 0, 1, 2, 3, 4, 7, 2**31 - 1],
    "long": [-(2**40), -1, 0, 1, 2, 3, 2**53, 2**53 + 1],
    "double": [NAN, -math.inf, math.inf, 0.0, -0.0, 1.5, -1.5, 2.0, 3.0, 1e300],
    "float": [NAN, -math.inf, math.inf, 0.0, -0.0, 1.5, -1.5, 2.0, 3.0],
    "boolean": [True, False],
    "decimal": [Decimal("-1.50"), Decimal("0.00"), Decimal("1.00"), Decimal("1.25"), Decimal("99.99")],
    "string": ["", "a", "aa", "ab", "aba", "abb", "b", "é", "éa", "\uffff", "\U00010000", "\U0001f600x"],
    "binary": [b"", b"\x00", b"a", b"ab", b"b", b"\x7f", b"\x80", b"\xff\xff"],
    "date": [-1, 0, 1, 19000, 19001],
}
TYPES = {name: Primitive(name) for name in POOLS} | {"decimal": Primitive("decimal", precision=4, scale=2)}
OPS = ("=", "<>", "<", "<=", ">", ">=", "<=>")


def spark_order(a: Any, b: Any) -> int:
    """Compare as Spark does: NaN greatest and equal to itself, strings by UTF-8 bytes."""
    if isinstance(a, float) or isinstance(b, float):
        a_nan, b_nan = a != a, b != b
        if a_nan or b_nan:
            return int(a_nan) - int(b_nan)
    if isinstance(a, str):
        a, b = a.encode(), b.encode()
    return (a > b) - (a < b)


def compare(op: str, a: Any, b: Any) -> bool | None:
    if op == "<=>":
        return (a is None) == (b is None) and (a is None or spark_order(a, b) == 0)
    if a is None or b is None:
        return None
    sign = spark_order(a, b)
    return {"=": sign == 0, "<>": sign != 0, "<": sign < 0, "<=": sign <= 0, ">": sign > 0, ">=": sign >= 0}[
        op
    ]


def value_of(column: Column, row: dict[int, Any]) -> Any:
    value = row[column.field_id]
    if value is None or column.cast is None:
        return value
    if column.cast.name == "double":
        return float(value)
    return Decimal(value) if column.cast.name == "decimal" else value


def truth(predicate: Any, row: dict[int, Any]) -> bool | None:
    match predicate:
        case And(children):
            parts = [truth(child, row) for child in children]
            return False if False in parts else None if None in parts else True
        case Or(children):
            parts = [truth(child, row) for child in children]
            return True if True in parts else None if None in parts else False
        case Not(child):
            inner = truth(child, row)
            return None if inner is None else not inner
        case Constant(value):
            return value
        case IsNull(column):
            return row[column.field_id] is None
        case Compare(op, column, value):
            return compare(op, value_of(column, row), value)
        case CompareColumns(op, left, right):
            return compare(op, value_of(left, row), value_of(right, row))
        case In(column, values, has_null):
            mine = value_of(column, row)
            if mine is None:
                return None
            hit = any(spark_order(mine, value) == 0 for value in values)
            return True if hit else None if has_null else False
        case StringMatch(kind, column, text):
            mine = row[column.field_id]
            if mine is None:
                return None
            return {"prefix": mine.startswith(text), "suffix": mine.endswith(text), "contains": text in mine}[
                kind
            ]
    raise AssertionError(predicate)


def truncated_upper(text: str, length: int) -> str | None:
    """Truncate and increment the last character, as Iceberg's writers do."""
    if len(text) <= length:
        return text
    for end in range(length, 0, -1):
        code = ord(text[end - 1]) + 1
        if code <= 0x10FFFF and not 0xD800 <= code <= 0xDFFF:
            return text[: end - 1] + chr(code)
    return None


def bounds_for(rng: random.Random, name: str, values: list[Any]) -> Bounds | None:
    """Make bounds that a correct writer might have written: some facts left out, strings truncated."""
    if rng.random() < 0.05:
        return None
    present = [value for value in values if value is not None]
    numbers = [value for value in present if value == value]
    key = functools.cmp_to_key(spark_order)
    lower = min(numbers, key=key) if numbers else None
    upper = max(numbers, key=key) if numbers else None
    exact_lower = exact_upper = True
    if name == "string" and numbers and rng.random() < 0.5:
        cut_lower, cut_upper = lower[:1], truncated_upper(upper, 1)
        exact_lower, exact_upper = cut_lower == lower, cut_upper == upper
        lower, upper = cut_lower, cut_upper
    if lower == 0 and name in ("double", "float"):
        lower = rng.choice([0.0, -0.0])
    if upper == 0 and name in ("double", "float"):
        upper = rng.choice([0.0, -0.0])
    if name == "int" and numbers and rng.random() < 0.2:
        lower -= 1  # bounds need not be tight
    return Bounds(
        lower=lower if rng.random() < 0.9 else None,
        upper=upper if rng.random() < 0.9 else None,
        null_count=len(values) - len(present) if rng.random() < 0.9 else None,
        nan_count=len(present) - len(numbers) if rng.random() < 0.8 else None,
        value_count=len(values) if rng.random() < 0.8 else None,
        exact_lower=exact_lower and rng.random() < 0.9,
        exact_upper=exact_upper and rng.random() < 0.9,
    )


def random_leaf(rng: random.Random, columns: list[Column]) -> Any:
    column = rng.choice(columns)
    pool = POOLS[column.type.name]
    value_pool = pool
    if column.type.name == "int" and rng.random() < 0.3:
        column = Column(column.field_id, column.path, column.type, Primitive("double"))
        value_pool = [-1.5, 0.0, 0.5, 1.0, 2.0, NAN, 3.0]
    elif column.type.name == "long" and rng.random() < 0.3:
        column = Column(column.field_id, column.path, column.type, Primitive("double"))
        value_pool = [float(2**53), float(2**53 + 2), 0.0, 1.0]
    elif column.type.name == "int" and rng.random() < 0.2:
        column = Column(
            column.field_id, column.path, column.type, Primitive("decimal", precision=12, scale=2)
        )
        value_pool = [Decimal("0.50"), Decimal("1.00"), Decimal("2.00")]
    kind = rng.randrange(10)
    if kind == 0:
        return IsNull(column)
    if kind == 1:
        return Constant(rng.choice([True, False, None]))
    if kind == 2 and column.type.name == "string":
        return StringMatch(rng.choice(["prefix", "suffix", "contains"]), column, rng.choice(pool))
    if kind == 3:
        same = [other for other in columns if other.type == column.value_type]
        if same and column.cast is None:
            return CompareColumns(rng.choice(OPS), column, rng.choice(same))
    if kind in (4, 5):
        listed = tuple(rng.choice(value_pool) for _ in range(rng.randrange(0, 6)))
        return In(column, listed, rng.random() < 0.2)
    return Compare(rng.choice(OPS), column, rng.choice(value_pool))


def random_predicate(rng: random.Random, columns: list[Column], depth: int) -> Any:
    choice = rng.random()
    if depth == 0 or choice < 0.5:
        return random_leaf(rng, columns)
    if choice < 0.65:
        return Not(random_predicate(rng, columns, depth - 1))
    kind = And if choice < 0.85 else Or
    return kind(tuple(random_predicate(rng, columns, depth - 1) for _ in range(rng.randrange(2, 4))))


def draw(rng: random.Random, depth: int = 2) -> tuple[Any, list[dict[int, Any]], dict[int, Bounds | None]]:
    """Return a predicate on some columns, up to four rows, and the columns' bounds by field id."""
    names = rng.choices(list(POOLS), k=2)
    names += [names[0]] if rng.random() < 0.5 else []
    columns = [Column(i, (f"c{i}",), TYPES[name]) for i, name in enumerate(names)]
    num_rows = rng.randrange(1, 5)
    null_share = rng.choice([0, 0, 0.2, 1])
    data = []
    for name in names:
        pool = rng.sample(POOLS[name], k=min(len(POOLS[name]), rng.randrange(1, 4)))
        data.append([None if rng.random() < null_share else rng.choice(pool) for _ in range(num_rows)])
    known = {i: bounds_for(rng, name, data[i]) for i, name in enumerate(names)}
    rows = [{i: data[i][row] for i in range(len(names))} for row in range(num_rows)]
    return random_predicate(rng, columns, depth), rows, known
