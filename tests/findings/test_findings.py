"""The twelve findings about Iceberg-Spark: the core gives the right rows, whatever is projected or pruned."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import oracle
from core_scan import open_table, scan
from finding_tables import FINDINGS, Finding, FindingQuery
from twostage.spark.source import chosen_fields, option_filter

if TYPE_CHECKING:
    from pathlib import Path

EACH = [
    pytest.param(finding, asked, id=f"{finding}-{number}")
    for finding in FINDINGS
    for number, asked in enumerate(finding.asked)
    if not asked.only_spark
]


def test_all_twelve_are_here() -> None:
    assert sorted({finding.number for finding in FINDINGS}) == list(range(1, 13))


@pytest.mark.parametrize(("finding", "asked"), EACH)
@pytest.mark.parametrize("pruned", [True, False], ids=["pruned", "not pruned"])
def test(finding: Finding, asked: FindingQuery, pruned: bool, tmp_path: Path) -> None:
    table = finding.build(tmp_path)
    table.write()
    first = str(table.snapshots[0].id)
    options = {key.replace("-", "_"): text.replace("@first", first) for key, text in asked.options.items()}
    if not pruned:
        options |= {"prune.files": "false", "prune.row_groups": "false", "prune.deletes": "false"}
    opened = open_table(tmp_path, filter=asked.where, columns=", ".join(asked.columns), **options)
    predicate = option_filter(opened.table, opened.options)
    result = scan(opened, chosen_fields(opened.table, opened.options), predicate)
    wanted = [
        tuple(oracle.exact(value) if value is not None else None for value in row) for row in asked.right
    ]
    assert not (problem := oracle.difference(result.rows, wanted)), problem


@pytest.mark.parametrize("selected", [("id",), ("id", "st"), ()], ids=["id", "struct", "no column"])
def test_finding_01_whatever_is_projected(selected: tuple[str, ...], tmp_path: Path) -> None:
    FINDINGS[0].build(tmp_path).write()
    opened = open_table(tmp_path)
    fields = tuple(field for field in opened.table.schema.fields if field.name in selected)
    assert len(scan(opened, fields).rows) == 4
