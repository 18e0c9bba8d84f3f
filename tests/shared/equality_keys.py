"""Keys of every type, the rows that they delete by brute force, and a loader of the product's key table."""

from __future__ import annotations

import math
import random
from decimal import Decimal
from typing import Any

import pyarrow as pa

from declared.types import Column, arrow_array
from scan_values import context_of, task_of
from twostage.deletes.anti_join.load_key_sets import load_equality
from twostage.metrics import Metrics

# Few values of each type, so that keys collide; including those at which types go wrong.
VALUES: dict[str, list[Any]] = {
    "boolean": [True, False],
    "int": [0, 1, -1, 2**31 - 1, -(2**31)],
    "long": [0, 1, -1, 2**63 - 1, -(2**63), 2**32],
    "float": [0.0, -0.0, math.nan, math.inf, -math.inf, 1.5, 1e-45],
    "double": [0.0, -0.0, math.nan, math.inf, -math.inf, 0.1, 5e-324],
    "decimal(9,2)": [Decimal("0.00"), Decimal("-0.01"), Decimal("9999999.99"), Decimal("-9999999.99")],
    "decimal(18,3)": [Decimal("0.000"), Decimal("-1.000"), Decimal("999999999999999.999")],
    "decimal(38,10)": [
        Decimal(0),
        Decimal("-1E-10"),
        Decimal("9999999999999999999999999999.9999999999"),
        Decimal("1844674407.3709551616"),
    ],
    "string": ["", "a", "ab", "abc", "a" * 9, "a" * 8, "é", "\U0001f600", "12345678", "1234567\0"],
    "uuid": ["00000000-0000-0000-0000-000000000000", "f79c3e09-677c-4bbd-a479-512f87f77b4e"],
    "binary": [b"", b"\0", b"\0\0", b"a", b"b" * 16, b"b" * 17],
    "fixed[4]": [b"\0\0\0\0", b"abcd", b"\xff\xff\xff\xff"],
    "date": [0, -1, 19_000, -719_162],
    "time": [0, 1, 86_399_999_999],
    "timestamp": [0, -1_000_000, 1_600_000_000_000_000, -62_135_596_800_000_000, 253_402_300_799_999_999],
    "timestamptz": [0, -1_000_000, 1_600_000_000_000_000],
}


ORC_TIMES = {
    name: [value for value in VALUES[name] if abs(value) < 2**62 // 1000]
    for name in VALUES
    if "stamp" in name
}


def canonical(value: Any) -> Any:
    """A key's meaning, without the product: all NaN are equal, -0.0 is not 0.0."""
    if isinstance(value, float):
        return "nan" if math.isnan(value) else (value, math.copysign(1, value))
    return value


def key_of(ids: list[int], row: dict[int, Any]) -> tuple[Any, ...]:
    return tuple(canonical(row.get(field_id)) for field_id in sorted(ids))


def expected(rows: list[dict[int, Any]], deletes: list[Any], sequence: int) -> list[bool]:
    """Brute force: deletes are (ids, sequence number, rows)."""
    keys = [
        (ids, {key_of(ids, row) for row in deleted}) for ids, number, deleted in deletes if number > sequence
    ]
    return [any(key_of(ids, row) in deleted for ids, deleted in keys) for row in rows]


def data_columns(columns: list[Column], rows: list[dict[int, Any]]) -> dict[int, pa.Array]:
    """Data rows as the scan projects them: a uuid is a string."""
    arrays = {}
    for column in columns:
        values = [row.get(column.id) for row in rows]
        arrays[column.id] = (
            pa.array(values, pa.string()) if column.type == "uuid" else arrow_array(column, values)
        )
    return arrays


def random_row(rng: random.Random, columns: list[Column], pools: dict[str, list[Any]]) -> dict[int, Any]:
    return {c.id: None if rng.random() < 0.15 else rng.choice(pools[c.type]) for c in columns}


def load(folder, columns, deletes, *, sequence=1, metrics=None, **changes):
    context = context_of(folder, columns, **changes)
    return load_equality(context, task_of(*deletes, sequence_number=sequence), metrics or Metrics())
