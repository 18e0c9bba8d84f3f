"""Pages that need no reading: rows are brute force's, and where pages are sorted only theirs are looked at."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from check import check, ids
from tables import Table
from twostage.predicates.predicate import And, Compare, In, IsNull, Not, Or

ROWS = 8_000


def make(folder: Path, **values: Any) -> Table:
    """Pages of 1,024 rows; those of text are others than those of numbers."""
    kinds = {"id": "long", "k": "int", "s": "string"}
    table = Table(folder / "t", kinds)
    given = {"k": lambda i: i, "s": lambda i: "x" * 50 + f"{i:06}"} | values
    table.append(ids(ROWS, **given), page_index=True, page_size=8192, dictionary=False, metrics="none")
    return table


def test_a_needle_is_looked_for_in_its_page(tmp_path: Path) -> None:
    result = check(make(tmp_path), [5000], lambda c: Compare("=", c("k"), 5000))
    assert ROWS - 3000 <= result.count("rows.pruned") < ROWS
    off = check(
        make(tmp_path / "off"), [5000], lambda c: Compare("=", c("k"), 5000), **{"prune.pages": "false"}
    )
    assert off.count("rows.pruned") == 0


def test_each_conjunct_asks_the_rows_that_are_left(tmp_path: Path) -> None:
    """The first leaves a page, the second another: nothing is decoded."""
    result = check(
        make(tmp_path),
        [],
        lambda c: And((Compare("<", c("k"), 100), Compare(">", c("k"), 6_000), Compare("=", c("s"), "y"))),
        **{"prune.row-groups": "false"},
    )
    assert result.count("rows.pruned") == ROWS
    assert not result.metrics.predicates or all(
        not cost.rows_in for cost in result.metrics.predicates.values()
    )


def test_a_disjunction_over_columns_whose_pages_begin_elsewhere(tmp_path: Path) -> None:
    text = "x" * 50 + "004567"
    result = check(
        make(tmp_path), [50, 4567], lambda c: Or((Compare("=", c("k"), 50), Compare("=", c("s"), text)))
    )
    assert ROWS - 4000 <= result.count("rows.pruned") < ROWS


@pytest.mark.parametrize("seed", range(8))
def test_no_matching_row_is_lost(tmp_path: Path, seed: int) -> None:
    pick = random.Random(seed)
    spread = pick.choice((1, 50, 5000))
    numbers = [
        None if pick.random() < 0.02 else i // spread * spread + pick.randrange(50) for i in range(ROWS)
    ]
    texts = [f"{pick.randrange(ROWS) if seed % 2 else i:06}" for i in range(ROWS)]
    table = make(tmp_path, k=lambda i: numbers[i], s=lambda i: texts[i])
    low = pick.randrange(ROWS)

    def where(c: Any) -> Any:
        return Or(
            (
                And((Compare(">=", c("k"), low), Compare("<", c("k"), low + 500), Not(IsNull(c("s"))))),
                In(c("s"), tuple(f"{pick_one:06}" for pick_one in range(low, low + 40, 7))),
            )
        )

    wanted = {f"{one:06}" for one in range(low, low + 40, 7)}
    expected = [
        i
        for i in range(ROWS)
        if texts[i] in wanted or ((number := numbers[i]) is not None and low <= number < low + 500)
    ]
    check(table, expected, where, select=["k"])


def test_page_indexes_that_prune_nothing_are_not_asked_for_ever(tmp_path: Path) -> None:
    table = Table(tmp_path / "t", {"id": "long", "k": "int"})
    rows = ids(8000, k=lambda i: i % 100 * 2)
    table.append(rows, page_index=True, page_size=400, row_group_size=1000, dictionary=False, metrics="none")
    result = check(table, [], lambda c: Compare("=", c("k"), 51))
    (told,) = [text for text in result.metrics.choices if text.startswith("page indexes no longer read")]
    assert "reads pruned too little" in told
