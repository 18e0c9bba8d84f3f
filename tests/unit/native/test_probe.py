"""Key-table kernels and their twins against a Python dict, mixed on one table, with forced collisions."""

from __future__ import annotations

import random

import numpy as np
import pytest

from twostage_native import probe, probe_reference

SEQUENCES = np.array([-1, 7, 3, 9, 5], np.int64)
KERNELS = (probe.insert_words, probe.rehash_words, probe.probe_words, probe.hash_records,
           probe.insert_records, probe.rehash_records, probe.probe_records)  # fmt: skip


@pytest.fixture(params=["twin", "kernel", "mixed"])
def run(request, monkeypatch):
    monkeypatch.setenv("TWOSTAGE_JIT", "always")
    rng = random.Random(0)

    def call(kernel, *arguments):
        compiled = {"twin": False, "kernel": True}.get(request.param, rng.random() < 0.5)
        if not compiled:
            return kernel.twin(*arguments)
        if not kernel.compiled(*arguments):
            pytest.skip("no Numba")
        return kernel(*arguments)

    return call


def frozen(array):
    array.flags.writeable = False
    return array


def newest(known, key, code):
    if key not in known or SEQUENCES[known[key]] < SEQUENCES[code]:
        known[key] = code


@pytest.mark.parametrize("seed", range(6))
def test_word_tables(run, seed):
    rng = np.random.default_rng(seed)
    capacity = int(rng.integers(40, 80))
    keys, codes = np.empty(capacity, np.uint64), np.zeros(capacity, rng.choice([np.uint16, np.uint32]))
    pool = np.concatenate([rng.integers(0, 2**64, 30, np.uint64), np.array([0, 1, 2**64 - 1], np.uint64)])
    scratch = np.full((3, probe.BLOCK_ROWS), 2**64 - 1, np.uint64)
    known: dict[int, int] = {}
    for _ in range(12):
        words = frozen(rng.choice(pool, int(rng.integers(0, 20))))
        code = int(rng.integers(1, 5))
        added = run(probe.insert_words, keys, codes, words, code, SEQUENCES, scratch)
        assert added == len(set(words.tolist()) - set(known))
        for word in words.tolist():
            newest(known, word, code)
        if rng.random() < 0.3:
            more = int(rng.integers(capacity, 2 * capacity))
            new_keys, new_codes = np.empty(more, np.uint64), np.zeros(more, codes.dtype)
            run(probe.rehash_words, keys, codes, new_keys, new_codes)
            keys, codes, capacity = new_keys, new_codes, more
        asked = frozen(np.concatenate([pool, rng.integers(0, 2**64, 10, np.uint64)]))
        for applies in (SEQUENCES > 4, SEQUENCES > 0, SEQUENCES > 8):
            right = [bool(applies[known[word]]) if word in known else False for word in asked.tolist()]
            found = np.ones(len(asked), np.bool_)
            run(probe.probe_words, keys, codes, applies, asked, scratch, found)
            assert found.tolist() == right
    assert len(known) > 5


@pytest.mark.parametrize("seed", range(3))
def test_more_words_than_a_block(run, seed):
    rng = np.random.default_rng(seed)
    pool = rng.integers(0, 2**64, 1500, np.uint64)
    keys, codes = np.empty(2000, np.uint64), np.zeros(2000, np.uint16)
    scratch = np.empty((3, probe.BLOCK_ROWS), np.uint64)
    known: dict[int, int] = {}
    for code in (1, 3):
        words = frozen(rng.choice(pool, 2 * probe.BLOCK_ROWS + 7))
        fresh = len(set(words.tolist()) - set(known))
        assert run(probe.insert_words, keys, codes, words, code, SEQUENCES, scratch) == fresh
        for word in words.tolist():
            newest(known, word, code)
    asked = frozen(np.concatenate([pool, pool + np.uint64(1)]))
    found, applies = np.ones(len(asked), np.bool_), SEQUENCES > 8  # of code 3 alone
    run(probe.probe_words, frozen(keys), frozen(codes), applies, asked, scratch, found)
    assert found.tolist() == [bool(applies[known.get(word, 0)]) for word in asked.tolist()]
    assert 0 < found.sum() < len(pool)


def pack(records):
    """Records as (words, bytes or None) in the kernels' form."""
    words = np.array([record[0] for record in records], np.uint64).reshape(len(records), -1)
    if not records or records[0][1] is None:
        return frozen(words), frozen(np.zeros(0, np.int64)), frozen(np.zeros(0, np.uint8))
    lengths = [len(record[1]) for record in records]
    offsets = np.cumsum([3, *lengths]).astype(np.int64)  # a slice: bytes before the first record
    data = np.frombuffer(b"xyz" + b"".join(record[1] for record in records) + b"tail", np.uint8).copy()
    return frozen(words), frozen(offsets), frozen(data)


@pytest.mark.parametrize("collide", [False, True])
@pytest.mark.parametrize(("width", "text"), [(0, True), (1, True), (2, False), (3, True)])
@pytest.mark.parametrize("seed", range(3))
def test_record_tables(run, seed, width, text, collide):
    rng = random.Random(seed)
    lengths = [0, 1, 7, 8, 9, 16, 23]
    pool = [
        (
            tuple(rng.choice([0, 1, 2**64 - 1]) for _ in range(width)),
            rng.choice([b"a", b"b"]) * rng.choice(lengths) if text else None,
        )
        for _ in range(40)
    ]

    def hashes_of(packed):
        hashes = run(probe.hash_records, *packed)
        # Tags that all begin at two slots, and many of them alike: equality must then decide.
        return hashes & np.uint64(0x8000000100000000) if collide else hashes

    capacity = 90
    slots, records = np.zeros(capacity, np.uint64), np.full(4000, 2**64 - 1, np.uint64)
    scratch = np.full((3, probe.BLOCK_ROWS), 2**64 - 1, np.uint64)
    known: dict[object, int] = {}
    used = count = 0
    for _ in range(10):
        batch = [rng.choice(pool) for _ in range(rng.randint(1, 25))]
        packed, code = pack(batch), rng.randint(1, 4)
        for record in batch:
            newest(known, record, code)
        table = slots, records, used
        used, added = run(probe.insert_records, *table, hashes_of(packed), *packed, code, SEQUENCES, scratch)
        count += added
        assert count == len(known)
        if rng.random() < 0.3:
            new_slots = np.zeros(capacity + 10, np.uint64)
            run(probe.rehash_records, slots, new_slots)
            slots, capacity = new_slots, capacity + 10
        other = (tuple(3 for _ in range(width)), b"c" if text else None)
        asked = [*pool, *([other] if width or text else [])]
        packed = pack(asked)
        for applies in (SEQUENCES > 4, SEQUENCES > 0, SEQUENCES > 8):
            right = [bool(applies[known[record]]) if record in known else False for record in asked]
            found = np.zeros(len(asked), np.bool_)
            table = frozen(slots.view()), frozen(records.view())
            run(probe.probe_records, *table, applies, hashes_of(packed), *packed, scratch, found)
            assert found.tolist() == right
    assert len(known) > 3 or not width


@pytest.mark.parametrize("seed", range(3))
def test_more_records_than_a_block(run, seed):
    """Blocks of rows, keys twice in one block and in two, half of those asked about not in the table."""
    rng = random.Random(seed)
    pool = [((rng.getrandbits(64),), rng.randbytes(rng.randint(0, 20))) for _ in range(1500)]
    slots, records = np.zeros(3100, np.uint64), np.empty(20_000, np.uint64)
    scratch = np.empty((3, probe.BLOCK_ROWS), np.uint64)
    known: dict[object, int] = {}
    used = count = 0
    for code in (1, 3):
        batch = rng.choices(pool, k=2 * probe.BLOCK_ROWS + 7)
        packed = pack(batch)
        hashes = run(probe.hash_records, *packed)
        table = slots, records, used
        used, added = run(probe.insert_records, *table, hashes, *packed, code, SEQUENCES, scratch)
        count += added
        for key in batch:
            newest(known, key, code)
    assert count == len(known) < len(pool)
    asked = [key for words, text in pool for key in ((words, text), (words, text + b"!"))]
    packed, found = pack(asked), np.zeros(len(asked), np.bool_)
    applies = SEQUENCES > 8  # of code 3 alone
    table = frozen(slots), frozen(records)
    hashes = run(probe.hash_records, *packed)
    run(probe.probe_records, *table, applies, hashes, *packed, scratch, found)
    assert found.tolist() == [bool(applies[known.get(key, 0)]) for key in asked]
    assert 0 < found.sum() < len(pool)


@pytest.mark.parametrize("seed", range(4))
def test_hashes_of_kernel_and_twin_are_the_same(monkeypatch, seed):
    monkeypatch.setenv("TWOSTAGE_JIT", "always")
    rng = random.Random(seed)
    for width in range(3):
        packed = pack(
            [
                (tuple(rng.getrandbits(64) for _ in range(width)), rng.randbytes(rng.randint(0, 40)))
                for _ in range(200)
            ]
        )
        if not probe.hash_records.compiled(*packed):
            pytest.skip("no Numba")
        hashes = probe.hash_records(*packed)
        assert hashes.tolist() == probe.hash_records.twin(*packed).tolist()
        assert len(set(hashes.tolist())) > 150
    words = (
        frozen(np.arange(10, dtype=np.uint64).reshape(5, 2)),
        frozen(np.zeros(0, np.int64)),
        frozen(np.zeros(0, np.uint8)),
    )
    assert probe.hash_records(*words).tolist() == probe.hash_records.twin(*words).tolist()


def test_hash_spreads_sequential_keys():
    """Runs of keys must not fill runs of slots: the longest walk stays short."""
    keys, codes = np.empty(14_286, np.uint64), np.zeros(14_286, np.uint16)
    _, steps = probe_reference.place_words(keys, codes, np.arange(10_000, dtype=np.uint64), 1, SEQUENCES)
    assert steps < 120
