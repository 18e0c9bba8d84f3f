"""Columns that no file holds as they are: positions, row ids, sequence numbers, by the spec's row lineage."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from twostage.data_files.computed_columns import LAST_UPDATED, POSITION, ROW_ID, compute_column, stored_part
from twostage.predicates.predicate import TRUE, And, Column, Compare, Not, Or, Predicate
from twostage.schema import Primitive
from twostage.task import ScanTask

POSITIONS = np.array([0, 3, 9])


def task(first_row_id: int | None) -> ScanTask:
    return ScanTask(
        path="f",
        written_path="f",
        format="parquet",
        file_size=1,
        record_count=10,
        start=0,
        length=1,
        sequence_number=7,
        spec_id=0,
        first_row_id=first_row_id,
    )


@pytest.mark.parametrize("first", [None, 1000])
def test_positions_count_all_rows(first: int | None) -> None:
    assert compute_column(POSITION, None, task(first), POSITIONS).to_pylist() == [0, 3, 9]


def test_what_is_inherited_and_what_a_file_stores() -> None:
    stored = pa.array([5, None, 6])
    assert compute_column(ROW_ID, None, task(1000), POSITIONS).to_pylist() == [1000, 1003, 1009]
    assert compute_column(ROW_ID, stored, task(1000), POSITIONS).to_pylist() == [5, 1003, 6]
    assert compute_column(LAST_UPDATED, None, task(1000), POSITIONS).to_pylist() == [7, 7, 7]
    assert compute_column(LAST_UPDATED, stored, task(1000), POSITIONS).to_pylist() == [5, 7, 6]


@pytest.mark.parametrize("field_id", [ROW_ID, LAST_UPDATED])
def test_without_a_first_row_id_there_is_no_lineage(field_id: int) -> None:
    stored = pa.array([5, None, 6])
    assert compute_column(field_id, stored, task(None), POSITIONS).to_pylist() == [None] * 3


A = Compare("=", Column(1, ("a",), Primitive("long")), 1)
POS = Compare("=", Column(POSITION, ("_pos",), Primitive("long")), 1)


@pytest.mark.parametrize(
    ("predicate", "expected"),
    [
        (A, A),
        (POS, TRUE),
        (Not(POS), TRUE),
        (And((A, POS)), A),
        (Or((A, POS)), TRUE),
        (Not(Or((Not(A), POS))), A),
        (And((A, Not(And((A, POS))))), A),
    ],
    ids=str,
)
def test_what_a_predicate_says_of_columns_that_files_hold(predicate: Predicate, expected: Predicate) -> None:
    assert stored_part(predicate) == expected
