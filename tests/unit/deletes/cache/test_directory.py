"""The directory of the host's cache: only one that nobody but this user can read, write or replace."""

from __future__ import annotations

import os
import stat
import tempfile
from pathlib import Path

import pytest

from twostage.deletes.cache.directory import candidates, private_directory


@pytest.fixture
def cache(tmp_path):
    folder = tmp_path / "cache"
    folder.mkdir(mode=0o700)
    return folder


def test_it_is_made_with_its_parents_for_this_user_alone(tmp_path):
    found, reason = private_directory(tmp_path / "a" / "b" / "cache")
    assert (found, reason) == (tmp_path / "a" / "b" / "cache", "")
    assert stat.S_IMODE(found.stat().st_mode) == 0o700
    assert private_directory(found) == (found, "")  # and found again


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o750, 0o701, 0o704])
def test_any_right_of_others_is_too_much(cache, mode):
    cache.chmod(mode)
    assert private_directory(cache) == (None, "its directory belongs to, or is open to, other users")


def test_a_link_a_file_and_a_relative_path(tmp_path, cache):
    (tmp_path / "link").symlink_to(cache)
    assert private_directory(tmp_path / "link") == (None, "its directory is a link or a file")
    (tmp_path / "circle").symlink_to(tmp_path / "circle")
    assert private_directory(tmp_path / "circle" / "below")[0] is None
    (tmp_path / "file").touch()
    assert private_directory(tmp_path / "file")[0] is None
    assert private_directory(tmp_path / "file" / "below")[0] is None
    assert private_directory(Path("relative")) == (None, "it is not an absolute path")


def test_a_linked_parent_is_judged_by_where_it_leads(tmp_path, cache):
    (tmp_path / "link").symlink_to(cache)
    assert private_directory(tmp_path / "link" / "below") == (cache / "below", "")


@pytest.mark.parametrize("mode", [0o777, 0o775, 0o757])
def test_others_may_not_replace_a_folder_above_it(tmp_path, mode):
    """Unless only owners may remove what is in it, as in ``/tmp``."""
    open_to_all = tmp_path / "all"
    open_to_all.mkdir()
    open_to_all.chmod(mode)
    assert private_directory(open_to_all / "mine") == (None, "other users may replace its directory")
    open_to_all.chmod(0o1000 | mode)
    assert private_directory(open_to_all / "mine")[0] == open_to_all / "mine"


def test_of_another_user(cache, monkeypatch):
    monkeypatch.setattr(os, "getuid", lambda: 4711)
    assert private_directory(cache) == (None, "its directory belongs to, or is open to, other users")


def test_one_that_cannot_be_written(cache, monkeypatch):
    monkeypatch.setattr(os, "access", lambda *_: False)
    assert private_directory(cache) == (None, "its directory cannot be written")


def test_only_the_directory_that_was_chosen(tmp_path):
    assert list(candidates(str(tmp_path))) == [tmp_path]


def test_the_user_s_cache_comes_before_the_temporary_directory(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    monkeypatch.setattr(tempfile, "gettempdir", lambda: str(tmp_path / "tmp"))
    assert list(candidates(None)) == [
        tmp_path / "xdg" / "twostage" / "deletes",
        tmp_path / "tmp" / f"twostage-{os.getuid()}" / "deletes",
    ]


def test_without_a_temporary_directory_and_a_home(monkeypatch):
    """Neither stops the scan."""

    def fail(*_args, **_more):
        raise OSError

    monkeypatch.setattr(tempfile, "gettempdir", fail)
    monkeypatch.setattr("platformdirs.user_cache_path", fail)
    assert list(candidates(None)) == []
