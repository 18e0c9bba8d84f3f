"""Requests for ranges of a file: each range comes whole and in its place, from as few requests as pay."""

from __future__ import annotations

from itertools import pairwise

import pyarrow as pa
import pytest
from hypothesis import given, settings, strategies as st

from twostage.errors import CorruptFileError
from twostage.storage.ranges import LOCAL, REMOTE, RequestCost, cost_of, merge, parts_of, read_ranges

CONTENT = bytes(range(256)) * 4
RANGES = st.lists(st.tuples(st.integers(0, 900), st.integers(0, 120)), max_size=12)


@settings(deadline=None)
@given(RANGES, st.integers(0, 200), st.integers(1, 4), st.sampled_from([10, 100, 10_000]))
def test_ranges_come_whole(ranges: list[tuple[int, int]], gap: int, parallel: int, largest: int) -> None:
    cost = RequestCost(gap=gap, parallel=parallel, largest=largest)
    requests = merge(ranges, cost)
    found, num_bytes = read_ranges(pa.BufferReader(CONTENT), ranges, requests, cost, "f")
    assert [bytes(view) for view in found] == [CONTENT[start : start + length] for start, length in ranges]
    assert num_bytes == sum(request.end - request.start for request in requests)
    assert sorted(number for request in requests for number in request.members) == list(range(len(ranges)))
    for before, after in zip(requests, requests[1:], strict=False):
        is_apart = after.start - before.end > gap
        assert after.start >= before.end  # no byte is read twice
        assert is_apart or after.end - before.start > largest


def test_a_hole_is_read_along_where_that_costs_less() -> None:
    near, far = [(0, 10), (50, 10)], [(0, 10), (10 + LOCAL.gap + 1, 10)]
    assert len(merge(near, LOCAL)) == 1
    assert len(merge(far, LOCAL)) == 2
    assert len(merge(far, REMOTE)) == 1


@pytest.mark.parametrize("parallel", [1, 4])
def test_a_file_that_ends_within_a_range(parallel: int) -> None:
    ranges = [(0, 10), (1000, 100)]
    cost = RequestCost(gap=0, parallel=parallel)
    with pytest.raises(CorruptFileError, match=r"CORRUPT_FILE.*ends at byte 1024.*file name"):
        read_ranges(pa.BufferReader(CONTENT), ranges, merge(ranges, cost), cost, "name")


def test_what_the_user_says_of_requests_goes_before_the_kind_of_store() -> None:
    assert cost_of(None, None, is_remote=False) == LOCAL
    assert cost_of(None, None, is_remote=True) == REMOTE
    said = cost_of(5, 2, is_remote=True)
    assert (said.gap, said.parallel) == (5, 2)


@pytest.mark.parametrize(
    ("length", "count"), [(1, 1), (999, 1), (1000, 1), (1001, 2), (2000, 2), (2001, 3), (10**6 + 1, 1001)]
)
def test_the_parts_of_a_long_range(length: int, count: int) -> None:
    parts = parts_of(77, 77 + length, 1000)
    assert len(parts) == count
    assert (parts[0][0], parts[-1][1]) == (77, 77 + length)
    assert all(one[1] == other[0] for one, other in pairwise(parts))
    sizes = [end - start for start, end in parts]
    assert max(sizes) <= 1000
    assert max(sizes) - min(sizes) <= 1
