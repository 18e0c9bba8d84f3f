"""A table pinned to one snapshot: what loading a table returns, and what planning takes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from twostage.schema import Schema
    from twostage.table.metadata import Snapshot, TableMetadata
    from twostage.task import Storage


@dataclass(frozen=True, slots=True, kw_only=True)
class PinnedTable:
    """One table at one snapshot. Picklable; its repr shows no secrets.

    Attributes:
        name: The table's name as the user gave it.
        metadata: The table metadata.
        snapshot: The snapshot to read; None for a table without data.
        schema: The schema that the user sees.
        storage: How to open the table's files.
        metadata_table: The metadata table (``snapshots``, ``files``, …) to read instead of the rows, if any.
        only_files: The data files to read, by their paths in manifests, if metadata or indexes answered for all others.
        answered_by_index: For how many of these others the answer came from indexes.
    """

    name: str
    metadata: TableMetadata
    snapshot: Snapshot | None
    schema: Schema
    storage: Storage
    metadata_table: str | None = None
    only_files: frozenset[str] | None = None
    answered_by_index: int = 0

    def __repr__(self) -> str:
        snapshot = None if self.snapshot is None else self.snapshot.snapshot_id
        return f"PinnedTable(name={self.name!r}, snapshot={snapshot}, storage={self.storage!r})"
