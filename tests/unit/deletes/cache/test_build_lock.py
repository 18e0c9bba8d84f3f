"""The right to build a file: one process at a time, and nobody waits in vain."""

from __future__ import annotations

import os
import stat
import threading
import time

import pytest

from twostage.deletes.cache import build_lock
from twostage.deletes.cache.build_lock import hold, open_lock_file


@pytest.fixture
def path(tmp_path):
    return tmp_path / "lock-1"


def test_the_lock_file_is_this_user_s_and_no_link(path):
    os.close(open_lock_file(path))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    link = path.with_name("link")
    link.symlink_to(path)
    with pytest.raises(OSError, match="symbolic link"):
        open_lock_file(link)


def test_one_holds_it_and_another_waits_no_longer_than_it_is_told(path):
    """`flock` locks belong to descriptors, so that two of one process stand for two processes."""
    meanwhile = []
    with hold(open_lock_file(path), 1) as first:
        assert first.is_held
        assert not first.has_waited
        began = time.monotonic()
        with hold(open_lock_file(path), 0.1, lambda: meanwhile.append(1)) as second:
            assert (second.is_held, second.has_waited) == (False, True)
        assert time.monotonic() - began >= 0.1
        with hold(open_lock_file(path), 0) as third:
            assert (third.is_held, third.has_waited) == (False, False)
    assert meanwhile == [1]  # once, however often the lock was tried
    with hold(open_lock_file(path), 0) as again:
        assert (again.is_held, again.has_waited) == (True, False)


def test_who_waits_has_it_as_soon_as_the_builder_is_done(path):
    first = hold(open_lock_file(path), 1)
    first.__enter__()
    found = []

    def wait():
        with hold(open_lock_file(path), 60, waits.set) as lock:
            found.append((lock.is_held, lock.has_waited))

    waits = threading.Event()
    waiter = threading.Thread(target=wait, daemon=True)
    waiter.start()
    assert waits.wait(30)
    first.__exit__(None, None, None)
    waiter.join(30)
    assert found == [(True, True)]


@pytest.mark.parametrize("has_failed", [True, False])
def test_who_waits_for_one_that_fails_builds_for_itself(path, has_failed):
    """It does not try in the other's place: the next one would wait for it, and so on."""
    found = []

    def wait():
        with hold(open_lock_file(path), 60, waits.set) as lock:
            found.append((lock.is_held, lock.has_waited))

    waits = threading.Event()
    waiter = threading.Thread(target=wait, daemon=True)
    with hold(open_lock_file(path), 1) as lock:
        waiter.start()
        assert waits.wait(30)
        lock.has_failed = has_failed
    waiter.join(30)
    assert found == [(not has_failed, True)]


def test_nobody_waits_after_a_failure_until_some_time_has_passed(path, monkeypatch):
    with hold(open_lock_file(path), 1) as lock:
        lock.has_failed = True
    with hold(open_lock_file(path), 1) as holder:
        assert holder.is_held  # the lock itself is free
        with hold(open_lock_file(path), 60) as waiting:
            assert (waiting.is_held, waiting.has_waited) == (False, False)
        monkeypatch.setattr(build_lock, "_FAILED_SECONDS", 0.0)
        with hold(open_lock_file(path), 0.05) as waiting:
            assert (waiting.is_held, waiting.has_waited) == (False, True)


def test_a_success_ends_the_mark_of_a_failure(path):
    for has_failed in (True, False):
        with hold(open_lock_file(path), 1) as lock:
            lock.has_failed = has_failed
    with hold(open_lock_file(path), 1), hold(open_lock_file(path), 0.05) as waiting:
        assert waiting.has_waited


@pytest.mark.parametrize("error", [None, KeyError("k")])
def test_the_descriptor_is_closed_and_the_lock_free_in_the_end(path, error):
    opened = open_lock_file(path)
    try:
        with hold(opened, 1):
            if error is not None:
                raise error
    except KeyError:
        pass
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(opened)
    with hold(open_lock_file(path), 0) as lock:
        assert lock.is_held
