"""Bounds of each page's values, from a Parquet file's ColumnIndex.

Takes the index's bytes; returns one `Bounds` for each data page, in the pages' order. The rule: an index that
is malformed, or disagrees with the page table about the number of pages, proves nothing.
Source: parquet-format, PageIndex.md and parquet.thrift.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from twostage.formats.parquet.file_metadata import Statistics
from twostage.formats.parquet.statistics import stored_bounds
from twostage.formats.parquet.thrift import ThriftError, read_struct
from twostage.predicates.bounds import Bounds

if TYPE_CHECKING:
    from twostage.formats.parquet.file_metadata import Footer
    from twostage.formats.parquet.pages import PageTable
    from twostage.formats.parquet.schema_tree import Leaf
    from twostage.schema import Primitive

MAX_PAGES_DECODED = 20_000
"""Bounds of a chunk with more pages are not decoded: each page costs some 3 µs."""


def page_bounds(
    raw: bytes, footer: Footer, leaf: Leaf, kind: Primitive, table: PageTable
) -> list[Bounds] | None:
    """Return the bounds of each page of a leaf that the scan reads as `kind`; None if nothing is known.

    Args:
        raw: The ColumnIndex.
        footer: The file's, which tells the order of the leaf's statistics.
        leaf: Outside lists and maps.
        kind: The field's type in the scan.
        table: The chunk's pages.
    """
    if leaf.max_repetition or len(table) > MAX_PAGES_DECODED:
        return None
    try:
        index, _ = read_struct(raw)
        null_pages, lowers, uppers = index[1], index[2], index[3]
        null_counts = index.get(5) or [None] * len(table)
    except (ThriftError, LookupError, TypeError):
        return None
    lists = (null_pages, lowers, uppers, null_counts)
    if not all(isinstance(one, list) and len(one) == len(table) for one in lists):
        return None  # in a damaged index, a number or text may be in place of a list
    found = []
    counts = table.row_counts.tolist()
    for is_null, lower, upper, nulls, rows in zip(
        null_pages, lowers, uppers, null_counts, counts, strict=True
    ):
        if is_null is True:
            found.append(Bounds(null_count=rows, value_count=rows))
        else:
            statistics = Statistics(minimum=lower, maximum=upper, null_count=nulls)
            found.append(stored_bounds(footer, leaf, kind, statistics, rows))
    return found
