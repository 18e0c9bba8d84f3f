"""What stage one decides of a row group, as its counters and sentences tell; the rows are brute force's each time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from check import Columns, check, ids
from core_scan import open_table, scan
from tables import Table
from twostage.predicates.predicate import And, Compare, In, StringMatch
from twostage.predicates.top import TopRows

NEARLY_ALL = "read in one stage: the filter keeps nearly all rows"


def make(folder: Path, *, version: int = 2, **values: Any) -> tuple[Table, Any]:
    table = Table(folder, {"id": "long", "k": "int", "s": "string"}, version=version)
    given = {"k": lambda i: i % 100, "s": lambda i: f"text {i % 7}"} | values
    return table, table.append(ids(1000, **given), row_group_size=100, metrics="none")


def test_a_filter_that_keeps_nearly_all_rows_ends_the_two_stages(tmp_path: Path) -> None:
    table, _ = make(tmp_path)
    keeps_most = check(table, [i for i in range(1000) if i % 100 != 7], lambda c: Compare("<>", c("k"), 7))
    assert keeps_most.metrics.choices[NEARLY_ALL] == 8  # two row groups must have been filtered
    assert keeps_most.count("row_groups.read") == 10
    keeps_some = check(table, [i for i in range(1000) if i % 100 < 89], lambda c: Compare("<", c("k"), 89))
    assert NEARLY_ALL not in keeps_some.metrics.choices


@pytest.mark.parametrize("two_stage", ["true", "false"])
def test_row_groups_without_a_matching_row(tmp_path: Path, two_stage: str) -> None:
    """No bound tells how texts end."""
    table, _ = make(tmp_path, s=lambda i: f"{i % 7} {'odd' if i // 100 % 2 else 'even'}")
    result = check(
        table,
        [i for i in range(100, 1000) if i // 100 % 2 and i % 100 == 50],
        lambda c: And((Compare("=", c("k"), 50), StringMatch("suffix", c("s"), "dd"))),
        two_stage=two_stage,
        **{"prune.dictionary": "false"},
    )
    assert result.count("row_groups.pruned.filter") == (5 if two_stage == "true" else 0)
    assert result.count("rows.filtered") == 995


@pytest.mark.parametrize("kind", ["position", "vector"])
def test_row_groups_whose_rows_positions_delete(tmp_path: Path, kind: str) -> None:
    table, file = make(tmp_path, version=3 if kind == "vector" else 2)
    gone = [*range(100, 200), *range(350, 360)]
    (table.delete_vectors if kind == "vector" else table.delete_positions)({file: gone})
    result = check(table, sorted(set(range(1000)) - set(gone)))
    assert result.count(f"rows.deleted.{kind}") == 110
    assert (result.count("row_groups.read"), result.count("row_groups.pruned.filter")) == (9, 1)


@pytest.mark.parametrize("stream", ["always", "never"])
def test_row_groups_whose_rows_keys_delete(tmp_path: Path, stream: str) -> None:
    table, _ = make(tmp_path, k=lambda i: i * 37 % 1000, s=lambda i: f"{i // 100}")
    table.delete_equal(["s"], [{"s": "3"}, {"s": "no such"}])
    left = [i for i in range(1000) if i // 100 != 3]
    result = check(table, left, **{"deletes.stream": stream})
    assert (result.count("row_groups.read"), result.count("row_groups.pruned.deletes")) == (9, 1)
    assert result.count("rows.deleted.equality") == 100


def test_text_is_searched_in_its_pages_while_that_pays(tmp_path: Path) -> None:
    """Where every page holds what is looked for, nothing can be left out; a needle is in one of them."""
    table = Table(tmp_path / "t", {"id": "long", "s": "string"})
    rows = ids(8000, s=lambda i: f"{'needle' if i % 50 == 0 else 'hay'} {i * 7919 % 8000:04} " + "x" * 40)
    table.append(rows, row_group_size=1000, page_size=100, page_index=True, dictionary=False, metrics="none")
    result = check(table, range(0, 8000, 50), lambda c: StringMatch("contains", c("s"), "needle"))
    assert result.count("pages.searched") > 0
    assert any(text.startswith("pages no longer searched for text") for text in result.metrics.choices)
    needle = f" {1300 * 7919 % 8000:04} "
    found = check(table, [1300], lambda c: StringMatch("contains", c("s"), needle))
    assert found.count("pages.searched") > result.count("pages.searched")
    assert not any(text.startswith("pages no longer searched") for text in found.metrics.choices)


def test_windows_and_whole_row_groups_where_memory_is_short(tmp_path: Path) -> None:
    table, _ = make(tmp_path, s=lambda i: f"{i:05}" * 40)
    for memory, word in (("1k", "task-memory"), ("1g", None)):
        result = check(
            table,
            [17, 517],
            lambda c: In(c("s"), tuple(f"{i:05}" * 40 for i in (17, 517))),
            task_memory=memory,
            **{"prune.row-groups": "false"},
        )
        assert any("task-memory" in text for text in result.metrics.choices) == (word is not None)


@pytest.mark.parametrize("count", [1, 40])
@pytest.mark.parametrize("descending", [True, False])
def test_the_first_rows_of_row_groups_that_are_read_in_windows(
    tmp_path: Path, count: int, descending: bool
) -> None:
    """The key exceeds the budget; one window of rows is deleted, and the last ones are outdone."""
    rows = 6000
    table = Table(tmp_path / "t", {"id": "long", "k": "long"})
    file = table.append(
        ids(rows, k=lambda i: i if descending else rows - i), page_size=1, page_index=True, dictionary=False
    )
    table.delete_positions({file: range(1400, 3100)})
    table.write()
    opened = open_table(table.folder, task_memory="80k")
    key = Columns(opened.table.schema)("k")
    top = TopRows(column=key, count=count, descending=descending, nulls_first=False)
    result = scan(opened, opened.table.schema.fields, top=top)
    live = [i for i in range(rows) if not 1400 <= i < 3100]
    assert sorted(row[0][1] for row in result.rows)[-count:] == live[-count:]
    assert {row[0][1] for row in result.rows} <= set(live)
    assert any("read in windows" in text for text in result.metrics.choices)
    filtered = scan(opened, opened.table.schema.fields, Compare("<", key, 0), top=top)
    assert filtered.rows == []
