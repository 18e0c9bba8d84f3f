"""Which of the files that a manifest gives key metadata are encrypted.

Takes located files; refuses those that are, by name. The rule: the file itself decides, because a manifest's key
metadata may stand beside a plain file. Only files with key metadata are looked at, MAX_ASKED of a scan at most; of the
others the task says the same.
"""

from __future__ import annotations

import concurrent.futures
import threading
from typing import TYPE_CHECKING

import cachetools

from twostage.errors import CorruptFileError, UnsupportedFeatureError
from twostage.formats.parquet.footer import read_footer
from twostage.storage import files

if TYPE_CHECKING:
    from collections.abc import Mapping

    from twostage.task import Storage

MAX_ASKED = 1_000
"""Files: writers encrypt all of a table's or none. Of remote files they take some three seconds."""
MAX_KEPT = 100_000
_AT_ONCE = 16
_STREAM, _PARQUET, _PLAIN_PARQUET = b"AGS1", b"PARE", b"PAR1"
"""How files begin that Iceberg encrypts as streams of AES-GCM blocks; Parquet's encrypted ones; its plain ones, of
which single columns may be encrypted."""

_plain: cachetools.LRUCache[tuple[str, int], bool] = cachetools.LRUCache(MAX_KEPT)
_lock = threading.Lock()


def refuse_encrypted(source: Storage, keyed: Mapping[str, str]) -> None:
    """Look at files that have key metadata.

    Args:
        source: The scan's storage.
        keyed: Located files, and what each is, such as ``Data file``.

    Raises:
        UnsupportedFeatureError: One of them is encrypted.
        MissingFileError: One of them is not there.
        StorageError: No access, no network.
    """
    with _lock:
        asked = [path for path in keyed if (path, files.modified(path)) not in _plain][:MAX_ASKED]
    if not asked:
        return
    with concurrent.futures.ThreadPoolExecutor(min(_AT_ONCE, len(asked))) as threads:
        encrypted = [*threads.map(lambda path: _is_encrypted(source, path), asked)]
    for path, is_encrypted in zip(asked, encrypted, strict=True):
        if is_encrypted:
            raise UnsupportedFeatureError(
                "UNSUPPORTED_ENCRYPTION", f"{keyed[path]} is encrypted", path=path, stage="plan"
            )
        with _lock:
            _plain[path, files.modified(path)] = True


def _is_encrypted(source: Storage, path: str) -> bool:
    with files.translate_errors(path, "plan", storage=source), files.open_file(source, path) as file:
        head = bytes(file.read_at(4, 0))
        if head != _PLAIN_PARQUET:
            return head in (_STREAM, _PARQUET)
        try:
            read_footer(file, file.size(), path)
        except UnsupportedFeatureError as error:
            return error.code == "ENCRYPTED_PARQUET"
        except CorruptFileError:
            pass  # which whoever reads it will say
        return False
