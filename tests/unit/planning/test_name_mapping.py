"""The name mapping of imported files: what is no mapping is refused, and metrics of fields that it moved prove nothing."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from check import check, ids
from core_scan import open_table, scan
from tables import Table
from twostage.errors import CorruptFileError
from twostage.planning.name_mapping import parse_name_mapping
from twostage.predicates.predicate import Column, Compare, IsNull


def metadata(folder: Path, text: str | None) -> Any:
    table = Table(folder / "t", {"id": "long"})
    table.append(ids(1))
    table.write()
    found = open_table(table.folder).table.metadata
    properties = {} if text is None else {"schema.name-mapping.default": text}
    return replace(found, properties=properties)


def test_a_table_without_one(tmp_path: Path) -> None:
    assert parse_name_mapping(metadata(tmp_path, None)) is None
    assert parse_name_mapping(metadata(tmp_path / "empty", "[]")) == ()


@pytest.mark.parametrize("text", ["", "not JSON", "{}", "[1]", "null", "[" * 100_000, '"text"'], ids=range(7))
def test_what_is_no_mapping_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(
        CorruptFileError, match=r"CORRUPT_METADATA.*schema\.name-mapping\.default.*metadata\.json"
    ):
        parse_name_mapping(metadata(tmp_path, text))


def imported(folder: Path) -> Table:
    table = Table(folder, {"id": "long", "a": "int", "st": {"x": "int"}}, name_mapping=True)
    rows = ids(20, a=lambda i: i, st=lambda i: {"x": i})
    table.append(rows, field_ids=False, row_group_size=5)
    return table


def test_metrics_of_fields_that_kept_their_names_prune(tmp_path: Path) -> None:
    result = check(imported(tmp_path / "t"), [], lambda c: Compare(">", c("a"), 100))
    assert result.count("files.pruned.bounds") == 1


def test_a_renamed_column_whose_name_another_one_took(tmp_path: Path) -> None:
    """The mapping gives the old name to the new column: the file's values are that one's now."""
    table = imported(tmp_path / "t")
    table.rename_column("a", "old")
    table.add_column("a", "int")
    path = table.write()
    raw = json.loads(path.read_text())
    mapping = json.loads(raw["properties"]["schema.name-mapping.default"])
    for entry in mapping:  # as Iceberg hands the name over
        if "old" in entry["names"]:
            entry["names"] = ["old"]
        elif entry["names"] == ["a"]:
            newest = entry
    assert newest["field-id"] > 4
    raw["properties"]["schema.name-mapping.default"] = json.dumps(mapping)
    path.write_text(json.dumps(raw))
    opened = open_table(table.folder)
    schema = opened.table.schema

    def column(name: str) -> Column:
        field = schema.find((name,))
        assert field is not None
        return Column(field.id, (name,), field.type)

    for predicate, count in (
        (Compare(">", column("a"), 15), 4),
        (IsNull(column("old")), 20),
        (Compare(">=", column("old"), 0), 0),
        (IsNull(column("a")), 0),
    ):
        assert len(scan(opened, schema.fields, predicate).rows) == count, str(predicate)


def test_names_at_every_depth(tmp_path: Path) -> None:
    table = imported(tmp_path / "t")
    table.rename_column("st.x", "y")
    check(table, [7], lambda c: Compare("=", c("st.y"), 7))


@pytest.mark.parametrize(
    "entry", [5, {"names": "a"}, {"field-id": "1", "names": ["a"]}, {"fields": [7]}], ids=str
)
def test_entries_that_make_no_sense_move_no_rows(tmp_path: Path, entry: Any) -> None:
    """The table's files have ids: a mapping that is partly malformed may not change what is read."""
    table = Table(tmp_path / "t", {"id": "long", "a": "int"})
    table.append(ids(5, a=lambda i: i))
    path = table.write()
    raw = json.loads(path.read_text())
    mapping = [{"field-id": 1, "names": ["id"], "fields": [entry]}, {"field-id": 2, "names": ["a"]}]
    raw.setdefault("properties", {})["schema.name-mapping.default"] = json.dumps(mapping)
    path.write_text(json.dumps(raw))

    assert len(scan(open_table(table.folder)).rows) == 5
