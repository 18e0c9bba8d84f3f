"""Tables whose data files are ORC, Avro and Parquet: deletes, evolution and pruning are the same for all."""

from __future__ import annotations

import json
from dataclasses import replace
from decimal import Decimal

import pytest

from check import Columns, check, ids
from core_scan import open_table, scan
from indexed_tables import everything_pays
from tables import FileOptions, Table
from twostage.__main__ import main
from twostage.predicates.predicate import TRUE, Compare, In, IsNull

ALL = ("parquet", "orc", "avro")
FORMATS = pytest.mark.parametrize("file_format", ["orc", "avro"])
LAYOUT = FileOptions(row_group_size=10, mixed=True, compression="none")  # pyarrow packs 64 kB at once


def layout(file_format: str, **options: object) -> FileOptions:
    return replace(LAYOUT, format=file_format, **options)  # type: ignore[arg-type]


@FORMATS
@pytest.mark.parametrize("version", [2, 3])
def test_deletes_reach_every_file(file_format, version, tmp_path):
    table = Table(
        tmp_path, {"id": "long", "k": "string", "s": {"a": "int", "b": "timestamp"}}, version=version
    )
    rows = ids(60, k=lambda i: f"k{i % 7}", s=lambda i: {"a": i, "b": i * 10**15} if i % 3 else None)
    first = table.append(rows, layout(file_format))
    table.append([{**row, "id": row["id"] + 100} for row in rows], layout("parquet"))
    delete = table.delete_vectors if version == 3 else table.delete_positions
    delete({first: [0, 9, 10, 11, 35, 59]})
    alive = set(range(60)) - {0, 9, 10, 11, 35, 59} | set(range(100, 160))
    check(table, alive)
    table.delete_equal(["k"], [{"k": "k3"}])
    alive = {i for i in alive if i % 100 % 7 != 3}
    check(table, alive)
    table.delete_equal(["s.a"], [{"s": {"a": 40}}, {"s": {"a": None}}])
    alive = {i for i in alive if i % 100 % 3 and i % 100 != 40}
    check(table, alive)
    check(table, {i for i in alive if i % 100 > 50}, lambda c: Compare(">", c("s.a"), 50), select=["k"])
    check(table, {i for i in alive if i % 100 > 50}, lambda c: Compare(">", c("s.b"), 50 * 10**15), select=[])


def test_one_table_in_three_formats_through_evolution(tmp_path):
    table = Table(
        tmp_path, {"id": "long", "n": "int", "f": "float", "d": "decimal(9,2)", "day": "date"}, version=3
    )
    start = 0
    for file_format in ALL:
        rows = ids(20, n=lambda i: i, f=lambda i: i / 4, d=lambda i: i, day=lambda i: i)
        table.append([{**row, "id": row["id"] + start} for row in rows], layout(file_format))
        start += 20
    table.widen_column("n", "long")
    table.widen_column("f", "double")
    table.widen_column("d", "decimal(20,2)")
    table.rename_column("n", "number")
    table.add_column("extra", "int", default=7)
    table.drop_column("day")
    table.add_column("day", "string")
    for file_format in ALL:
        rows = ids(20, number=lambda i: 2**40 + i, f=lambda i: i / 3, d=lambda _: 10**17, extra=lambda i: i)
        table.append([{**row, "id": row["id"] + start} for row in rows], layout(file_format))
        start += 20
    check(table, range(120))
    check(table, [*range(5), *range(20, 25), *range(40, 45)], lambda c: Compare("<", c("number"), 5))
    check(table, range(60, 120), lambda c: Compare(">", c("d"), 10**10))
    check(table, [*range(60), 67, 87, 107], lambda c: In(c("extra"), (7,)))
    check(table, range(120), lambda c: IsNull(c("day")))


@FORMATS
def test_files_without_ids_take_them_from_the_name_mapping(file_format, tmp_path):
    table = Table(
        tmp_path,
        {"id": "long", "s": {"a": "int", "m": ("map", "string", "long")}, "l": [{"x": "int"}]},
        name_mapping=True,
    )
    rows = ids(30, s=lambda i: {"a": i, "m": {"k": i}}, l=lambda i: [{"x": i}, None])
    table.append(rows, layout(file_format, field_ids=False))
    table.rename_column("s.a", "b")
    check(table, range(30))
    check(table, range(25, 30), lambda c: Compare(">=", c("s.b"), 25))


def test_stripes_are_pruned_by_their_statistics(tmp_path):
    table = Table(
        tmp_path,
        {"id": "long", "t": "string", "ts": "timestamp", "d": "double", "s": {"dec": "decimal(20,3)"}},
    )
    rows = ids(
        100,
        t=lambda i: f"{i:03}" + "x" * 500,  # enough for a stripe each
        ts=lambda i: (i - 50) * 10**15,
        d=lambda i: i / 3,
        s=lambda i: {"dec": i},
    )
    table.append(rows, layout("orc", metrics="none", dictionary=False))
    for where in (
        lambda c: Compare("=", c("id"), 42),
        lambda c: Compare("=", c("t"), "042" + "x" * 500),
        lambda c: Compare("=", c("ts"), -8 * 10**15),
        lambda c: Compare("=", c("d"), 14.0),
        lambda c: Compare("=", c("s.dec"), Decimal(42)),
    ):
        result = check(table, [42], where)
        assert result.count("row_groups.pruned.statistics") == 9
        plain = check(table, [42], where, **{"prune.row_groups": "false"})
        assert plain.count("row_groups.pruned.statistics") == 0
    result = check(table, [], lambda c: IsNull(c("id")))
    assert result.count("row_groups.pruned.statistics") == 10


def test_a_time_just_before_1970_is_found_where_it_is_stored(tmp_path):
    """The stripe's statistics may say 1969 where its values are read a second later, and the other way round."""
    table = Table(tmp_path, {"id": "long", "ts": "timestamp"})
    table.append(ids(3, ts=[-1, -999_001, -1_000_001]), layout("orc", metrics="none", dictionary=False))
    check(table, [0], lambda c: Compare("=", c("ts"), -1))
    check(table, [1, 2], lambda c: Compare("<", c("ts"), -1))
    check(table, [0, 1, 2], lambda c: Compare("<", c("ts"), 0))


@pytest.mark.parametrize("file_format", ALL)
@pytest.mark.parametrize("is_own", [True, False], ids=["of the field", "of the struct"])
def test_defaults_of_structs_that_a_file_lacks(file_format, is_own, tmp_path):
    """Filters and equality deletes see them as the select columns do; once they took such a struct for NULL."""
    table = Table(tmp_path, {"id": "long"}, version=3)
    table.append(ids(2), layout(file_format))
    table.add_column("s", {"x": "int", "t": {"y": "string"}}, default={"x": 5, "t": {"y": "a"}})
    rows = [{"id": 2, "s": {"x": 5}}, {"id": 3, "s": {"x": 6, "t": {"y": "a"}}}, {"id": 4, "s": None}]
    table.append(rows, layout(file_format))

    def written():
        metadata = table.write()
        if is_own:
            found = json.loads(metadata.read_text())
            for schema in found["schemas"]:
                for field in schema["fields"]:
                    if field["name"] == "s":
                        x, t = field["type"]["fields"]
                        x["initial-default"], t["initial-default"] = 5, {}
                        t["type"]["fields"][0]["initial-default"] = "a"
                        field["initial-default"] = {}
            metadata.write_text(json.dumps(found))
        return open_table(metadata)

    def read(predicate):
        return sorted(row[0][1] for row in scan(opened, opened.table.schema.fields[:1], predicate).rows)

    opened = written()
    columns = Columns(opened.table.schema)
    assert read(Compare("=", columns("s.x"), 5)) == [0, 1, 2]
    assert read(IsNull(columns("s.x"))) == [4]
    assert read(Compare("=", columns("s.t.y"), "a")) == [0, 1, 3]
    assert read(Compare(">", columns("s.x"), 5)) == [3]
    assert main(["index", "create", str(table.folder), "--columns", "s.x", "--kind", "values,files"]) == 0
    with everything_pays():
        indexed = scan(opened, opened.table.schema.fields[:1], Compare("=", columns("s.x"), 6))
        assert indexed.metrics.counters["indexes.used"] == 1
        assert read(Compare("=", columns("s.x"), 5)) == [0, 1, 2]
        assert read(Compare("=", columns("s.x"), 6)) == [3]
        assert read(IsNull(columns("s.x"))) == [4]
    table.delete_equal(["s.x"], [{"s": {"x": 5}}])
    opened = written()
    assert read(TRUE) == [3, 4]


@pytest.mark.parametrize("file_format", ALL)
def test_keys_in_structs_that_were_dropped_since(file_format, tmp_path):
    """A field's default is not that of a struct which is NULL; and a struct that a file lacks has its own default."""

    def ids_of(table):
        opened = open_table(table.write())
        return {row[0][1] for row in scan(opened, opened.table.schema.fields[:1]).rows}

    table = Table(tmp_path / "null", {"id": "long", "s": {"y": "int"}}, version=3)
    table.append([{"id": 0, "s": None}, {"id": 1, "s": {"y": 1}}], layout(file_format))
    table.add_column("s.x", "int", default=5)
    table.append([{"id": 2, "s": {"y": 1, "x": 6}}, {"id": 3, "s": {"y": 2, "x": 5}}], layout(file_format))
    table.delete_equal(["s.x"], [{"s": {"x": 5}}])
    assert ids_of(table) == {0, 2}
    table.drop_column("s.x")
    assert ids_of(table) == {0, 2}

    table = Table(tmp_path / "absent", {"id": "long"}, version=3)
    table.append(ids(2), layout(file_format))
    table.add_column("s", {"x": "int", "y": "int"}, default={"x": 5, "y": 1})
    table.append(
        [{"id": 2, "s": {"x": 6}}, {"id": 3, "s": {"x": 5}}, {"id": 4, "s": None}], layout(file_format)
    )
    table.delete_equal(["s.x"], [{"s": {"x": 5}}])
    assert ids_of(table) == {2, 4}
    table.drop_column("s.x")
    assert ids_of(table) == {2, 4}
    table.drop_column("s")
    assert ids_of(table) == {2, 4}


@pytest.mark.parametrize("file_format", ALL)
def test_a_dropped_key_in_a_struct_is_found_by_its_whole_name(file_format, tmp_path):
    """In a delete file without field ids, which also has a column of the field's name."""
    table = Table(tmp_path, {"id": "long", "x": "int", "s": {"x": "int", "y": "int"}})
    table.append([{"id": n, "x": 7, "s": {"x": n % 2, "y": n}} for n in range(4)], layout(file_format))
    table.delete_equal(
        ["s.x"], [{"x": 7, "s": {"x": 1}}], file_format, extra=["x"], options=FileOptions(field_ids=False)
    )

    def ids_left():
        opened = open_table(table.write())
        return {row[0][1] for row in scan(opened, opened.table.schema.fields[:1]).rows}

    assert ids_left() == {0, 2}
    table.drop_column("s.x")
    assert ids_left() == {0, 2}
