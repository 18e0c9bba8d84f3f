"""The program that `test_spark_faults.py` starts: one session, one table, one fault after the other.

Prints a line of JSON for each case: whether its rows were exact, whether the query after it was right, how many times
the fault struck, and which files of the table any process of ours still had open.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from pathlib import Path

import faulty_reader

import twostage

ROWS = 4000


def processes(top: int) -> list[int]:
    """Return the process `top` and all below it."""
    above: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                above[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue
    found = [top]
    for one in found:
        found += [child for child, parent in above.items() if parent == one]
    return found


def open_files(top: int, folder: str) -> list[str]:
    """Return the table's files that these processes hold open."""
    found = []
    for process in processes(top):
        try:
            handles = list(Path(f"/proc/{process}/fd").iterdir())
        except OSError:
            continue
        for handle in handles:
            try:
                target = os.readlink(handle)
            except OSError:
                continue
            if target.startswith(folder):
                found.append(f"{process} {target}")
    return found


def settled(top: int, folder: str) -> list[str]:
    """Return what stays open after a while: a cancelled task closes its files when it notices."""
    for _ in range(100):
        if not (found := open_files(top, folder)):
            return []
        time.sleep(0.1)
    return found


class Cases:
    """One session and its cases."""

    def __init__(self, master: str, table: str, folder: Path, more: dict[str, str]) -> None:
        from pyspark.sql import SparkSession

        os.environ[faulty_reader.FOLDER] = faulty_reader.FaultyReader.folder = str(folder)
        builder = SparkSession.builder.master(master)
        for key, value in more.items():
            builder = builder.config(key, value)
        self.spark = builder.getOrCreate()
        self.spark.sparkContext.setLogLevel("OFF")
        self.folder, self.table = folder, table
        self.order("none")
        twostage.enable(self.spark)
        faulty_reader.install()
        reader = self.spark.read.format("twostage").option("split-size", "1k").option("batch-size", "100")
        self.frame = reader.load(table)

    def order(self, text: str) -> None:
        """Tell the workers what goes wrong next."""
        (self.folder / "order.new").write_text(text)
        (self.folder / "order.new").rename(self.folder / "order")

    def query(self) -> bool:
        """Tell whether a filtered read has exactly its rows."""
        found = sorted(row.id for row in self.frame.where("id % 3 <> 0").select("id", "s").collect())
        return found == [number for number in range(ROWS) if number % 3]

    def run(self, word: str, name: str) -> None:
        """Run one case and print what came of it."""
        self.order(f"{word} {name}")
        started = time.time()
        if word == "wait":
            exact = self.cancelled()
        elif word == "limit":
            exact = self.limited()
        else:
            exact = self.query()
        attempts = len(list(self.folder.glob(f"attempt-{name}-*")))
        self.order("none")
        after = self.query()
        report = twostage.last_scan(self.spark)
        struck = len(list(self.folder.glob(f"{name}-*")))
        line = {
            "case": name,
            "exact": exact,
            "after": after,
            "struck": struck,
            "attempts": attempts,
            "executors_killed": len(list(self.folder.glob("executor-[0-9]*"))),
            "tasks": report.tasks_planned,
            "counted": report.tasks_finished,
            "open": settled(os.getpid(), self.table),
            "seconds": round(time.time() - started, 1),
        }
        print("CASE " + json.dumps(line), flush=True)

    def cancelled(self) -> bool:
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
            if list(self.folder.glob("cancel-*")):
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
    """Run the cases named on the command line, as ``word:name``."""
    master, table, folder, confs, *cases = sys.argv[1:]
    run = Cases(master, table, Path(folder), json.loads(confs))
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
