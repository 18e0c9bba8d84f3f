"""Damaged Parquet data files by name: the bytes, and what reading them must come to.

Takes nothing; gives `PARQUET`: name, bytes, the error's code (None: the rows are right) and its stage.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
from made_parquet import (
    INT32,
    RLE_DICTIONARY,
    ZSTD,
    element,
    id_column,
    indices,
    leaf,
    longs,
    made,
    page,
    text_column,
    texts,
)

if TYPE_CHECKING:
    from collections.abc import Callable

RIGHT = None
ABC = page(texts(b"a", b"b", b"c"), 3, dictionary=True)
OTHER_ROWS = {"column missing": [(1, None), (2, None), (3, None)]}
"""The right rows of cases where they are not the usual ones."""
GOOD = made()
FOOTER = int.from_bytes(GOOD[-8:-4], "little")


def text_pages(body: bytes, **header: int) -> bytes:
    return made(id_column(), text_column(page(body, 3, **header)))


def with_dictionary(*places: int, dictionary: bytes = ABC, width: int = 2) -> bytes:
    pages = page(indices(*places, width=width), len(places), encoding=RLE_DICTIONARY)
    return made(id_column(), text_column(pages, dictionary=dictionary))


def packed(unpacked: int, **header: int) -> bytes:
    """Return a data page of zeros that zstd packs a thousandfold."""
    body = pa.Codec("zstd").compress(bytes(unpacked), asbytes=True)
    return page(body, unpacked // 8, **({"unpacked": unpacked} | header))


def bomb_of_pages() -> bytes:
    """Return some 400 kB that unpack to 4 GiB in 64 pages, and say so: 536,870,912 rows of 0."""
    count = 64
    rows = count * 2**23
    pages = packed(2**26) * count
    return made(id_column(pages, codec=ZSTD, values=rows, said={6: ("i64", rows * 8)}), rows=rows)


def bomb_of_one_page() -> bytes:
    """Return a page that says it unpacks to 2,047 MiB, in a footer that says 24 bytes."""
    body = pa.Codec("zstd").compress(longs(1, 2, 3) + bytes(2**27), asbytes=True)
    bomb = page(body, 3, unpacked=2047 * 2**20)
    return made(id_column(bomb, codec=ZSTD), text_column())


def bomb_of_a_dictionary() -> bytes:
    """Return a dictionary with a text of 1 MiB and a page that repeats it 65,536 times: 64 GiB of text."""
    rows = 2**16
    body = bytes([1, *b"\x80\x80\x08", 0])  # one run of 65,536 times the first
    texts_ = text_column(
        page(body, rows, encoding=RLE_DICTIONARY),
        dictionary=page(texts(b"x" * 2**20), 1, dictionary=True),
        values=rows,
    )
    return made(id_column(page(longs(*range(rows)), rows), values=rows), texts_, rows=rows)


def many_columns(count: int = 100_000) -> bytes:
    """Return a file of so many columns besides ``id`` and ``text``, in one row group."""
    columns = [id_column(), text_column()]
    columns += [id_column(name=b"c%d" % number, field_id=number + 10) for number in range(count)]
    return made(*columns)


def nested(depth: int) -> bytes:
    groups = [element(b"g", children=1, repetition=1) for _ in range(depth)]
    return made(
        schema=[
            element(b"root", children=3),
            leaf(id_column()),
            leaf(text_column()),
            *groups,
            leaf(id_column(name=b"x")),
        ]
    )


PARQUET: dict[str, tuple[bytes, str | None, str]] = {
    "nothing is wrong": (GOOD, RIGHT, ""),
    "empty": (b"", "CORRUPT_PARQUET", "prune"),
    "four bytes": (b"PAR1", "CORRUPT_PARQUET", "prune"),
    "bad magic": (GOOD[:-4] + b"PAR2", "CORRUPT_PARQUET", "prune"),
    "bad magic at the start only": (b"XXXX" + GOOD[4:], RIGHT, ""),
    "footer length 0": (made(footer_length=0), "CORRUPT_PARQUET", "prune"),
    "footer length huge": (made(footer_length=2**31 - 1), "CORRUPT_PARQUET", "prune"),
    "footer length negative": (made(footer_length=-1), "CORRUPT_PARQUET", "prune"),
    "footer length one less": (made(footer_length=FOOTER - 1), "CORRUPT_PARQUET", "prune"),
    "footer garbage": (
        GOOD[:80] + b"\x99" * 60 + (60).to_bytes(4, "little") + b"PAR1",
        "CORRUPT_PARQUET",
        "prune",
    ),
    "cut in the middle": (GOOD[: len(GOOD) // 2], "CORRUPT_PARQUET", "prune"),
    "encrypted": (GOOD[:-4] + b"PARE", "ENCRYPTED_PARQUET", "prune"),
    "codec unknown": (
        made(id_column(said={4: ("i32", 17)}), text_column()),
        "UNSUPPORTED_CODEC",
        "prune",
    ),
    "codec another": (made(id_column(said={4: ("i32", 6)}), text_column()), "CORRUPT_FILE", "fetch"),
    "row-group offset past the end": (
        made(id_column(said={9: ("i64", 2**40)}), text_column()),
        "CORRUPT_PARQUET",
        "prune",
    ),
    "row-group offset negative": (
        made(id_column(said={9: ("i64", -8)}), text_column()),
        "CORRUPT_PARQUET",
        "prune",
    ),
    "pages into the footer": (
        made(id_column(said={7: ("i64", 10_000)}), text_column()),
        "CORRUPT_PARQUET",
        "prune",
    ),
    "rows disagree with the footer": (made(rows=4, group_rows=3), "CORRUPT_PARQUET", "prune"),
    "values disagree with the rows": (made(id_column(values=2), text_column()), "CORRUPT_PARQUET", "prune"),
    "negative rows": (made(rows=-3), "CORRUPT_PARQUET", "prune"),
    "page holds fewer rows": (
        made(id_column(page(longs(1, 2), 2)), text_column()),
        "CORRUPT_FILE|CORRUPT_DATA_FILE",
        "fetch",
    ),
    "page is shorter than its values": (
        made(id_column(page(longs(1, 2), 3)), text_column()),
        "CORRUPT_FILE",
        "fetch",
    ),
    "column's chunk missing": (made(chunks=1), "CORRUPT_PARQUET", "prune"),
    "column missing": (made(id_column()), RIGHT, ""),
    "required column missing": (made(text_column()), "NULL_IN_REQUIRED_COLUMN", "fetch"),
    "duplicate field ids": (
        made(id_column(), id_column(name=b"other"), text_column()),
        "DUPLICATE_FIELD_ID",
        "open",
    ),
    "wrong physical type": (
        made(text_column(name=b"id", field_id=1), text_column()),
        "TYPE_MISMATCH",
        "fetch",
    ),
    "physical type unlike the schema's": (
        made(id_column(said={1: ("i32", INT32)}), text_column()),
        "CORRUPT_PARQUET",
        "prune",
    ),
    "physical type unknown": (made(id_column(physical=12), text_column()), "CORRUPT_PARQUET", "prune"),
    "page CRC wrong": (text_pages(texts(b"a", b"b", b"c"), crc=12345), "CORRUPT_FILE", "fetch"),
    "dictionary page CRC wrong": (
        with_dictionary(0, 1, 2, dictionary=page(texts(b"a", b"b", b"c"), 3, dictionary=True, crc=12345)),
        "CORRUPT_FILE",
        "fetch",
    ),
    "dictionary is right": (with_dictionary(0, 1, 2), RIGHT, ""),
    "dictionary index out of range": (with_dictionary(0, 1, 3), "CORRUPT_FILE", "fetch"),
    "dictionary index width 33": (with_dictionary(0, 1, 2, width=33), "CORRUPT_FILE", "fetch"),
    "dictionary missing": (with_dictionary(0, 1, 2, dictionary=b""), "CORRUPT_FILE", "fetch"),
    "dictionary with fewer values than it says": (
        with_dictionary(0, 1, 2, dictionary=page(texts(b"a", b"b"), 3, dictionary=True)),
        "CORRUPT_FILE",
        "fetch",
    ),
    "invalid UTF-8": (text_pages(texts(b"a", b"\xff\xfe", b"c")), "CORRUPT_DATA_FILE", "fetch"),
    "invalid UTF-8 in a dictionary": (
        with_dictionary(0, 1, 2, dictionary=page(texts(b"a", b"\xc3", b"c"), 3, dictionary=True)),
        "CORRUPT_DATA_FILE",
        "fetch",
    ),
    "text longer than its page": (
        text_pages(texts(b"a", b"b") + b"\xff\xff\xff\x7fc"),
        "CORRUPT_FILE",
        "fetch",
    ),
    "page size negative": (text_pages(texts(b"a", b"b", b"c"), packed=-1), "CORRUPT_FILE", "fetch"),
    "page size huge": (text_pages(texts(b"a", b"b", b"c"), packed=2**31 - 1), "CORRUPT_FILE", "fetch"),
    "page header garbage": (made(id_column(b"\x99" * 40), text_column()), "CORRUPT_FILE", "fetch"),
    "page type unknown": (
        made(id_column(page(longs(1, 2, 3), 3).replace(b"\x15\x00", b"\x15\x12", 1)), text_column()),
        "CORRUPT_DATA_FILE",
        "fetch",
    ),
    "nesting 1,000 deep": (nested(1_000), "CORRUPT_PARQUET", "prune"),
    "schema without end": (made(schema=[element(b"root", children=2**31 - 1)]), "CORRUPT_PARQUET", "prune"),
    "column in another file": (
        made(id_column(chunk={1: ("binary", b"other.parquet")}), text_column()),
        "EXTERNAL_COLUMN_CHUNK",
        "prune",
    ),
}

BOMBS: dict[str, Callable[[], bytes]] = {
    "bomb of pages: 400 kB to 4 GiB": bomb_of_pages,
    "bomb of one page: 2 GiB said": bomb_of_one_page,
    "bomb of a dictionary: 1 MiB 65,536 times": bomb_of_a_dictionary,
    "100,000 columns": many_columns,
}
