from __future__ import annotations

import random
import struct
import zlib

import numpy as np
import pytest
from pyroaring import BitMap, BitMap64

from declared.files import VECTOR_MAGIC, vector_blob, write_puffin
from scan_values import context_of, delete_of, task_of
from twostage.deletes.positions.deletion_vector import decode_vector
from twostage.deletes.positions.position_deletes import load_positions
from twostage.errors import CorruptFileError, MissingFileError, ResourceLimitError
from twostage.metrics import Metrics

ARRAY = list(range(0, 8000, 2))
BITMAP = list(range(0, 2**16, 3))
RUNS = [*range(10, 3000), *range(5000, 2**16)]
DATA_FILE = "/lake/data.parquet"


def frame(bitmap: bytes, *, magic: bytes = VECTOR_MAGIC) -> bytes:
    body = magic + bitmap
    return struct.pack(">I", len(body)) + body + struct.pack(">I", zlib.crc32(body))


def portable(*bitmaps: tuple[int, bytes], count: int | None = None) -> bytes:
    return struct.pack("<Q", len(bitmaps) if count is None else count) + b"".join(
        struct.pack("<I", key) + raw for key, raw in bitmaps
    )


def small(cookie: int, *parts: bytes) -> bytes:
    return struct.pack("<I", cookie) + b"".join(parts)


def no_runs(*containers: tuple[int, int, bytes], offsets: list[int] | None = None) -> bytes:
    """A 32-bit bitmap without runs: (key, cardinality, content)."""
    position = 8 + 8 * len(containers)
    header, places, content = b"", b"", b""
    for index, (key, cardinality, raw) in enumerate(containers):
        header += struct.pack("<HH", key, cardinality - 1)
        places += struct.pack("<I", position if offsets is None else offsets[index])
        content += raw
        position += len(raw)
    return small(12346, struct.pack("<I", len(containers)), header, places, content)


def one_run(cardinality: int, *runs: tuple[int, int], flags: int = 1) -> bytes:
    """A 32-bit bitmap of one run container: (start, length - 1)."""
    pairs = b"".join(struct.pack("<HH", *run) for run in runs)
    return small(
        12347, bytes([flags]), struct.pack("<HH", 0, cardinality - 1), struct.pack("<H", len(runs)), pairs
    )


def shorts(*values: int) -> bytes:
    return struct.pack(f"<{len(values)}H", *values)


GOOD = {
    "empty": [],
    "array": ARRAY,
    "bitmap": BITMAP,
    "runs": RUNS,
    "largest array": list(range(0, 4096 * 2, 2)),
    "smallest bitmap": list(range(0, 4097 * 2, 2)),
    "full container": list(range(2**16)),
    "mixed": [*ARRAY, *(2**16 + value for value in BITMAP), *(2 * 2**16 + value for value in RUNS), 2**20],
    "five run containers": [c * 2**16 + v for c in range(5) for v in range(100, 200)],
    "beyond 32 bits": [1, 2**32 - 1, 2**32, 2**40 + 5, (2**31 - 2) * 2**32 + 7],
    "last value of a container": [2**16 - 1, 2**32 - 1],
}


@pytest.mark.parametrize("optimize", [True, False])
@pytest.mark.parametrize("name", GOOD)
def test_every_container(name, optimize):
    bitmap = BitMap64(GOOD[name])
    if optimize:
        bitmap.run_optimize()
    assert list(decode_vector(frame(bitmap.serialize()), "v")) == GOOD[name]


def test_handwritten_bitmaps():
    assert list(decode_vector(frame(portable()), "v")) == []
    assert list(decode_vector(frame(portable((0, no_runs()), (3, no_runs((1, 2, shorts(5, 9)))))), "v")) == [
        3 * 2**32 + 2**16 + 5,
        3 * 2**32 + 2**16 + 9,
    ]
    assert list(decode_vector(frame(portable((0, one_run(5, (7, 1), (100, 2))))), "v")) == [
        7,
        8,
        100,
        101,
        102,
    ]


@pytest.mark.parametrize("seed", range(30))
def test_random_vectors(seed):
    rng = random.Random(seed)
    values: set[int] = set()
    for _ in range(rng.randint(0, 8)):
        start = rng.choice([0, 2**16, 2**32, 2**33]) + rng.randrange(2**18)
        values.update(
            rng.choice(
                [
                    range(start, start + rng.randint(1, 70_000)),
                    [start + rng.randrange(2**16) for _ in range(9_000)],
                    [start],
                ]
            )
        )
    assert list(decode_vector(vector_blob(sorted(values)), "v")) == sorted(values)


ONE = portable((0, no_runs((0, 2, shorts(3, 4)))))
VALID = frame(ONE)
BITS = np.packbits(np.isin(np.arange(2**16), BITMAP), bitorder="little").tobytes()

BAD = {
    **{f"{length} bytes": VALID[:length] for length in (0, 1, 3, 4, 7, 8, 11, 12, 15, 19)},
    "cut at the end": VALID[:-1],
    "one byte more": VALID + b"\0",
    "length too small": struct.pack(">I", len(ONE) + 3) + VALID[4:],
    "length too large": struct.pack(">I", 2**32 - 1) + VALID[4:],
    "length little-endian": struct.pack("<I", len(ONE) + 4) + VALID[4:],
    "wrong magic": frame(ONE, magic=b"\xd1\xd3\x39\x65"),
    "magic reversed": frame(ONE, magic=VECTOR_MAGIC[::-1]),
    "wrong CRC": VALID[:-1] + bytes([VALID[-1] ^ 1]),
    "CRC little-endian": VALID[:-4] + VALID[-4:][::-1],
    "CRC without magic": VALID[:-4] + struct.pack(">I", zlib.crc32(ONE)),
    "bitmap count huge": frame(portable((0, no_runs((0, 2, shorts(3, 4)))), count=2**62)),
    "bitmap count negative": frame(portable((0, no_runs((0, 2, shorts(3, 4)))), count=2**64 - 1)),
    "bitmap count one more": frame(portable((0, no_runs((0, 2, shorts(3, 4)))), count=2)),
    "bitmap count one less": frame(portable((0, no_runs()), (1, no_runs()), count=1)),
    "key 2^31 - 1": frame(portable((2**31 - 1, no_runs((0, 1, shorts(3)))))),
    "key 2^32 - 1": frame(portable((2**32 - 1, no_runs((0, 1, shorts(3)))))),
    "keys unsorted": frame(portable((2, no_runs()), (1, no_runs()))),
    "keys twice": frame(portable((1, no_runs()), (1, no_runs()))),
    "unknown cookie": frame(portable((0, small(99, bytes(8))))),
    "cookie of 16 bits": frame(portable((0, small(12346 | 1 << 16, bytes(8))))),
    "container count huge": frame(portable((0, small(12346, struct.pack("<I", 2**32 - 1))))),
    "container count 65537": frame(portable((0, small(12346, struct.pack("<I", 65537), bytes(65537 * 8))))),
    "containers unsorted": frame(portable((0, no_runs((2, 1, shorts(3)), (1, 1, shorts(3)))))),
    "containers twice": frame(portable((0, no_runs((1, 1, shorts(3)), (1, 1, shorts(4)))))),
    "offset wrong": frame(portable((0, no_runs((0, 2, shorts(3, 4)), offsets=[17])))),
    "offset huge": frame(portable((0, no_runs((0, 2, shorts(3, 4)), offsets=[2**32 - 1])))),
    "array descends": frame(portable((0, no_runs((0, 2, shorts(4, 3)))))),
    "array repeats": frame(portable((0, no_runs((0, 2, shorts(3, 3)))))),
    "array cut off": frame(portable((0, no_runs((0, 5, shorts(3, 4)))))),
    "array with more": frame(portable((0, no_runs((0, 2, shorts(3, 4, 5)))))),
    "bitmap's count wrong": frame(portable((0, no_runs((0, len(BITMAP) + 1, BITS))))),
    "bitmap cut off": frame(portable((0, no_runs((0, len(BITMAP), BITS[:-1]))))),
    "runs overlap": frame(portable((0, one_run(6, (7, 2), (9, 2))))),
    "runs unsorted": frame(portable((0, one_run(5, (100, 2), (7, 1))))),
    "run past the end": frame(portable((0, one_run(3, (65534, 2))))),
    "runs' count wrong": frame(portable((0, one_run(4, (7, 2))))),
    "no run in a run container": frame(portable((0, one_run(1)))),
    "runs cut off": frame(portable((0, one_run(5, (7, 1), (100, 2))[:-2]))),
    "run flag beyond the last": frame(portable((0, one_run(3, (7, 2), flags=3)))),
    "run cookie alone": frame(portable((0, small(12347 | 0xFFFF << 16)), count=1) + bytes(8)),
    "zeros": frame(bytes(100)),
}


def test_the_good_parts_of_the_bad_ones():
    """The hand-written parts are right, so that each bad case fails for what its name says."""
    assert list(decode_vector(VALID, "v")) == [3, 4]
    assert list(decode_vector(frame(portable((0, no_runs((0, len(BITMAP), BITS))))), "v")) == BITMAP
    assert list(decode_vector(frame(portable((2**31 - 2, no_runs((0, 1, shorts(3)))))), "v")) == [
        (2**31 - 2) * 2**32 + 3
    ]
    assert len(BAD) >= 25


@pytest.mark.parametrize("name", BAD)
def test_bad_blobs(name):
    with pytest.raises(CorruptFileError) as caught:
        decode_vector(BAD[name], "s3://lake/v.puffin")
    assert (caught.value.code, caught.value.path, caught.value.stage) == (
        "CORRUPT_VECTOR",
        "s3://lake/v.puffin",
        "deletes",
    )


@pytest.mark.parametrize("seed", range(20))
def test_mutations_are_never_believed(seed):
    """Any change of the body with a CRC made to fit is a valid other bitmap or an error; nothing hangs or crashes."""
    rng = random.Random(seed)
    bitmap = BitMap64([*ARRAY, *(2**16 + v for v in RUNS), *(2**17 + v for v in BITMAP), 2**33])
    bitmap.run_optimize()
    body = bitmap.serialize()
    for _ in range(50):
        changed = bytearray(body)
        for _ in range(rng.randint(1, 3)):
            changed[rng.choice([rng.randrange(len(changed)), rng.randrange(60)])] = rng.randrange(256)
        if rng.random() < 0.2:
            del changed[rng.randrange(len(changed)) :]
        try:
            found = decode_vector(frame(bytes(changed)), "v")
        except CorruptFileError:
            continue
        assert BitMap64.deserialize(found.serialize()) == found
        assert sorted(set(found)) == list(found)
    blob = vector_blob([1, 5, 9, 2**20])
    for _ in range(50):
        flipped = bytearray(blob)
        flipped[rng.randrange(len(blob))] ^= 1 << rng.randrange(8)
        with pytest.raises(CorruptFileError):
            decode_vector(bytes(flipped), "v")


def puffin(tmp_path, *vectors):
    path = tmp_path / "deletes.puffin"
    blobs = [(name, vector_blob(positions), len(positions)) for name, positions in vectors]
    size, places = write_puffin(path, blobs)
    return [
        delete_of(
            path,
            "vector",
            file_size=size,
            record_count=blob[2],
            content_offset=place[0],
            content_size=place[1],
            referenced_data_file=blob[0],
        )
        for blob, place in zip(blobs, places, strict=True)
    ]


def test_one_blob_of_many(tmp_path):
    files = puffin(tmp_path, ("/lake/a", [1, 2]), (DATA_FILE, [0, 7, 999_999]), ("/lake/b", [3]))
    metrics = Metrics()
    for _ in range(2):
        found = load_positions(
            context_of(tmp_path), task_of(files[1], written_path=f"file://{DATA_FILE}"), metrics
        )
        assert (found.kind, found.count) == ("vector", 3)
    assert found.within(0, 1_000_000).tolist() == [0, 7, 999_999]
    assert found.within(7, 1).tolist() == [0]
    assert found.within(8, 100).tolist() == []
    assert (metrics.counters["delete_files.opened"], metrics.counters["delete_files.cached"]) == (1, 1)


def test_a_vector_stands_alone(tmp_path):
    """Positional files beside a vector are not read; two vectors for one data file are damage."""
    (vector,) = puffin(tmp_path, (DATA_FILE, [1]))
    beside = delete_of(tmp_path / "absent.parquet", "position")
    assert load_positions(context_of(tmp_path), task_of(beside, vector), Metrics()).within(0, 9).tolist() == [
        1
    ]
    with pytest.raises(CorruptFileError, match="2 deletion vectors"):
        load_positions(context_of(tmp_path), task_of(vector, vector), Metrics())


def test_vector_against_its_metadata(tmp_path):
    from dataclasses import replace

    (good,) = puffin(tmp_path, (DATA_FILE, [5, 10]))
    context = context_of(tmp_path)
    bad = [
        replace(good, record_count=3),
        replace(good, content_offset=good.content_offset + 1),
        replace(good, content_offset=0),
        replace(good, content_offset=-5),
        replace(good, content_size=good.content_size - 1),
        replace(good, content_size=11),
        replace(good, content_size=-1),
        replace(good, content_size=good.file_size),
        replace(good, content_size=2**40),
        replace(good, file_size=2**40, content_offset=2**39),
        replace(good, referenced_data_file="/lake/other.parquet"),
    ]
    for delete in bad:
        with pytest.raises(CorruptFileError) as caught:
            load_positions(context, task_of(delete), Metrics())
        assert (caught.value.code, caught.value.path) == ("CORRUPT_VECTOR", good.path)
    with pytest.raises(CorruptFileError, match="past the data file's 10 rows"):
        load_positions(context, task_of(good, record_count=10), Metrics())
    assert load_positions(context, task_of(good, record_count=11), Metrics()).count == 2
    with pytest.raises(MissingFileError):
        load_positions(context, task_of(replace(good, path=str(tmp_path / "absent.puffin"))), Metrics())
    with pytest.raises(ResourceLimitError, match="task-memory"):
        load_positions(
            context_of(tmp_path, settings={"task_memory": 20}),
            task_of(replace(good, record_count=2)),
            Metrics(),
        )


def test_a_hundred_million_positions_stay_small():
    """Runs are not unfolded: only what a row group asks for is."""
    bitmap = BitMap64()
    bitmap.add_range(5, 100_000_005)
    bitmap.run_optimize()
    blob = frame(bitmap.serialize())
    assert len(blob) < 50_000
    from twostage.deletes.positions.position_deletes import DeletedPositions
    from twostage.deletes.positions.position_file import bitmap_bytes

    found = decode_vector(blob, "v")
    assert bitmap_bytes(found) < 500_000
    positions = DeletedPositions("vector", found, len(found))
    assert positions.within(99_999_999, 10).tolist() == [0, 1, 2, 3, 4, 5]
    assert BitMap([0]) == BitMap(positions.within(5, 1).tolist())
