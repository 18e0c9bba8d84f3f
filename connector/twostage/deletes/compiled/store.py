"""Compiled deletes: the positions of one data file's rows that its equality deletes remove, as a bitmap.

Takes an entry's name; returns its bitmap, or stores one under it. The rules: an entry is valid only for the
data file (path, size, sequence number) and the set of equality-delete files that it was made from
(`entry_name`); it is made only if every row was probed, whatever other deletes or the query remove (`find`);
a damaged or mismatched entry is ignored with a counted warning. Entries are in the host's cache, and in the
folder or bucket that ``deletes.compiled-dir`` names: whoever may write there decides which rows are deleted.

Benefit: the columns "compiled" and "by Spark" in docs/benchmarks-deletes.md.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import numpy as np
from pyroaring import BitMap64

from twostage.deletes.cache import file_format
from twostage.deletes.cache.host import SUFFIX, HostCache
from twostage.deletes.cache.memory import CACHE
from twostage.deletes.compiled.entry_name import KIND
from twostage.errors import CorruptFileError, MissingFileError, ResourceLimitError, TwoStageError
from twostage.storage import files
from twostage.storage.location import join, parse_location
from twostage.storage.pending_write import PendingWrite, begin_write
from twostage.task import Storage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Any

    from numpy.typing import NDArray

    from twostage.deletes.compiled.entry_name import EntryName
    from twostage.metrics import Metrics
    from twostage.storage.pending_ranges import PendingRanges
    from twostage.task import DeleteFile, ScanContext

    Written = Callable[[Callable[[PendingWrite], None]], bool]
    """Takes a function that waits for a request; returns whether the entry was written, once that is
    known."""

MIN_KEYS_TO_KEEP = 10_000
MIN_FILES_TO_KEEP = 8
"""Fewer keys than `MIN_KEYS_TO_KEEP` in fewer files are applied again in less time than a file of the host's
cache costs."""
MIN_ROWS_TO_KEEP = 1_000_000
"""A data file of this many rows is worth an entry whatever its deletes: Spark's own reader then takes half
our time."""
MAX_ENTRY_BYTES = 512 * 2**20
"""A larger entry of the chosen folder is not read."""
COMPILED = "compiled"
"""The kind of `DeletedPositions` that come from compiled equality deletes."""


def read_entry(
    context: ScanContext, name: EntryName, stores: Iterable[CompiledStore], limit: int | None = None
) -> BitMap64 | None:
    """Return an entry's bitmap from this process's memory or the first store that has it; None if none does.

    Raises:
        ResourceLimitError: It takes more than `limit` bytes, if that is given.
    """
    found: BitMap64 | None = CACHE.get(name)
    if found is None:
        found = next((one for store in stores if (one := store.read(name.text, limit)) is not None), None)
        if found is not None:
            keep_entry(context, name, found)
    return found


def read_asked(
    context: ScanContext, name: EntryName, folder: FolderStore, asked: PendingRanges
) -> BitMap64 | None:
    """Return an entry's bitmap from this process's memory or from a request for its file in a folder; None if there is none."""
    found: BitMap64 | None = CACHE.get(name)
    if found is None:
        found = folder.read(name.text, asked=asked)
        if found is not None:
            keep_entry(context, name, found)
    return found


def keep_entry(context: ScanContext, name: EntryName, bitmap: BitMap64) -> None:
    """Cache an entry's bitmap in this process's memory."""
    size = len(bitmap.serialize())
    CACHE.put(name, bitmap, size + 2**10, limit=context.settings.memory_budget)


class PendingEntry:
    """An entry being written to its stores; writes to object stores run in the background.

    Args:
        name: The entry's name.
        bitmap: The positions.
        stores: Where to write it.
        metrics: Gains ``delete_compiled.written`` once one of them has stored it.
    """

    def __init__(
        self, name: EntryName, bitmap: BitMap64, stores: Iterable[CompiledStore], metrics: Metrics
    ) -> None:
        bitmap.run_optimize()
        self.size = len(bitmap.serialize())
        """Bytes in memory until it is written."""
        self._metrics = metrics
        self._writes = [store.begin(name.text, bitmap) for store in stores]

    def is_kept(self, wait: Callable[[PendingWrite], None] = PendingWrite.block) -> bool:
        """Tell whether any store has stored it, once all have answered.

        Args:
            wait: Called to wait for an unfinished request; returns when it is done.
        """
        kept = [write(wait) for write in self._writes]
        self._metrics.add("delete_compiled.written", int(any(kept)))
        return any(kept)


class CompiledStore:
    """A place where entries are stored."""

    def read(self, name: str, limit: int | None = None) -> BitMap64 | None:
        """Return an entry's bitmap; None if it does not exist or is not usable.

        Raises:
            ResourceLimitError: It takes more than `limit` bytes, if that is given.
        """
        raise NotImplementedError

    def has(self, prefix: str) -> bool:
        """Tell whether an entry's name begins with `prefix`; False also if finding out takes a request."""
        raise NotImplementedError

    def begin(self, name: str, bitmap: BitMap64) -> Written:
        """Start writing an entry; the returned function waits for that, and tells whether it succeeded."""
        raise NotImplementedError


class _HostStore(CompiledStore):
    """The host's cache."""

    def __init__(self, cache: HostCache) -> None:
        self._cache = cache

    def read(self, name: str, limit: int | None = None) -> BitMap64 | None:
        if limit is not None and self._cache.size_of(name) > limit:
            raise ResourceLimitError(
                "FILE_TOO_LARGE", f"Compiled deletes take more than {limit} bytes", stage="deletes"
            )
        entry = self._cache.load(name, KIND)
        if entry is None:
            return None
        try:
            return _decode(entry.description, entry.arrays, name)
        except ValueError as error:
            self._cache.ignore(name, str(error))
            return None

    def has(self, prefix: str) -> bool:
        return bool(self._cache.names(prefix))

    def begin(self, name: str, bitmap: BitMap64) -> Written:
        is_saved = self._cache.save(name, KIND, *_encode(bitmap))
        return lambda _: is_saved


class FolderStore(CompiledStore):
    """The folder or bucket of ``deletes.compiled-dir``, opened with the table's storage properties."""

    def __init__(self, location: str, table: Storage, metrics: Metrics) -> None:
        self.storage = Storage(properties=table.properties, root=location, client=table.client)
        self._metrics = metrics

    @property
    def is_remote(self) -> bool:
        """Whether reading takes a request."""
        return not parse_location(self.storage.root).is_local

    def read(
        self, name: str, limit: int | None = None, asked: PendingRanges | None = None
    ) -> BitMap64 | None:
        """Return an entry's bitmap; None if it does not exist or is not usable.

        Args:
            name: Its file name.
            limit: Bytes that it may take.
            asked: The request for its file, if it was sent before.

        Raises:
            ResourceLimitError: It takes more than `limit` bytes, if that is given.
        """
        place, max_bytes = self.place(name), MAX_ENTRY_BYTES if limit is None else limit
        try:
            if asked is None:
                data = files.read_all(self.storage, place, limit=max_bytes)
            else:
                data = bytes(asked.result()[0])
            description = file_format.describe(
                lambda offset, length: data[offset : offset + length], len(data)
            )
            file_format.verify(lambda offset, length: data[offset : offset + length], description)
            arrays = file_format.arrays_in(data, description)
            return _decode(description, arrays, name)
        except MissingFileError:
            return None
        except (TwoStageError, ValueError) as error:
            if limit is not None and isinstance(error, ResourceLimitError):
                raise
            self._warn("ignored", f"compiled deletes were ignored: {error}")
            return None

    def place(self, name: str) -> str:
        """Return where an entry's file is."""
        return join(self.storage.root, name)

    def has(self, prefix: str) -> bool:
        """Tell whether an entry's name begins with `prefix`; False also if finding out takes a request."""
        if self.is_remote:
            return False
        with contextlib.suppress(TwoStageError, OSError):
            return any(
                entry.name.startswith(prefix) for entry in files.list_folder(self.storage, self.storage.root)
            )
        return False

    def is_older(self, name: str) -> bool:
        """Tell whether an entry is obsolete: of an earlier format version, or damaged; takes a request.

        Raises:
            StorageError: The store failed, so nothing is known about the entry.
        """
        try:
            head = files.read_range(self.storage, join(self.storage.root, name), 0, file_format.HEADER_BYTES)
        except MissingFileError:
            return False
        except CorruptFileError as error:
            return error.code == "CORRUPT_FILE"  # it has fewer bytes
        return file_format.is_older(head)

    def begin(self, name: str, bitmap: BitMap64) -> Written:
        """Start writing an entry; the returned function waits for that, and tells whether it succeeded."""
        _, parts = file_format.encode(KIND, name.removesuffix(SUFFIX), *_encode(bitmap))
        data, place = b"".join(parts), self.place(name)
        failed: TwoStageError | None = None
        pending: PendingWrite | None = None
        try:
            if self.is_remote:
                pending = begin_write(self.storage, place, data)
            else:
                files.write_all(self.storage, place, data)
        except TwoStageError as error:
            failed = error

        def is_written(wait: Callable[[PendingWrite], None]) -> bool:
            nonlocal failed
            if pending is not None:
                try:
                    wait(pending)
                    pending.result()
                except TwoStageError as error:
                    failed = error
            if failed is not None:
                self._warn("failed", f"compiled deletes could not be written: {failed}")
            return failed is None

        return is_written

    def _warn(self, counter: str, sentence: str) -> None:
        self._metrics.add(f"delete_compiled.{counter}")
        self._metrics.choices[sentence] += 1


def stores_for(context: ScanContext, metrics: Metrics) -> list[CompiledStore]:
    """Return where an entry may be stored: the host's cache, and the folder of ``deletes.compiled-dir``.

    Args:
        context: The scan.
        metrics: Gains the reason if the host's cache cannot be used.
    """
    folder = folder_store(context, metrics)
    return [*host_stores(context, metrics), *([] if folder is None else [folder])]


def host_stores(context: ScanContext, metrics: Metrics) -> list[CompiledStore]:
    """Return the host's cache; if it cannot be used, nothing, with the reason in `metrics`."""
    cache = HostCache.find(context.settings, metrics)
    return [] if cache is None else [_HostStore(cache)]


def folder_store(context: ScanContext, metrics: Metrics) -> FolderStore | None:
    """Return the folder or bucket of ``deletes.compiled-dir``, if the option names one."""
    folder = context.settings.compiled_dir
    return None if folder is None else FolderStore(folder, context.storage, metrics)


def is_kept_by_host(deletes: Sequence[DeleteFile], num_rows: int) -> bool:
    """Tell whether an entry of a data file is worth a file of the host's cache.

    Args:
        deletes: Its equality-delete files.
        num_rows: Rows of the data file.
    """
    if len(deletes) >= MIN_FILES_TO_KEEP or num_rows >= MIN_ROWS_TO_KEEP:
        return True
    return sum(delete.record_count for delete in deletes) >= MIN_KEYS_TO_KEEP


def _encode(bitmap: BitMap64) -> tuple[dict[str, Any], list[NDArray[Any]]]:
    return {"rows": len(bitmap)}, [np.frombuffer(bitmap.serialize(), np.uint8)]


def _decode(description: file_format.Description, arrays: list[NDArray[Any]], name: str) -> BitMap64:
    """Return the bitmap of an entry.

    Raises:
        ValueError: The file is not an entry, or is one of another name.
    """
    if description.kind != KIND or description.key != name.removesuffix(SUFFIX):
        raise ValueError("it was written under another name")
    if len(arrays) != 1 or arrays[0].dtype != np.uint8:
        raise ValueError("an entry of another form")
    bitmap = BitMap64.deserialize(arrays[0].tobytes())
    if len(bitmap) != description.values.get("rows"):
        raise ValueError("a bitmap of another size")
    return bitmap
