"""Requests of compiled deletes in a bucket: written many at a time, by the command and by scans, and trusted only whole.

What `test_remote_requests` says of rounds holds here.
"""

from __future__ import annotations

import pytest

from core_scan import scan
from late_store import BUCKET, Fault, kind_of, serve_late
from remote_scans import forget_files, open_remote, rows_of
from tables import Table
from twostage.deletes.compiled import find
from twostage.errors import ResourceLimitError, StorageError
from twostage.maintenance import compile_deletes
from twostage.options import parse_options

FILES, ROWS = 12, 200
KEYS = 2000
"""Of each delete file that are no row's."""
FOLDER = "compiled"
DELETED = [17, 18, 40]
"""Rows of each file that equality deletes delete."""


@pytest.fixture
def store(tmp_path, monkeypatch):
    monkeypatch.setattr("twostage.planning.plan.indexes_of_scan", lambda *_: None)
    table = Table(tmp_path / "t", {"id": "long", "k": "long", "s": "string", "x": "double"}, version=2)
    table.location = f"s3://{BUCKET}/t"
    files = [rows_of(number)[:ROWS] for number in range(FILES)]
    for rows in files:
        table.append(rows)
    for place in DELETED:
        others = [{"k": 10**9 + number} for number in range(KEYS)]
        table.delete_equal(["k"], [*({"k": rows[place]["k"]} for rows in files), *others])
    table.write()
    forget_files()
    with serve_late(tmp_path, rounds=True) as late:
        late.expected = [
            row["id"] for rows in files for place, row in enumerate(rows) if place not in DELETED
        ]
        yield late


def compile_table(store, **options):
    given = {**store.options, "deletes.cache": "worker", "footers.cache": "worker", **options}
    given |= {"path": f"s3://{BUCKET}/t", "deletes.compiled-dir": f"s3://{BUCKET}/{FOLDER}"}
    items = compile_deletes.plan_compiling(parse_options(given), {})
    store.reset()
    return [metrics.counters for metrics in compile_deletes.compile_files(items)]


def read(store, **options):
    """Read the table; return what was counted."""
    forget_files()
    opened = open_remote(store, "t", **{"deletes.compiled-dir": f"s3://{BUCKET}/{FOLDER}", **options})
    store.reset()
    result = scan(opened, parallelism=1)
    assert [row[0][1] for row in result.rows] == store.expected
    return result.metrics.counters


def what(request):
    return f"{request.method} entry" if request.key.startswith(FOLDER) else kind_of(request)


def entries(store):
    return sorted((store.root / FOLDER).glob("positions-*.twostage"))


def test_the_command_reads_and_writes_many_files_at_the_same_time(store):
    """As many round trips as one file takes."""
    made = compile_table(store)
    assert sum(one["delete_compiled.made"] for one in made) == FILES
    assert [one["delete_compiled.rows"] for one in made] == [len(DELETED)] * FILES
    assert store.by_round(what) == [
        {"GET entry": FILES},
        {"GET data": FILES},
        {"GET deletes": len(DELETED)},
        {"PUT entry": FILES},
    ]
    assert len(entries(store)) == FILES
    again = compile_table(store)
    assert sum(one["delete_compiled.made"] for one in again) == 0
    assert store.by_round(what) == [{"GET entry": FILES}]
    counted = read(store)
    assert (counted["delete_compiled.hits"], counted["delete_files.opened"]) == (FILES, 0)


def test_a_scan_writes_what_it_compiles_while_it_reads(store):
    assert read(store)["delete_compiled.written"] == FILES
    last = store.by_round(what)[-1]
    assert last == {"PUT entry": FILES}
    assert read(store)["delete_compiled.hits"] == FILES


def test_of_a_scan_that_may_write_one_at_a_time_all_are_written(store, monkeypatch):
    monkeypatch.setattr(find.EntryWrites, "_has_room", lambda writes: len(writes._pending) <= 1)
    assert read(store)["delete_compiled.written"] == FILES
    assert len(entries(store)) == FILES


def test_a_scan_that_may_not_compile_reads_entries_and_writes_none(store):
    """``deletes.compile`` is of scans: the command writes. Half of the files have entries then, and the others get none."""
    counted = read(store, **{"deletes.compile": "false"})
    assert (counted["delete_compiled.written"], counted["delete_compiled.failed"]) == (0, 0)
    assert not [one for one in store.log if one.method == "PUT"]
    compile_table(store, **{"deletes.compile": "false"})
    for path in entries(store)[::2]:
        path.unlink()
    before = [(path, path.read_bytes()) for path in entries(store)]
    assert len(before) == FILES // 2
    counted = read(store, **{"deletes.compile": "false"})
    assert (counted["delete_compiled.hits"], counted["delete_compiled.written"]) == (FILES // 2, 0)
    assert not [one for one in store.log if one.method == "PUT"]
    assert [(path, path.read_bytes()) for path in entries(store)] == before


def test_a_scan_with_a_limit_keeps_what_it_has_compiled(store):
    """Of files that were read to their end, and of no others."""
    opened = open_remote(store, "t", **{"deletes.compiled-dir": f"s3://{BUCKET}/{FOLDER}"})
    result = scan(opened, parallelism=1, limit=ROWS)  # more than the live rows of one file
    assert [row[0][1] for row in result.rows] == store.expected[:ROWS]
    kept = len(entries(store))
    assert result.count("delete_compiled.written") == kept >= 1
    assert read(store)["delete_compiled.hits"] == kept


def test_a_store_that_refuses_ends_the_command_and_no_scan(store):
    """What was kept before is whole, and the next run makes the others alone."""
    store.faults = [Fault("403", path=FOLDER, method="PUT", after=5, times=1)]
    with pytest.raises(StorageError, match="NOT_KEPT") as caught:
        compile_table(store)
    assert "canary" not in str(caught.value)
    kept = len(entries(store))
    assert 5 <= kept < FILES
    store.faults = []
    assert sum(one["delete_compiled.made"] for one in compile_table(store)) == FILES - kept
    for path in entries(store):
        path.unlink()
    store.faults = [Fault("403", path=FOLDER, method="PUT", times=FILES)]
    counted = read(store)
    assert (counted["delete_compiled.failed"], counted["delete_compiled.written"]) == (FILES, 0)
    store.faults = [Fault("503", path=FOLDER, method="PUT", times=3)]
    assert read(store)["delete_compiled.written"] == FILES


def test_an_entry_that_was_cut_short_is_not_trusted_and_made_anew(store):
    """A store that keeps half an object, or a build that was copied while it ran."""
    compile_table(store)
    whole = [path.read_bytes() for path in entries(store)]
    for path, data, length in zip(
        entries(store), whole, (0, 10, len(whole[2]) // 2, len(whole[3]) - 1), strict=False
    ):
        path.write_bytes(data[:length])
    counted = read(store, **{"deletes.compiled-dir": f"s3://{BUCKET}/{FOLDER}"})
    assert counted["delete_compiled.hits"] == FILES - 4
    assert counted["delete_compiled.ignored"] == 4
    for path, data in zip(entries(store), whole, strict=True):
        assert path.read_bytes() == data  # the scan has written them again
    entries(store)[0].write_bytes(b"")
    assert sum(one["delete_compiled.made"] for one in compile_table(store)) == 1
    assert entries(store)[0].read_bytes() == whole[0]


def test_files_ahead_bounds_how_many_are_compiled_at_the_same_time(store):
    compile_table(store, **{"io.files-ahead": "2"})
    assert store.most_at_once <= 3 + len(DELETED)
    assert len(entries(store)) == FILES


def test_keys_that_do_not_fit_are_streamed_unless_that_is_an_error(store):
    store.rounds = False  # so small pieces of keys take a thousand of them
    made = compile_table(store, **{"task-memory": "16k"})
    assert [one["delete_compiled.rows"] for one in made] == [len(DELETED)] * FILES
    assert all(one["delete_files.opened"] >= len(DELETED) for one in made)
    assert read(store)["delete_compiled.hits"] == FILES
    for path in entries(store):
        path.unlink()
    forget_files()
    with pytest.raises(ResourceLimitError, match="DELETE_KEYS_TOO_LARGE"):
        compile_table(store, **{"task-memory": "16k", "deletes.stream": "never"})
    assert entries(store) == []
