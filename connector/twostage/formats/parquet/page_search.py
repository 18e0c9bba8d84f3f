"""Which plain-encoded pages of text cannot hold what a predicate looks for.

Takes a predicate about one column of text, and pages as they lie in the file; tells which pages hold none of
its bytes. A plain-encoded page holds its texts one after the other, each after its length, so bytes that
occur nowhere in the page are in none of them. Searching takes a third of the time of decoding and comparing.
The rule: any doubt is True, and the decoder reports what is wrong with a page.
Source: parquet-format, Encodings.md, "Plain".
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

from twostage.formats.parquet.dictionary import DAMAGED, PLAIN
from twostage.formats.parquet.page_bytes import decompress
from twostage.predicates.predicate import Column, Compare, In, StringMatch
from twostage.schema import Primitive

if TYPE_CHECKING:
    from collections.abc import Sequence

    from twostage.formats.parquet.pages import PageHeader
    from twostage.predicates.predicate import Predicate

MAX_LITERALS = 4
"""Of an IN list: each search takes a tenth of the time of decoding."""
MIN_PATTERN_BYTES = 3
"""Of the text of a LIKE: shorter ones occur in nearly every page."""
MAX_PAGE_BYTES = 8 * 2**20
"""Of a page, decompressed: larger ones are left to the decoder."""


def sought(predicate: Predicate) -> tuple[Column, tuple[bytes, ...]] | None:
    """Return a predicate's column, and bytes of which each matching row holds at least one; None for other predicates.

    >>> column = Column(1, ("c",), Primitive("string"))
    >>> sought(Compare("=", column, "ab"))[1], sought(StringMatch("prefix", column, "abc"))[1]
    ((b'\\x02\\x00\\x00\\x00ab',), (b'abc',))
    """
    match predicate:
        case Compare("=" | "<=>", column, str() as value):
            values, is_whole = (value,), True
        case In(column, values) if 0 < len(values) <= MAX_LITERALS and all(type(v) is str for v in values):
            is_whole = True
        case StringMatch(_, column, str() as value):
            values, is_whole = (value,), False
        case _:
            return None
    if column.value_type != Primitive("string"):
        return None
    found = tuple(value.encode("utf-8", "surrogatepass") for value in values)
    if is_whole:
        return column, tuple(len(text).to_bytes(4, "little") + text for text in found)
    return (column, found) if len(found[0]) >= MIN_PATTERN_BYTES else None


def may_hold(
    header: PageHeader, body: memoryview, codec: str, texts: Sequence[bytes], *, verify: bool
) -> bool:
    """Tell whether a data page may hold one of some texts.

    Args:
        header: The page's header.
        body: Its bytes after the header.
        codec: The chunk's codec.
        texts: What `sought` returned.
        verify: Whether a page with a wrong checksum is left to the decoder.
    """
    if header.encoding != PLAIN or header.decoded_size > MAX_PAGE_BYTES:
        return True
    if verify and header.checksum is not None and zlib.crc32(body) != header.checksum & 0xFFFFFFFF:
        return True
    before = sum(header.level_sizes)
    packed, size = body[before:], header.decoded_size - before
    try:
        plain = decompress(codec if header.is_compressed else "UNCOMPRESSED", packed, size)
    except DAMAGED:
        return True
    if plain is None:
        return True
    searched = plain.obj if isinstance(plain.obj, bytes) and len(plain.obj) == len(plain) else bytes(plain)
    return any(text in searched for text in texts)
