"""The tables about history: snapshots, history, refs and metadata_log_entries, against the metadata file as json reads it."""

from __future__ import annotations

import json

import pytest

from grown_table import grown_table, head, micros, read


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


def test_the_snapshot_that_was_current_at_each_metadata_file(tmp_path, write_table):
    """Snapshots 11, 12 and 13 became current at 1, 2 and 3 seconds; before, there was none."""
    log = [{"timestamp-ms": moment, "metadata-file": f"/{moment}.json"} for moment in (999, 1_000, 2_999)]
    path = write_table(tmp_path, **{"metadata-log": log})
    found = read(path, "metadata_log_entries")
    assert [
        (micros(r["timestamp"]), r["latest_snapshot_id"], r["latest_schema_id"], r["latest_sequence_number"])
        for r in found
    ] == [(999_000, None, None, None), (1_000_000, 11, 0, 1), (2_999_000, 12, 0, 2), (3_000_000, 13, 1, 3)]


def test_snapshots_that_expired_stay_in_the_history(tmp_path, write_table):
    gone = {"timestamp-ms": 500, "snapshot-id": 5}
    log = [gone, {"timestamp-ms": 3_000, "snapshot-id": 13}]
    path = write_table(
        tmp_path, **{"snapshot-log": log, "metadata-log": [{"timestamp-ms": 600, "metadata-file": "/x"}]}
    )
    first, second = read(path, "history")
    assert (first["snapshot_id"], first["parent_id"], first["is_current_ancestor"]) == (5, None, False)
    assert (second["snapshot_id"], second["parent_id"], second["is_current_ancestor"]) == (13, 12, True)
    entry = read(path, "metadata_log_entries")[0]
    assert (entry["latest_snapshot_id"], entry["latest_schema_id"], entry["latest_sequence_number"]) == (
        5,
        None,
        None,
    )


def test_ancestors_in_a_circle_end(tmp_path, write_table):
    """Damaged metadata is shown, and does not hang."""
    raw = json.loads(write_table(tmp_path).read_text())
    next(s for s in raw["snapshots"] if s["snapshot-id"] == 11)["parent-snapshot-id"] = 13
    path = write_table(tmp_path, snapshots=raw["snapshots"])
    assert [(r["snapshot_id"], r["is_current_ancestor"]) for r in read(path, "history")] == [
        (11, True), (12, True), (13, True)
    ]  # fmt: skip
