"""Bounds of manifest entries: what another unit or ORC's writer may have meant is widened to hold too."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from check import check, ids
from tables import Table
from twostage.predicates.bounds import Bounds
from twostage.predicates.predicate import Compare
from twostage.schema import Primitive
from twostage.table.column_metrics import as_stored, may_count_other_units

US, SECOND = Primitive("timestamp"), 1_000_000
NOW = 1_700_000_000_000_000  # 2023 in microseconds; in milliseconds the year 55839


@pytest.mark.parametrize(
    ("lower", "upper", "expected"),
    [
        (NOW, NOW + 5, False),
        (NOW // 1000, NOW // 1000, True),  # 2023 in milliseconds, or a day of 1970
        (NOW * 1000, NOW * 1000, True),  # 2023 in nanoseconds, or the year 55839
        (NOW // 1000, NOW, False),
        (None, NOW // 1000, True),
        (None, None, False),
    ],
)
def test_bounds_that_may_count_another_unit(lower: int | None, upper: int | None, expected: bool) -> None:
    assert may_count_other_units(US, lower, upper) == expected
    assert not may_count_other_units(Primitive("long"), lower, upper)


@settings(deadline=None)
@given(st.integers(-3 * SECOND, 3 * SECOND), st.integers(0, 10 * SECOND))
def test_orc_stores_the_last_second_before_1970_late(value: int, more: int) -> None:
    """Whatever was meant, bounds hold for it and for what is read."""
    read = value + SECOND if -SECOND < value < 0 else value
    bounds = as_stored(US, Bounds(lower=value - more, upper=value))
    assert bounds is not None
    assert bounds.upper is not None
    assert bounds.lower <= value <= bounds.upper
    assert read <= bounds.upper


def test_other_types_are_stored_as_they_are() -> None:
    bounds = Bounds(lower=-1, upper=-1)
    assert as_stored(Primitive("long"), bounds) is bounds
    assert as_stored(US, None) is None
    assert as_stored(US, Bounds(lower=1)) == Bounds(lower=1)


def test_imported_files_whose_bounds_count_milliseconds_lose_no_rows(tmp_path: Path) -> None:
    table = Table(tmp_path / "t", {"id": "long", "ts": "timestamp"})
    with table.transaction():
        file = table.append(ids(3, ts=lambda i: NOW + i * 1000))
        entry: Any = file.entry
        for name, value in (("lower_bounds", NOW // 1000), ("upper_bounds", NOW // 1000 + 2)):
            raw = struct.pack("<q", value)
            bounds = entry[name]
            if isinstance(bounds, dict):
                bounds[2] = raw
            else:
                entry[name] = [(key, raw if key == 2 else old) for key, old in bounds]
    check(table, [1, 2], lambda c: Compare(">", c("ts"), NOW))
    check(table, [0, 1, 2], lambda c: Compare(">=", c("ts"), NOW))
