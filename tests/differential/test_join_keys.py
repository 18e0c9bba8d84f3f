"""Random tables, filters and keys of joins, metadata columns among them, with and without indexes and kept conditions.

The keys come as sets, tuples, lists and ranges, as conjuncts or inside ORs and NOTs. Rows without the keys may come only where
the keys are said to be a join's, and were given up. ``TWOSTAGE_SEED`` sets the first seed.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from keyed_filters import METADATA, conjuncts

import oracle
from core_scan import open_table, with_options
from drawn_keys import DrawnKeys
from figures import FULL
from indexed_tables import built, everything_pays
from marked_rows import DELETED, marked_rows, metadata_of
from random_queries import _Maker
from random_tables import random_table
from twostage.deletes.cache.memory import CACHE
from twostage.indexes.file_keys import FILES
from twostage.indexes.keys import key_class
from twostage.indexes.kinds.registered import KINDS
from twostage.metrics import Metrics
from twostage.planning.plan import plan_scan
from twostage.predicates import predicate as tree
from twostage.reading import filter as row_filter
from twostage.reading.conditions import kept
from twostage.reading.conditions.kept import KEPT
from twostage.reading.pipeline import read_group
from twostage.schema import Schema, Struct
from twostage.table.metadata_columns import scan_schema

if TYPE_CHECKING:
    from collections.abc import Iterator

    from core_scan import Opened

SEED = int(os.environ.get("TWOSTAGE_SEED", "1"))
TABLES = 400 if FULL else 12
QUERIES = 8
CONFIGURATIONS: tuple[dict[str, str], ...] = (
    {},
    {"prune.files": "false"},
    {"prune.files": "false", "filter.cache": "memory"},
    {"prune.row-groups": "false"},
    {"filter.cache": "memory"},
    {"index": "off", "deletes.stream": "always"},
    {"read.pages": "always", "read.few-rows": "always", "batch-size": "7"},
    {"filter.kernels": "false", "filter.dictionary": "false", "filter.reorder": "false"},
    {"filter.normalize": "cnf"},
    {"filter.normalize": "dnf", "prune.files": "false"},
    {"two-stage": "false"},
    {"split-size": "600", "parallelism": "7"},
)


@pytest.fixture(autouse=True)
def _everything_pays(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(kept.ConditionAnswer, "is_worth_keeping", True)
    monkeypatch.setattr(kept, "MIN_BYTES_SAVED_FOR_A_FILE", 0)
    KEPT.clear()
    CACHE.clear()
    with everything_pays():
        yield


@pytest.fixture(scope="module")
def seen() -> Iterator[Counter[str]]:
    """What the scans of the run met; at its end, everything must have been at work."""
    found = Counter[str]()
    yield found
    print(f"\nkeys of joins, seed {SEED}: {dict(sorted(found.items()))}")
    if found["tables"] >= 12:
        often = ("InKeys", "InTuples", "In", "rows", "decided", "indexes.used", "metadata")
        for name in (*often, "given up") if found["tables"] >= 100 else often:
            assert found[name] > 0, (name, found)


@pytest.mark.parametrize("seed", range(SEED, SEED + TABLES))
def test_rows_with_the_keys(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seen: Counter[str]
) -> None:
    pick = random.Random(f"keys {seed}")
    table, pools = random_table(seed, tmp_path)
    newest = max(
        tmp_path.glob("metadata/v*.metadata.json"), key=lambda path: int(path.name[1:].split(".")[0])
    )
    rows = marked_rows(table.content(), metadata_of(newest))
    live = [row for row in rows if not row[DELETED]]
    opened = open_table(tmp_path)
    fields = scan_schema(opened.table).fields if pick.random() < 0.6 else opened.table.schema.fields
    schema = Schema(schema_id=0, fields=tuple(field for field in fields if field.type != Struct(())))
    known = {i: sorted({row[i] for row in rows} - {None}) or [7] for i in METADATA}
    if pick.random() < 0.6:
        index(opened, pick)
    for number in range(QUERIES):
        maker = _Maker(random.Random(f"{seed} {number}"), schema, {**pools, **known}, live)
        keys = DrawnKeys(pick, maker.columns, live)
        own, joined = conjuncts(maker, keys, pick)
        predicate, projection = tree.both(*own, *joined), maker.projection()
        optional = tree.conjuncts(tree.both(*joined)) if pick.random() < 0.5 else ()
        required = tree.both(*(part for part in tree.conjuncts(predicate) if part not in optional))
        used = {column.field_id for column in tree.columns(predicate)} | {field.id for field in projection}
        for options in pick.sample(CONFIGURATIONS, 3):
            gives_up = pick.random() < 0.3
            monkeypatch.setattr(row_filter, "MIN_ROWS_TO_GIVE_UP", 10 if gives_up else 100_000)
            found, metrics = read(with_options(opened, options), projection, predicate, optional)
            place = f"TWOSTAGE_SEED={seed} query {number} {options} {gives_up}: {required} JOIN {optional}"
            base = rows if DELETED in used else live
            wanted = [row for row in base if keys.evaluate(predicate, row) is True]
            allowed = [row for row in base if keys.evaluate(required, row) is True] if gives_up else wanted
            expected, most = (
                Counter(oracle.project(row, projection) for row in of) for of in (wanted, allowed)
            )
            assert not expected - found, place
            assert not found - most, place
            seen.update(type(leaf).__name__ for leaf in tree.leaves(predicate))
            seen["rows"] += bool(expected)
            seen["metadata"] += bool(used & set(METADATA))
            seen["given up"] += any("given up" in choice for choice in metrics.choices)
            seen["decided"] += row_filter.DECIDED in metrics.choices
            seen["indexes.used"] += metrics.counters["indexes.used"]
    seen["tables"] += 1


def index(opened: Opened, pick: random.Random) -> None:
    """Index most columns, each by some kinds."""
    for field in opened.table.schema.fields:
        if key_class(field.type) is not None and pick.random() < 0.8:
            fitting = [name for name, kind in KINDS.items() if kind.refuses(field.type) is None]
            chosen = pick.sample(fitting, pick.randint(1, len(fitting)))
            built(opened, [field.name], ",".join([*chosen, *([FILES] if pick.random() < 0.5 else [])]))


def read(
    opened: Opened, projection: Any, predicate: tree.Predicate, keys: tuple[tree.Predicate, ...]
) -> tuple[Counter[Any], Metrics]:
    """Return the rows of a scan, each as often as it came, and what was counted."""
    plan = plan_scan(
        opened.table, opened.options, projection=projection, predicate=predicate, hint=tree.TRUE, limit=None,
        parallelism=2, scan_id="test", keys=keys,
    )  # fmt: skip
    metrics = Metrics()
    batches = (batch for group in plan.groups for batch in read_group(group, metrics))
    return Counter(row for batch in batches for row in oracle.batch_rows(batch)), metrics
