"""A table at one snapshot: what `load` opened, and every later stage is given."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from twostage.schema import Schema
    from twostage.table.metadata import Snapshot, TableMetadata
    from twostage.task import Storage


@dataclass(frozen=True, slots=True, kw_only=True)
class PinnedTable:
    """One table at one snapshot. Pickles, and its repr shows no secret.

    `snapshot` is None for a table without data; `schema` is what the user sees. `metadata_table` names the
    metadata table (``snapshots``, ``files`` …) that is read instead of the table's rows.
    """

    name: str
    metadata: TableMetadata
    snapshot: Snapshot | None
    schema: Schema
    storage: Storage
    metadata_table: str | None = None
    only: frozenset[str] | None = None
    """The data files that a scan reads, by their written paths, where metadata answered for the others."""

    def __repr__(self) -> str:
        snapshot = None if self.snapshot is None else self.snapshot.snapshot_id
        return f"PinnedTable(name={self.name!r}, snapshot={snapshot}, storage={self.storage!r})"
