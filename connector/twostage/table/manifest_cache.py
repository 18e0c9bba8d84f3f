"""Delete manifests that a process has read, parsed: every query of a table with deletes needs all of them.

Takes manifests of a snapshot; gives their live entries, as `read_manifests` does. The rule: kept entries serve only
the same entry of a manifest list, of a file with the same time of change where that is known without a request,
located by the same policy, with the same properties, and read under the same partition spec. Iceberg never writes
a manifest's name twice; of remote ones, one that was removed since may still be answered for.

Measured: planning with 100 delete manifests of one file each takes 3.5 ms of CPU the second time, not 23.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import cachetools

from twostage import storage as files
from twostage.table.manifest import read_manifests

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from twostage.table.manifest import ContentFile, ManifestFile
    from twostage.table.metadata import PartitionSpec
    from twostage.task import Storage

BYTES = 4 * 2**20
"""Of kept manifests, as they are stored: parsed, they take ten times as much."""

_kept: cachetools.LRUCache[Any, tuple[int, tuple[ContentFile, ...]]] = cachetools.LRUCache(
    BYTES, getsizeof=lambda kept: kept[0]
)
_lock = threading.Lock()


def read_delete_manifests(
    storage: Storage, manifests: Sequence[ManifestFile], specs: Mapping[int, PartitionSpec]
) -> list[tuple[ContentFile, ...]]:
    """Return the live entries of each manifest, in order; read those that are not kept.

    Raises:
        CorruptFileError: A manifest's bytes are wrong, or an entry lacks what the spec demands.
        MissingFileError: A manifest is not there.
    """
    keys = [_key(storage, manifest, specs) for manifest in manifests]
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
            key, size = keys[place], manifests[place].length or 0
            if key is not None and size <= BYTES // 4:
                _kept[key] = (size, found[place])
    return [found[place] for place in range(len(manifests))]


def forget() -> None:
    """Keep nothing."""
    with _lock:
        _kept.clear()


def _key(storage: Storage, manifest: ManifestFile, specs: Mapping[int, PartitionSpec]) -> Any:
    """Return what the entries depend on; None if the manifest must be read."""
    spec = specs.get(-1 if manifest.spec_id is None else manifest.spec_id)
    if spec is None or not manifest.length or manifest.length <= 0:
        return None
    path = files.locate(storage, manifest.path)
    place = storage.root, storage.moved_from, storage.allowed, frozenset(storage.properties.items())
    return path, files.modified(path), manifest, spec, place
