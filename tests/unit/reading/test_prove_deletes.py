"""Rows whose fate the pages of key columns prove: with the switches on and off the rows are brute force's."""

from __future__ import annotations

import math
import random
from collections import Counter
from decimal import Decimal

import pytest

import oracle
from core_scan import open_table, scan, with_options
from reading_log import named, watch
from tables import FileOptions, Table
from twostage.data_files import parquet_footers
from twostage.deletes.anti_join import host_key_sets
from twostage.deletes.cache.memory import CACHE
from twostage.deletes.compiled import store
from twostage.formats.parquet import page_tables
from twostage.predicates.predicate import TRUE, Column as Named, Compare, In

KINDS = ("int", "long", "string", "double", "float", "date", "timestamp", "decimal(9,2)", "binary", "boolean")
WIDER = {"int": "long", "float": "double", "decimal(9,2)": "decimal(20,2)"}


@pytest.fixture(autouse=True)
def _forget(monkeypatch):
    monkeypatch.setattr(store, "MIN_KEYS_TO_KEEP", 1)
    monkeypatch.setattr(host_key_sets, "MIN_KEYS_TO_SHARE", 1)
    for one in (CACHE, parquet_footers._footers, parquet_footers._tails, page_tables._tables):
        one.clear()
    yield
    CACHE.clear()


def value(kind, number):
    """A value of a type that is greater for a greater number, mostly."""
    match kind:
        case "string":
            return "x" * 70 + f"{number:06}" if number % 50 else ""
        case "binary":
            return b"\xff" * (number % 3) + number.to_bytes(4, "big")
        case "double" | "float":
            return {0: 0.0, 1: -0.0, 2: math.nan}.get(number % 97, number / 4)
        case "boolean":
            return number % 200 > 100
        case "decimal(9,2)":
            return Decimal(number) / 100
        case "date":
            return number % 20_000
    return number


def make(folder, rng):
    """Make a table of a few data files with small pages, some sorted by a key, and clustered or scattered deletes."""
    kinds = rng.sample(KINDS, 3)
    is_plain = rng.random() < 0.4  # numbers in order, of which whole pages are deleted
    if is_plain:
        kinds[0] = rng.choice(["int", "long", "date", "timestamp"])
    table = Table(folder, {"id": "long", "a": kinds[0], "b": kinds[1], "c": kinds[2]})
    names = ["id", "a", "b", "c"]
    size = 400
    repeats = 200 if is_plain else rng.choice([1, 1, 20])
    nulls = rng.choice([0.0, 0.0, 0.05])

    def row(number):
        low = {"id": number}
        for name, kind in zip(names[1:], kinds, strict=True):
            low[name] = None if rng.random() < nulls else value(kind, number // repeats * repeats)
        return low

    def append(start):
        numbers = list(range(start, start + size))
        if rng.random() < 0.3 and not is_plain:
            rng.shuffle(numbers)
        options = FileOptions(
            page_index=rng.random() < 0.9,
            page_size=rng.choice([64, 256]),
            row_group_size=rng.choice([150, 1000]),
            dictionary=rng.random() < 0.5,
        )
        table.append([row(number) for number in numbers], options)

    for start in range(0, 2 * size, size):
        append(start)
    widened = rng.choice(
        [name for name, kind in zip(names[1:], kinds, strict=True) if kind in WIDER] or [None]
    )
    if widened is not None and rng.random() < 0.5:
        table.widen_column(widened, WIDER[kinds[names.index(widened) - 1]])
    for _ in range(rng.randint(1, 3)):
        keys = rng.choice([["id"], ["a"], *([] if is_plain else [["id", "a"], ["b", "a"], ["c"]])])
        count = rng.choice([1, 5, 60, 300])
        start = rng.randrange(2 * size)
        step = 1 if is_plain else rng.choice([1, 1, 7])
        gone = [row(start + step * n) for n in range(count)]
        gone += [row(n) for n in rng.sample(range(3 * size), rng.choice([0, 0, 2]))]
        metrics = rng.choice(["full", "full", "none", "bounds"])
        table.delete_equal(keys, [{k: r[k] for k in keys} for r in gone], metrics=metrics)
        if rng.random() < 0.3:
            append(start)  # newer than these deletes, older than the next
    table.write()
    return table


@pytest.fixture(scope="module")
def counted():
    found = Counter()
    yield found
    if found["seeds"] >= 24:
        for name in (
            "key_pages.considered",
            "key_pages.untouched",
            "key_pages.deleted",
            "rows.deleted.compiled",
        ):
            assert found[name] > 0, found


@pytest.mark.parametrize("seed", range(24))
def test_rows_with_and_without_proofs(tmp_path, seed, counted):
    rng = random.Random(seed)
    table = make(tmp_path / "table", rng)
    opened = open_table(tmp_path / "table")
    schema = opened.table.schema
    live = oracle.live_rows(table.content())
    worker = {"deletes.cache": "worker", "deletes.stream": "never"}
    kept = {"deletes.cache-dir": str(tmp_path / "cache"), "deletes.stream": "never"}
    (identifier,) = (f for f in schema.fields if f.name == "id")
    some = Compare("<", Named(identifier.id, ("id",), identifier.type), rng.choice([30, 350, 700]))
    for options in (
        worker,
        {**worker, "prune.deletes": "false"},
        {**worker, "prune.pages": "false"},
        {**worker, "deletes.dense": "false", "read.pages": "always"},
        {**worker, "filter.kernels": "false"},
        {"deletes.cache": "worker", "deletes.stream": "always"},
        kept,  # compiles what it reads
        kept,  # reads what was compiled
        {"deletes.cache": "worker", "task-memory": "40k"},
    ):
        for projection in (schema.fields, schema.fields[:1], schema.fields[2:], ()):
            for predicate in (TRUE, some):
                CACHE.clear()
                try:
                    result = scan(with_options(opened, options), projection, predicate)
                except Exception as error:
                    error.add_note(f"seed {seed} {options} {predicate}")
                    raise
                wanted = [
                    oracle.project(row, projection) for row in live if oracle.evaluate(predicate, row) is True
                ]
                problem = oracle.difference(result.rows, wanted)
                assert not problem, f"seed {seed} {options} {predicate}: {problem}"
                counted.update({k: n for k, n in result.metrics.counters.items() if "time" not in k})
                if "false" in (options.get("prune.deletes"), options.get("prune.pages")):
                    assert result.count("key_pages") == 0
    counted["seeds"] += 1


# ---- what is read

ROWS = 20_000


def sorted_table(folder, deleted, *, kind="long"):
    """Make a table of one row group that is sorted by its key, with a wide column."""
    table = Table(folder, {"key": kind, "text": "string"})
    key = (lambda n: f"k{n:09}") if kind == "string" else (lambda n: n * 10**6)
    rows = [{"key": key(n), "text": f"{n:06} " * 20} for n in range(ROWS)]
    options = FileOptions(page_index=True, page_size=8_000, dictionary=False, compression="none")
    table.append(rows, options)
    table.delete_equal(["key"], [{"key": key(n)} for n in deleted])
    table.write()
    (path,) = (folder / "data").glob("file*.parquet")
    return path


def text_of(folder, options):
    opened = with_options(open_table(folder), {"deletes.cache": "worker", **options})
    fields = tuple(field for field in opened.table.schema.fields if field.name == "text")
    return scan(opened, fields)


@pytest.mark.parametrize("kind", ["long", "string"])
def test_only_pages_that_may_hold_a_delete_key_are_read(tmp_path, kind, monkeypatch):
    deleted = range(7000, 7300, 3)
    path = sorted_table(tmp_path, deleted, kind=kind)
    log = watch(monkeypatch)
    text_of(tmp_path, {})  # reads the footer
    figures = {}
    for prune in ("true", "false"):
        before = len(log.reads)
        result = text_of(tmp_path, {"prune.deletes": prune})
        gone = set(deleted)
        assert [row[0][1][:6] for row in result.rows] == [f"{n:06}" for n in range(ROWS) if n not in gone]
        figures[prune] = sum(n for _, n in log.reads[before:]), result
    key_bytes = {"long": 8, "string": 14}[kind] * ROWS
    assert figures["true"][0] < figures["false"][0] - 0.8 * key_bytes
    counters = figures["true"][1].metrics.counters
    assert counters["key_pages.considered"] > 15
    assert 0 < counters["key_pages.considered"] - counters["key_pages.untouched"] <= 2
    assert counters["bytes.filter"] < key_bytes / 5 < figures["false"][1].metrics.counters["bytes.filter"]
    assert "part of key[0]" in named(log, path)


def test_no_delete_file_is_opened_where_pages_of_the_survivors_miss_it(tmp_path):
    """The row group's bounds meet the delete file's; those of the pages that the filter leaves do not."""
    table = Table(tmp_path, {"id": "long", "key": "long"})
    options = FileOptions(page_index=True, page_size=1000, dictionary=False)
    table.append([{"id": n, "key": n if n < 5000 else n + 5000} for n in range(10_000)], options)
    table.delete_equal(["key"], [{"key": n} for n in range(6000, 6100)] + [{"key": 9000}])
    table.write()
    opened = open_table(tmp_path)
    for prune, opens in (("true", 0), ("false", 1)):
        CACHE.clear()
        result = scan(with_options(opened, {"deletes.cache": "worker", "prune.pages": prune}))
        assert len(result.rows) == 10_000
        assert result.metrics.counters["delete_files.opened"] == opens
    assert result.metrics.counters["key_pages.untouched"] == 0


@pytest.mark.parametrize("dense", ["true", "false"])
def test_pages_of_deleted_rows_alone_are_not_read(tmp_path, dense, monkeypatch):
    """Of one value each, or of neighbouring numbers all of which are deleted."""
    table = Table(tmp_path, {"day": "int", "text": "string"})
    rows = [{"day": n // 4000 if dense == "false" else n, "text": f"{n:06} " * 20} for n in range(ROWS)]
    table.append(rows, FileOptions(page_index=True, page_size=8_000, dictionary=False, compression="none"))
    gone = [2] if dense == "false" else range(8000, 12_000)
    table.delete_equal(["day"], [{"day": day} for day in gone])
    table.write()
    log = watch(monkeypatch)
    text_of(tmp_path, {})  # reads the footer
    figures = {}
    for prune in ("true", "false"):
        CACHE.clear()
        before = len(log.reads)
        result = text_of(tmp_path, {"prune.deletes": prune, "deletes.dense": dense})
        assert [row[0][1][:6] for row in result.rows] == [
            f"{n:06}" for n in range(ROWS) if not 8000 <= n < 12_000
        ]
        figures[prune] = sum(n for _, n in log.reads[before:]), result.metrics.counters
    counters = figures["true"][1]
    assert counters["key_pages.deleted"] >= 1
    assert counters["rows.deleted.equality"] == 4000
    assert (
        counters["key_pages.deleted"] + counters["key_pages.untouched"]
        >= counters["key_pages.considered"] - 2
    )
    assert figures["true"][0] < figures["false"][0] - 4 * ROWS / 2


def test_pages_are_not_asked_about_few_rows_whose_keys_were_read(tmp_path):
    sorted_table(tmp_path, range(7000, 7300, 3))
    opened = with_options(open_table(tmp_path), {"deletes.cache": "worker"})
    key, text = opened.table.schema.fields
    named_key = Named(key.id, ("key",), key.type)
    by_key = scan(opened, (text,), Compare("<", named_key, 7010 * 10**6))
    assert len(by_key.rows) == 7006
    assert by_key.metrics.counters["key_pages.considered"] > 0
    few = scan(opened, (text,), In(named_key, tuple(n * 10**6 for n in (5, 7000, 7001, 9000))))
    assert len(few.rows) == 3
    assert few.metrics.counters["key_pages.considered"] == 0
    by_text = scan(opened, (text,), Compare("<", Named(text.id, ("text",), text.type), "000010"))
    assert len(by_text.rows) == 10
    assert by_text.metrics.counters["delete_files.opened"] == 0


def test_what_pages_prove_is_compiled_too(tmp_path):
    deleted = range(7000, 7300, 3)
    sorted_table(tmp_path / "table", deleted)
    opened = with_options(open_table(tmp_path / "table"), {"deletes.cache-dir": str(tmp_path / "cache")})
    first, second = scan(opened), scan(opened)
    assert first.metrics.counters["key_pages.untouched"] > 0
    assert first.metrics.counters["delete_compiled.written"] == 1
    assert second.metrics.counters["rows.deleted.compiled"] == len(deleted)
    assert sorted(first.rows) == sorted(second.rows)
    assert len(first.rows) == ROWS - len(deleted)


def test_row_groups_in_vain_end_the_asking(tmp_path):
    """Keys in no order: every page may hold one."""
    table = Table(tmp_path, {"key": "long", "v": "int"})
    keys = list(range(6000))
    random.Random(3).shuffle(keys)
    options = FileOptions(page_index=True, page_size=100, dictionary=False, row_group_size=600)
    table.append([{"key": key, "v": 1} for key in keys], options)
    table.delete_equal(["key"], [{"key": key} for key in range(0, 6000, 5)])
    table.write()
    result = text_of_all(tmp_path)
    assert len(result.rows) == 4800
    assert result.metrics.counters["row_groups.considered"] == 10
    assert 0 < result.metrics.counters["key_pages.considered"] < 30
    assert any("proved too little" in choice for choice in result.metrics.choices)


def text_of_all(folder):
    return scan(with_options(open_table(folder), {"deletes.cache": "worker"}), parallelism=1)
