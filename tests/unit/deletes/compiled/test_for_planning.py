"""Compiled deletes read while planning: all of a scan's or a reason, many requests at a time where they are remote."""

from __future__ import annotations

import threading
import time

import pytest

import oracle
from core_scan import open_table, with_options
from tables import Table
from twostage.deletes.cache.memory import CACHE
from twostage.deletes.compiled import for_planning, store
from twostage.deletes.compiled.for_planning import read_compiled
from twostage.errors import StorageError
from twostage.handover import eligibility
from twostage.maintenance import compile_deletes
from twostage.metrics import Metrics
from twostage.options import parse_options
from twostage.planning.plan import plan_scan
from twostage.predicates.predicate import TRUE

FILES = 12


@pytest.fixture
def table(tmp_path):
    made = Table(tmp_path / "t", {"id": "long", "k": "long"})
    for number in range(FILES):
        made.append([{"id": 100 * number + i, "k": (number + i) % 10} for i in range(50)])
    made.delete_equal(["k"], [{"k": 3}, {"k": 4}])
    made.append([{"id": 9000, "k": 3}])
    made.write()
    options = {"deletes.cache": "worker", "deletes.compiled-dir": str(tmp_path / "compiled")}
    parsed = parse_options({"path": str(made.folder), **options})
    list(compile_deletes.compile_files(compile_deletes.plan_compiling(parsed, {})))
    return with_options(open_table(made.folder), options), made


@pytest.fixture
def requests(monkeypatch):
    """Make the chosen folder remote; count the requests, and how many wait at the same time."""
    seen = {"requests": 0, "waiting": 0, "most": 0}
    lock = threading.Lock()
    read = store.FolderStore.read

    def slow(self, name, limit=None):
        with lock:
            seen["requests"] += 1
            seen["waiting"] += 1
            seen["most"] = max(seen["most"], seen["waiting"])
            turns = 0 if seen["requests"] == 1 else 3_000  # the first one is asked alone
        while seen["most"] < 2 and turns:
            time.sleep(0.01)
            turns -= 1
        try:
            return read(self, name, limit)
        finally:
            with lock:
                seen["waiting"] -= 1

    monkeypatch.setattr(store.FolderStore, "read", slow)
    monkeypatch.setattr(store.FolderStore, "is_remote", property(lambda _: True))
    CACHE.clear()
    return seen


def ask(opened):
    metrics = Metrics()
    plan = plan_scan(opened.table, opened.options, projection=opened.table.schema.fields, predicate=TRUE, hint=TRUE,
                     limit=None, parallelism=2, scan_id="x")  # fmt: skip
    return plan, read_compiled(plan.context, eligibility.ranges_of(plan), metrics), metrics


def test_remote_entries_are_read_many_at_a_time(table, requests):
    opened, made = table
    plan, found, metrics = ask(opened)
    gone = sum(task.record_count for task in eligibility.files_of(plan)) - len(
        list(oracle.live_rows(made.content()))
    )
    assert sum(positions.count for positions in found) == gone == 10 * FILES
    for task, positions in zip(eligibility.files_of(plan), found, strict=True):
        assert bool(positions) == bool(task.deletes)
    assert metrics.counters["delete_compiled.hits"] == FILES
    assert requests["requests"] == FILES
    assert 1 < requests["most"] <= 8
    ask(opened)
    assert requests["requests"] == FILES  # the second time they are in memory


def test_one_request_tells_that_nothing_was_compiled(table, requests):
    opened, made = table
    made.delete_equal(["k"], [{"k": 9}])
    made.write()
    changed = with_options(open_table(made.folder), {"deletes.cache": "worker",
                           "deletes.compiled-dir": opened.options.settings.compiled_dir})  # fmt: skip
    _, found, metrics = ask(changed)
    assert found.startswith(f"{FILES} of {FILES + 1} files have equality deletes, not compiled: file-")
    assert requests["requests"] == 1
    assert "delete_compiled.hits" not in metrics.counters


def test_a_store_that_fails(table, requests, monkeypatch):
    def refuse(*_, **__):
        raise StorageError("ACCESS_DENIED", "No access", stage="storage")

    monkeypatch.setattr(store.files, "read_all", refuse)
    _, found, _ = ask(table[0])
    assert (
        f"{FILES} of {FILES + 1} files have equality deletes, whose compiled ones are damaged or unreadable"
        in found
    )
    assert requests["requests"] == 1


def test_more_lookups_than_are_worth_it(table, requests, monkeypatch):
    """The limit depends on the scan alone, so that two runs of a query use the same reader, whatever memory holds."""
    opened, _ = table
    monkeypatch.setattr(for_planning, "MAX_REMOTE_LOOKUPS", FILES - 1)
    said = f"and finding compiled ones takes more than {FILES - 1} lookups"
    for _ in range(2):
        assert ask(opened)[1].endswith(said)
        assert (
            requests["requests"] == 1
        )  # one tells whether anything was compiled; that the others are too many is known
    monkeypatch.setattr(for_planning, "MAX_REMOTE_LOOKUPS", FILES)
    assert len(ask(opened)[1]) == FILES + 1
    monkeypatch.setattr(for_planning, "MAX_REMOTE_LOOKUPS", FILES - 1)
    assert ask(opened)[1].endswith(said)  # also when all are in memory


def test_how_fast_entries_are_read_decides_nothing(table, requests, monkeypatch):
    for clock in ("monotonic", "perf_counter", "time"):
        monkeypatch.setattr(time, clock, iter(range(0, 10**9, 1_000)).__next__)
    assert len(ask(table[0])[1]) == FILES + 1
