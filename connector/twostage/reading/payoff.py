"""Whether each way of pruning has paid so far in a Spark task: a probe costs a read and a decode."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from twostage.metrics import Metrics

PROBES_PER_SUCCESS = 3
"""Row groups that a task probes before it gives up; each pruned one permits this many more."""


@dataclass(slots=True)
class Payoff:
    """How many row groups were probed in one way, and for how many that pruned enough.

    `given_up` is the report's text once it does not pay; ``{}`` stands for the number of probes.

    >>> Payoff("", probed=3, pruned=0).pays, Payoff("", probed=9, pruned=3).pays
    (False, True)
    """

    given_up: str
    probed: int = 0
    pruned: int = 0

    @property
    def pays(self) -> bool:
        """Whether another probe is worth its cost."""
        return self.probed < PROBES_PER_SUCCESS * (self.pruned + 1)

    def add(self, *, pruned: bool) -> None:
        """Add one probe, and whether it pruned enough."""
        self.probed += 1
        self.pruned += pruned

    def report(self, metrics: Metrics) -> None:
        """Report that this way of pruning was given up, if it was."""
        if not self.pays:
            metrics.choices[self.given_up.format(self.probed)] += 1


@dataclass(frozen=True, slots=True)
class Payoffs:
    """One `Payoff` for each way of pruning that costs a read."""

    dictionaries: Payoff = field(
        default_factory=lambda: Payoff("dictionaries no longer read: {} reads pruned too little")
    )
    page_indexes: Payoff = field(
        default_factory=lambda: Payoff("page indexes no longer read: {} reads pruned too little")
    )
    text_searches: Payoff = field(
        default_factory=lambda: Payoff("pages no longer searched for text: {} reads pruned too little")
    )
    small_columns: Payoff = field(
        default_factory=lambda: Payoff(
            "select columns no longer requested with filter columns: {} times too few rows matched"
        )
    )
    key_pages: Payoff = field(
        default_factory=lambda: Payoff(
            "pages no longer compared with delete keys: {} reads proved too little"
        )
    )
    before_deletes: Payoff = field(
        default_factory=lambda: Payoff(
            "columns no longer requested with equality deletes: {} times too few rows were left"
        )
    )
