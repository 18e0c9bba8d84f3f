"""The files that Spark must read in addition to an answer from metadata, and whether mixing both is worthwhile.

Records for each file whether its metadata proves the result; collects the paths of the others. Each file is either
covered by the answer or to be read, never both, and each path stands for one file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from twostage.table.manifest_entry import ContentFile

MAX_UNPROVEN_FILES = 1_000
"""Files to read in addition to an answer; planning carries their paths."""
MIN_UNPROVEN_FILES_TO_WEIGH = 16
"""Unproven files up to which the remaining files are examined whatever their share of the bytes."""
MAX_PROVEN_FILES_TO_MIX = 100_000
"""Files that metadata answers for in a mixed query; their paths are kept to detect one that is listed twice."""
MIN_PROVEN_BYTES_TO_MIX = 64 * 2**20
"""Bytes of the files that metadata answers for: combining both parts costs Spark a second stage, about as long as
reading this much."""


class UnprovenFiles:
    """Collects the files whose metadata proves too little.

    Args:
        mix: Whether the query may be answered partly from metadata and partly by reading files.

    Attributes:
        paths: The files to read, as in manifests.
        num_proven: How many files metadata answers for.
        lacks: Why the first of `paths` must be read.
    """

    def __init__(self, *, mix: bool) -> None:
        self._mix = mix
        self._proven: set[str] = set()
        self._proven_bytes = self._bytes = 0
        self.paths: list[str] = []
        self.num_proven = 0
        self.lacks = ""

    def add(self, file: ContentFile, lacking: str | None) -> bool:
        """Record a file, with what its metadata is `lacking`, if anything; return whether to examine further files."""
        if lacking is None:
            self.num_proven += 1
            self._proven_bytes += file.file_size
            if self._mix:
                self._mix = self.num_proven <= MAX_PROVEN_FILES_TO_MIX and file.path not in self._proven
                self._proven.add(file.path)
            return self._mix or not self.paths
        self.lacks = self.lacks or lacking
        self.paths.append(file.path)
        self._bytes += file.file_size
        is_early = len(self.paths) <= MIN_UNPROVEN_FILES_TO_WEIGH
        is_mixable = len(self.paths) <= MAX_UNPROVEN_FILES and (is_early or self._proves_half_of_bytes())
        return self._mix and is_mixable

    def _proves_half_of_bytes(self) -> bool:
        """Return whether metadata answers for at least half of the bytes."""
        return self._bytes <= self._proven_bytes

    @property
    def is_worth_mixing(self) -> bool:
        """Whether all files are proven, or enough of the bytes.

        A path that is listed twice prevents mixing: its two entries may have different deletes.
        """
        if not self.paths:
            return True
        known = self._mix and self._proven.isdisjoint(self.paths) and len(set(self.paths)) == len(self.paths)
        return known and self._proves_half_of_bytes() and self._proven_bytes >= MIN_PROVEN_BYTES_TO_MIX
