"""The live rows that meet a predicate, by indexes and deletes: brute force's, or a reason."""

from __future__ import annotations

from typing import Any

import pytest

import oracle
from check import Columns
from core_scan import open_table
from indexed_tables import built
from tables import Table
from twostage.aggregates import index_answers
from twostage.aggregates.metadata_answer import AggregateAnswer, answer
from twostage.aggregates.totals import Aggregate
from twostage.predicates.predicate import TRUE, And, Compare, CompareColumns, In, IsNull, Not, Or

COLUMNS = {
    "id": "long!",
    "a": "int",
    "b": "string",
    "x": "double",
    "k": "long",
    "y": "int",
    "s": {"m": "int"},
}
ROWS = 400


def row(number: int) -> dict[str, Any]:
    return {
        "id": number,
        "a": None if number % 7 == 0 else number % 5,
        "b": None if number % 11 == 0 else f"word {number % 13:02}",
        "x": (None, 0.0, -0.0, float("nan"), 1.5)[number % 5],
        "k": number * 7 % 90,
        "y": number % 4,
        "s": None if number % 6 == 0 else {"m": number % 8},
    }


def make(folder, **more) -> tuple[Table, Any]:
    table = Table(folder, COLUMNS, **more)
    return table, table.append([row(number) for number in range(ROWS)], metrics="none", row_group_size=90)


def finished(table: Table, **kinds: str) -> Any:
    """Write the table; index columns."""
    opened = open_table(table.write())
    for names in ({"a": "values", "b": "values", "x": "values", "k": "postings", "s.m": "values"} | kinds).items():  # fmt: skip
        built(opened, [names[0]], names[1])
    return opened


def counted(opened: Any, predicate: Any = TRUE) -> int | str:
    found = answer(opened.table, opened.options, aggregates=(Aggregate("rows"),), predicate=predicate)
    return found.rows[0][0] if isinstance(found, AggregateAnswer) else found


def expected(table: Table, predicate: Any = TRUE) -> int:
    return sum(oracle.evaluate(predicate, one) is True for one in oracle.live_rows(table.content()))


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    table, _ = make(tmp_path_factory.mktemp("plain") / "t")
    return table, finished(table)


PREDICATES = [
    lambda c: Compare("=", c("a"), 3),
    lambda c: Not(Compare("=", c("a"), 3)),
    lambda c: Not(Or((Compare("=", c("a"), 3), Compare("<", c("b"), "word 05")))),
    lambda c: Or((Compare(">", c("a"), 3), IsNull(c("b")))),
    lambda c: And((Not(IsNull(c("a"))), In(c("b"), ("word 01", "word 12", "nothing")))),
    lambda c: Not(In(c("a"), (1, 2), has_null=True)),
    lambda c: In(c("a"), (1, 2), has_null=True),
    lambda c: Not(Compare("<=>", c("a"), 1)),
    lambda c: Compare("=", c("x"), 0.0),
    lambda c: Compare(">=", c("x"), float("nan")),
    lambda c: Compare("=", c("s.m"), 5),
    lambda c: Compare("=", c("k"), 1_000),  # postings that hold no such key
    lambda c: Compare(">", c("a"), 100),
    lambda c: Compare("<", c("a"), 100),
    lambda c: Not(And((Compare("<", c("a"), 100), Compare("=", c("k"), 1_000)))),
]


@pytest.mark.parametrize("number", range(len(PREDICATES)))
def test_exact_answers(plain, number):
    table, opened = plain
    predicate = PREDICATES[number](Columns(opened.table.schema))
    assert counted(opened, predicate) == expected(table, predicate)


@pytest.mark.parametrize(
    ("where", "reason"),
    [
        (lambda c: Compare("=", c("y"), 1), "no index of a file decides y = 1"),
        (
            lambda c: And((Compare("=", c("y"), 1), Compare("=", c("a"), 1))),
            "no index of a file decides y = 1",
        ),
        (lambda c: Compare("=", c("k"), 7), "an index of a file leaves rows to check for k = 7"),
        (lambda c: Compare("<", c("k"), 7), "no index of a file decides k < 7"),
        (lambda c: CompareColumns("=", c("a"), c("y")), "no index of a file decides a = y"),
    ],
)
def test_what_is_not_exact_is_read(plain, where, reason):
    _, opened = plain
    assert counted(opened, where(Columns(opened.table.schema))) == reason


def test_a_part_that_is_never_true_needs_no_other(plain):
    table, opened = plain
    c = Columns(opened.table.schema)
    for predicate in (
        And((Compare("=", c("y"), 1), Compare("=", c("a"), 77))),
        Or((Compare("=", c("y"), 1), Or((IsNull(c("a")), Not(IsNull(c("a"))))))),
    ):
        assert counted(opened, predicate) == expected(table, predicate)


def test_deletes_of_all_kinds(tmp_path):
    table, file = make(tmp_path / "t")
    table.delete_positions({file: [0, 5, 399]})
    table.delete_equal(["a", "b"], [{"a": 2, "b": "word 01"}, {"a": None, "b": None}, {"a": 4, "b": None}])
    table.delete_equal(["a"], [{"a": 0}])
    table.delete_equal(["s.m"], [{"s.m": 3}])
    opened = finished(table)
    c = Columns(opened.table.schema)
    for predicate in (TRUE, Compare("=", c("b"), "word 01"), IsNull(c("a")), Not(Compare("=", c("a"), 1))):
        assert counted(opened, predicate) == expected(table, predicate)
    assert isinstance(counted(opened), int)


def test_deleted_rows_in_doubt_do_not_matter(tmp_path):
    table, file = make(tmp_path / "t")
    table.delete_positions({file: [n for n in range(ROWS) if n * 7 % 90 == 7]})
    opened = finished(table)
    assert counted(opened, Compare("=", Columns(opened.table.schema)("k"), 7)) == 0


@pytest.mark.parametrize(
    ("columns", "rows", "reason"),
    [
        (["id"], [{"id": 3}], "a file has no bitmaps of the values of id"),
        (["k"], [{"k": 7}], "a file has no bitmaps of the values of k"),
        (["a", "y"], [{"a": 1, "y": 1}], "a file has no bitmaps of the values of y"),
        (["x"], [{"x": 0.0}], "equality deletes have the key x"),
    ],
)
def test_keys_that_no_index_tells(tmp_path, columns, rows, reason):
    table, _ = make(tmp_path / "t")
    table.delete_equal(columns, rows)
    opened = finished(table)
    assert counted(opened, Compare("=", Columns(opened.table.schema)("a"), 1)) == reason


def test_a_dropped_key_column(tmp_path):
    table, _ = make(tmp_path / "t")
    table.delete_equal(["y"], [{"y": 1}])
    table.drop_column("y")
    opened = finished(table)
    predicate = Compare("=", Columns(opened.table.schema)("a"), 1)
    assert counted(opened, predicate) == "equality deletes have a column that was dropped"


def test_compiled_deletes(tmp_path):
    from twostage.__main__ import main

    table, _ = make(tmp_path / "t")
    table.delete_equal(["id"], [{"id": n} for n in range(0, ROWS, 9)])
    opened = finished(table)
    compiled = {"deletes.compiled-dir": str(tmp_path / "compiled")}
    predicate = Compare("=", Columns(opened.table.schema)("a"), 1)
    assert isinstance(counted(opened, predicate), str)
    options = [f"--option=deletes.compiled-dir={tmp_path / 'compiled'}"]
    assert main(["compile-deletes", str(table.folder), *options]) == 0
    found = open_table(table.folder, **compiled)
    assert counted(found, predicate) == expected(table, predicate)


def test_too_many_deletes(tmp_path, monkeypatch):
    from twostage.aggregates import deleted_counts

    table, file = make(tmp_path / "t")
    table.delete_positions({file: range(20)})
    opened = finished(table)
    predicate = Compare("=", Columns(opened.table.schema)("a"), 1)
    assert counted(opened, predicate) == expected(table, predicate)
    monkeypatch.setattr(deleted_counts, "MAX_POSITIONS", 19)
    assert counted(opened, predicate) == "more than 19 rows are deleted"
    monkeypatch.setattr(index_answers, "MAX_FILES", 0)
    assert counted(opened, predicate) == "indexes of more than 0 files would have to be read first"
