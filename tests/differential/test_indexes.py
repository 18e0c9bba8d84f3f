"""Random tables and queries with indexes: of all columns, of some data files, damaged; and while conditions are kept.

The same pairs as `test_differential.py`; `TWOSTAGE_SEED` chooses the first. The rows are the oracle's, and those that DuckDB
keeps of the live rows.
"""

from __future__ import annotations

import random
import shutil
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from test_differential import FULL, QUERIES, SEED, Pair, check_pair

import oracle
from duckdb_oracle import Rows
from indexed_tables import place_of
from twostage.deletes.cache.memory import CACHE
from twostage.indexes.file_keys import FILES
from twostage.indexes.keys import key_class
from twostage.indexes.kinds.registered import KINDS
from twostage.maintenance.index_files import index_files
from twostage.maintenance.table_indexes import OwnedIndexes
from twostage.planning import index_pruning
from twostage.reading import index_answers
from twostage.reading.conditions.kept import KEPT

if TYPE_CHECKING:
    from collections.abc import Iterator

SEEDS = 400 if FULL else 16
MEMORY = {"filter.cache": "memory"}
CONFIGURATIONS: tuple[dict[str, str], ...] = (
    {},
    {"index": "off"},
    MEMORY,
    MEMORY,
    {"filter.normalize": "cnf", "deletes.stream": "always"},
    {"read.pages": "always", "split-size": "600", "parallelism": "7"},
)


@pytest.fixture(autouse=True)
def _every_index_pays(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(index_answers.FileAnswers, "_column_cost", lambda *_: (10**6, 10**9, 10**9))
    monkeypatch.setattr(index_pruning, "MIN_FILES", 1)
    CACHE.clear()
    KEPT.clear()
    yield
    CACHE.clear()
    KEPT.clear()


@pytest.fixture(scope="module")
def counted() -> Iterator[Counter[str]]:
    """What the scans of the run counted; at its end, everything must have been at work."""
    found = Counter[str]()
    yield found
    if found["seeds"] >= 16:
        print(f"\nindexes, seed {SEED}: {dict(sorted(found.items()))}")
        for name in ("all: indexes.used", "part: indexes.used", "all: files.pruned.index"):
            assert found[name] > 0, (name, found)
        assert found["damaged: indexes.ignored"] > 0, found
        assert found["all: indexes.ignored"] == found["part: indexes.ignored"] == 0, found


@pytest.mark.parametrize("seed", range(SEED, SEED + SEEDS))
def test_rows_are_the_oracles_and_duckdbs(seed: int, tmp_path: Path, counted: Counter[str]) -> None:
    pair = Pair(seed, tmp_path / "table")
    drawn = random.Random(seed)
    index_columns(pair, drawn)
    places = sorted(Path(place_of(pair.opened).folder).rglob("*.puffin"))
    by_duckdb = Rows(pair.rows, pair.opened.table.schema)
    queries = [pair.query(index) for index in range(QUERIES)]
    for query in queries:
        kept = [n for n, row in enumerate(pair.rows) if oracle.evaluate(query.predicate, row) is True]
        assert not pair.rows or by_duckdb.places(query.predicate) == kept
    by_duckdb.close()
    for state in ("all", "part", "damaged"):
        chosen = drawn.sample(places, len(places) // 2)
        for path in chosen:
            if state == "part":
                path.rename(path.with_suffix(".aside"))
            elif state == "damaged":
                damage(path, drawn)
        CACHE.clear()
        KEPT.clear()
        for options in CONFIGURATIONS:
            for index in range(QUERIES):
                _, result = check_pair(pair, index, options)
                if not options:
                    count(counted, state, result.metrics.counters)
        for path in chosen if state == "part" else ():
            path.with_suffix(".aside").rename(path)
    counted["seeds"] += 1
    shutil.rmtree(tmp_path)


def index_columns(pair: Pair, drawn: random.Random) -> None:
    """Index every column that can be, in structs too, each by some kinds."""
    owned = OwnedIndexes(pair.opened.options, {}, lambda work: map(index_files, work), print)
    schema = pair.opened.table.schema
    for field_id in schema.field_ids():
        field, path = schema.field(field_id), schema.path(field_id)
        if key_class(field.type) is None or schema.find(path) is None:  # elements of lists have no name
            continue
        fitting = [name for name, kind in KINDS.items() if kind.refuses(field.type) is None]
        # Nearly all columns with an initial default, which older files lack, have keys of data files.
        has_files = drawn.random() < (0.5 if field.initial_default is None else 0.9)
        kinds = [*drawn.sample(fitting, drawn.randint(1, len(fitting))), *([FILES] * has_files)]
        owned.create([".".join(path)], ",".join(kinds))


def damage(path: Path, drawn: random.Random) -> None:
    """Flip bytes, or cut the file short."""
    data = bytearray(path.read_bytes())
    if drawn.random() < 0.3:
        del data[drawn.randrange(len(data)) :]
    for _ in range(drawn.randint(1, 40)):
        if data:
            data[drawn.randrange(len(data))] ^= 1 << drawn.randrange(8)
    path.write_bytes(bytes(data))


def count(counted: Counter[str], state: str, counters: Counter[str] | Any) -> None:
    """Add what a scan counted."""
    for name in ("indexes.used", "indexes.ignored", "files.pruned.index"):
        counted[f"{state}: {name}"] += counters[name]
