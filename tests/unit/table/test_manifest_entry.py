"""Entries of manifest lists and manifests: what the writer did not store is unknown, never zero."""

from __future__ import annotations

from twostage.table.manifest_entry import DATA, EXISTING, ContentFile, ManifestFile


def test_live_files_of_a_manifest():
    assert ManifestFile(path="/m", spec_id=0, added_files=2, existing_files=3).num_live_files == 5
    assert ManifestFile(path="/m", spec_id=0, added_files=2).num_live_files is None
    assert ManifestFile(path="/m", spec_id=0, existing_files=3).num_live_files is None
    assert ManifestFile(path="/m", spec_id=0, added_files=0, existing_files=0).num_live_files == 0


def test_rows_of_a_file():
    """A count of -1, as Iceberg's import of Avro files wrote it, is none."""
    counts = {record_count: content_file(record_count).num_rows for record_count in (-1, 0, 7)}
    assert counts == {-1: None, 0: 0, 7: 7}


def content_file(record_count: int) -> ContentFile:
    return ContentFile(
        status=EXISTING, snapshot_id=1, sequence_number=1, file_sequence_number=1, spec_id=0, content=DATA, path="/f",
        format="parquet", partition={}, record_count=record_count, file_size=1,
    )  # fmt: skip
