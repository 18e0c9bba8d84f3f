"""What this folder's tests begin with: an empty cache; and, by name, caches that keep sets of any size."""

from __future__ import annotations

import pytest

from twostage.deletes import compiled, host_keys
from twostage.deletes.cache import CACHE


@pytest.fixture(autouse=True)
def _empty_cache():
    CACHE.clear()
    yield
    CACHE.clear()


@pytest.fixture
def small_sets_are_kept(monkeypatch):
    """The host's cache keeps key tables that would be too small to pay."""
    monkeypatch.setattr(host_keys, "MIN_KEYS", 1)


@pytest.fixture
def small_sets_are_compiled(monkeypatch, small_sets_are_kept):
    """So does whoever compiles deletes."""
    monkeypatch.setattr(compiled, "MIN_KEYS", 1)
