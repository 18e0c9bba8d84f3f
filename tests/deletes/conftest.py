"""What this folder's tests begin with: an empty cache; and, by name, caches that keep sets of any size."""

from __future__ import annotations

import pytest

from twostage.deletes.anti_join import host_key_sets
from twostage.deletes.cache.memory import CACHE
from twostage.deletes.compiled import store


@pytest.fixture(autouse=True)
def _empty_cache():
    CACHE.clear()
    yield
    CACHE.clear()


@pytest.fixture
def small_sets_are_kept(monkeypatch):
    """The host's cache keeps key tables that would be too small to pay."""
    monkeypatch.setattr(host_key_sets, "MIN_KEYS", 1)


@pytest.fixture
def small_sets_are_compiled(monkeypatch, small_sets_are_kept):
    """So does whoever compiles deletes."""
    monkeypatch.setattr(store, "MIN_KEYS", 1)
