"""Random tables in an object store: with files ahead or one by one, the rows are the oracle's.

``TWOSTAGE_SEED`` sets the first seed; a failure prints the seed and the query.
"""

from __future__ import annotations

import random
import shutil
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from ordered_limits import check_top, random_top
from pairs import SEED, Pair, check_pair

from core_scan import Opened, scan, with_options
from figures import FULL
from late_store import BUCKET, LateStore, serve_late
from twostage.catalog.load_table import load_table
from twostage.deletes.cache.memory import CACHE
from twostage.options import parse_options
from twostage.predicates.top import TYPES

if TYPE_CHECKING:
    from collections.abc import Iterator

TABLES = 300 if FULL else 10
QUERIES = 3
CONFIGURATIONS: tuple[dict[str, str], ...] = (
    {"parallelism": "1"},
    {"parallelism": "1", "io.files-ahead": "0", "io.prefetch": "false"},
    {"io.files-ahead": "2", "two-stage": "false", "batch-size": "3", "io.merge-gap": "1"},
    {"parallelism": "1", "deletes.stream": "always", "task-memory": "40k", "read.pages": "always"},
    {"deletes.stream": "never", "deletes.cache": "worker", "io.parallel-requests": "2"},
)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LateStore]:
    with serve_late(tmp_path_factory.mktemp("lake")) as late:
        yield late


def remote_pair(seed: int, store: LateStore) -> Pair:
    """Make a random table, and open it where the store serves it."""
    folder = store.root / f"t{seed}"
    pair = Pair(seed, folder)
    given = {"path": f"s3://{BUCKET}/{folder.name}", "allow-moved-paths": "true", **store.options}
    if (snapshot := pair.opened.options.snapshot_id) is not None:
        given["snapshot-id"] = str(snapshot)
    options = parse_options(given)
    pair.opened = Opened(load_table(options), options)
    CACHE.clear()
    return pair


@pytest.mark.parametrize("seed", range(SEED, SEED + TABLES))
def test_rows_of_remote_tables_are_the_oracles(seed: int, store: LateStore) -> None:
    pair = remote_pair(seed, store)
    for index in range(QUERIES):
        for options in CONFIGURATIONS:
            check_pair(pair, index, options)
    pick = random.Random(seed)
    fields = tuple(
        field for field in pair.opened.table.schema.fields if getattr(field.type, "name", "") in TYPES
    )
    for index, options in enumerate(CONFIGURATIONS):
        query, top = pair.query(index), random_top(pick, fields)
        key = pair.opened.table.schema.field(top.column.field_id)
        query = replace(query, projection=(key, *(f for f in query.projection if f.id != key.id)))
        opened = with_options(pair.opened, options)
        result = scan(opened, query.projection, query.predicate, top=top)
        place = f"TWOSTAGE_SEED={seed} query {index} {options}: {top} WHERE {query.predicate}"
        check_top(result.rows, pair.expected(query), top, place)
    shutil.rmtree(store.root / f"t{seed}")
