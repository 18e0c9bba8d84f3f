"""How metadata tables are read: by which names, of which snapshot, which columns and rows, in how many tasks."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from core_scan import open_table
from grown_table import avro, entries, grown_table, listed, read
from tables import Table
from twostage.catalog.load_table import load_table
from twostage.columns import spark_schema
from twostage.errors import CorruptFileError, NotFoundError, OptionError
from twostage.metadata_tables import METADATA_TABLES
from twostage.metrics import Metrics
from twostage.options import parse_options
from twostage.planning.plan import plan_scan
from twostage.predicates.predicate import TRUE
from twostage.reading.pipeline import read_group


@pytest.mark.parametrize("name", METADATA_TABLES)
def test_an_empty_table(tmp_path, name):
    Table(tmp_path, {"id": "long", "p": "int"}, partition=["p"]).write()
    assert len(read(tmp_path, name)) == (name == "metadata_log_entries")


def test_all_tables_show_every_snapshot(tmp_path):
    table, raw = grown_table(tmp_path, 2)
    manifests = {m["manifest_path"]: m for s in raw["snapshots"] for m in listed(raw, s["snapshot-id"])}
    every = [entry for path in manifests for entry in avro(path)]
    assert len(read(tmp_path, "all_entries")) == len(every) > len(read(tmp_path, "entries"))
    assert len(read(tmp_path, "all_files")) == sum(e["status"] != 2 for e in every)
    data = len(read(tmp_path, "all_data_files"))
    assert data + len(read(tmp_path, "all_delete_files")) == len(read(tmp_path, "all_files"))
    references = [
        (s["snapshot-id"], m["manifest_path"])
        for s in raw["snapshots"]
        for m in listed(raw, s["snapshot-id"])
    ]
    rows = read(tmp_path, "all_manifests")
    assert [(r["reference_snapshot_id"], r["path"]) for r in rows] == references


def test_time_travel(tmp_path):
    table, raw = grown_table(tmp_path, 2)
    early = raw["refs"]["early"]["snapshot-id"]
    paths = {e["data_file"]["file_path"] for _, e in entries(raw, early)}
    for option in ({"tag": "early"}, {"snapshot_id": str(early)}, {"versionAsOf": "early"}):
        assert {r["file_path"] for r in read(tmp_path, "files", **option)} == paths
        assert len(read(tmp_path, "manifests", **option)) == len(listed(raw, early))
        assert len(read(tmp_path, "partitions", **option)) == 2
    audit = {r["file_path"] for r in read(tmp_path, "data_files", branch="audit")}
    assert len(audit) == len(read(tmp_path, "data_files")) + 1
    for name in set(METADATA_TABLES) - {
        "files",
        "data_files",
        "delete_files",
        "entries",
        "manifests",
        "partitions",
    }:
        with pytest.raises(OptionError, match="NO_TIME_TRAVEL"):
            read(tmp_path, name, tag="early")


def test_columns_filter_and_limit(tmp_path):
    grown_table(tmp_path, 2)
    rows = read(tmp_path, "files")
    assert read(tmp_path, "files", ["record_count", "file_path"]) == [
        {"record_count": r["record_count"], "file_path": r["file_path"]} for r in rows
    ]
    nested = read(tmp_path, "entries", ["data_file.record_count", "readable_metrics.id.upper_bound"])
    assert nested == [
        {
            "data_file": {"record_count": r["data_file"]["record_count"]},
            "readable_metrics": {"id": {"upper_bound": r["readable_metrics"]["id"]["upper_bound"]}},
        }
        for r in read(tmp_path, "entries")
    ]
    assert [r["file_path"] for r in read(tmp_path, "files", filter="content = 0 AND record_count > 2")] == [
        r["file_path"] for r in rows if r["content"] == 0 and r["record_count"] > 2
    ]
    found = read(tmp_path, "files", ["file_path"], filter="readable_metrics.id.lower_bound >= 10")
    assert found == [
        {"file_path": r["file_path"]} for r in rows if (r["readable_metrics"]["id"]["lower_bound"] or 0) >= 10
    ]
    assert 0 < len(found) < len(rows)
    assert len(read(tmp_path, "files", limit=2)) == 2
    opened = open_table(f"{tmp_path}#files")
    plan = plan_scan(
        opened.table,
        opened.options,
        projection=(),
        predicate=TRUE,
        hint=TRUE,
        limit=None,
        parallelism=1,
        scan_id="x",
    )
    counted = [batch.num_rows for group in plan.groups for batch in read_group(group, Metrics())]
    assert sum(counted) == len(rows)


def test_a_large_table_takes_several_tasks(tmp_path, monkeypatch):
    from twostage.metadata_tables import table as module

    grown_table(tmp_path, 2)
    whole = read(tmp_path, "files")
    monkeypatch.setattr(module, "ITEMS_PER_TASK", 2)
    assert read(tmp_path, "files") == whole
    assert read(tmp_path, "files", filter="content = 0") == [r for r in whole if r["content"] == 0]


def test_names(tmp_path):
    table, _ = grown_table(tmp_path / "db" / "events", 2)
    (tmp_path / "db" / "files").mkdir()
    Table(tmp_path / "db" / "files", {"mine": "long"}).write()
    catalog = {"catalog.type": "hadoop", "catalog.warehouse": str(tmp_path)}

    def load(path, **options):
        return load_table(parse_options({"path": path, **catalog, **options}))

    for name in METADATA_TABLES:
        by_name = load(f"lake.db.events.{name}")
        assert (by_name.metadata_table, by_name.name) == (name, f"lake.db.events.{name}")
        by_option = load("lake.db.events", **{"metadata-table": name.upper()})
        by_path = load(f"{tmp_path}/db/events#{name}")
        schemas = {json.dumps(spark_schema(t.schema.fields)) for t in (by_name, by_option, by_path)}
        assert len(schemas) == 1
    assert load("lake.db.files").metadata_table is None
    assert load("lake.db.files.files").metadata_table == "files"
    with pytest.raises(NotFoundError, match=r"no such table: db\.nope\.files"):
        load("lake.db.nope.files")
    with pytest.raises(NotFoundError, match=r"'#' is for paths; here it is lake\.db\.events\.files"):
        load("lake.db.events#files")
    with pytest.raises(OptionError, match="Did you mean 'snapshots'"):
        load("lake.db.events", **{"metadata-table": "snapshot"})
    with pytest.raises(OptionError, match="CONFLICTING_OPTIONS"):
        load("lake.db.events.files", **{"metadata-table": "files"})
    with pytest.raises(NotFoundError):
        load("lake.db.events.nothing")


def test_a_damaged_manifest_is_an_error(tmp_path):
    _, raw = grown_table(tmp_path, 2)
    path = Path(listed(raw)[0]["manifest_path"])
    path.write_bytes(path.read_bytes()[:-7])
    for name in ("files", "entries", "partitions"):
        with pytest.raises(CorruptFileError, match="CORRUPT_MANIFEST"):
            read(tmp_path, name)
    assert read(tmp_path, "manifests")
