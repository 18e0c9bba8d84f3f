"""Random tables and queries: the core's rows are the oracle's, whatever the configuration.

``TWOSTAGE_SEED`` sets the first seed, ``TWOSTAGE_PAIRS`` the number of (table, query) pairs; a failure
prints the seeds, and `check_pair` with them shows it again.
"""

from __future__ import annotations

import os
import shutil
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

import oracle
from core_scan import Opened, Result, open_table, scan, with_options
from random_queries import Query, random_query
from random_tables import random_table
from twostage.predicates.predicate import both

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from declared.content import Content

SEED = int(os.environ.get("TWOSTAGE_SEED", "1"))
PAIRS = int(os.environ.get("TWOSTAGE_PAIRS", "300"))
QUERIES = 5
SWITCHES = (
    "prune.files",
    "prune.row-groups",
    "prune.dictionary",
    "prune.bloom",
    "prune.deletes",
    "two-stage",
    "filter.kernels",
    "filter.reorder",
    "verify-checksums",
)
CONFIGURATIONS: list[dict[str, str]] = [
    {},
    *({switch: "false"} for switch in SWITCHES),
    dict.fromkeys(SWITCHES, "false"),
    {"filter.normalize": "cnf"},
    {"filter.normalize": "dnf"},
    {"batch-size": "1"},
    {"batch-size": "7"},
    {"batch-size": "1024"},
    {"split-size": "1"},
    {"split-size": "600", "parallelism": "7"},
    {"split-size": "1g"},
]


class Pair:
    """A random table with its content at one snapshot, opened by the product."""

    def __init__(self, seed: int, folder: Path) -> None:
        self.seed = seed
        table, self.pools = random_table(seed, folder)
        content = table.content()
        options: dict[str, str] = {}
        if seed % 5 == 0 and len(table.snapshots) > 1:  # time travel, with that snapshot's schema
            chosen = table.snapshots[seed // 5 % len(table.snapshots)]
            content = table.content(chosen.id)
            content = replace(content, columns=content.snapshot_columns)
            options = {"snapshot_id": str(chosen.id)}
        self.content: Content = content
        self.opened: Opened = open_table(folder, **options)
        self.deleted = Counter[str]()
        self.rows = oracle.live_rows(content, self.deleted)

    def query(self, index: int) -> Query:
        """Return the pair's query number `index`."""
        return random_query(self.seed * 1000 + index, self.opened.table.schema, self.pools)

    def expected(self, query: Query, *, hinted: bool = False) -> list[tuple[Any, ...]]:
        """Return the oracle's rows."""
        predicate = both(query.predicate, query.hint) if hinted else query.predicate
        kept = [row for row in self.rows if oracle.evaluate(predicate, row) is True]
        return [oracle.project(row, query.projection) for row in kept]

    def problem(self, query: Query, result: Result) -> str:
        """Return what is wrong with a result; empty if nothing is."""
        expected = self.expected(query)
        if not query.hint == both() or query.limit is not None:
            found, allowed = Counter(result.rows), Counter(expected)
            if extra := found - allowed:
                return f"{extra.total()} rows that do not match: {list(extra)[:3]}"
            needed = self.expected(query, hinted=True)
            if query.limit is None:
                missing = Counter(needed) - found
                return f"missing {missing.total()}: {list(missing)[:3]}" if missing else ""
            enough = min(query.limit, len(needed))
            return f"{len(result.rows)} rows, at least {enough} wanted" if len(result.rows) < enough else ""
        return oracle.difference(result.rows, expected)


def check_pair(pair: Pair, index: int, options: dict[str, str] | None = None) -> tuple[Query, Result]:
    """Run one query of a pair and compare."""
    query = pair.query(index)
    opened = with_options(pair.opened, options or {})
    place = f"TWOSTAGE_SEED={pair.seed} query {index} options {options or {}}: WHERE {query.predicate} [hint {query.hint}]"
    try:
        result = scan(opened, query.projection, query.predicate, hint=query.hint, limit=query.limit)
    except Exception as error:
        error.add_note(place)
        raise
    problem = pair.problem(query, result)
    assert not problem, f"{place}: {problem}"
    return query, result


AT_WORK = (
    "rows.deleted.position",
    "rows.deleted.vector",
    "rows.deleted.equality",
    "rows.filtered",
    "files.pruned.partition",
    "files.pruned.bounds",
    "row_groups.pruned.statistics",
    "row_groups.pruned.dictionary",
    "row_groups.pruned.bloom",
    "row_groups.pruned.filter",
    "delete_files.skipped",
)


@pytest.fixture(scope="module")
def totals() -> Iterator[Counter[str]]:
    """What all pairs of the run counted.

    At its end: was the run vacuous? Every kind of delete and of pruning was at work, and results were not
    mostly empty.
    """
    counted = Counter[str]()
    yield counted
    if counted["pairs"] >= 200:
        shown = dict(sorted(counted.items()))
        assert counted["non-empty"] > 0.35 * counted["pairs"], shown
        assert counted["pruning"] > 0.25 * counted["pairs"], shown
        for name in AT_WORK:
            assert counted[name] > 0, (name, shown)


@pytest.mark.parametrize("seed", range(SEED, SEED + -(-PAIRS // QUERIES)))
def test_rows_are_the_oracles(seed: int, tmp_path: Path, totals: Counter[str]) -> None:
    pair = Pair(seed, tmp_path)
    assert {c.id for c in pair.content.columns} == {f.id for f in pair.opened.table.schema.fields}
    for index in range(QUERIES):
        _, result = check_pair(pair, index)
        totals["pairs"] += 1
        totals["non-empty"] += bool(result.rows)
        totals["pruning"] += result.count("row_groups.pruned") > 0 or result.count("files.pruned") > 0
        totals.update(
            {name: number for name, number in result.metrics.counters.items() if "time" not in name}
        )
    totals.update({f"oracle.{kind}": number for kind, number in pair.deleted.items()})
    shutil.rmtree(tmp_path)


@pytest.mark.parametrize(
    "options", CONFIGURATIONS, ids=lambda o: ",".join(f"{k}={v}" for k, v in o.items())[:40] or "default"
)
def test_every_configuration_gives_the_same_rows(options: dict[str, str], tmp_path: Path) -> None:
    for seed in range(
        SEED, SEED + (2 if options.get("split-size") == "1" else 8)
    ):  # one task per row group is slow
        pair = Pair(seed, tmp_path / str(seed))
        for index in range(QUERIES):
            _, result = check_pair(pair, index, options)
            if size := options.get("batch-size"):
                assert max(result.batch_sizes, default=0) <= int(size)
