"""The table manifests, against the manifest list as fastavro reads it."""

from __future__ import annotations

import json

import pytest

from grown_table import grown_table, head, listed, read
from tables import Table


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


@pytest.mark.parametrize("version", [1, 2])
def test_all_manifests_are_those_of_each_snapshot(tmp_path, version):
    table, raw = grown_table(tmp_path, version)
    expected = sorted(
        (snapshot["snapshot-id"], manifest["manifest_path"])
        for snapshot in raw["snapshots"]
        for manifest in listed(raw, snapshot["snapshot-id"])
    )
    found = read(tmp_path, "all_manifests")
    assert sorted((row["reference_snapshot_id"], row["path"]) for row in found) == expected
    assert {row["key_metadata"] for row in found} == {None}


def test_a_partition_of_null_has_no_bounds(tmp_path):
    """Iceberg shows them as the text ``null``."""
    table = Table(tmp_path, {"id": "long", "p": "int"}, partition=["p"])
    table.append([{"id": 1, "p": None}])
    table.write()
    ((summary,),) = (row["partition_summaries"] for row in read(tmp_path, "manifests"))
    assert (summary["contains_null"], summary["lower_bound"], summary["upper_bound"]) == (
        True,
        "null",
        "null",
    )
