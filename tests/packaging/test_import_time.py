"""What `import pyspark_twostage` costs a Spark session that does not use it; the scoreboard judges the time."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from pathlib import Path

from figures import record

ROOT = Path(__file__).resolve().parents[2]
TURNS = 5
PROGRAM = """
import json, sys, time
import pyspark.sql.datasource
started, before = time.perf_counter(), set(sys.modules)
import pyspark_twostage
seconds = time.perf_counter() - started
print(json.dumps([seconds, sorted(set(sys.modules) - before)]))
"""


def test_importing_the_source_after_pyspark():
    seconds, added = [], set()
    for _ in range(TURNS):
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM],
            capture_output=True,
            text=True,
            check=True,
            env={"PYTHONPATH": f"{ROOT / 'connector'}:{ROOT / 'native'}", "PATH": "/usr/bin:/bin"},
        )
        took, modules = json.loads(done.stdout)
        seconds.append(took)
        added |= {name.partition(".")[0] for name in modules}
    assert "pyspark_twostage" in added
    heavy = added & {"numba", "pyiceberg", "pandas", "sqlglot", "rich"}
    record("R14", seconds=round(statistics.median(seconds), 3), heavy_modules=len(heavy))
    assert not heavy
