"""A read while the table changes gives one committed snapshot's rows, or says that its files are gone. Never a mix."""

from __future__ import annotations

import os
import pickle
import random
from collections import Counter

import pytest
from changing import KINDS, ChangingTable, IndexKeeper, before_opening, says_what_happened
from interrupted_reads import plan_all, read

import oracle
from check import Columns
from core_scan import open_table
from figures import FULL, record
from indexed_tables import everything_pays
from twostage.errors import MissingFileError
from twostage.metrics import Metrics
from twostage.predicates.predicate import TRUE, Compare, In
from twostage.reading.pipeline import read_group

SEED = int(os.environ.get("TWOSTAGE_SEED", "1"))
LOOPS = 400 if FULL else 14
INDEXED_LOOPS = 200 if FULL else 10


def test_every_read_is_of_one_snapshot(tmp_path, monkeypatch):
    """The writer commits before every file that the reader opens, and between its tasks and batches."""
    outcomes, kinds = Counter(), Counter()
    for loop in range(LOOPS):
        seed = SEED * 1_000_003 + loop
        draw = random.Random(seed)
        changing = ChangingTable(tmp_path / str(loop), draw)
        often = draw.choice((0.1, 0.3, 0.6))

        def change(draw=draw, changing=changing, often=often):
            if draw.random() < often and len(changing.made) < 25:
                changing.change()

        with before_opening(monkeypatch, change):
            options = {"split-size": "1k"} if draw.random() < 0.5 else {}
            if draw.random() < 0.3:
                options["two-stage"] = "false"
            opened = open_table(changing.folder, **options)
            predicate = changing.predicate(opened.table)
            try:
                rows = read(opened, predicate, change)
            except MissingFileError as error:
                snapshot = opened.table.snapshot
                assert says_what_happened(error, snapshot and snapshot.snapshot_id), f"seed {seed}: {error}"
                assert "expire" in changing.made, f"seed {seed}"
                outcomes["missing"] += 1
            else:
                expected = changing.expected(opened.table, predicate)
                assert not (problem := oracle.difference(rows, expected)), f"seed {seed}: {problem}"
                current = changing.current.snapshot_id
                pinned = opened.table.snapshot and opened.table.snapshot.snapshot_id
                outcomes["older" if pinned != current else "current"] += 1
        kinds.update(changing.made)
    print(f"{LOOPS} loops from seed {SEED}: {dict(outcomes)}, changes {dict(kinds)}")
    record("R12", loops=LOOPS, mixed=0, **outcomes)
    assert outcomes["older"] >= LOOPS // 4, f"the tables hardly changed: {outcomes}"
    assert outcomes["missing"] >= 1, outcomes
    assert set(kinds) >= set(KINDS) - ({"drop", "rename"} if LOOPS < 100 else set()), kinds


def test_reads_beside_index_refresh_and_clean(tmp_path, monkeypatch):
    """Indexes are made, extended and cleaned, and the table is changed, before every file that anyone opens."""
    outcomes, done = Counter(), Counter()
    for loop in range(INDEXED_LOOPS):
        seed = SEED * 1_000_003 + 500_000 + loop
        draw = random.Random(seed)
        changing = ChangingTable(tmp_path / str(loop), draw, metrics="none")
        keeper = IndexKeeper(changing)
        keeper.act()

        def turn(draw=draw, changing=changing, keeper=keeper):
            chance = draw.random()
            if chance < 0.05 and len(changing.made) < 25:
                changing.change()
            elif chance > 0.8 and keeper.done.total() < 12:
                keeper.act()

        with everything_pays(), before_opening(monkeypatch, turn):
            opened = open_table(changing.folder, **({"split_size": "1k"} if draw.random() < 0.5 else {}))
            column, number = Columns(opened.table.schema)("id"), draw.randrange(60)
            predicate = draw.choice((Compare("=", column, number), In(column, (number, number + 3, 10**6))))
            metrics = Metrics()
            try:
                rows = read(opened, predicate, turn, metrics)
            except MissingFileError as error:
                snapshot = opened.table.snapshot
                assert says_what_happened(error, snapshot and snapshot.snapshot_id), f"seed {seed}: {error}"
                outcomes["missing"] += 1
            else:
                expected = changing.expected(opened.table, predicate)
                assert not (problem := oracle.difference(rows, expected)), f"seed {seed}: {problem}"
                outcomes["read"] += 1
            for name in ("indexes.used", "files.pruned.index", "indexes.ignored"):
                outcomes[name] += metrics.counters[name]
        done.update(keeper.done)
    print(f"{INDEXED_LOOPS} indexed loops from seed {SEED}: {dict(outcomes)}, {dict(done)}")
    record("R12", indexed_loops=INDEXED_LOOPS, indexed_mixed=0, indexes_kept=done.total())
    assert outcomes["indexes.used"] >= 1, outcomes
    assert outcomes["files.pruned.index"] >= 1, outcomes
    assert outcomes["read"] >= INDEXED_LOOPS // 2, outcomes
    assert min(done[verb] for verb in ("create", "refresh", "clean")) >= 2, done


@pytest.mark.parametrize("when", ["before planning", "while planning", "before reading", "between tasks"])
def test_an_expired_snapshot_is_named(when, tmp_path, monkeypatch):
    changing = ChangingTable(tmp_path / "t", random.Random(7))
    opened = open_table(changing.folder, split_size="1k")
    snapshot = opened.table.snapshot
    moments = {"before planning": 0, "while planning": 1, "before reading": -1, "between tasks": -2}
    calls = []

    def expire():
        changing.change("rewrite")
        changing.change("expire")

    def count():
        calls.append(1)
        if len(calls) - 1 == moments[when]:
            expire()

    with pytest.raises(MissingFileError) as caught, before_opening(monkeypatch, count):
        plan = plan_all(opened, TRUE)
        assert len(plan.groups) > 1
        for number, group in enumerate(plan.groups):
            if number == (1 if when == "between tasks" else 0) and moments[when] < 0:
                expire()
            list(read_group(group, Metrics()))
    assert says_what_happened(caught.value, snapshot.snapshot_id), str(caught.value)
    assert caught.value.snapshot_id == snapshot.snapshot_id
    assert says_what_happened(pickle.loads(pickle.dumps(caught.value)), snapshot.snapshot_id)
    again = open_table(changing.folder)
    assert again.table.snapshot.snapshot_id == changing.current.snapshot_id
