"""Terms of bound predicates: lengths, casts, columns against columns, NULL literals, decimals read as doubles.

What is bound must answer as Spark would; what would not is `Unknown` by its text.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

import oracle
from twostage.columns import truncate_nanoseconds
from twostage.predicates.bind import bind_predicate, bind_top
from twostage.predicates.predicate import FALSE, TRUE, Constant, Predicate, Unknown, is_exact
from twostage.predicates.top import MAX_TOP_ROWS, TopRows
from twostage.schema import Schema, parse_schema

NAMES = {
    "n": "int",
    "m": "int",
    "l": "long",
    "f": "float",
    "d": "double",
    "p": "decimal(9,2)",
    "q": "decimal(9,2)",
    "s": "string",
    "t": "string",
    "u": "uuid",
    "v": "uuid",
    "flag": "boolean",
    "day": "date",
    "ts": "timestamptz_ns",
    "us": "timestamptz",
    "xs": {"type": "list", "element-id": 99, "element": "int", "element-required": False},
}
SCHEMA = parse_schema(
    {"fields": [{"id": i, "name": n, "type": t} for i, (n, t) in enumerate(NAMES.items(), 1)]}
)
IDS = {name: number for number, name in enumerate(NAMES, 1)}


def col(name: str) -> dict[str, Any]:
    return {"column": [name]}


def lit(value: Any, kind: str) -> dict[str, Any]:
    return {"literal": value, "type": kind}


def cast(term: dict[str, Any], kind: str) -> dict[str, Any]:
    return {"cast": term, "type": kind}


def compare(op: str, left: Any, right: Any) -> dict[str, Any]:
    return {"op": op, "left": left, "right": right}


def length(op: str, name: str, right: dict[str, Any]) -> dict[str, Any]:
    return compare(op, {"call": "CHAR_LENGTH", "of": col(name)}, right)


def bind(raw: dict[str, Any], schema: Schema = SCHEMA) -> Predicate:
    return bind_predicate(raw, schema)


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        ({"op": "true"}, "TRUE"),
        ({"op": "false"}, "FALSE"),
        (lit(True, "boolean"), "TRUE"),
        (lit(None, "void"), "NULL"),
        ({"op": "not", "child": col("flag")}, "NOT (flag = TRUE)"),
        (length(">=", "s", lit(3, "integer")), "length(s) >= 3"),
        (compare(">=", lit(3, "integer"), {"call": "CHAR_LENGTH", "of": col("s")}), "length(s) <= 3"),
        (length("<=>", "s", lit(None, "integer")), "s IS NULL"),
        (length("=", "s", lit(None, "integer")), "NULL"),
        ({"op": "contains", "left": col("s"), "right": lit(None, "string")}, "NULL"),
        (compare("<", col("n"), col("m")), "n < m"),
        (compare("=", cast(col("n"), "long"), col("l")), "cast(n as long) = l"),
        (compare("=", col("u"), col("v")), "u = v"),
        (compare("=", cast(col("l"), "long"), lit(5, "long")), "l = 5"),
        (compare("<", cast(col("n"), "decimal(12,2)"), lit("1.5", "decimal(12,2)")), "cast(n as decimal(12,2)) < 1.5"),
        (compare("<", cast(col("p"), "decimal(12,4)"), lit("1.5", "decimal(12,4)")), "cast(p as decimal(12,4)) < 1.5"),
        (compare("=", col("p"), lit(None, "decimal(9,2)")), "NULL"),
        (compare("=", cast(col("p"), "double"), lit(1.5, "double")), "p = 1.50"),
        (compare("<=>", cast(col("p"), "double"), lit(None, "double")), "p IS NULL"),
        (compare("<", cast(col("p"), "double"), lit(None, "double")), "NULL"),
        ({"op": "in", "term": cast(col("p"), "double"), "values": [lit(1.5, "double"), lit(None, "double")]}, "p IN (1.50, NULL)"),
        ({"op": "in", "term": col("l"), "values": [lit(None, "long")]}, "NULL"),
        (compare("=", col("day"), lit(19844, "date")), "day = DATE '2024-05-01'"),
        (compare("=", col("flag"), lit(False, "boolean")), "flag = FALSE"),
    ],
    ids=str,
)  # fmt: skip
def test_bound(raw: dict[str, Any], text: str) -> None:
    bound = bind(raw)
    assert is_exact(bound)
    assert str(bound) == text


@pytest.mark.parametrize(
    "raw",
    [
        col("s"),  # a column that is no truth value
        length("=", "l", lit(3, "integer")),
        length("=", "s", lit(3, "long")),
        compare("=", col("s"), col("u")),  # Spark has one type for both, Iceberg has not
        compare("<", cast(col("n"), "decimal(9,2)"), lit("1.5", "decimal(9,2)")),  # 10 digits do not fit into 7
        compare("<", cast(cast(col("n"), "double"), "decimal(38,2)"), lit("1.5", "decimal(38,2)")),
        compare("<", cast(col("d"), "decimal(38,2)"), lit("1.5", "decimal(38,2)")),
        compare("=", cast(col("l"), "float"), lit(1.0, "float")),  # Java rounds twice on the way
        compare("=", col("l"), {"unknown": "rand()"}),
        compare("=", col("xs"), lit(1, "integer")),
        compare("=", {"name": "udf(l)"}, lit(1, "long")),
        {"op": "in", "term": col("l"), "values": []},
        {"op": "in", "term": cast(col("p"), "double"), "values": [lit(2.0**60, "double")]},
        {"op": "starts_with", "left": col("s"), "right": lit(b"", "binary")},
        {"op": "is_null", "term": {"unknown": "upper(s)"}},
        {},
    ],
    ids=str,
)  # fmt: skip
def test_handed_back(raw: dict[str, Any]) -> None:
    assert isinstance(bind(raw), Unknown)


@pytest.mark.parametrize("op", ["=", "<>", "<", "<=", ">", ">=", "<=>"])
@pytest.mark.parametrize("value", [1.23, 1.5, 0.1])
def test_a_decimal_that_spark_reads_as_a_double(op: str, value: float) -> None:
    """`p > 1.5` in Python is CAST(p AS DOUBLE) > 1.5D: answered for the decimals without the cast."""
    for raw in (compare(op, cast(col("p"), "double"), lit(value, "double")),):
        bound = bind(raw)
        assert is_exact(bound)
        for number in (None, *(Decimal(n) / 100 for n in (-1, 9, 10, 11, 122, 123, 124, 149, 150, 151))):
            as_double = None if number is None else float(number)
            assert oracle.evaluate(bound, {IDS["p"]: number}) is oracle._compare(op, as_double, value)


def test_nanoseconds_shown_in_microseconds_are_compared_as_they_are_shown() -> None:
    schema = truncate_nanoseconds(SCHEMA)
    bound = bind(compare(">", col("ts"), lit(5, "timestamp")), schema)
    assert str(bound).startswith("cast(ts as timestamptz) > ")
    both = bind(compare("<", col("ts"), col("us")), schema)
    assert is_exact(both)
    refused = bind(compare(">", col("ts"), lit(5, "timestamp")))  # not shown at all, so not compared
    assert isinstance(refused, Unknown)


def top(name: str | None = "l", **changes: Any) -> TopRows | None:
    raw = {"column": name and [name], "descending": True, "nulls_first": False, "keys": 1, "count": 5}
    return bind_top(raw | changes, SCHEMA)


def test_the_first_rows_by_a_column() -> None:
    found = top(keys=2, nulls_first=True)
    assert found is not None
    assert (found.column.field_id, found.count, found.descending, found.nulls_first) == (
        IDS["l"],
        5,
        True,
        True,
    )
    assert found.has_more_keys
    assert str(found) == "l DESC NULLS FIRST, … LIMIT 5"
    assert top("L") is not None
    raw = {"column": ["L"], "descending": True, "nulls_first": False, "keys": 1, "count": 5}
    assert bind_top(raw, SCHEMA, case_sensitive=True) is None


@pytest.mark.parametrize(
    "found",
    [
        top(None),
        top(column=["l", "x"]),
        top("nope"),
        top("flag"),
        top("u"),
        top("xs"),
        top("ts"),
        top(count=0),
        top(count=MAX_TOP_ROWS + 1),
    ],
)
def test_what_leaves_no_rows_out(found: TopRows | None) -> None:
    assert found is None


def test_constants_are_folded() -> None:
    children = [{"op": "true"}, lit(None, "void"), {"op": "false"}]
    assert bind({"op": "and", "children": children}) == FALSE
    assert bind({"op": "or", "children": children}) == TRUE
    assert bind({"op": "and", "children": children[:2]}) == Constant(None)
