"""Folders that things are kept in between queries: the one that is used, why another is not, and how to mend that."""

from __future__ import annotations

from pathlib import Path

import pytest

from twostage.doctor import folders
from twostage.options import ReadSettings


def deletes(folder: Path | None, **settings: object) -> tuple[str, str, str]:
    given = ReadSettings(delete_cache_dir=None if folder is None else str(folder), **settings)  # type: ignore[arg-type]
    (found,) = folders.deletes(given)
    return found.state, found.found, found.mend


def test_a_folder_that_only_its_user_can_write(tmp_path: Path) -> None:
    state, found, mend = deletes(tmp_path / "cache", delete_cache_size=1)
    assert (state, mend) == ("ok", "")
    assert f"{tmp_path / 'cache'}, mode 0700" in found


def test_a_folder_that_others_can_write(tmp_path: Path) -> None:
    folder = tmp_path / "cache"
    folder.mkdir()
    folder.chmod(0o777)
    state, found, mend = deletes(folder)
    assert state == "warning"
    assert f"{folder} is not used" in found
    assert mend == f"chmod 700 {folder}"


def test_a_disk_that_is_too_full(tmp_path: Path) -> None:
    state, found, mend = deletes(tmp_path / "cache", delete_cache_size=2**60)
    assert state == "warning"
    assert "less than the" in found
    assert "deletes.cache-size" in mend


def test_switched_off() -> None:
    state, found, _ = deletes(None, delete_cache="worker")
    assert (state, found) == ("ok", "switched off by deletes.cache=worker")


def test_kernels(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TWOSTAGE_JIT", "0")
    (off,) = folders.kernels()
    assert (off.state, off.found) == ("ok", "switched off by TWOSTAGE_JIT=0")
    monkeypatch.setenv("TWOSTAGE_JIT", "auto")
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "kernels"))
    (found,) = folders.kernels()
    assert found.state in ("ok", "warning")
    assert (found.mend == "") == (found.state == "ok")
