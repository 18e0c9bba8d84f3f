"""Which bytes of a file to ask for in one request.

Takes ranges of a file; gives their bytes, in the ranges' order, from as few requests as pay. The rule: a hole
between two ranges is read along where reading it costs less than another request would.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from twostage.errors import CorruptFileError

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestCost:
    """What a request costs, in bytes: `gap` that could be read meanwhile, and how many run at once."""

    gap: int
    parallel: int
    largest: int = 64 * 2**20
    """No request grows past it by merging; a single range may be larger."""


LOCAL = RequestCost(gap=32 * 2**10, parallel=1)
"""A read of a local file costs some 10 µs, in which the page cache copies 32 KiB or more."""
REMOTE = RequestCost(gap=256 * 2**10, parallel=8)
"""An object store answers after 10 to 30 ms and streams 50 to 100 MB/s, a megabyte meanwhile; but eight requests
wait at once."""


def cost_of(gap: int | None, parallel: int | None, *, is_remote: bool) -> RequestCost:
    """Return the cost of a request, as the user said or by the kind of store."""
    default = REMOTE if is_remote else LOCAL
    return RequestCost(
        gap=default.gap if gap is None else gap, parallel=default.parallel if parallel is None else parallel
    )


class Request(NamedTuple):
    """Consecutive bytes, and which of the ranges lie in them."""

    start: int
    end: int
    members: tuple[int, ...]


def merge(ranges: Sequence[tuple[int, int]], cost: RequestCost) -> list[Request]:
    """Return the requests that cover `ranges` (offset, bytes), in file order.

    >>> [(r.start, r.end, r.members) for r in merge([(100, 10), (0, 50), (60, 10)], LOCAL)]
    [(0, 110, (1, 2, 0))]
    """
    requests: list[Request] = []
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
            requests.append(Request(first, last, tuple(members)))
        first, last, members = start, end, [number]
    if members:
        requests.append(Request(first, last, tuple(members)))
    return requests


def read_ranges(
    file: pa.NativeFile,
    ranges: Sequence[tuple[int, int]],
    requests: Sequence[Request],
    cost: RequestCost,
    path: str,
) -> tuple[list[memoryview], int]:
    """Return the bytes of each range, and how many bytes were read in all.

    Args:
        file: An open file.
        ranges: Offsets and lengths.
        requests: What `merge` makes of them.
        cost: How many requests run at once.
        path: The file, for errors.

    Raises:
        CorruptFileError: The file ends within a range.
    """
    found: list[memoryview] = [memoryview(b"")] * len(ranges)

    def answer(request: Request) -> bytes:
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
