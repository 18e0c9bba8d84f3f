"""Filters as text: what Iceberg and twostage write into plans, and what is none."""

from __future__ import annotations

import random

import pytest

from random_predicates import random_predicate
from twostage.advisor import filter_text as module
from twostage.advisor.filter_text import parse_filters
from twostage.advisor.logged_predicate import log_predicate
from twostage.predicates.predicate import TRUE, push_not_down


def shape(predicate):
    """Return a predicate as nested tuples of operators and columns."""
    if predicate.children:
        return (predicate.op, *map(shape, predicate.children))
    return (predicate.op, *predicate.columns)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a = 5", ("=", "a")),
        ("5 < a", (">", "a")),
        ("a <=> -3", ("<=>", "a")),
        ("a.b.c IN (1, 2.5)", ("in", "a.b.c")),
        ("`odd name` = 'x'", ("=", "odd name")),
        ("NOT (a = 5)", ("<>", "a")),
        ("NOT (a = 5 OR b > 3)", ("and", ("<>", "a"), ("<=", "b"))),
        ("a NOT IN ('x')", ("not in", "a")),
        ("NOT (a IS NULL)", ("not is null", "a")),
        ("a LIKE 'x%'", ("prefix", "a")),
        ("a LIKE '%x'", ("suffix", "a")),
        ("NOT (a LIKE '%x%')", ("not contains", "a")),
        ("a = DATE '2020-01-01'", ("=", "a")),
        ("a = X'00ff'", ("=", "a")),
        ("a = true", ("=", "a")),
        ("a = b", ("=", "a", "b")),
        ("upper(a) = 'X'", ("unknown",)),
        ("a = b + 1", ("unknown",)),
        ("a IS NOT NULL, a = 5, b IS NOT NULL", ("and", ("=", "a"), ("not is null", "b"))),
        ("a = 1 AND (b = 2 AND c = 3)", ("and", ("=", "a"), ("=", "b"), ("=", "c"))),
        ("a = 'it's'", ("=", "a")),
        ("this is (no SQL", ("unknown",)),
        ("a = " + "(" * 5000, ("unknown",)),
    ],
)
def test_texts(text, expected):
    assert shape(parse_filters(text)) == expected


@pytest.mark.parametrize("text", ["", "  ", "TRUE", "true"])
def test_no_filter(text):
    assert parse_filters(text) is None


def test_a_text_that_is_too_long_is_not_parsed():
    found = parse_filters("a = 1 OR " * 50_000 + "b = 2")
    assert (found.op, len(found.text)) == ("unknown", 1000)


@pytest.mark.parametrize("seed", range(3))
def test_our_own_texts_come_back(seed):
    """Each leaf's column and kind; NaN and infinities are no literals of SQL."""
    rng = random.Random(seed)
    for _ in range(30):
        predicate = push_not_down(random_predicate(rng, ["int", "string"], depth=2))
        if predicate == TRUE:
            continue
        logged = log_predicate(predicate, {})
        if logged is None or any(leaf.op in ("constant", "length") for leaf in logged.leaves()):
            continue
        found = parse_filters(str(predicate))
        columns = {column for leaf in logged.leaves() for column in leaf.columns}
        assert {column for leaf in found.leaves() for column in leaf.columns} <= columns, f"seed {seed}"


ODD = ["5", "-5", "2.5", "-1e-7", "99999999999999999999", "'x'", "'%'", "'%x'", "'x%'", "'%x%'", "'%%'", "''", "'a, (b'", "'it's'",
       "'5'", "'-- 5'", "DATE '2020-01-01'", "TIMESTAMP '2020-01-01 10:00:00'", "X'00ff'", "true", "NULL", '"q 5"', "'a\\'b'",
       "8642000012468", "'8642000012468'", "5L", "'%"]  # fmt: skip
FORMS = ["a = {}", "{} < a", "NOT (a1 <=> {})", "`b 5`.c2 IN ({}, {}, {})", "a LIKE {}", "NOT (a LIKE {})", "a IS NULL",
         "(a = {} OR b > {})", "NOT (a = {} AND b2 > {})", "upper(a) = {}", "a = b + {}", "cast(a as decimal(9,2)) = {}"]  # fmt: skip


@pytest.mark.parametrize("seed", range(5))
def test_a_form_that_was_parsed_before_gives_what_parsing_gives(seed):
    rng = random.Random(seed)
    for _ in range(150):
        text = ", ".join(rng.choices(FORMS, k=rng.randint(1, 3)))
        text = text.format(*rng.choices(ODD, k=text.count("{}")))
        assert parse_filters(text) == module._parse(text), f"seed {seed}: {text}"
    for _ in range(30):
        text = str(push_not_down(random_predicate(rng, ["int", "string", "double", "date"], depth=2)))
        if text != "TRUE":
            assert parse_filters(text) == module._parse(text), f"seed {seed}: {text}"


def test_a_form_is_parsed_once(monkeypatch):
    module._parsed_form.cache_clear()
    parsed = []
    parse = module._parse
    monkeypatch.setattr(module, "_parse", lambda text: parsed.append(text) or parse(text))
    for number in range(100):
        found = parse_filters(
            f"dev = 'd{number}', price > {number}.5, id IN ({number}, -{number + 1}), s LIKE '%{number}%'"
        )
        assert [leaf.values for leaf in found.leaves()] == [
            (f"d{number}",), (f"{number}.5",), (number, -number - 1), (f"%{number}%",)
        ]  # fmt: skip
        assert found.children[3].text == f"s LIKE '%{number}%'"
    assert len(parsed) == 1
