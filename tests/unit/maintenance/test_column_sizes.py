"""What columns take, by manifests: PyIceberg's own, against what the files' footers say."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest
from pyiceberg.catalog.memory import InMemoryCatalog

from tables import Table
from twostage.__main__ import main
from twostage.catalog.load_table import load_table
from twostage.maintenance.column_sizes import column_sizes, total_size
from twostage.options import parse_options

ROWS = pa.table(
    {
        "id": pa.array(range(5_000), pa.int64()),
        "tags": pa.array([["a", str(row)] for row in range(5_000)], pa.list_(pa.string())),
        "s": pa.array([{"x": row % 7} for row in range(5_000)], pa.struct({"x": pa.int32()})),
    }
)


@pytest.fixture
def written(tmp_path):
    """Write a table of two data files by PyIceberg."""
    catalog = InMemoryCatalog("c", warehouse=f"file://{tmp_path / 'w'}")
    catalog.create_namespace("db")
    table = catalog.create_table("db.t", ROWS.schema)
    table.append(ROWS)
    table.append(ROWS.slice(0, 1_000))
    return table


def stored(table, name):
    """Return the bytes of a column's chunks, by the footers."""
    chunks = [
        footer.row_group(group).column(place)
        for path in table.inspect.data_files()["file_path"].to_pylist()
        for footer in [parquet.read_metadata(path.removeprefix("file://"))]
        for group in range(footer.num_row_groups)
        for place in range(footer.num_columns)
    ]
    return sum(one.total_compressed_size for one in chunks if one.path_in_schema.split(".")[0] == name)


def test_they_are_what_the_footers_say(written):
    pinned = load_table(parse_options({"path": written.metadata_location}))
    ids = {field.name: field.id for field in pinned.schema.fields}
    sizes = column_sizes(pinned, ids.values())
    assert {name: sizes[i] for name, i in ids.items()} == {name: stored(written, name) for name in ids}


def test_what_a_writer_did_not_note_is_left_out(tmp_path):
    table = Table(tmp_path / "t", {"id": "long", "k": "long"})
    table.append([{"id": 1, "k": 2}])
    table.write()
    pinned = load_table(parse_options({"path": str(table.folder)}))
    assert column_sizes(pinned, [field.id for field in pinned.schema.fields]) == {}


def test_a_dropped_column_has_none_and_its_index_is_listed(written, tmp_path, capsys):
    place = ["--option", f"index.location={tmp_path / 'indexes'}"]
    assert (
        main(["index", "create", written.metadata_location, "--columns", "id", "--kind", "postings", *place])
        == 0
    )
    with written.update_schema(allow_incompatible_changes=True) as change:
        change.delete_column("id")
    pinned = load_table(parse_options({"path": written.metadata_location}))
    assert column_sizes(pinned, [1]) == {}
    capsys.readouterr()
    assert main(["index", "list", written.metadata_location, *place]) == 0
    assert "field 1, dropped (postings): 2 of 2 data files, " in capsys.readouterr().err


def test_without_kept_manifests_it_is_the_same(written):
    pinned = load_table(parse_options({"path": written.metadata_location}))
    ids = [field.id for field in pinned.schema.fields]
    assert column_sizes(pinned, ids, keep=False) == column_sizes(pinned, ids)


def test_a_table_without_rows_takes_nothing(tmp_path):
    table = Table(tmp_path / "t", {"id": "long"})
    table.write()
    pinned = load_table(parse_options({"path": str(table.folder)}))
    (field,) = pinned.schema.fields
    assert column_sizes(pinned, [field.id]) == {field.id: 0}


def test_the_list_says_the_share_of_the_column_and_uses(written, tmp_path, capsys):
    place = ["--option", f"index.location={tmp_path / 'indexes'}"]
    for column, kind in (("id", "postings"), ("tags", "elements")):
        arguments = ["--columns", column, "--kind", kind, *place]
        assert main(["index", "create", written.metadata_location, *arguments]) == 0
    line = {
        "v": 1, "time": "2026-11-23T12:00:00Z", "scan": "s", "table": "lake.db.t", "reader": "twostage",
        "predicate": {"op": "=", "columns": ["id"], "values": [7], "count": 1, "type": "long", "text": "id = 7"},
    }  # fmt: skip
    counters: list[dict[str, int]] = [{}, {"indexes.used": 1}, {"files.pruned.index": 2}]
    lines = [json.dumps({**line, "counters": one}) for one in counters]
    (tmp_path / "log").mkdir()
    (tmp_path / "log" / "scans-1.jsonl").write_text("\n".join(lines) + "\n")
    capsys.readouterr()
    log = ["--log", str(tmp_path / "log"), "--name", "lake.db.t"]
    assert main(["index", "list", written.metadata_location, *place, *log]) == 0
    first, second = sorted(capsys.readouterr().err.strip().splitlines())
    nbytes = sum(path.stat().st_size for path in Path(tmp_path / "indexes").rglob("*.puffin"))
    assert nbytes
    assert first.startswith("id (postings): 2 of 2 data files, ")
    assert "% of the table's and " in first
    assert first.endswith("; used by 2 of 3 logged scans that ask for id")
    assert second.startswith("tags (elements): 2 of 2 data files, ")
    assert "% of the column's" in second
    assert "used by" not in second


def test_one_size_that_is_not_known_leaves_the_total_open():
    assert total_size({1: 30, 2: 12}, [1, 2]) == 42
    assert total_size({1: 30, 2: 12}, [2]) == 12
    assert total_size({1: 30}, [1, 2]) is None
