"""Random tables and queries: the core's rows are the oracle's, whatever the configuration.

``TWOSTAGE_SEED`` sets the first seed, ``TWOSTAGE_PAIRS`` the number of (table, query) pairs (300, with
TWOSTAGE_FULL=1 10,000); a failure prints the seeds, and `pairs.check_pair` with them shows it again.
"""

from __future__ import annotations

import os
import shutil
from collections import Counter
from typing import TYPE_CHECKING

import pytest
from exercised import AT_WORK, Exercised
from pairs import NOT_COMPILED, QUERIES, SEED, Pair, check_pair

import oracle
from duckdb_oracle import Rows
from figures import FULL, record

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PAIRS = int(os.environ.get("TWOSTAGE_PAIRS", "10000" if FULL else "300"))
SAME_PAIRS = int(os.environ.get("TWOSTAGE_SAME_PAIRS", "2000" if FULL else "80"))
"""Pairs that are read in every configuration."""
SWITCHES = (
    "prune.files",
    "prune.row-groups",
    "prune.pages",
    "prune.dictionary",
    "prune.bloom",
    "prune.deletes",
    "deletes.dense",
    "deletes.simplify",
    "two-stage",
    "filter.kernels",
    "filter.dictionary",
    "filter.reorder",
    "verify-checksums",
)
CORE_CONFIGURATIONS: tuple[dict[str, str], ...] = (
    {},
    dict.fromkeys((switch for switch in SWITCHES if switch.startswith("prune.")), "false"),
    {"two-stage": "false", "deletes.stream": "always"},
    {
        "filter.kernels": "false",
        "filter.dictionary": "false",
        "deletes.dense": "false",
        "deletes.simplify": "false",
    },
    NOT_COMPILED,
    {"read.pages": "always", "read.few-rows": "always", "batch-size": "1"},
    {"batch-size": "7", "split-size": "1", "deletes.stream": "always"},
    {"verify-checksums": "false", "batch-size": "1024", "split-size": "1g"},
)
MORE_CONFIGURATIONS: tuple[dict[str, str], ...] = (
    *({switch: "false"} for switch in SWITCHES if switch.startswith("prune.")),
    {"filter.reorder": "false", "deletes.stream": "always"},
    {"deletes.stream": "always", "task-memory": "20k"},
    {"deletes.stream": "always", "prune.deletes": "false"},
    {"deletes.stream": "never", "two-stage": "false"},
    dict.fromkeys(SWITCHES, "false"),
    {"read.pages": "always", "read.few-rows": "never"},
    {"read.pages": "never"},
    {"filter.normalize": "cnf"},
    {"filter.normalize": "dnf"},
    {"split-size": "600", "parallelism": "7"},
)
CONFIGURATIONS = (*CORE_CONFIGURATIONS, *MORE_CONFIGURATIONS) if FULL else CORE_CONFIGURATIONS


@pytest.fixture(scope="module")
def exercised() -> Iterator[Exercised]:
    """What the pairs of the run exercised; at its end, the run must not have been vacuous."""
    found = Exercised()
    yield found
    if found.pairs >= 200:
        figures = found.figures()
        record("R1", pairs=found.asked, mismatches=found.asked - found.pairs, seed=SEED)
        record("R1b", **figures)
        print(f"\ndifferential, seed {SEED}: {figures}")
        # A few hundred pairs of one seed may lie a little off.
        assert found.non_empty >= (0.6 if found.pairs >= 1000 else 0.5) * found.pairs, figures
        assert found.skipping >= 0.3 * found.pairs, figures
        for name in AT_WORK:
            assert found.counters[name] > 0, (name, dict(sorted(found.counters.items())))
        if found.pairs >= 10_000:
            assert found.rarest[0] >= 30, figures


@pytest.mark.parametrize("seed", range(SEED, SEED + -(-PAIRS // QUERIES)))
def test_rows_are_the_oracles(seed: int, tmp_path: Path, exercised: Exercised) -> None:
    """And DuckDB keeps the same of the live rows as the oracle."""
    pair = Pair(seed, tmp_path)
    assert {c.id for c in pair.content.columns} == {f.id for f in pair.opened.table.schema.fields}
    by_duckdb = Rows(pair.rows, pair.opened.table.schema)
    for index in range(QUERIES):
        exercised.asked += 1
        query, result = check_pair(pair, index)
        if pair.rows:
            kept = [n for n, row in enumerate(pair.rows) if oracle.evaluate(query.predicate, row) is True]
            assert by_duckdb.places(query.predicate) == kept, (
                f"DuckDB, TWOSTAGE_SEED={seed}: {query.predicate}"
            )
        exercised.add(query, result, pair.deleted)
    by_duckdb.close()
    shutil.rmtree(tmp_path)


@pytest.fixture(scope="module")
def same_pairs() -> Iterator[Counter[str]]:
    """Scans asked for, and those whose rows were the oracle's."""
    counted = Counter[str]()
    yield counted
    if counted["pairs"] >= SAME_PAIRS:
        record(
            "R2",
            pairs=counted["pairs"],
            configurations=len(CONFIGURATIONS),
            scans=counted["scans"],
            differences=counted["asked"] - counted["scans"],
        )


@pytest.mark.parametrize("seed", range(SEED, SEED + SAME_PAIRS // QUERIES))
def test_every_configuration_gives_the_same_rows(seed: int, tmp_path: Path, same_pairs: Counter[str]) -> None:
    """All of them give the oracle's rows; under a limit or a hint, rows that the oracle allows."""
    pair = Pair(seed, tmp_path)
    for index in range(QUERIES):
        same_pairs["pairs"] += 1
        for options in CONFIGURATIONS:
            same_pairs["asked"] += 1
            _, result = check_pair(pair, index, options)
            if size := options.get("batch-size"):
                assert max(result.batch_sizes, default=0) <= int(size)
            same_pairs["scans"] += 1
    shutil.rmtree(tmp_path)


def test_there_are_enough_configurations() -> None:
    """The scoreboard asks for 8, and for 16 each night."""
    assert len(CORE_CONFIGURATIONS) == 8
    assert len(CORE_CONFIGURATIONS) + len(MORE_CONFIGURATIONS) >= 16
    assert set(SWITCHES) <= {switch for options in CORE_CONFIGURATIONS for switch in options} | {
        "filter.reorder"
    }
