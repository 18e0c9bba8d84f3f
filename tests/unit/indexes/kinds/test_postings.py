"""Postings: what a look-up of frequent values would leave to check is known before it is made."""

from __future__ import annotations

import pyarrow as pa
import pytest

from index_columns import FIELD, Values, build, check, opened
from twostage.indexes.sorted_pairs import BLOCKS_PER_PAGE, PAIRS_PER_BLOCK
from twostage.metrics import Metrics
from twostage.predicates.predicate import Column, Compare, In
from twostage.schema import Primitive

KIND = Primitive("long")
COLUMN = Column(FIELD, ("x",), KIND)


def test_frequent_values_leave_many_rows_to_check(tmp_path):
    frequent = 20 * PAIRS_PER_BLOCK
    array = pa.array([7] * frequent + [8] * 300 + list(range(100, 30_000)))
    index = opened(build(tmp_path, Values(array, KIND), ("postings",)))

    def asked(leaf):
        cost, answer = index.cost(leaf, Metrics()), check(index, leaf, array)
        assert len(answer.possible) <= cost.unsure + 2 * PAIRS_PER_BLOCK
        return cost

    often, rare = asked(Compare("=", COLUMN, 7)), asked(Compare("=", COLUMN, 20_000))
    assert 0.8 * frequent < often.unsure <= frequent + 1
    assert often.nbytes > 10 * rare.nbytes
    assert rare.unsure == asked(Compare("=", COLUMN, 8)).unsure == 1
    assert asked(In(COLUMN, (9, 8, 7))).unsure == often.unsure + 2


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        (BLOCKS_PER_PAGE * PAIRS_PER_BLOCK // 2, 0),
        (BLOCKS_PER_PAGE * PAIRS_PER_BLOCK * 3, BLOCKS_PER_PAGE * PAIRS_PER_BLOCK),
    ],
)
def test_of_a_directory_that_did_not_come_along_pages_are_counted(tmp_path, monkeypatch, rows, expected):
    array = pa.array([7] * rows + list(range(100, 1_100)))
    index = opened(build(tmp_path, Values(array, KIND), ("postings",)))
    monkeypatch.setattr("twostage.indexes.puffin.BlobReader.is_at_hand", lambda *_: False)
    cost = index.cost(Compare("=", COLUMN, 7), Metrics())
    assert cost.unsure >= 1 + expected
    assert index.cost(Compare("=", COLUMN, 500), Metrics()).unsure == 1
