"""Fingerprints: hashes of everything that a cached value depends on.

Takes the scan's context, delete files and key columns; returns hex digests of 96 bits (truncated SHA-256).
All three caches of deletes use them: the worker's memory (`memory`, with facts that matter only within this
process), the host's files (`host`: they are part of the file names) and compiled deletes.

The rules: two values that could differ have different fingerprints, so that a cached value is used only if
building it again would give the same (two stores whose buckets have one name are told apart); and a
fingerprint reveals no path and no secret. Paths are hashed as they are, except for a password before the
host; credentials are not hashed at all.

Cost: 2 to 3 µs for a delete file seen before (most of it `files.modified`), 11 µs for a new one; a thousand
of them may apply to each task.
"""

from __future__ import annotations

import hashlib
import re
import sys
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from twostage.deletes.cache.file_format import FORMAT
from twostage.errors import mask
from twostage.storage import files

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable

    from twostage.task import DeleteFile, ScanContext, ScanTask, Storage

_HEX_DIGITS = 24
MAX_KNOWN_FILES = 2**14
"""Delete files whose fingerprints a process caches, 0.5 kB each."""
_STORE_PROPERTIES = (
    *("endpoint", "account-name", "project-id", "service.host", "storage-authority", "storage-scheme"),
    *("account-host", "hdfs.host", "hdfs.port"),
)
"""Suffixes of the storage properties that say which store a path belongs to."""
_PASSWORD = re.compile(r"^([^:/]+://[^:/]*):[^/]*@")
_masked = lru_cache(256)(mask)


def without_password(location: str) -> str:
    """Return a path in the form that is hashed, which still distinguishes any two files.

    Only a password may be masked here: in ``data/token=a/0.parquet``, ``a`` is a partition value, not a
    secret, and in ``abfss://container@account/…`` the container is where other URLs have a login. A password
    with a slash is kept, at no cost but that a new password changes the names.

    >>> without_password("s3://key:secret@lake/data/token=a/0.parquet")
    's3://key@lake/data/token=a/0.parquet'
    """
    return _PASSWORD.sub(r"\1@", location)


def digest(*facts: Any) -> str:
    """Return 96 bits of a hash of plain values, as hex."""
    return hashlib.sha256(repr(facts).encode()).hexdigest()[:_HEX_DIGITS]


@lru_cache(MAX_KNOWN_FILES)
def _of_file(
    path: str, kind: str, modified: int, size: int, records: int, sequence_number: int, ids: tuple[int, ...]
) -> str:
    return digest(kind, without_password(path), modified, size, records, sequence_number, sorted(ids))


def of_delete(delete: DeleteFile) -> str:
    """Name one delete file: its identity and, if known without a request, its modification time."""
    return _of_file(
        delete.path,
        delete.format,
        files.modified(delete.path),
        delete.file_size,
        delete.record_count,
        delete.sequence_number,
        delete.equality_ids,
    )


def of_positions(delete: DeleteFile) -> str:
    """Name one positional delete file or vector."""
    place = delete.content_offset, delete.content_size, delete.referenced_data_file
    return digest(delete.content, of_delete(delete), place)


def of_set(members: Iterable[str]) -> str:
    """Name a set of delete files by their fingerprints, in any order."""
    return digest(*sorted(members))


def of_reading(context: ScanContext) -> str:
    """Name the table, its location, and how its delete files are read."""
    storage = context.storage
    where = (without_password(storage.root), without_password(storage.moved_from or ""), of_store(storage))
    # Keys that were read without verification must not be used by a scan that verifies.
    settings = (context.settings.kernels, context.settings.dense_keys, context.settings.verify_checksums)
    return digest(FORMAT, sys.byteorder, context.table_uuid, where, repr(context.name_mapping), settings)


def of_store(storage: Storage) -> tuple[tuple[str, str], ...]:
    """Tell which store paths belong to, as the properties that say so, without logins: two may have buckets of one name.

    >>> from twostage.task import Storage
    >>> of_store(Storage(properties={"s3.endpoint": "http://me:secret@h", "s3.secret-access-key": "k"}))
    (('s3.endpoint', 'http://***@h'),)
    """
    return tuple(
        sorted(
            (name, _masked(str(text)))
            for name, text in storage.properties.items()
            if name.endswith(_STORE_PROPERTIES)
        )
    )


def of_table(context: ScanContext) -> str:
    """Name the table; a copy elsewhere with the same UUID is a different table."""
    return of_table_at(context.table_uuid, context.storage.root)


def of_table_at(table_uuid: str | None, root: str) -> str:
    """Name the table with this UUID at this location."""
    return digest(table_uuid, without_password(root))


def of_snapshot(context: ScanContext) -> str:
    """Name a table's snapshot as this process opens it; for the worker's memory alone."""
    storage = context.storage
    return digest(context.table, context.table_uuid, storage.root, storage.moved_from, context.snapshot_id)


def of_key_set(context: ScanContext, shape: Hashable, scope: str) -> str:
    """Name a key set in the worker's memory.

    It grows as tasks add delete files, so they are not part of the name: its contents are compared file by
    file. Unlike the host's files, it is used for one snapshot only.

    Args:
        context: The scan.
        shape: `KeyShape.names`.
        scope: Which delete files share the set.
    """
    simplifies = context.settings.simplify_keys
    return digest("keys", of_snapshot(context), of_reading(context), simplifies, shape, scope)


def of_data_file(task: ScanTask) -> str:
    """Name the data file of a task."""
    place = (without_password(task.path), files.modified(task.path))
    return digest(task.format, *place, task.file_size, task.record_count, task.sequence_number)
