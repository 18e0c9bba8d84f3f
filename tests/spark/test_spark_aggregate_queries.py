"""Random aggregate queries: answered from metadata or read, and Spark over the same rows as Parquet, agree.

``TWOSTAGE_SEED`` sets the seed, ``TWOSTAGE_AGGREGATES`` how many queries (60). Many are asked in one job, each as
rows of text under its number, under settings and without optimizer rules that must not change them.
"""

from __future__ import annotations

import logging
import os
import random
import re
from collections import Counter, defaultdict

import pytest

from drawn_aggregates import KINDS, Drawing, make_table
from twostage.aggregates import unproven_files

SEED = int(os.environ.get("TWOSTAGE_SEED", "1"))
QUERIES = int(os.environ.get("TWOSTAGE_AGGREGATES", "60"))
BATCH = 12
OPTIMIZER = "org.apache.spark.sql.catalyst.optimizer."
RULES = (
    "",
    "",
    "NullPropagation",
    "ConstantFolding",
    "FoldablePropagation",
    "EliminateDistinct",
    "RemoveRedundantAliases",
    "CollapseProject",
    "ColumnPruning",
    "SimplifyConditionals",
    "RemoveLiteralFromGroupExpressions",
)
SETTINGS = {
    "spark.sql.codegen.wholeStage": ("true", "false", "false", "false"),
    "spark.sql.ansi.enabled": ("true", "false"),
    "spark.sql.adaptive.enabled": ("true", "false", "false"),
    "spark.sql.shuffle.partitions": ("1",),
    "spark.sql.session.timeZone": ("UTC", "America/New_York"),
}
VIEWS = {
    "answered": {},
    "unhanded": {"scan.native": "never"},
    "read": {"aggregate-push-down-enabled": "false"},
}


@pytest.fixture(scope="module")
def views(spark, tmp_path_factory):
    """Each kind of table by each way of reading it, and `oracle`: its live rows as Parquet."""
    logging.getLogger("SQLQueryContextLogger").disabled = True  # writes each expected error with its stack
    pick = random.Random(f"tables {SEED}")
    for kind in KINDS:
        folder = tmp_path_factory.mktemp(kind)
        path = str(make_table(kind, folder, pick))
        for name, options in VIEWS.items():
            spark.read.format("twostage").options(**options).load(path).createOrReplaceTempView(
                f"{name}_{kind}"
            )
        rows = spark.read.parquet(str(folder / "rows.parquet"))
        rows.createOrReplaceTempView(f"oracle_{kind}")
        assert rows.schema.simpleString() == spark.table(f"read_{kind}").schema.simpleString()
        assert rows.count() == spark.table(f"read_{kind}").count()
        assert bool(rows.count()) == (kind != "empty")


def ask(spark, view: str, queries: dict[int, str], plans: list[str] | None = None) -> dict[int, object]:
    """Return each query's rows as sorted text, or its error."""
    parts = [
        f"SELECT {number} AS number, CAST(struct(*) AS STRING) AS row FROM ({sql.replace('{v}', view)})"
        for number, sql in queries.items()
    ]
    found: dict[int, object] = defaultdict(list)
    try:
        frame = spark.sql(" UNION ALL ".join(parts))
        if plans is not None:
            plans.append(frame._jdf.queryExecution().executedPlan().toString())
        for number, row in frame.collect():
            found[number].append(row)
    except Exception as error:
        if len(queries) == 1:
            assert "TWOSTAGE" not in str(error), f"{error}\n{parts[0]}"
            return dict.fromkeys(queries, type(error))
        for number, sql in queries.items():
            found |= ask(spark, view, {number: sql}, plans)
    return {number: rows if isinstance(rows := found[number], type) else sorted(rows) for number in queries}


@pytest.mark.timeout(7200)
def test_drawn_queries(spark, views, monkeypatch, capsys):
    monkeypatch.setattr(unproven_files, "WORTH_MIXING", 0)
    pick = random.Random(f"{SEED} queries")
    drawing = Drawing(pick)
    counts: Counter[str] = Counter()
    wrong: list[str] = []
    for start in range(0, QUERIES, BATCH):
        queries = {number: drawing.query() for number in range(start, min(start + BATCH, QUERIES))}
        drawn = {key: pick.choice(values) for key, values in SETTINGS.items()}
        if drawn["spark.sql.codegen.wholeStage"] == "false":
            drawn["spark.sql.codegen.factoryMode"] = "NO_CODEGEN"  # compiling takes longer than such few rows
        rule = pick.choice(RULES)
        if rule:
            drawn["spark.sql.optimizer.excludedRules"] = OPTIMIZER + rule
        for key, value in drawn.items():
            spark.conf.set(key, value)
        try:
            plans: list[str] = []
            answered = ask(spark, "answered", queries, plans)
            others = {view: ask(spark, view, queries) for view in ("read", "oracle")}
            if pick.random() < 0.15:
                others["unhanded"] = ask(spark, "unhanded", queries)
        finally:
            for key in drawn:
                spark.conf.unset(key)
        for number, sql in queries.items():
            rows = answered[number]
            counts["queries"] += 1
            counts["errors"] += isinstance(rows, type)
            counts["no rows"] += rows == []
            wrong += [
                f"TWOSTAGE_SEED={SEED} {drawn}\n{sql}\nanswered: {rows}\n{view}: {found[number]}"
                for view, found in others.items()
                if found[number] != rows
            ]
        counts += how_read("\n".join(plans))
    with capsys.disabled():
        print(f"\nTWOSTAGE_SEED={SEED}: {dict(sorted(counts.items()))}, {len(wrong)} differ")
    assert not wrong, "\n\n".join(wrong[:10])
    # The run must not be vacuous.
    assert counts["errors"] < 0.05 * QUERIES
    assert counts["no rows"] < 0.3 * QUERIES
    assert counts["from metadata"] > 0.1 * QUERIES
    assert counts["partly from metadata"] > 0.01 * QUERIES
    assert counts["read"] > 0.5 * QUERIES


def how_read(plan: str) -> Counter[str]:
    """Count scans by who answered; an answer beside files that are read is a `LocalTableScan` below a `Union` of two."""
    local = len(re.findall(r"LocalTableScan (?!<empty>)", plan))
    mixed = len(re.findall(r"LocalTableScan [^\n]*\bpart_\d", plan))
    read = len(re.findall(r"BatchScan|FileScan", plan))
    return Counter({"from metadata": local - mixed, "partly from metadata": mixed, "read": read - mixed})
