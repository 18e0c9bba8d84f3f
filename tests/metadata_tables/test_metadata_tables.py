"""Metadata tables against the JSON and Avro files themselves, as json and fastavro read them."""

from __future__ import annotations

import json
import urllib.parse
from collections import defaultdict
from decimal import Decimal
from pathlib import Path

import fastavro
import pyarrow as pa
import pytest

from core_scan import open_table
from tables import FileOptions, Table
from twostage.columns import project_names, spark_schema
from twostage.errors import CorruptFileError, NotFoundError, OptionError
from twostage.metrics import Metrics
from twostage.options import parse_options
from twostage.planning.partition import Transform
from twostage.planning.plan import plan_scan
from twostage.predicates.predicate import TRUE
from twostage.reading.read import read_group
from twostage.schema import Primitive
from twostage.spark.source import option_filter
from twostage.table.catalog import load_table
from twostage.table.manifest import ManifestFile
from twostage.table.metadata_tables import METADATA_TABLES
from twostage.table.metadata_tables.human import human


def read(folder, name, columns=None, limit=None, **options):
    """The rows of a metadata table as dicts; maps too."""
    opened = open_table(f"{folder}#{name}", **options)
    projection = project_names(opened.table.schema, columns)
    predicate = option_filter(opened.table, opened.options)
    plan = plan_scan(
        opened.table,
        opened.options,
        projection=projection,
        predicate=predicate,
        hint=TRUE,
        limit=limit,
        parallelism=2,
        scan_id="test",
    )
    batches = [batch for group in plan.groups for batch in read_group(group, Metrics())]
    assert plan.estimated_rows == sum(batch.num_rows for batch in batches)
    return [_plain(row, pa.struct(list(batch.schema))) for batch in batches for row in batch.to_pylist()]


def _plain(value, kind):
    if value is None:
        return None
    if pa.types.is_map(kind):
        return dict(value)
    if pa.types.is_struct(kind):
        return {
            kind.field(i).name: _plain(value[kind.field(i).name], kind.field(i).type)
            for i in range(kind.num_fields)
        }
    return value


def micros(moment):
    return int(moment.timestamp() * 1_000_000 + 0.5)


def avro(written):
    with Path(urllib.parse.urlsplit(written).path).open("rb") as file:
        return list(fastavro.reader(file))


COLUMNS = {
    "id": "long",
    "p": "int",
    "name": "string",
    "price": "double",
    "amount": "decimal(9,2)",
    "s": {"x": "int", "y": "date"},
    "tags": ["string"],
}


def grown_table(folder, version):
    table = Table(folder, COLUMNS, version=version, partition=["p"])

    def rows(first, count, p):
        return [
            {
                "id": n,
                "p": p,
                "name": None if n % 4 == 0 else f"n{n}",
                "price": n / 2,
                "amount": Decimal(n).scaleb(-2),
                "s": {"x": n, "y": 19000 + n},
                "tags": ["a", "b"],
            }
            for n in range(first, first + count)
        ]

    first = table.append(rows(0, 6, 1))
    table.append(rows(10, 3, 2))
    table.tag("early")
    gone = table.append(rows(20, 2, 3))
    if version > 1:
        table.delete_equal(["id"], [{"id": 11}], like=first)
        if version == 2:
            table.delete_positions({first: [1, 2]})
        else:
            table.delete_vectors({first: [1, 2]})
    table.partition_by(["bucket[4](id)", "day(s.y)"])
    table.append(rows(30, 1, 4), FileOptions(format="avro", metrics="counts"))
    table.remove(gone)
    table.on("audit")
    table.append(rows(40, 1, 5))
    table.on("main")
    return table, json.loads(table.write().read_text())


def head(raw, snapshot_id=None):
    return next(
        s for s in raw["snapshots"] if s["snapshot-id"] == (snapshot_id or raw["current-snapshot-id"])
    )


def listed(raw, snapshot_id=None):
    return avro(head(raw, snapshot_id)["manifest-list"])


def entries(raw, snapshot_id=None):
    """Entries with what they inherit, deleted ones too, and their manifest."""
    found = []
    for manifest in listed(raw, snapshot_id):
        for entry in avro(manifest["manifest_path"]):
            inherited = entry["status"] == 1 and entry.get("sequence_number") is None
            entry["sequence_number"] = (
                manifest.get("sequence_number", 0) if inherited else entry.get("sequence_number") or 0
            )
            found.append((manifest, entry))
    return found


@pytest.mark.parametrize("version", [1, 2, 3])
def test_snapshots_history_refs(tmp_path, version):
    table, raw = grown_table(tmp_path, version)
    found = read(tmp_path, "snapshots")
    assert [
        (micros(r["committed_at"]), r["snapshot_id"], r["parent_id"], r["operation"], r["manifest_list"])
        for r in found
    ] == [
        (
            s["timestamp-ms"] * 1000,
            s["snapshot-id"],
            s.get("parent-snapshot-id"),
            "overwrite",
            s["manifest-list"],
        )
        for s in raw["snapshots"]
    ]
    main, current = set(), head(raw)
    while current:
        main.add(current["snapshot-id"])
        parent = current.get("parent-snapshot-id")
        current = head(raw, parent) if parent else None
    assert [
        (micros(r["made_current_at"]), r["snapshot_id"], r["is_current_ancestor"])
        for r in read(tmp_path, "history")
    ] == [(e["timestamp-ms"] * 1000, e["snapshot-id"], e["snapshot-id"] in main) for e in raw["snapshot-log"]]
    assert not all(e["snapshot-id"] in main for e in raw["snapshot-log"])
    refs = {r["name"]: (r["type"], r["snapshot_id"]) for r in read(tmp_path, "refs")}
    if version == 1:
        assert refs == {"main": ("BRANCH", raw["current-snapshot-id"])}
    else:
        assert refs == {n: (r["type"].upper(), r["snapshot-id"]) for n, r in raw["refs"].items()}
        assert set(refs) == {"main", "early", "audit"}


def test_what_refs_and_summaries_say(tmp_path):
    table, raw = grown_table(tmp_path, 2)
    raw["refs"]["early"] |= {"max-ref-age-ms": 5, "min-snapshots-to-keep": 6, "max-snapshot-age-ms": 7}
    raw["snapshots"][0]["summary"] = {"operation": "append", "added-records": "6"}
    del raw["snapshots"][1]["summary"]
    raw["metadata-log"] = [{"timestamp-ms": raw["snapshots"][0]["timestamp-ms"], "metadata-file": "/x.json"}]
    path = tmp_path / "metadata" / "v99.metadata.json"
    path.write_text(json.dumps(raw))
    early = next(r for r in read(path, "refs") if r["name"] == "early")
    assert list(early.values())[3:] == [5, 6, 7]
    first, second = read(path, "snapshots")[:2]
    assert (first["operation"], first["summary"]) == ("append", {"added-records": "6"})
    assert (second["operation"], second["summary"]) == (None, None)
    log = read(path, "metadata_log_entries")
    assert [r["file"] for r in log] == ["/x.json", str(path)]
    assert log[0]["latest_snapshot_id"] == raw["snapshots"][0]["snapshot-id"]
    assert log[0]["latest_sequence_number"] == 1


@pytest.mark.parametrize("version", [1, 2, 3])
def test_entries_and_files(tmp_path, version):
    table, raw = grown_table(tmp_path, version)
    expected = entries(raw)
    assert {entry["status"] for _, entry in expected} >= {1, 2}
    found = {
        (
            r["data_file"]["file_path"],
            r["status"],
            r["data_file"]["content"],
            r["data_file"]["content_offset"],
        ): r
        for r in read(tmp_path, "entries")
    }
    assert len(found) == len(expected)
    specs = {s["spec-id"]: s for s in raw["partition-specs"]}
    live = {}
    for manifest, entry in expected:
        file = entry["data_file"]
        row = found[(file["file_path"], entry["status"], file.get("content", 0), file.get("content_offset"))]
        assert row["snapshot_id"] == entry["snapshot_id"]
        assert row["sequence_number"] == entry["sequence_number"]
        told = row["data_file"]
        assert told["file_format"] == file["file_format"]
        assert told["spec_id"] == manifest["partition_spec_id"]
        fields = specs[told["spec_id"]]["fields"]
        own = {f["name"]: file["partition"][f["name"]] for f in fields}
        assert told["partition"] == {name: own.get(name) for name in told["partition"]}
        for name in (
            "record_count",
            "file_size_in_bytes",
            "equality_ids",
            "content_offset",
            "content_size_in_bytes",
            "referenced_data_file",
        ):
            assert told[name] == file.get(name), name
        for name in ("value_counts", "null_value_counts", "nan_value_counts", "lower_bounds", "upper_bounds"):
            maps = None if file[name] is None else {pair["key"]: pair["value"] for pair in file[name]}
            assert told[name] == maps, name
        if entry["status"] != 2:
            live[file["file_path"], file.get("content_offset")] = told, row["readable_metrics"]
    for name, contents in (("files", (0, 1, 2)), ("data_files", (0,)), ("delete_files", (1, 2))):
        rows = read(tmp_path, name)
        wanted = [(told, metrics) for told, metrics in live.values() if told["content"] in contents]
        assert len(rows) == len(wanted)
        for row in rows:
            told, metrics = live[row["file_path"], row["content_offset"]]
            assert row == {**told, "readable_metrics": metrics}
    assert version == 1 or len(read(tmp_path, "delete_files")) == 2


def test_readable_metrics(tmp_path):
    import datetime

    grown_table(tmp_path, 2)
    first = next(
        r for r in read(tmp_path, "files") if r["partition"]["p_identity_1000"] == 1 and r["content"] == 0
    )
    metrics = first["readable_metrics"]
    assert list(metrics) == ["amount", "id", "name", "p", "price", "s.x", "s.y", "tags.element"]
    assert list(metrics["id"]) == [
        "column_size",
        "value_count",
        "null_value_count",
        "nan_value_count",
        "lower_bound",
        "upper_bound",
    ]
    assert list(metrics["id"].values()) == [None, 6, 0, None, 0, 5]
    assert list(metrics["name"].values())[1:] == [6, 2, None, "n1", "n5"]
    assert list(metrics["price"].values())[1:] == [6, 0, 0, 0.0, 2.5]
    assert metrics["amount"]["upper_bound"] == Decimal("0.05")
    assert metrics["s.y"]["lower_bound"] == datetime.date(1970, 1, 1) + datetime.timedelta(19000)
    assert metrics["tags.element"]["lower_bound"] is None


@pytest.mark.parametrize("version", [1, 2, 3])
def test_manifests(tmp_path, version):
    table, raw = grown_table(tmp_path, version)
    found = {r["path"]: r for r in read(tmp_path, "manifests")}
    expected = listed(raw)
    assert len(found) == len(expected)
    for manifest in expected:
        row = found[manifest["manifest_path"]]
        content = manifest.get("content", 0)
        assert (row["content"], row["length"]) == (content, manifest["manifest_length"])
        assert row["partition_spec_id"] == manifest["partition_spec_id"]
        assert row["added_snapshot_id"] == manifest["added_snapshot_id"]
        for status in ("added", "existing", "deleted"):
            name = f"{status}_data_files_count" if version == 1 else f"{status}_files_count"
            counts = row[f"{status}_data_files_count"], row[f"{status}_delete_files_count"]
            assert counts == ((manifest[name], 0) if content == 0 else (0, manifest[name]))
        told = [(s["contains_null"], s["contains_nan"]) for s in row["partition_summaries"]]
        assert told == [(s["contains_null"], s["contains_nan"]) for s in manifest["partitions"]]
    bounds = {
        tuple((s["lower_bound"], s["upper_bound"]) for s in row["partition_summaries"])
        for row in found.values()
    }
    assert (("1", "1"),) in bounds
    assert any(len(pair) == 2 and pair[1][0] == "2022-02-07" for pair in bounds)


def test_counts_that_version_1_leaves_out(tmp_path):
    """A snapshot of version 1 may list its manifests without a manifest list: nothing is known of them."""
    table = Table(tmp_path, {"id": "long"}, version=1)
    table.append([{"id": 1}])
    gone = table.append([{"id": 2}])
    table.remove(gone)
    path = table.write()
    raw = json.loads(path.read_text())
    manifests = [m["manifest_path"] for m in listed(raw)]
    head(raw)["manifests"] = manifests
    del head(raw)["manifest-list"]
    path.write_text(json.dumps(raw))
    assert [
        (r["path"], r["partition_spec_id"], r["added_data_files_count"], r["deleted_data_files_count"])
        for r in read(tmp_path, "manifests")
    ] == [(manifests[0], 0, 1, 0), (manifests[1], 0, 0, 1)]
    assert len(read(tmp_path, "entries")) == 2
    assert len(read(tmp_path, "files")) == 1


@pytest.mark.parametrize("version", [1, 2, 3])
def test_partitions(tmp_path, version):
    table, raw = grown_table(tmp_path, version)
    names = [field["name"] for spec in raw["partition-specs"] for field in spec["fields"]]
    times = {s["snapshot-id"]: s["timestamp-ms"] for s in raw["snapshots"]}
    expected = defaultdict(lambda: [0] * 7 + [0, None])
    for _, entry in entries(raw):
        if entry["status"] == 2:
            continue
        file = entry["data_file"]
        counts = expected[tuple(file["partition"].get(name) for name in names)]
        place = {0: 0, 1: 3, 2: 5}[file.get("content", 0)]
        counts[place] += file["record_count"]
        counts[place + 1] += 1
        if place == 0:
            counts[2] += file["file_size_in_bytes"]
        counts[7:] = max(counts[7:], [times[entry["snapshot_id"]] * 1000, entry["snapshot_id"]])
    found = {tuple(row.pop("partition").values()): row for row in read(tmp_path, "partitions")}
    assert set(found) == set(expected)
    for key, counts in expected.items():
        row = found[key]
        assert row.pop("spec_id") == (0 if key[0] is not None else 1)
        row["last_updated_at"] = micros(row["last_updated_at"])
        assert list(row.values()) == counts


def test_an_unpartitioned_table(tmp_path):
    table = Table(tmp_path, {"id": "long"})
    table.append([{"id": 1}])
    table.append([{"id": 2}, {"id": 3}])
    table.write()
    (row,) = read(tmp_path, "partitions")
    assert "partition" not in row
    assert "spec_id" not in row
    assert (row["record_count"], row["file_count"]) == (3, 2)
    assert "partition" not in read(tmp_path, "files")[0]
    assert read(tmp_path, "manifests")[0]["partition_summaries"] == []


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
    from twostage.table.metadata_tables import table as module

    grown_table(tmp_path, 2)
    whole = read(tmp_path, "files")
    monkeypatch.setattr(module, "ITEMS_AT_ONCE", 2)
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


@pytest.mark.parametrize(
    ("transform", "kind", "value", "text"),
    [
        ("identity", "int", -5, "-5"),
        ("identity", "string", "a b", "a b"),
        ("identity", "boolean", True, "true"),
        ("identity", "date", 0, "1970-01-01"),
        ("identity", "date", -719162, "0001-01-01"),
        ("identity", "date", 3_000_000, "3000000"),
        ("identity", "timestamp", 1_512_123_175_038_194, "2017-12-01T10:12:55.038194"),
        ("identity", "timestamptz", 1_512_123_120_000_000, "2017-12-01T10:12Z"),
        ("identity", "timestamptz", -1_000, "1969-12-31T23:59:59.999Z"),
        ("identity", "time", 3_600_000_000, "01:00"),
        ("identity", "binary", b"\x01\x02", "AQI="),
        ("identity", "decimal(38,2)", Decimal("100000000000000000000.50"), "100000000000000000000.50"),
        ("bucket[4]", "int", 3, "3"),
        ("truncate[2]", "string", "ab", "ab"),
        ("year", "int", 0, "1970"),
        ("month", "int", -1, "1969-12"),
        ("month", "int", 648, "2024-01"),
        ("day", "int", 19_000, "2022-01-08"),
        ("hour", "int", -1, "1969-12-31-23"),
    ],
)
def test_human_partition_values(transform, kind, value, text):
    name, _, rest = kind.partition("(")
    primitive = Primitive(name, precision=38, scale=2) if rest else Primitive(name)
    assert human(Transform.parse(transform), primitive, value) == text


def test_live_files_of_a_manifest():
    assert ManifestFile(path="/m", spec_id=0, added_files=2, existing_files=3).num_live_files == 5
    assert ManifestFile(path="/m", spec_id=0, added_files=2).num_live_files is None
