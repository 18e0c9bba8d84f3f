"""Streams of a stripe: the bytes of each wanted one, read together where they lie near each other."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest

from twostage.formats.orc import streams
from twostage.formats.orc.streams import DATA, LENGTH, PRESENT, read_streams
from twostage.formats.orc.tail import Stream, StripeFooter

INDEX, BLOOM = 6, 7
CONTENT = random.Random(1).randbytes(1_000)


class CountingFile:
    """The bytes of a file, and which parts of them were read."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.reads: list[tuple[int, int]] = []

    def read_at(self, length: int, offset: int) -> pa.Buffer:
        self.reads.append((offset, length))
        return pa.py_buffer(self.data[offset : offset + length])


def footer_of(*places: tuple[int, int, int, int]) -> StripeFooter:
    """Return a footer of streams: kind, column, offset, length."""
    found = tuple(Stream(kind=k, column=c, offset=o, length=n) for k, c, o, n in places)
    return StripeFooter(streams=found, encodings=(), time_zone="")


def test_wanted_columns_and_the_root() -> None:
    """Of the kinds that values need; empty streams are none."""
    footer = footer_of(
        (INDEX, 1, 0, 50),
        (BLOOM, 1, 50, 50),
        (PRESENT, 0, 100, 10),
        (DATA, 1, 110, 20),
        (LENGTH, 1, 130, 0),
        (DATA, 2, 130, 5),
    )
    file = CountingFile(CONTENT)
    found, num_bytes = read_streams(file, footer, {1})
    assert found == {(0, PRESENT): CONTENT[100:110], (1, DATA): CONTENT[110:130]}
    assert num_bytes == 30
    assert file.reads == [(100, 30)]


def test_gaps_are_read_where_another_request_would_cost_more(monkeypatch: pytest.MonkeyPatch) -> None:
    footer = footer_of(
        (DATA, 1, 0, 10), (DATA, 2, 10, 100), (DATA, 3, 110, 10), (DATA, 4, 120, 101), (DATA, 5, 221, 4)
    )
    wanted = {1, 3, 5}
    expected = {(1, DATA): CONTENT[:10], (3, DATA): CONTENT[110:120], (5, DATA): CONTENT[221:225]}
    for gap, reads in (
        (99, [(0, 10), (110, 10), (221, 4)]),
        (100, [(0, 120), (221, 4)]),
        (101, [(0, 225)]),
    ):
        monkeypatch.setattr(streams, "MAX_GAP_BYTES", gap)
        file = CountingFile(CONTENT)
        assert read_streams(file, footer, wanted) == (expected, sum(length for _, length in reads))
        assert file.reads == reads


def test_nothing_wanted_is_nothing_read() -> None:
    file = CountingFile(CONTENT)
    assert read_streams(file, footer_of((DATA, 1, 0, 10)), set()) == ({}, 0)
    assert file.reads == []


def test_a_file_that_ends_within_a_stream() -> None:
    footer = footer_of((DATA, 1, 990, 10))
    assert read_streams(CountingFile(CONTENT), footer, {1})[1] == 10
    with pytest.raises(ValueError, match="ends within"):
        read_streams(CountingFile(CONTENT[:-1]), footer, {1})


def test_two_streams_of_one_kind() -> None:
    footer = footer_of((DATA, 1, 0, 10), (DATA, 1, 10, 10))
    with pytest.raises(ValueError, match="column 1 has two streams of kind 1"):
        read_streams(CountingFile(CONTENT), footer, {1})
