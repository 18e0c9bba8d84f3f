"""The files of Spark event logs, as lines: of one application in one file or rolled into several, compressed or not.

Takes a path: a file, a rolled application's folder (``eventlog_v2_…``), or a folder of both, as the history server's; gives
each application's lines in order. Codecs: none, zstd (Spark's default), lz4 and snappy. The rule: a file that ends in the
middle, as a running application's does, gives the lines before.
"""

from __future__ import annotations

import io
import re
import struct
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import pyarrow as pa

from twostage.formats.varint import read_varint

if TYPE_CHECKING:
    from collections.abc import Iterator

    from twostage.advisor.query_log import Problems

MAX_LINE_BYTES = 64 << 20
_ROLLED = re.compile(r"events_(\d+)_")
_FOLDER = "eventlog_v2_"
_LZ4_HEADER = struct.Struct("<8sBiii")
_LZ4_MAGIC = b"LZ4Block"
_SNAPPY_MAGIC = b"\x82SNAPPY\0"
_MAX_BLOCK = 64 << 20


def applications(path: str) -> list[list[Path]]:
    """Return the files of each application, in order; none for a folder without any."""
    root = Path(path)
    if root.is_file():
        return [[root]]
    if root.name.startswith(_FOLDER):
        rolled = _rolled(root)
        return [rolled] if rolled else []
    found = []
    for entry in sorted(root.iterdir()) if root.is_dir() else []:
        if entry.is_file() and not entry.name.startswith((".", "appstatus_")):
            found.append([entry])
        elif entry.is_dir() and entry.name.startswith(_FOLDER) and (rolled := _rolled(entry)):
            found.append(rolled)
    return found


def _rolled(folder: Path) -> list[Path]:
    numbered = []
    for entry in folder.iterdir():
        match = _ROLLED.match(entry.name)
        if match:
            numbered.append((int(match[1]), not entry.name.endswith(".compact"), entry))
    if not numbered:
        return []
    # What was compacted stands for all files up to its number.
    first = max((number for number, is_plain, _ in numbered if not is_plain), default=0)
    return [
        entry
        for number, is_plain, entry in sorted(numbered)
        if number > first or (number == first and not is_plain)
    ]


def lines(files: list[Path], problems: Problems) -> Iterator[tuple[str, bytes]]:
    """Yield the place and the text of each line; what cannot be read is counted."""
    for path in files:
        number = 0
        try:
            with path.open("rb") as file:
                stream = _open(file, path.name)
                if stream is None:
                    problems.add("compressed with a codec other than zstd, lz4 and snappy", str(path))
                    continue
                while line := stream.readline(MAX_LINE_BYTES):
                    number += 1
                    yield f"{path}:{number}", line
        except EOFError:
            problems.add("the file ends in the middle", f"{path}:{number}")
        except Exception as error:  # noqa: BLE001 - each codec has errors of its own; none may end the reading of others
            problems.add(f"not readable ({type(error).__name__})", f"{path}:{number}")


def _open(file: IO[bytes], name: str) -> Any:
    """Return a stream of an event log's text; None if its codec is not known."""
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
        """Fill a buffer with what one block has left."""
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
        if magic != _LZ4_MAGIC or not 0 <= compressed <= _MAX_BLOCK or not 0 <= size <= _MAX_BLOCK:
            raise ValueError("no block of LZ4BlockOutputStream")
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
        if not 0 <= compressed <= _MAX_BLOCK:
            raise ValueError("no block of SnappyOutputStream")
        data = _whole(file, compressed)
        yield pa.Codec("snappy").decompress(data, _snappy_size(data), asbytes=True)


def _snappy_size(data: bytes) -> int:
    """Return how many bytes a Snappy block decompresses to, which it begins with."""
    size, _ = read_varint(data, 0)
    if size > _MAX_BLOCK:
        raise ValueError("a Snappy block that is too large")
    return size


def _whole(file: IO[bytes], size: int) -> bytes:
    data = file.read(size)
    if len(data) < size:
        raise EOFError
    return data
