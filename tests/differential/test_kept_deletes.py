"""Random tables and queries with equality deletes kept: shared key tables, compiled positions, all of them on and off.

The same pairs as `test_differential.py`; `TWOSTAGE_SEED` chooses the first.
"""

from __future__ import annotations

import shutil
from collections import Counter
from typing import TYPE_CHECKING

import pytest
from pairs import QUERIES, SEED, Pair, check_pair

import oracle
from core_scan import open_table, scan, with_options
from figures import FULL
from twostage.deletes.anti_join import host_key_sets
from twostage.deletes.cache.memory import CACHE
from twostage.deletes.compiled import store

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SEEDS = 400 if FULL else 20


@pytest.fixture(autouse=True)
def _small_is_worth_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "MIN_KEYS_TO_KEEP", 1)
    monkeypatch.setattr(host_key_sets, "MIN_KEYS_TO_SHARE", 1)


@pytest.fixture(scope="module")
def counted() -> Iterator[Counter[str]]:
    """What the scans of the run counted; at its end, everything must have been at work."""
    found = Counter[str]()
    yield found
    if found["seeds"] >= 20:
        print(f"\nkept deletes, seed {SEED}: {dict(sorted(found.items()))}")
        at_work = ("delete_cache.hits", "delete_cache.built", "delete_compiled.hits",
                   "delete_compiled.written", "rows.deleted.compiled")  # fmt: skip
        for name in at_work:
            assert found[name] > 0, (name, found)
        for name in ("delete_cache.ignored", "delete_cache.failed", "delete_compiled.ignored"):
            assert found[name] == 0, (name, found)


@pytest.mark.parametrize("seed", range(SEED, SEED + SEEDS))
def test_rows_are_the_oracles_whatever_is_kept(seed: int, tmp_path: Path, counted: Counter[str]) -> None:
    pair = Pair(seed, tmp_path / "table")
    host = {"deletes.cache-dir": str(tmp_path / "cache")}
    places = {"deletes.compiled-dir": str(tmp_path / "compiled")}
    configurations = (
        host,  # builds key tables, compiles what is read whole
        {**host, "two-stage": "false"},
        {**host, **places, "split-size": "600", "parallelism": "7"},
        {**host, **places, "filter.kernels": "false", "deletes.stream": "never"},
        {**places, "deletes.cache": "worker", "batch-size": "7", "deletes.stream": "always"},
        {**host, **places, "prune.deletes": "false", "deletes.compile": "false"},
        {**host, **places},
        {"deletes.cache": "worker"},
    )
    fields = pair.opened.table.schema.fields
    for snapshot_id in pair.opened.table.metadata.snapshots:  # older ones leave what must not be used for it
        CACHE.clear()
        older = open_table(tmp_path / "table", snapshot_id=str(snapshot_id))
        scan(with_options(older, {**host, "deletes.stream": "never"}))
    expected = [oracle.project(row, fields) for row in pair.rows]
    for options in configurations:
        CACHE.clear()
        result = scan(with_options(pair.opened, options))
        assert not (problem := oracle.difference(result.rows, expected)), f"seed {seed} {options}: {problem}"
        counted.update({k: n for k, n in result.metrics.counters.items() if "time" not in k})
        for index in range(QUERIES):
            CACHE.clear()
            _, result = check_pair(pair, index, options)
            counted.update({k: n for k, n in result.metrics.counters.items() if "time" not in k})
    counted["seeds"] += 1
    shutil.rmtree(tmp_path)
