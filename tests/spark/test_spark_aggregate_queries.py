"""Random aggregate queries: answered from metadata or indexes, or read, and Spark over the same rows as Parquet, agree.

Each table has three places of indexes: of all files, of some, and damaged ones.

``TWOSTAGE_SEED`` sets the seed, ``TWOSTAGE_AGGREGATES`` how many queries (36). Many are asked in one job, each as
rows of text under its number, under settings and without optimizer rules that must not change them.
"""

from __future__ import annotations

import logging
import os
import random
import re
from collections import Counter, defaultdict
from typing import TYPE_CHECKING

import pytest

from core_scan import open_table
from drawn_aggregates import KINDS, Drawing, make_table
from figures import FULL
from indexed_tables import built
from twostage.aggregates import unproven_files
from twostage.aggregates.index_answers import IndexAnswers
from twostage.indexes.keys import key_class
from twostage.indexes.kinds.bit_slices import BitSlices

if TYPE_CHECKING:
    from pathlib import Path

SEED = int(os.environ.get("TWOSTAGE_SEED", "1"))
QUERIES = int(os.environ.get("TWOSTAGE_AGGREGATES", "2000" if FULL else "36"))
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
INDEXED = ("indexed", "partly", "damaged")


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
        for state in INDEXED:
            place = folder / f"indexes-{state}"
            index(path, place, state, pick)
            frame = spark.read.format("twostage").option("index.location", str(place)).load(path)
            frame.createOrReplaceTempView(f"{state}_{kind}")
        rows = spark.read.parquet(str(folder / "rows.parquet"))
        rows.createOrReplaceTempView(f"oracle_{kind}")
        assert rows.schema.simpleString() == spark.table(f"read_{kind}").schema.simpleString()
        assert rows.count() == spark.table(f"read_{kind}").count()
        assert bool(rows.count()) == (kind != "empty")


def index(path: str, place: Path, state: str, pick: random.Random) -> None:
    """Index a table's columns, most by their values; then remove or damage the indexes of some files."""
    opened = open_table(path, **{"index.location": str(place)})
    for field in opened.table.schema.fields:
        if key_class(field.type) is not None:
            kinds = "values" if field.type.name == "boolean" else pick.choice(("values", "values", "values,bins", "postings"))  # fmt: skip
            if BitSlices().refuses(field.type) is None and pick.random() < 0.5:
                kinds = pick.choice(("slices", "slices,values", "slices,postings"))
            built(opened, [field.name], kinds)
    built(opened, ["s.a", "s.b"], "values")
    for made in sorted(place.rglob("*.puffin")):
        if state == "partly" and pick.random() < 0.3:
            made.unlink()
        if state == "damaged" and pick.random() < 0.5:
            data = bytearray(made.read_bytes())
            data[pick.randrange(len(data))] ^= 1 << pick.randrange(8)
            made.write_bytes(data)


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
    monkeypatch.setattr(unproven_files, "MIN_PROVEN_BYTES_TO_MIX", 0)
    by_index: Counter[str] = Counter()
    real = IndexAnswers._of_file

    def counted(self, one, indexes):
        found = real(self, one, indexes)
        by_index["files not answered by index" if isinstance(found, str) else "files answered by index"] += 1
        return found

    monkeypatch.setattr(IndexAnswers, "_of_file", counted)
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
            state = pick.choice(INDEXED)
            others[state] = ask(spark, state, queries)
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
    counts += by_index
    with capsys.disabled():
        print(f"\nTWOSTAGE_SEED={SEED}: {dict(sorted(counts.items()))}, {len(wrong)} differ")
    assert not wrong, "\n\n".join(wrong[:10])
    # The run must not be vacuous.
    assert counts["errors"] < 0.05 * QUERIES
    assert counts["no rows"] < 0.3 * QUERIES
    assert counts["from metadata"] > 0.1 * QUERIES
    assert counts["partly from metadata"] > 0.01 * QUERIES
    assert counts["read"] > 0.5 * QUERIES
    assert counts["files answered by index"] > 0.2 * QUERIES
    assert counts["files not answered by index"] > 0.05 * QUERIES


def how_read(plan: str) -> Counter[str]:
    """Count scans by who answered; an answer beside files that are read is a `LocalTableScan` below a `Union` of two."""
    local = len(re.findall(r"LocalTableScan (?!<empty>)", plan))
    mixed = len(re.findall(r"LocalTableScan [^\n]*\bpart_\d", plan))
    read = len(re.findall(r"BatchScan|FileScan", plan))
    return Counter({"from metadata": local - mixed, "partly from metadata": mixed, "read": read - mixed})
