"""Whether the advisor's indexes are the best ones: 5,000 generated queries with a known best answer.

    make bench-advisor-workload
    benchmarks/advisor_workload.py --measured 1500               of all that are logged, each template's share
    benchmarks/advisor_workload.py --queries 100 --rows 100000   in a minute or so

PyIceberg writes a table of 40 columns: keys, categories, measures, times and strings of many sizes. Templates
of AND, OR, nested, range and list filters run with frequencies by Zipf's law and other literals each time,
through twostage's core, without Spark; what each reads goes to a query log, which the advisor reads. Then
every column that a filter names is indexed, with the recommended kinds or else those that answer most, and
each query is read with each subset of its columns' indexes (`workload_bytes`): the bytes read, of data files
and indexes together, show what any set of K indexes would have saved. The best of all sets of K is compared
with the advisor's. To be reproducible, the reader orders conjuncts by the bytes that they read, not by their
time; with `--timed` by their time, as usual.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import json
import math
import pickle
import random
import tempfile
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
from pyiceberg.catalog.sql import SqlCatalog
from rich.console import Console
from rich.progress import track
from workload_bytes import Measured, SubsetReader, planned, read, undecoded

from twostage.advisor.advise import advise
from twostage.advisor.collect import collect
from twostage.advisor.logged_scan import QueryFacts, log_scan
from twostage.advisor.query_log import QueryLogFile
from twostage.catalog.load_table import load_table
from twostage.maintenance.index_files import index_files
from twostage.maintenance.table_indexes import OwnedIndexes
from twostage.options import ReadOptions, parse_options
from twostage.predicates.predicate import And, Column, Compare, In, Or
from twostage.report.scan_report import ScanReport

if TYPE_CHECKING:
    from twostage.advisor.column_metadata import TableColumns
    from twostage.predicates.predicate import Predicate
    from twostage.schema import Field
    from twostage.table.pinned import PinnedTable

FILES = 4
TEMPLATES = 60
ZIPF = 1.1
MAX_INDEXES = 6
CHOICES = (1, 2, 3, 4, 5, 6)
"""K: how many indexes may be built."""
console = Console(width=150)


def words_of(draw: np.random.Generator, rows: int, count: int) -> pa.Array:
    """Return strings of some random words of eight letters and digits each."""
    letters = np.frombuffer(b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ", np.uint8)[
        draw.integers(0, 36, (rows, 9 * count))
    ]
    letters[:, 8::9] = ord(" ")
    size = 9 * count - 1
    ends = pa.py_buffer(np.arange(0, (rows + 1) * size, size, dtype=np.int32))
    return pa.StringArray.from_buffers(rows, ends, pa.py_buffer(np.ascontiguousarray(letters[:, :size])))


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
        found[f"text{number}"] = words_of(draw, rows, 1 + number % 4)
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


class Query(NamedTuple):
    """A query: the number of its template, its filter, and the columns that it returns."""

    template: int
    predicate: Predicate
    projection: tuple[Field, ...]


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

    def query(self) -> Query:
        """Draw a query."""
        template = self._pick.choices(range(TEMPLATES), self._weights)[0]
        form, names, returned = self._templates[template]
        leaves = tuple(self._leaf(name) for name in names)
        match form:
            case "one":
                predicate = leaves[0]
            case "and":
                predicate = And(leaves)
            case "or":
                predicate = Or(leaves)
            case _:
                predicate = And((leaves[0], Or(leaves[1:])))
        return Query(template, predicate, tuple(self._fields[name] for name in returned))

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


def log_queries(
    table: PinnedTable,
    options: ReadOptions,
    queries: list[Query],
    folder: Path,
    *,
    timed: bool,
) -> list[int]:
    """Read all queries without indexes, and log them; return the bytes that each read."""
    log, total = QueryLogFile(str(folder), {}), list[int]()
    for number, (_, predicate, projection) in enumerate(track(queries, "logging", console=console)):
        plan = planned(table, options, predicate, projection)
        with undecoded():
            metrics = read(plan, timed=timed)
        total.append(metrics.counters["bytes.read"])
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


def advised(
    folder: Path, metadata: dict[str, TableColumns]
) -> tuple[list[dict[str, tuple[str, ...]]], dict[str, tuple[str, ...]]]:
    """Return the recommended kinds of indexes, by column: for each K, and without a limit."""

    def kinds(count: int) -> dict[str, tuple[str, ...]]:
        found = advise(str(folder), metadata=metadata, max_columns=count, min_gain=0.0).recommendations
        return {one.columns[0]: one.kinds for one in found if one.action == "index"}

    return [kinds(count) for count in CHOICES], kinds(40)


def measure(
    reader: SubsetReader, asked: list[Query], without: list[int], usable: list[str], chosen: list[int]
) -> Measured:
    """Measure the chosen queries with every subset of the indexes of their columns.

    Args:
        reader: Reads the table.
        asked: All queries.
        without: Bytes that each reads without indexes.
        usable: The indexed columns.
        chosen: Positions of the queries to measure.
    """
    ids = {name: reader.table.schema.find((name,)).id for name in usable}  # type: ignore[union-attr]
    templates = Counter(one.template for one in asked)
    measured = Counter(asked[place].template for place in chosen)
    costs = Measured(usable)
    with undecoded():
        for place in track(chosen, "measuring", console=console):
            one = asked[place]
            own = sorted(_columns(one.predicate) & set(usable))
            found = reader.of_subsets(
                one.predicate, one.projection, [ids[name] for name in own], without[place]
            )
            costs.add(own, found, templates[one.template] / measured[one.template])
    return costs


def check(reader: SubsetReader, asked: list[Query], usable: list[str], chosen: list[int]) -> int:
    """Measure some queries also with a separate, fully decoded read per subset; return the number of differences."""
    differ = 0
    reader = replace(reader, timed=False)
    for place in track(chosen, "checking", console=console):
        one = asked[place]
        own = sorted(_columns(one.predicate) & set(usable))
        query = (one.predicate, one.projection, [reader.table.schema.find((name,)).id for name in own])  # type: ignore[union-attr]
        with undecoded():
            without, _ = reader.bytes_read(one.predicate, one.projection, frozenset())
            found = reader.of_subsets(*query, without)
        differ += sum(a != b for a, b in zip(reader.of_all_subsets(*query), found, strict=True))
    return differ


def some_of_each(asked: list[Query], count: int) -> list[int]:
    """Return the positions of about `count` queries: of each template the same share, rounded up, evenly spread."""
    share = min(1.0, count / len(asked))
    seen: Counter[int] = Counter()
    chosen = []
    for place, one in enumerate(asked):
        before = seen[one.template]
        seen[one.template] += 1
        if math.ceil(seen[one.template] * share) > math.ceil(before * share):
            chosen.append(place)
    return chosen


def _kept(path: Path, facts: dict[str, Any]) -> dict[str, Any] | None:
    """Return what an earlier run left, if any; its facts must be these."""
    if not path.exists():
        return None
    kept: dict[str, Any] = json.loads(path.read_text())
    if any(kept[name] != fact for name, fact in facts.items()):
        raise SystemExit(
            f"{path} is of another run: {[name for name in facts if kept[name] != facts[name]]} differ"
        )
    return kept


def run(
    queries: int, rows: int, seed: int, folder: Path, *, measured: int, checked: int, timed: bool
) -> dict[str, Any]:
    """Make the table, run queries, advise, measure; return the figures."""
    console.print(f"seed {seed}: {rows:,} rows, {queries:,} queries of {TEMPLATES} templates")
    facts = {"rows": rows, "queries": queries, "seed": seed, "timed": timed}
    kept = _kept(folder / "logged.json", facts)
    path = kept["path"] if kept else make_table(folder, rows, seed)
    options = parse_options({"path": path, "index": "off"})
    table = load_table(options, {})
    sample = make_columns(5_000, 0, np.random.default_rng(seed))
    drawn = Workload(table, sample, seed)
    asked = [drawn.query() for _ in range(queries)]
    logs = folder / "log"
    if kept is None:
        logs.mkdir()
        kept = facts | {"path": path, "without": log_queries(table, options, asked, logs, timed=timed)}
        (folder / "metadata.pickle").write_bytes(pickle.dumps({table.name: collect(options, {})}))
        (folder / "logged.json").write_text(json.dumps(kept))
    without = kept["without"]
    metadata = pickle.loads((folder / "metadata.pickle").read_bytes())
    advice, kinds = advised(logs, metadata)
    for name in {name for one in asked for name in _columns(one.predicate)}:
        kinds.setdefault(name, ("values",) if name.startswith("cat") else ("sorted",))
    indexed = {name: list(kinds[name]) for name in sorted(kinds)}
    built = _kept(folder / "indexed.json", {"kinds": indexed})
    if built is None:
        built = {"kinds": indexed, "refused": index_all(options, kinds)}
        (folder / "indexed.json").write_text(json.dumps(built))
    refused = built["refused"]
    usable = sorted(set(kinds) - set(refused))
    reader = SubsetReader(table, parse_options({"path": path}), timed)
    chosen = some_of_each(asked, measured)
    costs = measure(reader, asked, without, usable, chosen)
    subsets = sum(1 << len(_columns(asked[place].predicate) & set(usable)) for place in chosen)
    console.print(
        f"measured {len(chosen):,} of {queries:,} queries, of all {len({one.template for one in asked})} templates asked: "
        f"{subsets:,} subsets of indexes in {reader.reads + len(chosen):,} reads"
    )
    differ = check(reader, asked, usable, some_of_each(asked, checked)) if checked else 0
    if checked:
        console.print(
            f"measured again, a read for each subset and all columns decoded: {differ} numbers differ"
        )
    results = []
    for count, advice_of in zip(CHOICES, advice, strict=True):
        best, most = costs.best(count)
        reached = costs.of(frozenset(advice_of) & set(usable))
        results.append(
            {"k": count, "best": sorted(best), "advised": sorted(advice_of), "saved": reached, "most": most}
        )
        console.print(
            f"K = {count}: best {', '.join(sorted(best))}: {most / 2**20:,.1f} MiB; advised "
            f"{', '.join(sorted(advice_of))}: {reached / 2**20:,.1f} MiB, {reached / most if most else 1:.1%}"
        )
    return {
        "seed": seed,
        "rows": rows,
        "queries": queries,
        "measured": len(chosen),
        "bytes": sum(without),
        "refused": refused,
        "differ": differ,
        "choices": results,
        "columns": usable,
        "saved": [{"columns": names, "saved": saved} for names, saved in costs.by_columns()],
    }


def _columns(predicate: Predicate) -> frozenset[str]:
    if isinstance(predicate, And | Or):
        return frozenset[str]().union(*map(_columns, predicate.children))
    return frozenset({predicate.column.path[0]})  # type: ignore[union-attr]


def main() -> None:
    """Run it in a temporary folder."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--queries", type=int, default=5_000)
    parser.add_argument("--rows", type=int, default=400_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--measured", type=int, help="measure so many of the queries, each template's share (default: all)"
    )
    parser.add_argument(
        "--checked", type=int, default=20, help="queries that are measured again, a read for each subset"
    )
    parser.add_argument(
        "--timed",
        action="store_true",
        help="order conjuncts by their time, which differs each time, and not by bytes",
    )
    parser.add_argument("--json", type=Path)
    parser.add_argument(
        "--keep", type=Path, help="a folder for table, log and indexes, which stay: what is there is used"
    )
    given = parser.parse_args()
    with contextlib.ExitStack() as stack:
        if given.keep:
            given.keep.mkdir(parents=True, exist_ok=True)
        folder = given.keep or stack.enter_context(tempfile.TemporaryDirectory(prefix="twostage-workload-"))
        found = run(
            given.queries,
            given.rows,
            given.seed,
            Path(folder).absolute(),
            measured=given.measured or given.queries,
            checked=given.checked,
            timed=given.timed,
        )
    if given.json:
        given.json.write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
