"""What a declared table holds, as the oracle sees it: rows, deletes and their scope; nothing of bytes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from declared.types import Column


@dataclass(frozen=True)
class PartitionField:
    """One field of a partition spec."""

    id: int
    name: str
    transform: str
    source: int


@dataclass(frozen=True, kw_only=True, eq=False)
class ContentFile:
    """A file of the table: where it is and which data it concerns."""

    path: str
    spec_id: int
    partition: tuple[Any, ...]
    sequence: int
    size: int
    entry: Mapping[str, Any] = field(repr=False)
    """The fields of the manifest entry's ``data_file``."""


@dataclass(frozen=True, kw_only=True, eq=False)
class DataFile(ContentFile):
    """Rows by field id; an id that `columns` lacks is absent from the file."""

    columns: tuple[Column, ...]
    rows: tuple[dict[int, Any], ...] = field(repr=False)


@dataclass(frozen=True, kw_only=True, eq=False)
class PositionDelete(ContentFile):
    """(data file, position) pairs."""

    positions: tuple[tuple[str, int], ...]


@dataclass(frozen=True, kw_only=True, eq=False)
class VectorDelete(ContentFile):
    """The deleted positions of one data file."""

    data_file: str
    positions: frozenset[int]


@dataclass(frozen=True, kw_only=True, eq=False)
class EqualityDelete(ContentFile):
    """Rows that hold the keys by field id; a data row equal in all of `ids` is deleted."""

    columns: tuple[Column, ...]
    ids: tuple[int, ...]
    rows: tuple[dict[int, Any], ...] = field(repr=False)


@dataclass(frozen=True, kw_only=True)
class Content:
    """A snapshot's files and the schemas and specs they are read by."""

    snapshot_id: int | None
    columns: tuple[Column, ...]
    """The columns to read by: the table's current ones, unless replaced."""
    snapshot_columns: tuple[Column, ...]
    """The columns when the snapshot was made."""
    all_columns: Mapping[int, Column]
    """Every field that ever was, by id, in its last form."""
    specs: Mapping[int, tuple[PartitionField, ...]]
    data: tuple[DataFile, ...]
    deletes: tuple[ContentFile, ...]
