"""Folders that things are kept in between queries: the one that is used, why another is not, and how to mend that."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from twostage.deletes.cache.host import HostCache
from twostage.doctor import folders
from twostage.metrics import Metrics
from twostage.options import OPTION_NAMES, parse_options
from twostage.reading.conditions.kept import ConditionStore
from twostage.reading.host_footers import Footers
from twostage.task import Storage

CACHES = pytest.mark.parametrize("cache", folders.HOST_CACHES, ids=lambda cache: cache.option)


def look(cache: folders.HostCacheFolder, folder: Path | None, **options: str) -> tuple[str, str, str]:
    """Check a cache as a user's options set it: ``cache``, ``cache_size``, and its folder."""
    given = {cache.option: "host", **{cache.option + name: value for name, value in options.items()}}
    if folder is not None:
        given[f"{cache.option}-dir"] = str(folder)
    (found,) = folders.host_cache(cache, parse_options(given).settings)
    assert found.check == cache.check
    return found.state, found.found, found.mend


def test_each_cache_of_the_host_is_checked() -> None:
    named = {name.removesuffix("-dir") for name in OPTION_NAMES if name.endswith(".cache-dir")}
    assert {cache.option for cache in folders.HOST_CACHES} == named


@CACHES
def test_a_folder_that_only_its_user_can_write(cache: folders.HostCacheFolder, tmp_path: Path) -> None:
    state, found, mend = look(cache, tmp_path / "cache", **{"-size": "1"})
    assert (state, mend) == ("ok", "")
    assert f"{tmp_path / 'cache'}, mode 0700" in found


@CACHES
def test_where_a_query_keeps_it(cache: folders.HostCacheFolder, tmp_path: Path) -> None:
    """The folder that the check names is the one that the cache itself uses, without an option."""
    metrics = Metrics()
    settings = parse_options({cache.option: "host", f"{cache.option}-size": "1"}).settings
    context = SimpleNamespace(settings=settings, storage=Storage())
    used = {
        "deletes.cache": lambda: HostCache.find(settings, metrics),
        "footers.cache": lambda: Footers(context, metrics)._cache,
        "filter.cache": lambda: ConditionStore(settings, metrics)._host,
    }[cache.option]()
    assert used is not None
    (found,) = folders.host_cache(cache, settings)
    assert found.found.startswith(f"{used.directory}, mode 0700")


@CACHES
def test_a_folder_that_others_can_write(cache: folders.HostCacheFolder, tmp_path: Path) -> None:
    folder = tmp_path / "cache"
    folder.mkdir()
    folder.chmod(0o777)
    state, found, mend = look(cache, folder)
    assert state == "warning"
    assert f"{folder} is not used" in found
    assert found.endswith(cache.otherwise)
    assert mend == f"chmod 700 {folder}"


@CACHES
def test_a_file_in_the_place_of_the_folder(cache: folders.HostCacheFolder, tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("")
    state, _, mend = look(cache, tmp_path / "cache")
    assert state == "warning"
    assert f"{cache.option}-dir" in mend


@CACHES
def test_a_disk_that_is_too_full(cache: folders.HostCacheFolder, tmp_path: Path) -> None:
    state, found, mend = look(cache, tmp_path / "cache", **{"-size": str(2**60)})
    assert state == "warning"
    assert "less than the" in found
    assert f"{cache.option}-size" in mend


@pytest.mark.parametrize(
    ("option", "value"), [("deletes.cache", "worker"), ("footers.cache", "worker"), ("filter.cache", "off")]
)
def test_switched_off(option: str, value: str) -> None:
    (cache,) = (cache for cache in folders.HOST_CACHES if cache.option == option)
    state, found, _ = look(cache, None, **{"": value})
    assert (state, found) == ("ok", f"switched off by {option}={value}")


def test_kernels(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TWOSTAGE_JIT", "0")
    (off,) = folders.kernels()
    assert (off.state, off.found) == ("ok", "switched off by TWOSTAGE_JIT=0")
    monkeypatch.setenv("TWOSTAGE_JIT", "auto")
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "kernels"))
    (found,) = folders.kernels()
    assert found.state in ("ok", "warning")
    assert (found.mend == "") == (found.state == "ok")
