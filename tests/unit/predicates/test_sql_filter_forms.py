"""The option `filter`, form by form: numbers as Spark types them, NULLs, parentheses, and what is refused with a hint."""

from __future__ import annotations

import pytest

from twostage.errors import OptionError
from twostage.predicates.sql_filter import parse_filter
from twostage.schema import parse_schema

NAMES = {
    "i": "int",
    "l": "long",
    "f": "float",
    "d": "double",
    "dec": "decimal(9,2)",
    "s": "string",
    "u": "uuid",
    "flag": "boolean",
    "day": "date",
    "ts": "timestamptz",
    "local": "timestamp",
    "b": "binary",
    "t": "time",
    "xs": {"type": "list", "element-id": 99, "element": "int"},
}
SCHEMA = parse_schema(
    {"fields": [{"id": i, "name": n, "type": t} for i, (n, t) in enumerate(NAMES.items(), 1)]}
)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("TRUE", "TRUE"),
        ("FALSE", "FALSE"),
        ("NULL", "NULL"),
        ("NOT (TRUE)", "NOT (TRUE)"),
        ("((l)) = ((5))", "l = 5"),
        ("5 = (l)", "l = 5"),
        ("l = -5", "l = -5"),
        ("l = -(-5)", "l = 5"),
        ("l = 5.0", "l = 5"),
        ("d = 1e3", "d = 1000.0"),
        ("d = -1.5D", "d = -1.5"),
        ("d > 9007199254740992", "d > 9007199254740992.0"),
        ("f = 0.5", "f = 0.5"),
        ("f = 0.1", "cast(f as double) = 0.1"),
        ("f IN (0.5, 0.1)", "cast(f as double) IN (0.5, 0.1)"),
        ("dec = 1.555", "dec = 1.555"),
        ("dec < 123456789012345678901234567890123456.78", "dec < 123456789012345678901234567890123456.78"),
        ("l = NULL", "NULL"),
        ("l <=> NULL", "l IS NULL"),
        ("l IN (NULL)", "NULL"),
        ("l IN (1, 1, NULL)", "l IN (1, NULL)"),
        ("l NOT BETWEEN 1 AND 2", "NOT (l >= 1 AND l <= 2)"),
        ("length(s) = NULL", "NULL"),
        ("NULL <=> length(s)", "s IS NULL"),
        ("i = i", "i = i"),
        ("flag", "flag = TRUE"),
        ("NOT flag", "NOT (flag = TRUE)"),
        ("flag = FALSE", "flag = FALSE"),
        ("u = 'F79C'", "u = 'F79C'"),
        ("b IN (X'00', X'ff')", "b IN (X'00', X'ff')"),
        ("day = '2024-05-01'", "day = DATE '2024-05-01'"),
        ("local = TIMESTAMP_NTZ '2024-05-01 00:00:00'", "local = TIMESTAMP_NTZ '2024-05-01 00:00:00'"),
        ("endswith(s, 'x') AND contains(s, 'y')", "s LIKE '%x' AND s LIKE '%y%'"),
        ("s LIKE ''", "s = ''"),
    ],
)
def test_taken(text: str, shown: str) -> None:
    assert str(parse_filter(text, SCHEMA)) == shown


@pytest.mark.parametrize(
    "text",
    [
        "l = 1e3",  # a double for Spark, which would cast the column
        "dec = 1e3",
        "l = 1.5",
        "l = '5'",
        "l = TRUE",
        "d = 9007199254740993",  # which no double is
        "d = 'x'",
        "s = 5",
        "s",
        "xs = 1",
        "xs",
        "l LIKE 'x%'",
        "s LIKE i",
        "startswith(i, 'x')",
        "startswith(s, i)",
        "flag = 1",
        "b = 'text'",
        "s = X'00'",
        "day = '2024-13-01'",
        "day = TIMESTAMP '2024-05-01 00:00:00'",
        "ts = '2024-05-01 00:00:00'",  # without an offset: the session's zone is not known to workers
        "local = '2024-05-01 00:00:00Z'",
        "ts = TIMESTAMP_NTZ '2024-05-01 00:00:00'",
        "t = '2024-05-01'",
        "i = l",
        "length(s) = 99999999999",
        "length(s) = 'x'",
        "l = CAST('5' AS BIGINT)",
        "l = CAST(s AS BIGINT)",
        "l IN (SELECT 1)",
        "s RLIKE 'x'",
        "5 = 5",
        "l IS TRUE",
        "l BETWEEN SYMMETRIC 2 AND 1",
    ],
)
def test_refused_with_a_hint(text: str) -> None:
    with pytest.raises(OptionError) as caught:
        parse_filter(text, SCHEMA)
    assert caught.value.code in ("UNSUPPORTED_FILTER", "BAD_FILTER")
    assert caught.value.hint


@pytest.mark.parametrize("text", ["", "l = = 1", "(l = 1", "l = 'x", "'"])
def test_what_is_no_sql(text: str) -> None:
    with pytest.raises(OptionError) as caught:
        parse_filter(text, SCHEMA)
    assert caught.value.code == "BAD_FILTER"
    assert caught.value.hint


def test_names_by_case() -> None:
    assert str(parse_filter("L = 1", SCHEMA)) == "l = 1"
    with pytest.raises(OptionError, match="UNKNOWN_COLUMN.*'L'"):
        parse_filter("L = 1", SCHEMA, case_sensitive=True)
    with pytest.raises(OptionError, match="Did you mean 'flag'"):
        parse_filter("flga", SCHEMA)
