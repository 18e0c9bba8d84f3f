"""Compiled deletes: the positions that equality deletes remove, kept and found again, never of anything else."""

from __future__ import annotations

import os
import random

import pytest

import oracle
from compiled_tables import kept, make, read
from core_scan import open_table, scan, with_options
from tables import Table
from twostage.deletes.cache.memory import CACHE
from twostage.deletes.compiled import store
from twostage.errors import OptionError
from twostage.maintenance import compile_deletes
from twostage.options import parse_options
from twostage.planning import splits
from twostage.predicates.predicate import Column, Compare

SEED = int(os.environ.get("TWOSTAGE_SEED", "1"))


pytestmark = pytest.mark.usefixtures("small_sets_are_compiled")


@pytest.fixture(params=["host", "dir", "both"])
def options(request, tmp_path):
    found = {"deletes.cache-dir": str(tmp_path / "cache")}
    if request.param != "host":
        found["deletes.compiled-dir"] = str(tmp_path / "compiled" / "here")
    if request.param == "dir":
        found["deletes.cache"] = "worker"
    return found


def k_is(value):
    def where(schema):
        field = schema.find(("k",))
        return Compare("=", Column(field.id, ("k",), field.type), value)

    return where


@pytest.mark.parametrize("two_stage", ["true", "false"])
def test_the_second_scan_opens_no_delete_file(tmp_path, options, two_stage):
    table = make(tmp_path / "t")
    table.write()
    options = {**options, "two-stage": two_stage}
    first = read(table, options)
    assert first["delete_compiled.written"] == 2
    assert first["rows.deleted.equality"] == 36
    for where in (None, k_is(5), k_is(1)):
        again = read(table, options, where)
        assert again["delete_files.opened"] == 0
        assert again["delete_compiled.hits"] == 2 or where is not None
    assert read(table, options)["rows.deleted.compiled"] == 36
    # In the same process, without a file.
    for path in kept(tmp_path, options):
        os.remove(path)
    assert read(table, options)["delete_compiled.hits"] == 0


def test_any_change_of_the_set_makes_it_unused(tmp_path, options):
    table = make(tmp_path / "t")
    table.write()
    read(table, options)
    table.delete_equal(["k"], [{"k": 7}])
    table.write()
    changed = read(table, options)
    assert changed["delete_compiled.hits"] == 0
    assert changed["delete_compiled.written"] == 2
    assert read(table, options)["delete_compiled.hits"] == 2
    table.append([{"id": 1000, "k": 7, "s": "new"}])
    table.write()
    assert read(table, options)["delete_compiled.hits"] == 2


def test_a_filtered_or_limited_scan_compiles_nothing(tmp_path, options):
    table = make(tmp_path / "t")
    table.write()
    assert read(table, options, k_is(5))["delete_compiled.written"] == 0
    opened = with_options(open_table(table.folder), options)
    CACHE.clear()
    assert scan(opened, limit=1).metrics.counters["delete_compiled.written"] == 0


@pytest.mark.parametrize("kind", ["positions", "vectors"])
def test_rows_that_positions_delete_were_not_asked_about(tmp_path, options, kind):
    """What is compiled without them serves beside the same positions; an older snapshot has these rows still."""
    table = Table(tmp_path / "t", {"id": "long", "k": "long"}, version=3 if kind == "vectors" else 2)
    file = table.append([{"id": i, "k": i % 5} for i in range(50)], row_group_size=3)
    table.delete_equal(["k"], [{"k": 3}])
    old = table.snapshots[-1].id
    delete = table.delete_vectors if kind == "vectors" else table.delete_positions
    delete({file: [3, 4, 5]})  # a row group, and a row that the keys delete
    table.write()
    assert read(table, options, k_is(3))["delete_compiled.written"] == 0
    assert read(table, options)["delete_compiled.written"] == 1
    again = read(table, options)
    assert again["delete_compiled.hits"] == 1
    assert again["rows.deleted.compiled"] == 9
    CACHE.clear()
    opened = with_options(open_table(table.folder, snapshot_id=str(old)), options)
    beside = scan(opened)
    assert len(beside.rows) == 40
    assert beside.metrics.counters["delete_compiled.hits"] == 0
    # What that scan compiled was asked about every row, and serves beside any positions.
    delete({file: [3, 4, 5, 9]})
    table.write()
    changed = read(table, options)
    assert changed["delete_compiled.hits"] == 1
    assert changed["rows.deleted.compiled"] == 9


def test_other_positions_make_what_was_compiled_beside_them_unused(tmp_path, options):
    table = Table(tmp_path / "t", {"id": "long", "k": "long"})
    file = table.append([{"id": i, "k": i % 5} for i in range(50)])
    table.delete_positions({file: [3, 4, 5]})
    table.delete_equal(["k"], [{"k": 3}])
    table.write()
    assert read(table, options)["delete_compiled.written"] == 1
    table.delete_positions({file: [6]})
    table.write()
    changed = read(table, options)
    assert (changed["delete_compiled.hits"], changed["delete_compiled.written"]) == (0, 1)
    assert read(table, options)["delete_compiled.hits"] == 1
    parsed = parse_options({"path": str(table.folder), **options})
    cleaned = compile_deletes.clean(parsed, {}, lambda *_: None)
    assert (cleaned.removed, cleaned.kept) == (0, len(kept(tmp_path, options)))


def test_deleted_rows_are_shown_marked(tmp_path, options):
    table = make(tmp_path / "t")
    table.write()
    read(table, options)
    CACHE.clear()
    opened = with_options(open_table(table.folder), options)
    from twostage.table.metadata_columns import scan_schema

    fields = [field for field in scan_schema(opened.table).fields if field.name in ("id", "_deleted")]
    rows = scan(opened, tuple(fields))
    assert len(rows.rows) == 120
    marked = [row for row in rows.rows if oracle.exact(True) in row]
    assert len(marked) == 36
    assert rows.metrics.counters["delete_compiled.hits"] == 2


def divisible(folder, monkeypatch):
    """Write a table whose one file a scan may cut into ranges; a fifth of its rows are deleted by key."""
    monkeypatch.setattr(splits, "MIN_RANGE_BYTES", 100)
    table = Table(folder, {"id": "long", "k": "long"})
    table.append([{"id": i, "k": i % 5} for i in range(100)], row_group_size=10)
    table.delete_equal(["k"], [{"k": 3}])
    table.write()
    return table


def test_parts_of_a_file_are_compiled_each(tmp_path, options, monkeypatch):
    table = divisible(tmp_path / "t", monkeypatch)
    parts = {**options, "split-size": "1", "parallelism": "4"}
    first = read(table, parts)
    assert first["delete_compiled.written"] >= 2
    again = read(table, parts)
    assert again["delete_compiled.hits"] == first["delete_compiled.written"]
    assert read(table, {**options, "split-size": "1g"})["delete_compiled.hits"] == 0


def test_few_keys_are_compiled_for_a_large_file(tmp_path, monkeypatch):
    """Spark's own reader does full scans once it is told which rows are deleted, however few."""
    monkeypatch.setattr(store, "MIN_KEYS_TO_KEEP", 10_000)
    table = make(tmp_path / "t", rows=60, deletes=1)
    table.append([{"id": i, "k": i % 20, "s": "s"} for i in range(61)], sequence_number=1)
    table.write()
    options = {"deletes.cache-dir": str(tmp_path / "cache")}
    assert read(table, options)["delete_compiled.written"] == 0
    monkeypatch.setattr(store, "MIN_ROWS_TO_KEEP", 61)
    assert read(table, options)["delete_compiled.written"] == 1
    assert read(table, options)["delete_compiled.hits"] == 1


def test_an_entry_of_the_whole_file_serves_its_parts(tmp_path, options, monkeypatch):
    """As compile-deletes makes them: a scan that cuts large files found none of them."""
    table = divisible(tmp_path / "t", monkeypatch)
    assert read(table, {**options, "split-size": "1g"})["delete_compiled.written"] == 1
    parts = read(table, {**options, "split-size": "1", "parallelism": "4"})
    assert parts["delete_compiled.hits"] >= 2
    assert parts["delete_files.opened"] == parts["delete_compiled.written"] == 0
    assert parts["rows.deleted.compiled"] == 20


def test_a_thousand_flipped_bits_are_never_wrong_rows(tmp_path, options):
    table = make(tmp_path / "t", rows=40)
    table.write()
    read(table, options)
    rng = random.Random(SEED)
    print("seed", SEED)
    ignored = flips = 0
    originals = {path: open(path, "rb").read() for path in kept(tmp_path, options)}
    assert originals
    for path, good in originals.items():
        for _ in range(-(-1000 // (3 * len(originals)))):
            bad = bytearray(good)
            place = rng.randrange(len(bad) * 8)
            bad[place // 8] ^= 1 << place % 8
            with open(path, "wb") as file:
                file.write(bad)
            found = read(table, options)
            ignored += found["delete_compiled.ignored"] + found["delete_cache.ignored"]
            flips += 1
            for other, content in originals.items():
                if not os.path.exists(other) or other == path:
                    with open(os.open(other, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
                        file.write(content)
    assert flips >= 333
    assert ignored > 0.5 * flips / len(originals)


@pytest.mark.parametrize("damage", ["empty", "cut", "other", "pickle"])
def test_damaged_and_foreign_files_are_ignored(tmp_path, damage):
    options = {"deletes.compiled-dir": str(tmp_path / "compiled"), "deletes.cache": "worker"}
    options["deletes.cache-dir"] = str(tmp_path / "unused")
    table = make(tmp_path / "t")
    table.write()
    read(table, options)
    first, second = kept(tmp_path, options)
    good = open(first, "rb").read()
    bad = {"empty": b"", "cut": good[:-70], "other": open(second, "rb").read()}.get(damage, b"\x80\x05N.")
    with open(first, "wb") as file:
        file.write(bad)
    found = read(table, options)
    assert found["delete_compiled.ignored"] == 1
    assert found["delete_compiled.hits"] == 1
    assert read(table, options)["delete_compiled.hits"] == 2  # written again


@pytest.mark.parametrize("place", ["", "data", "data/compiled", ".."])
def test_a_place_inside_the_table_is_refused(tmp_path, place):
    table = make(tmp_path / "t" / "u")
    table.write()
    inside = tmp_path / "t" / "u" / place
    with pytest.raises(OptionError, match="inside the table's location"):
        read(table, {"deletes.compiled-dir": str(inside)})


def test_file_names_tell_nothing(tmp_path, options):
    table = make(tmp_path / "canary-4711")
    table.write()
    read(table, options)
    paths = list(kept(tmp_path, options))
    assert paths
    for path in paths:
        name = os.path.basename(path)
        kind, *digests = name.removesuffix(".twostage").split("-")
        assert kind in ("keys", "positions")
        assert all(len(one) == 24 and int(one, 16) >= 0 for one in digests)
        assert b"canary-4711" not in open(path, "rb").read()
