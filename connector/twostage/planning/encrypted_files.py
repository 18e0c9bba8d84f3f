"""Refuse encrypted files while planning, so that the error names them before any task starts.

A file counts as encrypted if its first bytes (for Parquet, its footer) say so, because manifests may give key
metadata for plain files too. Only files with key metadata are opened, at most `MAX_FILES_CHECKED` per scan;
any other encrypted file fails with the same error in its task.
"""

from __future__ import annotations

import concurrent.futures
import threading
from typing import TYPE_CHECKING, Any

import cachetools

from twostage.deletes.cache import fingerprint
from twostage.errors import CorruptFileError, UnsupportedFeatureError
from twostage.formats.parquet.footer import read_footer
from twostage.storage import files

if TYPE_CHECKING:
    from collections.abc import Mapping

    from twostage.task import Storage

MAX_FILES_CHECKED = 1_000
"""Files to open per scan: writers encrypt all files of a table or none. On an object store this takes about
3 s."""
MAX_PLAIN_FILES_CACHED = 100_000
"""Files known to be plain."""
MAX_CONCURRENT_READS = 16
"""Threads; a check is one or two small reads."""
_AES_GCM_STREAM, _PARQUET_ENCRYPTED_FOOTER, _PARQUET = b"AGS1", b"PARE", b"PAR1"
"""Magic bytes: Iceberg's AES GCM Stream format, Parquet with an encrypted footer, and Parquet with a plain footer, in
which columns may be encrypted."""

_plain: cachetools.LRUCache[Any, bool] = cachetools.LRUCache(MAX_PLAIN_FILES_CACHED)
_lock = threading.Lock()


def refuse_encrypted(source: Storage, with_key_metadata: Mapping[str, tuple[str, int]]) -> None:
    """Raise if one of the files that have key metadata is encrypted.

    Args:
        source: The scan's storage.
        with_key_metadata: The kind of each file (``Data file`` or ``Delete file``) and its size in bytes, by path.

    Raises:
        UnsupportedFeatureError: A file is encrypted.
        MissingFileError: A file does not exist.
        StorageError: A file cannot be read.
    """
    stores = fingerprint.of_store(source)
    keys = {path: (path, files.modified(path), size, stores) for path, (_, size) in with_key_metadata.items()}
    with _lock:
        unchecked = [path for path, key in keys.items() if key not in _plain][:MAX_FILES_CHECKED]
    if not unchecked:
        return
    with concurrent.futures.ThreadPoolExecutor(min(MAX_CONCURRENT_READS, len(unchecked))) as threads:
        encrypted = [*threads.map(lambda path: _is_encrypted(source, path), unchecked)]
    for path, is_encrypted in zip(unchecked, encrypted, strict=True):
        if is_encrypted:
            raise UnsupportedFeatureError(
                "UNSUPPORTED_ENCRYPTION",
                f"{with_key_metadata[path][0]} is encrypted",
                path=path,
                stage="plan",
            )
        with _lock:
            _plain[keys[path]] = True


def _is_encrypted(source: Storage, path: str) -> bool:
    with files.translate_errors(path, "plan", storage=source), files.open_file(source, path) as file:
        head = bytes(file.read_at(4, 0))
        if head != _PARQUET:
            return head in (_AES_GCM_STREAM, _PARQUET_ENCRYPTED_FOOTER)
        try:
            read_footer(file, file.size(), path)
        except UnsupportedFeatureError as error:
            return error.code == "ENCRYPTED_PARQUET"
        except CorruptFileError:
            pass  # reported when the file is read
        return False
