"""How often a task repeats requests, and after which pause.

A failed request is repeated a few times; a store that asks for less is asked again until it has answered nothing for a
minute. The rule: repetitions end, whatever the store does; and many requests that fail at the same time end sooner than
each of them would alone.
Source: AWS Architecture Blog, "Exponential Backoff And Jitter" (full jitter).
"""

from __future__ import annotations

import random
import time

MOST_ATTEMPTS = {"broken": 6, "timeout": 3, "throttled": 1_000}
"""Of one request, by the kind of its last failure."""
PATIENCE_SECONDS = 60.0
"""A store that throttles and answers no request of the task for so long has failed."""
FIRST_PAUSE = 0.1
LONGEST_PAUSE = {"broken": 8.0, "timeout": 8.0, "throttled": 2.0}
"""After throttling it is the window that keeps requests back."""
FREE_RETRIES = 32
"""Of a task, throttled requests not counted; more are allowed in proportion to its answers."""
RETRIES_PER_ANSWER = 0.25


class RetryBudget:
    """The budget of one task. Its methods are called in the event loop's thread."""

    def __init__(self) -> None:
        self._left = float(FREE_RETRIES)
        self._answered_at = time.monotonic()

    def answered(self) -> None:
        """Note that the store answered a request."""
        self._left = min(FREE_RETRIES * 8, self._left + RETRIES_PER_ANSWER)
        self._answered_at = time.monotonic()

    def pause(self, kind: str, attempt: int) -> float | None:
        """Return the seconds to wait before the next attempt, None if there is to be none.

        Args:
            kind: How the attempt failed: ``broken``, ``timeout`` or ``throttled``.
            attempt: Its number, from 1.
        """
        if attempt >= MOST_ATTEMPTS[kind]:
            return None
        if kind == "throttled":
            if time.monotonic() - self._answered_at > PATIENCE_SECONDS:
                return None
        elif self._left < 1:
            return None
        else:
            self._left -= 1
        longest = min(LONGEST_PAUSE[kind], FIRST_PAUSE * 2 ** min(attempt, 10))
        return random.uniform(0.0, longest)  # noqa: S311 - not for secrecy
