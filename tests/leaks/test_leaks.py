"""Many reads in one process: memory, descriptors and threads come back to where they were."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import oracle
from figures import FULL, record
from tables import Table

TESTS = Path(__file__).parents[1]
READS = 2000 if FULL else 200
MOST_GROWTH = (10 if FULL else 5) * 2**20


def make(folder, version):
    table = Table(folder, {"id": "long", "s": "string", "d": "double"}, version=version)
    files = []
    for number, kind in enumerate(("parquet", "orc", "avro", "parquet")):
        rows = [{"id": 500 * number + i, "s": f"text {i}", "d": i / 3} for i in range(500)]
        files.append(table.append(rows, format=kind, row_group_size=100))
    if version == 3:
        table.delete_vectors({file: [1, 2, 3] for file in files})
    else:
        table.delete_positions({file: [1, 2, 3] for file in files})
    table.delete_equal(["id"], [{"id": 500 * n + 7} for n in range(4)])
    table.write()
    return table, files


@pytest.mark.timeout(900)
@pytest.mark.parametrize("version", [2, 3])
def test_many_reads_in_one_process(tmp_path, version):
    """Whole, filtered, abandoned and failing reads: RSS grows by less than the bound after the warm-up.

    The warm-up compiles the kernels: loading Numba takes 100 MB once, whenever it happens.
    """
    table, _ = make(tmp_path / "t", version)
    _, files = make(tmp_path / "broken", version)
    Path(files[0].path).write_bytes(b"PAR1 nothing PAR1")
    rows = len(oracle.live_rows(table.content()))
    root = TESTS.parent
    paths = [str(root / "connector"), str(root / "native"), str(TESTS / "shared")]
    done = subprocess.run(
        [
            sys.executable,
            str(TESTS / "leaks" / "reading.py"),
            str(tmp_path / "t"),
            str(tmp_path / "broken"),
            str(READS),
            str(rows),
        ],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths), "TWOSTAGE_JIT": "always"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["wrong"] == []
    before, after = found["before"], found["after"]
    growth = after["rss"] - before["rss"]
    print(f"version {version}: {READS} reads, {growth / 2**20:.2f} MiB more, {before}, {after}")
    record("R11", **{f"reads_v{version}": READS, f"rss_growth_mib_v{version}": round(growth / 2**20, 2)})
    # Fewer is no leak: a thread of the warm-up's last reads, or of a compiling kernel, may have been about to end.
    assert after["descriptors"] <= before["descriptors"]
    assert after["threads"] <= before["threads"]
    assert growth < MOST_GROWTH, found
