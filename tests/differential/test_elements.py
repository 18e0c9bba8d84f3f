"""`array_contains` and `map_contains_key` over random tables of every format: the core's rows are the oracle's.

Tables have lists of ints, doubles and strings and maps by strings, deletes, dropped and added columns. ``TWOSTAGE_SEED`` sets the
first seed.
"""

from __future__ import annotations

import random
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from test_differential import SEED, Pair

import oracle
from core_scan import scan, with_options
from declared.types import plain
from figures import FULL
from twostage.deletes.cache.memory import CACHE
from twostage.predicates import predicate as tree
from twostage.reading.conditions.kept import KEPT
from twostage.schema import List, Map, Primitive

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SEEDS = 600 if FULL else 80
OPTIONS: tuple[dict[str, str], ...] = (
    {},
    {"two-stage": "false"},
    {"filter.kernels": "false", "read.pages": "always", "batch-size": "3"},
    {"filter.cache": "memory"},
    {"filter.cache": "memory"},
)


@pytest.fixture(scope="module")
def answers() -> Iterator[Counter[Any]]:
    """How often a test was true, false and NULL; the run must not have been vacuous."""
    CACHE.clear()
    KEPT.clear()
    found = Counter[Any]()
    yield found
    KEPT.clear()
    if found["tables"] > 10:
        assert all(found[value] > 0 for value in (True, False, None, "list", "map")), found


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


@pytest.mark.parametrize("seed", range(SEED, SEED + SEEDS))
def test_rows_are_the_oracles(seed: int, tmp_path: Path, answers: Counter[Any]) -> None:
    pair, rng = Pair(seed, tmp_path), random.Random(seed)
    found = list(_leaves(pair, rng))
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
                problem = oracle.difference(got.rows, expected)
                assert not problem, f"TWOSTAGE_SEED={seed} options {options}: WHERE {predicate}: {problem}"
