"""The lines of Spark event logs: per application one file, or several rolled ones, compressed or not.

Takes a path, local or in a bucket: a file, a rolled log's folder (``eventlog_v2_…``), or a folder of both,
like the history server's; returns each application's lines in order. Codecs: none, zstd (Spark's default),
lz4 and snappy. The rule: a truncated file, such as a running application's, gives the lines up to there.
"""

from __future__ import annotations

import io
import re
import struct
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import pyarrow as pa

from twostage.formats.varint import read_varint
from twostage.storage import files
from twostage.storage.location import join, parse_location
from twostage.task import Storage

if TYPE_CHECKING:
    from collections.abc import Iterator

    from twostage.advisor.query_log import Problems

MAX_LINE_BYTES = 64 << 20
_ROLLED = re.compile(r"events_(\d+)_")
_FOLDER = "eventlog_v2_"
_LZ4_HEADER = struct.Struct("<8sBiii")
_LZ4_MAGIC = b"LZ4Block"
_SNAPPY_MAGIC = b"\x82SNAPPY\0"
_MAX_BLOCK_BYTES = 64 << 20
_REQUEST_BYTES = 8 << 20
"""Requested from an object store at once."""


def applications(path: str, storage: Storage | None = None) -> list[list[str]]:
    """Return the files of each application, in order; none for a folder without any.

    Args:
        path: A file or a folder, local or in an object store.
        storage: How to open the store.
    """
    storage = storage or Storage(root=path)
    name = path.rstrip("/").rpartition("/")[2]
    entries = _entries(storage, path)
    if entries is None:
        return [[path]]
    if name.startswith(_FOLDER):
        rolled = _rolled(path, entries)
        return [rolled] if rolled else []
    found = []
    for name, is_folder in entries:
        if not is_folder and not name.startswith((".", "appstatus_")):
            found.append([join(path, name)])
        elif is_folder and name.startswith(_FOLDER):
            folder = join(path, name)
            if rolled := _rolled(folder, _entries(storage, folder) or []):
                found.append(rolled)
    return found


def _entries(storage: Storage, path: str) -> list[tuple[str, bool]] | None:
    """Return names in a folder, and whether each is a folder; empty if it is missing, None for a file."""
    location = parse_location(path)
    if location.is_local:
        root = Path(location.path)
        if root.is_dir():
            return sorted((entry.name, entry.is_dir()) for entry in root.iterdir())
        return None if root.exists() else []
    found = [(entry.name, entry.is_folder) for entry in files.list_folder(storage, path)]
    return None if not found and files.exists(storage, path) else found


def _rolled(folder: str, entries: list[tuple[str, bool]]) -> list[str]:
    numbered = []
    for name, _ in entries:
        match = _ROLLED.match(name)
        if match:
            numbered.append((int(match[1]), not name.endswith(".compact"), name))
    if not numbered:
        return []
    # A compacted file replaces all files up to its number.
    first = max((number for number, is_plain, _ in numbered if not is_plain), default=0)
    return [
        join(folder, name)
        for number, is_plain, name in sorted(numbered)
        if number > first or (number == first and not is_plain)
    ]


def lines(
    paths: list[str], problems: Problems, storage: Storage | None = None
) -> Iterator[tuple[str, bytes]]:
    """Yield the place and the bytes of each line; unreadable files are counted."""
    for path in paths:
        number = 0
        try:
            with _file(path, storage) as file:
                stream = _open(file, path.rpartition("/")[2])
                if stream is None:
                    problems.add("compressed with a codec other than zstd, lz4 and snappy", path)
                    continue
                while line := stream.readline(MAX_LINE_BYTES):
                    number += 1
                    yield f"{path}:{number}", line
        except EOFError:
            problems.add("the file ends in the middle", f"{path}:{number}")
        except Exception as error:  # noqa: BLE001 - each codec has its own errors; none may stop other files
            problems.add(f"not readable ({type(error).__name__})", f"{path}:{number}")


def _file(path: str, storage: Storage | None) -> IO[bytes]:
    location = parse_location(path)
    if location.is_local:
        return Path(location.path).open("rb")
    remote: Any = files.open_file(storage or Storage(root=path), path)
    return io.BufferedReader(remote, _REQUEST_BYTES)  # each read of it is a request


def _open(file: IO[bytes], name: str) -> Any:
    """Return a stream of an event log's text; None if its codec is not supported."""
    codec = name.removesuffix(".inprogress").removesuffix(".compact").rpartition(".")[2]
    match codec:
        case "zstd":
            import zstandard  # noqa: PLC0415 - not every log needs it

            reader = zstandard.ZstdDecompressor().stream_reader(file, read_across_frames=True)
            return io.BufferedReader(reader)
        case "lz4":
            return io.BufferedReader(_Blocks(_lz4_blocks(file)))
        case "snappy":
            return io.BufferedReader(_Blocks(_snappy_blocks(file)))
        case "lzf":
            return None
    return file


class _Blocks(io.RawIOBase):
    """A stream of decompressed blocks."""

    def __init__(self, blocks: Iterator[bytes]) -> None:
        self._blocks = blocks
        self._rest = memoryview(b"")

    def readable(self) -> bool:
        """It can be read."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Fill a buffer from the rest of one block."""
        while not self._rest:
            block = next(self._blocks, None)
            if block is None:
                return 0
            self._rest = memoryview(block)
        count = min(len(buffer), len(self._rest))
        buffer[:count] = self._rest[:count]
        self._rest = self._rest[count:]
        return count


def _lz4_blocks(file: IO[bytes]) -> Iterator[bytes]:
    """Yield the blocks of lz4-java's ``LZ4BlockOutputStream``: magic, token, sizes and checksum, then an LZ4 block."""
    while header := file.read(_LZ4_HEADER.size):
        if len(header) < _LZ4_HEADER.size:
            raise EOFError
        magic, token, compressed, size, _ = _LZ4_HEADER.unpack(header)
        if (
            magic != _LZ4_MAGIC
            or not 0 <= compressed <= _MAX_BLOCK_BYTES
            or not 0 <= size <= _MAX_BLOCK_BYTES
        ):
            raise ValueError("not a block of LZ4BlockOutputStream")
        data = _whole(file, compressed)
        if size:
            is_raw = token & 0xF0 == 0x10
            yield data if is_raw else pa.Codec("lz4_raw").decompress(data, size, asbytes=True)


def _snappy_blocks(file: IO[bytes]) -> Iterator[bytes]:
    """Yield the blocks of snappy-java's ``SnappyOutputStream``: a header of 16 bytes, then sizes and Snappy blocks."""
    header = _whole(file, 16)
    if not header.startswith(_SNAPPY_MAGIC):
        raise ValueError("no SnappyOutputStream")
    while prefix := file.read(4):
        if len(prefix) < 4:
            raise EOFError
        if prefix == _SNAPPY_MAGIC[:4]:
            _whole(file, 12)  # streams may follow one another
            continue
        (compressed,) = struct.unpack(">i", prefix)
        if not 0 <= compressed <= _MAX_BLOCK_BYTES:
            raise ValueError("not a block of SnappyOutputStream")
        data = _whole(file, compressed)
        yield pa.Codec("snappy").decompress(data, _snappy_size(data), asbytes=True)


def _snappy_size(data: bytes) -> int:
    """Return the decompressed size of a Snappy block, which is at its start."""
    size, _ = read_varint(data, 0)
    if size > _MAX_BLOCK_BYTES:
        raise ValueError("a Snappy block that is too large")
    return size


def _whole(file: IO[bytes], size: int) -> bytes:
    data = file.read(size)
    if len(data) < size:
        raise EOFError
    return data
