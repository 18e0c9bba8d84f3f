"""Exactly which bytes a scan asks for, on three layouts, and how many more than it needs."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest

from core_scan import open_table, scan
from declared.files import FileOptions
from figures import record
from reading_log import Log, named, needed_bytes, watch
from tables import Table
from twostage.data_files import parquet_footers
from twostage.formats.parquet import page_tables
from twostage.predicates.predicate import Column, In
from twostage.schema import Primitive

ROWS = 40_000
LAYOUTS = {
    "page index": FileOptions(page_index=True, dictionary=False),
    "no page index": FileOptions(page_index=False, dictionary=False),
    "dictionary": FileOptions(page_index=True, dictionary=True),
}


@pytest.fixture(autouse=True)
def _forget():
    """Start every test with nothing known of any file."""
    parquet_footers._footers.clear()
    parquet_footers._tails.clear()
    page_tables._tables.clear()


def make(folder, layout):
    """Make a table of one data file: a scattered key, a wide text, a kind with few values; two row groups."""
    keys = random.Random(5).sample(range(ROWS), ROWS)
    table = Table(folder, {"key": "long", "text": "string", "kind": "string"})
    rows = [{"key": key, "text": f"{key:06} " * 20, "kind": f"kind {key % 7}"} for key in keys]
    options = replace(LAYOUTS[layout], row_group_size=ROWS // 2, page_size=20_000, compression="none")
    table.append(rows, options)
    table.write()
    (path,) = (folder / "data").glob("*.parquet")
    return path, keys


def one_of(keys):
    return In(Column(1, ("key",), Primitive("long")), tuple(keys))


def read(folder, keys, names, **options):
    opened = open_table(folder, **options)
    fields = tuple(field for field in opened.table.schema.fields if field.name in names)
    return scan(opened, fields, one_of(keys))


TRACES = {
    "page index": [
        "part of kind[1] + indexes + footer",  # one read of 64 KiB
        "key[0]",
        "part of text[0]",
        "part of kind[0]",
        "key[1]",
        "part of text[1]",
        "part of kind[1]",
    ],
    "no page index": [
        "part of kind[1] + footer",
        "key[0]",
        "20 x part of text[0]",  # page headers, 512 bytes each
        "10 x part of kind[0]",
        "part of text[0]",
        "part of kind[0]",
        "key[1]",
        "20 x part of text[1]",
        "10 x part of kind[1]",
        "part of text[1]",
        "part of kind[1]",
    ],
    "dictionary": [
        "part of text[1] + kind[1] + indexes + footer",
        "part of key[0]",  # its dictionary, to prune by
        "key[0]",
        "part of text[0]",
        "kind[0]",
        "part of key[1]",
        "key[1]",
        "part of text[1] + kind[1]",  # the hole between is smaller than 32 KiB
    ],
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_needle_asks_for_pages(layout, tmp_path, monkeypatch):
    path, keys = make(tmp_path, layout)
    log = watch(monkeypatch)
    result = read(tmp_path, [keys[7], keys[-5]], ("text", "kind"))
    assert [row[1][1] for row in result.rows] == [f"kind {key % 7}" for key in (keys[7], keys[-5])]
    assert named(log, path) == TRACES[layout]


def test_a_second_scan_reads_no_footer(tmp_path, monkeypatch):
    path, keys = make(tmp_path, "page index")
    log = watch(monkeypatch)
    first = read(tmp_path, [keys[7]], ("kind",))
    seen = len(log.reads)
    second = read(tmp_path, [keys[7]], ("kind",))
    assert first.rows == second.rows
    assert not any("footer" in name for name in named(Log(log.reads[seen:]), path))
    assert any("footer" in name for name in named(Log(log.reads[:seen]), path))


@pytest.mark.parametrize("selected", ["page index", "no page index", "dictionary"])
@pytest.mark.parametrize(("share", "most"), [(0.0001, 1.3), (0.01, 1.5), (0.5, 1.1)])
def test_read_amplification(selected, share, most, tmp_path, monkeypatch):
    """Needed are the filter column, the pages (whole, with their dictionaries) of live rows, and the footer."""
    path, keys = make(tmp_path, selected)
    chosen = set(random.Random(7).sample(keys, int(ROWS * share)))
    log = watch(monkeypatch)
    result = read(tmp_path, chosen, ("text", "kind"))
    assert len(result.rows) == len(chosen)
    needed = needed_bytes(path, np.flatnonzero([key in chosen for key in keys]))
    amplification = log.num_bytes / needed
    record("R10", layout=selected, share=share, amplification=round(amplification, 3), most=most)
    assert amplification <= most
