"""Sets of hashes: every member is found, and the bit map lets few others pass."""

from __future__ import annotations

import numpy as np
import pytest

from twostage_native.hash_sets import bit_map, number_table, table_bits


def hashes(count: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 2**64, count, np.uint64)


def numbers_at(table: np.ndarray, hashed: int) -> list[int]:
    """The numbers from a hash's slot on up to the first that is free: linear probing."""
    bits = len(table).bit_length() - 1
    slot, found = hashed >> (64 - bits), []
    while table[slot] != -1:
        found.append(int(table[slot]))
        slot = (slot + 1) % len(table)
    return found


@pytest.mark.parametrize("count", [1, 2, 3, 100, 3000])
@pytest.mark.parametrize("clash", [False, True])
def test_members_are_found_by_their_hash(count: int, clash: bool) -> None:
    members = hashes(count, count)
    if clash:
        members[:] = members[0]  # all in one place, which is at the table's end now and then
    table = number_table(members)
    assert len(table) == 1 << table_bits(count)
    assert sorted(table[table >= 0].tolist()) == list(range(count))
    for number, hashed in enumerate(members[:200].tolist()):
        assert number in numbers_at(table, hashed)
    assert not table.flags.writeable


@pytest.mark.parametrize("count", [1, 100, 5000])
def test_the_bit_map_passes_members_and_few_others(count: int) -> None:
    members = hashes(count, count)
    bits = np.unpackbits(bit_map(members), bitorder="little")
    shift = np.uint64(64 - (len(bits).bit_length() - 1))
    assert bits[(members >> shift).astype(np.int64)].all()
    others = bits[(hashes(20_000, 99) >> shift).astype(np.int64)]
    assert others.mean() < 0.1
