"""Redundant delete keys: a key (a, b) is redundant if all rows with this a are deleted anyway.

Takes key sets of fewer columns and the keys of a delete file; returns the keys that remain. The rule: a key
is dropped only if a delete of the shorter key applies to each data file that its delete file applies to: that
delete has the same scope, or the whole table's, and the same sequence number or a higher one.

Benefit: "redundant keys" in docs/benchmarks-deletes.md (``deletes.simplify``). Measured with 1 M keys (long,
long) and 1 M longs, in total: if the longs make all keys redundant, 2.2 MB instead of 42, 0.04 s of CPU to
load instead of 0.06, 0.002 s to probe 1 M rows instead of 0.03; if half, 22 MB, 0.05 and 0.02 s; if none, no
difference. If the longs are far apart: 17 MB instead of 57, loaded in the same time, probed in 0.02 s instead
of 0.05.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from twostage.deletes.keys.encoding import group_by_nulls, take_columns

if TYPE_CHECKING:
    from collections.abc import Sequence

    from twostage.deletes.keys.encoding import KeyColumn
    from twostage.deletes.keys.key_columns import KeyShape
    from twostage.deletes.keys.key_set import KeySet

MIN_KEYS_TO_JUDGE = 50_000
"""Keys to probe before the fraction of redundant ones decides whether to continue."""
MIN_REDUNDANT_FRACTION = 0.1
"""If a smaller fraction of the keys is redundant, probing costs more than it saves."""


class CoveringKeys:
    """A set of shorter keys, which apply wherever the longer keys do, and whether it pays to probe it."""

    def __init__(self, shape: KeyShape, key_set: KeySet) -> None:
        self._ids = [key.field.id for key in shape.fields]
        self._key_set = key_set
        self._probed = self._found = 0

    def remaining(
        self, shape: KeyShape, columns: Sequence[KeyColumn], num_rows: int, sequence_number: int
    ) -> tuple[list[KeyColumn], int]:
        """Return the columns of the keys that are not redundant, and their number.

        Args:
            shape: The longer keys' shape, which has all columns of the shorter ones.
            columns: The columns that the longer keys compare.
            num_rows: How many longer keys there are.
            sequence_number: Their delete file's.
        """
        if self._probed >= MIN_KEYS_TO_JUDGE and self._found < self._probed * MIN_REDUNDANT_FRACTION:
            return list(columns), num_rows
        by_id = {key.field.id: column for key, column in zip(shape.fields, columns, strict=True)}
        shorter = group_by_nulls([by_id[field_id] for field_id in self._ids], num_rows)
        # A probe finds keys with sequence numbers higher than the given one; here also equal ones.
        rows = np.flatnonzero(~self._key_set.probe(shorter, num_rows, sequence_number - 1))
        self._probed += num_rows
        self._found += num_rows - len(rows)
        return (
            (list(columns), num_rows) if len(rows) == num_rows else (take_columns(columns, rows), len(rows))
        )
