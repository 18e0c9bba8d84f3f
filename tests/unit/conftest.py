"""What unit tests begin with: an empty cache of deletes; and, by name, caches that keep key sets of any size, and metadata."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from table_metadata import table_metadata, write_metadata
from twostage.deletes.anti_join import host_key_sets
from twostage.deletes.cache.memory import CACHE
from twostage.deletes.compiled import store

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.fixture(autouse=True)
def _empty_cache():
    CACHE.clear()
    yield
    CACHE.clear()


@pytest.fixture
def small_sets_are_kept(monkeypatch):
    """The host's cache keeps key tables that would be too small to pay."""
    monkeypatch.setattr(host_key_sets, "MIN_KEYS_TO_SHARE", 1)


@pytest.fixture
def small_sets_are_compiled(monkeypatch, small_sets_are_kept):
    """So does whoever compiles deletes."""
    monkeypatch.setattr(store, "MIN_KEYS_TO_KEEP", 1)


@pytest.fixture
def metadata_of() -> Callable[..., dict[str, Any]]:
    """Return `table_metadata`."""
    return table_metadata


@pytest.fixture
def write_table() -> Callable[..., Path]:
    """Return `write_metadata`."""
    return write_metadata
