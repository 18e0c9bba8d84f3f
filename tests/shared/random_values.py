"""Values to draw from: small pools per type, full of edge cases, so that rows, keys and literals match.

Takes a random generator; returns plain values (see `declared.types`).
"""

from __future__ import annotations

import math
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from declared.types import EXACT, decimal_of, fixed_length

if TYPE_CHECKING:
    import random

PRIMITIVES = (
    "boolean",
    "int",
    "long",
    "float",
    "double",
    "decimal(9,2)",
    "decimal(18,4)",
    "decimal(30,6)",
    "date",
    "timestamp",
    "timestamptz",
    "string",
    "string",
    "uuid",
    "fixed[4]",
    "binary",
)
PLAIN = tuple(kind for kind in PRIMITIVES if kind not in ("uuid", "fixed[4]"))
"""The types that Spark's own Parquet reader reads as we do."""
_EDGES: dict[str, list[Any]] = {
    "boolean": [True, False],
    "int": [0, -1, 2**31 - 1, -(2**31)],
    "long": [0, -1, 2**63 - 1, -(2**63), 2**53 + 1],
    "float": [0.0, -0.0, math.nan, math.inf, -math.inf, 0.1, 16777216.0],
    "double": [0.0, -0.0, math.nan, math.inf, -math.inf, 0.1, 5e-324, 1.7976931348623157e308],
    "date": [0, -1, 2932896, -719162],
    "timestamp": [0, -1, 253402300799999999, -62135596800000000],
    "timestamptz": [0, -1, 253402300799999999, -62135596800000000],
    "string": [
        "",
        "a",
        "ab",
        "b",
        "ä",
        "\uffff",
        "\U0001f600",
        "x" * 16 + "a",
        "x" * 16 + "b",
        "\U0010ffff" * 17,
        "a\x00",
        "%_",
        "\ud7ff" * 15 + "\ud7ff" * 3,
    ],
    "binary": [b"", b"\x00", b"\xff", b"\xff" * 17, b"a" * 17, b"\x80"],
}


def draw(random_: random.Random, kind: str) -> Any:
    """Return one value: an edge case, or one of a few dozen ordinary ones."""
    if kind in _EDGES and random_.random() < 0.35:
        return random_.choice(_EDGES[kind])
    small = random_.randint(-20, 60)
    match kind:
        case "boolean":
            return random_.random() < 0.5
        case "int" | "long":
            return small
        case "float" | "double":
            return small / 4
        case "date":
            return 19000 + small * 11
        case "timestamp" | "timestamptz":
            return 1_700_000_000_000_000 + small * 3_700_000_000
        case "string":
            return random_.choice(("key-", "k", "ü", "value ")) + str(small)
        case "uuid":
            return f"{random_.choice(('00', '7f', '80', 'ff'))}000000-0000-0000-0000-{small % 16:012x}"
        case "binary":
            return bytes([small % 256, random_.randint(0, 2)])
    if spec := decimal_of(kind):
        precision, scale = spec
        if random_.random() < 0.2:
            limit = Decimal(10**precision - 1).scaleb(-scale, EXACT)
            least = Decimal(-(10**precision) + 100).scaleb(-scale, EXACT)  # truncated, it is still a decimal
            return random_.choice((limit, least, Decimal(0)))
        return (Decimal(small) / 4).quantize(Decimal(1).scaleb(-scale), context=EXACT)
    length = fixed_length(kind)
    assert length is not None
    return bytes([small % 256, 0, 255, random_.randint(0, 3)])[:length]


def pool(random_: random.Random, kind: str, size: int) -> list[Any]:
    """Return `size` values, perhaps with duplicates."""
    return [draw(random_, kind) for _ in range(size)]
