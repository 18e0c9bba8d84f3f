"""Compiled deletes: the positions of one data file's rows that its equality deletes remove.

Takes a `ScanTask`; gives the positions if they were compiled before, else a recorder that compiles them while the
scan applies the deletes. The rules: an entry serves exactly the data file (path, size, sequence number) and the set
of equality-delete files that it was made of; it is made only where every row was asked about, whatever other
deletes or the query remove; an entry that is damaged, or of anything else, is ignored with a counted warning.
They lie in the host's cache, and in the folder or bucket that ``deletes.compiled-dir`` names: whoever may write
there decides which rows are deleted.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
from pyroaring import BitMap64

from twostage.deletes.cache import file_format, fingerprint
from twostage.deletes.cache.host import SUFFIX, HostCache
from twostage.deletes.cache.memory import CACHE
from twostage.deletes.compiled.recorder import Recorder
from twostage.deletes.positions.position_deletes import DeletedPositions
from twostage.errors import MissingFileError, ResourceLimitError, TwoStageError
from twostage.storage import files
from twostage.storage.location import join, parse_location
from twostage.task import Storage

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from numpy.typing import NDArray

    from twostage.data_files.row_group import RowGroup
    from twostage.metrics import Metrics
    from twostage.task import DeleteFile, ScanContext, ScanTask

MIN_KEYS = 10_000
MIN_FILES = 8
"""Fewer keys in fewer files are applied again sooner than they are worth a file of the host's cache."""
MIN_ROWS = 1_000_000
"""Of a data file, that Spark's own reader reads in half of our time once it is told which are deleted."""
MAX_BYTES = 512 * 2**20
KIND = "compiled"
_KIND = "positions"


@dataclass(frozen=True, slots=True)
class EntryName:
    """What an entry is of; `text` names its file."""

    table: str
    data_file: str
    delete_set: str
    reading: str

    @property
    def text(self) -> str:
        """The file's name."""
        return f"{_KIND}-{self.table}-{self.data_file}-{self.delete_set}-{self.reading}{SUFFIX}"

    @staticmethod
    def parse(name: str) -> EntryName | None:
        """Return the parts of a file's name; None if it is no entry's."""
        kind, *parts = name.removesuffix(SUFFIX).split("-")
        return EntryName(*parts) if kind == _KIND and len(parts) == 4 and name.endswith(SUFFIX) else None


@dataclass(slots=True)
class CompiledDeletes:
    """What is known of a task's equality deletes without opening them.

    Attributes:
        positions: The rows that they remove; None if they were not compiled.
        recorder: Compiles them during the scan; None where nothing would keep the result.
    """

    positions: DeletedPositions | None = None
    recorder: Recorder | None = None
    name: EntryName | None = None
    places: list[Place] = field(default_factory=list)

    def finish(self, metrics: Metrics) -> None:
        """Keep what the scan has compiled, if it asked about every row; to be called at the end of the task."""
        if self.recorder is not None and self.name is not None and self.recorder.is_complete:
            store(self.name, self.recorder.bitmap, self.places, metrics)

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
        positions: What the task's positional deletes and vectors remove: nobody asks about these rows, so that what is
            compiled serves under the same positional deletes only.
    """
    deletes = [delete for delete in task.deletes if delete.content == "equality"]
    if not deletes:
        return CompiledDeletes()
    places = places_of(context, deletes, metrics, task.record_count)
    if not places:
        return CompiledDeletes()
    delete_set = set_name(task, deletes)
    names = [entry_name(context, one, deletes, delete_set) for one in (whole(task), task)]
    if positions:
        besides = set_with_positions(task, delete_set)
        names += [entry_name(context, one, deletes, besides) for one in (whole(task), task)]
    for name in dict.fromkeys(names):
        bitmap = find_entry(context, name, places)
        if bitmap is not None:
            metrics.add("delete_compiled.hits")
            return CompiledDeletes(DeletedPositions(KIND, bitmap, len(bitmap)))
    # Of a part of the deletes (the others delete nothing that the query returns) no entry is made.
    recorder = Recorder(positions.bitmap) if task.delete_set is None else None
    return CompiledDeletes(None, recorder, names[-1], places)


def find_entry(
    context: ScanContext, name: EntryName, places: Iterable[Place], limit: int | None = None
) -> BitMap64 | None:
    """Return an entry's bitmap from this process's memory or the first place that has it; None if none does.

    Raises:
        ResourceLimitError: It takes more than `limit` bytes, if that is given.
    """
    found: BitMap64 | None = CACHE.get(name)
    if found is None:
        found = next((one for place in places if (one := place.read(name.text, limit)) is not None), None)
        if found is not None:
            size = len(found.serialize())
            CACHE.put(name, found, size + 2**10, limit=context.settings.memory_budget)
    return found


def whole(task: ScanTask) -> ScanTask:
    """Return the task of all of a file, whatever part of it the task is."""
    return replace(task, start=0, length=task.file_size)


def set_name(task: ScanTask, deletes: Iterable[DeleteFile]) -> str:
    """Name the set of all equality-delete files that apply to a task's file."""
    return task.delete_set or fingerprint.of_set(map(fingerprint.of_delete, deletes))


def set_with_positions(task: ScanTask, delete_set: str) -> str:
    """Name a set of equality-delete files together with the positional deletes and vectors of a task's file."""
    others = (fingerprint.of_positions(delete) for delete in task.deletes if delete.content != "equality")
    return fingerprint.digest(delete_set, fingerprint.of_set(others))


def entry_name(
    context: ScanContext, task: ScanTask, deletes: Iterable[DeleteFile], delete_set: str | None = None
) -> EntryName:
    """Return the name of a task's entry; `delete_set` is what `set_name` gives, if it is known."""
    deletes = list(deletes)
    ids = sorted({field_id for delete in deletes for field_id in delete.equality_ids})
    keys = [
        (i, repr(context.schema.field(i)), context.schema.path(i))
        if i in context.schema
        else (i, repr(context.key_fields.get(i)))
        for i in ids
    ]
    is_whole = task.start == 0 and task.length >= task.file_size
    part = () if is_whole else (task.start, task.length)
    return EntryName(
        fingerprint.of_table(context),
        fingerprint.of_data_file(task),
        delete_set or set_name(task, deletes),
        fingerprint.digest(fingerprint.of_reading(context), keys, part),
    )


def prefix_of(name: EntryName) -> str:
    """Return how the names of all entries of the same data file begin."""
    return f"{_KIND}-{name.table}-{name.data_file}-"


def store(name: EntryName, bitmap: BitMap64, places: Iterable[Place], metrics: Metrics) -> bool:
    """Keep an entry wherever that works; tell whether it did anywhere."""
    bitmap.run_optimize()
    kept = [place.write(name.text, bitmap) for place in places]
    metrics.add("delete_compiled.written", int(any(kept)))
    return any(kept)


class Place:
    """Where entries are kept."""

    def read(self, name: str, limit: int | None = None) -> BitMap64 | None:
        """Return an entry's bitmap; None if it is not there or not usable.

        Raises:
            ResourceLimitError: It takes more than `limit` bytes, if that is given.
        """
        raise NotImplementedError

    def has(self, prefix: str) -> bool:
        """Tell whether an entry is there whose name begins so; False also where it takes a request to know."""
        raise NotImplementedError

    def write(self, name: str, bitmap: BitMap64) -> bool:
        """Keep an entry; tell whether that worked."""
        raise NotImplementedError


class _HostPlace(Place):
    """The host's cache."""

    def __init__(self, cache: HostCache) -> None:
        self._cache = cache

    def read(self, name: str, limit: int | None = None) -> BitMap64 | None:
        if limit is not None and self._cache.size_of(name) > limit:
            raise ResourceLimitError(
                "FILE_TOO_LARGE", f"Compiled deletes take more than {limit} bytes", stage="deletes"
            )
        entry = self._cache.load(name, _KIND)
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
        return self._cache.save(name, _KIND, *_encode(bitmap))


class ChosenPlace(Place):
    """The folder or bucket that the user chose, opened with the table's storage properties."""

    def __init__(self, location: str, properties: Any, metrics: Metrics) -> None:
        self.storage = Storage(properties=properties, root=location)
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
            most = MAX_BYTES if limit is None else limit
            data = files.read_all(self.storage, join(self.storage.root, name), limit=most)
            description = file_format.describe(lambda place, n: data[place : place + n], len(data))
            file_format.verify(lambda place, n: data[place : place + n], description)
            return _decode(description, file_format.arrays_in(data, description), name)
        except MissingFileError:
            return None
        except (TwoStageError, ValueError) as error:
            if limit is not None and isinstance(error, ResourceLimitError):
                raise
            self._warn("ignored", f"compiled deletes were ignored: {error}")
            return None

    def has(self, prefix: str) -> bool:
        """Tell whether an entry is there whose name begins so; False also where it takes a request to know."""
        if self.is_remote:
            return False
        with contextlib.suppress(TwoStageError, OSError):
            return any(
                entry.name.startswith(prefix) for entry in files.list_folder(self.storage, self.storage.root)
            )
        return False

    def write(self, name: str, bitmap: BitMap64) -> bool:
        """Keep an entry; tell whether that worked."""
        _, parts = file_format.encode(_KIND, name.removesuffix(SUFFIX), *_encode(bitmap))
        try:
            files.write_all(self.storage, join(self.storage.root, name), b"".join(parts))
        except TwoStageError as error:
            self._warn("failed", f"compiled deletes could not be written: {error}")
            return False
        return True

    def _warn(self, counter: str, sentence: str) -> None:
        self._metrics.add(f"delete_compiled.{counter}")
        self._metrics.choices[sentence] += 1


def places_of(
    context: ScanContext, deletes: Iterable[DeleteFile] | None, metrics: Metrics, num_rows: int = 0
) -> list[Place]:
    """Return where an entry may lie: the host's cache if it is worth it, and what the user chose.

    Args:
        context: The scan.
        deletes: What the entry stands for; None: it is worth it.
        metrics: Is told why the host's cache cannot be used.
        num_rows: Of the data file.
    """
    places: list[Place] = []
    counts = None if deletes is None else [delete.record_count for delete in deletes]
    is_worth = counts is None or sum(counts) >= MIN_KEYS or len(counts) >= MIN_FILES or num_rows >= MIN_ROWS
    if is_worth and (cache := HostCache.find(context.settings, metrics)) is not None:
        places.append(_HostPlace(cache))
    if context.settings.compiled_dir is not None:
        places.append(ChosenPlace(context.settings.compiled_dir, context.storage.properties, metrics))
    return places


def _encode(bitmap: BitMap64) -> tuple[dict[str, Any], list[NDArray[Any]]]:
    return {"rows": len(bitmap)}, [np.frombuffer(bitmap.serialize(), np.uint8)]


def _decode(description: file_format.Description, arrays: list[NDArray[Any]], name: str) -> BitMap64:
    """Return the bitmap of an entry.

    Raises:
        ValueError: It is none, or another's.
    """
    if description.kind != _KIND or description.key != name.removesuffix(SUFFIX):
        raise ValueError("it was written under another name")
    if len(arrays) != 1 or arrays[0].dtype != np.uint8:
        raise ValueError("an entry of another form")
    bitmap = BitMap64.deserialize(arrays[0].tobytes())
    if len(bitmap) != description.values.get("rows"):
        raise ValueError("a bitmap of another size")
    return bitmap
