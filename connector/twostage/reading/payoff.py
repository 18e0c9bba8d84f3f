"""Whether a way of pruning has paid so far in a task."""

from __future__ import annotations

from dataclasses import dataclass

PATIENCE = 3
"""Row groups for which it may be asked in vain before a task stops asking."""


@dataclass(slots=True)
class Payoff:
    """How often a way of pruning was asked, and how often it pruned; asking costs a read and a decode.

    >>> Payoff(asked=3, pruned=0).pays, Payoff(asked=9, pruned=3).pays
    (False, True)
    """

    asked: int = 0
    pruned: int = 0

    @property
    def pays(self) -> bool:
        """Whether asking again is worth it."""
        return self.pruned * PATIENCE >= self.asked - PATIENCE + 1
