"""Read the manifest lists and manifests of a snapshot.

Takes the paths in a snapshot; returns their entries as plain values, in order (`manifest_records.py` parses
them). Manifests are requested concurrently, because they are small and most of the time is spent waiting for
the storage; those of an object store are cached (`immutable_files`).
"""

from __future__ import annotations

import contextlib
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from typing import TYPE_CHECKING

from twostage.storage.files import locate, read_all
from twostage.storage.immutable_files import MAX_AHEAD, read_immutable, read_immutables
from twostage.storage.location import parse_location
from twostage.table.manifest_entry import ContentFile, ManifestFile
from twostage.table.manifest_records import iterate_manifest, parse_manifest, parse_manifest_list

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Mapping, Sequence

    from twostage.storage.immutable_files import ImmutableReads
    from twostage.table.metadata import PartitionSpec, Snapshot
    from twostage.task import Storage

MAX_CONCURRENT_MANIFESTS = 8
"""Manifests to read concurrently."""
MAX_LOCAL_MANIFESTS_WITHOUT_THREADS = 4
"""Manifests on a local disk to read sequentially: that is faster than starting threads."""


def read_manifest_list(storage: Storage, snapshot: Snapshot) -> tuple[ManifestFile, ...]:
    """Return the manifests of a snapshot, for data and deletes, in the order of its manifest list.

    Raises:
        CorruptFileError: The manifest list is malformed.
        MissingFileError: It does not exist.
    """
    if snapshot.manifest_list is None:
        return tuple(ManifestFile(path=path, spec_id=None) for path in snapshot.manifests)
    path = snapshot.manifest_list
    return parse_manifest_list(read_immutable(storage, locate(storage, path)), path=path)


def read_manifests(
    storage: Storage,
    manifests: Sequence[ManifestFile],
    specs: Mapping[int, PartitionSpec],
    *,
    deleted: bool = False,
    reads: ImmutableReads | None = None,
) -> list[tuple[ContentFile, ...]]:
    """Return the live entries of each manifest, in order; with `deleted`, those with status DELETED too.

    `reads` reads remote ones, if it has already requested some.

    Raises:
        CorruptFileError: A manifest is malformed, or an entry lacks a required value.
        MissingFileError: A manifest does not exist.
    """
    if len(manifests) < 2 or _are_remote(storage, manifests):
        return [
            parse_manifest(data, manifest, specs, deleted=deleted)
            for manifest, data in fetch_manifests(storage, manifests, read_ahead=len(manifests), reads=reads)
        ]
    with ThreadPoolExecutor(min(MAX_CONCURRENT_MANIFESTS, len(manifests)), "twostage-manifest") as pool:
        return list(
            pool.map(lambda manifest: read_manifest(storage, manifest, specs, deleted=deleted), manifests)
        )


def stream_manifests(
    storage: Storage,
    manifests: Sequence[ManifestFile],
    specs: Mapping[int, PartitionSpec],
    *,
    read_ahead: int = MAX_CONCURRENT_MANIFESTS,
    without: frozenset[int] = frozenset(),
    reads: ImmutableReads | None = None,
) -> Iterator[ContentFile]:
    """Yield the live entries of all manifests, in order.

    Only the bytes of `MAX_CONCURRENT_MANIFESTS` manifests and the entries of one Avro block are in memory at a time:
    entries with metrics of 40 columns take 16 kB each, and there may be millions.

    Args:
        storage: The scan's storage.
        manifests: The manifests to read.
        specs: The table's partition specs by id.
        read_ahead: How many manifests to request before the first one is consumed.
        without: Ids of fields to skip while decoding; the entries have no values for them.
        reads: Reads remote manifests, if it has already requested some.

    Raises:
        CorruptFileError: A manifest is malformed, or an entry lacks a required value.
        MissingFileError: A manifest does not exist.
    """
    for manifest, data in fetch_manifests(storage, manifests, read_ahead=read_ahead, reads=reads):
        yield from iterate_manifest(data, manifest, specs, without=without)


def fetch_manifests(
    storage: Storage,
    manifests: Sequence[ManifestFile],
    *,
    read_ahead: int = MAX_CONCURRENT_MANIFESTS,
    reads: ImmutableReads | None = None,
) -> Generator[tuple[ManifestFile, bytes]]:
    """Yield manifests with their bytes, in order, requesting some ahead.

    At first as many as `read_ahead`; at most `MAX_CONCURRENT_MANIFESTS` from a local disk, `MAX_AHEAD` from
    an object store. `reads` reads remote ones, if it has already requested some.
    """
    if manifests and _are_remote(storage, manifests):
        places = (place_of(storage, manifest) for manifest in manifests)
        found = read_immutables(storage, places, first=min(read_ahead, MAX_AHEAD), reads=reads)
        with contextlib.closing(found):
            yield from zip(manifests, found, strict=True)
        return
    if len(manifests) < 2 or _read_without_threads(storage, manifests):
        for manifest in manifests:
            yield manifest, _fetch(storage, manifest)
        return
    waiting = iter(manifests)
    pool = ThreadPoolExecutor(min(MAX_CONCURRENT_MANIFESTS, max(1, len(manifests))), "twostage-manifest")
    requested: deque[tuple[ManifestFile, Future[bytes]]] = deque()

    def request_up_to(count: int) -> None:
        for manifest in islice(waiting, count - len(requested)):
            requested.append((manifest, pool.submit(_fetch, storage, manifest)))

    try:
        request_up_to(min(read_ahead, MAX_CONCURRENT_MANIFESTS))
        while requested:
            manifest, reading = requested.popleft()
            yield manifest, reading.result()
            request_up_to(MAX_CONCURRENT_MANIFESTS)
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def read_manifest(
    storage: Storage, manifest: ManifestFile, specs: Mapping[int, PartitionSpec], *, deleted: bool = False
) -> tuple[ContentFile, ...]:
    """Return the entries of one manifest."""
    return parse_manifest(_fetch(storage, manifest), manifest, specs, deleted=deleted)


def place_of(storage: Storage, manifest: ManifestFile) -> tuple[str, int]:
    """Return where a manifest is, located, and its size in bytes."""
    return locate(storage, manifest.path), manifest.length or 0


def is_local(storage: Storage, manifests: Sequence[ManifestFile]) -> bool:
    """Return whether reading these manifests takes no requests."""
    return not manifests or not _are_remote(storage, manifests)


def _are_remote(storage: Storage, manifests: Sequence[ManifestFile]) -> bool:
    return not parse_location(locate(storage, manifests[0].path)).is_local


def _read_without_threads(storage: Storage, manifests: Sequence[ManifestFile]) -> bool:
    return (
        len(manifests) <= MAX_LOCAL_MANIFESTS_WITHOUT_THREADS
        and parse_location(locate(storage, manifests[0].path)).is_local
    )


def _fetch(storage: Storage, manifest: ManifestFile) -> bytes:
    return read_all(storage, locate(storage, manifest.path))
