"""The program that `test_spark_faults.py` starts: one session, one fault after the other.

Prints a line of JSON for each case: whether its rows were exact, whether the query after it was right, how many times
the fault struck, what Spark says of copies, and which files of the tables any process of ours still had open.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import faulty_reader
from marked import MARK, settled

import twostage

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

ROWS = 4000
WIDE_ROWS, WIDE_BYTES = 40_000, 400
COPIES = ("slow", "race", "late")
REFUSALS = (
    "OUT_OF_MEMORY",
    "MemoryError",
    "Cannot allocate memory",
    "failed to map segment",
    "exited unexpectedly",
    "EOFException",
)
"""What an error may say where memory ran out: ours, Python's, or Spark's where the worker died of it."""


class Cases:
    """One session and its cases."""

    def __init__(self, master: str, tables: dict[str, str], folder: Path, more: dict[str, str]) -> None:
        from pyspark.sql import SparkSession

        os.environ[faulty_reader.FOLDER] = faulty_reader.FaultyReader.folder = str(folder)
        builder = SparkSession.builder.master(master)
        for key, value in more.items():
            builder = builder.config(key, value)
        self.spark = builder.getOrCreate()
        self.spark.sparkContext.setLogLevel("OFF")
        self.folder, self.tables = folder, Path(tables["narrow"]).parent
        self.order("none")
        twostage.enable(self.spark)
        faulty_reader.install()
        self.frame = self.load(tables["narrow"], {"split-size": "1k", "batch-size": "100"})
        self.wide = self.load(tables["wide"], {"split-size": "1k"})

    def load(self, path: str, options: dict[str, str]) -> DataFrame:
        """Return a table read by us, never by Spark's own reader."""
        reader = self.spark.read.format("twostage").options(**options).option("scan.native", "never")
        return reader.load(path)

    def order(self, word: str, name: str = "-", task: str = "0", amount: str = "0") -> None:
        """Tell the workers what goes wrong next, in which task."""
        (self.folder / "order.new").write_text(f"{word} {name} {task} {amount}")
        (self.folder / "order.new").rename(self.folder / "order")

    def query(self) -> bool:
        """Tell whether a filtered read has exactly its rows."""
        found = sorted(row.id for row in self.frame.where("id % 3 <> 0").select("id", "s").collect())
        return found == [number for number in range(ROWS) if number % 3]

    def wide_query(self) -> bool:
        """The same of the table with large row groups, whose rows stay in Spark."""
        found = self.wide.where("id % 3 <> 0").selectExpr(
            "count(*)", "sum(id)", f"count_if(length(s) = {WIDE_BYTES} AND s LIKE concat(id, ' %'))"
        )
        ids = [number for number in range(WIDE_ROWS) if number % 3]
        return tuple(found.collect()[0]) == (len(ids), sum(ids), len(ids))

    def run(self, word: str, name: str, task: str = "0", amount: str = "0") -> None:
        """Run one case and print what came of it."""
        self.order(word, name, task, amount)
        started = time.time()
        lost = len(list(self.folder.glob("lost-executor-*")))
        self.spark.sparkContext.setJobGroup(name, word)
        outcome: bool | str
        if word == "wait":
            outcome = self.cancelled(name)
        elif word == "limit":
            outcome = self.limited()
        elif word.startswith("memory"):
            outcome = self.exact_or_refused()
        else:
            outcome = self.query()
        seconds = time.time() - started
        report = twostage.last_scan(self.spark)
        attempts = len(list(self.folder.glob(f"attempt-{name}-*")))
        copies = self.copies(name, int(task)) if word in COPIES else {}
        self.order("none")
        self.spark.sparkContext.setJobGroup("after", "after a fault")
        after = self.wide_query() if word.startswith("memory") else self.query()
        later = twostage.last_scan(self.spark)
        line = {
            "case": name,
            "word": word,
            "exact": outcome,
            "after": after,
            "struck": len(list(self.folder.glob(f"{name}-*"))),
            "attempts": attempts,
            "executors_killed": len(list(self.folder.glob("lost-executor-*"))) - lost,
            "copies": copies,
            "tasks": [report.tasks_planned, later.tasks_planned],
            "counted": [report.tasks_finished, later.tasks_finished],
            "rows": [report.count("rows.considered"), later.count("rows.considered")],
            "open": settled(os.environ[MARK], str(self.tables)),
            "seconds": round(seconds, 1),
        }
        print("CASE " + json.dumps(line), flush=True)

    def exact_or_refused(self) -> bool | str:
        """Tell whether the rows were exact, or what the error said."""
        try:
            return self.wide_query()
        except Exception as error:
            text = str(error)
            return next((name for name in REFUSALS if name in text), f"another error: {text[:3000]}")

    def copies(self, group: str, index: int) -> dict[str, Any]:
        """Return what Spark's own status says of a task: how its attempts ended, speculative or not, and where."""
        context: Any = self.spark.sparkContext
        tracker, store = context.statusTracker(), context._jsc.sc().statusStore()
        for _ in range(100):  # the store hears of ends a little later
            attempts = []
            for job in tracker.getJobIdsForGroup(group):
                for stage in tracker.getJobInfo(job).stageIds:
                    found = store.taskList(stage, 0, 1000)
                    attempts += [found.apply(place) for place in range(found.length())]
            attempts = [attempt for attempt in attempts if attempt.index() == index]
            ends: dict[str, list[str]] = {"copy": [], "first": []}
            for attempt in attempts:
                ends["copy" if attempt.speculative() else "first"].append(attempt.status())
            if ends["copy"] and "RUNNING" not in ends["copy"] + ends["first"]:
                break
            time.sleep(0.1)
        return {**ends, "hosts": sorted({attempt.host() for attempt in attempts})}

    def cancelled(self, name: str) -> bool:
        """Cancel a query whose tasks wait; tell whether it ended with Spark's error for that."""
        from pyspark import InheritableThread

        failures = []

        def start() -> None:
            self.spark.sparkContext.setJobGroup("doomed", "to be cancelled", interruptOnCancel=True)
            try:
                self.query()
            except Exception as error:
                failures.append(str(error))
            finally:
                self.spark.sparkContext.setLocalProperty("spark.jobGroup.id", None)

        thread = InheritableThread(target=start)
        thread.start()
        for _ in range(300):
            if list(self.folder.glob(f"{name}-*")):
                break
            time.sleep(0.1)
        self.spark.sparkContext.cancelJobGroup("doomed")
        thread.join(60)
        return not thread.is_alive() and len(failures) == 1 and "cancel" in failures[0].lower()

    def limited(self) -> bool:
        """Stop early, many times and in several ways."""
        for count in (1, 3, 150):
            rows = self.frame.where("id % 3 <> 0").select("id", "s").limit(count).collect()
            if len(rows) != count or any(row.id % 3 == 0 for row in rows):
                return False
        iterator = self.frame.select("id").toLocalIterator()
        first = [next(iterator).id for _ in range(3)]
        del iterator
        return len(set(first)) == 3 and len(self.frame.take(7)) == 7 and self.frame.first() is not None


def main() -> None:
    """Run the cases named on the command line, as ``word:name:task:amount``."""
    master, tables, folder, confs, *cases = sys.argv[1:]
    run = Cases(master, json.loads(tables), Path(folder), json.loads(confs))
    try:
        for case in cases:
            run.run(*case.split(":"))
        print("APPLICATION " + run.spark.sparkContext.applicationId)
    finally:
        run.spark.stop()
    for thread in threading.enumerate():
        if thread is not threading.main_thread() and not thread.daemon:
            print("THREAD " + thread.name)


if __name__ == "__main__":
    main()
