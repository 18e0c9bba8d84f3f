"""Footers of Parquet data files, kept per worker process.

Takes an open file; returns its checked footer, in our own reader's form and in pyarrow's. The rule: a footer
is used only for the file with the same path, size and version (ETag, or a local file's stamp).
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import cachetools

from twostage.formats.file_schema import identify
from twostage.formats.parquet.arrow_footer import arrow_footer, with_maps
from twostage.formats.parquet.file_metadata import MAGIC
from twostage.formats.parquet.footer import FIRST_READ, parse_footer, read_end
from twostage.formats.parquet.virtual_file import VirtualSchema

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow as pa
    import pyarrow.parquet as pq

    from twostage.data_files.remote_file import RemoteFile
    from twostage.formats.file_schema import FileField
    from twostage.formats.parquet.file_metadata import Footer
    from twostage.schema import Schema
    from twostage.task import ScanContext

    Key = tuple[str, int, int | bytes | tuple[int, ...]]

FOOTER_CACHE_BYTES = 64 * 2**20
"""Footers of some 500 wide files; a dropped footer is read again in one or two requests."""
FIRST_READ_REMOTE = 512 * 2**10
"""Bytes at a remote file's end that are read first: they take only as long as the request itself."""
MAX_INDEXES_KEPT = 64 * 2**10
"""Bytes of a remote file's page indexes that are kept with its footer."""
MAX_END_KEPT = 2**20
"""Bytes of a remote file's end that are kept, as read, with the parsed footer."""
INDEX_BYTES = 4 * 2**10
"""Of page indexes before a footer, if nothing is known of them."""
MIN_FILE_BYTES = 12
"""Of a Parquet file: two magic words, and the footer's length."""
MAX_TAIL_BYTES = 8 * 2**20


class FileColumns(NamedTuple):
    """A file's columns as a scan sees them: pyarrow's schema with its types, and which field each column is."""

    schema: pa.Schema
    types: list[pa.DataType]
    fields: tuple[FileField, ...]


@dataclass(frozen=True, slots=True, eq=False)
class KeptFooter:
    """A footer in our own reader's form, in pyarrow's, and in that of virtual files of some pages."""

    footer: Footer
    metadata: pq.FileMetaData
    virtual_schema: VirtualSchema
    tail: tuple[int, bytes] | None = None
    """Of a remote file, if short: where its end begins, and the end as read, including the page indexes if
    they are short, which saves a request."""

    _columns: list[tuple[Schema, object, FileColumns]] = field(default_factory=list)
    """What `columns` returned last, and for which schema and name mapping."""

    def columns(self, context: ScanContext, path: str, read_schema: Callable[[], pa.Schema]) -> FileColumns:
        """Return the file's columns for a scan: those of the last one, or new ones from pyarrow's schema."""
        schema, mapping = context.schema, context.name_mapping
        for known, known_mapping, found in self._columns:
            if known == schema and known_mapping == mapping:
                return found
        of_file = with_maps(read_schema(), self.footer.maps_as_lists)
        fields = identify(of_file, mapping, schema, path)
        found = FileColumns(of_file, of_file.types, fields)
        self._columns[:] = [(schema, mapping, found)]  # in one step: another thread may read it
        return found

    @property
    def num_bytes(self) -> int:
        """What it takes in memory: some eight times its bytes in the file, ours and pyarrow's together."""
        return 8 * (self.footer.file_size - self.footer.offset) + (len(self.tail[1]) if self.tail else 0)


_lock = threading.Lock()
"""Of the caches: without Spark, groups of files may be read in threads."""
_footers: cachetools.LRUCache[Key, KeptFooter] = cachetools.LRUCache(
    FOOTER_CACHE_BYTES, getsizeof=lambda kept: kept.num_bytes
)
_versions: cachetools.LRUCache[tuple[str, int], Key] = cachetools.LRUCache(20_000)
"""By path and size of a remote file: the key of its footer, if that is cached."""
_tails: cachetools.LRUCache[str, int] = cachetools.LRUCache(1_000)
"""By folder: how long footer and page indexes of the last file were."""


def load_footer(
    file: pa.NativeFile, path: str, key: Key, *, is_remote: bool
) -> tuple[KeptFooter, tuple[int, bytes] | None]:
    """Return a file's footer, and the end of the file as read (offset, bytes); None if nothing was read.

    Args:
        file: The open file.
        path: Its location.
        key: Its path, size in bytes, and version.
        is_remote: Whether a request takes as long as reading some hundred kilobytes.

    Raises:
        CorruptFileError: The footer's bytes are wrong.
        UnsupportedFeatureError: The file is encrypted, or its compression is not supported.
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
        if key[2]:  # otherwise a replaced file would go unnoticed
            _footers[key] = found
        _tails[folder] = size - footer.indexes_start()
    return found, tail


def kept_version(path: str, size: int) -> bytes | None:
    """Return the ETag of a remote file whose footer is cached; None if it is not.

    Args:
        path: Its location.
        size: Its size according to the manifest.
    """
    with _lock:
        key = _versions.get((path, size))
        return None if key is None or key not in _footers or not isinstance(key[2], bytes) else key[2]


def kept_end(path: str, stated_size: int) -> tuple[bytes, int, bytes] | None:
    """Return ETag, size in bytes and end of a remote file whose end is cached; None if it is not.

    Args:
        path: Its location.
        stated_size: Its size according to the manifest.
    """
    with _lock:
        key = _versions.get((path, stated_size))
        kept = None if key is None else _footers.get(key)
    if key is None or kept is None or kept.tail is None or not isinstance(key[2], bytes):
        return None
    return key[2], key[1], kept.tail[1]


def keep_end(path: str, stated_size: int, version: bytes, size: int, end: bytes) -> None:
    """Cache the footer of a remote file whose end has been read.

    Args:
        path: Its location.
        stated_size: Its size according to the manifest.
        version: The ETag of the object whose end it is.
        size: The object's size in bytes.
        end: Its last bytes: footer, and perhaps page indexes.

    Raises:
        CorruptFileError: The footer's bytes are wrong.
        UnsupportedFeatureError: The file is encrypted, or its compression is not supported.
        ValueError: The end is not that of such a file.
    """
    length = int.from_bytes(end[-8:-4], "little")
    if not version or not MIN_FILE_BYTES <= length + 8 <= len(end) <= size or end[-4:] != MAGIC:
        raise ValueError("no end of a Parquet file")
    footer, metadata = arrow_footer(parse_footer(end[-8 - length : -8], size, path), path)
    found = KeptFooter(footer, metadata, VirtualSchema.of(footer), (size - len(end), end))
    with _lock:
        _footers[path, size, version] = found
        _versions[path, stated_size] = path, size, version


def forget_footer(path: str, size: int) -> None:
    """Forget a remote file's footer: the object was replaced."""
    with _lock:
        key = _versions.pop((path, size), None)
        if key is not None:
            _footers.pop(key, None)


def load_remote_footer(
    file: RemoteFile, path: str, stated_size: int, expected: int
) -> tuple[KeptFooter, Key]:
    """Return a remote file's footer and its key: path, size in bytes, ETag. What was read of its end stays in `file`.

    Takes no request if the footer is cached, else one, or two if footer and page indexes are longer than
    expected.

    Args:
        file: The open file.
        path: Its location.
        stated_size: Its size according to the manifest.
        expected: Bytes of footer and page indexes, if no other file of the folder is known.

    Raises:
        CorruptFileError: The footer's bytes are wrong.
        UnsupportedFeatureError: The file is encrypted, or its compression is not supported.
    """
    folder = path.rpartition("/")[0]
    with _lock:
        key = _versions.get((path, stated_size))
        found = _footers.get(key) if file.is_known and key is not None else None
        known = _tails.get(folder, 0) * 9 // 8
    if found is not None and key is not None:
        return found, key
    length = known if 0 < known <= MAX_TAIL_BYTES else expected
    file.fetch_tail(length)
    size = file.size()
    key = path, size, file.version
    if size >= MIN_FILE_BYTES:
        needed = int.from_bytes(file.read_at(4, size - 8), "little") + 8
        if length < needed <= MAX_TAIL_BYTES:  # all of it and the indexes by one more request
            length = needed * 5 // 4 + INDEX_BYTES
            file.fetch_tail(length)
    stored, _ = read_end(file, size, path, min(size, length))
    footer, metadata = arrow_footer(stored, path)
    start = footer.indexes_start()
    kept_from = start if 0 <= footer.offset - start <= MAX_INDEXES_KEPT else footer.offset
    kept_tail = None
    if size - kept_from <= MAX_END_KEPT:
        kept_tail = (kept_from, file.read_at(size - kept_from, kept_from))
    found = KeptFooter(footer, metadata, VirtualSchema.of(footer), kept_tail)
    with _lock:
        _tails[folder] = max(size - start, _tails.get(folder, 0) * 7 // 8)
        if file.version:  # otherwise a replaced object would go unnoticed
            _footers[key] = found
            _versions[path, stated_size] = key
    return found, key


def _expected_tail(folder: str, *, is_remote: bool) -> int:
    """Return how many bytes at the end hold footer and page indexes, as in the folder's last file."""
    min_bytes = FIRST_READ_REMOTE if is_remote else FIRST_READ
    with _lock:
        known = _tails.get(folder, 0) * 9 // 8
    return max(min_bytes, known) if known <= MAX_TAIL_BYTES else min_bytes
