"""Footers that the host's workers share: fewer requests, the same rows, and nothing of an object that was replaced."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from check import Columns
from core_scan import Opened, scan
from late_store import BUCKET, serve_late
from tables import Table
from twostage.catalog.load_table import load_table
from twostage.data_files import parquet_footers
from twostage.errors import CorruptFileError
from twostage.formats.parquet import page_tables
from twostage.metrics import Metrics
from twostage.options import ReadSettings, parse_options
from twostage.predicates.predicate import Compare
from twostage.reading.host_footers import Footers
from twostage.task import Storage

FILES, ROWS = 3, 3_000
LAYOUT = {"page_size": 20_000, "compression": "none", "dictionary": False, "page_index": True}
EVERY = [
    [{"id": number * ROWS + n, "k": (n * 7_919 + number) % 10_007, "s": f"{n:0200}"} for n in range(ROWS)]
    for number in range(FILES)
]
NEEDLE = EVERY[1][1_234]["k"]


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    root = tmp_path_factory.mktemp("lake")
    table = Table(root / "t", {"id": "long", "k": "long", "s": "string"}, version=2)
    table.location = f"s3://{BUCKET}/t"
    for rows in EVERY:
        table.append(rows, **LAYOUT)
    table.write()
    with serve_late(root) as late:
        yield late


@pytest.fixture(autouse=True)
def _no_index(monkeypatch):
    monkeypatch.setattr("twostage.planning.plan.indexes_of_scan", lambda *_: None)


def another_worker():
    """Forget what a process that has just begun does not know."""
    for cache in (parquet_footers._footers, parquet_footers._versions, parquet_footers._tails):
        cache.clear()
    page_tables._tables.clear()


def ask(store, folder, **options):
    """Look for the needle as a new worker does; return its ids, how many requests data files took, and the counters."""
    another_worker()
    given = {"path": f"s3://{BUCKET}/t", **store.options, "footers.cache-dir": str(folder), **options}
    parsed = parse_options(given)
    opened = Opened(load_table(parsed), parsed)
    store.reset()
    predicate = Compare("=", Columns(opened.table.schema)("k"), NEEDLE)
    result = scan(opened, predicate=predicate, parallelism=1)
    requests = sum("/data/" in one.key for one in store.log)
    ids = sorted(row[0][1] for row in result.rows)
    return ids, requests, result.metrics.counters


EXPECTED = sorted(row["id"] for rows in EVERY for row in rows if row["k"] == NEEDLE)


def test_another_worker_asks_for_no_end(store, tmp_path):
    folder = tmp_path / "cache"
    ids, first, counters = ask(store, folder)
    assert ids == EXPECTED
    assert counters["footer_cache.written"] == FILES
    assert "footer_cache.hits" not in counters
    ids, again, counters = ask(store, folder)
    assert ids == EXPECTED
    assert again == first - FILES
    assert counters["footer_cache.hits"] == FILES
    assert "footer_cache.written" not in counters
    ids, alone, counters = ask(store, folder, **{"footers.cache": "worker"})
    assert (ids, alone) == (EXPECTED, first)
    assert not [name for name in counters if name.startswith("footer_cache")]


def test_footers_of_objects_that_were_replaced_are_read_anew(store, tmp_path):
    folder = tmp_path / "cache"
    ask(store, folder)
    for path in (store.root / "t" / "data").iterdir():
        path.write_bytes(path.read_bytes())  # the same bytes, another ETag
    ids, _, counters = ask(store, folder)
    assert ids == EXPECTED
    assert counters["footer_cache.written"] == FILES
    ids, again, counters = ask(store, folder)
    assert ids == EXPECTED
    assert counters["footer_cache.hits"] == FILES


@pytest.mark.parametrize("place", [0.0, 0.3, 0.6, None])
def test_a_damaged_file_is_ignored_with_a_warning(store, tmp_path, place):
    folder = tmp_path / "cache"
    _, first, _ = ask(store, folder)
    for path in folder.glob("footer-*"):
        data = bytearray(path.read_bytes())
        if place is not None:
            data[int(place * len(data))] ^= 0x55
        path.write_bytes(bytes(data) if place is not None else data[: len(data) // 2])
    ids, again, counters = ask(store, folder)
    assert (ids, again) == (EXPECTED, first)
    assert counters["footer_cache.ignored"] == FILES


@pytest.mark.parametrize(
    ("version", "size", "end"),
    [
        (b"", 1_000, b"\x08\0\0\0PAR1"),
        (b"e", 4, b"\x08\0\0\0PAR1"),
        (b"e", 1_000, b""),
        (b"e", 1_000, b"\x08\0\0\0PAR2"),
        (b"e", 1_000, b"\xff\xff\xff\x7fPAR1"),
        (b"e", 1_000, b"12345678\x08\0\0\0PAR1"),
    ],
)
def test_what_is_no_end_of_a_file_is_not_kept(version, size, end):
    another_worker()
    with pytest.raises((ValueError, CorruptFileError)):
        parquet_footers.keep_end("s3://lake/f", 1_000, version, size, end)
    assert parquet_footers.kept_version("s3://lake/f", 1_000) is None


def test_a_directory_of_others_is_not_used(tmp_path):
    folder = tmp_path / "open"
    folder.mkdir(mode=0o777)
    folder.chmod(0o777)
    metrics = Metrics()
    settings = ReadSettings(footer_cache_dir=str(folder))
    assert Footers(SimpleNamespace(settings=settings, storage=Storage()), metrics)._cache is None
    assert metrics.counters == {"footer_cache.unusable": 1}
    assert "footers are not shared" in next(iter(metrics.choices))
