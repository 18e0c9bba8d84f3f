"""Conditions whose rows could differ have different names; how a query was written does not matter."""

from __future__ import annotations

import itertools
import re
from decimal import Decimal

import pytest

from twostage.data_files.computed_columns import DELETED, POSITION
from twostage.predicates.predicate import (
    And,
    Column,
    Compare,
    CompareColumns,
    CompareLength,
    Constant,
    HasElement,
    In,
    InBloom,
    InKeys,
    InTuples,
    IsNull,
    JoinKeySet,
    KeyBloom,
    Not,
    Or,
    StringMatch,
    Unknown,
)
from twostage.reading.conditions import names
from twostage.schema import Field, List, Primitive

INT = Column(1, ("a",), Primitive("int"))
LONG = Column(1, ("a",), Primitive("int"), Primitive("long"))
OTHER = Column(2, ("b",), Primitive("int"))
TEXT = Column(3, ("s",), Primitive("string"))
LISTED = Column(5, ("l",), List(Field(id=6, name="element", type=Primitive("int"))))
OTHER_LIST = Column(7, ("l",), LISTED.type)
ELEMENT = Column(6, ("l", "element"), Primitive("int"))
DIFFERENT = [
    HasElement(LISTED, ELEMENT, 5),
    HasElement(LISTED, ELEMENT, 6),
    HasElement(OTHER_LIST, ELEMENT, 5),
    HasElement(LISTED, INT, 5),
    Not(HasElement(LISTED, ELEMENT, 5)),
    Compare("=", INT, 5),
    Compare("=", INT, 6),
    Compare("=", INT, -5),
    Compare("<=>", INT, 5),
    Compare("<", INT, 5),
    Compare("=", LONG, 5),
    Compare("=", OTHER, 5),
    Compare("=", TEXT, "5"),
    Compare("=", TEXT, b"5"),
    Compare("=", INT, 5.0),
    Compare("=", INT, True),
    Compare("=", INT, Decimal(5)),
    CompareLength("=", TEXT, 5),
    CompareColumns("=", INT, OTHER),
    CompareColumns("=", OTHER, INT),
    CompareColumns("<", INT, OTHER),
    In(INT, (5,)),
    In(INT, (5,), has_null=True),
    In(INT, (5, 6)),
    In(INT, ()),
    Not(In(INT, (5,))),
    IsNull(INT),
    Not(IsNull(INT)),
    IsNull(OTHER),
    StringMatch("prefix", TEXT, "5"),
    StringMatch("suffix", TEXT, "5"),
    StringMatch("contains", TEXT, "5"),
    And((Compare("=", INT, 5), IsNull(OTHER))),
    Or((Compare("=", INT, 5), IsNull(OTHER))),
    Not(And((Compare("=", INT, 5), IsNull(OTHER)))),
    Or((And((Compare("=", INT, 5), IsNull(OTHER))), IsNull(TEXT))),
    And((Compare("=", INT, 5), Or((IsNull(OTHER), IsNull(TEXT))))),
    Constant(True),
    Constant(None),
]


def test_different_conditions_have_different_names():
    found = {names.of_predicate(one): one for one in DIFFERENT}
    assert len(found) == len(DIFFERENT)
    assert all(re.fullmatch("[0-9a-f]{24}", name) for name in found)


def test_order_and_names_of_columns_do_not_matter():
    parts = [Compare("=", INT, 5), IsNull(OTHER), In(INT, (1, 2, 3))]
    for kind in (And, Or):
        assert len({names.of_predicate(kind(order)) for order in itertools.permutations(parts)}) == 1
    assert names.of_predicate(In(INT, (3, 1, 2))) == names.of_predicate(In(INT, (1, 2, 3)))
    renamed = Column(1, ("x", "y"), Primitive("int"))
    assert names.of_predicate(Compare("=", renamed, 5)) == names.of_predicate(Compare("=", INT, 5))


@pytest.mark.parametrize("field_id", [POSITION, DELETED])
def test_computed_columns_are_not_kept(field_id):
    computed = Compare("=", Column(field_id, ("_x",), Primitive("long")), 5)
    assert not names.may_be_kept(computed)
    assert not names.may_be_kept(Or((computed, IsNull(INT))))


def test_keys_of_joins_are_not_kept():
    """Two sets of as many keys have the same text."""
    keys = JoinKeySet(b"", 5)
    for leaf in (InKeys(INT, keys), InTuples((INT, OTHER), keys), InBloom(INT, KeyBloom(b"", 5))):
        assert not names.may_be_kept(leaf)
        assert not names.may_be_kept(Or((IsNull(INT), Not(leaf))))


def test_what_reads_no_column_or_is_not_ours_is_not_kept():
    assert names.may_be_kept(IsNull(INT))
    assert not names.may_be_kept(Constant(False))
    assert not names.may_be_kept(Unknown("upper"))


def test_the_engine_has_one_name():
    assert names.of_engine() == names.of_engine()
    assert re.fullmatch("[0-9a-f]{24}", names.of_engine())
