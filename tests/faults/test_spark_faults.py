"""Faults of Spark's workers and executors: exact rows, the next query right, and nothing left open or running.

`local[2]` never retries a task, so it would prove nothing: `local[2,4]` does, and `local-cluster` has executors of its
own to lose. One Spark program runs all cases of a master.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from figures import FULL, record
from tables import Table

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
ROWS = 4000
CONFS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.memory": "1g",
    "spark.executor.memory": "512m",
    "spark.sql.shuffle.partitions": "2",
    # A killed worker's daemon and an executor's heartbeat are noticed sooner.
    "spark.python.worker.reuse": "true",
}
LOCAL = {
    "raise:raised": 1,
    "kill:killed": 1,
    "each-kill:all-killed": 4,
    "half:half-sent": 4,
    "limit:limit": 0,
    "wait:cancel": 1,
}
CLUSTER = {
    "raise:raised": 1,
    "kill:killed": 1,
    "half:half-sent": 4,
    "executor:executor-killed": 1,
    "limit:limit": 0,
    "wait:cancel": 1,
}
RETRIED = ("raise", "kill", "each-kill", "half", "executor")


@pytest.fixture
def table(tmp_path):
    """Four data files of ten row groups; every third row is deleted by nobody: the query filters it."""
    made = Table(tmp_path / "t", {"id": "long", "s": "string"}, version=2)
    for first in range(0, ROWS, ROWS // 4):
        rows = [{"id": number, "s": f"s{number}"} for number in range(first, first + ROWS // 4)]
        made.append(rows, row_group_size=100)
    made.write()
    return tmp_path / "t"


def run(master, table, tmp_path, confs, cases):
    """Run the program; return its cases, and what it left behind."""
    faults, temporary = tmp_path / "faults", tmp_path / "temporary"
    faults.mkdir()
    temporary.mkdir()
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PYSPARK_GATEWAY")}
    paths = [str(ROOT / "connector"), str(ROOT / "native"), str(HERE)]
    environment |= {
        "PYTHONPATH": os.pathsep.join(paths),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "TMPDIR": str(temporary),
        "SPARK_LOCAL_DIRS": str(temporary),
        "TWOSTAGE_TEST_FAULTS": str(faults),
        "TWOSTAGE_TEST_MARK": str(tmp_path),
    }
    confs = {**CONFS, **confs, "spark.driver.extraJavaOptions": f"-Djava.io.tmpdir={temporary}"}
    command = [
        sys.executable,
        str(HERE / "spark_cases.py"),
        master,
        str(table),
        str(faults),
        json.dumps(confs),
    ]
    process = subprocess.Popen(
        [*command, *cases],
        env=environment,
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        printed, _ = process.communicate(timeout=400)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        printed, _ = process.communicate()
        pytest.fail(f"hangs after: {printed[-2000:]}")
    for line in printed.splitlines():
        if line.startswith("APPLICATION "):
            _remove_work(line.split()[1])
    assert process.returncode == 0, printed[-4000:]
    assert "THREAD " not in printed
    found = [json.loads(line[5:]) for line in printed.splitlines() if line.startswith("CASE ")]
    assert [one["case"] for one in found] == [case.partition(":")[2] for case in cases], printed[-4000:]
    assert not marked(str(tmp_path)), "a process is left"
    return found, sorted(path.name for path in temporary.rglob("*") if path.is_file())


def _remove_work(application):
    """Remove what local-cluster leaves inside the Spark installation."""
    import pyspark

    work = Path(os.environ.get("SPARK_HOME") or Path(pyspark.__file__).parent) / "work"
    shutil.rmtree(work / application, ignore_errors=True)
    if work.is_dir() and not list(work.iterdir()):
        work.rmdir()


def marked(mark):
    """Return the processes that our environment variable marks, those of the program and all its children."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                if f"TWOSTAGE_TEST_MARK={mark}\0".encode() in (entry / "environ").read_bytes():
                    found.append((entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()[:200])
            except OSError:
                continue
    return found


def check(found, cases, temporary, master):
    for one, (case, strikes) in zip(found, cases.items(), strict=True):
        assert one["exact"], one
        word = case.partition(":")[0]
        assert word not in RETRIED or one["attempts"] >= 2, f"no task ran twice: {one}"
        assert word != "executor" or one["executors_killed"] == 1, f"no executor was killed: {one}"
        assert one["after"], f"the query after it is wrong: {one}"
        assert one["struck"] >= strikes, f"the fault did not strike: {one}"
        assert one["open"] == [], f"files are left open: {one}"
        assert one["tasks"] == one["counted"] >= 4, one
        record("R7", **{f"{master}_{case.partition(':')[2]}": "exact"})
    ours = [name for name in temporary if name.endswith((".parquet", ".avro", ".arrow", ".orc", ".puffin"))]
    assert not ours, ours


@pytest.mark.timeout(500)
def test_faults_in_one_process(table, tmp_path):
    """A worker raises, is killed mid-batch, fails after half its batches; a limit, a cancelled query."""
    found, temporary = run("local[2,4]", table, tmp_path, {}, LOCAL)
    print(*found, sep="\n")
    check(found, LOCAL, temporary, "local")


@pytest.mark.skipif(not FULL, reason="two executors and their loss take a minute: nightly")
@pytest.mark.timeout(500)
def test_faults_in_a_cluster(table, tmp_path):
    """The same with executors that can be lost.

    Speculation is not tested: Spark never runs a copy on the host of the first attempt, and this cluster is one host.
    """
    found, temporary = run("local-cluster[2,1,1024]", table, tmp_path, {}, CLUSTER)
    print(*found, sep="\n")
    check(found, CLUSTER, temporary, "cluster")
