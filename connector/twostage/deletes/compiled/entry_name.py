"""The names of compiled entries: one data file, the exact set of its delete files, and how they are read.

Takes a `ScanTask` and its delete files; returns an `EntryName`. The rule: entries that could differ have
different names, so that an entry is used only for exactly the files it was made from; names are fingerprints,
and reveal no path.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from twostage.deletes.cache import fingerprint
from twostage.deletes.cache.host import SUFFIX

if TYPE_CHECKING:
    from collections.abc import Iterable

    from twostage.task import DeleteFile, ScanContext, ScanTask

KIND = "positions"
"""The kind of entries' files in the host's cache."""


@dataclass(frozen=True, slots=True)
class EntryName:
    """What an entry was made from, as fingerprints; `text` is its file name.

    Attributes:
        table: `fingerprint.of_table`.
        data_file: `fingerprint.of_data_file`.
        delete_set: `name_set`, or `name_set_with_positions`.
        reading: Fingerprint of how the deletes are read, their key columns, and which part of the data file
            the entry covers.
    """

    table: str
    data_file: str
    delete_set: str
    reading: str

    @property
    def text(self) -> str:
        """The file's name."""
        return f"{KIND}-{self.table}-{self.data_file}-{self.delete_set}-{self.reading}{SUFFIX}"

    @staticmethod
    def parse(name: str) -> EntryName | None:
        """Parse a file name; None if it is not an entry's."""
        kind, *parts = name.removesuffix(SUFFIX).split("-")
        return EntryName(*parts) if kind == KIND and len(parts) == 4 and name.endswith(SUFFIX) else None


def whole_file_task(task: ScanTask) -> ScanTask:
    """Return the task of the whole data file, whichever part of it `task` covers."""
    return replace(task, start=0, length=task.file_size)


def name_set(task: ScanTask, deletes: Iterable[DeleteFile]) -> str:
    """Name the set of all equality-delete files that apply to a task's data file."""
    return task.delete_set or fingerprint.of_set(map(fingerprint.of_delete, deletes))


def name_set_with_positions(task: ScanTask, delete_set: str) -> str:
    """Name a set of equality-delete files together with the positional deletes and vectors of a task's data file."""
    others = (fingerprint.of_positions(delete) for delete in task.deletes if delete.content != "equality")
    return fingerprint.digest(delete_set, fingerprint.of_set(others))


def entry_name(
    context: ScanContext, task: ScanTask, deletes: Iterable[DeleteFile], delete_set: str | None = None
) -> EntryName:
    """Return the name of a task's entry; `delete_set` is the result of `name_set`, if known."""
    deletes = list(deletes)
    ids = sorted({field_id for delete in deletes for field_id in delete.equality_ids})
    return EntryName(
        fingerprint.of_table(context),
        fingerprint.of_data_file(task),
        delete_set or name_set(task, deletes),
        name_reading(context, ids, part_of(task)),
    )


def part_of(task: ScanTask) -> tuple[int, ...]:
    """Return which part of its data file a task reads; empty if it reads all of it."""
    is_whole = task.start == 0 and task.length >= task.file_size
    return () if is_whole else (task.start, task.length)


def name_reading(context: ScanContext, ids: Iterable[int], part: tuple[int, ...]) -> str:
    """Name how deletes of these key columns (ascending) are read, and the part of the data file that is compiled."""
    keys = [
        (i, repr(context.schema.field(i)), context.schema.path(i))
        if i in context.schema
        else (i, repr(context.key_fields.get(i)))
        for i in ids
    ]
    return fingerprint.digest(fingerprint.of_reading(context), keys, part)


def name_prefix(name: EntryName) -> str:
    """Return the common prefix of the names of a data file's entries."""
    return f"{KIND}-{name.table}-{name.data_file}-"
