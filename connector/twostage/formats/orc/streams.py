"""The streams of a stripe that some columns need, read with few requests.

Takes an open file, a stripe's footer and column numbers; returns the compressed bytes of each stream.
Source: ORC specification v1, "Stripes".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Set as AbstractSet

    import pyarrow as pa

    from twostage.formats.orc.tail import Stream, StripeFooter

PRESENT, DATA, LENGTH, DICTIONARY, SECONDARY = 0, 1, 2, 3, 5
"""Kinds of streams, as numbered in orc_proto.proto."""
_KINDS_READ = (PRESENT, DATA, LENGTH, DICTIONARY, SECONDARY)
MAX_GAP_BYTES = 64 * 2**10
"""Between two wanted streams: reading up to this many unwanted bytes is cheaper than another request."""


def read_streams(
    file: pa.NativeFile, footer: StripeFooter, columns: AbstractSet[int]
) -> tuple[dict[tuple[int, int], bytes], int]:
    """Return the streams of `columns` and of the root column, and how many bytes were read.

    Returns:
        The compressed bytes by column and kind of stream, without empty streams; the number of bytes read.

    Raises:
        ValueError: The file ends within a stream, or a column has two streams of one kind.
    """
    found: dict[tuple[int, int], bytes] = {}
    num_bytes = 0
    for run in _runs(footer, columns):
        offset, length = _place(run)
        data = bytes(file.read_at(length, offset))
        if len(data) != length:
            raise ValueError("the file ends within a stripe")
        num_bytes += length
        for stream in run:
            key = stream.column, stream.kind
            if key in found:
                raise ValueError(f"column {stream.column} has two streams of kind {stream.kind}")
            at = stream.offset - offset
            found[key] = data[at : at + stream.length]
    return found, num_bytes


def places_of(footer: StripeFooter, columns: AbstractSet[int]) -> list[tuple[int, int]]:
    """Return the places (offset, length) that `read_streams` reads."""
    return [_place(run) for run in _runs(footer, columns)]


def _runs(footer: StripeFooter, columns: AbstractSet[int]) -> list[list[Stream]]:
    """Return the needed streams, grouped by the reads that fetch them."""
    runs: list[list[Stream]] = []
    for stream in footer.streams:
        if stream.length and stream.kind in _KINDS_READ and (stream.column in columns or stream.column == 0):
            if runs and _gap(runs[-1][-1], stream) <= MAX_GAP_BYTES:
                runs[-1].append(stream)
            else:
                runs.append([stream])
    return runs


def _place(run: list[Stream]) -> tuple[int, int]:
    return run[0].offset, run[-1].offset + run[-1].length - run[0].offset


def _gap(one: Stream, other: Stream) -> int:
    return other.offset - one.offset - one.length
