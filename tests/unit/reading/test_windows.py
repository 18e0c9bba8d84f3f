"""Row groups whose filter columns exceed the task's memory: the same rows, window after window."""

from __future__ import annotations

import random

import numpy as np
import pytest

from check import check, ids
from tables import Table
from twostage.predicates.predicate import And, Compare, Not, Or
from twostage.reading.windows import cut_windows
from twostage.selection import Selection

ROWS = 3_000
IN_WINDOWS = "read in windows: the filter columns of a row group exceed task-memory"
IN_ONE_STAGE = "read in one stage: the filter columns of a row group exceed task-memory"


def make(folder, *, version=2, **options):
    table = Table(folder, {"id": "long", "k": "long", "text": "string", "st": {"a": "int"}}, version=version)
    rows = ids(
        ROWS,
        k=lambda i: None if i % 11 == 0 else i * 7919 % 1000,
        text=lambda i: None if i % 13 == 0 else f"text {i * 31 % 97}",
        st=lambda i: None if i % 17 == 0 else {"a": i % 5},
    )
    file = table.append(rows, page_size=1, page_index=True, dictionary=False, **options)
    return table, file, rows


def matching(rows, test):
    return [row["id"] for row in rows if row["k"] is not None and test(row)]


@pytest.mark.parametrize("pages", ["auto", "always"])
def test_rows_of_windows_are_those_of_the_row_group(tmp_path, pages):
    table, _, rows = make(tmp_path / "t")
    options = {"task_memory": "20k", "read.pages": pages}
    for literal in (1, 500, 999):
        wanted = matching(rows, lambda row, literal=literal: row["k"] < literal)
        result = check(table, wanted, lambda c, literal=literal: Compare("<", c("k"), literal), **options)
        assert result.metrics.choices == {IN_WINDOWS: 1}
        assert result.count("row_groups.considered") == result.count("row_groups.read") == 1
    nothing = check(table, [], lambda c: Compare("=", c("text"), "text 5x"), **options)
    assert nothing.metrics.choices == {IN_WINDOWS: 1}
    assert (nothing.count("row_groups.read"), nothing.count("row_groups.pruned.filter")) == (0, 1)


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("seed", range(4))
def test_deletes_apply_in_windows(tmp_path, seed, version):
    pick = random.Random(seed)
    table, file, rows = make(tmp_path / "t", version=version)
    positions = sorted(pick.sample(range(ROWS), ROWS // 4))
    (table.delete_vectors if version == 3 else table.delete_positions)({file: positions})
    keys = pick.sample(range(1000), 50)
    table.delete_equal(["k"], [{"k": key} for key in keys])
    low, high = sorted(pick.sample(range(1000), 2))
    kept = [row for row in rows if row["id"] not in set(positions) and row["k"] not in keys]
    wanted = matching(kept, lambda row: low <= row["k"] < high or row["text"] == "text 5")
    result = check(
        table,
        wanted,
        lambda c: And(
            (
                Or(
                    (
                        And((Compare(">=", c("k"), low), Compare("<", c("k"), high))),
                        Compare("=", c("text"), "text 5"),
                    )
                ),
                Not(Compare("<", c("k"), -1)),
            )
        ),
        task_memory="40k",
    )
    assert result.metrics.choices[IN_WINDOWS] == 1
    assert result.count("rows.deleted") >= ROWS // 4


@pytest.mark.parametrize("layout", ["coarse pages", "no pages"])
def test_without_pages_finer_than_windows_one_stage_reads(tmp_path, layout):
    table, _, rows = make(tmp_path / "t")
    options = {"read.pages": "never"}
    if layout == "coarse pages":
        options = {}
        table = Table(tmp_path / "coarse", {"id": "long", "k": "long"})
        table.append([{"id": row["id"], "k": row["k"]} for row in rows], dictionary=False)
    wanted = matching(rows, lambda row: row["k"] < 300)
    result = check(table, wanted, lambda c: Compare("<", c("k"), 300), task_memory="20k", **options)
    assert result.metrics.choices == {IN_ONE_STAGE: 1}


def test_a_batch_of_wide_filter_values_is_small(tmp_path):
    """Values that stage one has read are returned without another read: 50 rows of 4 MB are not one batch."""
    table = Table(tmp_path / "t", {"id": "long", "text": "string"})
    table.append(ids(50, text=lambda i: f"{i}" * 2_000_000), dictionary=False)
    result = check(table, range(50), lambda c: Compare(">", c("text"), ""), task_memory="2g")
    assert max(result.batch_sizes) < 20


@pytest.mark.parametrize("count", [1, 2, 3, 7, 100])
def test_windows_hold_every_row_once_and_in_order(count):
    pick = np.random.default_rng(count)
    for selection in (Selection.all(50), Selection.of(pick.random(50) < 0.3), Selection.none(50)):
        windows = [*cut_windows(selection, count)]
        assert [row for window in windows for row in window] == [*selection]
        assert all(window.count and window.num_rows == 50 for window in windows)
