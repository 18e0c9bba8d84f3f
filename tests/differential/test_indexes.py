"""Random tables and queries with indexes: of all columns, of some data files, damaged; and while conditions are kept.

Fields nested in structs are indexed, too. The same pairs as `test_differential.py`; `TWOSTAGE_SEED` chooses the first. The rows are the oracle's, and those that DuckDB
keeps of the live rows.
"""

from __future__ import annotations

import random
import shutil
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pairs import QUERIES, SEED, Pair, check_pair
from random_indexes import damage, index_columns

import oracle
from duckdb_oracle import Rows
from figures import FULL, record
from indexed_tables import everything_pays, place_of
from twostage.deletes.cache.memory import CACHE
from twostage.reading.conditions import kept
from twostage.reading.conditions.kept import KEPT

if TYPE_CHECKING:
    from collections.abc import Iterator

    from core_scan import Result

SEEDS = 400 if FULL else 10
STATES = ("all", "part", "damaged")
MEMORY = {"filter.cache": "memory"}
HOST = {"filter.cache": "host"}
"""With a directory of the test's."""
CONFIGURATIONS: tuple[dict[str, str], ...] = (
    {},
    {"index": "off"},
    MEMORY,
    MEMORY,
    HOST,
    HOST,
    {"filter.normalize": "cnf", "deletes.stream": "always"},
    {"filter.normalize": "dnf"},
    {"read.pages": "always", "split-size": "600", "parallelism": "7"},
)


@pytest.fixture(autouse=True)
def _every_index_pays(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(kept.ConditionAnswer, "is_worth_keeping", True)
    monkeypatch.setattr(kept, "MIN_BYTES_SAVED_FOR_A_FILE", 0)
    CACHE.clear()
    KEPT.clear()
    with everything_pays():
        yield
    CACHE.clear()
    KEPT.clear()


@pytest.fixture(scope="module")
def counted() -> Iterator[Counter[str]]:
    """What the scans of the run counted; at its end, everything must have been at work."""
    found = Counter[str]()
    yield found
    if found["seeds"] >= 10:
        differences = found["asked"] - found["scans"]
        record("R1", indexed_pairs=found["pairs"], indexed_mismatches=differences)
        configurations = len(STATES) * len({tuple(one.items()) for one in CONFIGURATIONS})
        record(
            "R2",
            indexed_configurations=configurations,
            indexed_scans=found["scans"],
            indexed_differences=differences,
        )
        print(f"\nindexes, seed {SEED}: {dict(sorted(found.items()))}")
        for name in (
            "all: indexes.used",
            "part: indexes.used",
            "all: files.pruned.index",
            "memory: conditions.known",
            "host: condition_cache.hits",
            "nested fields",
        ):
            assert found[name] > 0, (name, found)
        assert found["damaged: indexes.ignored"] > 0, found
        assert found["all: indexes.ignored"] == found["part: indexes.ignored"] == 0, found


@pytest.mark.parametrize("seed", range(SEED, SEED + SEEDS))
def test_rows_are_the_oracles_and_duckdbs_in_every_configuration(
    seed: int, tmp_path: Path, counted: Counter[str]
) -> None:
    pair = Pair(seed, tmp_path / "table")
    drawn = random.Random(seed)
    index_columns(pair, drawn, counted)
    places = sorted(Path(place_of(pair.opened).folder).rglob("*.puffin"))
    by_duckdb = Rows(pair.rows, pair.opened.table.schema)
    queries = [pair.query(index) for index in range(QUERIES)]
    for query in queries:
        kept = [n for n, row in enumerate(pair.rows) if oracle.evaluate(query.predicate, row) is True]
        assert not pair.rows or by_duckdb.places(query.predicate) == kept
    by_duckdb.close()
    counted["pairs"] += QUERIES
    for state in STATES:
        chosen = drawn.sample(places, len(places) // 2)
        for path in chosen:
            if state == "part":
                path.rename(path.with_suffix(".aside"))
            elif state == "damaged":
                damage(path, drawn)
        CACHE.clear()
        KEPT.clear()
        for configuration in CONFIGURATIONS:
            options = configuration
            if options is HOST:
                KEPT.clear()  # as for another worker
                options = {**HOST, "filter.cache-dir": str(tmp_path / "conditions")}
            for index in range(QUERIES):
                counted["asked"] += 1
                _, result = check_pair(pair, index, options)
                counted["scans"] += 1
                count(counted, state if not options else options.get("filter.cache", ""), result)
        for path in chosen if state == "part" else ():
            path.with_suffix(".aside").rename(path)
    counted["seeds"] += 1
    shutil.rmtree(tmp_path)


def count(counted: Counter[str], state: str, result: Result) -> None:
    """Add what a scan counted."""
    for name in (
        "indexes.used",
        "indexes.ignored",
        "files.pruned.index",
        "conditions.known",
        "condition_cache.hits",
    ):
        counted[f"{state}: {name}"] += result.metrics.counters[name]
