"""What a kept value depends on, as hashes: they name files and are compared, and tell no path and no secret.

Takes the scan's context, delete files and key fields; gives hex digests. The rule: two values that could differ
have different names. Paths are hashed without logins and signatures; credentials are not hashed at all.
"""

from __future__ import annotations

import hashlib
import sys
from typing import TYPE_CHECKING, Any

from twostage.deletes.cache.file_format import FORMAT
from twostage.errors import mask
from twostage.storage import files

if TYPE_CHECKING:
    from collections.abc import Iterable

    from twostage.task import DeleteFile, ScanContext, ScanTask

_SHORT = 24
_PLACES = ("endpoint", "account-name", "project-id")
"""Ends of the storage properties that say which store a path is of."""


def digest(*facts: Any) -> str:
    """Return 96 bits of a hash of plain values, as hex."""
    return hashlib.sha256(repr(facts).encode()).hexdigest()[:_SHORT]


def of_delete(delete: DeleteFile) -> str:
    """Name one equality-delete file: what it is, and as of when where that is known without a request."""
    size, records = delete.file_size, delete.record_count
    place = mask(delete.path), files.modified(delete.path)
    return digest(delete.format, *place, size, records, delete.sequence_number, sorted(delete.equality_ids))


def of_positions(delete: DeleteFile) -> str:
    """Name one positional delete file or vector."""
    place = delete.content_offset, delete.content_size, delete.referenced_data_file
    return digest(delete.content, of_delete(delete), place)


def of_set(members: Iterable[str]) -> str:
    """Name a set of delete files, in whatever order they come."""
    return digest(*sorted(members))


def of_reading(context: ScanContext) -> str:
    """Name the table, and how its delete files are read."""
    given = context.storage.properties
    places = sorted((name, mask(str(text))) for name, text in given.items() if name.endswith(_PLACES))
    where = (mask(context.storage.root), mask(context.storage.moved_from or ""), places)
    # Keys that were read unverified must not serve a scan that verifies.
    settings = (context.settings.kernels, context.settings.dense_keys, context.settings.verify_checksums)
    return digest(FORMAT, sys.byteorder, context.table_uuid, where, repr(context.name_mapping), settings)


def of_table(context: ScanContext) -> str:
    """Name the table; a copy of it elsewhere, which has the same UUID, is another one."""
    return digest(context.table_uuid, mask(context.storage.root))


def of_data_file(task: ScanTask) -> str:
    """Name the data file of a task."""
    place = (mask(task.path), files.modified(task.path))
    return digest(task.format, *place, task.file_size, task.record_count, task.sequence_number)
