"""Random typed columns and predicates, and an interpreter that answers them one row at a time.

The interpreter is the oracle: plain Python values, None for NULL, Spark's order spelled out; it shares no
code with the product but the tree's classes.
"""

from __future__ import annotations

import math
import random
from decimal import Decimal

import pyarrow as pa

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
from twostage.schema import Primitive, parse_type

INTS = [0, 1, -1, 2, 7, 2**31 - 1, -(2**31)]
LONGS = [*INTS, 2**63 - 1, -(2**63), 2**53 + 1, 2**24 + 1, 16777219, 2**62 + 1]
LONGS.append(2**60 + 2**36 + 1)  # rounds up to a float, but down by way of a double
FLOATS = [
    0.0,
    -0.0,
    math.nan,
    math.inf,
    -math.inf,
    1.5,
    -1.5,
    0.5,
    16777216.0,
    2.0**60,
    3.4028234663852886e38,
]
DOUBLES = [*FLOATS, 0.1, 5e-324, 1e308, 9007199254740992.0, 9223372036854775807.0]
WORDS = [
    "",
    "a",
    "ab",
    "abc",
    "b",
    "abcdefgh",
    "abcdefghi",
    "abcdefgz",
    "é",
    "éa",
    "日本",
    "\x00",
    "😀",
    "x" * 70,
]
BLOBS = [b"", b"\x00", b"\xff", b"\x80\x01", b"a", b"ab", b"abcdefgh\xff", b"abcdefgh\x00"]
SMALL_DECIMALS = [
    Decimal(text) for text in ("0.00", "0.01", "-0.01", "9999999.99", "-9999999.99", "1.20", "1.25")
]
LARGE_DECIMALS = [
    Decimal(text)
    for text in (
        "0.0000",
        "1.2500",
        "-1.2500",
        f"{'9' * 34}.9999",
        f"-{'9' * 34}.9999",
        "18446744073709551615.0000",
        "-1844674407370955.1616",
        "1844674407370955.1615",
    )
]
EXTRA_DECIMALS = [
    Decimal(text) for text in ("1.255", "1.2500000", "1E+40", "-1E+40", "1E-30", "0", "9999999.994", "1E2")
]

POOLS = {
    "boolean": [True, False],
    "int": INTS,
    "long": LONGS,
    "float": FLOATS,
    "double": DOUBLES,
    "decimal(9,2)": SMALL_DECIMALS,
    "decimal(38,4)": LARGE_DECIMALS,
    "date": [0, 1, -1, 19_000, -700_000],
    "timestamp": [0, 1, -1, 1_700_000_000_000_000, 2**62],
    "timestamptz": [0, 1, -1, 1_700_000_000_000_000, -(2**62)],
    "string": WORDS,
    "uuid": ["00000000-0000-0000-0000-000000000000", "f79c3e09-677c-4bbd-a479-3f349cb785e7"],
    "binary": BLOBS,
    "fixed[4]": [b"\x00\x00\x00\x00", b"\xff\x00\x00\x01", b"abcd"],
}
ARROW = {
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "decimal(9,2)": pa.decimal128(9, 2),
    "decimal(38,4)": pa.decimal128(38, 4),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us"),
    "timestamptz": pa.timestamp("us", "UTC"),
    "string": pa.string(),
    "uuid": pa.string(),
    "binary": pa.binary(),
    "fixed[4]": pa.binary(4),
}
CASTS = {
    "int": ["long", "float", "double", "decimal(10,0)", "decimal(14,3)"],
    "long": ["float", "double", "decimal(20,0)", "decimal(25,5)"],
    "float": ["double"],
    "decimal(9,2)": ["decimal(12,2)", "decimal(38,10)"],
}
OPS = ["=", "<>", "<", "<=", ">", ">=", "<=>"]


# --- arrays ------------------------------------------------------------------------------------------------


def exact_array(values, kind):
    """Build an array without NULL; dates and timestamps are given as integers."""
    storage = {"date": pa.int32(), "timestamp": pa.int64(), "timestamptz": pa.int64()}.get(kind)
    if storage is None:
        return pa.array(values, ARROW[kind])
    return pa.array(values, storage).view(ARROW[kind])


def build(rng: random.Random, values, kind):
    """Build an array of these values (None: NULL) in some encoding, with an offset, and garbage wherever
    allowed."""
    pool = POOLS[kind]
    before, after = rng.choice([(0, 0), (1, 0), (3, 2), (8, 9), (13, 1)])
    padded = [*rng.choices([*pool, None], k=before), *values, *rng.choices([*pool, None], k=after)]
    filled = exact_array([rng.choice(pool) if value is None else value for value in padded], kind)
    bits = pa.array([value is not None for value in padded], pa.bool_()).buffers()[1]
    form = rng.choice(["plain", "plain", "dictionary", "large", "chunked"])
    if form == "dictionary" and kind in ("string", "binary", "long"):
        return dictionary(rng, padded, kind).slice(before, len(values))
    if form == "large" and kind in ("string", "binary", "uuid"):
        filled = filled.cast(pa.large_binary() if kind == "binary" else pa.large_string())
    if None in padded or rng.random() < 0.3:
        filled = pa.Array.from_buffers(filled.type, len(padded), [bits, *filled.buffers()[1:]])
    array = filled.slice(before, len(values))
    assert len(array) == len(values)
    if form == "chunked":
        cut = rng.randint(0, len(array))
        return pa.chunked_array([array[:cut], array[cut:]], filled.type)
    return array


def dictionary(rng: random.Random, padded, kind):
    """Encode with repeated and unused dictionary values, NULL as index or as value, garbage indices."""
    pool = [*POOLS[kind], *rng.choices(POOLS[kind], k=3)]
    rng.shuffle(pool)
    with_null = [*pool, None]
    indices, present = [], []
    for value in padded:
        if value is None and rng.random() < 0.5:
            indices.append(len(pool))
            present.append(True)
        elif value is None:
            indices.append(rng.choice([0, 2**31 - 1, -5, 10**6]))
            present.append(False)
        else:
            indices.append(rng.choice([i for i, other in enumerate(pool) if other == value]))
            present.append(True)
    buffers = [pa.array(present, pa.bool_()).buffers()[1], pa.array(indices, pa.int32()).buffers()[1]]
    codes = pa.Array.from_buffers(pa.int32(), len(indices), buffers)
    return pa.DictionaryArray.from_arrays(codes, pa.array(with_null, ARROW[kind]), safe=False)


# --- predicates --------------------------------------------------------------------------------------------


def literal(rng: random.Random, kind: str):
    pool = POOLS[kind] if kind in POOLS else [*SMALL_DECIMALS, *LARGE_DECIMALS]
    if kind.startswith("decimal") and rng.random() < 0.5:
        return rng.choice(EXTRA_DECIMALS)
    return rng.choice(pool)


def random_column(rng: random.Random, kinds):
    field_id = rng.randrange(len(kinds))
    kind = kinds[field_id]
    cast = rng.choice(CASTS[kind]) if kind in CASTS and rng.random() < 0.3 else None
    return Column(field_id, (f"c{field_id}",), parse_type(kind), parse_type(cast) if cast else None)


def random_leaf(rng: random.Random, kinds):
    column = random_column(rng, kinds)
    kind = str(column.value_type)
    roll = rng.random()
    if roll < 0.1:
        return IsNull(column)
    if roll < 0.15:
        return Constant(rng.choice([True, False, None]))
    if roll < 0.35:
        count = rng.choice([0, 1, 2, 3, 9, 30])
        values = [literal(rng, kind) for _ in range(count)]
        if kind in ("int", "long") and count > 5:
            values += range(100, 150)
        return In(column, tuple(values), rng.random() < 0.3)
    if roll < 0.5 and kind == "string":
        text = rng.choice(WORDS)
        cut = rng.randint(0, len(text))
        return StringMatch(
            rng.choice(["prefix", "suffix", "contains"]), column, rng.choice([text[:cut], text[cut:]])
        )
    if roll < 0.65:
        others = [
            Column(i, (f"c{i}",), parse_type(other), column.cast if other == kinds[column.field_id] else None)
            for i, other in enumerate(kinds)
            if other == kinds[column.field_id] or (column.cast is None and other == kind)
        ]
        return CompareColumns(rng.choice(OPS), column, rng.choice(others))
    return Compare(rng.choice(OPS), column, literal(rng, kind))


def random_predicate(rng: random.Random, kinds, depth=3):
    roll = rng.random()
    if depth == 0 or roll < 0.3:
        return random_leaf(rng, kinds)
    if roll < 0.45:
        return Not(random_predicate(rng, kinds, depth - 1))
    children = tuple(random_predicate(rng, kinds, depth - 1) for _ in range(rng.randint(2, 3)))
    return And(children) if roll < 0.72 else Or(children)


# --- the oracle --------------------------------------------------------------------------------------------


def to_float32(value):
    """Round an integer or float to the nearest float32, ties to even, by integer arithmetic."""
    if isinstance(value, float):
        return value  # the pools' floats are float32 already
    magnitude = abs(value)
    drop = max(0, magnitude.bit_length() - 24)
    kept, rest = magnitude >> drop, magnitude & ((1 << drop) - 1)
    half = 1 << (drop - 1) if drop else 1
    if rest > half or (rest == half and drop and kept & 1):
        kept += 1
    return math.copysign(float(kept << drop), value) if value else 0.0


def cast_value(value, column: Column):
    if value is None or column.cast is None:
        return value
    match column.cast.name:
        case "double":
            return float(value)
        case "float":
            return to_float32(value)
        case "decimal":
            return Decimal(value)
    return value


def key(value):
    """Return a key that orders values as Spark does."""
    if isinstance(value, float):
        return (1, 0.0) if math.isnan(value) else (0, value)
    if isinstance(value, str):
        return value.encode()
    return value


def compare(op, left, right):
    if op == "<=>":
        return left is None and right is None if left is None or right is None else key(left) == key(right)
    if left is None or right is None:
        return None
    a, b = key(left), key(right)
    return {"=": a == b, "<>": a != b, "<": a < b, "<=": a <= b, ">": a > b, ">=": a >= b}[op]


def answer(predicate, row):
    """Answer a predicate for one row, a list of values by field id: True, False or None."""
    match predicate:
        case Constant(value):
            return value
        case IsNull(column):
            return row[column.field_id] is None
        case Compare(op, column, value):
            return compare(op, cast_value(row[column.field_id], column), value)
        case CompareColumns(op, left, right):
            return compare(op, cast_value(row[left.field_id], left), cast_value(row[right.field_id], right))
        case In(column, values, has_null):
            if not values and not has_null:
                return False
            value = cast_value(row[column.field_id], column)
            if value is None:
                return None
            if any(compare("=", value, other) for other in values):
                return True
            return None if has_null else False
        case StringMatch(kind, column, text):
            value = row[column.field_id]
            if value is None:
                return None
            found = {"prefix": value.startswith, "suffix": value.endswith, "contains": value.__contains__}
            return found[kind](text)
        case Not(child):
            inner = answer(child, row)
            return None if inner is None else not inner
        case And(children):
            answers = [answer(child, row) for child in children]
            return False if False in answers else None if None in answers else True
        case Or(children):
            answers = [answer(child, row) for child in children]
            return True if True in answers else None if None in answers else False
    raise AssertionError(predicate)


assert all(isinstance(parse_type(kind), Primitive) for kind in POOLS)
