"""What the report says of a scan's tasks."""

from __future__ import annotations

from dataclasses import fields

import pytest

from twostage.report.tasks import TaskStates

STATES = [field.name for field in fields(TaskStates)]
INCOMPLETE = {"running", "unknown", "unsure"}
EARLY = {"limited", "stopped", "killed", "failed", "running", "not_started", "unknown"}


@pytest.mark.parametrize("state", STATES)
def test_one_task_in_a_state_is_enough(state: str) -> None:
    """Metrics are complete unless some are to come; a scan ended early unless all its tasks read everything."""
    states = TaskStates(**{"finished": 3, state: 1})
    assert states.is_known == (state not in INCOMPLETE)
    assert states.ended_early == (state in EARLY)


@pytest.mark.parametrize(
    ("counts", "planned", "text"),
    [
        ({"finished": 4}, 4, "4 of 4 reported"),
        ({"limited": 1, "not_started": 3}, 4, "1 of 4 reported, stopped early by LIMIT; 3 not started"),
        ({"finished": 1, "limited": 1}, 2, "2 of 2 reported, 1 of them stopped early by LIMIT"),
        (
            {"stopped": 2_000, "killed": 1},
            2_001,
            (
                "2,001 of 2,001 reported, 2,000 of them stopped early: Spark had its rows (LIMIT, take, show), "
                "1 of them killed by Spark"
            ),
        ),
        ({"failed": 1, "running": 1}, 2, "2 of 2 reported, 1 of them failed, 1 of them still running"),
        (
            {"finished": 1, "not_started": 2, "unknown": 3},
            6,
            "1 of 6 reported; 2 not started; 3 unknown: stopped early, or not started",
        ),
        ({}, 0, "0 of 0 reported"),
    ],
)
def test_described(counts: dict[str, int], planned: int, text: str) -> None:
    assert TaskStates(**counts).described(planned) == text
