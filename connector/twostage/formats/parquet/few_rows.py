"""Takes a few rows out of a flat column's pages without decoding the rows between them.

Takes pages as they are in the file, and which rows of each are wanted; returns one Arrow array of these rows,
of the type that pyarrow returns. The rule: right values or None; pyarrow then decodes the pages whole, and
reports what is wrong with them, if anything is. A needle over 120 columns takes a quarter less CPU this way,
without Spark; half of the remaining time is decompression.
Source: parquet-format, Encodings.md and "Data Pages" in README.md.
"""

from __future__ import annotations

import functools
import zlib
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from twostage.formats.parquet import plain_values
from twostage.formats.parquet.dictionary import DAMAGED
from twostage.formats.parquet.dictionary_lookup import (
    MAX_SLICES,
    ByteArrays,
    FixedWidthValues,
    fixed_width_values,
    read_dictionary,
)
from twostage.formats.parquet.page_bytes import decompress, first_bytes
from twostage.formats.parquet.schema_tree import BYTE_ARRAY, Leaf
from twostage.formats.promotion import MAX_TEXT_BYTES
from twostage.formats.varint import read_varint, write_varint
from twostage_native.page_values import codes_at, ranks_at, text_ends

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from twostage.formats.parquet.file_metadata import ColumnChunk
    from twostage.formats.parquet.pages import PageHeader
    from twostage.formats.parquet.schema_tree import LogicalType

MIN_ROWS_READ_PER_ROW_TAKEN = 64
"""With at least as many rows in the pages read for each wanted one, rows are taken out one by one."""
_PLAIN, _RLE = 0, 3
_DICTIONARY = (2, 8)
_MAX_CODE_BITS = 32
_BLOCK_BYTES = 128 * 2**10
"""Of a Zstandard block, decompressed."""
_MAX_USUAL_LEVEL_BYTES = 10
"""Of the levels of a page without NULLs: their length (4), the length of one run (at most 5), the repeated level (1)."""
CODES_SECONDS, TEXTS_SECONDS = 9e-9, 9e-9
"""Saved for each row of the pages read if compiled code takes text out of pages, compared with pyarrow
decoding the codes, or the texts. Decides when compiling pays off."""
_MIN_ROWS_PER_TEXT = 4
"""With at least as many rows in the pages read for each text of the dictionary, NumPy (before anything is
compiled) takes rows out of pages at most twice as slowly as pyarrow decodes them."""


class WantedPage(NamedTuple):
    """A data page: header, bytes after it, and the wanted rows (int64, ascending, from the page's first)."""

    header: PageHeader
    body: memoryview
    rows: NDArray[np.int64]


def take_rows(
    leaf: Leaf,
    chunk: ColumnChunk,
    dictionary: memoryview | None,
    pages: Sequence[WantedPage],
    kind: pa.DataType,
    *,
    verify_checksums: bool,
    always: bool = False,
) -> pa.Array | None:
    """Return the wanted rows of all pages; None if pyarrow has to decode them.

    Args:
        leaf: The column.
        chunk: Its column chunk.
        dictionary: The dictionary page, header included; None without one.
        pages: The pages that hold wanted rows, in file order.
        kind: The type that pyarrow gives.
        verify_checksums: Whether pages with a wrong CRC-32 are left to pyarrow.
        always: Take text even before its kernel is compiled, when pyarrow is faster.
    """
    if len(leaf.path) > 1 or leaf.max_repetition or leaf.max_definition > 1:
        return None
    max_texts: int | None = None
    num_rows = 0
    if leaf.physical == BYTE_ARRAY:
        if not always and not text_ends.is_ready(0):
            num_rows = sum(page.header.num_values for page in pages)
            max_texts = num_rows // _MIN_ROWS_PER_TEXT if dictionary is not None else 0
    elif plain_values.width_of(leaf) == 0:
        return None
    try:
        if _type_of(leaf.physical, leaf.type_length, leaf.logical) != kind:
            return None
        lookup = None
        if dictionary is not None and max_texts != 0:
            lookup = read_dictionary(dictionary, leaf, chunk, max_texts, verify=verify_checksums)
        if lookup is None and (dictionary is not None or max_texts is not None):
            if max_texts is not None:
                text_ends.is_ready((TEXTS_SECONDS if dictionary is None else CODES_SECONDS) * num_rows)
            return None
        values: list[bytes] = []
        size = 0
        defined: list[NDArray[np.bool_] | None] = []
        codec, max_definition, width = chunk.codec_name, leaf.max_definition, plain_values.width_of(leaf)
        for page in pages:
            if verify_checksums and not _is_intact(page):
                return None
            found: tuple[list[bytes], NDArray[np.bool_] | None] | None = None
            if codec == "ZSTD" and width and page.header.encoding == _PLAIN:
                found = _take_early(page, max_definition, width, is_verified=verify_checksums)
            if found is None:
                found = _take(page, max_definition, width, codec, lookup)
            if found is None:
                return None
            taken, present = found
            values += taken
            size += sum(map(len, taken))
            if size > MAX_TEXT_BYTES:
                return None
            defined.append(present)
        array = _array(values, leaf)
    except DAMAGED:
        return None
    if array is None or not any(present is not None for present in defined):
        return array
    everywhere = np.concatenate(
        [
            np.ones(len(page.rows), np.bool_) if present is None else present
            for page, present in zip(pages, defined, strict=True)
        ]
    )
    return array.take(pa.array(np.cumsum(everywhere) - 1, mask=~everywhere))


@functools.lru_cache(maxsize=1024)
def _type_of(physical: int, type_length: int, logical: LogicalType | None) -> pa.DataType | None:
    """Return the type of the array that rows of such a leaf make; None for leaves that are left to pyarrow."""
    leaf = Leaf(
        index=0, path=("",), field_id=None, physical=physical, type_length=type_length, logical=logical,
        repetition="required", max_definition=0, max_repetition=0,
    )  # fmt: skip
    array = _array([], leaf)
    return None if array is None else array.type


def _is_intact(page: WantedPage) -> bool:
    checksum = page.header.checksum
    return checksum is None or zlib.crc32(page.body) == checksum & 0xFFFFFFFF


def _array(values: Sequence[bytes], leaf: Leaf) -> pa.Array | None:
    if leaf.physical == BYTE_ARRAY:
        return plain_values.texts(values, leaf)
    plain = b"".join(values)
    return plain_values.decode(memoryview(plain), len(plain) // plain_values.width_of(leaf), leaf)


def _take(
    page: WantedPage,
    max_definition: int,
    width: int,
    codec: str,
    lookup: FixedWidthValues | ByteArrays | None,
) -> tuple[list[bytes], NDArray[np.bool_] | None] | None:
    """Return the values of a page's wanted non-NULL rows, and which rows these are; None if left to pyarrow.

    Args:
        page: The page.
        max_definition: 1 if values may be NULL, else 0.
        width: Bytes of a value; 0 for byte arrays.
        codec: The chunk's.
        lookup: The dictionary's values.

    Returns:
        The values, joined in any number of pieces; and a bool for each wanted row, or None if none is NULL.
    """
    header = page.header
    sections = _sections(page, max_definition, codec)
    if sections is None:
        return None
    levels, plain = sections
    ranks, num_values = page.rows, header.num_values
    present: NDArray[np.bool_] | None = None
    if levels is not None and not _are_all_set(levels, num_values):
        places = ranks_at(np.frombuffer(levels, np.uint8), num_values, page.rows)
        num_values = int(places[-1])
        if num_values < 0:
            return None
        present = places[:-1] >= 0
        ranks = places[:-1][present]
        if not len(ranks):
            return [], present
    if header.encoding in _DICTIONARY:
        if lookup is None or not plain or plain[0] > _MAX_CODE_BITS:
            return None
        codes = codes_at(np.frombuffer(plain, np.uint8, offset=1), plain[0], num_values, ranks)
        # A code that cannot be decoded is -1, which is the largest unsigned number.
        if int(np.maximum.reduce(codes.view(np.uint64))) >= len(lookup):
            return None
        return lookup.look_up(codes), present
    if header.encoding != _PLAIN:
        return None
    if width == 0:
        texts = ByteArrays(plain, num_values)
        return (texts.look_up(ranks), present) if len(texts) == num_values else None
    if len(plain) < num_values * width or ranks.item(-1) >= num_values:
        return None
    return fixed_width_values(plain, num_values, width, ranks), present


def _take_early(
    page: WantedPage, max_definition: int, width: int, *, is_verified: bool
) -> tuple[list[bytes], None] | None:
    """Return the values of a page's wanted rows, one each, from its first bytes; None if the whole page is needed.

    The first bytes are enough if no value of the page is NULL and at least one block of 128 KiB follows the
    last wanted value.
    """
    header, rows = page.header, page.rows
    last = rows.item(-1)
    if last >= header.num_values or len(rows) > MAX_SLICES or header.level_encoding not in (None, _RLE):
        return None
    body, levels_size, start = page.body, 0, 0
    if header.level_encoding is None:
        repetition, definition = header.level_sizes
        if repetition or bool(definition) != bool(max_definition) or not header.is_compressed:
            return None
        if definition and not _are_all_set(body[:definition], header.num_values):
            return None
        body, levels_size = body[definition:], definition
    elif max_definition:
        start = _MAX_USUAL_LEVEL_BYTES
    size = start + (last + 1) * width
    if (size - 1) // _BLOCK_BYTES >= (header.decoded_size - levels_size - 1) // _BLOCK_BYTES:
        return None
    plain = first_bytes(body, size, is_verified=is_verified and header.checksum is not None)
    if plain is None:
        return None
    if start:
        usual = _levels_of_all(header.num_values)
        end = len(usual)
        if plain[:end] != usual:
            end = 4 + int.from_bytes(plain[:4], "little")
            if end > start or not _are_all_set(plain[4:end], header.num_values):
                return None
        start = end
    return [bytes(plain[start + row * width : start + (row + 1) * width]) for row in rows.tolist()], None


@functools.lru_cache(maxsize=1024)
def _levels_of_all(count: int) -> bytes:
    """Return the definition levels that writers give a page of version 1 without NULLs: their length, and one run."""
    run = write_varint(count << 1) + b"\x01"
    return len(run).to_bytes(4, "little") + run


def _are_all_set(levels: memoryview, count: int) -> bool:
    """Tell whether levels of one bit begin with a run of at least `count` ones, as pages without NULLs are written."""
    try:
        number, end = read_varint(levels[:5], 0)
    except ValueError:
        return False
    is_run = number & 1 == 0 and number >> 1 >= count > 0
    return is_run and end < len(levels) and levels[end] == 1


def _sections(
    page: WantedPage, max_definition: int, codec: str
) -> tuple[memoryview | None, memoryview] | None:
    """Return a page's definition levels (None if no value is NULL) and values; None if it is malformed."""
    header, body = page.header, page.body
    if header.level_encoding is None:
        repetition, definition = header.level_sizes
        if repetition or bool(definition) != bool(max_definition) or definition > len(body):
            return None
        packed, size = body[definition:], header.decoded_size - definition
        is_plain = not header.is_compressed or codec == "UNCOMPRESSED"
        values = packed if is_plain else decompress(codec, packed, size) if size else memoryview(b"")
        return None if values is None else (body[:definition] if definition else None, values)
    plain = decompress(codec, body, header.decoded_size)
    if plain is None or not max_definition:
        return None if plain is None else (None, plain)
    usual = _levels_of_all(header.num_values)
    if header.level_encoding == _RLE and header.num_values and plain[: len(usual)] == usual:
        return None, plain[len(usual) :]
    end = 4 + int.from_bytes(plain[:4], "little")
    if header.level_encoding != _RLE or end > len(plain):
        return None
    return plain[4:end], plain[end:]
