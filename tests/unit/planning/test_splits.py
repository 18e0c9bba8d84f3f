"""Splits: each byte of each file in exactly one task, in about as many groups as asked for."""

from __future__ import annotations

import random
import tracemalloc

import pytest

from twostage.planning.splits import MIN_GROUP_BYTES, Candidate, pack
from twostage.task import ScanTask

MIB = 2**20


def candidate(name: str, size: int, cost: int, offsets: tuple[int, ...] = (), rows: int = 1000) -> Candidate:
    task = ScanTask(
        path=name, written_path=name, format="parquet", file_size=size, record_count=rows, start=0,
        length=size, sequence_number=1, spec_id=0,
    )  # fmt: skip
    return Candidate(task=task, cost=cost, split_offsets=offsets)


def random_candidates(rng: random.Random) -> list[Candidate]:
    found = []
    for number in range(rng.randint(1, 30)):
        size = rng.choice((rng.randint(1, 1000), rng.randint(1, 600) * MIB))
        cost = rng.randint(1, size + MIB)
        offsets: tuple[int, ...] = ()
        match rng.randint(0, 4):
            case 0 | 1:
                offsets = tuple(
                    sorted({4, *(rng.randrange(size) for _ in range(rng.randint(0, 9)))} if size > 4 else {0})
                )
            case 2:
                offsets = rng.choice(((size,), (5, 5), (9, 4), (-1, 3), (4, size + 1)))
        found.append(candidate(f"f{number}", size, cost, offsets))
    return found


@pytest.mark.parametrize("seed", range(40))
def test_every_row_group_is_read_exactly_once(seed):
    rng = random.Random(seed)
    candidates = random_candidates(rng)
    split_size = rng.choice((None, None, 1, 1000, 7 * MIB, 2**40)) if len(candidates) < 9 else None
    if split_size in (1, 1000):
        candidates = [item for item in candidates if item.cost < 10_000] or [
            candidate("x", 900, 900, (4, 500))
        ]
    parallelism = rng.randint(1, 16)
    groups = pack(candidates, parallelism=parallelism, split_size=split_size)
    assert groups == pack(candidates, parallelism=parallelism, split_size=split_size)
    tasks = [task for group in groups for task in group]
    assert list(dict.fromkeys(task.path for task in tasks)) == [item.task.path for item in candidates]
    for item in candidates:
        ranges = [(task.start, task.start + task.length) for task in tasks if task.path == item.task.path]
        assert ranges[0][0] == 0
        assert ranges[-1][1] == item.task.file_size
        assert all(end == start for (_, end), (start, _) in zip(ranges, ranges[1:], strict=False))
        row_groups = [rng.randrange(item.task.file_size) for _ in range(20)]
        assert all(sum(start <= place < end for start, end in ranges) == 1 for place in row_groups)
        valid = (
            len(ranges) > 1
            and item.split_offsets
            and item.split_offsets == tuple(sorted(set(item.split_offsets)))
        )
        if valid and item.split_offsets[0] >= 0 and item.split_offsets[-1] < item.task.file_size:
            assert all(start in item.split_offsets for start, _ in ranges[1:])
    assert all(group for group in groups)
    if split_size is None:
        assert len(groups) <= 2 * parallelism


@pytest.mark.parametrize("parallelism", [1, 2, 8])
def test_many_small_files_make_about_two_groups_per_core(parallelism):
    candidates = [candidate(f"f{n}", 4 * MIB, 2 * MIB) for n in range(1000)]
    groups = pack(candidates, parallelism=parallelism)
    assert len(groups) == 2 * parallelism
    sizes = [len(group) for group in groups]
    assert max(sizes) - min(sizes) <= 1


def test_little_to_read_is_one_group():
    assert len(pack([candidate(f"f{n}", MIB, 1000) for n in range(50)], parallelism=16)) == 1


@pytest.mark.parametrize(
    ("rows", "parallelism", "expected"),
    [(499_999, 4, 1), (1_000_000, 4, 2), (2_600_000, 4, 4), (2_600_000, 1, 1), (2_600_000, 0, 1)],
)
def test_many_rows_of_few_bytes_come_in_several_groups(rows, parallelism, expected):
    candidates = [candidate(f"f{n}", MIB, MIB, rows=rows // 10 + 1) for n in range(10)]
    candidates[0] = candidate("f0", MIB, MIB, rows=rows - 9 * (rows // 10 + 1))
    assert len(pack(candidates, parallelism=parallelism)) == expected
    assert len(pack(candidates, parallelism=parallelism, split_size=2**40)) == 1


@pytest.mark.parametrize(
    ("rows", "parallelism", "expected"),
    [
        (300_000, 2, 1),
        (900_000, 2, 3),
        (2_600_000, 2, 4),
        (900_000, 1, 2),
        (900_000, 0, 1),
        (2_600_000, 20, 10),
    ],
)
def test_rows_that_most_stay_come_in_more_groups(rows, parallelism, expected):
    candidates = [candidate(f"f{n}", MIB, MIB // 4, rows=rows // 30) for n in range(30)]
    assert len(pack(candidates, parallelism=parallelism, may_keep_most_rows=True)) == expected


def test_rows_without_bytes_are_one_group():
    assert len(pack([candidate(f"f{n}", MIB, 0, rows=10**6) for n in range(4)], parallelism=4)) == 1


def test_a_big_file_is_cut_at_its_row_groups_and_pieces_of_one_group_are_joined():
    offsets = tuple(4 + 32 * MIB * n for n in range(32))
    groups = pack([candidate("big", 1024 * MIB, 512 * MIB, offsets)], parallelism=2)
    assert len(groups) == 4
    assert [len(group) for group in groups] == [1, 1, 1, 1]
    assert [group[0].start for group in groups] == [0, offsets[8], offsets[16], offsets[24]]


def test_a_file_of_one_row_group_stays_whole():
    groups = pack([candidate("one", 512 * MIB, 512 * MIB, (4,))], parallelism=4)
    assert [(task.start, task.length) for group in groups for task in group] == [(0, 512 * MIB)]


def test_a_file_without_offsets_is_cut_by_size():
    groups = pack([candidate("plain", 256 * MIB, 256 * MIB)], parallelism=2)
    assert [group[0].length for group in groups] == [64 * MIB] * 4


def test_split_size_decides_over_cores():
    candidates = [candidate(f"f{n}", MIN_GROUP_BYTES, MIB, (4,)) for n in range(10)]
    assert len(pack(candidates, parallelism=1, split_size=MIB)) == 10
    assert len(pack(candidates, parallelism=64, split_size=2**40)) == 1


def test_a_split_size_far_below_a_row_group_costs_no_memory():
    """Each byte of the expected ones was a group while packing, almost all of them empty."""
    tracemalloc.start()
    try:
        groups = pack([candidate("big", 2 * MIB, 2 * MIB, (4, MIB))], parallelism=1, split_size=1)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert [task.start for group in groups for task in group] == [0, MIB]
    assert len(groups) == 2
    assert peak < MIB


def test_nothing_to_pack():
    assert pack([], parallelism=4) == []
