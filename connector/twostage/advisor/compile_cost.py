"""The bytes that compiling a table's equality deletes would read: part of what is known about a table.

Takes the tasks of a scan of all data files, and the table's manifest entries; returns bytes. The rules are
those of ``compile-deletes``: each delete file is read once, and so are the key columns, whole, of each data
file that equality deletes apply to. If a manifest does not state column sizes, the whole file counts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from twostage.table.manifest_entry import ContentFile
    from twostage.task import ScanTask


class CompileCost:
    """The bytes of the equality deletes of some tasks, and of their key columns."""

    def __init__(self, tasks: Iterable[ScanTask]) -> None:
        self._key_ids: dict[str, frozenset[int]] = {}
        sizes: dict[str, int] = {}
        for task in tasks:
            deletes = [delete for delete in task.deletes if delete.content == "equality"]
            if deletes:
                sizes |= {delete.path: delete.file_size for delete in deletes}
                self._key_ids[task.written_path] = frozenset(i for one in deletes for i in one.equality_ids)
        self.nbytes = sum(sizes.values())

    def add(self, file: ContentFile) -> None:
        """Add the bytes read from a data file."""
        key_ids = self._key_ids.get(file.path)
        if key_ids is None:
            return
        if not file.column_sizes:
            self.nbytes += file.file_size
        else:  # a column that a data file lacks has no size there
            self.nbytes += sum(file.column_sizes.get(i, 0) for i in key_ids)
