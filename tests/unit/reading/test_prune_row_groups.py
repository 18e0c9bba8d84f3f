"""Row groups that are skipped or taken whole: what proves it, and that no matching row is lost."""

from __future__ import annotations

import math
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from check import check, ids
from core_scan import open_table, scan
from tables import Table
from twostage.columns import project_names
from twostage.predicates.predicate import FALSE, And, Compare, CompareColumns, In, IsNull, Not, Or
from twostage.predicates.sql_filter import parse_filter
from twostage.table.metadata_columns import scan_schema


@pytest.fixture
def table(tmp_path: Path) -> Table:
    """Ten row groups of ten rows; `k` ascends, `s` has its own values in each, `mixed` ranges over all in each."""
    table = Table(tmp_path / "t", {"id": "long", "k": "int", "s": "string", "mixed": "string"})
    rows = ids(100, k=lambda i: i, s=lambda i: f"{i:03}", mixed=lambda i: f"{i % 10 * 10 + i // 10:03}")
    table.append(rows, row_group_size=10, bloom=("s", "mixed"), metrics="none")
    return table


def test_statistics(table: Table) -> None:
    result = check(table, range(30, 40), lambda c: And((Compare(">=", c("k"), 30), Compare("<", c("k"), 40))))
    assert result.count("row_groups.considered") == 10
    assert result.count("row_groups.pruned.statistics") == 9
    assert result.count("rows.pruned") == 90
    assert result.count("row_groups.read") == 1


def test_a_row_group_whose_rows_all_match_is_not_filtered(table: Table) -> None:
    result = check(table, range(35, 100), lambda c: Compare(">=", c("k"), 35))
    assert result.metrics.predicates["k >= 35"].rows_in == 10
    assert result.count("row_groups.read") == 7


@pytest.mark.parametrize(
    ("option", "reason"), [("prune.bloom", "dictionary"), ("prune.dictionary", "bloom"), ("", "bloom")]
)
def test_bloom_filters_and_dictionaries(table: Table, option: str, reason: str) -> None:
    """The bounds of `mixed` include the text in every row group; one holds it."""
    options = {option: "false"} if option else {}
    result = check(table, [35], lambda c: Compare("=", c("mixed"), "053"), **options)
    pruned = {name: result.count(f"row_groups.pruned.{name}") for name in ("bloom", "dictionary")}
    assert pruned[reason] == 9
    assert sum(pruned.values()) == 9


@pytest.mark.parametrize("where", ["035", "zzz"])
def test_nothing_is_pruned_with_the_switches_off(table: Table, where: str) -> None:
    off = dict.fromkeys(("prune.row-groups", "prune.files", "prune.pages"), "false")
    wanted = [int(where)] if where.isdigit() else []
    result = check(table, wanted, lambda c: Compare("=", c("s"), where), **off)
    assert result.count("row_groups.pruned.statistics") == result.count("rows.pruned") == 0
    assert result.metrics.predicates[f"s = '{where}'"].rows_in == 100
    everything = check(table, range(100), **off)
    assert not everything.metrics.predicates


def test_a_predicate_that_is_never_true_reads_nothing(table: Table) -> None:
    table.write()
    result = scan(open_table(table.folder, **{"prune.files": "false"}), predicate=FALSE)
    assert (result.rows, result.count("row_groups.read")) == ([], 0)


def test_dictionaries_that_prune_nothing_are_not_asked_for_ever(tmp_path: Path) -> None:
    table = Table(tmp_path / "t", {"id": "long", "s": "string"})
    rows = ids(400, s=lambda i: f"{i % 10}")
    table.append(rows, row_group_size=10, metrics="none")
    result = check(table, [i for i in range(400) if i % 10 == 7], lambda c: In(c("s"), ("7", "70")))
    (told,) = [text for text in result.metrics.choices if text.startswith("dictionaries no longer read")]
    assert "reads pruned too little" in told
    assert result.count("row_groups.pruned.dictionary") == 0


# ---- columns that the file does not hold


PARTITIONS: dict[str, Any] = {
    "int": 7,
    "string": "seven",
    "double": 7.5,
    "float": math.nan,
    "decimal(9,2)": Decimal("7.50"),
    "boolean": True,
    "binary": b"\x07",
}


@pytest.mark.parametrize("kind", PARTITIONS)
@pytest.mark.parametrize("prune", ["true", "false"])
def test_partition_values_are_bounds(tmp_path: Path, kind: str, prune: str) -> None:
    """With files not pruned, their row groups are: but by floats, whose NaN and -0.0 no bound tells."""
    value = PARTITIONS[kind]
    table = Table(tmp_path / "t", {"id": "long", "p": kind}, partition=["p"])
    table.append(ids(10, p=lambda _: value), absent=("p",))
    table.append([{"id": 10 + i, "p": None} for i in range(5)], absent=("p",))
    options = {"prune.files": "false", "prune.row-groups": prune}
    is_number = isinstance(value, float)
    hit = check(table, range(10), lambda c: Compare("=", c("p"), value), **options)
    assert hit.count("row_groups.pruned.statistics") == (prune == "true")
    nulls = check(table, range(10, 15), lambda c: IsNull(c("p")), **options)
    assert nulls.count("row_groups.pruned.statistics") == (prune == "true" and not is_number)
    both = check(table, range(15), lambda c: Or((IsNull(c("p")), Not(IsNull(c("p"))))), **options)
    assert both.count("row_groups.read") == 2


def test_computed_columns_have_bounds(tmp_path: Path) -> None:
    """Positions and row lineage follow from a row group's place: version 3 counts row ids through the files."""
    table = Table(tmp_path / "t", {"id": "long"}, version=3)
    for first in (0, 100):
        table.append(ids(100, id=lambda i, first=first: first + i), row_group_size=10)
    table.write()
    opened = open_table(table.folder, **{"prune.files": "false"})
    schema = scan_schema(opened.table)
    names = project_names(schema, ["id"])
    for text, wanted, pruned in (
        ("_pos = 25", [25, 125], 18),
        ("_pos >= 90", [*range(90, 100), *range(190, 200)], 18),
        ("_row_id = 125", [125], 19),
        ("_row_id < 0", [], 20),
        ("_row_id IS NULL", [], 20),
        ("_last_updated_sequence_number = 2 AND _pos = 3", [103], 19),
        ("_deleted", [], 20),
    ):
        result = scan(opened, names, parse_filter(text, schema))
        assert sorted(row[0][1] for row in result.rows) == wanted, text
        assert result.count("row_groups.pruned.statistics") == pruned, text


def test_lineage_is_null_before_version_three(tmp_path: Path) -> None:
    table = Table(tmp_path / "t", {"id": "long"}, version=2)
    table.append(ids(20), row_group_size=10)
    table.write()
    opened = open_table(table.folder, **{"prune.files": "false"})
    schema = scan_schema(opened.table)
    for text, rows, pruned in (("_row_id IS NULL", 20, 0), ("_row_id >= 0", 0, 2)):
        result = scan(opened, project_names(schema, ["id"]), parse_filter(text, schema))
        assert (len(result.rows), result.count("row_groups.pruned.statistics")) == (rows, pruned)


def test_columns_against_columns(table: Table) -> None:
    result = check(table, [], lambda c: CompareColumns("<", c("k"), c("k")), **{"prune.files": "false"})
    assert result.count("rows.filtered") + result.count("rows.pruned") == 100
