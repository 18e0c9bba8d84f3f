"""Key sets in the host's cache: one worker process builds a set, the others map the same file.

Takes the delete files of one scope that a task needs, and a function that adds them to a set; returns a set
that holds them, or None if it is better, or only possible, to build it in memory. The rules: a stored set is
used only if all its delete files are known to apply together in this snapshot (the scan's plan lists them, or
the set was made for the same snapshot); and it is exactly what building it would have given.

A snapshot that adds delete files starts from the largest stored subset. A process that waits for another one
to build a set meanwhile loads the kernels that will probe it.

Benefit: "host's cache" in docs/benchmarks-deletes.md, column "later".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from twostage.deletes.cache import fingerprint
from twostage.deletes.cache.host import SUFFIX, HostCache
from twostage.deletes.keys.encoding import TEXT, words_of
from twostage.deletes.keys.key_set import KeySet
from twostage.deletes.keys.record_table import get_ready
from twostage.errors import TwoStageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from twostage.deletes.cache.file_format import Description
    from twostage.deletes.keys.budget import Budget
    from twostage.metrics import Metrics
    from twostage.schema import Primitive
    from twostage.task import DeleteFile, ScanContext

MIN_KEYS_TO_SHARE = 10_000
"""Reading fewer keys again takes less time than storing and mapping a file of them."""
MIN_NEEDED_FRACTION = 0.25
"""A task that needs a smaller fraction of the scan's keys does not build the set of all keys."""
MAX_DESCRIPTIONS = 32
"""Stored sets of the same scope to consider for reuse, the most recently used first."""
_KIND = "keys"


@dataclass(frozen=True, slots=True, eq=False)
class HostKeySet:
    """A key set and the digests of the delete files whose keys it holds."""

    key_set: KeySet
    members: frozenset[str]


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class HostKeySetRequest:
    """A key set that a task needs.

    Attributes:
        context: The scan.
        shape: Ids and types of the key fields, the scope, and a fingerprint of the sets that make keys of
            this one redundant.
        needed: The delete files that must be in the set.
        planned: Those that the whole scan applies, including `needed`.
        budget: The set's memory budget.
        add: Adds delete files' keys to a set.
        adopt: Called with the set that is being built, whose bytes count from then on.
        kinds: The types of the columns to compare.
        may_build: Whether to build the set if the cache does not hold it.
    """

    context: ScanContext
    shape: tuple[object, ...]
    needed: Sequence[DeleteFile]
    planned: Sequence[DeleteFile]
    budget: Budget
    add: Callable[[KeySet, Sequence[DeleteFile]], None]
    adopt: Callable[[KeySet], None]
    kinds: Sequence[Primitive]
    may_build: bool = True


def find_host_key_set(request: HostKeySetRequest, metrics: Metrics) -> HostKeySet | None:
    """Return a key set from the host's cache, building it there if necessary; None: build it in memory."""
    if sum(delete.record_count for delete in request.planned) < MIN_KEYS_TO_SHARE:
        return None
    cache = HostCache.find(request.context.settings, metrics)
    return None if cache is None else _HostLookup(cache, request, metrics).find_or_build()


class _HostLookup:
    """Answers one request from the cache."""

    def __init__(self, cache: HostCache, request: HostKeySetRequest, metrics: Metrics) -> None:
        self._cache = cache
        self._request = request
        self._metrics = metrics
        self._planned = {fingerprint.of_delete(delete): delete for delete in request.planned}
        needed = {fingerprint.of_delete(delete) for delete in request.needed}
        self._needed = frozenset(needed)
        shape = fingerprint.digest(fingerprint.of_reading(request.context), request.shape)
        self._prefix = f"keys-{fingerprint.of_table(request.context)}-{shape}-"

    def find_or_build(self) -> HostKeySet | None:
        found = self._find()
        if found is not None or not self._request.may_build:
            return found
        needed = [self._planned[one] for one in self._needed]
        keys = _keys_of(self._planned.values())
        if _keys_of(needed) < MIN_NEEDED_FRACTION * keys:
            return None
        name = self._name(self._planned)
        with self._cache.exclusive(name, meanwhile=lambda: self._get_ready(keys)) as lock:
            if lock.has_waited and (found := self._find()) is not None:
                return found
            if not lock.is_held:
                if lock.has_waited:
                    self._metrics.choices[
                        "delete keys built by this worker for itself: another one took too long"
                    ] += 1
                return None
            lock.has_failed = True
            built = self._build(name)
            lock.has_failed = built is None or bool(built.key_set.nbytes)  # private bytes: it is not mapped
            return built

    def _get_ready(self, keys: int) -> None:
        """Load the kernels that will probe a set of `keys` keys, while another process builds it."""
        kinds, kernels = self._request.kinds, self._request.context.settings.kernels
        texts = sum(kind.name in TEXT for kind in kinds)
        # The lengths of all texts but the last are stored as words.
        words = sum(words_of(kind) for kind in kinds) + max(0, texts - 1)
        get_ready(words, has_text=texts > 0, count=keys, kernels=kernels)

    def _name(self, members: Iterable[str]) -> str:
        return f"{self._prefix}{fingerprint.of_set(members)}{SUFFIX}"

    def _descriptions(self) -> Iterable[tuple[str, Description, frozenset[str]]]:
        for name in self._cache.names(self._prefix)[:MAX_DESCRIPTIONS]:
            description = self._cache.describe(name, _KIND)
            if description is not None:
                yield name, description, frozenset(description.values.get("members", ()))

    def _find(self) -> HostKeySet | None:
        """Return a stored set that holds all needed delete files, and none from outside the snapshot."""
        exact = self._name(self._planned)
        found = self._load(exact)
        if found is not None:
            self._metrics.add("delete_cache.hits")
            return found
        snapshot = self._request.context.snapshot_id
        for name, description, members in self._descriptions():
            is_of_snapshot = snapshot is not None and description.values.get("snapshot") == snapshot
            belongs = is_of_snapshot or members <= self._planned.keys()
            if belongs and self._needed <= members and (found := self._load(name)) is not None:
                self._metrics.add("delete_cache.hits")
                return found
        return None

    def _base(self) -> HostKeySet | None:
        """Return the stored set with the most keys whose delete files are all among the scan's."""
        subsets = [
            (description.values.get("keys", 0), name)
            for name, description, members in self._descriptions()
            if members and members < self._planned.keys()
        ]
        for _, name in sorted(subsets, reverse=True):
            if (found := self._load(name)) is not None:
                return found
        return None

    def _load(self, name: str, *, is_verified: bool = False) -> HostKeySet | None:
        entry = self._cache.load(name, _KIND, is_verified=is_verified)
        if entry is None:
            return None
        request, values = self._request, entry.description.values
        try:
            settings = request.context.settings
            key_set = KeySet.restored(
                values["set"],
                entry.arrays,
                request.budget,
                kernels=settings.kernels,
                dense=settings.dense_keys,
            )
            members = frozenset(map(str, values["members"]))
        except (ValueError, KeyError, TypeError, IndexError) as error:
            self._cache.ignore(name, f"{type(error).__name__} in its description")
            return None
        return HostKeySet(key_set, members)

    def _build(self, name: str) -> HostKeySet | None:
        """Build the set of all planned delete files and store it; None if that failed."""
        request = self._request
        base = self._base()
        members: frozenset[str] = frozenset()
        if base is None:
            settings = request.context.settings
            key_set = KeySet(request.budget, kernels=settings.kernels, dense=settings.dense_keys)
        else:
            key_set, members = base.key_set, base.members
            self._metrics.add("delete_cache.merged")
        request.adopt(key_set)
        missing = [delete for one, delete in self._planned.items() if one not in members]
        try:
            request.add(key_set, missing)
        except TwoStageError:
            # Too large for this task, or a damaged file that this task may not need: it then loads only its
            # own files.
            return None
        self._metrics.add("delete_cache.built")
        members = frozenset(self._planned)
        plain, arrays = key_set.take_apart()
        values = {
            "set": plain,
            "members": sorted(members),
            "snapshot": request.context.snapshot_id,
            "keys": key_set.count,
        }
        if self._cache.save(name, _KIND, values, arrays):
            del arrays
            mapped = self._load(name, is_verified=True)
            if mapped is not None:
                return mapped
        return HostKeySet(key_set, members)


def _keys_of(deletes: Iterable[DeleteFile]) -> int:
    return sum(delete.record_count for delete in deletes)


def planned_deletes(
    planned: Sequence[DeleteFile], needed: Sequence[DeleteFile], scope: str | None, ids: Mapping[int, object]
) -> list[DeleteFile]:
    """Return the plan's delete files of one scope and one set of equality ids, and those needed, each once."""
    same = (
        delete
        for delete in planned
        if delete.scope is not None and delete.scope == scope and ids.keys() == set(delete.equality_ids)
    )
    return list({delete.path: delete for delete in (*same, *needed)}.values())
