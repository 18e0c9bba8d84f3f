"""Logged scans made again: the same predicate comes back, and nothing but values is taken of a log."""

from __future__ import annotations

import datetime
import json
from dataclasses import replace
from decimal import Decimal

import pytest

from twostage.advisor.logged_predicate import LoggedPredicate, log_predicate, parse_predicate
from twostage.advisor.logged_scan import LoggedScan
from twostage.advisor.rebuilt_scan import CannotReplayError, rebuild
from twostage.predicates import predicate as tree
from twostage.predicates.normalize import pull_common_factors
from twostage.predicates.predicate import TRUE, Column, Compare, HasElement, In, IsNull, Not
from twostage.schema import Field, List, Map, Primitive, Schema, Struct

TYPES = {
    "i": "int", "l": "long", "f": "float", "d": "double", "s": "string", "b": "binary", "u": "uuid", "t": "timestamptz",
    "day": "date", "ok": "boolean",
}  # fmt: skip
DECIMAL = Primitive("decimal", precision=9, scale=2)
FIELDS = [
    Field(id=place, name=name, type=Primitive(kind)) for place, (name, kind) in enumerate(TYPES.items(), 1)
]
FIELDS += [
    Field(id=20, name="n", type=DECIMAL),
    Field(id=21, name="st", type=Struct((Field(id=22, name="x", type=Primitive("long")),))),
    Field(id=23, name="a.b", type=Primitive("long")),
    Field(id=30, name="tags", type=List(Field(id=31, name="element", type=Primitive("string")))),
    Field(id=32, name="days", type=List(Field(id=33, name="element", type=Primitive("date")))),
    Field(
        id=34,
        name="props",
        type=Map(
            Field(id=35, name="key", type=Primitive("long"), required=True),
            Field(id=36, name="value", type=Primitive("string")),
        ),
    ),
]
SCHEMA = Schema(schema_id=0, fields=tuple(FIELDS))


def column(name, cast=None):
    field = next(one for one in FIELDS if one.name == name)
    return Column(field.id, (name,), field.type, cast)


def scan(predicate, **more):
    return LoggedScan(
        time=datetime.datetime.now(datetime.UTC), scan="s", table="t", columns=("l",), predicate=predicate, **more
    )  # fmt: skip


def through_json(predicate):
    logged = log_predicate(predicate, {})
    return scan(parse_predicate(json.loads(json.dumps(logged.as_dict()))))


@pytest.mark.parametrize(
    "predicate",
    [
        Compare("=", column("l"), 7),
        Compare("<>", column("i"), -1),
        Compare("<=>", column("s"), "x'); DROP TABLE t; --"),
        Not(Compare("<=>", column("s"), "")),
        Compare(">", column("d"), float("inf")),
        Compare("<=", column("n"), Decimal("12.50")),
        Compare("=", column("b"), b"\x00\xff"),
        Compare("=", column("u"), "12345678-1234-5678-1234-567812345678"),
        Compare(">=", column("t"), 1_700_000_000_000_000),
        Compare("<", column("day"), 20_000),
        Compare("=", column("ok"), value=True),
        Compare("=", column("a.b"), 4),
        Compare("=", Column(22, ("st", "x"), Primitive("long")), 4),
        Compare("<", column("i", Primitive("double")), 1.5),
        tree.CompareColumns("<", column("l"), column("a.b")),
        tree.StringMatch("prefix", column("s"), "a%_"),
        Not(tree.StringMatch("contains", column("s"), "b")),
        In(column("l"), (1, 2, 3)),
        Not(In(column("s"), ("a", "b"), has_null=True)),
        IsNull(column("st")),
        HasElement(column("tags"), Column(31, ("tags", "element"), Primitive("string")), "x"),
        Not(HasElement(column("days"), Column(33, ("days", "element"), Primitive("date")), 20_000)),
        HasElement(column("props"), Column(35, ("props", "key"), Primitive("long")), 5),
        tree.And((Not(IsNull(column("l"))), tree.Or((Compare("=", column("l"), 1), IsNull(column("s")))))),
    ],
    ids=str,
)
def test_a_predicate_comes_back(predicate):
    rebuilt = rebuild(through_json(predicate), SCHEMA)
    assert rebuilt.predicate == pull_common_factors(tree.push_not_down(predicate))
    assert (rebuilt.hint, rebuilt.limit) == (TRUE, None)
    assert [field.name for field in rebuilt.projection] == ["l"]


def test_a_null_among_literals_is_kept():
    """Else NOT IN would be true of rows of which it is NULL."""
    logged = log_predicate(Not(In(column("s"), ("a",), has_null=True)), {})
    assert logged.values == (None, "a")


def test_nothing_but_values_is_taken():
    """The texts of a log may say anything."""
    logged = LoggedPredicate(
        op="=", columns=("l",), values=(7,), count=1, type="long", text="1 = 1; DROP TABLE t"
    )
    found = rebuild(scan(logged, description="DROP TABLE t"), SCHEMA)
    assert found.predicate == Compare("=", column("l"), 7)


def equal(value, kind, name="l", op="="):
    return LoggedPredicate(op=op, columns=(name,), values=(value,), count=1, type=kind)


@pytest.mark.parametrize(
    ("predicate", "reason"),
    [
        (None, "evaluated no filter"),
        (LoggedPredicate(op="=", columns=("l",), count=1, type="long"), "query-log-literals"),
        (
            LoggedPredicate(op="in", columns=("l",), values=(1, 2), count=200, type="long"),
            "only the first literals",
        ),
        (LoggedPredicate(op="=", columns=("l",), values=(), count=0, type="long"), "without its literal"),
        (LoggedPredicate(op="unknown", text="upper(s)"), "does not spell out"),
        (
            LoggedPredicate(op="length", columns=("s",), values=(3,), count=1, type="string"),
            "does not spell out",
        ),
        (equal(1, "long", "gone"), "lacks some of its columns"),
        (equal("x", "long"), "not of its type"),
        (equal(True, "long"), "not of its type"),
        (equal(1 << 70, "long"), "not of its type"),
        (equal("zz", "binary", "b"), "not of its type"),
        (equal("NaN", "decimal(9,2)", "n"), "not of its type"),
        (equal("1e", "decimal(9,2)", "n"), "not of its type"),
        (equal("9" * 100, "decimal(9,2)", "n"), "not of its type"),
        (equal(7, "string", "s"), "not of its type"),
        (equal([], "double", "d"), "not of its type"),
        (equal("x", "nonsense"), "of an unknown type"),
        (equal("x", "string"), "not of a form"),
        (equal(1, "long", "st"), "not of a form"),
    ],
)
def test_what_a_log_does_not_say_is_refused(predicate, reason):
    with pytest.raises(CannotReplayError, match=reason):
        rebuild(scan(predicate), SCHEMA)


def test_top_n_and_columns_that_are_gone_are_refused():
    good = scan(equal(1, "long"))
    with pytest.raises(CannotReplayError, match="top-n"):
        rebuild(replace(good, top="l DESC LIMIT 3"), SCHEMA)
    with pytest.raises(CannotReplayError, match="lacks some of its columns"):
        rebuild(replace(good, columns=("gone",)), SCHEMA)


def test_a_hint_only_prunes():
    """What of it cannot be made again is left out."""
    good = scan(equal(1, "long"))
    assert rebuild(replace(good, hint=equal(5, "int", "i")), SCHEMA).hint == Compare("=", column("i"), 5)
    assert rebuild(replace(good, hint=LoggedPredicate(op="unknown", text="f(x)")), SCHEMA).hint == TRUE
