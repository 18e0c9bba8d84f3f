"""Aggregates of selected rows by bitmaps: as adding up row by row gives them, whatever metadata proves of the columns."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pyarrow as pa
import pytest

import oracle
from aggregated_rows import aggregated
from index_columns import Values, build, opened
from twostage.aggregates.file_proofs import ColumnProof
from twostage.aggregates.indexed_file import DriverBudget, IndexedFile, UnansweredError
from twostage.aggregates.indexed_groups import GroupsOfFile
from twostage.aggregates.totals import Aggregate, Totals
from twostage.indexes import bitmaps
from twostage.metrics import Metrics
from twostage.schema import Field, Primitive

ROWS = 500
A, B, C, D = (
    Field(id=number, name=name, type=Primitive(kind), required=False)
    for number, (name, kind) in enumerate({"a": "int", "b": "string", "c": "long", "d": "double"}.items(), 1)
)
TYPES = {1: pa.int32(), 2: pa.string(), 3: pa.int64(), 4: pa.float64()}


@pytest.fixture(scope="module")
def columns(tmp_path_factory) -> tuple[dict[int, Any], list[dict[int, Any]]]:
    """Indexes by field id, and the rows: `a` and `b` have NULLs, `c` has none, `d` is never zero."""
    pick = random.Random(5)
    rows = [
        {
            1: pick.choice((None, 1, 2, 3)),
            2: pick.choice((None, "x", "y", "ü")),
            3: pick.randrange(40),
            4: pick.choice((None, 1.5, -2.0)),
        }
        for _ in range(ROWS)
    ]
    folder = tmp_path_factory.mktemp("columns")
    indexes = {}
    for field in (A, B, C, D):
        values = Values(pa.array([row[field.id] for row in rows], TYPES[field.id]), field.type, field.id)
        indexes[field.id] = opened(build(folder, values, ("values",), name=f"{field.name}.puffin"))
    return indexes, rows


def asked(indexes, selected, groups, aggregates, proofs=None, constants=None, budget=None):
    file = IndexedFile(ROWS, indexes, budget or DriverBudget(), Metrics())
    known = proofs or {}
    of_file = GroupsOfFile(file, lambda f: known.get(f.id, "nothing"), lambda f: (constants or {}).get(f.id, ...))  # fmt: skip
    total = Totals(aggregates, is_grouped=bool(groups))
    assert total.add(of_file.aggregate(bitmaps.of_rows(sorted(selected)), groups, aggregates)) is None
    return Counter(tuple(map(oracle.exact, row)) for row in total.rows())


AGGREGATES = (
    Aggregate("rows"), Aggregate("count", A), Aggregate("count", B), Aggregate("count", C), Aggregate("min", C),
    Aggregate("max", B), Aggregate("distinct", B), Aggregate("distinct", D), Aggregate("max", D), Aggregate("min", A),
)  # fmt: skip


@pytest.mark.parametrize("groups", [(), (A,), (B,), (A, B), (B, D), (C, A)], ids=lambda one: "".join(f.name for f in one))  # fmt: skip
@pytest.mark.parametrize("share", [0.0, 0.01, 0.5, 1.0])
def test_as_row_by_row(columns, groups, share):
    indexes, rows = columns
    pick = random.Random(f"{share} {groups}")
    selected = [n for n in range(ROWS) if pick.random() < share or share == 1]
    chosen = [rows[n] for n in selected]
    for aggregates in (AGGREGATES, AGGREGATES[:1], AGGREGATES[:4], AGGREGATES[4:5], AGGREGATES[6:7]):
        expected = aggregated(chosen, aggregates, groups)
        assert asked(indexes, selected, groups, aggregates) == expected
        proofs = {3: ColumnProof(0, min(row[3] for row in rows), max(row[3] for row in rows))}
        assert asked(indexes, selected, groups, aggregates, proofs) == expected


def test_what_metadata_proves_needs_no_index(columns):
    _, rows = columns
    proofs = {1: ColumnProof(ROWS), 2: ColumnProof(0, "x", "x"), 3: ColumnProof(0)}
    aggregates = (
        Aggregate("rows"), Aggregate("count", A), Aggregate("max", A), Aggregate("distinct", A), Aggregate("min", B),
        Aggregate("distinct", B), Aggregate("count", C),
    )  # fmt: skip
    expected = [("x", None, 2, 0, None, 0, "x", 1, 2)]
    for groups in ((B, A), (D, A)):
        found = asked({}, [3, 9], groups, aggregates, proofs, {4: "x"})
        assert found == Counter(tuple(map(oracle.exact, row)) for row in expected)


def test_a_default_of_minus_zero_is_the_group_of_zero(columns):
    """Of a column that the file lacks; Spark's groups have one zero."""
    indexes, _ = columns
    found = asked(indexes, [3, 9], (D,), (Aggregate("rows"),), {4: ColumnProof(0, -0.0, -0.0)})
    assert found == Counter([(oracle.exact(0.0), oracle.exact(2))])


def test_extremes_of_zeros_and_other_types_are_not_answered(columns, tmp_path):
    indexes, _ = columns
    values = Values(pa.array([0.0, -0.0] * (ROWS // 2)), Primitive("double"), 4)
    zeros = {**indexes, 4: opened(build(tmp_path, values, ("values",)))}
    with pytest.raises(UnansweredError, match="a zero, of either sign"):
        asked(zeros, [1], (), (Aggregate("max", D),))
    assert asked(zeros, [0, 1], (D,), (Aggregate("rows"),)) == Counter([(oracle.exact(0.0), oracle.exact(2))])
    binary = Field(id=2, name="b", type=Primitive("binary"), required=False)
    with pytest.raises(UnansweredError, match="does not compare values of type binary"):
        asked(indexes, [1, 2], (), (Aggregate("max", binary),))
    with pytest.raises(UnansweredError, match="does not tell values of type binary apart"):
        asked(indexes, [1, 2], (), (Aggregate("distinct", binary),))


def test_too_many_comparisons(columns):
    indexes, _ = columns
    with pytest.raises(UnansweredError, match="too many bitmaps"):
        asked(indexes, range(400), (C, A, B), (Aggregate("rows"),), budget=DriverBudget(containers=100))


def test_numbers_of_rows_are_read_without_bitmaps(columns):
    indexes, rows = columns
    found = asked(
        indexes, range(ROWS), (A,), (Aggregate("rows"), Aggregate("count", A)), budget=DriverBudget(0, 0)
    )
    assert found == aggregated(rows, (Aggregate("rows"), Aggregate("count", A)), (A,))
