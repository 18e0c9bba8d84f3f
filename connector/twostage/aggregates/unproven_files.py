"""The files that must be read beside an answer from metadata, and whether it is worth to divide a query so.

Takes note of each file, proven or not; gives the names of those to read. The rule: a file is either in the answer or
among those to read, and a name stands for one file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from twostage.table.manifest_entry import ContentFile

MOST_UNREAD = 1_000
"""Files that are read beside an answer: planning carries their names."""
FEW_UNREAD = 16
"""Until so many are found, others are asked about whatever their size."""
MOST_MIXED = 100_000
"""Files that metadata answers for beside others: their names are held to see that none is listed twice."""
WORTH_MIXING = 64 * 2**20
"""Bytes of the files that metadata answers for: putting both together takes Spark two stages, as long as reading these."""


class UnprovenFiles:
    """The files that must be read although metadata answers for others."""

    def __init__(self, *, mix: bool) -> None:
        self._mix = mix
        self._proven: set[str] = set()
        self._proven_bytes = self._bytes = 0
        self.paths: list[str] = []
        self.num_proven = 0
        self.lacks = ""

    def goes_on(self, file: ContentFile, lacking: str | None) -> bool:
        """Take note of a file, which proves all or is lacking something; return whether to ask about others."""
        if lacking is None:
            self.num_proven += 1
            self._proven_bytes += file.file_size
            if self._mix:
                self._mix = self.num_proven <= MOST_MIXED and file.path not in self._proven
                self._proven.add(file.path)
            return self._mix or not self.paths
        self.lacks = self.lacks or lacking
        self.paths.append(file.path)
        self._bytes += file.file_size
        few = len(self.paths) <= MOST_UNREAD and (len(self.paths) <= FEW_UNREAD or self._weighs())
        return self._mix and few

    def _weighs(self) -> bool:
        """Tell whether metadata answers for half of the bytes at least."""
        return self._bytes <= self._proven_bytes

    @property
    def is_worth_it(self) -> bool:
        """Whether all are proven, or enough of the bytes; a file listed twice has two sets of deletes and one name."""
        if not self.paths:
            return True
        known = self._mix and self._proven.isdisjoint(self.paths) and len(set(self.paths)) == len(self.paths)
        return known and self._weighs() and self._proven_bytes >= WORTH_MIXING
