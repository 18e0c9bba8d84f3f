"""The key sets that a worker process caches between tasks, and what each is known to hold.

Takes key sets as they are loaded; tells which delete files they hold, whether these are unchanged, and which
sets make keys of others redundant. The rule: a cached set is used only if building it again would give the
same.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from twostage.deletes.keys.key_columns import GLOBAL

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from twostage.deletes.keys.key_columns import KeyShape
    from twostage.deletes.keys.key_set import KeySet


class WorkerKeySet:
    """A key set and the delete files whose keys it holds.

    Attributes:
        key_set: The keys.
        files: The fingerprint of each of its delete files, by path.
        members: The fingerprints of all its delete files, if the set is from the host's cache; else None.
        covering_files: The fingerprint, by path, of each delete file whose shorter keys made some of these
            keys redundant.
    """

    def __init__(self, key_set: KeySet) -> None:
        self.key_set = key_set
        self.files: dict[str, str] = {}
        self.members: frozenset[str] | None = None
        self.covering_files: dict[str, str] = {}

    def contradicts(self, fingerprints: Mapping[str, str], covers: Iterable[ScopedKeySet]) -> bool:
        """Tell whether a delete file has changed, because a table was recreated in the same place.

        Args:
            fingerprints: Of the delete files that the task needs, by path.
            covers: The sets that may make keys of this one redundant, as they are now.
        """
        if any(self.files.get(path, known) != known for path, known in fingerprints.items()):
            return True
        now = {path: known for cover in covers for path, known in cover.kept.files.items()}
        return any(now.get(path, known) != known for path, known in self.covering_files.items())


@dataclass(frozen=True, slots=True, eq=False)
class ScopedKeySet:
    """A key set of a task, the shape of its keys and the scope of its delete files (None: unknown)."""

    shape: KeyShape
    scope: str | None
    kept: WorkerKeySet

    def covers(self, shape: KeyShape, scope: str | None) -> bool:
        """Tell whether its keys have fewer columns than `shape`, and apply wherever keys of `scope` do."""
        if self.scope is None or scope is None or self.scope not in (scope, GLOBAL):
            return False
        return {key.field.id for key in self.shape.fields} < {key.field.id for key in shape.fields}
