"""Random tables and queries through Spark: ``scan.native`` auto and never, and the oracle, give the same rows.

Every pair runs under other settings of the session, of which none may change a row. Half of the tables are such
that Spark's own reader may do the scan; it must have done a good share of those. ``TWOSTAGE_SEED`` sets the first
seed, ``TWOSTAGE_SPARK_PAIRS`` the number of pairs (60, with TWOSTAGE_FULL=1 1,000).
"""

from __future__ import annotations

import os
import random
import shutil
from collections import Counter
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

import oracle
from core_scan import open_table
from figures import FULL, record
from lakehouse import executed_plan
from native_scans import load
from query_sql import selected, where
from random_queries import Query, random_query
from random_tables import random_table
from twostage.handover import eligibility
from twostage.predicates.predicate import TRUE, Predicate, columns
from twostage.schema import Primitive

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SEED = int(os.environ.get("TWOSTAGE_SEED", "1"))
PAIRS = int(os.environ.get("TWOSTAGE_SPARK_PAIRS", "1000" if FULL else "60"))
QUERIES = 4
SETTINGS = {
    "spark.sql.files.ignoreCorruptFiles": ("true", "false"),
    "spark.sql.files.ignoreMissingFiles": ("true", "false"),
    "spark.sql.parquet.datetimeRebaseModeInRead": ("EXCEPTION", "CORRECTED", "LEGACY"),
    "spark.sql.parquet.int96RebaseModeInRead": ("EXCEPTION", "CORRECTED", "LEGACY"),
    "spark.sql.caseSensitive": ("true", "false"),
    "spark.sql.parquet.fieldId.read.enabled": ("true", "false"),
    "spark.sql.parquet.fieldId.read.ignoreMissing": ("true", "false"),
    "spark.sql.parquet.filterPushdown": ("true", "false"),
    "spark.sql.parquet.mergeSchema": ("true", "false"),
    "spark.sql.parquet.binaryAsString": ("true", "false"),
    "spark.sql.parquet.inferTimestampNTZ.enabled": ("true", "false"),
    "spark.sql.ansi.enabled": ("true", "false"),
    "spark.sql.timestampType": ("TIMESTAMP_LTZ", "TIMESTAMP_NTZ"),
    "spark.sql.optimizer.nestedSchemaPruning.enabled": ("true", "false"),
    "spark.sql.adaptive.enabled": ("true", "false"),
    "spark.sql.codegen.wholeStage": ("true", "false"),
    "spark.sql.session.timeZone": (
        "UTC",
        "America/New_York",
        "Asia/Kolkata",
        "Pacific/Apia",
        "Europe/Amsterdam",
        "+14:00",
    ),
}


@contextmanager
def session_of(spark: Any, drawn: dict[str, str]) -> Iterator[None]:
    """Run with these settings, and put the former ones back."""
    before = {key: spark.conf.get(key, None) for key in drawn}
    for key, value in drawn.items():
        spark.conf.set(key, value)
    try:
        yield
    finally:
        for key, value in before.items():
            if value is None:
                spark.conf.unset(key)
            else:
                spark.conf.set(key, value)


class Pair:
    """A random table and what it holds; each second one is such that Spark's reader may read it."""

    def __init__(self, seed: int, folder: Path) -> None:
        self.seed = seed
        table, self.pools = random_table(seed, folder, plain=seed % 2 == 1)
        self.path = folder
        self.content = table.content()
        self.options: dict[str, str] = {}
        if seed % 5 == 0 and len(table.snapshots) > 1:
            chosen = table.snapshots[seed // 5 % len(table.snapshots)]
            content = table.content(chosen.id)
            self.content = replace(content, columns=content.snapshot_columns)
            self.options = {"snapshot-id": str(chosen.id)}
        opened = open_table(folder, **{key.replace("-", "_"): value for key, value in self.options.items()})
        self.schema = opened.table.schema
        self.rows = oracle.live_rows(self.content)

    def query(self, index: int) -> Query:
        """Return the pair's query number `index`; every third one has no predicate, so that no filter decides."""
        found = random_query(self.seed * 1000 + index, self.schema, self.pools, self.rows)
        return replace(found, predicate=TRUE) if index % 3 == 0 else found

    def is_eligible(self, query: Query) -> bool:
        """Tell whether Spark's reader may do the scan by what docs/full-scans.md says, whichever files its filter leaves."""
        return (
            self.may_be_eligible(query)
            and not self.content.deletes
            and all(file.entry["file_format"] == "PARQUET" for file in self.content.data)
        )

    def may_be_eligible(self, query: Query) -> bool:
        """Tell whether it may do the scan of some of the files: those with deletes, say, may be pruned."""
        asked = [*query.projection, *(self.schema.field(i) for i in _ids(query.predicate))]
        return (
            bool(query.projection)
            and query.limit is None
            and any(file.rows for file in self.content.data if file.entry["file_format"] == "PARQUET")
            and all(isinstance(f.type, Primitive) and f.type.name in eligibility.TYPES for f in asked)
        )


def _ids(predicate: Predicate) -> set[int]:
    return {column.field_id for column in columns(predicate)}


def read(spark: Any, pair: Pair, query: Query, mode: str) -> tuple[list[tuple[Any, ...]], bool]:
    """Return the rows of a query, and whether Spark's own reader read them."""
    frame = load(spark, pair.path, **pair.options, **{"scan.native": mode})
    if query.predicate != TRUE:
        frame = frame.where(where(query.predicate))
    columns = [text for text, _ in selected(query.projection, pair.schema)]
    frame = frame.selectExpr(*(f"{text} AS c{number}" for number, text in enumerate(columns or ["1"])))
    if query.limit is not None:
        frame = frame.limit(query.limit)
    handed_over = "TwoStageFiles" in executed_plan(frame)
    return [row for batch in frame.toArrow().to_batches() for row in oracle.batch_rows(batch)], handed_over


def problem(found: list[tuple[Any, ...]], expected: list[tuple[Any, ...]], limit: int | None) -> str:
    """Return what is wrong with rows; empty if nothing is."""
    if limit is None:
        return oracle.difference(found, expected)
    if extra := Counter(found) - Counter(expected):
        return f"{extra.total()} rows that do not match: {list(extra)[:3]}"
    wanted = min(limit, len(expected))
    return "" if len(found) == wanted else f"{len(found)} rows instead of {wanted}"


@pytest.fixture(scope="module")
def counted() -> Iterator[Counter[str]]:
    """What the run asked and what Spark's own reader did; at its end, that must be a good share."""
    found = Counter[str]()
    yield found
    figures = {
        "spark_pairs": found["pairs"],
        "spark_mismatches": found["pairs"] - found["right"],
        "spark_eligible": found["eligible"],
        "spark_handed_over": found["handed over"],
        "spark_handed_over_with_filter": found["handed over with filter"],
    }
    print(f"\ndifferential through Spark, seed {SEED}: {figures}")
    if found["pairs"] >= 40:
        record("R1", **figures)
        assert found["handed over"] * 3 >= found["eligible"] > 0, figures
        assert found["handed over with filter"] > 0, figures


@pytest.mark.parametrize("seed", range(SEED, SEED + -(-PAIRS // QUERIES)))
def test_both_readers_give_the_oracles_rows(
    spark: Any, tmp_path: Path, seed: int, counted: Counter[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Small tables' filters go to Spark as those of large ones would: for each second table whatever they keep."""
    monkeypatch.setattr(eligibility, "MIN_BYTES_TO_PROBE", 0)
    if seed % 4 < 2:
        monkeypatch.setattr(eligibility, "MIN_KEPT_SHARE", 0.0)
    pair = Pair(seed, tmp_path)
    for index in range(QUERIES):
        query = pair.query(index)
        drawing = random.Random(f"settings of {seed} {index}")
        drawn = {key: drawing.choice(values) for key, values in SETTINGS.items()}
        fields = [field for _, field in selected(query.projection, pair.schema)]
        kept = [row for row in pair.rows if oracle.evaluate(query.predicate, row) is True]
        expected = [oracle.project(row, fields) if fields else (oracle.exact(1),) for row in kept]
        counted["pairs"] += 1
        counted["eligible"] += pair.is_eligible(query)
        for mode in ("auto", "never"):
            place = f"TWOSTAGE_SEED={seed} query {index} {mode}, {drawn}: WHERE {query.predicate}"
            try:
                with session_of(spark, drawn):
                    found, handed_over = read(spark, pair, query, mode)
            except Exception as error:
                error.add_note(place)
                raise
            said = problem(found, expected, query.limit)
            assert not said, f"{place} (handed over: {handed_over}): {said}"
            assert not handed_over or (mode == "auto" and pair.may_be_eligible(query)), place
            counted["handed over"] += handed_over
            counted["handed over with filter"] += handed_over and query.predicate != TRUE
        counted["right"] += 1
    shutil.rmtree(tmp_path)
