"""What these tests begin with: nothing known, and whatever is found out is kept, however little it saves."""

from __future__ import annotations

import pytest

from twostage.reading.conditions import kept


@pytest.fixture(autouse=True)
def _everything_is_kept(monkeypatch):
    monkeypatch.setattr(kept.ConditionAnswer, "is_worth_keeping", True)
    monkeypatch.setattr(kept, "MIN_BYTES_SAVED_FOR_A_FILE", 0)
    kept.KEPT.clear()
    yield
    kept.KEPT.clear()
