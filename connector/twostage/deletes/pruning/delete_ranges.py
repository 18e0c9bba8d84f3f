"""Which delete files may hold a key of some rows, by the bounds of both.

Takes what metrics or statistics say of the key columns, on either side; gives the files that no column rules out. The rule: equal means what
Iceberg says of delete keys (NULL equals NULL, NaN equals NaN), and whatever is not known may be equal. -0.0 and
0.0, which are two keys, count as one here: that only proves less.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from twostage.deletes.keys.intervals import KeyDomain, KeyRange

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from twostage.predicates.bounds import Bounds
    from twostage.schema import Primitive
    from twostage.task import DeleteFile


class DeleteRanges:
    """Which delete files may hold a key of some rows; what it made of their bounds is kept.

    Args:
        kind_of: The type of a key column, by field id.
    """

    def __init__(self, kind_of: Callable[[int], Primitive]) -> None:
        self._kind_of = kind_of
        self._made: dict[int, dict[int, KeyRange]] = {}
        self._domains: dict[tuple[int, ...], dict[tuple[int, ...], dict[int, KeyDomain]]] = {}

    def meeting(
        self,
        deletes: Iterable[DeleteFile],
        bounds_of: Callable[[int], Bounds | None],
        num_rows: int,
        is_column: Callable[[int], bool],
    ) -> tuple[DeleteFile, ...]:
        """Return the delete files, of those given, that no key column proves to miss the rows.

        Args:
            deletes: Equality-delete files that live at least as long as this.
            bounds_of: What is known of a key column in the rows, by field id.
            num_rows: How many rows.
            is_column: Whether a key is a column, not inside a struct.
        """
        rows: dict[int, KeyRange] = {}
        return tuple(one for one in deletes if not self._misses(one, rows, bounds_of, num_rows, is_column))

    def domains(self, deletes: tuple[DeleteFile, ...]) -> dict[tuple[int, ...], dict[int, KeyDomain]]:
        """Return where the keys of delete files lie: by equality ids, and by column where anything is known of it."""
        key = tuple(map(id, deletes))
        if key not in self._domains:
            groups: dict[tuple[int, ...], list[DeleteFile]] = {}
            for delete in deletes:
                groups.setdefault(tuple(sorted(set(delete.equality_ids))), []).append(delete)
            found: dict[tuple[int, ...], dict[int, KeyDomain]] = {}
            for ids, files in groups.items():
                ranges = [self._ranges(delete) for delete in files]
                found[ids] = {
                    field_id: KeyDomain.of_files(one[field_id] for one in ranges)
                    for field_id in ids
                    if all(field_id in one for one in ranges)
                }
            self._domains[key] = found
        return self._domains[key]

    def _misses(
        self,
        delete: DeleteFile,
        rows: dict[int, KeyRange],
        bounds_of: Callable[[int], Bounds | None],
        num_rows: int,
        is_column: Callable[[int], bool],
    ) -> bool:
        for field_id, keys in self._ranges(delete).items():
            if field_id not in rows:
                counted = is_column(field_id)
                rows[field_id] = KeyRange(
                    self._kind_of(field_id), bounds_of(field_id), num_rows, counted=counted
                )
            if keys.misses(rows[field_id]):
                return True
        return False

    def _ranges(self, delete: DeleteFile) -> dict[int, KeyRange]:
        if id(delete) not in self._made:
            # One row is as good as many: what planning knew of NULL is in the counts already.
            self._made[id(delete)] = {
                field_id: KeyRange(self._kind_of(field_id), bounds, 1)
                for field_id, bounds in delete.keys.items()
            }
        return self._made[id(delete)]
