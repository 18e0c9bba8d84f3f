"""The key sets that a worker process keeps, and what is known of each.

Takes key sets as they are loaded; tells what delete files they hold, under which name they are kept, and which of
them make keys of others redundant. The rule: a kept set serves only what building it again would serve.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from twostage.deletes.keys.key_columns import GLOBAL
from twostage.storage import files

if TYPE_CHECKING:
    from collections.abc import Iterable

    from twostage.deletes.keys.key_columns import KeyShape
    from twostage.deletes.keys.key_set import KeySet
    from twostage.task import DeleteFile, ScanContext


class SharedKeys:
    """A key set and the delete files whose keys it holds."""

    def __init__(self, key_set: KeySet) -> None:
        self.key_set = key_set
        self.files: dict[str, tuple[int, ...]] = {}
        self.members: frozenset[str] | None = None
        """The digests of all its delete files, if the set is the host's."""
        self.without: dict[str, tuple[int, ...]] = {}
        """The delete files whose shorter keys made some of these redundant."""

    def contradicts(self, deletes: Iterable[DeleteFile], covers: Iterable[Loaded]) -> bool:
        """Tell whether a file is not what it was: the table was made anew in the same place."""
        if any(self.files.get(delete.path, identity_of(delete)) != identity_of(delete) for delete in deletes):
            return True
        now = {path: known for cover in covers for path, known in cover.shared.files.items()}
        return any(now.get(path, known) != known for path, known in self.without.items())


@dataclass(frozen=True, slots=True, eq=False)
class Loaded:
    """A key set of the task, its shape and its scope."""

    shape: KeyShape
    scope: str | None
    shared: SharedKeys

    def covers(self, shape: KeyShape, scope: str | None) -> bool:
        """Tell whether its keys apply wherever keys of a shape and scope do, and are shorter."""
        if self.scope is None or scope is None or self.scope not in (scope, GLOBAL):
            return False
        return {key.field.id for key in self.shape.fields} < {key.field.id for key in shape.fields}


def identity_of(delete: DeleteFile) -> tuple[int, ...]:
    """Return what tells a delete file from another one at the same place."""
    return delete.file_size, delete.record_count, delete.sequence_number, files.modified(delete.path)


def cache_key(context: ScanContext, shape: KeyShape, scope: str) -> tuple[Any, ...]:
    """Name a key set among what the worker process keeps."""
    table = (context.table, context.storage.root, context.storage.moved_from, context.snapshot_id)
    # Keys that were read unverified must not serve a scan that verifies.
    given = context.settings
    settings = (given.kernels, given.dense_keys, given.simplify_keys, given.verify_checksums)
    return ("equality", *table, repr(context.name_mapping), shape.names, scope, settings)
