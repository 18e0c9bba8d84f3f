"""The table partitions: sums over the manifests' entries, which fastavro reads."""

from __future__ import annotations

import json
from collections import defaultdict

import pytest

from grown_table import entries, grown_table, micros, read
from tables import Table


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


def test_the_last_update_is_the_newest_snapshots(tmp_path):
    """Whichever manifest is listed first."""
    table = Table(tmp_path, {"id": "long", "p": "int"}, partition=["p"])
    for number, partition in enumerate((1, 1, 2, 1)):
        table.append([{"id": number, "p": partition}])
    raw = json.loads(table.write().read_text())
    snapshots = [snapshot["snapshot-id"] for snapshot in raw["snapshots"]]
    found = {row["partition"]["p_identity_1000"]: row for row in read(tmp_path, "partitions")}
    assert {p: row["last_updated_snapshot_id"] for p, row in found.items()} == {
        1: snapshots[3],
        2: snapshots[2],
    }
    assert {p: row["file_count"] for p, row in found.items()} == {1: 3, 2: 1}
    raw["snapshots"][0]["timestamp-ms"] += 10**6  # a clock that was ahead: time decides, not the order
    path = tmp_path / "metadata" / "v99.metadata.json"
    path.write_text(json.dumps(raw))
    found = {row["partition"]["p_identity_1000"]: row for row in read(path, "partitions")}
    assert found[1]["last_updated_snapshot_id"] == snapshots[0]


def test_a_field_that_the_spec_lacks_is_not_a_null(tmp_path):
    """As in Iceberg 1.12, which compares how many of the fields the files' specs have, and the values."""
    table = Table(tmp_path, {"id": "long", "p": "int", "q": "int"}, partition=["p"])
    table.append([{"id": 0, "p": None, "q": 1}])
    table.append([{"id": 1, "p": 7, "q": 1}])
    table.partition_by([])
    table.append([{"id": 2, "p": None, "q": 1}])
    table.append([{"id": 3, "p": 7, "q": 1}])
    table.partition_by(["q"])
    table.append([{"id": 4, "p": 7, "q": None}])
    table.write()
    rows = read(tmp_path, "partitions")
    found = sorted((*map(str, row["partition"].values()), row["record_count"]) for row in rows)
    assert found == [("7", "None", 1), ("None", "None", 2), ("None", "None", 2)]
