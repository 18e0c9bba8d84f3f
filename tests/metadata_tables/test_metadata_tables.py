"""Metadata tables against the JSON and Avro files themselves, as json and fastavro read them."""

from __future__ import annotations

import json
from collections import defaultdict
from decimal import Decimal

import pytest
from grown_table import entries, grown_table, head, listed, micros, read

from tables import Table
from twostage.metadata_tables.human import human
from twostage.schema import Primitive
from twostage.table.manifest_entry import ManifestFile
from twostage.table.transforms import Transform
from variant_tables import variant_table


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


def test_variants_have_no_readable_metrics(tmp_path):
    """As in Iceberg, for which a variant is no primitive type."""
    variant_table(tmp_path, "parquet")
    assert [list(row["readable_metrics"]) for row in read(tmp_path, "data_files")] == [
        ["deep.in.m.key", "id"]
    ]


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
