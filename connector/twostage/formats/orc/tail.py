"""The tail of an ORC file: PostScript, footer, types, stripes and the statistics of stripes.

Takes an open file; returns a `Tail` of plain values. The rule: every offset, length and row count in a `Tail`
was checked against the file's size and the others, so that readers may rely on them.
Source: ORC specification v1, "File Tail" and "Stripes".
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from twostage.errors import UnsupportedFeatureError
from twostage.formats.orc import compression, protobuf

if TYPE_CHECKING:
    import pyarrow as pa

FIRST_READ = 16 * 2**10
"""Bytes: the whole tail of most files, which then takes one request."""
MAX_TAIL_BYTES = 2**28
MAX_DEPTH = 100
MAGIC = b"ORC"
KINDS = (
    "boolean byte short int long float double string binary timestamp list map struct union decimal date "
    "varchar char timestamp_instant geometry geography"
).split()
STRUCT, LIST, MAP, UNION = "struct", "list", "map", "union"
VERSIONS: tuple[list[int], ...] = ([], [0, 11], [0, 12])
"""All released file versions. Pre-releases of version 2 encode decimals differently."""
_NUM_CHILDREN = {LIST: 1, MAP: 2}


@dataclass(frozen=True, slots=True, kw_only=True)
class OrcType:
    """A node of the type tree; `column` is its number, by which streams and statistics refer to it."""

    column: int
    kind: str
    names: tuple[str, ...]
    children: tuple[OrcType, ...]
    precision: int
    scale: int
    attributes: dict[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Stripe:
    """A stripe: consecutive rows. Its bytes, from `offset` on, are its index, its data and its own footer."""

    index: int
    first_row: int
    num_rows: int
    offset: int
    index_length: int
    data_length: int
    footer_length: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Stream:
    """A stream of a column in a stripe: `length` bytes at `offset` of the file."""

    kind: int
    column: int
    offset: int
    length: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StripeFooter:
    """A stripe's streams, each column's encoding and dictionary size, and the writer's time zone."""

    streams: tuple[Stream, ...]
    encodings: tuple[tuple[int, int], ...]
    time_zone: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Tail:
    """The tail of an ORC file. `stripe_statistics` are encoded messages, one for each stripe, or empty.

    `num_bytes` is the size of the encoded tail.
    """

    codec: str
    block_size: int
    writer: int
    writer_version: int
    num_rows: int
    schema: OrcType
    num_columns: int
    stripes: tuple[Stripe, ...]
    stripe_statistics: tuple[bytes, ...] = field(repr=False)
    num_bytes: int


def read_tail(file: pa.NativeFile, size: int) -> Tail:
    """Read and check the tail of an open file.

    Raises:
        ValueError: The bytes are not the tail of an ORC file.
        UnsupportedFeatureError: Encrypted, or an unknown version or compression.
    """
    if size < len(MAGIC) + 2:
        raise ValueError(f"a file of {size} bytes")
    data = bytes(file.read_at(min(size, FIRST_READ), max(0, size - FIRST_READ)))
    length = data[-1]
    if not 0 < length < len(data):
        raise ValueError(f"a PostScript of {length} bytes")
    script = protobuf.parse(data[-1 - length : -1])
    if script.blob(8000) != MAGIC and bytes(file.read_at(len(MAGIC), 0)) != MAGIC:
        raise ValueError("the magic bytes 'ORC' are missing")
    if script.numbers(4) not in VERSIONS:
        version = ".".join(map(str, script.numbers(4)))
        raise UnsupportedFeatureError(
            "UNSUPPORTED_ORC_VERSION",
            f"ORC file has a version that is not supported: {version}",
            stage="open",
        )
    codec = compression.codec_of(script.number(2))
    block_size = script.number(3, compression.DEFAULT_BLOCK_SIZE) or compression.DEFAULT_BLOCK_SIZE
    if block_size > compression.MAX_BLOCK_SIZE and codec != "none":
        raise ValueError(f"a compression block size of {block_size}")
    footer_length, metadata_length = script.number(1), script.number(5)
    tail_length = footer_length + metadata_length + length + 1
    if tail_length > size or tail_length > MAX_TAIL_BYTES:
        raise ValueError(f"a tail of {tail_length} bytes in a file of {size}")
    if tail_length > len(data):
        data = bytes(file.read_at(tail_length, size - tail_length))
    end = len(data) - length - 1
    footer = protobuf.parse(
        compression.unpack(data[end - footer_length : end], codec, block_size, MAX_TAIL_BYTES)
    )
    end -= footer_length
    statistics = _read_statistics(data[end - metadata_length : end], codec, block_size)
    if 10 in footer:
        raise UnsupportedFeatureError(
            "UNSUPPORTED_ENCRYPTION", "ORC file has encrypted columns", stage="open"
        )
    schema, num_columns = _read_types([protobuf.parse(item) for item in footer.blobs(4)])
    stripes = _read_stripes([protobuf.parse(item) for item in footer.blobs(3)], size - tail_length)
    num_rows = footer.number(6)
    if num_rows != sum(stripe.num_rows for stripe in stripes):
        raise ValueError(f"the stripes do not hold the {num_rows} rows of the footer")
    return Tail(
        codec=codec,
        block_size=block_size,
        writer=footer.number(9),
        writer_version=script.number(6),
        num_rows=num_rows,
        schema=schema,
        num_columns=num_columns,
        stripes=stripes,
        stripe_statistics=statistics if len(statistics) == len(stripes) else (),
        num_bytes=tail_length,
    )


def _read_statistics(packed: bytes, codec: str, block_size: int) -> tuple[bytes, ...]:
    """Return the statistics of stripes; none if they are damaged, because they only prune."""
    try:
        unpacked = compression.unpack(packed, codec, block_size, MAX_TAIL_BYTES)
        return tuple(protobuf.parse(unpacked).blobs(1))
    except (ValueError, LookupError, OSError, zlib.error):
        return ()


def _read_stripes(messages: list[protobuf.Message], end: int) -> tuple[Stripe, ...]:
    stripes: list[Stripe] = []
    first_row = position = 0
    for index, message in enumerate(messages):
        stripe = Stripe(
            index=index,
            first_row=first_row,
            num_rows=message.number(5),
            offset=message.number(1),
            index_length=message.number(2),
            data_length=message.number(3),
            footer_length=message.number(4),
        )
        length = stripe.index_length + stripe.data_length + stripe.footer_length
        if stripe.offset < position or stripe.offset + length > end:
            raise ValueError(f"stripe {index} lies at {stripe.offset} … {stripe.offset + length} of {end}")
        if stripe.num_rows >= 2**63:
            raise ValueError(f"stripe {index} has a negative number of rows")
        position = stripe.offset + length
        first_row += stripe.num_rows
        stripes.append(stripe)
    return tuple(stripes)


def _read_types(messages: list[protobuf.Message]) -> tuple[OrcType, int]:
    """Return the type tree and the number of columns, which are numbered in pre-order; that rules out cycles."""
    position = 0

    def build(depth: int) -> OrcType:
        nonlocal position
        column = position
        message = messages[column]
        position += 1
        number = message.number(1)
        if number >= len(KINDS) or depth > MAX_DEPTH:
            raise ValueError(f"column {column} has type {number} at depth {depth}")
        kind = KINDS[number]
        subtypes, names = message.numbers(2), tuple(message.texts(3))
        if (kind == STRUCT and len(names) != len(subtypes)) or len(subtypes) != _NUM_CHILDREN.get(
            kind, len(subtypes) if kind in (STRUCT, UNION) else 0
        ):
            raise ValueError(f"column {column} of type {kind} has {len(subtypes)} children")
        children = []
        for subtype in subtypes:
            if subtype != position:
                raise ValueError(f"column {column} has child {subtype} where {position} comes next")
            children.append(build(depth + 1))
        pairs = [protobuf.parse(item) for item in message.blobs(7)]
        return OrcType(
            column=column,
            kind=kind,
            names=names,
            children=tuple(children),
            precision=message.number(5),
            scale=message.number(6),
            attributes={(pair.blob(1) or b"").decode(): (pair.blob(2) or b"").decode() for pair in pairs},
        )

    if not messages:
        raise ValueError("the footer holds no types")
    root = build(0)
    if position != len(messages):
        raise ValueError(f"{len(messages) - position} types belong to no column")
    if root.kind != STRUCT:
        raise UnsupportedFeatureError(
            "UNSUPPORTED_ORC_TYPE", f"ORC file's rows are not structs but: {root.kind}", stage="open"
        )
    return root, len(messages)


def read_stripe_footer(file: pa.NativeFile, tail: Tail, stripe: Stripe) -> StripeFooter:
    """Read and check the footer of a stripe.

    Raises:
        ValueError: It is malformed, or its streams reach outside the stripe.
    """
    end = stripe.offset + stripe.index_length + stripe.data_length
    packed = bytes(file.read_at(stripe.footer_length, end))
    message = protobuf.parse(compression.unpack(packed, tail.codec, tail.block_size, MAX_TAIL_BYTES))
    if 4 in message:
        raise UnsupportedFeatureError(
            "UNSUPPORTED_ENCRYPTION", "ORC stripe has encrypted columns", stage="open"
        )
    streams = []
    position = stripe.offset
    for item in message.blobs(1):
        one = protobuf.parse(item)
        stream = Stream(kind=one.number(1), column=one.number(2), offset=position, length=one.number(3))
        position += stream.length
        if position > end:
            raise ValueError(f"the streams of stripe {stripe.index} leave it")
        streams.append(stream)
    encodings = [protobuf.parse(item) for item in message.blobs(2)]
    if len(encodings) != tail.num_columns:
        raise ValueError(f"stripe {stripe.index} has {len(encodings)} encodings, not {tail.num_columns}")
    zone = message.blob(3)
    return StripeFooter(
        streams=tuple(streams),
        encodings=tuple((one.number(1), one.number(2)) for one in encodings),
        time_zone=(zone or b"").decode(),
    )
