"""Which delete files may hold a key of some rows, by the bounds of both.

Takes the bounds of key columns in rows and in delete files, from metrics or statistics; returns the delete
files that no column rules out. The rule: equality is Iceberg's for delete keys (NULL equals NULL, NaN equals
NaN), and unknown values may be equal. -0.0 and 0.0, which are two keys, count as one here, which only rules
out less.

Benefit: "bounds of delete files" in docs/benchmarks-deletes.md (``prune.deletes``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from twostage.deletes.keys.intervals import DeleteKeyRange, KeyDomain

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from twostage.predicates.bounds import Bounds
    from twostage.schema import Primitive
    from twostage.task import DeleteFile


class DeleteRanges:
    """Compares delete files with rows; caches the delete files' ranges.

    Args:
        kind_of: The type of a key column, by field id.
    """

    def __init__(self, kind_of: Callable[[int], Primitive]) -> None:
        self._kind_of = kind_of
        self._ranges_of: dict[int, dict[int, DeleteKeyRange]] = {}
        self._domains: dict[tuple[int, ...], dict[tuple[int, ...], dict[int, KeyDomain]]] = {}

    def overlapping(
        self,
        deletes: Iterable[DeleteFile],
        bounds_of: Callable[[int], Bounds | None],
        num_rows: int,
        is_column: Callable[[int], bool],
    ) -> tuple[DeleteFile, ...]:
        """Return the delete files that may hold a key of the rows, because no key column proves otherwise.

        Args:
            deletes: Equality-delete files; they must outlive this object.
            bounds_of: The bounds of a key column in the rows, by field id; None: unknown.
            num_rows: How many rows.
            is_column: Whether a key is a top-level column, not a field of a struct; by field id.
        """
        rows: dict[int, DeleteKeyRange] = {}
        return tuple(
            one for one in deletes if not self._is_disjoint(one, rows, bounds_of, num_rows, is_column)
        )

    def domains(self, deletes: tuple[DeleteFile, ...]) -> dict[tuple[int, ...], dict[int, KeyDomain]]:
        """Return the domains of delete files' keys, by equality ids, then by field id if all files have bounds."""
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

    def _is_disjoint(
        self,
        delete: DeleteFile,
        rows: dict[int, DeleteKeyRange],
        bounds_of: Callable[[int], Bounds | None],
        num_rows: int,
        is_column: Callable[[int], bool],
    ) -> bool:
        for field_id, keys in self._ranges(delete).items():
            if field_id not in rows:
                counted = is_column(field_id)
                rows[field_id] = DeleteKeyRange(
                    self._kind_of(field_id), bounds_of(field_id), num_rows, counted=counted
                )
            if keys.is_disjoint(rows[field_id]):
                return True
        return False

    def _ranges(self, delete: DeleteFile) -> dict[int, DeleteKeyRange]:
        if id(delete) not in self._ranges_of:
            # Any number of rows will do: the counts already include what planning knew about NULL.
            self._ranges_of[id(delete)] = {
                field_id: DeleteKeyRange(self._kind_of(field_id), bounds, 1)
                for field_id, bounds in delete.keys.items()
            }
        return self._ranges_of[id(delete)]
