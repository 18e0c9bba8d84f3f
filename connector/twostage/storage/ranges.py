"""Which bytes of a file to read with one request.

Takes ranges of a file; gives their bytes, in the ranges' order, with as few requests as pay. The rule: a gap between two
ranges is read too where that costs less than another request would.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from twostage.errors import CorruptFileError

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestCost:
    """What a request costs: `gap` bytes could be read in the same time; `parallel` requests run at once."""

    gap: int
    parallel: int
    largest: int = 64 * 2**20
    """Bytes up to which requests grow by merging; a single range may be larger."""
    part: int = 8 * 2**20
    """Bytes above which a remote range is requested in parts at once: at 50 to 100 MB/s on a connection, that many take three
    to ten times as long as the first byte."""


LOCAL = RequestCost(gap=32 * 2**10, parallel=1)
"""A read of a local file costs some 10 µs; in that time the page cache copies 32 KiB or more."""
REMOTE = RequestCost(gap=256 * 2**10, parallel=8)
"""An object store answers after 10 to 30 ms and streams 50 to 100 MB/s: a megabyte in that time. But eight requests wait
together, so the gap is smaller."""


def cost_of(gap: int | None, parallel: int | None, *, is_remote: bool) -> RequestCost:
    """Return the cost of a request: the user's numbers, by default those of the kind of store."""
    default = REMOTE if is_remote else LOCAL
    return RequestCost(
        gap=default.gap if gap is None else gap, parallel=default.parallel if parallel is None else parallel
    )


class RangeRequest(NamedTuple):
    """The bytes from `start` to `end`, and the numbers of the ranges that lie in them."""

    start: int
    end: int
    members: tuple[int, ...]


def merge(ranges: Sequence[tuple[int, int]], cost: RequestCost) -> list[RangeRequest]:
    """Return the requests that cover `ranges` (offset, bytes), in file order.

    >>> [(r.start, r.end, r.members) for r in merge([(100, 10), (0, 50), (60, 10)], LOCAL)]
    [(0, 110, (1, 2, 0))]
    """
    requests: list[RangeRequest] = []
    members: list[int] = []
    first = last = 0
    for number in sorted(range(len(ranges)), key=ranges.__getitem__):
        start, length = ranges[number]
        end = start + length
        if members:
            is_near = start - last <= cost.gap
            if is_near and (start < last or max(end, last) - first <= cost.largest):
                last = max(end, last)
                members.append(number)
                continue
            requests.append(RangeRequest(first, last, tuple(members)))
        first, last, members = start, end, [number]
    if members:
        requests.append(RangeRequest(first, last, tuple(members)))
    return requests


def parts_of(start: int, end: int, part: int) -> list[tuple[int, int]]:
    """Return the parts in which a long range is requested, of equal length and at most `part` bytes.

    >>> parts_of(10, 40, 12)
    [(10, 20), (20, 30), (30, 40)]
    """
    count = max(1, -(-(end - start) // part))
    places = [start + (end - start) * number // count for number in range(count + 1)]
    return list(pairwise(places))


def read_ranges(
    file: pa.NativeFile,
    ranges: Sequence[tuple[int, int]],
    requests: Sequence[RangeRequest],
    cost: RequestCost,
    path: str,
) -> tuple[list[memoryview], int]:
    """Return the bytes of each range, and how many bytes were read altogether.

    Args:
        file: An open file.
        ranges: Offsets and lengths.
        requests: What `merge` returned for them.
        cost: How many requests run at once.
        path: The file, for errors.

    Raises:
        CorruptFileError: The file ends within a range.
    """
    found: list[memoryview] = [memoryview(b"")] * len(ranges)

    def answer(request: RangeRequest) -> bytes:
        return bytes(file.read_at(request.end - request.start, request.start))

    if cost.parallel > 1 and len(requests) > 1:
        with ThreadPoolExecutor(min(cost.parallel, len(requests))) as pool:
            answers = list(pool.map(answer, requests))
    else:
        answers = [answer(request) for request in requests]
    for request, data in zip(requests, answers, strict=True):
        if len(data) != request.end - request.start:
            raise CorruptFileError(
                "CORRUPT_FILE",
                f"File ends at byte {request.start + len(data)}, within bytes that its metadata names",
                path=path,
                stage="fetch",
            )
        view = memoryview(data)
        for number in request.members:
            start, length = ranges[number]
            found[number] = view[start - request.start : start - request.start + length]
    return found, sum(request.end - request.start for request in requests)
