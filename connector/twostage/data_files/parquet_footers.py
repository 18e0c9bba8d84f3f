"""Footers of Parquet data files, kept per worker process.

Takes an open file; gives its checked footer, as our own reader and as pyarrow have it. The rule: a footer serves the file
of the same path, size and version (ETag or modification time) only.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

import cachetools

from twostage.formats.parquet.arrow_footer import arrow_footer
from twostage.formats.parquet.footer import FIRST_READ, Footer, read_end
from twostage.formats.parquet.virtual_file import VirtualSchema

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

    Key = tuple[str, int, int | bytes]

FOOTER_CACHE_BYTES = 64 * 2**20
"""Footers of some 500 wide files; a footer is re-read in one or two requests when it was dropped."""
FIRST_READ_REMOTE = 512 * 2**10
"""Bytes at a remote file's end that are read first: they take as long as the request itself."""
MOST_TAIL = 8 * 2**20


@dataclass(frozen=True, slots=True, eq=False)
class KeptFooter:
    """A footer as our own reader has it, as pyarrow has it, and as files of some of its pages will have it."""

    footer: Footer
    metadata: pq.FileMetaData
    virtual_schema: VirtualSchema

    @property
    def num_bytes(self) -> int:
        """What it takes in memory: some eight times its bytes in the file, ours and pyarrow's together."""
        return 8 * (self.footer.file_size - self.footer.offset)


_lock = threading.Lock()
"""Of the caches: whoever reads without Spark may read groups of files in threads."""
_footers: cachetools.LRUCache[Key, KeptFooter] = cachetools.LRUCache(
    FOOTER_CACHE_BYTES, getsizeof=lambda kept: kept.num_bytes
)
_tails: cachetools.LRUCache[str, int] = cachetools.LRUCache(1_000)
"""By folder: how long footer and page indexes of the last file were."""


def load_footer(
    file: pa.NativeFile, path: str, key: Key, *, is_remote: bool
) -> tuple[KeptFooter, tuple[int, bytes] | None]:
    """Return a file's footer, and what was read of its end: where that begins, and its bytes; None if nothing was.

    Args:
        file: The open file.
        path: Its location.
        key: Its path, size in bytes, and version.
        is_remote: Whether a request takes as long as some hundred kilobytes.

    Raises:
        CorruptFileError: The footer's bytes are wrong.
        UnsupportedFeatureError: The file is encrypted, or compressed in a way that nobody here unpacks.
    """
    with _lock:
        found = _footers.get(key)
    if found is not None:
        return found, None
    size, folder = key[1], path.rpartition("/")[0]
    stored, tail = read_end(file, size, path, _expected_tail(folder, is_remote=is_remote))
    footer, metadata = arrow_footer(stored, path)
    found = KeptFooter(footer, metadata, VirtualSchema.of(footer))
    with _lock:
        _footers[key] = found
        _tails[folder] = size - footer.indexes_start()
    return found, tail


def _expected_tail(folder: str, *, is_remote: bool) -> int:
    """Return how many bytes at the end hold footer and page indexes, as in the folder's last file."""
    least = FIRST_READ_REMOTE if is_remote else FIRST_READ
    with _lock:
        known = _tails.get(folder, 0) * 9 // 8
    return max(least, known) if known <= MOST_TAIL else least
