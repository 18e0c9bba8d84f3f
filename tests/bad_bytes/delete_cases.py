"""Damaged deletion vectors and delete files by name, each in a table of three rows.

Takes a folder; `DELETES` gives for each name the maker of the table, the error's code (None: the rows are right,
and the second is deleted), what the file that it names ends with, and the stage.
"""

from __future__ import annotations

import struct
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from made_parquet import BYTE_ARRAY, INT64, Column, longs, made, page, texts
from metadata_cases import MANIFEST, RIGHT, newest, rewritten
from plain_tables import COLUMNS, ROWS

from tables import FileOptions, Table

if TYPE_CHECKING:
    from collections.abc import Callable

    from declared.content import ContentFile

MAGIC = b"\xd1\xd3\x39\x64"


def frame(body: bytes, magic: bytes = MAGIC) -> bytes:
    """Return a vector around a bitmap: length, magic, bitmap, CRC."""
    body = magic + body
    return struct.pack(">I", len(body)) + body + struct.pack(">I", zlib.crc32(body))


def bitmap(*values: int, cookie: int = 12346) -> bytes:
    """Return a 32-bit bitmap of one array container."""
    head = struct.pack("<IIHHI", cookie, 1, 0, len(values) - 1, 16)
    return head + struct.pack(f"<{len(values)}H", *values)


def bitmaps(*pairs: tuple[int, bytes], count: int | None = None) -> bytes:
    """Return a 64-bit bitmap of 32-bit ones by key."""
    number = len(pairs) if count is None else count
    return struct.pack("<Q", number) + b"".join(struct.pack("<I", key) + part for key, part in pairs)


ONE = bitmaps((0, bitmap(1)))
GOOD = frame(ONE)


def vector(blob: bytes, **entry: Any) -> Callable[[Path], Path]:
    """Return a table with this blob as the vector of its data file; `entry` replaces fields of the manifest's."""

    def make(folder: Path) -> Path:
        table = Table(folder, COLUMNS, version=3)
        file = table.append(ROWS)
        table.delete_vectors({file: [1]}, blobs={file: blob})
        path: Path = table.write()
        if entry:
            changed(folder, entry)
        return path

    return make


def changed(folder: Path, entry: dict[str, Any]) -> None:
    """Change the delete's entry, which is in the newest manifest."""
    rewritten(lambda record: record["data_file"].update(entry))(newest(folder, "manifest"))


def two_vectors(folder: Path) -> Path:
    """Return a table whose data file has two vectors in force, of two commits."""
    table = Table(folder, COLUMNS, version=3)
    file = table.append(ROWS)
    (first,) = table.delete_vectors({file: [1]})
    table.delete_vectors({file: [2]})
    table._change_files([first], [])
    return table.write()


def other_file(folder: Path) -> Path:
    """Return a table whose vector says another data file in its Puffin footer; the manifest decides."""
    path = vector(GOOD)(folder)
    (puffin,) = folder.glob("data/*.puffin")
    data = puffin.read_bytes()
    puffin.write_bytes(data.replace(b"file-0.parquet", b"file-9.parquet"))
    return path


def cut_puffin(folder: Path) -> Path:
    path = vector(GOOD)(folder)
    (puffin,) = folder.glob("data/*.puffin")
    puffin.write_bytes(puffin.read_bytes()[:20])
    return path


def compressed_footer(folder: Path) -> Path:
    """Return a table whose Puffin file says that its footer is compressed, which the vector is not."""
    path = vector(GOOD)(folder)
    (puffin,) = folder.glob("data/*.puffin")
    data = bytearray(puffin.read_bytes())
    data[-8] = 1
    puffin.write_bytes(data)
    return path


def delete_file(
    content: str, file_format: str, change: Callable[[bytes], bytes], **options: Any
) -> Callable[[Path], Path]:
    """Return a table whose positional or equality delete file's bytes were changed."""

    def make(folder: Path) -> Path:
        table = Table(folder, COLUMNS)
        file = table.append(ROWS)
        made_: ContentFile
        if content == "position":
            (made_,) = table.delete_positions({file: [1]}, file_format, bounds=False, **options)
        else:
            made_ = table.delete_equal(["id"], [{"id": 2}], file_format, options=FileOptions(**options))
        place = Path(made_.path)
        place.write_bytes(change(place.read_bytes()))
        return table.write()

    return make


def positions(path: bytes | None, *places: int, crc: int | None = None) -> Callable[[Path], Path]:
    """Return a table with a positional delete file written by hand; the path None is the data file's."""

    def make(folder: Path) -> Path:
        name = f"{folder}/data/file-0.parquet".encode() if path is None else path
        header = {} if crc is None else {"crc": crc}
        count = len(places)
        columns = (
            Column(
                b"file_path",
                2147483546,
                BYTE_ARRAY,
                page(texts(*[name] * count), count),
                text=True,
                values=count,
            ),
            Column(b"pos", 2147483545, INT64, page(longs(*places), count, **header), values=count),
        )
        return delete_file("position", "parquet", lambda _: made(*columns, rows=count))(folder)

    return make


def other_orc_version(data: bytes) -> bytes:
    """Change the version in the postscript, 0.12, to 9.12."""
    place = data.rindex(b"\x22\x02\x00\x0c")
    return data[: place + 2] + b"\x09" + data[place + 3 :]


def flipped(place: int) -> Callable[[bytes], bytes]:
    return lambda data: data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :]


NONE_DELETED = ("referenced file is none of the table",)
"""Cases whose delete is about nothing that the table holds."""
VECTOR, FILE = "CORRUPT_VECTOR", "CORRUPT_FILE"
PUFFIN = ".puffin"

DELETES: dict[str, tuple[Callable[[Path], Path], str | None, str, str]] = {
    "nothing is wrong with the vector": (vector(GOOD), RIGHT, "", ""),
    **{f"blob of {size} bytes": (vector(GOOD[:size]), VECTOR, PUFFIN, "deletes") for size in range(1, 13)},
    "blob of 0 bytes": (vector(GOOD, content_size_in_bytes=0), MANIFEST, PUFFIN, "plan"),
    "bad magic": (vector(frame(ONE, b"\xd1\xd3\x39\x65")), VECTOR, PUFFIN, "deletes"),
    "wrong length": (vector(struct.pack(">I", 999) + GOOD[4:]), VECTOR, PUFFIN, "deletes"),
    "wrong CRC": (vector(GOOD[:-1] + b"\0"), VECTOR, PUFFIN, "deletes"),
    "bitmap count huge": (vector(frame(bitmaps((0, bitmap(1)), count=2**60))), VECTOR, PUFFIN, "deletes"),
    "bitmap count negative": (
        vector(frame(bitmaps((0, bitmap(1)), count=2**64 - 1))),
        VECTOR,
        PUFFIN,
        "deletes",
    ),
    "keys unsorted": (vector(frame(bitmaps((1, bitmap(1)), (0, bitmap(1))))), VECTOR, PUFFIN, "deletes"),
    "keys duplicate": (vector(frame(bitmaps((0, bitmap(1)), (0, bitmap(2))))), VECTOR, PUFFIN, "deletes"),
    "key 2^31-1": (vector(frame(bitmaps((2**31 - 1, bitmap(1))))), VECTOR, PUFFIN, "deletes"),
    "cookie unknown": (vector(frame(bitmaps((0, bitmap(1, cookie=99))))), VECTOR, PUFFIN, "deletes"),
    "values unsorted": (vector(frame(bitmaps((0, bitmap(2, 1)))), record_count=2), VECTOR, PUFFIN, "deletes"),
    "cardinality disagrees with the manifest": (vector(GOOD, record_count=2), VECTOR, PUFFIN, "deletes"),
    "position at the record count": (vector(frame(bitmaps((0, bitmap(3))))), VECTOR, PUFFIN, "deletes"),
    "offset outside the file": (vector(GOOD, content_offset=10_000), VECTOR, PUFFIN, "deletes"),
    "offset negative": (vector(GOOD, content_offset=-4), VECTOR, PUFFIN, "deletes"),
    "offset in the middle of the blob": (vector(GOOD, content_offset=5), VECTOR, PUFFIN, "deletes"),
    "size huge": (vector(GOOD, content_size_in_bytes=2**40), VECTOR, PUFFIN, "deletes"),
    "Puffin file cut off": (cut_puffin, VECTOR, PUFFIN, "deletes"),
    "compressed footer": (compressed_footer, RIGHT, "", ""),
    "two blobs for one file": (two_vectors, MANIFEST, "", "plan"),
    "referenced file in the footer differs": (other_file, RIGHT, "", ""),
    "referenced file is none of the table": (
        vector(GOOD, referenced_data_file="/elsewhere/data.parquet"),
        RIGHT,
        "",
        "",
    ),
    "positions: negative": (positions(None, -1), "CORRUPT_DELETE_FILE", ".parquet", "deletes"),
    "positions: past the end": (positions(None, 1, 2**40), RIGHT, "", ""),
    "positions: path is not UTF-8": (positions(b"\xff\xfe", 1), "CORRUPT_DELETE_FILE", ".parquet", "deletes"),
    "positions: page CRC wrong": (positions(None, 1, crc=1), FILE, ".parquet", "deletes"),
    **{
        f"{content}: {file_format} {what}": (
            delete_file(content, file_format, change),
            code,
            f".{file_format}",
            "deletes",
        )
        for content in ("position", "equality")
        for file_format, damaged in {
            "parquet": "CORRUPT_PARQUET",
            "orc": FILE,
            "avro": "CORRUPT_DELETE_FILE",
        }.items()
        for what, change, code in (
            ("empty", lambda _: b"", damaged),
            ("cut off", lambda data: data[: len(data) * 2 // 3], damaged),
            ("of another format", lambda _: b"\0" * 500, damaged),
        )
    },
    **{
        f"{content}: ORC of an unknown version": (
            delete_file(content, "orc", other_orc_version),
            "UNSUPPORTED_ORC_VERSION",
            ".orc",
            "deletes",
        )
        for content in ("position", "equality")
    },
    **{
        f"{content}: bit flip in a page with a checksum": (
            delete_file(content, "parquet", flipped(60), page_checksums=True),
            FILE,
            ".parquet",
            "deletes",
        )
        for content in ("position", "equality")
    },
}
