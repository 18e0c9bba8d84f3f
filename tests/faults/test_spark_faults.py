"""Faults of Spark's workers and executors: exact rows, the next query right, and nothing left open or running.

`local[2]` never retries a task, so it would prove nothing: `local[2,4]` does. The other cluster has two hosts, with
executors that can be lost and room for speculative copies. One Spark program runs all cases of a master; at the
nightly sizes each ten times, with the fault in another task each time.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from faulty_reader import WORDS
from marked import remaining
from spark_programs import CONFS, HERE, ROWS, RUNS, TASKS, environment_of

from figures import FULL, record
from standalone import HOSTS, standalone
from tables import Table

WIDE_ROWS, WIDE_BYTES = 40_000, 400
SPECULATION = {
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.quantile": "0.25",
    "spark.speculation.multiplier": "1.2",
    "spark.speculation.minTaskRuntime": "300ms",
    "spark.speculation.efficiency.enabled": "false",
}
LOCAL = {  # word: name of the cell on the scoreboard
    "raise": "worker raises",
    "kill": "worker killed",
    "each-kill": "every worker killed",
    "half": "half of the batches sent",
    "limit": "LIMIT leaves iterators",
    "wait": "query cancelled",
    "memory": "worker out of memory once",
}
CLUSTER = {
    "executor": "executor killed",
    "slow": "speculative copies: the first reader loses",
    "race": "speculative copies: a race",
    "late": "speculative copies: the second reader loses",
}
IN_BOTH = ("raise", "kill", "half", "wait")
"""Words of `LOCAL` that the cluster runs once at the nightly sizes."""
ALWAYS = "memory-always"
RETRIED = ("raise", "kill", "each-kill", "half", "executor", "memory")
MEMORY = (2, 4, 6, 8, 10, 12, 16, 24, 32, 1024) if FULL else (2, 12, 1024)
"""MiB that the workers may take above what they have, one query each; the last one is enough."""
MALLOC = {"ARROW_DEFAULT_MEMORY_POOL": "system", "MALLOC_ARENA_MAX": "1"}
"""Other pools and arenas reserve address space far beyond what they use: no limit of it would be felt."""


@pytest.fixture
def tables(tmp_path):
    """Two tables of four files: one of ten small row groups a file, one of a row group of 4 MB."""
    made = Table(tmp_path / "tables" / "narrow", {"id": "long", "s": "string"}, version=2)
    for first in range(0, ROWS, ROWS // TASKS):
        rows = [{"id": number, "s": f"s{number}"} for number in range(first, first + ROWS // TASKS)]
        made.append(rows, row_group_size=100)
    made.write()
    wide = Table(tmp_path / "tables" / "wide", {"id": "long", "s": "string"}, version=2)
    for first in range(0, WIDE_ROWS, WIDE_ROWS // TASKS):
        numbers = range(first, first + WIDE_ROWS // TASKS)
        draw = random.Random(first)
        texts = [f"{number} {draw.randbytes(WIDE_BYTES // 2).hex()}"[:WIDE_BYTES] for number in numbers]
        wide.append([{"id": number, "s": text} for number, text in zip(numbers, texts, strict=True)])
    wide.write()
    return {"narrow": str(made.folder), "wide": str(wide.folder)}


def run(master, tables, tmp_path, confs, cases, more=()):
    """Run the program; return its cases, and what it left behind."""
    faults = tmp_path / "faults"
    faults.mkdir()
    environment, temporary = environment_of(tmp_path)
    environment |= dict(more)
    confs = {**CONFS, **confs, "spark.driver.extraJavaOptions": f"-Djava.io.tmpdir={temporary}"}
    program = [sys.executable, str(HERE / "spark_cases.py"), master, json.dumps(tables), str(faults)]
    process = subprocess.Popen(
        [*program, json.dumps(confs), *cases],
        env=environment,
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        printed, _ = process.communicate(timeout=800 * (1 + RUNS // 2))
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
    print(*found, sep="\n")
    assert [one["case"] for one in found] == [case.split(":")[1] for case in cases], printed[-4000:]
    return found, sorted(path.name for path in temporary.rglob("*") if path.is_file())


def _remove_work(application):
    """Remove what local-cluster leaves inside the Spark installation."""
    import pyspark

    work = Path(os.environ.get("SPARK_HOME") or Path(pyspark.__file__).parent) / "work"
    shutil.rmtree(work / application, ignore_errors=True)
    if work.is_dir() and not list(work.iterdir()):
        work.rmdir()


def ordered(words):
    """Return the cases of a program: every word in turn, RUNS times, each time in another task."""
    return [f"{word}:{word}-{number}:{number % TASKS}" for number in range(RUNS) for word in words]


def check(found, temporary, cells):
    """Check what the program said of its cases, and record each run that was exact."""
    for one in found:
        word = one["word"]
        assert one["exact"] is True, one
        assert one["after"], f"the query after it is wrong: {one}"
        struck = 0 if word == "limit" else TASKS if word in ("each-kill", "half") else 1
        assert one["struck"] >= struck, f"the fault did not strike: {one}"
        assert word not in RETRIED or one["attempts"] >= 2, f"no task ran twice: {one}"
        assert one["executors_killed"] == (word == "executor"), one
        assert one["open"] == [], f"files are left open: {one}"
        rows = WIDE_ROWS if word == "memory" else ROWS
        # Only the query after them is whole: a limit and a cancelled query leave tasks out.
        for place in (1,) if word in ("limit", "wait") else (0, 1):
            assert one["tasks"][place] == one["counted"][place] == TASKS, f"a task is not counted once: {one}"
            assert one["rows"][place] == rows, f"a task is not counted once: {one}"
        if one["copies"]:
            check_copies(one)
        record("R7", cell=cells[word])
    ours = [name for name in temporary if name.endswith((".parquet", ".avro", ".arrow", ".orc", ".puffin"))]
    assert not ours, ours


def check_copies(one):
    """Check that Spark ran a copy of the task on the other host, and that it ended as the case wants it."""
    copies = one["copies"]
    assert one["attempts"] >= 2, f"no copy was run: {one}"
    assert "FAILED" not in copies["copy"] + copies["first"], one
    if one["word"] == "race" or not copies["copy"]:
        return  # Spark's status was seen without the copy, whose reader had left its mark
    assert copies["hosts"] == list(HOSTS), f"no copy on the other host: {one}"
    # Where the first attempt is slow to start, its copy is the one that reads first: either may win.
    assert sorted(copies["copy"] + copies["first"]) == ["KILLED", "SUCCESS"], one


@pytest.mark.timeout(900 * RUNS)
def test_faults_in_one_process(tables, tmp_path):
    """A worker raises, is killed mid-batch, fails after half its batches; a limit, a cancelled query, no memory."""
    cases = ordered(LOCAL)
    for number, amount in enumerate(MEMORY):
        cases.append(f"{ALWAYS}:{ALWAYS}-{number}:0:{amount}")
    found, temporary = run("local[2,4]", tables, tmp_path, {}, cases, MALLOC)
    check([one for one in found if one["word"] != ALWAYS], temporary, LOCAL)
    check_memory([one for one in found if one["word"] == ALWAYS])
    assert not (left := remaining(str(tmp_path), 10)), left


def check_memory(found):
    """Check queries of which every attempt has so many MiB: exact rows or an error that tells; the next one right."""
    outcomes = [one["exact"] for one in found]
    for one in found:
        assert one["exact"] is True or not one["exact"].startswith("another error"), one
        assert one["after"], one
        assert one["open"] == [], one
        record("R7", cell="worker out of memory always")
    # What earlier queries freed may suffice in one case or other; `worker out of memory once` always strikes.
    if FULL:
        assert any(one["exact"] is not True or one["attempts"] > 1 for one in found), "no limit was felt"
    assert outcomes[-1] is True, "the greatest limit is no limit"
    record("R7", memory_refused=len(outcomes) - outcomes.count(True), memory_exact=outcomes.count(True))


@pytest.mark.timeout(900 * RUNS)
def test_faults_in_a_cluster(tables, tmp_path):
    """An executor is lost; speculative copies of a slow task win, lose, and end together with it."""
    environment, temporary = environment_of(tmp_path)
    with standalone(tmp_path, {**environment, "TMPDIR": str(temporary)}) as master:
        cases = ordered(CLUSTER) + [f"{word}:{word}-too:0" for word in IN_BOTH if FULL]
        found, temporary = run(master, tables, tmp_path, SPECULATION, cases)
    check(found, temporary, LOCAL | CLUSTER)
    assert not (left := remaining(str(tmp_path), 10)), left


def test_every_fault_is_used():
    """A word of the reader that no case orders would test nothing."""
    assert {*LOCAL, *CLUSTER, ALWAYS, "none"} == set(WORDS)
