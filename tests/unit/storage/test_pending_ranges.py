"""Pending ranges: put together from the answers of several requests, or ended by the first error."""

from __future__ import annotations

import pytest

from twostage.errors import InternalError, StorageError
from twostage.storage.pending_ranges import PendingRanges
from twostage.storage.round_trips import RoundTrips
from twostage.storage.store_client import RangedFile

FILE = RangedFile("s3://lake/f", "lake/f", None)


class Reads:
    def __init__(self):
        self.waited, self.bytes_released = 0, 0
        self.trips = RoundTrips()

    def hurry(self, pending):
        pass

    def wait_for(self, pending):
        self.waited += 1
        pending.arrived(0, b"0123456789", (0, 2))

    def released(self, num_bytes):
        self.bytes_released += num_bytes


@pytest.fixture
def reads():
    return Reads()


def test_ranges_are_cut_from_the_answers(reads):
    pending = PendingRanges(reads, FILE, [(2, 3), (50, 2), (0, 10), (7, 0)])
    pending.expects(2)
    pending.arrived(48, bytearray(b"abcdef"), (1,))
    assert not pending.done()
    assert [bytes(view) for view in pending.result()] == [b"234", b"cd", b"0123456789", b""]
    assert pending.done()
    assert reads.waited == 1
    assert [bytes(view) for view in pending.result()] == [b"234", b"cd", b"0123456789", b""]
    assert reads.waited == 1


def test_the_first_error_ends_it(reads):
    pending = PendingRanges(reads, FILE, [(0, 1), (5, 1)])
    pending.expects(2)
    called = []
    pending.on_done(lambda: called.append(1))
    pending.fail(StorageError("STORAGE_FAILED", "first"))
    pending.fail(StorageError("STORAGE_FAILED", "second"))
    assert called == [1]
    with pytest.raises(StorageError, match="first"):
        pending.result()


def test_released_bytes_are_not_taken_for_empty_ones(reads):
    pending = PendingRanges(reads, FILE, [(0, 3)])
    pending.expects(1)
    pending.arrived(0, b"abc", (0,))
    (view,) = pending.result()
    pending.release()
    assert bytes(view) == b"abc"
    with pytest.raises(InternalError):
        pending.result()


def test_bytes_are_released_once(reads):
    pending = PendingRanges(reads, FILE, [(0, 10)])
    pending.expects(1)
    pending.add_bytes(10)
    pending.release()
    pending.release()
    assert reads.bytes_released == 10
    other = PendingRanges(reads, FILE, [(0, 10)])
    other.add_bytes(5)
    del other
    assert reads.bytes_released == 15
