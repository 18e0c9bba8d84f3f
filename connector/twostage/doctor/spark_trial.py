"""Read the trial table in a local Spark session, as a subprocess: a JVM that hangs or crashes is isolated.

Takes the table's folder as its argument; prints one line of JSON per step, prefixed by `MARK` to distinguish it from
Spark's output. Steps without a line were not reached.
"""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

from twostage.doctor.trial_table import WORDS
from twostage.errors import TwoStageError, mask

if TYPE_CHECKING:
    from collections.abc import Callable

MARK = "twostage-doctor "
SESSION, PLANNER, SCAN = STEPS = ("Spark session", "Planner", "Scan")


def main() -> None:
    """Run the steps until one fails."""
    table = sys.argv[1]
    made: dict[str, Any] = {}

    def session() -> str:
        from pyspark.sql import SparkSession  # noqa: PLC0415 - its exceptions are the result of a step

        builder: Any = SparkSession.builder
        for key, value in (("spark.ui.enabled", "false"), ("spark.log.level", "OFF"), ("spark.driver.memory", "1g")):  # fmt: skip
            builder = builder.config(key, value)
        made["spark"] = builder.master("local[1]").appName("twostage doctor").getOrCreate()
        return f"Spark {made['spark'].version}, local[1]"

    def planner() -> str:
        import twostage  # noqa: PLC0415

        twostage.enable(made["spark"])
        return "its Java classes are compiled and installed"

    def scan() -> str:
        import twostage  # noqa: PLC0415

        frame = made["spark"].read.format("twostage").option("scan.native", "never").load(table)
        rows = [tuple(row) for row in frame.where("id >= 1").orderBy("id").collect()]
        wanted = list(enumerate(WORDS))[1:]
        if rows != wanted:
            raise RuntimeError(f"wrong rows: {rows} instead of {wanted}")
        return f"{len(rows)} rows, read by {twostage.last_scan(made['spark']).tasks_planned} Python task"

    for step, work in zip(STEPS, (session, planner, scan), strict=True):
        if not _done(step, work):
            break
    if "spark" in made:
        made["spark"].stop()


def _done(step: str, work: Callable[[], str]) -> bool:
    try:
        found, hint, is_done = work(), "", True
    except TwoStageError as error:
        found, hint, is_done = f"[TWOSTAGE.{error.code}] {error.message}", error.hint or "", False
    except Exception as error:  # noqa: BLE001 - exceptions of Spark, py4j and Python have no common base
        lines = str(error).strip().splitlines() or [""]
        told = next((line for line in lines if "[TWOSTAGE." in line), lines[0])
        found, hint, is_done = f"{type(error).__name__}: {told}", "", False
    step_found = {"step": step, "found": mask(found), "hint": hint, "done": is_done}
    print(f"\n{MARK}{json.dumps(step_found)}", flush=True)  # noqa: T201 - the output of this process
    return is_done


if __name__ == "__main__":
    main()
