"""The host's cache of key tables: shared, merged, bounded; never trusted, never an error of the scan."""

from __future__ import annotations

import errno
import gc
import os
import random
import stat
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from equality_keys import VALUES, data_columns, expected, random_row
from kept_sets import K, S, ask, files_of, right, stored
from scan_values import context_of, schema_of, task_of, write_keys

from declared.types import Column
from twostage.deletes.anti_join.load_key_sets import load_equality
from twostage.deletes.cache import file_format
from twostage.deletes.cache.host import SUFFIX, HostCache, private_directory
from twostage.deletes.cache.memory import CACHE
from twostage.deletes.keys.budget import Budget
from twostage.deletes.keys.key_set import KeySet
from twostage.errors import ResourceLimitError
from twostage.metrics import Metrics
from twostage.options import ReadSettings

SEED = int(os.environ.get("TWOSTAGE_SEED", "1"))


pytestmark = pytest.mark.usefixtures("small_sets_are_kept")


@pytest.mark.parametrize("kernels", [True, False])
@pytest.mark.parametrize("columns", [(K,), (S,), (K, S)], ids=["long", "string", "both"])
def test_a_second_process_opens_no_delete_file(tmp_path, columns, kernels):
    deletes = files_of(tmp_path, 4, columns=columns)
    settings = {"kernels": kernels}
    first, counted = ask(tmp_path, deletes, columns=columns, settings=settings)
    assert counted.counters["delete_cache.built"] == counted.counters["delete_cache.written"] == 1
    for sequence in (0, 2, 3, 4, 6):
        again, counted = ask(tmp_path, deletes, columns=columns, sequence=sequence, settings=settings)
        assert counted.counters["delete_cache.hits"] == 1
        assert counted.counters["delete_files.opened"] == 0
        assert again == right(tmp_path, deletes, columns=columns, sequence=sequence)
    assert first == right(tmp_path, deletes, columns=columns)
    assert any(first)
    assert stat.S_IMODE(stored(tmp_path)[0].stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "cache").stat().st_mode) == 0o700


@pytest.mark.parametrize("size", [20, 700])  # copied as it is, and into a larger table
@pytest.mark.parametrize("columns", [(K,), (S,), (K, S)], ids=["long", "string", "both"])
def test_a_new_snapshot_merges_only_the_new_files(tmp_path, columns, size):
    deletes = files_of(tmp_path, 6, columns=columns, size=size)
    ask(tmp_path, deletes[:2], columns=columns, snapshot_id=1)
    ask(tmp_path, deletes[:4], columns=columns, snapshot_id=2)
    found, counted = ask(tmp_path, deletes, columns=columns, snapshot_id=3)
    assert counted.counters["delete_cache.merged"] == 1
    assert counted.counters["delete_files.opened"] == 2  # the largest subset was begun with
    assert found == right(tmp_path, deletes, columns=columns)
    assert ask(tmp_path, deletes, columns=columns, snapshot_id=3)[1].counters["delete_files.opened"] == 0


@pytest.fixture(scope="module")
def merges():
    """How often a set was begun with an older one, by seed."""
    found = []
    yield found
    assert len(found) < 40 or sum(found) > 20


@pytest.mark.parametrize("seed", range(SEED, SEED + 40))
def test_random_keys_of_growing_snapshots(tmp_path, seed, merges):
    """Composite keys of every type, merged snapshot by snapshot, in any order: always what brute force says."""
    rng = random.Random(seed)
    kinds = rng.sample(list(VALUES), rng.randint(1, 3))
    columns = [Column(i + 1, f"c{i}", kind) for i, kind in enumerate(kinds)]
    ids = [column.id for column in columns]
    rows = [random_row(rng, columns, VALUES) for _ in range(100)]
    arrays = data_columns(columns, rows)
    settings = {"delete_cache_dir": str(tmp_path / "cache"), "kernels": rng.random() < 0.5}
    files, written, merged = [], [], 0
    for snapshot in range(1, 6):
        for _ in range(rng.randint(1, 3)):
            gone = [rng.choice(rows) if rng.random() < 0.3 else random_row(rng, columns, VALUES)
                    for _ in range(rng.randint(1, 9))]  # fmt: skip
            sequence = snapshot + 1
            path = tmp_path / f"d{len(files)}.parquet"
            files.append(write_keys(path, columns, gone, ids, sequence_number=sequence, scope="global"))
            written.append((ids, sequence, gone))
        if rng.random() < 0.3:
            continue  # nobody reads this snapshot
        chosen = snapshot if rng.random() < 0.7 else rng.randint(1, snapshot)
        held = [n for n, (_, sequence, _) in enumerate(written) if sequence <= chosen + 1]
        planned = [files[n] for n in held]
        for after in (0, rng.randint(0, 6)):
            CACHE.clear()
            metrics = Metrics()
            context = context_of(tmp_path, columns, settings=settings, snapshot_id=chosen,
                                 equality_deletes=tuple(planned))  # fmt: skip
            applied = [delete for delete in planned if delete.sequence_number > after]
            found = load_equality(context, task_of(*applied, sequence_number=after), metrics)
            keys = {i: arrays[i] for i in found.field_ids}
            right = expected(rows, [written[n] for n in held], after)
            assert found.deleted(keys, len(rows)).tolist() == right, f"seed {seed}"
            merged += metrics.counters["delete_cache.merged"]
    merges.append(merged)


def test_a_set_of_another_snapshot_never_gives_more(tmp_path):
    """What a later snapshot deletes, or an earlier one that was rolled back, is not deleted in this one."""
    deletes = files_of(tmp_path, 4)
    everything, _ = ask(tmp_path, deletes, snapshot_id=2)
    found, counted = ask(tmp_path, deletes[:3], snapshot_id=1)
    assert found == right(tmp_path, deletes[:3]) != everything
    assert counted.counters["delete_files.opened"] == 3
    # In the same snapshot, pruning leaves out what cannot matter: the larger set serves.
    found, counted = ask(tmp_path, deletes[:2], snapshot_id=2, sequence=1)
    assert counted.counters["delete_files.opened"] == 0


def test_a_task_of_few_builds_for_itself_and_one_of_many_for_all(tmp_path):
    deletes = files_of(tmp_path, 10)
    _, counted = ask(tmp_path, deletes[:1], planned=deletes)
    assert (counted.counters["delete_files.opened"], counted.counters["delete_cache.built"]) == (1, 0)
    _, counted = ask(tmp_path, deletes[1:3], planned=deletes, clear=False)  # three of ten by now
    assert (counted.counters["delete_files.opened"], counted.counters["delete_cache.built"]) == (10, 1)
    found, counted = ask(tmp_path, deletes[:1], planned=deletes)
    assert (counted.counters["delete_files.opened"], counted.counters["delete_cache.hits"]) == (0, 1)


@pytest.mark.parametrize("change", ["table", "root", "type", "mapping", "checksums", "scope", "file"])
def test_whatever_a_set_depends_on_is_in_its_name(tmp_path, change):
    deletes = files_of(tmp_path, 2)
    ask(tmp_path, deletes)
    changes = {}
    columns = [K]
    if change == "table":
        changes["table_uuid"] = "another"
    elif change == "root":
        from twostage.task import Storage

        changes["storage"] = Storage(root=str(tmp_path) + "/")
    elif change == "type":
        columns = [Column(1, "k", "int")]
    elif change == "mapping":
        changes["name_mapping"] = ({"field-id": 1, "names": ["k"]},)
    elif change == "checksums":
        changes["settings"] = {"verify_checksums": False}
    elif change == "scope":
        from dataclasses import replace

        deletes = [replace(delete, scope="p=1") for delete in deletes]
    else:
        os.utime(deletes[0].path, (1, 1))
    data = {"columns": columns, **changes}
    if change == "type":
        metrics = Metrics()
        CACHE.clear()
        context = context_of(tmp_path, columns, settings={"delete_cache_dir": str(tmp_path / "cache")},
                             equality_deletes=tuple(deletes))  # fmt: skip
        load_equality(context, task_of(*deletes), metrics)
        assert metrics.counters["delete_files.opened"] == 2
        return
    _, counted = ask(tmp_path, deletes, **data)
    assert counted.counters["delete_files.opened"] == 2
    assert counted.counters["delete_cache.hits"] == 0


@pytest.mark.parametrize("columns", [(K,), (K, S)], ids=["long", "both"])
def test_a_thousand_flipped_bits_are_never_wrong_rows(tmp_path, columns):
    deletes = files_of(tmp_path, 3, columns=columns)
    answer, _ = ask(tmp_path, deletes, columns=columns)
    (path,) = stored(tmp_path)
    good = path.read_bytes()
    rng = random.Random(SEED)
    print("seed", SEED)
    ignored = 0
    for _ in range(500):
        place = rng.randrange(len(good) * 8)
        bad = bytearray(good)
        bad[place // 8] ^= 1 << place % 8
        path.write_bytes(bad)
        found, counted = ask(tmp_path, deletes, columns=columns)
        assert found == answer, f"seed {SEED}, bit {place}"
        was_ignored = counted.counters["delete_cache.ignored"]
        assert bool(was_ignored) == bool(counted.counters["delete_files.opened"])
        ignored += was_ignored
        if was_ignored:
            assert path.read_bytes() == good or path.stat().st_size == len(good)  # written again
    assert ignored > 350  # the others lie in the zeros between arrays: a sixth of so small a file


@pytest.mark.parametrize(
    "content", [b"", b"\x80\x05N.", b"TWOSTG", b"\0" * 4096, "cut", "longer", "other name"]
)
def test_foreign_and_cut_files_are_ignored(tmp_path, content):
    deletes = files_of(tmp_path, 3)
    answer, _ = ask(tmp_path, deletes)
    (path,) = stored(tmp_path)
    good = path.read_bytes()
    if content == "other name":
        ask(tmp_path, deletes[:2], snapshot_id=9)
        (other,) = set(stored(tmp_path)) - {path}
        content = other.read_bytes()
        other.unlink()
    content = {"cut": good[:-64], "longer": good + b"\0" * 64}.get(content, content)
    path.write_bytes(content)
    found, counted = ask(tmp_path, deletes)
    assert found == answer
    assert counted.counters["delete_cache.ignored"] == 1
    assert any("damaged or foreign" in choice for choice in counted.choices)
    assert path.read_bytes() == good


def test_files_and_directories_of_others_are_not_used(tmp_path, monkeypatch):
    deletes = files_of(tmp_path, 3)
    answer, _ = ask(tmp_path, deletes)
    (path,) = stored(tmp_path)
    path.chmod(0o644)
    found, counted = ask(tmp_path, deletes)
    assert (found, counted.counters["delete_cache.ignored"]) == (answer, 1)
    path.unlink()
    path.symlink_to(deletes[0].path)
    found, counted = ask(tmp_path, deletes)
    assert (found, counted.counters["delete_cache.ignored"]) == (answer, 1)
    cache = tmp_path / "cache"
    for mode in (0o777, 0o770, 0o755):
        cache.chmod(mode)
        found, counted = ask(tmp_path, deletes)
        assert (found, counted.counters["delete_cache.unusable"]) == (answer, 1)
        assert any("open to others" in choice for choice in counted.choices)
    cache.chmod(0o700)
    (tmp_path / "link").symlink_to(cache)
    assert private_directory(tmp_path / "link")[0] is None
    open_to_all = tmp_path / "all"
    open_to_all.mkdir()
    open_to_all.chmod(0o777)
    assert private_directory(open_to_all / "mine")[0] is None
    open_to_all.chmod(0o1777)
    assert private_directory(open_to_all / "mine")[0] == open_to_all / "mine"
    assert private_directory(Path("relative"))[0] is None
    (tmp_path / "file").touch()
    assert private_directory(tmp_path / "file")[0] is None
    assert private_directory(tmp_path / "file" / "below")[0] is None
    monkeypatch.setattr(os, "getuid", lambda: 4711)
    assert private_directory(cache)[0] is None


@pytest.mark.parametrize("where", ["write", "open", "replace", "access"])
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EROFS, errno.EIO])
def test_a_disk_that_is_full_or_read_only(tmp_path, monkeypatch, where, code):
    deletes = files_of(tmp_path, 3)
    answer = right(tmp_path, deletes)

    def fail(*_args, **_more):
        raise OSError(code, os.strerror(code))

    real_open = os.open
    if where == "open":
        monkeypatch.setattr(
            os,
            "open",
            lambda path, flags, *more, **named: (
                fail() if flags & os.O_CREAT else real_open(path, flags, *more, **named)
            ),
        )
    elif where == "replace":
        monkeypatch.setattr(Path, "replace", fail)
    elif where == "access":
        monkeypatch.setattr(os, "access", lambda *_: False)
    else:
        monkeypatch.setattr(os, where, fail)
    found, counted = ask(tmp_path, deletes)
    monkeypatch.undo()
    assert found == answer
    told = counted.counters["delete_cache.failed"] + counted.counters["delete_cache.unusable"]
    assert told == 1
    assert bool(counted.choices)
    cache = tmp_path / "cache"
    assert not cache.exists() or not [path for path in cache.iterdir() if not path.name.startswith("lock-")]


def test_the_size_is_bounded(tmp_path):
    settings = {"delete_cache_size": 60_000, "dense_keys": False}
    for n in range(12):
        deletes = files_of(tmp_path, 1, start=n, size=20)
        answer, counted = ask(tmp_path, deletes, snapshot_id=n, settings=settings)
        assert answer == right(tmp_path, deletes)
        assert sum(path.stat().st_size for path in stored(tmp_path)) <= 60_000
        os.utime(stored(tmp_path)[0], (n, n))
    assert len(stored(tmp_path)) > 1
    assert counted.counters["delete_cache.removed"] == 1
    answer, counted = ask(tmp_path, files_of(tmp_path, 3), settings={"delete_cache_size": 100})
    assert counted.counters["delete_cache.too_large"] == 1
    assert answer == right(tmp_path, files_of(tmp_path, 3))


def test_the_file_used_last_stays(tmp_path):
    metrics = Metrics()
    cache = HostCache(tmp_path, 50_000, metrics)
    array = np.zeros(15_000, np.uint8)
    for n in range(3):
        assert cache.save(f"keys-{n}{SUFFIX}", "keys", {}, [array])
        os.utime(tmp_path / f"keys-{n}{SUFFIX}", (n, n))
    assert cache.load(f"keys-0{SUFFIX}", "keys") is not None
    assert cache.save(f"keys-3{SUFFIX}", "keys", {}, [array])
    assert sorted(cache.names("keys-")) == [f"keys-{n}{SUFFIX}" for n in (0, 2, 3)]


def test_mapped_keys_are_no_private_memory(tmp_path):
    deletes = files_of(tmp_path, 3)
    ask(tmp_path, deletes)
    CACHE.clear()
    gc.collect()
    before = len(os.listdir("/proc/self/fd"))
    ask(tmp_path, deletes, settings={"task_memory": 2**26})
    assert CACHE.nbytes <= 2**20
    CACHE.clear()
    gc.collect()
    assert len(os.listdir("/proc/self/fd")) == before


def test_keys_are_copied_before_more_are_added(tmp_path):
    """Within the budget; what is mapped does not change."""
    deletes = files_of(tmp_path, 3, columns=(K, S))
    ask(tmp_path, deletes, columns=(K, S))
    cache = HostCache(tmp_path / "cache", 2**30, Metrics())
    (name,) = cache.names("keys-")
    good = stored(tmp_path)[0].read_bytes()
    entry = cache.load(name, "keys")
    values = entry.description.values["set"]
    small = KeySet.restored(values, entry.arrays, Budget(1, lambda: 0), kernels=False)
    assert small.nbytes == 0
    from twostage.deletes.keys.encoding import encode_column, group_by_nulls

    kinds = [schema_of([K, S]).field(i).type for i in (1, 2)]
    rows = [encode_column(pa.array([9999]), kinds[0]), encode_column(pa.array(["new"]), kinds[1])]
    with pytest.raises(ResourceLimitError):
        small.insert(group_by_nulls(rows, 1), 99, 1)
    grown = KeySet.restored(values, entry.arrays, Budget(2**20, lambda: 0), kernels=False)
    grown.insert(group_by_nulls(rows, 1), 99, 1)
    assert grown.nbytes > 0
    assert grown.probe(group_by_nulls(rows, 1), 1, 98).tolist() == [True]
    assert stored(tmp_path)[0].read_bytes() == good


def test_a_file_holds_what_was_given(tmp_path):
    arrays = [
        np.arange(10, dtype=np.uint64),
        np.zeros((0, 3), np.uint64),
        np.arange(6, dtype=np.uint64).reshape(3, 2),
        np.array([7], np.uint16),
        np.zeros(0, np.uint8),
    ]
    size, parts = file_format.encode("keys", "name", {"a": [1, None]}, arrays)
    data = b"".join(parts)
    assert len(data) == size
    read = lambda place, length: data[place : place + length]
    found = file_format.describe(read, size)
    file_format.verify(read, found)
    assert (found.kind, found.key, found.values) == ("keys", "name", {"a": [1, None]})
    for given, back in zip(arrays, file_format.arrays_in(data, found), strict=True):
        assert given.dtype == back.dtype
        assert given.tolist() == back.tolist()
        assert not back.flags.writeable


def test_another_version_is_ignored(tmp_path, monkeypatch):
    deletes = files_of(tmp_path, 2)
    monkeypatch.setattr(file_format, "FORMAT", 99)
    ask(tmp_path, deletes)
    monkeypatch.undo()
    (path,) = stored(tmp_path)
    with pytest.raises(ValueError, match="version 99"):
        file_format.describe(
            lambda place, length: path.read_bytes()[place : place + length], path.stat().st_size
        )


def test_the_default_directory_is_the_users(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    metrics = Metrics()
    found = HostCache.find(ReadSettings(), metrics)
    assert found is not None
    assert found.directory == tmp_path / "xdg" / "twostage" / "deletes"
    assert HostCache.find(ReadSettings(delete_cache="worker"), metrics) is None
    assert not metrics.counters


def test_tests_keep_out_of_the_users_cache():
    import pwd

    found = HostCache.find(ReadSettings(), Metrics())
    assert found is not None
    assert not found.directory.is_relative_to(Path(pwd.getpwuid(os.getuid()).pw_dir))
