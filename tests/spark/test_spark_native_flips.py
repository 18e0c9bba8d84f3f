"""Bit flips in the pages of files that Spark's own Parquet reader reads for us: an error or the exact rows."""

from __future__ import annotations

import os
import random
from decimal import Decimal
from pathlib import Path

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from figures import FULL, record
from lakehouse import canonical
from mutations import flip
from native_scans import is_native, load
from small_tables import page_bodies
from tables import Table

SEED = int(os.environ.get("TWOSTAGE_SEED", "1"))
FLIPS = 1000 if FULL else 100
ROWS = 120
COLUMNS = {
    "id": "long!",
    "flag": "boolean",
    "small": "int",
    "wide": "double",
    "price": "decimal(18,4)",
    "word": "string",
    "bytes": "binary",
    "day": "date",
    "moment": "timestamptz",
}
LAYOUTS = {
    "dictionary, zstd": {"page_size": 200, "compression": "zstd"},
    "plain, uncompressed": {"dictionary": False, "compression": "none", "row_group_size": 50},
    "plain, snappy": {"dictionary": False, "compression": "snappy", "page_size": 300},
    "pages v2, gzip": {"page_version": "2.0", "compression": "gzip", "page_size": 200},
    "pages v2, uncompressed": {"page_version": "2.0", "compression": "none", "dictionary": False},
}


def rows(pick: random.Random) -> list[dict]:
    """Return rows of every type, each value sometimes NULL."""
    made = []
    for number in range(ROWS):
        row = {
            "flag": pick.random() < 0.5,
            "small": pick.randrange(20),
            "wide": pick.random(),
            "price": Decimal(pick.randrange(10**9)).scaleb(-4),
            "word": f"word {pick.randrange(30)}",
            "bytes": pick.randbytes(pick.randrange(9)),
            "day": pick.randrange(20_000),
            "moment": pick.randrange(10**15),
        }
        made.append({"id": number, **{name: value for name, value in row.items() if pick.random() < 0.9}})
    return made


def hashes(spark, path, **options):
    """Return a frame of each row's hash: a changed date may be none that Python has."""
    return load(spark, path, **options).selectExpr("id", f"xxhash64({', '.join(COLUMNS)}) AS h")


def outcome(frame, expected) -> str:
    """Return what came of a read: ``exact``, ``silent`` change, or ``refused``."""
    try:
        found = frame.collect()
    except (PySparkException, Py4JJavaError):
        return "refused"
    return "exact" if canonical(found) == expected else "silent"


@pytest.mark.timeout(1800 if FULL else 300)
def test_bit_flips_in_checksummed_pages(spark, tmp_path):
    """A file is damaged in place and mended again; every tenth read is planned anew, the others run the plan again."""
    print(f"seed {SEED}")
    pick = random.Random(f"native flips {SEED}")
    files, frames, outcomes = [], [], dict.fromkeys(("exact", "refused", "silent"), 0)
    for number, layout in enumerate(LAYOUTS.values()):
        table = Table(tmp_path / f"t{number}", COLUMNS)
        file = Path(table.append(rows(pick), page_checksums=True, **layout).path)
        path = table.write()
        frames.append((path, hashes(spark, path), canonical(hashes(spark, path).collect())))
        files.append((file, file.read_bytes(), page_bodies(file)))
        assert is_native(frames[-1][1])
        assert len(frames[-1][2]) == ROWS
    silent = []
    for number in range(FLIPS):
        place = number % len(files)
        (file, data, pages), (path, frame, expected) = files[place], frames[place]
        file.write_bytes(flip(data, pages, pick))
        if number % 50 < len(files):
            frame = hashes(spark, path)
            assert is_native(frame)
        found = outcome(frame, expected)
        outcomes[found] += 1
        if found == "silent":
            silent.append((number, list(LAYOUTS)[place]))
        file.write_bytes(data)
    assert not silent, f"seed {SEED}: {silent}"
    for _, frame, expected in frames:
        assert outcome(frame, expected) == "exact", "the mended file reads as before"
    assert outcomes["refused"] > 0.9 * FLIPS, outcomes
    record(
        "R6",
        **{f"native_{name}": number for name, number in outcomes.items()},
        native_flips=FLIPS,
        native_seed=SEED,
    )


def test_the_same_flips_are_silent_where_nothing_verifies(spark, tmp_path):
    """Without the checksums they change rows: the test above would see it."""
    pick = random.Random(f"native flips {SEED}")
    table = Table(tmp_path / "t", COLUMNS)
    file = Path(table.append(rows(pick), page_checksums=True, **LAYOUTS["plain, uncompressed"]).path)
    path, data, pages = table.write(), file.read_bytes(), page_bodies(file)
    frame = hashes(spark, path, **{"verify-checksums": "false"})
    assert is_native(frame)
    expected = canonical(frame.collect())
    found = []
    for _ in range(10):
        file.write_bytes(flip(data, pages, pick))
        found.append(outcome(frame, expected))
    assert found.count("silent") >= 3, found
