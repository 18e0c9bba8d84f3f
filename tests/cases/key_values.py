"""Values of equality keys, by the type of their column: the least and the greatest, NaN and -0.0, empty and long ones."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

OF_TYPE: dict[str, list[Any]] = {
    "boolean": [True, False],
    "int": [0, -5, 2**31 - 1, -(2**31)],
    "long": [0, -5, 2**63 - 1, -(2**63), 2**53 + 1, 2**53],
    "float": [0.0, -0.0, math.nan, math.inf, 0.1],
    "double": [0.0, -0.0, math.nan, -math.inf, 0.1, 5e-324],
    "decimal(9,2)": [Decimal(0), Decimal("-9999999.99"), Decimal("1.10")],
    "decimal(18,4)": [Decimal(0), Decimal("-99999999999999.9999"), Decimal("1.1")],
    "decimal(38,10)": [Decimal(0), Decimal("-1.1"), Decimal("9999999999999999999999999999.9999999999")],
    "date": [0, -1, 19000],
    "timestamp": [0, 1, 1_700_000_000_000_001],
    "timestamptz": [0, 1, 1_700_000_000_000_001],
    "string": ["", "a", "a\x00", "ä", "\U0001f600", "x" * 40],
    "uuid": ["00000000-0000-0000-0000-000000000001", "ffffffff-0000-0000-0000-000000000000"],
    "fixed[3]": [b"abc", b"\x00\xff\x00"],
    "binary": [b"", b"\x00", b"a\x00b", b"\xff" * 40],
}
