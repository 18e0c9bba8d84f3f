"""Random tables and queries while conditions are kept: off, in memory, by the host, found out by one query and used by others.

The same pairs as `test_differential.py`; `TWOSTAGE_SEED` chooses the first.
"""

from __future__ import annotations

import contextlib
import shutil
from collections import Counter
from typing import TYPE_CHECKING

import pytest
from pairs import QUERIES, SEED, Pair, check_pair

from core_scan import open_table, scan, with_options
from figures import FULL
from twostage.predicates.predicate import And
from twostage.reading.conditions import kept
from twostage.reading.conditions.kept import KEPT

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SEEDS = 400 if FULL else 12
COUNTED = ("conditions.", "condition_cache.", "rows.considered")


@pytest.fixture(autouse=True)
def _everything_is_kept(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(kept.ConditionAnswer, "is_worth_keeping", True)
    monkeypatch.setattr(kept, "MIN_BYTES_SAVED_FOR_A_FILE", 0)
    KEPT.clear()
    yield
    KEPT.clear()


@pytest.fixture(scope="module")
def counted() -> Iterator[Counter[str]]:
    """What the scans of the run counted; at its end, everything must have been at work."""
    found = Counter[str]()
    yield found
    if found["seeds"] >= 12:
        print(f"\nkept conditions, seed {SEED}: {dict(sorted(found.items()))}")
        for name in (
            "conditions.known",
            "conditions.known_in_part",
            "conditions.kept",
            "condition_cache.hits",
        ):
            assert found[name] > 0, (name, found)
        for name in ("condition_cache.ignored", "condition_cache.failed", "condition_cache.unusable"):
            assert found[name] == 0, (name, found)


@pytest.mark.parametrize("seed", range(SEED, SEED + SEEDS))
def test_rows_are_the_oracles_whatever_is_kept(seed: int, tmp_path: Path, counted: Counter[str]) -> None:
    pair = Pair(seed, tmp_path / "table")
    memory = {"filter.cache": "memory"}
    host = {"filter.cache": "host", "filter.cache-dir": str(tmp_path / "cache")}
    configurations = (
        memory,
        memory,
        {"filter.cache": "off"},
        {**memory, "filter.reorder": "false", "split-size": "600", "parallelism": "7"},
        {**memory, "prune.pages": "false", "filter.normalize": "cnf"},
        host,
        host,
        {**host, "read.pages": "always", "batch-size": "7", "deletes.stream": "always"},
    )
    queries = [pair.query(index) for index in range(QUERIES)]
    for query in queries:
        if isinstance(query.predicate, And):
            scan(with_options(pair.opened, memory), query.projection, query.predicate.children[0])
    for snapshot_id in pair.opened.table.metadata.snapshots:  # older ones leave what must not be used for it
        older = open_table(tmp_path / "table", snapshot_id=str(snapshot_id), **memory)
        for query in queries:
            with contextlib.suppress(KeyError):  # a column that came later
                result = scan(older, query.projection, query.predicate, hint=query.hint)
                counted["conditions.known_in_part"] += result.metrics.counters["conditions.known_in_part"]
    for options in configurations:
        if options["filter.cache"] == "host":
            KEPT.clear()  # as for another worker
        for index in range(QUERIES):
            _, result = check_pair(pair, index, options)
            counted.update({k: n for k, n in result.metrics.counters.items() if k.startswith(COUNTED)})
    counted["seeds"] += 1
    shutil.rmtree(tmp_path)
