"""Random tables under ORDER BY … LIMIT: the rows that a scan returns hold the first ones, as a plain sort finds them.

``TWOSTAGE_SEED`` sets the first seed; a failure prints the seed and what was asked.
"""

from __future__ import annotations

import random
import struct
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from test_differential import NOT_COMPILED, SEED, Pair, not_compiled

from core_scan import scan, with_options
from figures import FULL
from indexed_tables import built
from twostage.indexes.kinds.sorted_rows import SortedRows
from twostage.planning import index_threshold, plan
from twostage.predicates.predicate import Column
from twostage.predicates.top import TYPES, TopRows

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from twostage.schema import Field

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


def rank(value: Any, top: TopRows) -> tuple[bool, Any]:
    """Return what sorts as the query asks; `value` is NULL or of the form that `oracle.exact` gives."""
    if value is None:
        return (not top.nulls_first, 0)
    kind, held = value
    if kind == "float":  # NaN last, 0.0 with -0.0
        held = (1, 0.0) if held == "nan" else (0, struct.unpack("<d", held)[0])
    elif kind == "str":
        held = held.encode()
    return (top.nulls_first, Reversed(held) if top.descending else held)


class Reversed:
    """A key that sorts the other way round."""

    def __init__(self, key: Any) -> None:
        self.key = key

    def __lt__(self, other: Reversed) -> bool:
        return bool(other.key < self.key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Reversed) and bool(other.key == self.key)

    def __hash__(self) -> int:
        return hash(self.key)


def random_top(pick: random.Random, fields: tuple[Field, ...]) -> TopRows:
    kinds = sorted({field.type.name for field in fields})
    kind = pick.choice(kinds)
    field = pick.choice([field for field in fields if field.type.name == kind])
    return TopRows(
        column=Column(field.id, (field.name,), field.type),
        count=pick.choice((1, 2, 3, 5, 9, 20, 50)),
        descending=pick.random() < 0.5,
        nulls_first=pick.random() < 0.5,
        has_more_keys=pick.random() < 0.5,
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
        check(result.rows, pair.expected(query), top, place)
        if options.get("top-n") == "false":
            assert len(result.rows) == len(pair.expected(query)), place


def check(found: list[tuple[Any, ...]], expected: list[tuple[Any, ...]], top: TopRows, place: str) -> None:
    """Compare what was returned with all rows, sorted; the first column is the key."""
    assert not Counter(found) - Counter(expected), f"{place}: rows that are none"
    ranks = sorted(rank(row[0], top) for row in expected)[: top.count]
    assert sorted(rank(row[0], top) for row in found)[: top.count] == ranks, place
    if top.has_more_keys and len(ranks) == top.count:
        needed = [row for row in expected if not ranks[-1] < rank(row[0], top)]
        assert not Counter(needed) - Counter(found), f"{place}: rows equal to the last are missing"
