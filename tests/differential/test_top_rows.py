"""Random tables under ORDER BY … LIMIT: the rows that a scan returns hold the first ones, as a plain sort finds them.

``TWOSTAGE_SEED`` sets the first seed; a failure prints the seed and what was asked.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from ordered_limits import check_top, random_top
from pairs import NOT_COMPILED, SEED, Pair, not_compiled

from core_scan import scan, with_options
from figures import FULL
from indexed_tables import built
from twostage.indexes.kinds.sorted_rows import SortedRows
from twostage.planning import index_threshold, plan
from twostage.predicates.top import TYPES

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

TABLES = 600 if FULL else 36
QUERIES = 6
CONFIGURATIONS: tuple[dict[str, str], ...] = (
    {},
    {"batch-size": "3", "split-size": "1", "deletes.stream": "always"},
    {"two-stage": "false"},
    {"prune.files": "false", "prune.pages": "false"},
    {"prune.row-groups": "false", "read.pages": "always"},
    {"filter.kernels": "false", "prune.deletes": "false", "batch-size": "1"},
    NOT_COMPILED,
    {"top-n": "false"},
    {"index": "off"},
    {},
)


@pytest.fixture(scope="module")
def counted() -> Iterator[Counter[str]]:
    """What the run exercised: it must not have been vacuous."""
    counters = Counter[str]()
    yield counters
    if counters["tables"] >= 36:
        for name in (
            "files.pruned.top-n", "row_groups.pruned.top-n", "rows.top-n", "rows.deleted.equality", "reached by index",
            "rows in doubt",
        ):  # fmt: skip
            assert counters[name] > 0, counters


@pytest.fixture(autouse=True)
def asked_whatever_its_size(monkeypatch: pytest.MonkeyPatch, counted: Counter[str]) -> None:
    """Ask the indexes of small tables; count what they told, as a plain sort of fewer rows may be as good."""
    monkeypatch.setattr(index_threshold, "MIN_ROWS_TO_PROBE", 0)
    real = index_threshold.threshold_from_indexes

    def reached(*given: Any) -> Any:
        found = real(*given)
        counted["reached by index"] += found is not None
        counted["rows in doubt"] += any(file.num_deleted for file in given[2])
        return found

    monkeypatch.setattr(plan, "threshold_from_indexes", reached)


@pytest.mark.parametrize("seed", range(SEED, SEED + TABLES))
def test_the_first_rows_are_among_those_returned(seed: int, tmp_path: Path, counted: Counter[str]) -> None:
    pair = Pair(seed, tmp_path)
    counted["tables"] += 1
    pick = random.Random(seed)
    schema = pair.opened.table.schema
    fields = tuple(field for field in schema.fields if getattr(field.type, "name", "") in TYPES)
    indexed = [field.name for field in fields if SortedRows().refuses(field.type) is None]
    if pick.random() < 0.7:
        built(pair.opened, indexed, "sorted")
    for index in range(QUERIES):
        query = pair.query(index)
        top = random_top(pick, fields)
        key = schema.field(top.column.field_id)
        query = replace(query, projection=(key, *(f for f in query.projection if f.id != key.id)))
        if pick.random() < 0.4:
            query = replace(query, predicate=pair.query(QUERIES + index).hint)  # seldom anything but TRUE
        options = CONFIGURATIONS[pick.randrange(len(CONFIGURATIONS))]
        scanned = {name: text for name, text in options.items() if name not in NOT_COMPILED}
        place = f"TWOSTAGE_SEED={seed} query {index} {options}: {top} WHERE {query.predicate}"
        try:
            opened = with_options(pair.opened, scanned)
            if options == NOT_COMPILED:
                with not_compiled():
                    result = scan(opened, query.projection, query.predicate, top=top)
            else:
                result = scan(opened, query.projection, query.predicate, top=top)
        except Exception as error:
            error.add_note(place)
            raise
        counted.update(result.metrics.counters)
        check_top(result.rows, pair.expected(query), top, place)
        if options.get("top-n") == "false":
            assert len(result.rows) == len(pair.expected(query)), place
