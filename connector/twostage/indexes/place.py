"""Where a table's indexes are, and which there are, by one listing of one folder.

Takes the table's `Storage` and the option ``index.location``; gives an `IndexPlace`, and from its listing the groups of
columns that are indexed per data file, and the runs of table-wide indexes. The rules: never inside the table's own
location, where clean-ups delete what the metadata does not name; nothing is registered in the table; and whoever may
write there decides which rows are returned, as with the table itself.

Layout: ``<location>/<table>/columns-….json`` says that a group of columns is indexed, ``<location>/<table>/columns-…/``
has a Puffin file for each data file, ``<location>/<table>/files-….puffin`` are runs. Table and data files are named by
fingerprints: a table or file that was created anew under an old name has another one.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from twostage.deletes.cache import fingerprint
from twostage.errors import TwoStageError
from twostage.storage import files
from twostage.storage.location import is_under, join, parent, parse_location

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable

    from twostage.metrics import Metrics
    from twostage.options import ReadSettings
    from twostage.task import ScanTask, Storage

FOLDER = "_twostage_indexes"
"""Beside a table's location, where ``index.location`` is not set."""
SUFFIX = ".puffin"
_GROUP = re.compile(r"columns((?:-\d+(?:\.[a-z]+)+)+)\.json")
_COLUMN = re.compile(r"-(\d+)((?:\.[a-z]+)+)")
_RUN = re.compile(r"files-v2-(\d+)-(\d+)-([0-9a-f]+)\.puffin")
"""Raise the version when older runs must not be used: those of version 1, without one in their names, lacked the default
values of files that do not hold the column."""
_OLD_RUN = re.compile(r"files-(\d+)-\d+-[0-9a-f]+\.puffin")
MAX_NAME = 160
"""Characters of a group's name; file systems allow 255."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexGroup:
    """Columns that are indexed together: one index file for each data file.

    Attributes:
        columns: Field ids, each with its kinds of indexes.
    """

    columns: tuple[tuple[int, tuple[str, ...]], ...]

    @property
    def name(self) -> str:
        """The name of its folder."""
        return "columns" + "".join(f"-{i}.{'.'.join(kinds)}" for i, kinds in self.columns)

    @property
    def field_ids(self) -> tuple[int, ...]:
        """The columns' field ids."""
        return tuple(field_id for field_id, _ in self.columns)

    @staticmethod
    def parse(name: str) -> IndexGroup | None:
        """Return the group that a file's name stands for; None if it stands for none.

        >>> IndexGroup.parse("columns-3.postings.bins-5.values.json").field_ids
        (3, 5)
        """
        found = _GROUP.fullmatch(name)
        if found is None:
            return None
        columns = (
            (int(field_id), tuple(kinds.strip(".").split(".")))
            for field_id, kinds in _COLUMN.findall(found[1])
        )
        return IndexGroup(columns=tuple(columns))


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexRun:
    """One file of a table-wide index: sorted (hash, data file) pairs of some data files.

    Attributes:
        field_id: The column.
        level: 0 for what was just built; runs of a level are merged to one of the next.
        name: Of its file.
    """

    field_id: int
    level: int
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TableIndexes:
    """What indexes a table has."""

    groups: tuple[IndexGroup, ...] = ()
    runs: tuple[IndexRun, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.groups or self.runs)

    def runs_of(self, field_id: int) -> tuple[IndexRun, ...]:
        """Return the runs of one column's table-wide index."""
        return tuple(run for run in self.runs if run.field_id == field_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexPlace:
    """Where the indexes of one table are.

    Attributes:
        storage: How to open files there: the location is its root.
        folder: The table's folder in it.
    """

    storage: Storage
    folder: str

    @property
    def is_remote(self) -> bool:
        """Whether reading takes a request."""
        return not parse_location(self.folder).is_local

    @property
    def store(self) -> Hashable:
        """Which store the location belongs to, for the keys of caches."""
        return fingerprint.of_store(self.storage)

    def path(self, *names: str) -> str:
        """Return the path of a file or folder inside the table's folder."""
        return join(self.folder, *names)

    def index_file(self, group: IndexGroup, task: ScanTask) -> str:
        """Return where the index of a task's data file is, if there is one."""
        name = fingerprint.of_data_file(task) + SUFFIX
        return join(self.folder, group.name, name)


def run_name(field_id: int, level: int, key: str) -> str:
    """Return the name of a run's file without `SUFFIX`; `key` (hex digits) tells it from others."""
    return f"files-v2-{field_id}-{level}-{key}"


def old_run(name: str) -> int | None:
    """Return the column of a run of an earlier version, by its file's name; None for any other file."""
    found = _OLD_RUN.fullmatch(name)
    return None if found is None else int(found[1])


def index_place(
    storage: Storage, settings: ReadSettings, table_uuid: str | None, own_folders: Iterable[str] = ()
) -> IndexPlace | None:
    """Return where a table's indexes are; None where there is no place beside the table.

    Args:
        storage: The table's.
        settings: With ``index.location``.
        table_uuid: From the table's metadata.
        own_folders: More folders that belong to the table, which its properties name.
    """
    location = settings.index_location
    if location is None:
        root = parse_location(storage.root)
        beside = parent(storage.root)
        if not root.path.strip("/") or (not root.is_local and not parse_location(beside).authority):
            return None
        location = join(beside, FOLDER)
        if any(is_under(folder, location) for folder in own_folders if folder):
            return None
    own = replace(storage, root=location, moved_from=None, allowed=())
    return IndexPlace(storage=own, folder=join(location, fingerprint.of_table_at(table_uuid, storage.root)))


def list_indexes(place: IndexPlace, metrics: Metrics) -> TableIndexes:
    """Return which indexes there are: one listing of the table's folder. A store that fails has none, with a warning."""
    try:
        names = [
            entry.name for entry in files.list_folder(place.storage, place.folder) if not entry.is_folder
        ]
    except (TwoStageError, OSError) as error:
        warn(metrics, "failed", f"indexes could not be listed: {error}")
        return TableIndexes()
    groups = [group for name in names if (group := IndexGroup.parse(name)) is not None]
    runs = [
        IndexRun(field_id=int(found[1]), level=int(found[2]), name=name)
        for name in names
        if (found := _RUN.fullmatch(name)) is not None
    ]
    return TableIndexes(groups=tuple(groups), runs=tuple(runs))


def warn(metrics: Metrics, counter: str, sentence: str) -> None:
    """Count a warning, ``indexes.<counter>``, and say why."""
    metrics.add(f"indexes.{counter}")
    metrics.choices[sentence] += 1
