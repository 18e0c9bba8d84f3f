"""Whether the advisor's indexes are the best ones: 5,000 generated queries with a known best answer.

    make bench-advisor-workload
    benchmarks/advisor_workload.py --queries 100 --rows 100000      in a minute or so

A table of 40 columns, keys, categories, measures, times and texts of many sizes, is written by PyIceberg. Templates of AND, OR,
nested, range and list filters are asked as often as Zipf's law has it, with other literals each time, through the core of
twostage, without Spark; what each read goes to a query log, and the advisor reads that. Then every column that a filter
names is indexed, and each query is read with each subset of the indexes of its columns: the bytes that this takes,
of data files and indexes together, tell what any set of K indexes would have saved. The best set of K of all there are is
compared with the advisor's.
"""

from __future__ import annotations

import argparse
import datetime
import itertools
import json
import random
import tempfile
import uuid
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest import mock

import numpy as np
import pyarrow as pa
from pyiceberg.catalog.sql import SqlCatalog
from rich.console import Console
from rich.progress import track

from twostage.advisor.advise import advise
from twostage.advisor.collect import collect
from twostage.advisor.logged_scan import QueryFacts, log_scan
from twostage.advisor.query_log import QueryLogFile
from twostage.catalog.load_table import load_table
from twostage.indexes import of_scan
from twostage.maintenance.index_files import index_files
from twostage.maintenance.table_indexes import OwnedIndexes
from twostage.metrics import Metrics
from twostage.options import ReadOptions, parse_options
from twostage.planning import plan as planning
from twostage.planning.plan import plan_scan
from twostage.predicates.predicate import TRUE, And, Column, Compare, In, Or
from twostage.reading.pipeline import read_group
from twostage.report.scan_report import ScanReport

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from twostage.predicates.predicate import Predicate
    from twostage.schema import Field
    from twostage.table.pinned import PinnedTable
    from twostage.task import ScanPlan

FILES = 4
TEMPLATES = 60
ZIPF = 1.1
MAX_INDEXES = 6
CHOICES = (1, 2, 3, 4, 5, 6)
"""K: how many indexes may be built."""
console = Console(width=150)


def make_columns(rows: int, first: int, draw: np.random.Generator) -> pa.Table:
    """Return rows of the table: 8 keys, 10 categories, 8 measures, 2 times, 12 texts."""
    found: dict[str, Any] = {}
    for number in range(8):
        distinct = max(10, rows * FILES // (2, 4, 10, 30, 100, 300, 1000, 3000)[number])
        keys = draw.integers(0, distinct, rows)
        found[f"key{number}"] = (
            pa.array(keys) if number % 2 else pa.array([f"user-{key:09d}" for key in keys.tolist()])
        )
    for number in range(10):
        distinct = (2, 5, 10, 20, 50, 100, 200, 500, 900, 3000)[number]
        values = (draw.zipf(1.3, rows) - 1) % distinct
        found[f"cat{number}"] = pa.array([f"c{value}" for value in values.tolist()])
    for number in range(8):
        values = draw.gamma(2.0, 1000.0, rows)
        found[f"num{number}"] = pa.array(values) if number % 2 else pa.array((values * 100).astype(np.int64))
    found["ts"] = pa.array(np.arange(first, first + rows) * 1_000_000 + 1_700_000_000_000_000)
    found["seen"] = pa.array(draw.integers(1_700_000_000, 1_731_000_000, rows) * 1_000_000)
    for number in range(12):
        words = draw.integers(0, 36**8, (rows, 1 + number % 4))
        found[f"text{number}"] = pa.array([" ".join(np.base_repr(word, 36) for word in row) for row in words])
    return pa.table(found)


def make_table(folder: Path, rows: int, seed: int) -> str:
    """Write the table; return where its newest metadata is."""
    catalog = SqlCatalog("lake", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}/warehouse")
    catalog.create_namespace("db")
    draw = np.random.default_rng(seed)
    table = None
    for number in range(FILES):
        part = make_columns(rows // FILES, number * (rows // FILES), draw)
        table = table or catalog.create_table("db.events", part.schema)
        table.append(part)
    assert table is not None
    return str(table.metadata_location)


class Workload:
    """The templates of queries on a table, and queries drawn from them."""

    def __init__(self, table: PinnedTable, sample: pa.Table, seed: int) -> None:
        self._fields = {field.name: field for field in table.schema.fields}
        self._sample = sample
        self._pick = random.Random(seed)
        self._templates = [self._template() for _ in range(TEMPLATES)]
        self._weights = [1 / (rank + 1) ** ZIPF for rank in range(TEMPLATES)]

    def _template(self) -> tuple[str, tuple[str, ...], tuple[str, ...]]:
        """Return a form, the columns that it filters on, and those that it returns."""
        pick = self._pick
        asked = [name for name in self._fields if not name.startswith("text")]
        form = pick.choice(("one", "one", "and", "and", "and", "or", "nested"))
        columns = pick.sample(asked, {"one": 1, "and": pick.choice((2, 3)), "or": 2, "nested": 3}[form])
        return form, tuple(columns), tuple(pick.sample(list(self._fields), pick.choice((2, 4, 8))))

    def query(self) -> tuple[Predicate, tuple[Field, ...]]:
        """Draw a query."""
        form, names, returned = self._pick.choices(self._templates, self._weights)[0]
        leaves = [self._leaf(name) for name in names]
        projection = tuple(self._fields[name] for name in returned)
        match form:
            case "one":
                return leaves[0], projection
            case "and":
                return And(tuple(leaves)), projection
            case "or":
                return Or(tuple(leaves)), projection
        return And((leaves[0], Or(tuple(leaves[1:])))), projection

    def _leaf(self, name: str) -> Predicate:
        field, pick = self._fields[name], self._pick
        column = Column(field.id, (name,), field.type)
        values = self._sample.column(name)

        def one():
            return values[pick.randrange(len(values))].as_py()

        if name.startswith("key"):
            listed = tuple(sorted({one() for _ in range(pick.choice((1, 1, 3, 8)))}))
            return Compare("=", column, listed[0]) if len(listed) == 1 else In(column, listed)
        if name.startswith("cat"):
            return Compare("=", column, one())
        if name.startswith("num"):
            return Compare(">=", column, max(one() for _ in range(pick.choice((5, 30, 200)))))
        low = one()
        return And((Compare(">=", column, low), Compare("<", column, low + 86_400_000_000)))


def read(plan: ScanPlan) -> Metrics:
    """Read a planned scan; return what was counted."""
    metrics = Metrics()
    metrics.counters.update(plan.counters)
    for group in plan.groups:
        for _ in read_group(group, metrics):
            pass
    return metrics


def planned(
    table: PinnedTable, options: ReadOptions, predicate: Predicate, projection: tuple[Field, ...]
) -> ScanPlan:
    """Plan a query."""
    return plan_scan(
        table, options, projection=projection, predicate=predicate, hint=TRUE, limit=None, parallelism=1,
        scan_id=uuid.uuid4().hex,
    )  # fmt: skip


def log_queries(
    table: PinnedTable, options: ReadOptions, queries: list[tuple[Predicate, tuple[Field, ...]]], folder: Path
) -> int:
    """Read all queries without indexes, and log them; return the bytes read."""
    log, total = QueryLogFile(str(folder), {}), 0
    for number, (predicate, projection) in enumerate(track(queries, "logging", console=console)):
        plan = planned(table, options, predicate, projection)
        metrics = read(plan)
        total += metrics.counters["bytes.read"]
        report = ScanReport(
            scan_id=plan.context.scan_id,
            table=table.name,
            snapshot_id=plan.context.snapshot_id,
            columns=tuple(field.name for field in projection),
            predicate=str(predicate),
            hint="TRUE",
            limit=None,
            tasks_planned=len(plan.groups),
            tasks_finished=len(plan.groups),
            metrics=metrics,
        )
        facts = QueryFacts(time=datetime.datetime.now(datetime.UTC), application="workload", query=number)
        log.append([log_scan(plan, report, facts)])
    return total


def index_all(options: ReadOptions, kinds: dict[str, tuple[str, ...]]) -> dict[str, str]:
    """Index each column by itself; return what was refused, by column."""
    refused: dict[str, str] = {}
    owned = OwnedIndexes(options, {}, lambda work: map(index_files, work), lambda _text: None)
    for name, own in track(kinds.items(), "indexing", console=console):
        try:
            owned.create([name], ",".join(own))
        except Exception as error:  # noqa: BLE001 - which columns cannot be indexed is a result
            refused[name] = str(error)
    return refused


def measure(
    table: PinnedTable,
    options: ReadOptions,
    predicate: Predicate,
    projection: tuple[Field, ...],
    ids: frozenset[int],
) -> int:
    """Return the bytes that a query reads with the indexes of some columns, warm."""
    real = of_scan.indexes_of_scan

    def some(*given: Any) -> Any:
        found = real(*given)
        if found is None:
            return None
        groups = tuple(group for group in found.groups if ids.issuperset(group.field_ids))
        runs = tuple(run for run in found.runs if run.field_id in ids)
        return (
            replace(found, groups=groups, table=replace(found.table, runs=runs)) if groups or runs else None
        )

    with mock.patch.object(planning, "indexes_of_scan", some):
        for _ in range(2):  # directories of indexes are kept, as in a worker
            counters = read(planned(table, options, predicate, projection)).counters
    return counters["bytes.read"] + counters["indexes.bytes_read"]


class Measured:
    """Bytes of a sample of queries with every subset of the indexes of their columns."""

    def __init__(self, names: list[str]) -> None:
        self.names = names
        self._queries: list[tuple[list[int], NDArray[np.float64]]] = []

    def add(self, columns: list[str], costs: list[int]) -> None:
        """Add a query: the bytes of subset `n` of its columns, in the bits of `n`."""
        self._queries.append(([self.names.index(name) for name in columns], np.array(costs, np.float64)))

    def saved(self, sets: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the bytes that sets of indexes save, the names in the bits of a set."""
        total = np.zeros(len(sets))
        for places, costs in self._queries:
            subset = np.zeros(len(sets), np.int64)
            for bit, place in enumerate(places):
                subset |= (sets >> place & 1) << bit
            total += costs[0] - costs[subset]
        return total

    def of(self, names: frozenset[str]) -> float:
        """Return the bytes that one set saves."""
        return float(self.saved(np.array([sum(1 << self.names.index(name) for name in names)]))[0])

    def best(self, count: int) -> tuple[frozenset[str], float]:
        """Return the best set of at most `count` indexes, of all there are."""
        bits = [1 << place for place in range(len(self.names))]
        sets = np.array([sum(one) for one in itertools.combinations(bits, min(count, len(bits)))], np.int64)
        saved = self.saved(sets)
        place = int(saved.argmax())
        chosen = frozenset(name for bit, name in zip(bits, self.names, strict=True) if sets[place] & bit)
        return chosen, float(saved[place])


def run(queries: int, rows: int, seed: int, folder: Path) -> dict[str, Any]:
    """Make the table, ask, advise, measure; return the figures."""
    console.print(f"seed {seed}: {rows:,} rows, {queries:,} queries of {TEMPLATES} templates")
    path = make_table(folder, rows, seed)
    options = parse_options({"path": path, "index": "off"})
    table = load_table(options, {})
    sample = make_columns(5_000, 0, np.random.default_rng(seed))
    drawn = Workload(table, sample, seed)
    asked = [drawn.query() for _ in range(queries)]
    logs = folder / "log"
    logs.mkdir()
    total = log_queries(table, options, asked, logs)
    metadata = {table.name: collect(options, {})}
    advice = {}
    for count in CHOICES:
        found = advise(str(logs), metadata=metadata, max_columns=count, min_gain=0.0).recommendations
        advice[count] = {one.columns[0]: one.kinds for one in found if one.action == "index"}
    whole = advise(str(logs), metadata=metadata, max_columns=40, min_gain=0.0).recommendations
    kinds = {one.columns[0]: one.kinds for one in whole if one.action == "index"}
    named = Counter(name for predicate, _ in asked for name in _columns(predicate))
    for name in named:
        kinds.setdefault(name, ("values",) if name.startswith("cat") else ("sorted",))
    refused = index_all(options, kinds)
    usable = sorted(set(kinds) - set(refused))
    with_indexes = parse_options({"path": path})
    costs = Measured(usable)
    for predicate, projection in track(asked, "measuring", console=console):
        own = sorted(_columns(predicate) & set(usable))
        ids = {name: table.schema.find((name,)).id for name in own}  # type: ignore[union-attr]
        subsets = [
            frozenset(ids[name] for bit, name in enumerate(own) if number >> bit & 1)
            for number in range(1 << len(own))
        ]
        costs.add(own, [measure(table, with_indexes, predicate, projection, subset) for subset in subsets])
    results = []
    for count in CHOICES:
        best, most = costs.best(count)
        chosen = frozenset(advice[count]) & set(usable)
        reached = costs.of(chosen)
        results.append(
            {"k": count, "best": sorted(best), "advised": sorted(chosen), "saved": reached, "most": most}
        )
        console.print(
            f"K = {count}: best {', '.join(sorted(best))}: {most / 2**20:,.1f} MiB; advised "
            f"{', '.join(sorted(chosen))}: {reached / 2**20:,.1f} MiB, {reached / most if most else 1:.1%}"
        )
    return {
        "seed": seed,
        "rows": rows,
        "queries": queries,
        "bytes": total,
        "refused": refused,
        "choices": results,
    }


def _columns(predicate: Predicate) -> frozenset[str]:
    if isinstance(predicate, And | Or):
        return frozenset[str]().union(*map(_columns, predicate.children))
    return frozenset({predicate.column.path[0]})  # type: ignore[union-attr]


def main() -> None:
    """Run it in a temporary folder."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--queries", type=int, default=5_000)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="twostage-workload-") as folder:
        found = run(given.queries, given.rows, given.seed, Path(folder))
    if given.json:
        given.json.write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
