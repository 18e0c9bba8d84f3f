"""Equality deletes: which rows have a key that a later delete file names.

Takes a `ScanTask` with its deletes, then the key columns of data rows; gives a bool per row. The rule: a row
is deleted exactly if its values in the equality columns equal those of a row of an applicable delete file
with a strictly higher sequence number. Equal means what Iceberg-Java's comparators say: NULL equals NULL,
NaN equals NaN, and -0.0 does NOT equal 0.0 (see `keys`). A NULL struct makes its fields NULL.

The files of one set of equality ids and one scope share a `KeySet` that is kept per worker process: it grows
by the delete files that a task brings, each opened once, and serves all data files, because the sequence
rule is applied when it is asked.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from twostage.deletes.budget import Budget
from twostage.deletes.cache import CACHE
from twostage.deletes.decoded_ahead import ahead
from twostage.deletes.delete_files import WantedField, corrupt, fetch_ahead, read_columns
from twostage.deletes.host_keys import Request, planned_of, shared_keys
from twostage.deletes.identity import digest, of_delete, of_set
from twostage.deletes.key_pages import INTEGERS
from twostage.deletes.key_set import KeySet
from twostage.deletes.key_shape import KeyField, KeyShape, encode_delete
from twostage.deletes.keys import KeyColumn, encode_column, group_by_nulls, words_of
from twostage.deletes.redundant import Cover
from twostage.deletes.shared_keys import Loaded, SharedKeys, cache_key, identity_of
from twostage.errors import InternalError, UnsupportedFeatureError
from twostage.schema import Primitive

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Mapping, Sequence

    import pyarrow as pa
    from numpy.typing import NDArray

    from twostage.deletes.compiled import Recorder
    from twostage.deletes.key_domain import KeyDomain
    from twostage.deletes.key_pages import KeyPages
    from twostage.metrics import Metrics
    from twostage.task import DeleteFile, ScanContext, ScanTask


WORTH_A_THREAD = 500_000
"""Keys: to place fewer takes no longer than a few files' decoding."""
DECODED_AHEAD = 2
"""Batches of a delete file that may be decoded before their keys are placed."""
MAPPED_BYTES = 2**20
"""What a mapped key set counts for: it takes no private memory, but a descriptor and address space."""


@dataclass(frozen=True, slots=True, eq=False)
class _AppliedSet:
    """The key sets that apply to a task and have the same columns to compare."""

    fields: tuple[KeyField, ...]
    key_sets: tuple[KeySet, ...]
    ids: tuple[tuple[int, ...], ...]
    """Of each key set, the equality ids of its delete files: some of them are no more among `fields`."""


class EqualityDeletes:
    """The equality deletes of one task; false if there are none.

    Attributes:
        field_ids: The key columns that `deleted` needs.
        recorder: Is told which rows were asked about and which are deleted.
    """

    is_streamed = False

    def __init__(self, applied: Sequence[_AppliedSet], sequence_number: int) -> None:
        self._applied = tuple(applied)
        # Of keys that others have made redundant nothing may be left: then no column is read for them.
        self._asked = tuple(one for one in applied if not all(keys.is_empty for keys in one.key_sets))
        self.recorder: Recorder | None = None
        self._sequence_number = sequence_number
        ids = (key.field.id for one in self._asked for key in one.fields)
        self.field_ids: tuple[int, ...] = tuple(dict.fromkeys(ids))

    def __bool__(self) -> bool:
        return bool(self._applied)

    def deleted(self, columns: Mapping[int, pa.Array], num_rows: int) -> NDArray[np.bool_]:
        """Return which data rows are deleted.

        Args:
            columns: Key columns by field id, in the types of the scan's schema (or of ``key_fields``), with
                defaults filled in and NULL where a parent struct is NULL.
            num_rows: Rows in each of them.
        """
        encoded: dict[int, KeyColumn] = {}
        result = np.zeros(num_rows, np.bool_)
        for applied in self._asked:
            for key in applied.fields:
                if key.field.id not in encoded:
                    encoded[key.field.id] = encode_data(columns, key)
            groups = list(group_by_nulls([encoded[key.field.id] for key in applied.fields], num_rows))
            for key_set in applied.key_sets:
                result |= key_set.probe(groups, num_rows, self._sequence_number)
        return result

    @property
    def is_dense(self) -> bool:
        """Whether looking a key up costs as good as nothing."""
        return all(key_set.is_dense for applied in self._asked for key_set in applied.key_sets)

    def missing(
        self, pages: KeyPages, known: Mapping[tuple[int, ...], NDArray[np.bool_]], num_rows: int
    ) -> NDArray[np.bool_]:
        """Return which runs of rows hold no key.

        Args:
            pages: What is known of the runs.
            known: Which runs hold no key of the delete files with these equality ids, as these files' bounds tell.
            num_rows: How many rows are to be asked otherwise.
        """
        result = np.ones(len(pages.lengths), np.bool_)
        for applied in self._asked:
            widths = [words_of(key.kind) for key in applied.fields]
            for ids, key_set in zip(applied.ids, applied.key_sets, strict=True):
                missed = known.get(ids, np.zeros(len(result), np.bool_))
                for place, key in enumerate(applied.fields):
                    if missed.all() or key.kind.name not in INTEGERS:
                        continue
                    domain = key_set.domain(
                        place, widths, num_rows, partial(_may_miss, pages, key.field.id, missed)
                    )
                    if domain is not None:
                        missed = missed | pages.missing(key.field.id, domain)
                result &= missed
        return result

    def none_between(self, field_id: int, low: int, high: int) -> bool:
        """Tell whether no key of any set is a number from `low` to `high`; False if that is not known.

        All sets are of this one column, whose words are its numbers.
        """
        return self.field_ids == (field_id,) and all(
            key_set.none_between(low, high) for applied in self._asked for key_set in applied.key_sets
        )


def _may_miss(pages: KeyPages, field_id: int, missed: NDArray[np.bool_], domain: KeyDomain) -> bool:
    """Tell whether keys that lie there would miss a run that is not known to be missed."""
    return bool((pages.missing(field_id, domain) & ~missed).any())


def encode_data(columns: Mapping[int, pa.Array], key: KeyField) -> KeyColumn:
    """Return the comparable form of one of the data rows' key columns."""
    try:
        return encode_column(columns[key.field.id], key.kind)
    except (KeyError, ValueError) as error:
        raise InternalError(
            "INTERNAL",
            f"Key column {key.field.id} does not fit its delete files: {error!r}",
            stage="deletes",
            hint="Please report this.",
        ) from error


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


def key_fields(context: ScanContext, ids: Iterable[int], delete: DeleteFile) -> tuple[KeyField, ...]:
    """Return the key columns with these ids; errors name the delete file."""
    return tuple(_key_field(context, field_id, delete) for field_id in ids)


def key_shape(context: ScanContext, task: ScanTask, ids: Iterable[int], delete: DeleteFile) -> KeyShape:
    """Return the shape of the keys with these ids of delete files with this one's scope."""
    fields = key_fields(context, ids, delete)
    return KeyShape.of(fields, delete.scope if context.settings.simplify_keys else None, task.constants)


def _key_field(context: ScanContext, field_id: int, delete: DeleteFile) -> KeyField:
    schema = context.schema
    if field_id in schema:
        field, names = schema.field(field_id), schema.path(field_id)
    elif field_id in context.key_fields:
        field = context.key_fields[field_id]
        names = (field.name,)
    else:
        raise corrupt(delete, f"Equality-delete file has an equality id of no schema: {field_id}")
    if not isinstance(field.type, Primitive):
        raise UnsupportedFeatureError(
            "UNSUPPORTED_DELETE_KEY",
            f"Equality-delete key {field.name!r} is not of a primitive type: {field.type}",
            path=delete.path,
            stage="deletes",
        )
    return KeyField(field, field.type, names)


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
            _AppliedSet(shape.fields, tuple(key_sets), tuple(their_ids))
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
