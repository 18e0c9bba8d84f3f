"""The one partition struct of a table of several specs: latest names, NULL where a spec lacks a field."""

from __future__ import annotations

from pathlib import Path

from core_scan import open_table, scan
from tables import Table
from twostage.columns import project_names
from twostage.table.metadata_columns import scan_schema
from twostage.table.partition_values import partition_type


def grown(folder: Path) -> Table:
    table = Table(folder, {"id": "long", "region": "string", "day": "date"}, partition=["region"])
    table.append([{"id": 1, "region": "eu", "day": 10}])
    table.partition_by(["bucket[4](id)", "day"])
    table.append([{"id": 2, "region": "us", "day": 11}])
    table.partition_by(["region", "day(day)"])
    table.append([{"id": 3, "region": None, "day": 12}])
    table.partition_by([])
    table.append([{"id": 4, "region": "eu", "day": 13}])
    table.write()
    return table


def test_a_field_of_any_spec_is_there(tmp_path: Path) -> None:
    opened = open_table(grown(tmp_path / "t").folder)
    struct = partition_type(opened.table.metadata)
    assert len({field.name for field in struct.fields}) == len(struct.fields)
    assert all(field.id < 0 for field in struct.fields)  # no column has such an id
    kinds = {str(field.type) for field in struct.fields}
    assert kinds == {"string", "int", "date"}
    schema = scan_schema(opened.table)
    rows = scan(opened, project_names(schema, ["id", "_partition"])).rows
    values = {}
    for (_, number), (_, partition) in rows:
        found = {
            field.name: None if value is None else value[1]
            for field, value in zip(struct.fields, partition, strict=True)
        }
        values[number] = {name: value for name, value in found.items() if value is not None}
    assert [sorted(map(str, values[number].values())) for number in (1, 2, 3, 4)] == [
        ["eu"],
        sorted(["11", str(next(v for v in values[2].values() if v != 11))]),
        ["12"],
        [],
    ]


def test_a_column_that_was_dropped_has_no_field(tmp_path: Path) -> None:
    table = Table(tmp_path / "t", {"id": "long", "region": "string"}, partition=["region"])
    table.append([{"id": 1, "region": "eu"}])
    table.partition_by([])
    table.drop_column("region")
    table.append([{"id": 2}])
    table.write()
    opened = open_table(table.folder)
    assert partition_type(opened.table.metadata).fields == ()
    assert len(scan(opened).rows) == 2
