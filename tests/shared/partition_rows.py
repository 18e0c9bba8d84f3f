"""Random rows, partitioned by code of others, and predicates evaluated one row at a time.

The transforms are pyiceberg's; Java's wrap-around and its early off-by-one are written out. Evaluation is
plain three-valued Python. Nothing here imports what is tested, except the predicate and manifest values.
"""

from __future__ import annotations

import math
import random
import uuid
from decimal import Decimal
from typing import Any

from pyiceberg.conversions import to_bytes
from pyiceberg.transforms import (
    BucketTransform,
    DayTransform,
    HourTransform,
    IdentityTransform,
    MonthTransform,
    TruncateTransform,
    YearTransform,
)
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IntegerType,
    LongType,
    StringType,
    TimestampType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

from twostage.predicates.predicate import And, Column, Compare, In, IsNull, Not, Or, StringMatch
from twostage.schema import Primitive
from twostage.table.manifest_entry import ContentFile

DAY = 86_400_000_000
TYPES = {
    "boolean": BooleanType(),
    "int": IntegerType(),
    "long": LongType(),
    "float": FloatType(),
    "double": DoubleType(),
    "decimal": DecimalType(9, 2),
    "date": DateType(),
    "time": TimeType(),
    "timestamp": TimestampType(),
    "timestamptz": TimestamptzType(),
    "string": StringType(),
    "uuid": UUIDType(),
    "fixed": FixedType(4),
    "binary": BinaryType(),
}
KINDS = {name: Primitive(name) for name in TYPES} | {
    "decimal": Primitive("decimal", precision=9, scale=2),
    "fixed": Primitive("fixed", length=4),
}
ALPHABET = "ab\u00e9\ud7ff\ue000\U0001f600\U0010ffff"


def random_value(rng: random.Random, name: str) -> Any:
    """Return a value in the internal form, near others so that comparisons tie."""
    match name:
        case "boolean":
            return rng.random() < 0.5
        case "int":
            return rng.choice(
                (rng.randint(-25, 25), -(2**31) + rng.randint(0, 9), 2**31 - 1 - rng.randint(0, 9))
            )
        case "long":
            return rng.choice(
                (rng.randint(-25, 25), -(2**63) + rng.randint(0, 9), 2**63 - 1 - rng.randint(0, 9))
            )
        case "float" | "double":
            return rng.choice((math.nan, -0.0, 0.0, 1.5, -1.5, math.inf, -math.inf, 2.25))
        case "decimal":
            return Decimal(f"{rng.randint(-300, 300)}E-2")
        case "date":
            return rng.randint(-800, 800)
        case "time":
            return rng.randint(0, 50)
        case "timestamp" | "timestamptz":
            unit = rng.choice((DAY, DAY // 24, 1))
            return rng.randint(-40, 40) * unit + rng.choice((0, 0, -1, 1))
        case "string":
            return "".join(rng.choice(ALPHABET) for _ in range(rng.randint(0, 5)))
        case "uuid":
            return str(uuid.UUID(int=rng.choice((0, 1, 2**127, 2**128 - 1, rng.getrandbits(128)))))
        case "fixed":
            return bytes(rng.choice((0, 1, 0x7F, 0x80, 0xFF)) for _ in range(4))
        case "binary":
            return bytes(rng.choice((0, 0x7F, 0xFF)) for _ in range(rng.randint(0, 5)))
    raise AssertionError(name)


def transform(text: str, name: str, value: Any) -> Any:
    """Return the partition value that pyiceberg computes."""
    kind, _, rest = text.partition("[")
    width = int(rest.rstrip("]") or 0)
    if kind == "truncate" and name in ("int", "long"):
        return java_truncate(name, width, value)  # pyiceberg's exceeds the type's range
    made = {
        "identity": IdentityTransform,
        "bucket": lambda: BucketTransform(width),
        "truncate": lambda: TruncateTransform(width),
        "year": YearTransform,
        "month": MonthTransform,
        "day": DayTransform,
        "hour": HourTransform,
    }[kind]()
    given = uuid.UUID(value) if name == "uuid" and value is not None else value
    result = made.transform(TYPES[name])(given)
    return str(result) if isinstance(result, uuid.UUID) else result


def java_truncate(name: str, width: int, value: int | None) -> int | None:
    """Return the result of Java's int or long arithmetic, which wraps around."""
    if value is None:
        return None
    bits = 32 if name == "int" else 64
    result = value - value % width
    return (result + 2 ** (bits - 1)) % 2**bits - 2 ** (bits - 1)


def raw(name: str, value: Any) -> bytes:
    """Serialize a bound as pyiceberg does."""
    if name == "uuid":
        return uuid.UUID(value).bytes
    return to_bytes(TYPES[name], value)


def order(value: Any) -> Any:
    """Return a key that orders as Spark does: NaN last, strings by UTF-8 bytes."""
    if isinstance(value, float):
        return (math.isnan(value), 0.0 if math.isnan(value) else value)
    return value.encode("utf-8") if isinstance(value, str) else value


def metrics(rng: random.Random, name: str, values: list[Any]) -> dict[str, Any]:
    """Return a data file's metrics of column 1, each sometimes missing, strings truncated."""
    if rng.random() < 0.3:
        return {}
    numbers = [v for v in values if v is not None and not (isinstance(v, float) and math.isnan(v))]
    found: dict[str, Any] = {"value_counts": {1: len(values)}}
    if rng.random() < 0.7:
        found["null_counts"] = {1: sum(v is None for v in values)}
    if rng.random() < 0.7 and name in ("float", "double"):
        found["nan_counts"] = {1: sum(isinstance(v, float) and math.isnan(v) for v in values)}
    if numbers and rng.random() < 0.8 and name != "uuid":
        low, high = min(numbers, key=order), max(numbers, key=order)
        if name == "string":
            low = low[:2]
            high = high if len(high) <= 2 else _above(high[:2])
        found["lower_bounds"] = {1: raw(name, low)}
        if high is not None:
            found["upper_bounds"] = {1: raw(name, high)}
    return found


def _above(text: str) -> str | None:
    """Return a string above all that start with `text`."""
    for place in reversed(range(len(text))):
        if text[place] != "\U0010ffff":
            following = ALPHABET[ALPHABET.index(text[place]) + 1]
            return text[:place] + following
    return None


def data_file(
    rng: random.Random, name: str, values: list[Any], partition: Any, *, spec_id: int = 0, place: int = 0
) -> ContentFile:
    """Return the manifest entry of a file with these values of column 1."""
    return ContentFile(
        status=1,
        snapshot_id=1,
        sequence_number=1,
        file_sequence_number=1,
        spec_id=spec_id,
        content=0,
        path=f"/t/{place}.parquet",
        format="parquet",
        partition={1000: partition},
        record_count=len(values),
        file_size=1000,
        **metrics(rng, name, values),
    )


def random_predicate(rng: random.Random, name: str, pool: list[Any], depth: int = 0) -> Any:
    """Return a predicate on column 1 with literals from `pool` and around it."""
    column = Column(1, ("a",), KINDS[name])
    roll = rng.random()
    if depth < 2 and roll < 0.3:
        parts = tuple(random_predicate(rng, name, pool, depth + 1) for _ in range(rng.randint(2, 3)))
        return rng.choice((And, Or))(parts)
    if depth < 2 and roll < 0.4:
        return Not(random_predicate(rng, name, pool, depth + 1))

    def literal() -> Any:
        known = [value for value in pool if value is not None]
        return rng.choice(known) if known and rng.random() < 0.6 else random_value(rng, name)

    if roll < 0.5:
        return IsNull(column)
    if roll < 0.65:
        return In(column, tuple(literal() for _ in range(rng.randint(1, 6))), rng.random() < 0.2)
    if name == "string" and roll < 0.75:
        return StringMatch(
            rng.choice(("prefix", "suffix", "contains")), column, literal()[: rng.randint(0, 3)]
        )
    return Compare(rng.choice(("=", "<>", "<", "<=", ">", ">=", "<=>")), column, literal())


def evaluate(predicate: Any, value: Any) -> bool | None:
    """Return what Spark returns for one row: TRUE, FALSE or NULL."""
    match predicate:
        case And(children) | Or(children):
            results = [evaluate(child, value) for child in children]
            decisive = isinstance(predicate, Or)
            if decisive in results:
                return decisive
            return None if None in results else not decisive
        case Not(child):
            result = evaluate(child, value)
            return None if result is None else not result
        case IsNull():
            return value is None
        case In(_, values, has_null):
            if value is None:
                return None
            if any(order(item) == order(value) for item in values):
                return True
            return None if has_null else False
        case StringMatch(kind, _, text):
            if value is None:
                return None
            return {"prefix": value.startswith, "suffix": value.endswith, "contains": value.__contains__}[
                kind
            ](text)
        case Compare(op, _, literal):
            if value is None:
                return False if op == "<=>" else None
            a, b = order(value), order(literal)
            return {
                "=": a == b,
                "<=>": a == b,
                "<>": a != b,
                "<": a < b,
                "<=": a <= b,
                ">": a > b,
                ">=": a >= b,
            }[op]
    raise AssertionError(predicate)
