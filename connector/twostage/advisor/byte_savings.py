"""The bytes that every set of indexes would save the log's scans, as votes for sets of columns.

Takes emulated scans; returns one vote per set of filter columns, whose alternatives are its subsets. The
rules: a subset counts with its savings summed over all scans, not scan by scan; a subset that saves no more
than a smaller one within it is no alternative.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from twostage.advisor.votes import Alternative, Vote

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from twostage.advisor.byte_model import Emulation

MAX_COLUMNS = 4
"""Filter columns of a scan, the first evaluated, whose subsets are emulated: 16 times 0.3 ms."""
MAX_ALTERNATIVES = 8
"""Per vote: choosing among n takes 2**n sums."""


@dataclass(slots=True, eq=False)
class ByteSavings:
    """The bytes that sets of indexes save, summed over scans.

    Args:
        existing: The kinds of existing indexes, by column; savings are on top of theirs.
    """

    existing: Mapping[str, tuple[str, ...]]
    _sums: dict[tuple[str, ...], dict[frozenset[str], float]] = field(default_factory=dict)

    def add(
        self, emulation: Emulation, columns: Sequence[str], kinds: Mapping[str, tuple[str, ...]], count: int
    ) -> None:
        """Add scans.

        Args:
            emulation: Represents all of them.
            columns: Its filter columns that may be indexed, in the order of evaluation.
            kinds: The kinds of index that each column would get.
            count: How many scans there are.
        """
        without = emulation.saved(self.existing)
        if without is None:
            return
        own = tuple(sorted(columns[:MAX_COLUMNS]))
        sums = self._sums.setdefault(own, {})
        for size in range(1, len(own) + 1):
            for chosen in itertools.combinations(own, size):
                with_chosen = {**{name: kinds.get(name, ()) for name in chosen}, **self.existing}
                saved = (emulation.saved(with_chosen) or 0.0) - without
                subset = frozenset(chosen)
                sums[subset] = sums.get(subset, 0.0) + saved * count

    @property
    def votes(self) -> list[Vote]:
        """The sums, in bytes; without alternatives that save nothing."""
        return [
            Vote(alternatives=tuple(found)) for sums in self._sums.values() if (found := _alternatives(sums))
        ]


def _alternatives(sums: Mapping[frozenset[str], float]) -> list[Alternative]:
    """Return the subsets that save more than any within them, the best first: single columns, and the best rest."""
    kept: list[Alternative] = []
    for subset, saved in sums.items():  # smaller ones come first
        if saved > max((one.saved for one in kept if one.columns < subset), default=0.0):
            kept.append(Alternative(columns=subset, saved=saved))
    kept.sort(key=lambda one: (len(one.columns) > 1, -one.saved))
    return sorted(kept[:MAX_ALTERNATIVES], key=lambda one: -one.saved)
