"""The bytes that key tables may take: asked before memory is taken, and an error that names the option."""

from __future__ import annotations

from twostage.deletes.keys.budget import Budget


def test_what_is_in_use_counts() -> None:
    taken = [60]
    budget = Budget(100, lambda: taken[0])
    assert budget.allows(40)
    assert not budget.allows(41)
    taken[0] = 0
    assert budget.allows(100)


def test_the_error_tells_limit_need_and_option() -> None:
    error = Budget(100, lambda: 60).refuse(50)
    assert error.code == "DELETE_KEYS_TOO_LARGE"
    assert "100 bytes: 110" in str(error)
    assert "'task-memory'" in str(error)
