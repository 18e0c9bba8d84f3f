"""What a Parquet file's footer says, as plain values.

`footer.py` reads and checks it, so that users of a `Footer` may rely on it. Numbers and names are those of
parquet.thrift.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from twostage.formats.parquet.schema_tree import Leaf, SchemaNode

MAGIC = b"PAR1"
CODECS = ("UNCOMPRESSED", "SNAPPY", "GZIP", "LZO", "BROTLI", "LZ4", "ZSTD", "LZ4_RAW")
"""By their number in parquet.thrift."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Statistics:
    """Statistics of a column chunk or a page as stored: plain-encoded bytes, None for what is not stored.

    `minimum` and `maximum` follow the column's own order; `old_minimum` and `old_maximum` are the deprecated fields,
    which compare values as signed whatever their type.
    """

    minimum: bytes | None = None
    maximum: bytes | None = None
    old_minimum: bytes | None = None
    old_maximum: bytes | None = None
    null_count: int | None = None
    minimum_exact: bool | None = None
    maximum_exact: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnChunk:
    """One leaf's data in one row group. Offsets are from the file's start; None if the file lacks the part."""

    codec: int
    encodings: tuple[int, ...]
    num_values: int
    compressed_size: int
    uncompressed_size: int
    data_page_offset: int
    dictionary_page_offset: int | None
    statistics: Statistics | None
    encoding_stats: tuple[tuple[int, int, int], ...] | None
    """Triples: page type, encoding, number of pages."""
    bloom_filter_offset: int | None
    bloom_filter_length: int | None
    offset_index: tuple[int, int] | None
    """Offset and length, in bytes."""
    column_index: tuple[int, int] | None
    text_size: int = 0
    """Bytes of all byte arrays without their lengths (`unencoded_byte_array_data_bytes`); 0 if not stored."""

    @property
    def decoded_size(self) -> int:
        """A lower bound of the bytes that the decoded values take; a dictionary or run lengths make chunks far smaller."""
        return max(self.uncompressed_size, 4 * self.num_values + self.text_size)

    @property
    def start(self) -> int:
        """The offset of the chunk's first page."""
        dictionary = self.dictionary_page_offset
        return self.data_page_offset if dictionary is None else min(dictionary, self.data_page_offset)

    @property
    def dictionary_size(self) -> int:
        """The bytes before the first data page."""
        return min(self.data_page_offset - self.start, self.compressed_size)

    @property
    def codec_name(self) -> str:
        """The codec's name in the Parquet format, such as ``ZSTD``."""
        return CODECS[self.codec]


@dataclass(frozen=True, slots=True, kw_only=True)
class RowGroupMetadata:
    """A row group. Its chunks are in the order of the leaves; `first_row` is its first row's position in the file."""

    index: int
    num_rows: int
    first_row: int
    compressed_bytes: int
    start: int
    """Offset of its first page, which decides the split that reads it."""
    columns: tuple[ColumnChunk, ...]
    stated_bytes: int | None = None
    """`compressed_bytes` as stated in the footer, if they are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Footer:
    """A file's footer. `ordered` tells for each leaf whether its statistics follow the order of its type (TypeDefinedOrder)."""

    path: str
    file_size: int
    num_rows: int
    created_by: str | None
    schema: SchemaNode
    leaves: tuple[Leaf, ...]
    row_groups: tuple[RowGroupMetadata, ...]
    ordered: tuple[bool, ...]
    key_values: dict[str, str]
    offset: int
    """Where the encoded metadata begins."""
    raw: bytes
    """The encoded metadata (Thrift), without the length and the magic bytes after it."""
    maps_as_lists: frozenset[tuple[int, int]] = frozenset()
    """Maps declared to Arrow as lists of pairs (see `arrow_footer`): first leaf, and one after the last."""

    def alone(self) -> bytes:
        """Return a Parquet file of this footer alone, for libraries that do not accept a bare footer."""
        return MAGIC + self.raw + len(self.raw).to_bytes(4, "little") + MAGIC

    def indexes_start(self) -> int:
        """Return where the page indexes begin: they lie together, directly before the footer."""
        places = [
            place[0]
            for group in self.row_groups
            for chunk in group.columns
            for place in (chunk.offset_index, chunk.column_index)
            if place is not None
        ]
        return min(places, default=self.offset)

    def leaf_of(self, field_id: int) -> Leaf | None:
        """Return the one leaf with this field id; None if there is none, or more than one."""
        found = [leaf for leaf in self.leaves if leaf.field_id == field_id]
        return found[0] if len(found) == 1 else None
