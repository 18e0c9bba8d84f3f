"""The host's cache of key tables: shared, merged, bounded; never trusted, never an error of the scan."""

from __future__ import annotations

import contextlib
import errno
import gc
import os
import random
from pathlib import Path

import numpy as np
import pytest

from kept_sets import K, S, ask, files_of, right, stored
from twostage.deletes.cache import file_format
from twostage.deletes.cache.host import SUFFIX, HostCache
from twostage.deletes.cache.memory import CACHE
from twostage.metrics import Metrics
from twostage.options import ReadSettings

SEED = int(os.environ.get("TWOSTAGE_SEED", "1"))


pytestmark = pytest.mark.usefixtures("small_sets_are_kept")


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


def test_files_and_directories_of_others_are_not_used(tmp_path):
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
        assert any("open to, other users" in choice for choice in counted.choices)
    cache.chmod(0o700)


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
    assert not open_below(tmp_path)
    ask(tmp_path, deletes, settings={"task_memory": 2**26})
    assert CACHE.nbytes <= 2**20
    CACHE.clear()
    gc.collect()
    assert not open_below(tmp_path)


def open_below(folder):
    """Return the files of a folder that this process has open; of others, threads of other tests may let go meanwhile."""
    found = []
    for descriptor in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):
            found.append(os.readlink(descriptor))
    return [target for target in found if target.startswith(str(folder))]


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
