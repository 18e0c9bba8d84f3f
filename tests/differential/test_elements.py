"""`array_contains` and `map_contains_key` over random tables of every format: the core's rows are the oracle's.

Tables have lists of ints, doubles and strings and maps by strings, deletes, dropped and added columns. ``TWOSTAGE_SEED`` sets the
first seed.
"""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pairs import SEED, Pair
from random_indexes import damage

import oracle
from core_scan import scan, with_options
from declared.types import plain
from figures import FULL
from indexed_tables import built, place_of
from twostage.deletes.cache.memory import CACHE
from twostage.predicates import predicate as tree
from twostage.reading import index_answers
from twostage.reading.conditions.kept import KEPT
from twostage.schema import List, Map, Primitive

if TYPE_CHECKING:
    from collections.abc import Iterator

SEEDS = 600 if FULL else 40
STATES = ("none", "all", "part", "damaged", "part", "damaged")
"""Of the indexes, by turns."""
OPTIONS: tuple[dict[str, str], ...] = (
    {},
    {"two-stage": "false"},
    {"filter.kernels": "false", "read.pages": "always", "batch-size": "3"},
    {"filter.cache": "memory"},
    {"filter.cache": "memory"},
    {"index": "off"},
)


@pytest.fixture(autouse=True)
def _every_index_pays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index_answers.FileAnswers, "_column_cost", lambda *_: (10**6, 10**9, 10**9))


@pytest.fixture(scope="module")
def answers() -> Iterator[Counter[Any]]:
    """How often a test was true, false and NULL; the run must not have been vacuous."""
    CACHE.clear()
    KEPT.clear()
    found = Counter[Any]()
    yield found
    KEPT.clear()
    if found["tables"] > 10:
        at_work = (True, False, None, "list", "map", "index of all used", "index of part used")
        assert all(found[value] > 0 for value in at_work), found
        assert not found["index of none used"]


def _leaves(pair: Pair, rng: random.Random) -> Iterator[tree.HasElement]:
    """Tests of every list and map of the table, for values that it holds and for one that it may lack."""
    schema = pair.opened.table.schema
    for field in schema.fields:
        match field.type:
            case List(element=inner) | Map(key=inner) if isinstance(inner.type, Primitive):
                column = tree.Column(field.id, (field.name,), field.type)
                element = tree.Column(inner.id, schema.path(inner.id), inner.type)
                pool = pair.pools.get(inner.id, [])
                for value in rng.sample(pool, min(2, len(pool))):
                    yield tree.HasElement(column, element, plain(str(inner.type), value))


def _index(pair: Pair, state: str, names: set[str], rng: random.Random) -> None:
    """Index the lists of all data files, and damage or remove some of the index files."""
    built(pair.opened, sorted(names), "elements")
    made = sorted(Path(place_of(pair.opened).folder).rglob("*.puffin"))
    for path in rng.sample(made, -(-len(made) // 2)) if state != "all" else ():
        if state == "part":
            path.unlink()
        else:
            damage(path, rng)


@pytest.mark.parametrize("seed", range(SEED, SEED + SEEDS))
def test_rows_are_the_oracles(seed: int, tmp_path: Path, answers: Counter[Any]) -> None:
    pair, rng = Pair(seed, tmp_path), random.Random(seed)
    found = list(_leaves(pair, rng))
    state = STATES[seed % len(STATES)]
    if state != "none" and found:
        _index(pair, state, {leaf.column.path[0] for leaf in found}, rng)
    answers["tables"] += bool(found)
    for leaf in found:
        answers["list" if isinstance(leaf.column.type, List) else "map"] += 1
        other = pair.query(rng.randrange(5)).predicate
        for predicate in (leaf, tree.Not(leaf), tree.Or((leaf, other)), tree.And((tree.Not(leaf), other))):
            truths = [oracle.evaluate(predicate, row) for row in pair.rows]
            answers.update(truths)
            fields = pair.opened.table.schema.fields
            expected = [
                oracle.project(row, fields)
                for row, true in zip(pair.rows, truths, strict=True)
                if true is True
            ]
            for options in OPTIONS:
                got = scan(with_options(pair.opened, options), fields, predicate)
                answers[f"index of {state} used"] += got.metrics.counters["indexes.used"]
                problem = oracle.difference(got.rows, expected)
                assert not problem, (
                    f"TWOSTAGE_SEED={seed} index of {state} options {options}: WHERE {predicate}: {problem}"
                )
