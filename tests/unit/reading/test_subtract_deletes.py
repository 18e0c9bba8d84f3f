"""Equality deletes of the rows that the filter left: what key bounds and tables prove is not asked of each row."""

from __future__ import annotations

from pathlib import Path

import pytest

from check import check, ids
from tables import Table
from twostage.predicates.predicate import Compare, In

BOTH = pytest.mark.parametrize("stream", ["always", "never"])


def make(folder: Path, **values: object) -> Table:
    table = Table(folder, {"id": "long", "k": "int", "p": "string"})
    given = {"k": lambda i: i // 100, "p": lambda i: f"{i % 3}"} | values
    table.append(ids(1000, **given), row_group_size=100, metrics="none")
    return table


@BOTH
def test_row_groups_that_no_key_comes_near_are_untouched(tmp_path: Path, stream: str) -> None:
    table = make(tmp_path, k=lambda i: i)
    table.delete_equal(["k"], [{"k": 250}, {"k": 251}])
    result = check(table, [i for i in range(1000) if i not in (250, 251)], **{"deletes.stream": stream})
    assert result.count("row_groups.untouched") == 9
    assert result.count("rows.deleted.equality") == 2


@BOTH
def test_a_row_group_of_one_deleted_value_goes_whole(tmp_path: Path, stream: str) -> None:
    table = make(tmp_path)
    table.delete_equal(["k"], [{"k": 4}, {"k": 77}])
    result = check(table, [i for i in range(1000) if i // 100 != 4], **{"deletes.stream": stream})
    assert result.count("rows.deleted.equality") == 100
    assert result.count("row_groups.pruned.deletes") == 1


@BOTH
@pytest.mark.parametrize("prune", ["true", "false"])
def test_only_rows_that_the_filter_left_are_asked_about(tmp_path: Path, stream: str, prune: str) -> None:
    """By keys that the filter reads, by others, and by both; older rows only."""
    table = make(tmp_path)
    table.delete_equal(["p", "k"], [{"p": "1", "k": k} for k in range(5)])
    table.append([{"id": 5000 + i, "k": 1, "p": "1"} for i in range(10)])
    table.delete_equal(["id"], [{"id": i} for i in (*range(0, 30, 7), 5003)])
    gone = {i for i in range(500) if i % 3 == 1} | {*range(0, 30, 7), 5003}
    rows = [(i, i // 100, f"{i % 3}") for i in range(1000)] + [(5000 + i, 1, "1") for i in range(10)]
    options = {"deletes.stream": stream, "prune.deletes": prune}
    for where, kept in (
        (lambda c: Compare("=", c("p"), "1"), lambda i, k, p: p == "1"),
        (lambda c: In(c("k"), (1, 9)), lambda i, k, p: k in (1, 9)),
        (lambda c: Compare("<", c("id"), 20), lambda i, k, p: i < 20),
        (lambda c: Compare("=", c("p"), "none"), lambda i, k, p: False),
    ):
        wanted = [row[0] for row in rows if kept(*row) and row[0] not in gone]
        for select in (None, [], ["p"]):
            check(table, wanted, where, select=select, **options)
