"""Data files and executors, in a cluster: with `executor-locality`, each file is read by the same executor in every query."""

from __future__ import annotations

import json
import subprocess
import sys

from native_scans import LOCAL_CLUSTER
from tables import Table

PROGRAM = """
import json, os, time
import pyarrow as pa
def executors():
    return spark.sparkContext._jsc.sc().statusStore().executorList(True).size() - 1  # without the driver
deadline = time.monotonic() + 120
while executors() < 2:
    assert time.monotonic() < deadline, "the executors do not come"
    time.sleep(0.1)
def tell(batches):
    for batch in batches:
        yield pa.record_batch([batch.column(0), pa.array([os.getppid()] * batch.num_rows, pa.int64())], ["file", "executor"])
reader = spark.read.format("twostage").option("split-size", "1k")
frame = reader.option("executor-locality", "true").load({path!r})
queries = []
for where in ("true", "id % 10 = 3", "true", "id < 600", "true", "id % 7 > 1"):
    found = frame.where(where).select("_file").mapInArrow(tell, "file string, executor long").collect()
    queries.append(sorted(set((row.file.rpartition("/")[2], row.executor) for row in found)))
told = [queries, sorted(row.id for row in frame.collect()), str(twostage.last_scan(spark))]
frame = reader.option("executor-locality", "false").load({path!r})
print(json.dumps([*told, sorted(row.id for row in frame.collect()), str(twostage.last_scan(spark))]))
spark.stop()
"""


def run(path):
    # A task would go to another executor after this, on a machine that stands still.
    program = LOCAL_CLUSTER.format(confs={"spark.locality.wait": "300s"})
    program += PROGRAM.replace("{path!r}", repr(str(path)))
    told = subprocess.run(
        [sys.executable, "-c", program], check=False, capture_output=True, text=True, timeout=300
    )
    assert told.returncode == 0, told.stderr[-3000:]
    return json.loads(told.stdout.splitlines()[-1])


def test_each_file_is_read_by_the_same_executor(tmp_path):
    table = Table(tmp_path / "table", {"id": "long"})
    for number in range(12):
        table.append([{"id": 100 * number + row} for row in range(100)])
    path = table.write()
    queries, placed, report, others, without = run(path)
    home = dict(queries[0])
    assert len(home) == len(queries[0]) == 12
    assert len(set(home.values())) == 2
    for found in queries[1:]:
        assert len(dict(found)) == len(found)
    assert queries[2] == queries[4] == queries[0]
    assert queries[1] == queries[0], "the same files, though fewer rows of each"
    assert "Tasks placed on 2 executors" in report
    assert placed == others == list(range(1200))
    assert "Tasks placed" not in without
