"""Entries of manifest lists and manifests, as plain values.

`manifest_records.py` makes them; planning, metadata tables and aggregates use them. A value that the writer did not
store is unknown (None, or missing from a map), never zero.
Source: Iceberg table spec, "Manifests" and "Manifest Lists".
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

EXISTING, ADDED, DELETED = 0, 1, 2
DATA, POSITION_DELETES, EQUALITY_DELETES = 0, 1, 2


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionSummary:
    """A manifest list's summary of one partition field over a manifest. Bounds are raw bytes; None is unknown."""

    contains_null: bool = True
    contains_nan: bool | None = None
    lower: bytes | None = None
    upper: bytes | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestFile:
    """One entry of a manifest list. A count of None is unknown; `sequence_number` is 0 in format version 1.

    `spec_id` is None if only the manifest itself has it (version 1 without a manifest list).
    """

    path: str
    spec_id: int | None
    is_deletes: bool = False
    sequence_number: int = 0
    snapshot_id: int | None = None
    partitions: tuple[PartitionSummary, ...] = ()
    length: int | None = None
    added_files: int | None = None
    existing_files: int | None = None
    deleted_files: int | None = None
    added_rows: int | None = None
    existing_rows: int | None = None
    first_row_id: int | None = None
    key_metadata: bytes | None = None

    @property
    def num_live_files(self) -> int | None:
        """How many of its files are not deleted; None if unknown."""
        if self.added_files is None or self.existing_files is None:
            return None
        return self.added_files + self.existing_files


@dataclass(frozen=True, slots=True, kw_only=True)
class ContentFile:
    """A manifest entry: a data or delete file with its metrics.

    `status` is EXISTING, ADDED or DELETED. `content` is DATA, POSITION_DELETES (deletion vectors too) or
    EQUALITY_DELETES. `record_count` is -1 if unknown, as Iceberg's import of Avro files once wrote it. `partition` maps
    partition field ids to values in the internal form of `schema.py`, without the fields that the manifest lacks. The
    metrics map column field ids to values; a missing key means unknown.
    """

    status: int
    snapshot_id: int | None
    sequence_number: int
    file_sequence_number: int | None
    spec_id: int
    content: int
    path: str
    format: str
    partition: Mapping[int, Any]
    record_count: int
    file_size: int
    column_sizes: Mapping[int, int] = field(default_factory=dict, repr=False)
    value_counts: Mapping[int, int] = field(default_factory=dict, repr=False)
    null_counts: Mapping[int, int] = field(default_factory=dict, repr=False)
    nan_counts: Mapping[int, int] = field(default_factory=dict, repr=False)
    lower_bounds: Mapping[int, bytes] = field(default_factory=dict, repr=False)
    upper_bounds: Mapping[int, bytes] = field(default_factory=dict, repr=False)
    split_offsets: tuple[int, ...] = ()
    equality_ids: tuple[int, ...] = ()
    sort_order_id: int | None = None
    key_metadata: bytes | None = None
    referenced_data_file: str | None = None
    content_offset: int | None = None
    content_size: int | None = None
    first_row_id: int | None = None

    @property
    def num_rows(self) -> int | None:
        """The record count; None if unknown."""
        return self.record_count if self.record_count >= 0 else None
