"""Compiled deletes: the positions of one data file's rows that its equality deletes remove, as a bitmap.

Takes a `ScanTask`; gives the positions if they were compiled before, else a recorder that compiles them while the
scan applies the deletes. The rules: an entry serves exactly the data file (path, size, sequence number) and the set
of equality-delete files that it was made of (`entry_name`); it is made only where every row was probed, whatever other
deletes or the query remove; an entry that is damaged, or of anything else, is ignored with a counted warning.
Entries are in the host's cache, and in the folder or bucket that ``deletes.compiled-dir`` names: whoever may write
there decides which rows are deleted.

Earns: the columns "compiled" and "by Spark" in docs/benchmarks-deletes.md.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from pyroaring import BitMap64

from twostage.deletes.cache import file_format
from twostage.deletes.cache.host import SUFFIX, HostCache
from twostage.deletes.cache.memory import CACHE
from twostage.deletes.compiled.entry_name import (
    KIND,
    entry_name,
    name_set,
    name_set_with_positions,
    whole_file_task,
)
from twostage.deletes.compiled.recorder import Recorder
from twostage.deletes.positions.position_deletes import DeletedPositions
from twostage.errors import CorruptFileError, MissingFileError, ResourceLimitError, TwoStageError
from twostage.storage import files
from twostage.storage.location import join, parse_location
from twostage.task import Storage

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from numpy.typing import NDArray

    from twostage.data_files.row_group import RowGroup
    from twostage.deletes.compiled.entry_name import EntryName
    from twostage.metrics import Metrics
    from twostage.task import DeleteFile, ScanContext, ScanTask

MIN_KEYS_TO_KEEP = 10_000
MIN_FILES_TO_KEEP = 8
"""Fewer keys, in fewer than `MIN_FILES_TO_KEEP` files, are applied again in less time than a file of the host's cache costs."""
MIN_ROWS_TO_KEEP = 1_000_000
"""A data file of so many rows is worth an entry whatever its deletes: Spark's own reader then takes half of our time."""
MAX_ENTRY_BYTES = 512 * 2**20
"""A larger entry of the chosen folder is not read."""
COMPILED = "compiled"
"""The kind of `DeletedPositions` that equality deletes were compiled to."""


@dataclass(slots=True)
class CompiledDeletes:
    """What is known of a task's equality deletes without opening them.

    Attributes:
        positions: The rows that they remove; None if they were not compiled.
        recorder: Compiles them during the scan; None where nothing would keep the result.
        name: Of the entry that the recorder makes.
        stores: Where it is written.
    """

    positions: DeletedPositions | None = None
    recorder: Recorder | None = None
    name: EntryName | None = None
    stores: list[CompiledStore] = field(default_factory=list)

    def finish(self, metrics: Metrics) -> None:
        """Keep what the scan has compiled, if it probed every row; to be called at the end of the task."""
        if self.recorder is not None and self.name is not None and self.recorder.is_complete:
            write_entry(self.name, self.recorder.bitmap, self.stores, metrics)

    def row_groups(self, row_groups: Iterable[RowGroup]) -> Iterable[RowGroup]:
        """Return the task's row groups, counted if they are recorded."""
        return row_groups if self.recorder is None else self.recorder.counted(row_groups)


def find_compiled(
    context: ScanContext, task: ScanTask, metrics: Metrics, positions: DeletedPositions
) -> CompiledDeletes:
    """Return a task's compiled deletes, or a way to compile them while it runs.

    Args:
        context: The scan.
        task: Of a data file or a part of it.
        metrics: Gains ``delete_compiled.*``.
        positions: What the task's positional deletes and vectors remove: these rows are not probed, so that what is
            compiled serves only under the same positional deletes.
    """
    deletes = [delete for delete in task.deletes if delete.content == "equality"]
    if not deletes:
        return CompiledDeletes()
    stores = stores_for(context, deletes, metrics, task.record_count)
    if not stores:
        return CompiledDeletes()
    delete_set = name_set(task, deletes)
    names = [entry_name(context, one, deletes, delete_set) for one in (whole_file_task(task), task)]
    if positions:
        with_positions = name_set_with_positions(task, delete_set)
        names += [entry_name(context, one, deletes, with_positions) for one in (whole_file_task(task), task)]
    for name in dict.fromkeys(names):
        bitmap = read_entry(context, name, stores)
        if bitmap is not None:
            metrics.add("delete_compiled.hits")
            return CompiledDeletes(DeletedPositions(COMPILED, bitmap, len(bitmap)))
    # Planning left out deletes of rows that the query does not return: what is recorded is not of all deletes.
    recorder = Recorder(positions.bitmap) if task.delete_set is None else None
    return CompiledDeletes(None, recorder, names[-1], stores)


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
            size = len(found.serialize())
            CACHE.put(name, found, size + 2**10, limit=context.settings.memory_budget)
    return found


def write_entry(name: EntryName, bitmap: BitMap64, stores: Iterable[CompiledStore], metrics: Metrics) -> bool:
    """Write an entry to every store that takes it; tell whether one did."""
    bitmap.run_optimize()
    kept = [store.write(name.text, bitmap) for store in stores]
    metrics.add("delete_compiled.written", int(any(kept)))
    return any(kept)


class CompiledStore:
    """A place where entries are kept."""

    def read(self, name: str, limit: int | None = None) -> BitMap64 | None:
        """Return an entry's bitmap; None if it is not there or not usable.

        Raises:
            ResourceLimitError: It takes more than `limit` bytes, if that is given.
        """
        raise NotImplementedError

    def has(self, prefix: str) -> bool:
        """Tell whether there is an entry whose name begins with `prefix`; False also where that takes a request to know."""
        raise NotImplementedError

    def write(self, name: str, bitmap: BitMap64) -> bool:
        """Keep an entry; tell whether that worked."""
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

    def write(self, name: str, bitmap: BitMap64) -> bool:
        return self._cache.save(name, KIND, *_encode(bitmap))


class FolderStore(CompiledStore):
    """The folder or bucket of ``deletes.compiled-dir``, opened with the table's storage properties."""

    def __init__(self, location: str, table: Storage, metrics: Metrics) -> None:
        self.storage = Storage(properties=table.properties, root=location, client=table.client)
        self._metrics = metrics

    @property
    def is_remote(self) -> bool:
        """Whether reading takes a request."""
        return not parse_location(self.storage.root).is_local

    def read(self, name: str, limit: int | None = None) -> BitMap64 | None:
        """Return an entry's bitmap; None if it is not there or not usable.

        Raises:
            ResourceLimitError: It takes more than `limit` bytes, if that is given.
        """
        try:
            max_bytes = MAX_ENTRY_BYTES if limit is None else limit
            data = files.read_all(self.storage, join(self.storage.root, name), limit=max_bytes)
            description = file_format.describe(
                lambda offset, length: data[offset : offset + length], len(data)
            )
            file_format.verify(lambda offset, length: data[offset : offset + length], description)
            return _decode(description, file_format.arrays_in(data, description), name)
        except MissingFileError:
            return None
        except (TwoStageError, ValueError) as error:
            if limit is not None and isinstance(error, ResourceLimitError):
                raise
            self._warn("ignored", f"compiled deletes were ignored: {error}")
            return None

    def has(self, prefix: str) -> bool:
        """Tell whether there is an entry whose name begins with `prefix`; False also where that takes a request to know."""
        if self.is_remote:
            return False
        with contextlib.suppress(TwoStageError, OSError):
            return any(
                entry.name.startswith(prefix) for entry in files.list_folder(self.storage, self.storage.root)
            )
        return False

    def is_older(self, name: str) -> bool:
        """Tell whether an entry is of an earlier version, or damaged, so that nothing reads it; takes a request.

        Raises:
            StorageError: The store failed: nothing is known of the entry then.
        """
        try:
            head = files.read_range(self.storage, join(self.storage.root, name), 0, file_format.HEADER_BYTES)
        except MissingFileError:
            return False
        except CorruptFileError as error:
            return error.code == "CORRUPT_FILE"  # it has fewer bytes
        return file_format.is_older(head)

    def write(self, name: str, bitmap: BitMap64) -> bool:
        """Keep an entry; tell whether that worked."""
        _, parts = file_format.encode(KIND, name.removesuffix(SUFFIX), *_encode(bitmap))
        try:
            files.write_all(self.storage, join(self.storage.root, name), b"".join(parts))
        except TwoStageError as error:
            self._warn("failed", f"compiled deletes could not be written: {error}")
            return False
        return True

    def _warn(self, counter: str, sentence: str) -> None:
        self._metrics.add(f"delete_compiled.{counter}")
        self._metrics.choices[sentence] += 1


def stores_for(
    context: ScanContext, deletes: Iterable[DeleteFile] | None, metrics: Metrics, num_rows: int = 0
) -> list[CompiledStore]:
    """Return where an entry may be kept: the host's cache, where that pays, and the folder of ``deletes.compiled-dir``.

    Args:
        context: The scan.
        deletes: What the entry stands for; None: the host's cache pays in any case.
        metrics: Is told why the host's cache cannot be used.
        num_rows: Of the data file.
    """
    stores: list[CompiledStore] = []
    counts = None if deletes is None else [delete.record_count for delete in deletes]
    pays = (
        counts is None
        or sum(counts) >= MIN_KEYS_TO_KEEP
        or len(counts) >= MIN_FILES_TO_KEEP
        or num_rows >= MIN_ROWS_TO_KEEP
    )
    if pays and (cache := HostCache.find(context.settings, metrics)) is not None:
        stores.append(_HostStore(cache))
    if context.settings.compiled_dir is not None:
        stores.append(FolderStore(context.settings.compiled_dir, context.storage, metrics))
    return stores


def _encode(bitmap: BitMap64) -> tuple[dict[str, Any], list[NDArray[Any]]]:
    return {"rows": len(bitmap)}, [np.frombuffer(bitmap.serialize(), np.uint8)]


def _decode(description: file_format.Description, arrays: list[NDArray[Any]], name: str) -> BitMap64:
    """Return the bitmap of an entry.

    Raises:
        ValueError: The file is no entry, or one of another name.
    """
    if description.kind != KIND or description.key != name.removesuffix(SUFFIX):
        raise ValueError("it was written under another name")
    if len(arrays) != 1 or arrays[0].dtype != np.uint8:
        raise ValueError("an entry of another form")
    bitmap = BitMap64.deserialize(arrays[0].tobytes())
    if len(bitmap) != description.values.get("rows"):
        raise ValueError("a bitmap of another size")
    return bitmap
