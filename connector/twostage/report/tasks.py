"""The fate of a scan's tasks, for its report: how many finished, stopped early, failed or were never started."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskStates:
    """How many of a scan's tasks are in each state.

    Attributes:
        finished: Read everything they were planned to read.
        limited: Returned as many rows as a LIMIT needs, and read no further.
        stopped: Spark stopped reading from them because it had enough rows.
        killed: Killed by Spark: the query was cancelled or failed elsewhere, or another attempt finished first.
        failed: Ended by an error.
        running: Still running.
        not_started: Not started: Spark had enough rows before, the query ended, or they are still queued.
        unknown: Nothing was reported about them: they were stopped, were not started, or are running.
        unsure: Of all these, the tasks that reported metrics, but not their final ones.
    """

    finished: int = 0
    limited: int = 0
    stopped: int = 0
    killed: int = 0
    failed: int = 0
    running: int = 0
    not_started: int = 0
    unknown: int = 0
    unsure: int = 0

    @property
    def is_known(self) -> bool:
        """Whether the metrics are complete."""
        return not (self.unknown or self.running or self.unsure)

    @property
    def ended_early(self) -> bool:
        """Whether something that was planned was not read, or may not have been."""
        early = self.limited + self.stopped + self.killed + self.failed
        return bool(early + self.running + self.not_started + self.unknown)

    def described(self, planned: int) -> str:
        """Describe `planned` tasks: ``1 of 4 reported, stopped early by LIMIT; 3 not started``."""
        reported = planned - self.not_started - self.unknown
        ends = (
            (self.limited, "stopped early by LIMIT"),
            (self.stopped, "stopped early: Spark had its rows (LIMIT, take, show)"),
            (self.killed, "killed by Spark"),
            (self.failed, "failed"),
            (self.running, "still running"),
        )
        states = [
            text if count == reported == 1 else f"{count:,} of them {text}" for count, text in ends if count
        ]
        text = ", ".join([f"{reported:,} of {planned:,} reported", *states])
        if self.not_started:
            text += f"; {self.not_started:,} not started"
        if self.unknown:
            text += f"; {self.unknown:,} unknown: stopped early, or not started"
        return text
