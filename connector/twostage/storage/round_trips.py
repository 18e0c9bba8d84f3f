"""How many round trips to a store wait for each other: a logical clock for each thread of a task.

A request depends on all answers that its thread has used before, and on those used by threads that handed it
something. So each thread counts the longest chain behind what it knows; what it hands to another takes the count along
(L. Lamport, "Time, clocks, and the ordering of events in a distributed system", 1978). Chains are exact whatever the
machine does meanwhile: times are not looked at.
"""

from __future__ import annotations

import threading


class RoundTrips(threading.local):
    """The clock of a task's threads. Each of them sees and changes its own count, which begins at 0."""

    def __init__(self) -> None:
        self.behind = 0
        """Round trips, one after another, behind what the calling thread knows."""

    def reach(self, trips: int) -> None:
        """Count an answer as used, or something as taken over, with this many round trips behind it."""
        self.behind = max(self.behind, trips)
