"""Filters as Spark's own reader shows them in its plan, made logged predicates."""

from __future__ import annotations

import pytest

from twostage.advisor.spark_filter import parse_spark_filters, plain_name

SALT = "_12_636693382652d210"


@pytest.mark.parametrize(
    ("text", "leaves"),
    [
        ("[(dev#93 = d9)]", [("=", ("dev",), ("d9",))]),
        (f"[(dev{SALT}#93 = d9), (id{SALT}#9L > 5)]", [("=", ("dev",), ("d9",)), (">", ("id",), (5,))]),
        ("[NOT (dev#1 = a b)]", [("<>", ("dev",), ("a b",))]),
        ("[NOT (dev#1 <=> x)]", [("not <=>", ("dev",), ("x",))]),
        ("[isnotnull(a#1), isnull(b#2)]", [("not is null", ("a",), None), ("is null", ("b",), None)]),
        ("[NOT isnotnull(a#1)]", [("is null", ("a",), None)]),
        ("[isnotnull(a#1), (a#1 < 5)]", [("<", ("a",), (5,))]),
        (f"[(s{SALT}#4.x.y = -3)]", [("=", ("s.x.y",), (-3,))]),
        ("[(a#1L = b#2L)]", [("=", ("a", "b"), None)]),
        ("[dev#93 IN (d1,it's,d 3)]", [("in", ("dev",), ("d1", "it's", "d 3"))]),
        ("[NOT dev#93 IN (1,2)]", [("not in", ("dev",), (1, 2))]),
        ("[dev#93 INSET a, b, c, (id#4 = 5)]", [("in", ("dev",), ("a", "b", "c")), ("=", ("id",), (5,))]),
        ("[StartsWith(dev#3, a, (b)]", [("prefix", ("dev",), ("a, (b",))]),
        ("[(a#1 IN (1,2) AND (b#2 = 3))]", [("in", ("a",), (1, 2)), ("=", ("b",), (3,))]),
        ("[(StartsWith(a#1, x) OR NOT (b#2 = 3))]", [("prefix", ("a",), ("x",)), ("<>", ("b",), (3,))]),
        ("[(a#1 INSET 1, 2 AND (b#2 = 3))]", [("in", ("a",), (1, 2)), ("=", ("b",), (3,))]),
        ("[StartsWith(dev#3, a), Contains(e#4, b,c)]", [("prefix", ("dev",), ("a",)), ("contains", ("e",), ("b,c",))]),
        ("[NOT EndsWith(dev#3, a)]", [("not suffix", ("dev",), ("a",))]),
        ("[(dev#3 = rock AND roll)]", [("=", ("dev",), ("rock AND roll",))]),
        ("[((a#1 = 1) OR ((b#2 = x, y) AND c#3 IN (1,2)))]",
         [("=", ("a",), (1,)), ("=", ("b",), ("x, y",)), ("in", ("c",), (1, 2))]),
        ("[(cast(a#1 as int) = 5)]", [("unknown", (), None)]),
        ("[flag#1, (a#2 = 1)]", [("unknown", (), None), ("=", ("a",), (1,))]),
        ("[(a#1 = 99999999999999999999)]", [("=", ("a",), ("99999999999999999999",))]),
        ("nonsense ((", [("unknown", (), None)]),
    ],
)  # fmt: skip
def test_filters(text, leaves):
    found = parse_spark_filters(text)
    assert [(leaf.op, leaf.columns, leaf.values) for leaf in found.leaves()] == leaves


def test_and_or_and_their_negation():
    found = parse_spark_filters("[NOT ((a#1 = 1) OR ((b#2 > 2) AND (c#3 = 3)))]")
    assert (found.op, [child.op for child in found.children]) == ("and", ["<>", "or"])
    assert found.text == "a <> 1 AND (b <= 2 OR c <> 3)"
    assert parse_spark_filters("[((a#1 = 1) OR isnull(b#2))]").text == "a = 1 OR b IS NULL"


def test_values_that_spark_leaves_out_are_counted():
    found = parse_spark_filters("[dev#1 INSET " + ", ".join("abc") + ", ... 97 more fields]")
    assert (found.count, found.values, found.text) == (100, ("a", "b", "c"), "dev IN ('a', 'b', 'c')")


@pytest.mark.parametrize("text", ["", "[]", " [ ] "])
def test_no_filter(text):
    assert parse_spark_filters(text) is None


def test_what_is_too_deep_or_long_is_unknown():
    deep = "(" * 5000 + "a#1 = 1" + ")" * 5000
    assert {leaf.op for leaf in parse_spark_filters(f"[{deep}]").leaves()} == {"unknown"}
    assert parse_spark_filters(f"[{'NOT ' * 5000}(a#1 = 1)]").op == "unknown"
    assert parse_spark_filters(f"[(a#1 = {'x' * 300_000})]").op == "unknown"


def test_names():
    assert plain_name(f"dev{SALT}") == "dev"
    assert plain_name(f"a_1{SALT}") == "a_1"
    assert plain_name("plain") == "plain"
