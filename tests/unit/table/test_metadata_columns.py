"""Metadata columns against brute force: values, predicates, deleted rows, lineage, names."""

from __future__ import annotations

import pytest

import oracle
from core_scan import open_table, scan, with_options
from marked_rows import (
    DELETED,
    FILE,
    LAST_UPDATED,
    PARTITION,
    POSITION,
    ROW_ID,
    SPEC_ID,
    marked_rows,
    metadata_of,
)
from random_queries import random_query
from random_tables import random_table
from tables import FileOptions, Table
from twostage.catalog.load_table import load_table
from twostage.columns import project_names
from twostage.errors import OptionError
from twostage.options import parse_options
from twostage.predicates.predicate import TRUE, columns
from twostage.predicates.sql_filter import parse_filter
from twostage.schema import Schema, Struct
from twostage.table.metadata_columns import hidden_fields, scan_schema

NAMES = ["_file", "_pos", "_spec_id", "_partition", "_deleted", "_row_id", "_last_updated_sequence_number"]
WAYS = [{}, {"two-stage": "false"}, {"batch-size": "3"}, {"two-stage": "false", "batch-size": "3"}]


def grown_table(folder, version):
    """Three specs, deletes of every kind that the version has, row groups of four rows."""
    table = Table(folder, {"id": "long", "name": "string", "p": "int"}, version=version)
    options = FileOptions(row_group_size=4)

    def rows(first, count, p):
        return [{"id": n, "name": f"n{n % 3}", "p": p} for n in range(first, first + count)]

    old = table.append(rows(0, 10, 1), options)
    table.partition_by(["p"])
    middle = [table.append(rows(10, 6, 1), options), table.append(rows(20, 5, 2), options)]
    table.partition_by(["p", "bucket[2](id)"])
    table.append_all(rows(30, 4, 2), options)
    if version > 1:
        table.delete_equal(["name"], [{"name": "n1"}], like=middle[0])
        table.delete_equal(["id"], [{"id": 2}, {"id": 31}])
        table.append(rows(100, 3, 1)[:1], options)
        if version == 2:
            table.delete_positions({old: [0, 9], middle[1]: [4]})
        else:
            table.delete_vectors({old: [0, 9], middle[1]: [4]})
    return table, table.write()


def compare(opened, rows, schema, names, text):
    projection = project_names(schema, names)
    predicate = parse_filter(text, schema)
    shown = DELETED in {f.id for f in projection} | {c.field_id for c in columns(predicate)}
    kept = [row for row in rows if (shown or not row[DELETED]) and oracle.evaluate(predicate, row) is True]
    result = scan(opened, projection, predicate)
    assert not oracle.difference(result.rows, [oracle.project(row, projection) for row in kept]), text
    return result


@pytest.mark.parametrize("version", [1, 2, 3])
@pytest.mark.parametrize("way", WAYS, ids=str)
def test_values_and_predicates(tmp_path, version, way):
    table, path = grown_table(tmp_path, version)
    opened = with_options(open_table(tmp_path), way)
    schema, rows = scan_schema(opened.table), marked_rows(table.content(), metadata_of(path))
    assert version == 1 or 0 < sum(row[DELETED] for row in rows) < len(rows)
    some_file = rows[12][FILE]
    for text in (
        "true",
        "_deleted",
        "NOT _deleted",
        "_deleted OR id > 100",
        "_pos = 0",
        "_pos IN (3, 9) AND name = 'n0'",
        f"_file = '{some_file}'",
        f"_file = '{some_file}' AND _pos IN (1, 2)",
        "_file LIKE '%parquet' AND _spec_id = 2",
        "_spec_id <> 0",
        "_partition.p_identity_1000 = 1",
        "_partition.p_identity_1001 IS NULL",
        "_partition.id_bucket_1002 IN (0, 1) AND NOT _deleted",
        "_row_id BETWEEN 3 AND 12",
        "_row_id IS NULL",
        "NOT (_row_id > 4 AND _deleted)",
        "_last_updated_sequence_number > 2 OR id = 1",
    ):
        for names in ([*NAMES, "id"], ["id"], ["_pos", "name"], ["_deleted"], ["_partition.p_identity_1001"]):
            compare(opened, rows, schema, names, text)


@pytest.mark.parametrize("seed", range(25))
def test_random_tables(tmp_path, seed):
    table, pools = random_table(seed, tmp_path)
    content = table.content()
    newest = max(tmp_path.glob("metadata/v*.metadata.json"), key=lambda p: int(p.name[1:].split(".")[0]))
    rows = marked_rows(content, metadata_of(newest))
    opened = open_table(tmp_path)
    fields = [field for field in scan_schema(opened.table).fields if field.type != Struct(())]
    schema = Schema(schema_id=0, fields=tuple(fields))  # a struct without fields has none to pick
    pools = dict(pools)
    for field_id in (FILE, POSITION, SPEC_ID, ROW_ID, LAST_UPDATED):
        values = {row[field_id] for row in rows} - {None}
        pools[field_id] = sorted(values) or [7]
    for index in range(12):
        query = random_query(seed * 100 + index, schema, pools)
        way = WAYS[index % len(WAYS)]
        shown = DELETED in {f.id for f in query.projection} | {c.field_id for c in columns(query.predicate)}
        kept = [
            row
            for row in rows
            if (shown or not row[DELETED]) and oracle.evaluate(query.predicate, row) is True
        ]
        result = scan(with_options(opened, way), query.projection, query.predicate)
        problem = oracle.difference(result.rows, [oracle.project(row, query.projection) for row in kept])
        assert not problem, f"seed {seed} query {index} {way}: WHERE {query.predicate}: {problem}"


@pytest.mark.parametrize("file_format", ["orc", "avro"])
@pytest.mark.parametrize("way", WAYS, ids=str)
def test_other_formats(tmp_path, file_format, way):
    table = Table(tmp_path, {"id": "long"}, version=3)
    file = table.append([{"id": n} for n in range(30)], format=file_format)
    table.delete_vectors({file: [3, 29]})
    table.delete_equal(["id"], [{"id": 7}])
    path = table.write()
    opened = with_options(open_table(tmp_path), way)
    schema, rows = scan_schema(opened.table), marked_rows(table.content(), metadata_of(path))
    for text in ("true", "_pos IN (0, 7, 29)", "_deleted", "_row_id > 20 AND NOT _deleted"):
        compare(opened, rows, schema, ["_file", "_pos", "_row_id", "id"], text)


def test_files_and_row_groups_are_pruned(tmp_path):
    table, path = grown_table(tmp_path, 2)
    opened = open_table(tmp_path)
    schema, rows = scan_schema(opened.table), marked_rows(table.content(), metadata_of(path))
    files = len({row[FILE] for row in rows})
    one = compare(opened, rows, schema, ["id"], f"_file = '{rows[0][FILE]}'")
    assert (one.count("files.pruned"), one.count("files.read")) == (files - 1, 1)
    position = compare(opened, rows, schema, ["id"], f"_file = '{rows[0][FILE]}' AND _pos IN (5, 6)")
    assert position.count("row_groups.pruned.statistics") == 2
    assert position.count("row_groups.read") == 1
    assert compare(opened, rows, schema, ["id"], "_pos = 9").count("files.read") == 1
    assert compare(opened, rows, schema, ["id"], "_spec_id = 0").count("files.read") == 1
    by_partition = compare(opened, rows, schema, ["id"], "_partition.p_identity_1000 = 2")
    assert by_partition.count("files.read") == len({r[FILE] for r in rows if r[PARTITION][-1000] == 2})


def test_row_id_prunes_row_groups(tmp_path):
    table, path = grown_table(tmp_path, 3)
    opened = open_table(tmp_path)
    schema, rows = scan_schema(opened.table), marked_rows(table.content(), metadata_of(path))
    result = compare(opened, rows, schema, ["id"], "_row_id = 5")
    assert result.count("row_groups.read") == 1
    assert result.count("row_groups.pruned.statistics") > 3


def rewrite_with_lineage(path, ids, sequences):
    """Add the lineage columns to a data file, as a writer that moves rows does."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pq.ParquetFile(path).read()
    for name, field_id, values in (
        ("_row_id", ROW_ID, ids),
        ("_last_updated_sequence_number", LAST_UPDATED, sequences),
    ):
        field = pa.field(name, pa.int64(), metadata={"PARQUET:field_id": str(field_id)})
        table = table.append_column(field, pa.array(values, pa.int64()))
    pq.write_table(table, path, row_group_size=3)


@pytest.mark.parametrize("way", WAYS, ids=str)
def test_stored_lineage_stands_and_null_is_inherited(tmp_path, way):
    table = Table(tmp_path, {"id": "long"}, version=3)
    table.append([{"id": n} for n in range(4)])
    moved = table.append([{"id": n} for n in range(10, 16)])
    table.write()
    rewrite_with_lineage(moved.path, [0, None, 2, None, None, 900], [1, None, 1, 1, None, None])
    opened = with_options(open_table(tmp_path), way)
    schema = scan_schema(opened.table)
    expected = {n: (n, 1) for n in range(4)}
    expected |= {10: (0, 1), 11: (5, 2), 12: (2, 1), 13: (7, 1), 14: (8, 2), 15: (900, 2)}
    projection = project_names(schema, ["id", "_row_id", "_last_updated_sequence_number"])
    for text, test in (
        ("true", lambda r, s: True),
        ("_row_id = 5", lambda r, s: r == 5),
        ("_row_id = 7", lambda r, s: r == 7),
        ("_row_id IN (2, 900)", lambda r, s: r in (2, 900)),
        ("_row_id IS NULL", lambda r, s: False),
        ("NOT (_row_id < 7)", lambda r, s: r >= 7),
        ("_last_updated_sequence_number = 2", lambda r, s: s == 2),
        ("_last_updated_sequence_number IS NOT NULL AND _row_id > 3", lambda r, s: r > 3),
    ):
        found = scan(opened, projection, parse_filter(text, schema)).rows
        plain = sorted(tuple(value for _, value in row) for row in found)
        assert plain == sorted((n, r, s) for n, (r, s) in expected.items() if test(r, s)), text


def test_a_table_from_before_lineage_has_none(tmp_path):
    """A snapshot of version 2 in a table upgraded since: NULL, even if a file stores ids."""
    table = Table(tmp_path, {"id": "long"}, version=2)
    file = table.append([{"id": 1}, {"id": 2}])
    table.version = 3
    table.write()
    rewrite_with_lineage(file.path, [5, 6], [1, 1])
    opened = open_table(tmp_path)
    schema = scan_schema(opened.table)
    projection = project_names(schema, ["_row_id", "_last_updated_sequence_number"])
    assert scan(opened, projection).rows == [(None, None), (None, None)]
    assert scan(opened, projection, parse_filter("_row_id = 5", schema)).rows == []
    assert len(scan(opened, projection, parse_filter("_row_id IS NULL", schema)).rows) == 2


def test_a_column_of_the_same_name_wins(tmp_path):
    table = Table(tmp_path, {"_POS": "string", "_file": "long", "id": "long"})
    table.append([{"_POS": "mine", "_file": 5, "id": 1}])
    table.write()
    opened = open_table(tmp_path)
    hidden = {field.name for field in hidden_fields(opened.table)}
    assert hidden == set(NAMES) - {"_pos", "_file"}
    schema = scan_schema(opened.table)
    found = scan(
        opened, project_names(schema, ["_file", "_pos", "_spec_id"]), parse_filter("_file = 5", schema)
    )
    assert found.rows == [(("int", 5), ("str", "mine"), ("int", 0))]


def test_partition_ids_do_not_meet_column_ids(tmp_path):
    """A table with more than a thousand columns has column ids beyond 1000, as partition fields do."""
    wide = {f"c{n}": "int" for n in range(1005)}
    table = Table(tmp_path, wide, partition=["c3"])
    table.append([{"c3": 7, "c999": 1, "c1000": 2}])
    table.write()
    opened = open_table(tmp_path)
    schema = scan_schema(opened.table)
    projection = project_names(schema, ["c999", "c1000", "_partition"])
    found = scan(opened, projection, parse_filter("_partition.c3_identity_1000 = 7", schema)).rows
    assert found == [(("int", 1), ("int", 2), ("struct", (("int", 7),)))]


def partition_fields(folder):
    field = next(f for f in hidden_fields(open_table(folder).table) if f.name == "_partition")
    return [(part.name, str(part.type), part.required) for part in field.type.fields]


def test_partition_type_of_all_specs(tmp_path):
    columns = {"id": "int", "ts": "timestamptz", "d": "date", "s": "string", "n": "decimal(9,2)"}
    table = Table(tmp_path, columns, partition=["id", "day(ts)"])
    table.partition_by(["bucket[4](s)", "month(d)", "hour(ts)"])
    table.partition_by(["truncate[3](s)", "n", "year(d)"])
    table.write()
    assert partition_fields(tmp_path) == [
        ("id_identity_1000", "int", False),
        ("ts_day_1001", "date", False),
        ("s_bucket_1002", "int", False),
        ("d_month_1003", "int", False),
        ("ts_hour_1004", "int", False),
        ("s_truncate_1005", "string", False),
        ("n_identity_1006", "decimal(9,2)", False),
        ("d_year_1007", "int", False),
    ]


def edited(path, change):
    import json

    raw = json.loads(path.read_text())
    change(raw)
    path.write_text(json.dumps(raw))


def test_partition_type_of_odd_specs(tmp_path):
    """Iceberg's rules: latest name, void replaced by what it was, gone with its column; unknown left out."""
    table = Table(tmp_path, {"a": "int", "b": "string", "c": "long"}, partition=["a", "b"], version=1)
    table.append([{"a": 1, "b": "x", "c": 3}])
    path = table.write()

    def change(raw):
        def field(source, field_id, name, transform):
            return {"source-id": source, "field-id": field_id, "name": name, "transform": transform}

        raw["partition-specs"] += [
            {"spec-id": 1, "fields": [field(1, 1000, "a_1000", "void"), field(2, 1001, "bb", "identity")]},
            {
                "spec-id": 2,
                "fields": [
                    field(1, 1000, "a_1000", "void"),
                    field(3, 1002, "bb", "bucket[2]"),
                    field(3, 1003, "odd", "zorder"),
                    field(77, 1004, "gone", "identity"),
                ],
            },
        ]

    edited(path, change)
    assert partition_fields(tmp_path) == [
        ("a_1000", "int", False),
        ("bb_1001", "string", False),
        ("bb", "int", False),
    ]
    opened = open_table(tmp_path)
    found = scan(opened, project_names(scan_schema(opened.table), ["_partition"])).rows
    assert found == [(("struct", (("int", 1), ("str", "x"), None)),)]


def test_an_unpartitioned_table_has_no_partition(tmp_path):
    table = Table(tmp_path, {"id": "long"})
    table.append([{"id": 1}])
    table.write()
    opened = open_table(tmp_path)
    schema = scan_schema(opened.table)
    projection = project_names(schema, ["_partition"])
    assert scan(opened, projection).rows == [(None,)]
    assert scan(opened, projection, parse_filter("_partition IS NULL", schema)).rows == [(None,)]


@pytest.mark.parametrize("way", [{}, {"two-stage": "false"}], ids=str)
def test_deletes_by_a_dropped_column_are_marked(tmp_path, way):
    table = Table(tmp_path, {"id": "long", "k": "string"})
    table.append([{"id": n, "k": "ab"[n % 2]} for n in range(6)])
    table.delete_equal(["k"], [{"k": "b"}])
    table.drop_column("k")
    table.write()
    opened = with_options(open_table(tmp_path), way)
    schema = scan_schema(opened.table)
    found = scan(opened, project_names(schema, ["id", "_deleted"]), parse_filter("id > 1", schema)).rows
    assert sorted(found) == [(("int", n), ("bool", n % 2 == 1)) for n in range(2, 6)]


def test_columns_and_filter_options_know_them(tmp_path):
    from twostage.spark.source import chosen_fields, option_filter

    table = Table(tmp_path, {"id": "long"})
    table.append([{"id": 1}])
    table.write()
    options = parse_options({"path": str(tmp_path), "columns": "_file, id", "filter": "_pos = 0"})
    pinned = load_table(options)
    assert [field.name for field in chosen_fields(pinned, options)] == ["_file", "id"]
    assert str(option_filter(pinned, options)) == "_pos = 0"
    assert [field.name for field in chosen_fields(pinned, parse_options({"path": "/t"}))] == ["id"]
    assert option_filter(pinned, parse_options({"path": "/t"})) == TRUE
    with pytest.raises(OptionError, match="Did you mean '_file'"):
        chosen_fields(pinned, parse_options({"path": "/t", "columns": "_fil"}))
