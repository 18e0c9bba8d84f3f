"""Reads a Parquet file's footer, without pyarrow.

Takes an open file and its size; returns a `Footer` of plain values: the leaves of the schema, the row groups,
and where each column chunk's pages and indexes are, its encodings and statistics. The rule: what is returned
is consistent (counts add up, offsets lie inside the file) and safe to hand to pyarrow, which aborts the
process on encrypted columns and unknown codecs; everything else is a typed error that names the file.
Source: parquet-format, README.md ("File format") and parquet.thrift.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

from twostage.errors import CorruptFileError, UnsupportedFeatureError
from twostage.formats.parquet.file_metadata import (
    CODECS,
    MAGIC,
    ColumnChunk,
    Footer,
    RowGroupMetadata,
    Statistics,
)
from twostage.formats.parquet.schema_tree import read_schema
from twostage.formats.parquet.thrift import ThriftError, read_struct

if TYPE_CHECKING:
    import pyarrow as pa

    from twostage.formats.parquet.schema_tree import Leaf

ENCRYPTED_MAGIC = b"PARE"
FIRST_READ = 64 * 1024
"""Bytes: enough for 50 columns in eight row groups. A wider file takes a second request."""
MAX_FOOTER_BYTES = 128 * 2**20
_STAGE = "prune"


def read_footer(file: pa.NativeFile, size: int, path: str) -> Footer:
    """Read and check the footer; see `read_end`."""
    return read_end(file, size, path)[0]


def read_end(
    file: pa.NativeFile, size: int, path: str, first_read: int = FIRST_READ
) -> tuple[Footer, tuple[int, bytes]]:
    """Read and check the footer: one read at the end of the file, or two if that was too short.

    Args:
        file: Open for random access; errors of the transport pass through.
        size: The file's size in bytes.
        path: For error messages.
        first_read: Bytes of the first read.

    Returns:
        The footer, and the end of the file as far as it was read: offset and bytes.

    Raises:
        CorruptFileError: The bytes are not a Parquet footer, or contradict themselves or the file's size.
        UnsupportedFeatureError: Encrypted, in several files, or compressed by an unknown codec.
    """
    if size < 12:
        _corrupt(path, f"File is too short for Parquet: {size} bytes")
    tail = _read(file, max(0, size - first_read), min(size, first_read), path)
    magic = tail[-4:]
    if magic == ENCRYPTED_MAGIC:
        _unsupported(path, "ENCRYPTED_PARQUET", "File is encrypted")
    if magic != MAGIC:
        _corrupt(path, f"File does not end as Parquet does: {magic!r} at byte {size - 4}")
    length = int.from_bytes(tail[-8:-4], "little")
    if not 0 < length <= min(size - 12, MAX_FOOTER_BYTES):
        _corrupt(path, f"Footer length is out of range: {length} of {size} bytes")
    if length + 8 > len(tail):
        tail = _read(file, size - 8 - length, length + 8 - len(tail), path) + tail
    return parse_footer(tail[-8 - length : -8], size, path), (size - len(tail), tail)


def parse_footer(raw: bytes, file_size: int, path: str) -> Footer:
    """Parse a footer's metadata, the bytes between the pages and the footer's length.

    Raises:
        CorruptFileError: See `read_end`.
        UnsupportedFeatureError: See `read_end`.
    """
    try:
        return _Parser(path, file_size, file_size - 8 - len(raw)).footer(raw)
    except ThriftError as error:
        _corrupt(path, f"Footer is malformed: {error}")
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError) as error:
        _corrupt(path, f"Footer is malformed: {error!r}")


def _read(file: pa.NativeFile, offset: int, length: int, path: str) -> bytes:
    data: bytes = file.read_at(length, offset)
    if len(data) != length:
        _corrupt(path, f"File is shorter than its metadata says: byte {offset + len(data)} is its end")
    return data


def _corrupt(path: str, message: str) -> NoReturn:
    raise CorruptFileError(
        "CORRUPT_PARQUET",
        message,
        path=path,
        stage=_STAGE,
        hint="Restore the file, or drop it from the table.",
    )


def _unsupported(path: str, code: str, message: str) -> NoReturn:
    raise UnsupportedFeatureError(code, message, path=path, stage=_STAGE)


class _Parser:
    """Turns the footer's Thrift fields, by their numbers in parquet.thrift, into values, and checks each."""

    def __init__(self, path: str, file_size: int, offset: int) -> None:
        self.path = path
        self.file_size = file_size
        self.offset = offset
        self.names: list[list[bytes]] = []

    def footer(self, raw: bytes) -> Footer:
        meta, _ = read_struct(raw)
        if 8 in meta or 9 in meta:
            _unsupported(self.path, "ENCRYPTED_PARQUET", "File has encrypted columns")
        schema, leaves = read_schema(meta[2])
        self.names = [[name.encode() for name in leaf.path] for leaf in leaves]
        groups: list[RowGroupMetadata] = []
        first_row = 0
        for index, group in enumerate(meta[4]):
            groups.append(self.row_group(index, group, leaves, first_row))
            first_row += groups[-1].num_rows
        num_rows = meta[3]
        if num_rows != first_row:
            _corrupt(self.path, f"Row groups hold {first_row} rows, the footer says: {num_rows}")
        orders = meta.get(7)
        ordered = [isinstance(order, dict) and 1 in order for order in orders or ()]
        created_by = meta.get(6)
        return Footer(
            path=self.path,
            file_size=self.file_size,
            num_rows=num_rows,
            created_by=None if created_by is None else created_by.decode("utf-8", "replace"),
            schema=schema,
            leaves=leaves,
            row_groups=tuple(groups),
            ordered=tuple(ordered) if len(ordered) == len(leaves) else (False,) * len(leaves),
            key_values={
                pair[1].decode("utf-8", "replace"): pair.get(2, b"").decode("utf-8", "replace")
                for pair in meta.get(5, ())
            },
            offset=self.offset,
            raw=raw,
        )

    def row_group(
        self, index: int, group: dict[int, Any], leaves: tuple[Leaf, ...], first_row: int
    ) -> RowGroupMetadata:
        chunks, num_rows = group[1], group[3]
        if type(num_rows) is not int or num_rows < 0:
            _corrupt(self.path, f"Row group {index} has a bad number of rows: {num_rows}")
        if len(chunks) != len(leaves):
            _corrupt(self.path, f"Row group {index} has {len(chunks)} columns, the schema: {len(leaves)}")
        columns = tuple(
            [self.chunk(index, num_rows, leaf, chunk) for leaf, chunk in zip(leaves, chunks, strict=True)]
        )
        return RowGroupMetadata(
            index=index,
            num_rows=num_rows,
            first_row=first_row,
            compressed_bytes=sum([column.compressed_size for column in columns]),
            start=min([column.start for column in columns if column.num_values], default=len(MAGIC)),
            columns=columns,
            stated_bytes=group.get(6),
        )

    def chunk(self, group: int, num_rows: int, leaf: Leaf, chunk: dict[int, Any]) -> ColumnChunk:
        if 8 in chunk or 9 in chunk:
            _unsupported(self.path, "ENCRYPTED_PARQUET", "File has encrypted columns")
        if chunk.get(1):
            _unsupported(self.path, "EXTERNAL_COLUMN_CHUNK", f"Column lies in another file: {chunk[1]!r}")
        meta = chunk[3]
        codec, num_values, compressed, uncompressed = meta[4], meta[5], meta[7], meta[6]
        data_page, dictionary_page = meta[9], meta.get(11)
        if meta[1] != leaf.physical:
            self.bad(group, leaf, f"physical type {meta[1]}, the schema's is {leaf.physical}")
        if meta[3] != self.names[leaf.index]:
            self.bad(group, leaf, f"its chunk is of column {b'.'.join(meta[3])!r}")
        if not 0 <= codec < len(CODECS):
            _unsupported(self.path, "UNSUPPORTED_CODEC", f"Column is compressed by unknown codec: {codec}")
        if num_values < 0 or compressed < 0 or uncompressed < 0:
            self.bad(group, leaf, f"{num_values} values in {compressed} of {uncompressed} bytes")
        if leaf.max_repetition == 0 and num_values != num_rows:
            self.bad(group, leaf, f"{num_values} values in {num_rows} rows")
        if dictionary_page is not None and dictionary_page <= 0:
            dictionary_page = None  # some writers store 0 where there is none
        if num_values:
            start = data_page if dictionary_page is None else min(dictionary_page, data_page)
            if start < 4 or start + compressed > self.offset or data_page >= self.offset:
                self.bad(group, leaf, f"bytes {start} to {start + compressed} of {self.file_size}")
        bloom = self.place(meta.get(14), meta.get(15, 1))  # older writers leave the length out
        statistics = meta.get(12)
        stats = meta.get(13)
        sizes = meta.get(16)
        text_size = sizes.get(1) if isinstance(sizes, dict) else None
        return ColumnChunk(
            codec=codec,
            encodings=tuple(meta.get(2, ())),
            num_values=num_values,
            compressed_size=compressed,
            uncompressed_size=uncompressed,
            data_page_offset=data_page,
            dictionary_page_offset=dictionary_page,
            statistics=None if statistics is None else _statistics(statistics),
            encoding_stats=None if stats is None else tuple([(item[1], item[2], item[3]) for item in stats]),
            bloom_filter_offset=None if bloom is None else bloom[0],
            bloom_filter_length=None if bloom is None else meta.get(15),
            offset_index=self.place(chunk.get(4), chunk.get(5)),
            column_index=self.place(chunk.get(6), chunk.get(7)),
            text_size=text_size if type(text_size) is int and text_size > 0 else 0,
        )

    def place(self, offset: int | None, length: int | None) -> tuple[int, int] | None:
        """Return where an index is, as offset and length; None without one, or for one outside the file: it is optional."""
        # Drill's old writer stored a list in the field that later became the Bloom filter's offset.
        if type(offset) is not int or type(length) is not int or offset < 4 or length <= 0:
            return None
        return (offset, length) if offset + length <= self.offset else None

    def bad(self, group: int, leaf: Leaf, message: str) -> NoReturn:
        _corrupt(self.path, f"Column {'.'.join(leaf.path)!r} of row group {group} is inconsistent: {message}")


def _statistics(raw: dict[int, Any]) -> Statistics:
    return Statistics(
        minimum=raw.get(6),
        maximum=raw.get(5),
        old_minimum=raw.get(2),
        old_maximum=raw.get(1),
        null_count=raw.get(3),
        minimum_exact=raw.get(8),
        maximum_exact=raw.get(7),
    )
