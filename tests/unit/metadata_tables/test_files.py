"""The tables about files: entries and files, against the manifests as fastavro reads them."""

from __future__ import annotations

from decimal import Decimal

import pytest

from grown_table import entries, grown_table, read
from tables import Table
from variant_tables import variant_table


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
def test_of_all_snapshots_each_manifest_is_read_once(tmp_path, version):
    table, raw = grown_table(tmp_path, version)
    manifests = {}
    for snapshot in raw["snapshots"]:
        for manifest, entry in entries(raw, snapshot["snapshot-id"]):
            manifests.setdefault((snapshot["snapshot-id"], manifest["manifest_path"]), []).append(entry)
    once = {path: found for (_, path), found in manifests.items()}
    expected = [entry for found in once.values() for entry in found]

    def keys(found):
        return sorted((entry["status"], entry["data_file"]["file_path"]) for entry in found)

    assert keys(read(tmp_path, "all_entries")) == keys(expected)
    assert len(expected) > len(entries(raw))
    for name, contents in (("all_files", (0, 1, 2)), ("all_data_files", (0,)), ("all_delete_files", (1, 2))):
        files = [entry["data_file"] for entry in expected if entry["status"] != 2]
        wanted = sorted(file["file_path"] for file in files if file.get("content", 0) in contents)
        assert sorted(row["file_path"] for row in read(tmp_path, name)) == wanted, name


def test_bounds_of_types_that_spark_has_not_stay_bytes(tmp_path):
    table = Table(tmp_path, {"at": "timestamp_ns", "id": "long"}, version=3)
    table.append([{"at": 5_000_000_001, "id": 7}])
    table.write()
    (row,) = read(tmp_path, "files")
    assert row["readable_metrics"]["at"]["lower_bound"] == (5_000_000_001).to_bytes(8, "little")
    assert row["readable_metrics"]["id"]["lower_bound"] == 7
