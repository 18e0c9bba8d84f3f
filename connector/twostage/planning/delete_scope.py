"""What manifest entries tell about the scope of a delete file: its partition, data file paths and key values.

Takes manifest entries of data and delete files; returns values that `delete_index.py` compares. Every range may be
wider than the values it describes and never narrower.
"""

from __future__ import annotations

import math
import struct
from dataclasses import replace
from os.path import commonprefix
from typing import TYPE_CHECKING, Any

from twostage.deletes.keys.intervals import DeleteKeyRange
from twostage.errors import CorruptFileError, UnsupportedFeatureError
from twostage.predicates.bounds import Bounds
from twostage.schema import Primitive, Struct
from twostage.storage.location import parse_location
from twostage.table.column_metrics import metrics_bounds

if TYPE_CHECKING:
    from collections.abc import Mapping

    from twostage.schema import Field
    from twostage.table.manifest_entry import ContentFile
    from twostage.table.metadata import PartitionSpec

FILE_PATH_ID = 2_147_483_546
"""Field id of ``file_path`` in position delete files (spec, "Reserved Field IDs")."""
_STRING = Primitive("string")


class FileKeys(DeleteKeyRange):
    """The range of one equality-key column in a data or delete file, from the file's metrics."""

    __slots__ = ()

    def __init__(self, file: ContentFile, field: Field, is_column: bool) -> None:  # noqa: FBT001
        kind = field.type
        if not isinstance(kind, Primitive | Struct):
            raise corrupt_delete(f"Equality field is a list or a map: {field.id}", file)
        if isinstance(kind, Struct):
            raise UnsupportedFeatureError(  # Iceberg's Java library compares whole structs
                "UNSUPPORTED_DELETE_KEY",
                f"Equality-delete key {field.name!r} is not of a primitive type: {kind}",
                path=file.path,
                stage="plan",
            )
        rows = None if file.num_rows is None else file.record_count
        super().__init__(kind, metrics_bounds(kind, file, field.id), rows, counted=is_column)

    @property
    def of_rows(self) -> Bounds:
        """Bounds of the column over the rows that have these keys, in any data file."""
        if not self.may_value:
            return Bounds(null_count=1, value_count=1)
        return replace(self.bounds, null_count=None if self.may_null else 0, value_count=None)


def partition_key(file: ContentFile, specs: Mapping[int, PartitionSpec]) -> Any:
    """Return spec id and partition values as a hashable key, in which NULL = NULL and NaN = NaN."""
    fields = specs[file.spec_id].fields
    return file.spec_id, tuple(_comparable(file.partition.get(field.field_id)) for field in fields)


def _comparable(value: Any) -> Any:
    if isinstance(value, float):  # by bits: -0.0 and 0.0 are different partitions, all NaNs the same
        return "nan" if math.isnan(value) else struct.pack("<d", value)
    return (type(value), value) if isinstance(value, bool) else value


def only_path(entry: ContentFile) -> str | None:
    """Return the path of the only data file that a position delete file refers to; None if there may be several."""
    if entry.referenced_data_file is not None:
        return entry.referenced_data_file
    lower, upper = entry.lower_bounds.get(FILE_PATH_ID), entry.upper_bounds.get(FILE_PATH_ID)
    if lower is None or lower != upper:  # a truncated upper bound is greater than the lower one
        return None
    path = metrics_bounds(_STRING, entry, FILE_PATH_ID)
    return None if path is None else path.lower


class PathRange:
    """The bounds of ``file_path`` in a position delete file.

    One location can be written in several forms (``file:/x`` and ``/x``, ``s3:`` and ``s3a:``), so paths are
    compared as text only if both bounds and the path have the same scheme and authority; then every path
    between the bounds has them too. Where file systems take ``a//b`` and ``a/./b`` for ``a/b`` (local ones
    and Hadoop's), text proves less: other forms of a path start with the bounds' common prefix and continue
    with ``/`` or ``.`` after a folder. ``..`` between the bounds is not considered. Parsed once per delete
    file, because it is compared with each data file of the partition.
    """

    __slots__ = ("folder", "has_forms", "is_loose", "lower", "start", "upper")

    def __init__(self, entry: ContentFile) -> None:
        bounds = metrics_bounds(_STRING, entry, FILE_PATH_ID) or Bounds()
        self.lower, self.upper = bounds.lower, bounds.upper
        is_known = self.lower is not None and self.upper is not None
        self.start = authority_of(self.lower) if is_known else None
        if is_known and self.start != authority_of(self.upper):
            self.start = None
        self.has_forms, self.folder, self.is_loose = True, None, True
        if self.start is None:
            return
        location = parse_location(self.lower)
        self.has_forms = location.is_local or location.is_hadoop
        common = commonprefix((self.lower, self.upper))  # noqa: RUF071 - character by character is intended
        folder = common[: common.rfind("/") + 1]
        if len(folder) > len(self.start) and is_plain(folder, self.start):
            self.folder = folder
            # "/" and "." sort before every digit and letter.
            self.is_loose = self.lower < f"{folder}0" and f"{folder}." <= self.upper

    def may_hold(self, path: str, start: str | None, *, plain: bool = False) -> bool:
        """Return whether a path may be within the bounds.

        Args:
            path: Of a data file.
            start: Its scheme and authority.
            plain: `is_plain` of it.
        """
        if self.start is None or self.start != start:
            return True
        if self.lower <= path <= self.upper or path.startswith(self.upper):
            return True
        if not self.has_forms:
            return False
        if self.folder is None or not plain:
            return True
        return path.startswith(self.folder) and (self.is_loose or "/" in path[len(self.folder) :])


def is_plain(path: str, start: str) -> bool:
    """Tell whether a location has no ``//``, ``/./`` or ``/../`` after `start`, its scheme and authority."""
    inner = path[len(start) :]
    return not ("//" in inner or "/./" in inner or "/../" in inner)


def authority_of(path: str) -> str | None:
    """Return the scheme and authority of a location; None if its path is not absolute."""
    inner = parse_location(path).path
    return path[: len(path) - len(inner)] if inner.startswith("/") else None


def corrupt_delete(message: str, entry: ContentFile) -> CorruptFileError:
    """Return the error for a manifest entry that contradicts the spec."""
    return CorruptFileError("CORRUPT_MANIFEST", message, path=entry.path, stage="plan")
