"""What indexes answer is not read, what they do not answer is evaluated; the rows are brute force's each time."""

from __future__ import annotations

import random
import re
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from check import Columns, check
from core_scan import open_table, scan
from indexed_tables import index_table
from tables import Table
from twostage.deletes.cache.memory import CACHE
from twostage.indexes import open_index
from twostage.indexes.puffin import read_footer
from twostage.predicates.key_set import key_set
from twostage.predicates.predicate import And, Compare, In, InKeys, IsNull, Not, Or, Predicate, StringMatch
from twostage.reading import aligned_columns, index_answers

ROWS = 2000
KINDS = {"a": ("values",), "b": ("postings",), "c": ("sorted", "bins"), "s": ("values",)}


@pytest.fixture(autouse=True)
def _every_index_pays(monkeypatch):
    """Whatever an index takes is less than its column."""
    monkeypatch.setattr(index_answers.FileAnswers, "_column_cost", lambda *_: (10**6, 10**9, 10**9))


def make(folder: Path, **more: Any) -> Table:
    """Two files of ten row groups each; every column has NULLs, `x` and `y` have no index."""
    table = Table(
        folder,
        {"id": "long", "a": "int", "b": "long", "c": "double", "s": "string", "x": "int", "y": "string"},
    )
    rng = random.Random(7)

    def maybe(value):
        return None if rng.random() < 0.1 else value

    for first in (0, ROWS // 2):
        rows = [
            {
                "id": first + i,
                "a": maybe(rng.randrange(10)),
                "b": maybe(rng.randrange(1000)),
                "c": maybe(rng.uniform(-5, 5)),
                "s": maybe(f"text {rng.randrange(20):02}"),
                "x": maybe(rng.randrange(10)),
                "y": maybe(f"{rng.randrange(30)}"),
            }
            for i in range(ROWS // 2)
        ]
        table.append(rows, row_group_size=100, metrics="none", **more)
    table.write()
    return table


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    table = make(tmp_path_factory.mktemp("tables") / "t")
    index_table(open_table(table.folder), KINDS)
    return table


def wanted(table: Table, where: Any) -> list[int]:
    import oracle

    opened = open_table(table.folder)
    predicate = where(Columns(opened.table.schema))
    id_field = opened.table.schema.find(("id",))
    rows = oracle.live_rows(table.content())
    return [row[id_field.id] for row in rows if oracle.evaluate(predicate, row) is True]


def run(table: Table, where: Any, **options: str):
    return check(table, wanted(table, where), where, **options)


def test_an_exact_answer_is_not_read_again(table):
    def where(c):
        return Compare("=", c("a"), 7)

    off = run(table, where, index="off", **{"prune.dictionary": "false"})
    on = run(table, where, **{"prune.dictionary": "false"})
    assert off.count("indexes.") == 0
    assert on.metrics.counters["indexes.used"] == 2
    assert on.count("bytes.filter") == 0 < off.count("bytes.filter")
    assert on.count("rows.filtered") == off.count("rows.filtered")
    assert list(on.metrics.predicates) == ["a = 7: by index, exact"]
    opened = open_table(table.folder, **{"prune.dictionary": "false", "read.pages": "never"})
    (id_field,) = (field for field in opened.table.schema.fields if field.name == "id")
    bare = scan(opened, (id_field,), where(Columns(opened.table.schema)))
    assert bare.count("bytes.read") < scan(opened, (id_field,)).count("bytes.read") * 1.01  # `a` is not read


def test_the_bytes_of_indexes_are_told_by_predicate(table, monkeypatch):
    monkeypatch.setattr(open_index, "read_footer", partial(read_footer, tail_bytes=64))
    CACHE.clear()
    found = run(table, lambda c: And((Compare("=", c("a"), 7), Compare("=", c("b"), 77))))
    CACHE.clear()
    costs = {text: cost.index_bytes for text, cost in found.metrics.predicates.items() if "by index" in text}
    assert {text.partition(":")[0] for text in costs} == {"a = 7", "b = 77"}
    assert sum(costs.values()) == found.metrics.counters["indexes.bytes_read"]
    assert costs["a = 7: by index, exact"] > 0


def test_an_answer_at_most_is_checked(table):
    def where(c):
        return Compare("=", c("b"), 77)

    result = run(table, where, **{"prune.dictionary": "false"})
    assert set(result.metrics.predicates) <= {
        "b = 77: by index, at most", "b = 77: by index, exact", "b = 77"
    }  # fmt: skip
    assert any("by index" in text for text in result.metrics.predicates)


def test_keys_of_a_join_are_asked_as_a_list_of_those_within_the_file(tmp_path, monkeypatch):
    """Two files, with 0 to 999 and 1000 to 1999: of 1,200 keys each has at most 600."""
    table = Table(tmp_path / "t", {"id": "long", "k": "long"})
    for first in (0, 1000):
        table.append(
            [{"id": i, "k": None if i % 9 == 4 else i} for i in range(first, first + 1000)],
            row_group_size=100,
        )
    table.write()
    index_table(open_table(table.folder), {"k": ("values",)})
    every = [number for number in range(2400) if number % 2]
    expected = [i for i in range(2000) if i % 2 and i % 9 != 4]

    def where(c):
        return InKeys(c("k"), key_set(np.array(every)))

    on = check(table, expected, where, **{"prune.dictionary": "false"})
    assert on.metrics.counters["indexes.used"] == 2
    assert on.count("bytes.filter") == 0
    assert list(on.metrics.predicates) == ["k IN set of 1,200 keys: by index, exact"]
    monkeypatch.setattr(index_answers, "MAX_LISTED_KEYS", 499)
    off = check(table, expected, where, **{"prune.dictionary": "false"})
    assert off.count("indexes.used") == 0 < off.count("bytes.filter")


def test_an_and_is_narrowed_and_an_or_spans_both(table):
    both = run(table, lambda c: And((Compare("=", c("a"), 7), Compare("=", c("x"), 3))))
    assert (
        both.metrics.predicates["x = 3"].rows_in == both.metrics.predicates["a = 7: by index, exact"].rows_out
    )
    either = run(table, lambda c: Or((Compare("=", c("a"), 7), Compare("=", c("x"), 3))))
    assert "a = 7 OR x = 3: by index, at least" in either.metrics.predicates
    assert either.metrics.counters["indexes.used"] == 2


def test_of_an_or_few_rows_of_a_key_are_checked(table):
    """The postings give a few rows; the column is read for these alone."""

    def where(c):
        return Or((Compare("=", c("b"), 77), Compare("=", c("x"), 3)))

    options = {"prune.dictionary": "false", "read.pages": "always"}
    off, on = (run(table, where, index=index, **options) for index in ("off", "auto"))
    assert on.metrics.counters["indexes.used"] == 2
    assert on.count("bytes.filter") < off.count("bytes.filter")


def test_the_documents_examples(table):
    """(X AND Y) OR Z with bitmaps for X and Z; its conjunctive form; A AND (B OR (C AND D))."""

    def x_and_y_or_z(c):
        return Or((And((Compare("=", c("a"), 3), Compare("<", c("x"), 5))), Compare("=", c("s"), "text 07")))

    for mode in ("none", "cnf", "dnf"):
        assert run(table, x_and_y_or_z, **{"filter.normalize": mode}).metrics.counters["indexes.used"] == 2

    def a_and(c):
        return And(
            (
                Compare("<", c("a"), 8),
                Or((Compare("=", c("x"), 1), And((Compare("=", c("y"), "7"), Compare(">", c("c"), 0.0))))),
            )
        )

    for mode in ("none", "cnf", "dnf"):
        assert run(table, a_and, **{"filter.normalize": mode}).metrics.counters["indexes.used"] == 2


def test_two_comparisons_that_make_a_range_are_asked_as_one(table):
    """Of `c`, which has sorted rows and bins; also inside an OR, and where nothing lies between."""

    def between(c, low, high):
        return And((Compare(">=", c("c"), low), Compare("<", c("c"), high)))

    found = run(table, lambda c: between(c, 1.0, 1.2))
    (asked,) = (text for text in found.metrics.predicates if "by index" in text)
    assert asked.startswith("c >= 1.0 AND c < 1.2: by index, ")
    assert found.metrics.counters["indexes.used"] == 2
    for where in (
        lambda c: And((Compare("=", c("x"), 3), between(c, 1.0, 1.2))),
        lambda c: Or((Compare("=", c("a"), 3), between(c, -1.0, -0.9))),
        lambda c: Not(Or((Compare("<", c("c"), 0.0), Compare(">", c("c"), 0.1), IsNull(c("a"))))),
        lambda c: between(c, 1.2, 1.0),
        lambda c: between(c, float("nan"), float("inf")),
        lambda c: And((between(c, 1.0, 2.0), between(c, 1.5, 3.0))),
        # In disjunctive normal form, each side also stands without the other one.
        lambda c: And(
            (
                Or((Compare("<=", c("c"), 0.5), Compare("=", c("x"), 3))),
                Or((Compare(">", c("c"), 0.2), IsNull(c("y")))),
            )
        ),
    ):
        rows = wanted(table, where)
        for mode in ("none", "cnf", "dnf"):
            for cache in ("off", "memory", "memory"):
                check(table, rows, where, **{"filter.normalize": mode, "filter.cache": cache})


@pytest.mark.parametrize("kind", ["values", "slices"])
def test_kinds_that_tell_a_range_exactly_are_asked_once(tmp_path, kind):
    """Each end alone would read most of the bitmaps."""
    table = Table(tmp_path / "t", {"id": "long", "n": "long"})
    drawn = random.Random(8)
    numbers = [drawn.randrange(3_000) for _ in range(6_000)]
    table.append([{"id": row, "n": None if n < 30 else n} for row, n in enumerate(numbers)])
    table.write()
    (path,) = index_table(open_table(table.folder), {"n": (kind,)})
    for low, high in ((1_000, 1_020), (0, 40), (2_990, 9_999), (50, 40)):
        found = run(table, lambda c, a=low, b=high: And((Compare(">=", c("n"), a), Compare("<", c("n"), b))))
        if low < high:
            assert list(found.metrics.predicates) == [f"n >= {low} AND n < {high}: by index, exact"]
        share = 0.3 if kind == "values" else 1.01
        assert found.metrics.counters["indexes.bytes_read"] < share * path.stat().st_size


def test_of_a_range_the_rows_at_its_ends_are_read_alone(tmp_path, monkeypatch):
    """The rows between are in every page, and an index knows them."""
    monkeypatch.setattr(aligned_columns, "ROWS_OF_A_PAGE", 200)
    table = Table(tmp_path / "t", {"id": "long", "c": "double"})
    drawn = random.Random(9)
    values = [drawn.uniform(0, 1) for _ in range(10_000)]
    table.append(
        [{"id": row, "c": value} for row, value in enumerate(values)],
        dictionary=False, page_size=800, page_index=True, row_group_size=10_000,
    )  # fmt: skip
    table.write()
    index_table(open_table(table.folder), {"c": ("sorted",)})

    def where(c):
        return And((Compare(">=", c("c"), ends[0]), Compare("<=", c("c"), ends[1])))

    ends = sorted(values)[5_000:5_200:199]
    off, on = (run(table, where, index=index, **{"io.merge-gap": "1"}) for index in ("off", "auto"))
    assert on.metrics.counters["indexes.used"] == 1
    assert on.count("rows.fetched") == 200
    assert 0 < on.count("bytes.filter") < 0.3 * off.count("bytes.filter")


def test_not_is_within_the_rows_that_are_not_null(table):
    for where in (
        lambda c: Not(In(c("a"), (1, 2, 3))),
        lambda c: Not(In(c("a"), (1, 2, 3), has_null=True)),
        lambda c: Not(In(c("b"), (1, 2, 3))),
        lambda c: Not(StringMatch("prefix", c("s"), "text 0")),
        lambda c: Not(Or((Compare("=", c("a"), 7), Compare("=", c("x"), 3)))),
        lambda c: Not(And((Compare("=", c("a"), 7), Compare("=", c("x"), 3)))),
        lambda c: Not(Compare("<=>", c("a"), 7)),
        lambda c: IsNull(c("a")),
        lambda c: Not(IsNull(c("c"))),
        lambda c: And((IsNull(c("a")), IsNull(c("x")))),
    ):
        run(table, where)


def random_predicate(rng: random.Random, c: Columns, depth: int) -> Predicate:
    if depth and rng.random() < 0.7:
        kind = rng.choice((And, Or, Not))
        if kind is Not:
            return Not(random_predicate(rng, c, depth - 1))
        return kind(tuple(random_predicate(rng, c, depth - 1) for _ in range(rng.randint(2, 3))))
    name = rng.choice("abcsxy")
    op = rng.choice(("=", "<>", "<", "<=", ">", ">=", "<=>"))
    if rng.random() < 0.1:
        return IsNull(c(name))
    if name in "sy":
        text = f"text {rng.randrange(25):02}" if name == "s" else f"{rng.randrange(35)}"
        if rng.random() < 0.3:
            return StringMatch(rng.choice(("prefix", "suffix", "contains")), c(name), text[-1:])
        return Compare(op, c(name), text)
    if name == "c":
        return Compare(op, c(name), rng.uniform(-6, 6))
    top = {"a": 12, "b": 1100, "x": 12}[name]
    if rng.random() < 0.3:
        values = tuple(rng.randrange(top) for _ in range(rng.randrange(5)))
        return In(c(name), values, has_null=rng.random() < 0.3)
    return Compare(op, c(name), rng.randrange(top))


@pytest.mark.parametrize("seed", range(25))
def test_random_predicates(table, seed):
    rng = random.Random(seed)
    options = rng.choice(
        (
            {},
            {"filter.normalize": "cnf"},
            {"filter.reorder": "false"},
            {"filter.cache": "memory"},
            {"read.pages": "always"},
            {"filter.kernels": "false"},
        )
    )
    for _ in range(3):
        seed_of_predicate = rng.random()
        run(table, lambda c, s=seed_of_predicate: random_predicate(random.Random(s), c, 3), **options)


def test_a_table_indexed_in_part(tmp_path):
    table = make(tmp_path / "t")
    index_table(open_table(table.folder), KINDS, only=lambda number: number == 1)

    def where(c):
        return Or((Compare("=", c("a"), 7), Compare("=", c("b"), 3)))

    result = run(table, where)
    assert (result.metrics.counters["indexes.asked"], result.metrics.counters["indexes.used"]) == (2, 1)


def test_with_deletes_and_after_changes(tmp_path):
    table = make(tmp_path / "t")
    index_table(open_table(table.folder), KINDS)
    table.delete_equal(["x"], [{"x": 3}])
    table.append([{"id": ROWS + i, "a": 7, "b": 1, "c": 0.5, "s": "z", "x": 1, "y": "1"} for i in range(10)])
    table.rename_column("a", "renamed")
    table.widen_column("renamed", "long")
    table.write()
    for value in (7, 2**40, -(2**40)):
        result = run(table, lambda c, v=value: Compare("=", c("renamed"), v), **{"prune.files": "false"})
        assert result.metrics.counters["indexes.used"] == (2 if value == 7 else 0), (
            value
        )  # bounds tell of the others
    run(table, lambda c: Compare("<", c("renamed"), 2**40), **{"prune.row-groups": "false"})
    run(table, lambda c: Compare("=", c("renamed"), 2**40), **{"prune.row-groups": "false"})
    table.drop_column("s")
    table.add_column("s", "string")
    table.write()
    assert run(table, lambda c: Compare("=", c("s"), "text 07")).metrics.counters["indexes.used"] == 0


def test_damaged_indexes_change_no_row(tmp_path):
    table = make(tmp_path / "t")
    paths = index_table(open_table(table.folder), KINDS)
    data = [path.read_bytes() for path in paths]
    rng = random.Random(3)

    def where(c):
        return And((Compare("=", c("a"), 7), Compare("<", c("c"), 2.0)))

    ignored = 0
    for _ in range(10):
        for path, whole in zip(paths, data, strict=True):
            flipped = bytearray(whole)
            for _ in range(20):
                flipped[rng.randrange(len(flipped))] ^= 1 << rng.randrange(8)
            path.write_bytes(flipped)
        from twostage.deletes.cache.memory import CACHE

        CACHE.clear()
        ignored += run(table, where).metrics.counters["indexes.ignored"]
    assert ignored > 5


def test_an_index_that_takes_more_bytes_than_its_column_is_not_read(table, monkeypatch):
    monkeypatch.setattr(index_answers.FileAnswers, "_column_cost", lambda *_: (0, 10, 1))
    result = run(table, lambda c: Compare("=", c("a"), 7))
    assert result.metrics.counters["indexes.used"] == 0
    (text,) = (one for one in result.metrics.choices if one.startswith("index of a not read"))
    assert re.fullmatch(
        "index of a not read: it would save too few bytes, about [0-9]+ KiB instead of about [0-9]+ KiB, requests included",
        text,
    )
    assert result.metrics.choices[text] == 2, result.metrics.choices


def test_row_groups_of_the_first_rows_of_a_limit(table):
    opened = open_table(table.folder)
    c = Columns(opened.table.schema)
    result = scan(opened, predicate=Compare("=", c("a"), 7), limit=3)
    matching = set(wanted(table, lambda c: Compare("=", c("a"), 7)))
    assert len(result.rows) >= 3
    assert {row[0][1] for row in result.rows} <= matching
