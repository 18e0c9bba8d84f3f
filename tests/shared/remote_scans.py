"""Queries of tables in a store that counts rounds: opened with empty caches, and with their requests
recorded.

A round is a set of requests that were in flight at the same time (`late_store`).
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

from core_scan import Opened, Result, scan
from late_store import BUCKET
from twostage.catalog.load_table import load_table
from twostage.data_files import parquet_footers
from twostage.deletes.cache.memory import CACHE
from twostage.formats.parquet import page_tables
from twostage.options import parse_options

if TYPE_CHECKING:
    from late_store import LateStore

ROWS = 6000
"""Per data file."""


def rows_of(number: int) -> list[dict[str, Any]]:
    """Return the rows of a data file: 770 KB, no two with the same string."""
    draw = random.Random(number)
    return [
        {
            "id": number * ROWS + n,
            "k": draw.randrange(10**9),
            "s": f"{draw.getrandbits(400):0100x}",
            "x": draw.random(),
        }
        for n in range(ROWS)
    ]


def forget_files() -> None:
    """Forget what this process knows about any file."""
    for cache in (parquet_footers._footers, parquet_footers._versions, parquet_footers._tails):
        cache.clear()
    page_tables._tables.clear()
    CACHE.clear()


def open_remote(store: LateStore, name: str, **options: str) -> Opened:
    """Open a table of the store."""
    given = {
        "path": f"s3://{BUCKET}/{name}",
        **store.options,
        "deletes.cache": "worker",
        "footers.cache": "worker",
        **options,
    }
    parsed = parse_options(given)
    return Opened(load_table(parsed), parsed)


def ask(store: LateStore, opened: Opened, **query: Any) -> tuple[Result, list[dict[str, int]]]:
    """Run a query; return its rows, and the number of requests for data and delete files in each round.

    The chain of requests that the task counts is exact; a round may end early if the machine stalls for long.
    """
    store.reset()
    result = scan(opened, parallelism=1, **query)
    rounds = [
        {name: count for name, count in one.items() if "metadata" not in name} for one in store.by_round()
    ]
    rounds = [one for one in rounds if one]
    assert result.metrics.counters["store.trips"] <= max(len(rounds), 1)
    return result, rounds
