"""Checks that what an open file reports about a row group's values is true."""

from __future__ import annotations

import datetime
import math
from typing import TYPE_CHECKING

import pyarrow as pa

from declared.types import Column, Struct

if TYPE_CHECKING:
    from collections.abc import Sequence

    from twostage.data_files.data_file import DataFile
    from twostage.data_files.row_group import RowGroup


def assert_bounds_hold(
    file: DataFile, group: RowGroup, columns: Sequence[Column], arrays: Sequence[pa.Array]
) -> int:
    """Compare bounds and values; return the number of fields with both bounds known."""
    known = 0
    for column, array in zip(columns, arrays, strict=True):
        if isinstance(column.type, Struct):
            known += assert_bounds_hold(file, group, column.type.fields, array.flatten())
            continue
        bounds = file.bounds(group, column.id)
        if bounds is None:
            continue
        values = array.to_pylist()
        present = [_plain(value) for value in values if value is not None]
        if bounds.null_count is not None:
            assert bounds.null_count == len(values) - len(present), column
        numbers = [v for v in present if not (isinstance(v, float) and math.isnan(v))]
        if bounds.nan_count is not None:
            assert bounds.nan_count == len(present) - len(numbers), column
        if bounds.lower is not None:
            assert all(bounds.lower <= value for value in numbers), (column, bounds)
            assert not bounds.exact_lower or not numbers or bounds.lower in numbers, (column, bounds)
        if bounds.upper is not None:
            assert all(value <= bounds.upper for value in numbers), (column, bounds)
            assert not bounds.exact_upper or not numbers or bounds.upper in numbers, (column, bounds)
        known += bounds.lower is not None and bounds.upper is not None
    return known


def _plain(value: object) -> object:
    if isinstance(value, datetime.datetime):
        return (value.replace(tzinfo=None) - datetime.datetime(1970, 1, 1)) // datetime.timedelta(
            microseconds=1
        )
    if isinstance(value, datetime.date):
        return (value - datetime.date(1970, 1, 1)).days
    if isinstance(value, datetime.time):
        return ((value.hour * 60 + value.minute) * 60 + value.second) * 1_000_000 + value.microsecond
    return value
