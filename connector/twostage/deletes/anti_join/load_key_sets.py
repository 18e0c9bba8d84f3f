"""Loads the key sets of a task's equality deletes: from the worker's memory, the host's cache or the delete files.

Takes a `ScanTask` with its deletes; returns `EqualityDeletes`. The rule: each delete file is opened once per
worker, and keys that exceed ``task-memory`` raise an error that names the option.

Delete files with the same equality ids and scope share a `KeySet`, which the worker process caches: it grows
by the delete files that a task adds, and serves all data files, because each probe compares the sequence
number.

Benefit of decoding delete files in a thread while earlier keys are inserted: "decoding ahead" in
docs/benchmarks-deletes.md.
"""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

from twostage.deletes.anti_join.build_from_deletes import ApplicableKeySets, EqualityDeletes
from twostage.deletes.anti_join.host_key_sets import (
    MIN_KEYS_TO_SHARE,
    HostKeySetRequest,
    find_host_key_set,
    planned_deletes,
)
from twostage.deletes.anti_join.worker_key_sets import ScopedKeySet, WorkerKeySet
from twostage.deletes.cache import fingerprint
from twostage.deletes.cache.memory import CACHE
from twostage.deletes.files.ahead import ahead
from twostage.deletes.files.columns import read_columns
from twostage.deletes.files.contents import fetch_ahead
from twostage.deletes.files.wanted_fields import WantedField, corrupt
from twostage.deletes.keys.budget import Budget
from twostage.deletes.keys.encoding import KeyColumn, group_by_nulls
from twostage.deletes.keys.key_columns import KeyField, KeyShape, encode_delete, key_shape
from twostage.deletes.keys.key_set import KeySet
from twostage.deletes.keys.subsumed import CoveringKeys

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Mapping, Sequence

    from twostage.deletes.files.contents import DeleteContents
    from twostage.metrics import Metrics
    from twostage.task import DeleteFile, ScanContext, ScanTask

    DeletesByScope = Mapping[str, Sequence[DeleteFile]]

MIN_KEYS_TO_DECODE_AHEAD = 500_000
"""Inserting fewer keys takes no longer than decoding a few delete files."""
MAX_BATCHES_AHEAD = 2
"""Decoded batches of keys that may wait to be inserted."""
MAX_BYTES_TO_FETCH_TWICE = 4 * 2**20
"""Of delete files that two workers of a host both fetch if they need them at the same time: about what
arrives within the store's latency. If there are more, one worker fetches them while the other waits for the
set that it builds."""
MAPPED_BYTES = 2**20
"""Bytes that a mapped key set counts as in the worker's memory: it has no private bytes, but takes a
descriptor and address space."""


def load_equality(
    context: ScanContext, task: ScanTask, metrics: Metrics, contents: DeleteContents | None = None
) -> EqualityDeletes:
    """Load the equality deletes of a task, or take them from the worker process's cache.

    Args:
        context: The scan.
        task: The task; its deletes of other kinds are ignored.
        metrics: Gains ``delete_files.*`` and ``delete_keys.*``.
        contents: Reads remote delete files, if the task schedules its own reads. Files that `await_contents`
            has fetched are not waited for while the cache's lock is held.

    Raises:
        CorruptFileError: A delete file's bytes are wrong, or it names no equality ids.
        ResourceLimitError: The keys take more than the task's memory; names the option to raise.
        UnsupportedFeatureError: An equality id is not of a primitive field.
    """
    groups = group_by_scope(task, task.deletes)
    if not groups:
        return EqualityDeletes((), task.sequence_number)
    with CACHE.lock:
        return _Loader(context, metrics, contents).load(groups, task)


def missing_files(context: ScanContext, task: ScanTask) -> list[DeleteFile]:
    """Return the task's equality deletes whose keys the worker process does not hold."""
    missing: list[DeleteFile] = []
    for ids, scopes in group_by_scope(task, task.deletes).items():
        for scope, deletes in scopes.items():
            shape = key_shape(context, task, ids, deletes[0])
            kept = CACHE.get(fingerprint.of_key_set(context, shape.names, scope))
            files = kept.files if isinstance(kept, WorkerKeySet) else {}
            missing += [delete for delete in deletes if delete.path not in files]
    return missing


def count_missing_keys(context: ScanContext, task: ScanTask) -> int:
    """Return how many keys of a task's equality deletes the worker process does not hold."""
    return sum(delete.record_count for delete in missing_files(context, task))


def await_contents(
    context: ScanContext, task: ScanTask, metrics: Metrics, contents: DeleteContents
) -> list[DeleteFile]:
    """Fetch the small delete files whose keys are to be loaded, and return them; the wait holds no lock.

    None is fetched if the host's cache has their keys; if another process may be building them now, files are
    fetched only if they are small enough to arrive within one request's latency.
    """
    missing = missing_files(context, task)
    planned = sum(delete.record_count for delete in (*context.equality_deletes, *missing))
    if missing and context.settings.delete_cache == "host" and planned >= MIN_KEYS_TO_SHARE:
        if sum(delete.file_size for delete in missing) > MAX_BYTES_TO_FETCH_TWICE:
            return []
        map_from_host(context, task, metrics)
        missing = missing_files(context, task)
    contents.await_whole(missing)
    return missing


def map_from_host(context: ScanContext, task: ScanTask, metrics: Metrics) -> None:
    """Map the keys of a task's equality deletes that are in the host's cache; build none."""
    if context.settings.delete_cache == "host":
        with CACHE.lock:
            _Loader(context, metrics).map(group_by_scope(task, task.deletes), task)


def group_by_scope(
    task: ScanTask, deletes: Iterable[DeleteFile]
) -> dict[tuple[int, ...], dict[str, list[DeleteFile]]]:
    """Return the equality deletes among a task's `deletes`, by sorted equality ids, then by scope."""
    groups: dict[tuple[int, ...], dict[str, list[DeleteFile]]] = {}
    for delete in deletes:
        if delete.content != "equality":
            continue
        if not delete.equality_ids:
            raise corrupt(delete, "Equality-delete file names no equality ids")
        scopes = groups.setdefault(tuple(sorted(set(delete.equality_ids))), {})
        scopes.setdefault(_scope(delete, task), []).append(delete)
    return groups


def _scope(delete: DeleteFile, task: ScanTask) -> str:
    """Name the delete files that may share a key set: those that always apply together."""
    if delete.scope is not None:
        return f"scope {delete.scope}"
    return f"list {sorted(one.path for one in task.deletes if one.content == 'equality')}"


def fields_to_read(fields: Iterable[KeyField]) -> list[WantedField]:
    """Return what to read of a delete file: its key columns."""
    return [WantedField(field_id=key.field.id, names=key.names) for key in fields]


class _Loader:
    """Brings the key sets of one task up to date; the cache is locked meanwhile."""

    def __init__(
        self, context: ScanContext, metrics: Metrics, contents: DeleteContents | None = None
    ) -> None:
        self._contents = contents
        self._context = context
        self._metrics = metrics
        self._limit = context.settings.memory_budget
        self._used: dict[str, WorkerKeySet] = {}
        self._loaded: list[ScopedKeySet] = []

    def load(self, groups: Mapping[tuple[int, ...], DeletesByScope], task: ScanTask) -> EqualityDeletes:
        shapes: dict[tuple[int, ...], tuple[KeyShape, list[KeySet], list[tuple[int, ...]]]] = {}
        for ids, scopes in _shortest_first(groups):
            for scope, deletes in scopes.items():
                shape = key_shape(self._context, task, ids, deletes[0])
                compared = tuple(key.field.id for key in shape.fields)
                _, key_sets, their_ids = shapes.setdefault(compared, (shape, [], []))
                key_sets.append(self._key_set(shape, scope, deletes))
                their_ids.append(ids)
        applicable = [
            ApplicableKeySets(shape.fields, tuple(key_sets), tuple(their_ids))
            for shape, key_sets, their_ids in shapes.values()
        ]
        return EqualityDeletes(applicable, task.sequence_number)

    def map(self, groups: Mapping[tuple[int, ...], DeletesByScope], task: ScanTask) -> None:
        """Keep the key sets that the worker lacks and the host's cache holds."""
        for ids, scopes in _shortest_first(groups):
            for scope, deletes in scopes.items():
                shape = key_shape(self._context, task, ids, deletes[0])
                key = fingerprint.of_key_set(self._context, shape.names, scope)
                kept = CACHE.get(key)
                files = kept.files if isinstance(kept, WorkerKeySet) else {}
                if deletes[0].scope is not None and not all(delete.path in files for delete in deletes):
                    kept = self._from_host(key, shape, deletes, files, may_build=False)
                    if kept is not None:
                        self._keep(key, kept)
                if isinstance(kept, WorkerKeySet):
                    self._loaded.append(ScopedKeySet(shape, deletes[0].scope, kept))

    def _in_use(self) -> int:
        return sum(kept.key_set.nbytes for kept in self._used.values())

    def _key_set(self, shape: KeyShape, scope: str, deletes: Sequence[DeleteFile]) -> KeySet:
        """Return the cached key set of these files, after adding those that it lacks."""
        context = self._context
        key = fingerprint.of_key_set(context, shape.names, scope)
        fingerprints = {delete.path: fingerprint.of_delete(delete) for delete in deletes}
        kept = CACHE.get(key)
        shared_scope = deletes[0].scope
        covers = self._covers(shape, shared_scope)
        if not isinstance(kept, WorkerKeySet) or kept.contradicts(fingerprints, covers):
            settings, budget = context.settings, Budget(self._limit, self._in_use)
            kept = WorkerKeySet(KeySet(budget, kernels=settings.kernels, dense=settings.dense_keys))
        kept.key_set.budget = Budget(self._limit, self._in_use)
        self._used[key] = kept
        missing = [delete for delete in deletes if delete.path not in kept.files]
        if len(missing) < len(deletes):
            self._metrics.add("delete_files.cached", len(deletes) - len(missing))
        # Not in the cache while it grows: half-read keys must not be used by another task.
        CACHE.drop(key)
        CACHE.make_room(self._limit - self._in_use(), keep=self._used)
        if missing and context.settings.delete_cache == "host" and shared_scope is not None:
            found = self._from_host(key, shape, deletes, kept.files)
            if found is not None:
                self._keep(key, found)
                self._loaded.append(ScopedKeySet(shape, shared_scope, found))
                return found.key_set
            self._used[key] = kept
        if missing:
            kept.members = None
            kept.covering_files |= _files_of(covers)
        covering = [CoveringKeys(cover.shape, cover.kept.key_set) for cover in covers]
        self._add_files(kept.key_set, shape, missing, covering)
        kept.files |= {delete.path: fingerprints[delete.path] for delete in missing}
        self._keep(key, kept)
        self._loaded.append(ScopedKeySet(shape, shared_scope, kept))
        return kept.key_set

    def _covers(self, shape: KeyShape, scope: str | None) -> list[ScopedKeySet]:
        """Return the key sets that may make keys of a shape and scope redundant."""
        if not self._context.settings.simplify_keys:
            return []
        return [one for one in self._loaded if one.covers(shape, scope)]

    def _keep(self, key: str, kept: WorkerKeySet) -> None:
        size = max(kept.key_set.nbytes, min(MAPPED_BYTES, self._limit // 64))
        CACHE.put(key, kept, size, limit=self._limit)

    def _from_host(
        self,
        key: str,
        shape: KeyShape,
        deletes: Sequence[DeleteFile],
        known_paths: Mapping[str, str],
        *,
        may_build: bool = True,
    ) -> WorkerKeySet | None:
        """Return a key set from the host's cache that holds these files; None if there is none.

        Args:
            key: Its name in the worker's memory.
            shape: The shape of its keys.
            deletes: The delete files that it must hold.
            known_paths: Paths of the delete files that this process already holds: they must be in the set
                too.
            may_build: Whether to build it if the cache does not hold it.
        """
        context = self._context
        ids = {one.field.id: one for one in shape.every}
        # Which keys are redundant depends on every file of the covering sets: only for the host's sets are
        # all known.
        covers = [one for one in self._covers(shape, deletes[0].scope) if one.kept.members is not None]
        covered_by = [
            (one.shape.names, one.scope, fingerprint.of_set(one.kept.members or ())) for one in covers
        ]
        covering = [CoveringKeys(one.shape, one.kept.key_set) for one in covers]
        planned = planned_deletes(context.equality_deletes, deletes, deletes[0].scope, ids)

        def adopt(key_set: KeySet) -> None:
            self._used[key] = WorkerKeySet(key_set)

        names = *shape.names, deletes[0].scope, *([fingerprint.digest(*covered_by)] if covered_by else [])
        request = HostKeySetRequest(
            context=context,
            shape=names,
            needed=[*deletes, *(one for one in planned if one.path in known_paths)],
            planned=planned,
            budget=Budget(self._limit, self._in_use),
            add=lambda key_set, deletes: self._add_files(key_set, shape, deletes, covering),
            adopt=adopt,
            kinds=[key.kind for key in shape.fields],
            may_build=may_build,
        )
        found = find_host_key_set(request, self._metrics)
        if found is None:
            return None
        kept = self._used[key] = WorkerKeySet(found.key_set)
        kept.members = found.members
        kept.covering_files = _files_of(covers)
        named = {delete.path: fingerprint.of_delete(delete) for delete in planned}
        kept.files = {path: name for path, name in named.items() if name in found.members}
        return kept

    def _add_files(
        self,
        key_set: KeySet,
        shape: KeyShape,
        deletes: Sequence[DeleteFile],
        covering: Sequence[CoveringKeys],
    ) -> None:
        """Add the keys of some delete files; if they are many, a thread meanwhile decodes the next ones."""
        expected = sum(delete.record_count for delete in deletes)
        batches = self._batches(shape, deletes)
        if expected >= MIN_KEYS_TO_DECODE_AHEAD and self._context.settings.prefetch:
            batches = ahead(batches, MAX_BATCHES_AHEAD)
        current: DeleteFile | None = None
        with closing(batches):
            for delete, num_rows, given, given_count in batches:
                if delete is not current:
                    expected -= 0 if current is None else current.record_count
                    current = delete
                columns, count = given, given_count
                for cover in covering:
                    columns, count = cover.remaining(shape, columns, count, delete.sequence_number)
                key_set.insert(group_by_nulls(columns, count), delete.sequence_number, expected)
                self._metrics.add("delete_keys.redundant", given_count - count)
                self._metrics.add("delete_keys.loaded", num_rows)
                self._metrics.add("delete_keys.folded", num_rows if shape.fixed else 0)

    def _batches(
        self, shape: KeyShape, deletes: Sequence[DeleteFile]
    ) -> Generator[tuple[DeleteFile, int, Sequence[KeyColumn], int], None, None]:
        """Yield the delete files' batches: the number of rows, the columns to compare, and how many keys remain."""
        wanted = fields_to_read(shape.every)
        with closing(fetch_ahead(self._context, deletes, self._contents, are_loaded=True)) as fetched:
            for delete, content in fetched:
                for num_rows, arrays in read_columns(
                    self._context, delete, wanted, self._metrics, content=content
                ):
                    encoded = encode_delete(arrays, shape.every, num_rows, delete)
                    yield delete, num_rows, *shape.compared(encoded, num_rows)


def _shortest_first(
    groups: Mapping[tuple[int, ...], DeletesByScope],
) -> list[tuple[tuple[int, ...], DeletesByScope]]:
    """Return the groups with fewer key columns first: their keys may make longer ones redundant."""
    return sorted(groups.items(), key=lambda group: len(group[0]))


def _files_of(covers: Iterable[ScopedKeySet]) -> dict[str, str]:
    return {path: known for cover in covers for path, known in cover.kept.files.items()}
