"""Loads the key sets of a task's equality deletes: from memory, from the host's cache, or from the delete files.

Takes a `ScanTask` with its deletes; gives `EqualityDeletes`. The rule: each delete file is opened once a worker, and
keys beyond `task-memory` end in an error that names the option.

The files of one set of equality ids and one scope share a `KeySet` that is kept per worker process: it grows by the
delete files that a task brings, and serves all data files, because the sequence rule is applied when it is asked.
"""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Any

from twostage.deletes.anti_join.build_from_deletes import AppliedSet, EqualityDeletes
from twostage.deletes.anti_join.host_key_sets import Request, planned_of, shared_keys
from twostage.deletes.anti_join.worker_key_sets import Loaded, SharedKeys, cache_key, identity_of
from twostage.deletes.cache.fingerprint import digest, of_delete, of_set
from twostage.deletes.cache.memory import CACHE
from twostage.deletes.files.ahead import ahead
from twostage.deletes.files.columns import fetch_ahead, read_columns
from twostage.deletes.files.wanted_fields import WantedField, corrupt
from twostage.deletes.keys.budget import Budget
from twostage.deletes.keys.encoding import KeyColumn, group_by_nulls
from twostage.deletes.keys.key_columns import KeyField, KeyShape, encode_delete, key_shape
from twostage.deletes.keys.key_set import KeySet
from twostage.deletes.keys.subsumed import Cover

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Mapping, Sequence

    from twostage.metrics import Metrics
    from twostage.task import DeleteFile, ScanContext, ScanTask

WORTH_A_THREAD = 500_000
"""Keys: to place fewer takes no longer than a few files' decoding."""
DECODED_AHEAD = 2
"""Batches of a delete file that may be decoded before their keys are placed."""
MAPPED_BYTES = 2**20
"""What a mapped key set counts for: it takes no private memory, but a descriptor and address space."""


def load_equality(context: ScanContext, task: ScanTask, metrics: Metrics) -> EqualityDeletes:
    """Load the equality deletes of a task, or take them from what the worker process keeps.

    Raises:
        CorruptFileError: A delete file's bytes are wrong, or it names no equality ids.
        ResourceLimitError: The keys take more than the task's memory; names the option to raise.
        UnsupportedFeatureError: An equality id is not of a primitive field.
    """
    groups = applied_groups(task, task.deletes)
    if not groups:
        return EqualityDeletes((), task.sequence_number)
    with CACHE.lock:
        return _Loader(context, metrics).load(groups, task)


def missing_keys(context: ScanContext, task: ScanTask) -> int:
    """Return how many keys of a task's equality deletes the worker process does not hold."""
    missing = 0
    for ids, scopes in applied_groups(task, task.deletes).items():
        for scope, deletes in scopes.items():
            shared = CACHE.get(cache_key(context, key_shape(context, task, ids, deletes[0]), scope))
            files = shared.files if isinstance(shared, SharedKeys) else {}
            missing += sum(delete.record_count for delete in deletes if delete.path not in files)
    return missing


def take_from_host(context: ScanContext, task: ScanTask, metrics: Metrics) -> None:
    """Let the worker process hold those keys of a task's equality deletes that the host's cache has built."""
    if context.settings.delete_cache == "host":
        with CACHE.lock:
            _Loader(context, metrics).take(applied_groups(task, task.deletes), task)


def applied_groups(
    task: ScanTask, deletes: Iterable[DeleteFile]
) -> dict[tuple[int, ...], dict[str, list[DeleteFile]]]:
    """Return the equality deletes among some of a task's, by their key columns and then by scope."""
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


def wanted_fields(fields: Iterable[KeyField]) -> list[WantedField]:
    """Return what to read of a delete file."""
    return [WantedField(field_id=key.field.id, names=key.names) for key in fields]


class _Loader:
    """Brings the key sets of one task up to date; the cache is locked meanwhile."""

    def __init__(self, context: ScanContext, metrics: Metrics) -> None:
        self._context = context
        self._metrics = metrics
        self._limit = context.settings.memory_budget
        self._used: dict[tuple[Any, ...], SharedKeys] = {}
        self._loaded: list[Loaded] = []

    def load(
        self, groups: Mapping[tuple[int, ...], Mapping[str, Sequence[DeleteFile]]], task: ScanTask
    ) -> EqualityDeletes:
        shapes: dict[tuple[int, ...], tuple[KeyShape, list[KeySet], list[tuple[int, ...]]]] = {}
        for ids, scopes in sorted(
            groups.items(), key=lambda group: len(group[0])
        ):  # short keys cover long ones
            for scope, deletes in scopes.items():
                shape = key_shape(self._context, task, ids, deletes[0])
                compared = tuple(key.field.id for key in shape.fields)
                _, key_sets, their_ids = shapes.setdefault(compared, (shape, [], []))
                key_sets.append(self._key_set(shape, scope, deletes))
                their_ids.append(ids)
        applied = [
            AppliedSet(shape.fields, tuple(key_sets), tuple(their_ids))
            for shape, key_sets, their_ids in shapes.values()
        ]
        return EqualityDeletes(applied, task.sequence_number)

    def take(
        self, groups: Mapping[tuple[int, ...], Mapping[str, Sequence[DeleteFile]]], task: ScanTask
    ) -> None:
        """Keep what the host's cache holds of the key sets that the worker lacks."""
        for ids, scopes in sorted(groups.items(), key=lambda group: len(group[0])):
            for scope, deletes in scopes.items():
                shape = key_shape(self._context, task, ids, deletes[0])
                key = cache_key(self._context, shape, scope)
                shared = CACHE.get(key)
                files = shared.files if isinstance(shared, SharedKeys) else {}
                if deletes[0].scope is not None and not all(delete.path in files for delete in deletes):
                    shared = self._from_host(key, shape, deletes, files, build=False)
                    if shared is not None:
                        self._keep(key, shared)
                if isinstance(shared, SharedKeys):
                    self._loaded.append(Loaded(shape, deletes[0].scope, shared))

    def _in_use(self) -> int:
        return sum(shared.key_set.nbytes for shared in self._used.values())

    def _key_set(self, shape: KeyShape, scope: str, deletes: Sequence[DeleteFile]) -> KeySet:
        """Return the shared key set of these files, after adding those that it lacks."""
        context = self._context
        key = cache_key(context, shape, scope)
        shared = CACHE.get(key)
        scoped = deletes[0].scope
        covers = self._covers(shape, scoped)
        if not isinstance(shared, SharedKeys) or shared.contradicts(deletes, covers):
            settings, budget = context.settings, Budget(self._limit, self._in_use)
            shared = SharedKeys(KeySet(budget, kernels=settings.kernels, dense=settings.dense_keys))
        shared.key_set.budget = Budget(self._limit, self._in_use)
        self._used[key] = shared
        missing = []
        for delete in deletes:
            if delete.path in shared.files:
                self._metrics.add("delete_files.cached")
            else:
                missing.append(delete)
        # While it grows it is out of the cache: keys half read must not serve another task.
        CACHE.drop(key)
        CACHE.make_room(self._limit - self._in_use(), keep=self._used)
        if missing and context.settings.delete_cache == "host" and scoped is not None:
            found = self._from_host(key, shape, deletes, shared.files)
            if found is not None:
                self._keep(key, found)
                self._loaded.append(Loaded(shape, scoped, found))
                return found.key_set
            self._used[key] = shared
        if missing:
            shared.members = None
            shared.without |= {path: one for cover in covers for path, one in cover.shared.files.items()}
        asked = [Cover(cover.shape, cover.shared.key_set) for cover in covers]
        self._add_files(shared.key_set, shape, missing, asked)
        shared.files |= {delete.path: identity_of(delete) for delete in missing}
        self._keep(key, shared)
        self._loaded.append(Loaded(shape, scoped, shared))
        return shared.key_set

    def _covers(self, shape: KeyShape, scope: str | None) -> list[Loaded]:
        """Return the key sets that may make keys of a shape and scope redundant."""
        if not self._context.settings.simplify_keys:
            return []
        return [one for one in self._loaded if one.covers(shape, scope)]

    def _keep(self, key: tuple[Any, ...], shared: SharedKeys) -> None:
        size = max(shared.key_set.nbytes, min(MAPPED_BYTES, self._limit // 64))
        CACHE.put(key, shared, size, limit=self._limit)

    def _from_host(
        self,
        key: tuple[Any, ...],
        shape: KeyShape,
        deletes: Sequence[DeleteFile],
        held: Mapping[str, Any],
        *,
        build: bool = True,
    ) -> SharedKeys | None:
        """Return a key set that the host's processes share, which holds these files; None where there is none.

        `held` are the paths of those that this process holds already: of them, too, it has shown its need.
        """
        context = self._context
        ids = {one.field.id: one for one in shape.every}
        # What is kept of keys depends on every file of the sets that cover them: of the host's, all are known.
        covers = [one for one in self._covers(shape, deletes[0].scope) if one.shared.members is not None]
        without = [(one.shape.names, one.scope, of_set(one.shared.members or ())) for one in covers]
        asked = [Cover(one.shape, one.shared.key_set) for one in covers]
        planned = planned_of(context.equality_deletes, deletes, deletes[0].scope, ids)

        def adopt(key_set: KeySet) -> None:
            self._used[key] = SharedKeys(key_set)

        request = Request(
            context=context,
            shape=(*shape.names, deletes[0].scope, *([digest(*without)] if without else [])),
            needed=[*deletes, *(one for one in planned if one.path in held)],
            planned=planned,
            budget=Budget(self._limit, self._in_use),
            add=lambda key_set, deletes: self._add_files(key_set, shape, deletes, asked),
            adopt=adopt,
            kinds=[key.kind for key in shape.fields],
            build=build,
        )
        found = shared_keys(request, self._metrics)
        if found is None:
            return None
        shared = self._used[key] = SharedKeys(found.key_set)
        shared.members = found.members
        shared.without = {path: one for cover in covers for path, one in cover.shared.files.items()}
        shared.files = {
            delete.path: identity_of(delete) for delete in planned if of_delete(delete) in found.members
        }
        return shared

    def _add_files(
        self, key_set: KeySet, shape: KeyShape, deletes: Sequence[DeleteFile], covers: Sequence[Cover]
    ) -> None:
        """Add the keys of some delete files. Of many keys, the next are decoded while these find their place."""
        expected = sum(delete.record_count for delete in deletes)
        batches = self._batches(shape, deletes)
        if expected >= WORTH_A_THREAD and self._context.settings.prefetch:
            batches = ahead(batches, DECODED_AHEAD)
        current: DeleteFile | None = None
        with closing(batches):
            for delete, num_rows, given, given_count in batches:
                if delete is not current:
                    expected -= 0 if current is None else current.record_count
                    current = delete
                columns, count = given, given_count
                for cover in covers:
                    columns, count = cover.left(shape, columns, count, delete.sequence_number)
                key_set.insert(group_by_nulls(columns, count), delete.sequence_number, expected)
                self._metrics.add("delete_keys.redundant", given_count - count)
                self._metrics.add("delete_keys.loaded", num_rows)
                self._metrics.add("delete_keys.folded", num_rows if shape.fixed else 0)

    def _batches(
        self, shape: KeyShape, deletes: Sequence[DeleteFile]
    ) -> Generator[tuple[DeleteFile, int, Sequence[KeyColumn], int], None, None]:
        """Yield the delete files' batches: how many keys, and the columns to compare of those that are left."""
        wanted = wanted_fields(shape.every)
        with closing(fetch_ahead(self._context, deletes)) as fetched:
            for delete, content in fetched:
                for num_rows, arrays in read_columns(
                    self._context, delete, wanted, self._metrics, content=content
                ):
                    encoded = encode_delete(arrays, shape.every, num_rows, delete)
                    yield delete, num_rows, *shape.compared(encoded, num_rows)
