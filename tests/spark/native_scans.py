"""For tests of scans by Spark's own Parquet reader: loading, comparing, and why a scan is not handed over."""

from __future__ import annotations

from pathlib import Path

import twostage
from lakehouse import canonical, executed_plan
from tables import Table

LOCAL_CLUSTER = """
import twostage
from pyspark.sql import SparkSession
builder = SparkSession.builder.master("local-cluster[2,1,512]").config("spark.executor.memory", "512m")
for key, value in {confs!r}.items():
    builder = builder.config(key, value)
spark = builder.getOrCreate()
spark.sparkContext.setLogLevel("OFF")
twostage.enable(spark)
"""
"""The start of a program whose executors are separate processes."""


def load(spark, path, **options):
    return spark.read.format("twostage").options(**options).load(str(path))


def is_native(frame) -> bool:
    plan = executed_plan(frame)
    assert ("TwoStageFiles" in plan) != ("BatchScan" in plan), plan
    return "TwoStageFiles" in plan


def same_rows(spark, path, *clauses: str):
    """Return the rows of both readers, which are equal; `clauses` are the consecutive parts of a SELECT."""
    select, where = (*clauses, "true")[:2]
    found = []
    for native in ("auto", "never"):
        frame = load(spark, path, **{"scan.native": native}).where(where).selectExpr(*items(select))
        assert is_native(frame) == (native == "auto"), executed_plan(frame)
        found.append(frame.collect())
        assert twostage.last_scan(spark).is_handed_over == (native == "auto")
    assert canonical(found[0]) == canonical(found[1])
    return found[0]


def items(select: str) -> list[str]:
    items, depth, start = [], 0, 0
    for place, letter in enumerate(select + ","):
        depth += (letter == "(") - (letter == ")")
        if letter == "," and not depth:
            items.append(select[start:place].strip())
            start = place + 1
    return items


def reason(spark, frame) -> str:
    """Run a query that is not handed over and return why."""
    assert not is_native(frame)
    assert "not Spark's reader: " in executed_plan(frame)
    frame.collect()
    report = twostage.last_scan(spark)
    assert not report.is_handed_over
    said = [choice for choice in report.metrics.choices if choice.startswith("Not handed")]
    assert len(said) == 1, report
    return said[0]


def simple(folder: Path, files: int = 2, **options) -> Path:
    table = Table(folder, {"id": "long", "name": "string"})
    for number in range(files):
        rows = [{"id": 100 * number + i, "name": f"n{i % 7}"} for i in range(100)]
        table.append(rows, **options)
    return table.write()
