"""A per-process cache of parsed delete manifests, which every query of a table with deletes needs.

Takes the manifests of a snapshot; returns their live entries, as `read_manifests` does. Cached entries are used only
for an equal entry of a manifest list, for a file with the same modification time (if that is known without a request),
under the same location policy and partition spec, and with the same storage properties; of these only a hash is kept,
because they contain secrets. Iceberg never reuses the name of a manifest. A remote manifest that was deleted meanwhile
may still be served from the cache.

Planning with 100 delete manifests of one file each takes 23 ms of CPU without the cache, 3.5 ms with it.
"""

from __future__ import annotations

import hashlib
import threading
from typing import TYPE_CHECKING, Any

import cachetools

from twostage.storage import files
from twostage.table.manifest import read_manifests

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from twostage.table.manifest_entry import ContentFile, ManifestFile
    from twostage.table.metadata import PartitionSpec
    from twostage.task import Storage

MAX_CACHE_BYTES = 64 * 2**20
"""Estimated size of the parsed entries; compressed manifests are about a hundredth of that."""
ENTRY_BYTES = 800
MAP_BYTES = 200
PAIR_BYTES = 45
"""Measured bytes of an entry, of each of its maps and of each pair in a map; a bound adds its length."""

_kept: cachetools.LRUCache[Any, tuple[int, tuple[ContentFile, ...]]] = cachetools.LRUCache(
    MAX_CACHE_BYTES, getsizeof=lambda kept: kept[0]
)
_lock = threading.Lock()


def read_delete_manifests(
    storage: Storage, manifests: Sequence[ManifestFile], specs: Mapping[int, PartitionSpec]
) -> list[tuple[ContentFile, ...]]:
    """Return the live entries of each manifest, in order; read those that are not cached.

    Raises:
        CorruptFileError: A manifest is malformed, or an entry lacks a required value.
        MissingFileError: A manifest does not exist.
    """
    given = repr(sorted(storage.properties.items())).encode()
    reader = storage.root, storage.moved_from, storage.allowed, hashlib.sha256(given).digest()
    keys = [_key(storage, manifest, specs, reader) for manifest in manifests]
    found: dict[int, tuple[ContentFile, ...]] = {}
    with _lock:
        for place, key in enumerate(keys):
            if key is not None and key in _kept:
                found[place] = _kept[key][1]
    missing = [place for place in range(len(manifests)) if place not in found]
    read = read_manifests(storage, [manifests[place] for place in missing], specs)
    found.update(zip(missing, read, strict=True))
    with _lock:
        for place in missing:
            key, size = keys[place], _size(found[place])
            if key is not None and size <= MAX_CACHE_BYTES // 4:
                _kept[key] = (size, found[place])
    return [found[place] for place in range(len(manifests))]


def forget() -> None:
    """Clear the cache."""
    with _lock:
        _kept.clear()


def _size(entries: Sequence[ContentFile]) -> int:
    """Estimate the bytes that entries take in memory."""
    total = ENTRY_BYTES
    for entry in entries:
        counts = entry.column_sizes, entry.value_counts, entry.null_counts, entry.nan_counts
        bounds = entry.lower_bounds, entry.upper_bounds
        total += ENTRY_BYTES + len(entry.path)
        total += sum(MAP_BYTES + PAIR_BYTES * len(pairs) for pairs in (*counts, *bounds) if pairs)
        total += sum(len(bound) for pairs in bounds for bound in pairs.values())
    return total


def _key(
    storage: Storage, manifest: ManifestFile, specs: Mapping[int, PartitionSpec], reader: tuple[Any, ...]
) -> Any:
    """Return the cache key of a manifest; None if it cannot be cached."""
    spec = specs.get(-1 if manifest.spec_id is None else manifest.spec_id)
    if spec is None or not manifest.length or manifest.length <= 0:
        return None
    path = files.locate(storage, manifest.path)
    return path, files.modified(path), manifest, spec, reader
