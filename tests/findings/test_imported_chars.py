"""ORC's type char, in files of Hive: stored padded with spaces, which are no part of Iceberg's strings.

Iceberg's Java library reads the text without the spaces, and takes bounds from statistics of the padded text.
"""

from __future__ import annotations

import zlib
from pathlib import Path

import pytest

from check import Columns
from core_scan import Opened, open_table, scan
from tables import Table
from thrift_writer import varint
from twostage.formats.varint import read_varint
from twostage.predicates.predicate import TRUE, Compare, Predicate, StringMatch
from twostage.predicates.top import TopRows

STRING, CHAR = b"\x08\x07", b"\x08\x11"
"""A column's kind in an ORC footer."""
PADDED = ("ab   ", "b    ", "b\t   ", "     ", "x y  ")


def imported(folder: Path, *parts: tuple[str, ...]) -> Opened:
    """Return a table of ORC files with a column of type char(5), each with its own values."""
    table = Table(folder, {"id": "long", "c": "string"})
    with table.transaction():
        for number, values in enumerate(parts):
            rows = [{"id": 10 * number + i, "c": value} for i, value in enumerate(values)]
            declare_char(Path(table.append(rows, format="orc", compression="gzip").path))
    return open_table(table.write())


def declare_char(path: Path) -> None:
    """Make the only string column of an ORC file one of type char."""
    data = path.read_bytes()
    postscript = data[-1 - data[-1] :]
    length, used = read_varint(postscript, 1)
    begin = len(data) - len(postscript) - length
    footer = b""
    while begin < len(data) - len(
        postscript
    ):  # chunks, each behind its length and whether it is not compressed
        header = int.from_bytes(data[begin : begin + 3], "little")
        chunk = data[begin + 3 : begin + 3 + (header >> 1)]
        footer += chunk if header & 1 else zlib.decompress(chunk, wbits=-15)
        begin += 3 + len(chunk)
    assert footer.count(STRING) == 1
    footer = footer.replace(STRING, CHAR)
    footer = (len(footer) << 1 | 1).to_bytes(3, "little") + footer
    postscript = b"\x08" + varint(len(footer)) + postscript[used:-1]
    stripes = data[: len(data) - data[-1] - 1 - length]
    path.write_bytes(stripes + footer + postscript + bytes([len(postscript)]))


def texts(opened: Opened, predicate: Predicate = TRUE, top: TopRows | None = None) -> list[object]:
    rows = scan(opened, predicate=predicate, top=top).rows
    return sorted(str(row[1][1]) for row in rows)


def test_text_comes_without_padding(tmp_path: Path) -> None:
    assert texts(imported(tmp_path, PADDED)) == sorted(value.rstrip(" ") for value in PADDED)


@pytest.mark.parametrize("value", PADDED)
def test_bounds_of_padded_text_leave_out_no_file(value: str, tmp_path: Path) -> None:
    opened = imported(tmp_path, *((one,) for one in PADDED))
    c, text = Columns(opened.table.schema)("c"), value.rstrip(" ")
    assert texts(opened, Compare("=", c, text)) == [text]
    assert texts(opened, Compare("<=", c, text)) == sorted(
        one.rstrip(" ") for one in PADDED if one.rstrip(" ") <= text
    )
    assert texts(opened, Compare("=", c, value)) == []
    assert texts(opened, StringMatch("suffix", c, " ")) == []


def test_the_first_rows_by_text_without_padding(tmp_path: Path) -> None:
    opened = imported(tmp_path, ("b\t   ",), ("b    ",))
    c = Columns(opened.table.schema)("c")
    for descending, first in ((False, "b"), (True, "b\t")):
        top = TopRows(column=c, count=1, descending=descending, nulls_first=False)
        assert first in texts(opened, top=top)
