"""Binding Spark's predicates: what is taken over, what is handed back, what still prunes."""

from __future__ import annotations

import base64
from decimal import Decimal

import pytest

from twostage.predicates import predicate as tree
from twostage.predicates.bind import bind_predicate
from twostage.predicates.predicate import Unknown, is_exact, weaken
from twostage.schema import parse_schema

SCHEMA = parse_schema(
    {
        "schema-id": 0,
        "fields": [
            {"id": 1, "name": "n", "type": "int"},
            {"id": 2, "name": "l", "type": "long"},
            {"id": 3, "name": "f", "type": "float"},
            {"id": 4, "name": "d", "type": "double"},
            {"id": 5, "name": "p", "type": "decimal(9,2)"},
            {"id": 6, "name": "s", "type": "string"},
            {"id": 7, "name": "b", "type": "binary"},
            {"id": 8, "name": "flag", "type": "boolean"},
            {"id": 9, "name": "ts", "type": "timestamptz"},
            {"id": 10, "name": "dotted.name", "type": "long"},
            {
                "id": 11,
                "name": "st",
                "type": {"type": "struct", "fields": [{"id": 12, "name": "x", "type": "long"}]},
            },
            {"id": 13, "name": "u", "type": "uuid"},
            {
                "id": 14,
                "name": "xs",
                "type": {"type": "list", "element-id": 15, "element": "int", "element-required": False},
            },
        ],
    }
)


def column(*path):
    return {"column": list(path)}


def literal(value, kind):
    return {"literal": value, "type": kind}


def compare(op, left, right):
    return {"op": op, "left": left, "right": right}


TAKEN = {
    "n = 5": compare("=", column("n"), literal(5, "integer")),
    "l > 5": compare("<", literal(5, "long"), column("l")),
    "st.x <> 5": compare("<>", column("st", "x"), literal(5, "long")),
    "`dotted.name` <= 5": compare("<=", column("dotted.name"), literal(5, "long")),
    "cast(n as long) = 5": compare("=", {"cast": column("n"), "type": "long"}, literal(5, "long")),
    "cast(f as double) < 0.1": compare(
        "<", {"cast": column("f"), "type": "double"}, literal("0.1", "double")
    ),
    "p < 1.555": compare("<", column("p"), literal("1.555", "decimal(4,3)")),
    "n = l": None,
    "s LIKE 'a%'": {"op": "starts_with", "left": column("s"), "right": literal("a", "string")},
    "s LIKE '%a'": {"op": "ends_with", "left": column("s"), "right": literal("a", "string")},
    "s LIKE '%a%'": {"op": "contains", "left": column("s"), "right": literal("a", "string")},
    "flag = TRUE": column("flag"),
    "xs IS NULL": {"op": "is_null", "term": column("xs")},
    "st IS NOT NULL": {"op": "is_not_null", "term": column("st")},
    "u = 'F'": compare("=", column("u"), literal("F", "string")),
    "l IN (1, 2, NULL)": {
        "op": "in",
        "term": column("l"),
        "values": [literal(1, "long"), literal(None, "long"), literal(2, "long"), literal(1, "long")],
    },
    "l IS NULL": compare("<=>", column("l"), literal(None, "long")),
    "NULL": compare("=", column("l"), literal(None, "long")),
    "b = X'00ff'": compare("=", column("b"), literal(base64.b64encode(b"\x00\xff").decode(), "binary")),
}
TAKEN["n = l"] = None
del TAKEN["n = l"]


@pytest.mark.parametrize("text", TAKEN)
def test_what_we_evaluate_exactly_is_taken_over(text):
    bound = bind_predicate(TAKEN[text], SCHEMA)
    assert is_exact(bound)
    assert str(bound) == text


HANDED_BACK = {
    "types differ": compare("=", column("n"), column("l")),
    "lossy cast": compare("=", {"cast": column("l"), "type": "integer"}, literal(5, "integer")),
    "cast to text": compare("=", {"cast": column("l"), "type": "string"}, literal("5", "string")),
    "narrowing decimal cast": compare(
        "=", {"cast": column("p"), "type": "decimal(5,1)"}, literal("1.5", "decimal(5,1)")
    ),
    "literal of another type": compare("=", column("s"), literal(5, "long")),
    "collated literal": compare("=", column("s"), literal("a", "string collate UTF8_LCASE")),
    "expression": compare("=", {"unknown": "upper(s)"}, literal("A", "string")),
    "no such column": compare("=", column("nope"), literal(5, "long")),
    "prefix of binary": {"op": "starts_with", "left": column("b"), "right": literal("a", "binary")},
    "list compared": compare("=", column("xs"), column("xs")),
    "unknown": {"op": "unknown", "name": "rlike(s, 'a')"},
}


@pytest.mark.parametrize("reason", HANDED_BACK)
def test_what_we_cannot_evaluate_exactly_is_handed_back(reason):
    assert not is_exact(bind_predicate(HANDED_BACK[reason], SCHEMA))


def test_a_float_literal_is_the_float_spark_means():
    bound = bind_predicate(compare("=", column("f"), literal("0.1", "float")), SCHEMA)
    assert bound.value == 0.10000000149011612


def test_a_decimal_literal_keeps_its_digits():
    bound = bind_predicate(compare("=", column("p"), literal("12345678.90", "decimal(10,2)")), SCHEMA)
    assert bound.value == Decimal("12345678.90")


def test_names_ignore_case_unless_told():
    raw = compare("=", column("L"), literal(5, "long"))
    assert is_exact(bind_predicate(raw, SCHEMA))
    assert not is_exact(bind_predicate(raw, SCHEMA, case_sensitive=True))


def test_what_a_handed_back_predicate_implies_still_prunes():
    known = compare("=", column("l"), literal(5, "long"))
    unknown = {"op": "unknown", "name": "rand() < 0.5"}
    both = bind_predicate({"op": "and", "children": [known, unknown]}, SCHEMA)
    assert not is_exact(both)
    assert str(weaken(both)) == "l = 5"
    either = bind_predicate({"op": "or", "children": [known, unknown]}, SCHEMA)
    assert weaken(either) == tree.TRUE
    # NOT (l = 5 OR unknown) implies l <> 5; NOT (l = 5 AND unknown) implies nothing.
    assert str(weaken(tree.Not(either))) == "l <> 5"
    assert weaken(tree.Not(both)) == tree.TRUE


def test_not_is_pushed_to_the_leaves():
    leaf = bind_predicate(compare("<", column("l"), literal(5, "long")), SCHEMA)
    null_safe = bind_predicate(compare("<=>", column("l"), literal(5, "long")), SCHEMA)
    inverted = tree.push_not_down(tree.Not(tree.And((leaf, tree.Not(null_safe), Unknown("x")))))
    assert str(inverted) == "l >= 5 OR l <=> 5 OR NOT (<x>)"
