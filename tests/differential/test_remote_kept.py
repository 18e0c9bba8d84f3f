"""Random tables in an object store with indexes and compiled deletes in the bucket: with all of it, and with each thing off.

Queries of one snapshot or two have filters, keys of joins, metadata columns, limits and orders; some of what is kept lacks or is
damaged, some requests fail, and some of it goes while it is read.
The rows are those of brute force: without the keys only where these are said to be a join's, and were given up. ``TWOSTAGE_SEED`` sets
the first seed, ``TWOSTAGE_REMOTE_TABLES`` the number of tables (4, with TWOSTAGE_FULL=1 300).
"""

from __future__ import annotations

import os
import random
from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pytest
from keyed_filters import METADATA, conjuncts
from ordered_limits import check_top, random_top
from remote_tables import RemoteTable, View

import oracle
from drawn_keys import DrawnKeys
from figures import FULL
from indexed_tables import everything_pays
from late_store import Fault, LateStore, serve_late
from marked_rows import DELETED
from random_queries import _Maker
from remote_scans import forget_files
from twostage.deletes.anti_join import host_key_sets
from twostage.deletes.compiled import store as compiled_store
from twostage.indexes import of_scan, open_index
from twostage.metrics import Metrics
from twostage.planning import index_threshold
from twostage.planning.plan import plan_scan
from twostage.predicates import predicate as tree
from twostage.predicates.top import TYPES
from twostage.reading import filter as row_filter
from twostage.reading.conditions import kept
from twostage.reading.conditions.kept import KEPT
from twostage.reading.pipeline import read_group

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from twostage.predicates.top import TopRows
    from twostage.schema import Field

SEED = int(os.environ.get("TWOSTAGE_SEED", "1"))
TABLES = int(os.environ.get("TWOSTAGE_REMOTE_TABLES", "300" if FULL else "4"))
QUERIES = 4
OFF: dict[str, str] = {
    **dict.fromkeys(("prune.files", "prune.row-groups", "prune.pages", "prune.dictionary"), "false"),
    **dict.fromkeys(("prune.bloom", "prune.deletes", "two-stage", "filter.kernels"), "false"),
    **dict.fromkeys(("filter.dictionary", "filter.reorder", "verify-checksums", "deletes.dense"), "false"),
    **dict.fromkeys(("deletes.simplify", "deletes.compile", "io.prefetch", "top-n"), "false"),
    "deletes.cache": "worker",
    "deletes.compiled-dir": "",
    "deletes.stream": "never",
    "dynamic-filter.min-dropped": "0",
    "filter.cache": "off",
    "footers.cache": "worker",
    "index": "off",
    "io.files-ahead": "0",
    "io.manifest.cache-enabled": "false",
    "io.parallel-requests": "1",
    "object-store-client": "arrow",
    "read.few-rows": "never",
    "read.pages": "never",
}
"""Each optimisation's option with what turns it off; empty: the option is left out."""
DRAWN: dict[str, tuple[str, ...]] = {
    "batch-size": ("", "", "3", "7"),
    "deletes.stream": ("auto", "auto", "always"),
    "filter.cache": ("memory", "host", "off"),
    "filter.normalize": ("none", "none", "cnf", "dnf"),
    "io.files-ahead": ("auto", "auto", "1", "3", "0"),
    "io.merge-gap": ("", "", "1"),
    "parallelism": ("1", "2", "7"),
    "read.few-rows": ("auto", "always"),
    "read.pages": ("auto", "always"),
    "split-size": ("", "", "600"),
    "task-memory": ("", "", "40k", "200k"),
}
"""What a table's queries have, when nothing is off."""
KEPT_OBJECTS = r"indexes/|compiled"
"""Of the bucket's objects, those that no scan needs."""
AT_WORK = (
    *(
        "InKeys",
        "InTuples",
        "rows",
        "metadata",
        "decided",
        "limits",
        "tops",
        "switches",
        "files ahead",
        "faults",
    ),
    *("indexes.used", "delete_compiled.hits", "delete_compiled.written", "rows.deleted.compiled"),
    *("rows.deleted.equality", "rows.deleted.position", "rows.deleted.vector", "delete_cache.hits"),
    *("footer_cache.hits", "conditions.known"),
)
"""Must all have occurred after some tables."""


@pytest.fixture(autouse=True)
def _everything_pays(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(compiled_store, "MIN_KEYS_TO_KEEP", 1)
    monkeypatch.setattr(host_key_sets, "MIN_KEYS_TO_SHARE", 1)
    monkeypatch.setattr(index_threshold, "MIN_ROWS_TO_PROBE", 0)
    monkeypatch.setattr(kept, "MIN_BYTES_SAVED_FOR_A_FILE", 0)
    monkeypatch.setattr(kept.ConditionAnswer, "is_worth_keeping", True)
    monkeypatch.setattr(open_index, "MIN_REMOTE_BYTES", 0)
    forget()
    with everything_pays():
        yield
    forget()


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LateStore]:
    with serve_late(tmp_path_factory.mktemp("lake")) as late:
        yield late


@pytest.fixture(scope="module")
def seen() -> Iterator[Counter[str]]:
    """What the scans of the run met; at its end, everything must have been at work."""
    found = Counter[str]()
    yield found
    print(f"\nremote tables, seed {SEED}: {dict(sorted(found.items()))}")
    if found["tables"] >= 20:
        for name in (*AT_WORK, *(("given up", "files.pruned.index") if found["tables"] >= 100 else ())):
            assert found[name] > 0, (name, found)


def forget() -> None:
    """Be a worker that knows nothing."""
    forget_files()
    KEPT.clear()
    of_scan._empty.clear()


@dataclass(frozen=True, kw_only=True)
class Question:
    """A query of a table.

    Attributes:
        optional: Conjuncts that are keys of a join, which may be given up.
    """

    projection: tuple[Field, ...]
    predicate: tree.Predicate
    optional: tuple[tree.Predicate, ...] = ()
    limit: int | None = None
    top: TopRows | None = None

    @property
    def required(self) -> tree.Predicate:
        """What each row must meet."""
        return tree.both(*(part for part in tree.conjuncts(self.predicate) if part not in self.optional))

    @property
    def used(self) -> set[int]:
        """The columns that are read."""
        return {column.field_id for column in tree.columns(self.predicate)} | {f.id for f in self.projection}


def everything_of(view: View) -> Question:
    """Return the query for all rows."""
    return Question(projection=view.table.schema.fields, predicate=tree.TRUE)


def random_question(table: RemoteTable, view: View, number: int) -> tuple[Question, DrawnKeys]:
    """Draw a query, and what knows its keys."""
    pick = table.pick
    known = {i: sorted({row[i] for row in view.rows} - {None}) or [7] for i in METADATA}
    maker = _Maker(random.Random(f"{table.name} {number}"), view.schema, {**table.pools, **known}, view.live)
    keys = DrawnKeys(pick, maker.columns, view.live)
    if number and pick.random() < 0.2:
        return everything_of(view), keys
    own, joined = conjuncts(maker, keys, pick)
    found = Question(projection=maker.projection(), predicate=tree.both(*own, *joined))
    kind = pick.choice(("keys", "keys", "rows", "limit", "top"))
    if kind == "keys":
        found = replace(found, optional=tree.conjuncts(tree.both(*joined)))
    elif kind == "limit":
        found = replace(found, limit=pick.choice((1, 3, 12, 40)))
    elif kind == "top":
        sortable = tuple(f for f in view.table.schema.fields if getattr(f.type, "name", "") in TYPES)
        top = random_top(pick, sortable)
        key = view.table.schema.field(top.column.field_id)
        others = tuple(field for field in found.projection if field.id != key.id)
        found = replace(found, top=top, projection=(key, *others))
    return found, keys


def answer(
    view: View, question: Question, options: dict[str, str], scan_id: str
) -> tuple[Counter[Any], Metrics]:
    """Return the rows of a scan, each as often as it came, and what was counted."""
    opened = view.opened({key: value for key, value in options.items() if value})
    plan = plan_scan(
        opened.table, opened.options, projection=question.projection, predicate=question.predicate,
        hint=tree.TRUE, limit=question.limit, parallelism=2, scan_id=scan_id,
        top=question.top, keys=question.optional,
    )  # fmt: skip
    metrics = Metrics()
    metrics.counters.update(plan.counters)
    batches = (batch for group in plan.groups for batch in read_group(group, metrics))
    return Counter(row for batch in batches for row in oracle.batch_rows(batch)), metrics


def check(
    view: View, question: Question, keys: DrawnKeys, found: Counter[Any], gives_up: bool, place: str
) -> int:
    """Compare rows with those of brute force; return how many there are of these."""
    base = view.rows if DELETED in question.used else view.live
    wanted = [row for row in base if keys.evaluate(question.predicate, row) is True]
    expected = Counter(oracle.project(row, question.projection) for row in wanted)
    if question.top is not None:
        check_top(list(found.elements()), list(expected.elements()), question.top, place)
        return len(wanted)
    most = expected
    if gives_up:
        most = Counter(
            oracle.project(row, question.projection)
            for row in base
            if keys.evaluate(question.required, row) is True
        )
    extra = found - most
    assert not extra, f"{place}: {extra.total()} rows that do not match: {list(extra)[:3]}"
    if question.limit is not None:
        assert found.total() >= min(question.limit, len(wanted)), place
        return len(wanted)
    missing = expected - found
    assert not missing, f"{place}: {missing.total()} rows missing: {list(missing)[:3]}"
    return len(wanted)


def random_faults(pick: random.Random) -> list[Fault]:
    """Draw what goes wrong while a table is queried: requests that are repeated, and what is kept, which no scan needs.

    That is refused, gone or another object by the time that more of it is read, or may not be written.
    """
    if pick.random() < 0.5:
        return []
    again = [
        Fault(kind, path=r"t\d+/data|indexes/|compiled", after=pick.randint(0, 40))
        for kind in pick.sample(("reset", "short", "500"), pick.randint(0, 2))
    ]
    lost = [
        Fault(kind, path=KEPT_OBJECTS, after=pick.randint(0, 60), times=pick.randint(1, 20), body=changed)
        for kind in pick.sample(("403", "404", "replaced"), pick.randint(0, 2))
    ]
    refused = Fault("403", path="compiled", method="PUT", after=pick.randint(0, 3), times=pick.randint(1, 9))
    return [*again, *lost, *([refused] if pick.random() < 0.5 else [])]


def changed(data: bytes) -> bytes:
    """Return the bytes of another object of the same size: what a writer of other versions left."""
    return bytes(255 - byte if place % 7 == 3 else byte for place, byte in enumerate(data))


@pytest.mark.parametrize("seed", range(SEED, SEED + TABLES))
def test_rows_are_those_of_brute_force_whatever_is_kept_or_off(
    seed: int, tmp_path: Path, store: LateStore, monkeypatch: pytest.MonkeyPatch, seen: Counter[str]
) -> None:
    """The first query is asked with each optimisation off, one at a time, and the others with some."""
    store.faults = []
    table = RemoteTable(seed, store, tmp_path)
    pick = table.pick
    base = {**table.kept, **{name: pick.choice(values) for name, values in DRAWN.items()}}
    store.faults = random_faults(pick)
    for number in range(QUERIES):
        view = table.views[0] if number == 0 else pick.choice(table.views)
        question, keys = random_question(table, view, number)
        switches = list(OFF) if number == 0 else pick.sample(list(OFF), 3)
        for switch in (None, *switches, None):
            options = base if switch is None else {**base, switch: OFF[switch]}
            gives_up = bool(question.optional) and pick.random() < 0.3
            monkeypatch.setattr(row_filter, "MIN_ROWS_TO_GIVE_UP", 10 if gives_up else 100_000)
            if pick.random() < 0.4:
                forget()
            store.log.clear()
            place = (
                f"TWOSTAGE_SEED={seed} {table.states} {view.given.get('snapshot-id', 'newest')} query {number} off {switch} {options}: {question.required} "
                f"JOIN {question.optional} LIMIT {question.limit} TOP {question.top}"
            )
            try:
                found, metrics = answer(view, question, options, f"scan {seen['scans']}")
            except Exception as error:
                error.add_note(place)
                raise
            rows = check(view, question, keys, found, gives_up, place)
            note(seen, question, metrics, rows)
            seen["switches"] += switch is not None
            seen["files ahead"] += store.most_at_once > 2
    seen["faults"] += sum(fault.fired for fault in store.faults)
    store.faults = []
    seen["tables"] += 1
    for view in table.views:
        check_mended(table, view, seen)
    table.remove()


def note(seen: Counter[str], question: Question, metrics: Metrics, rows: int) -> None:
    """Count what a scan met."""
    seen.update(type(leaf).__name__ for leaf in tree.leaves(question.predicate))
    seen.update({name: count for name, count in metrics.counters.items() if name in AT_WORK})
    seen.update(
        {
            name: metrics.counters[name]
            for name in ("files.pruned.index", "indexes.ignored", "delete_compiled.ignored")
        }
    )
    seen["scans"] += 1
    seen["rows"] += bool(rows)
    seen["limits"] += question.limit is not None
    seen["tops"] += question.top is not None
    seen["metadata"] += bool(question.used & set(METADATA))
    seen["given up"] += any("given up" in choice for choice in metrics.choices)
    seen["decided"] += row_filter.DECIDED in metrics.choices


def check_mended(table: RemoteTable, view: View, seen: Counter[str]) -> None:
    """After the command, every data file with equality deletes has an entry that is whole, and no delete file is opened."""
    made = view.compile_deletes(table.kept)
    forget()
    everything = everything_of(view)
    options = {**table.kept, "deletes.compile": "false", "deletes.cache": "worker"}
    found, metrics = answer(view, everything, options, f"last {seen['tables']} {id(view)}")
    assert found == Counter(oracle.project(row, everything.projection) for row in view.live), table.name
    counters = metrics.counters
    assert counters["delete_compiled.ignored"] == counters["rows.deleted.equality"] == 0, table.name
    seen["compiled"] += made.counters["delete_compiled.made"]
