"""Running aggregates: what files' parts add up to."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from twostage.aggregates import totals
from twostage.aggregates.file_proofs import ColumnProof
from twostage.aggregates.sums import Sum
from twostage.aggregates.totals import Aggregate, Totals
from twostage.schema import Field, Primitive

C = Field(id=1, name="c", type=Primitive("double"), required=False)
ALL = (Aggregate("rows"), Aggregate("count", C), Aggregate("distinct", C), Aggregate("min", C), Aggregate("max", C))  # fmt: skip
NAN = math.nan


def test_parts_add_up():
    total = Totals(ALL, is_grouped=True)
    assert total.rows() == ()
    assert total.add({("a",): [3, 2, {1.0, NAN}, 1.0, NAN], ("b",): [1, 0, set(), None, None]}) is None
    assert total.add({("a",): [2, 2, {2.0, NAN}, NAN, NAN], (None,): [1, 1, {5.0}, 5.0, 5.0]}) is None
    assert total.add({("b",): [1, 1, {-1.0}, -1.0, -1.0]}) is None
    a, b, null = total.rows()
    assert a[:5] == ("a", 5, 4, 3, 1.0)
    assert math.isnan(a[5])
    assert b == ("b", 2, 1, 1, -1.0, -1.0)
    assert null == (None, 1, 1, 1, 5.0, 5.0)


@pytest.mark.parametrize(("parts", "expected"), [([1.0, NAN], (1.0, NAN)), ([NAN, 1.0], (1.0, NAN)), ([NAN, NAN], (NAN, NAN)), ([2.0, -math.inf], (-math.inf, 2.0))])  # fmt: skip
def test_nan_is_the_greatest(parts, expected):
    total = Totals((Aggregate("min", C), Aggregate("max", C)), is_grouped=False)
    for value in parts:
        assert total.add({(): [value, value]}) is None
    assert repr(total.rows()) == repr((expected,))


def test_no_rows_and_no_groups_are_one_row():
    assert Totals(ALL, is_grouped=False).rows() == ((0, 0, 0, None, None),)


class Proof:
    """What metadata proves of a file with some rows."""

    def __init__(self, rows: int, column: ColumnProof | str, group: tuple = ()) -> None:
        self.rows, self._column, self.group = rows, column, group

    def column(self, field: Field) -> ColumnProof | str:
        return self._column


@pytest.mark.parametrize(
    ("column", "function", "expected"),
    [
        (ColumnProof(2), "count", 3),
        (ColumnProof(None), "count", "a file does not say how many values c has"),
        (ColumnProof(5), "distinct", 0),
        (ColumnProof(0, 7.0, 7.0), "distinct", 1),
        (ColumnProof(2, 7.0, 7.0), "distinct", 1),
        (ColumnProof(0, 7.0, 8.0), "distinct", "a file's metadata does not give the distinct values of c"),
        (ColumnProof(0), "distinct", "a file's metadata does not give the distinct values of c"),
        (ColumnProof(5), "min", None),
        (ColumnProof(1, 7.0, 8.0), "max", 8.0),
        (ColumnProof(1, None, 8.0), "min", "a file's metadata does not give the min of c"),
        ("moved", "max", "moved"),
    ],
)
def test_what_metadata_proves(column, function, expected):
    total = Totals((Aggregate(function, C),), is_grouped=False)
    lacking = total.add_proof(Proof(5, column))
    assert lacking == (expected if isinstance(expected, str) else None)
    if lacking is None:
        assert total.rows() == ((expected,),)
    else:
        assert total.rows() == Totals((Aggregate(function, C),), is_grouped=False).rows()


def test_limits(monkeypatch):
    monkeypatch.setattr(totals, "MAX_GROUPS", 2)
    total = Totals((Aggregate("rows"),), is_grouped=True)
    assert total.add({(1,): [1], (2,): [1]}) is None
    assert total.add({(1,): [1], (2,): [1]}) is None
    assert total.add({(1,): [1], (3,): [1]}) == "more than 2 groups"
    assert total.rows() == ((1, 2), (2, 2))
    monkeypatch.setattr(totals, "MAX_DISTINCT", 3)
    counted = Totals((Aggregate("distinct", C),), is_grouped=False)
    assert counted.add({(): [{1, 2}]}) is None
    assert counted.add({(): [{3, 4}]}) == "more than 3 distinct values"


def test_sums_beyond_what_a_double_has():
    """Up to the greatest long, but where an average may be made of them; and then not together with rows that are read."""
    long = Field(id=3, name="c", type=Primitive("long"))
    never_null = replace(long, required=True)
    most = Sum(2**63 - 1, 2**63 - 1)
    cases: list[tuple[tuple[Aggregate, ...], list, bool]] = [
        ((Aggregate("sum", long),), [most], True),
        ((Aggregate("sum", long), Aggregate("rows")), [most, 4], True),
        ((Aggregate("sum", long), Aggregate("count", long)), [most, 4], False),
        ((Aggregate("sum", never_null), Aggregate("rows")), [most, 4], False),
        ((Aggregate("sum", long), Aggregate("count", long)), [Sum(2**53, 2**53), 4], True),
        ((Aggregate("sum", long),), [Sum(0, 2**63)], False),
    ]
    for aggregates, values, answered in cases:
        total = Totals(aggregates, is_grouped=False)
        lacking = total.add({(): values})
        assert lacking == (None if answered else "the sum of c depends on the order of its rows"), aggregates
        assert total.may_be_mixed == (not answered or values[0].magnitude <= 2**53)
    total = Totals((Aggregate("sum", long),), is_grouped=True)
    assert total.add({(1,): [most]}) is None
    assert total.add({(1,): [Sum(1, 1)]}) is not None
