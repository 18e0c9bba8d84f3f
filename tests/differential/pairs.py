"""Pairs of a random table and a random query: a seed and a number in, the oracle's rows out, and a scan compared with them.

``TWOSTAGE_SEED`` sets the first seed of whoever draws pairs.
"""

from __future__ import annotations

import os
from collections import Counter
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

import oracle
from core_scan import Opened, Result, open_table, scan, with_options
from random_queries import Query, random_query
from random_tables import random_table
from twostage.predicates.predicate import both
from twostage_native._jit import Kernel

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from declared.content import Content

SEED = int(os.environ.get("TWOSTAGE_SEED", "1"))
QUERIES = 5
"""Of each table, in most tests."""
NOT_COMPILED = {"TWOSTAGE_JIT": "0"}
"""No option of a scan: the kernels' NumPy twins run instead."""


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
        return random_query(self.seed * 1000 + index, self.opened.table.schema, self.pools, self.rows)

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


@contextmanager
def not_compiled() -> Iterator[None]:
    """Run the NumPy twin of every kernel, compiled or not."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Kernel, "__call__", lambda kernel, *arguments: kernel.twin(*arguments))
        yield


def check_pair(pair: Pair, index: int, options: dict[str, str] | None = None) -> tuple[Query, Result]:
    """Run one query of a pair and compare."""
    query = pair.query(index)
    scanned = {key: value for key, value in (options or {}).items() if key not in NOT_COMPILED}
    opened = with_options(pair.opened, scanned)
    place = f"TWOSTAGE_SEED={pair.seed} query {index} options {options or {}}: WHERE {query.predicate} [hint {query.hint}]"
    try:
        with not_compiled() if options == NOT_COMPILED else nullcontext():
            result = scan(opened, query.projection, query.predicate, hint=query.hint, limit=query.limit)
    except Exception as error:
        error.add_note(place)
        raise
    problem = pair.problem(query, result)
    assert not problem, f"{place}: {problem}"
    return query, result
