"""Reverse hash anti-join of equality deletes: build from the remaining rows, probe with the delete files.

Takes the key columns of rows that remain after the filter, from any number of row groups and tasks; returns a
bool for each row: whether it is deleted. The rows' keys become the hash table, and the delete files are
streamed past it, batch by batch, each opened once. The rules: the result is the same as that of
`build_from_deletes`; memory grows with the number of rows, not of delete keys; rows that exceed the budget
are joined in parts, and the files are read again for each part. Delete files and their row groups are skipped
if their bounds, Bloom filters or a first key column rule out the rows' values (`listed_values`).

Benefit: "streaming" and "values of remaining rows" in docs/benchmarks-deletes.md.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from twostage.deletes.anti_join.build_from_deletes import encode_data
from twostage.deletes.anti_join.listed_values import NUMBERS, is_one_of, list_values
from twostage.deletes.anti_join.load_key_sets import fields_to_read, group_by_scope
from twostage.deletes.files.columns import read_columns
from twostage.deletes.files.contents import fetch_ahead
from twostage.deletes.files.wanted_fields import NeededRows
from twostage.deletes.keys.budget import Budget
from twostage.deletes.keys.encoding import group_by_nulls, take_columns
from twostage.deletes.keys.key_columns import encode_delete, key_shape
from twostage.deletes.keys.key_set import KeySet
from twostage.errors import ResourceLimitError
from twostage.predicates.predicate import both
from twostage.predicates.prune import Match, match

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    import pyarrow as pa
    from numpy.typing import NDArray

    from twostage.deletes.files.contents import DeleteContents
    from twostage.deletes.keys.encoding import KeyColumn, KeyRows
    from twostage.deletes.keys.key_columns import KeyShape
    from twostage.metrics import Metrics
    from twostage.task import DeleteFile, ScanContext, ScanTask

PASS_BUDGET_DIVISOR = 2
"""One pass may take the budget divided by this: the other half is for columns that wait meanwhile."""
MIN_ROWS_TO_SPLIT = 64
"""Rows that are not divided further."""
MIN_TABLE_BYTES = 2 * 2**20
"""What the tables of that few rows may always take: the smallest takes 10 kB, and there are two for each
combination of NULL columns."""


@dataclass(frozen=True, slots=True, eq=False)
class RemainingRows:
    """Rows of one task that remain after the filter, and the delete files that may hold their keys.

    Attributes:
        task: The task: its sequence number and partition decide which deletes apply.
        deletes: The delete files.
        columns: Key columns by field id, in the types of the scan's schema, as `EqualityDeletes.deleted` takes them.
        num_rows: Rows in each of them.
    """

    task: ScanTask
    deletes: tuple[DeleteFile, ...]
    columns: Mapping[int, pa.Array]
    num_rows: int

    def part(self, start: int, length: int) -> RemainingRows:
        """Return the rows from number `start` on, at most `length`."""
        columns = {field_id: array.slice(start, length) for field_id, array in self.columns.items()}
        return replace(self, columns=columns, num_rows=min(length, self.num_rows - start))


class StreamedDeletes:
    """The equality deletes of one task, read again on each use; the counterpart of `EqualityDeletes`."""

    is_streamed = True

    def __init__(
        self,
        context: ScanContext,
        task: ScanTask,
        deletes: tuple[DeleteFile, ...],
        metrics: Metrics,
        contents: DeleteContents | None = None,
    ) -> None:
        self._contents = contents
        self._context = context
        self.task = task
        self.deletes = deletes
        self._metrics = metrics
        shapes = (
            key_shape(context, task, ids, files[0])
            for ids, scopes in group_by_scope(task, deletes).items()
            for files in scopes.values()
        )
        compared = (key.field.id for shape in shapes for key in shape.fields)
        self.field_ids: tuple[int, ...] = tuple(dict.fromkeys(compared))

    def __bool__(self) -> bool:
        return bool(self.deletes)

    def deleted(self, columns: Mapping[int, pa.Array], num_rows: int) -> NDArray[np.bool_]:
        """Return which data rows are deleted, a bool each; same arguments as `EqualityDeletes.deleted`."""
        rows = self.remaining_rows(columns, num_rows)
        return reverse_anti_join(self._context, [rows], self._metrics, self._contents)[0]

    def remaining_rows(self, columns: Mapping[int, pa.Array], num_rows: int) -> RemainingRows:
        """Return the rows, to be joined later together with those of other row groups."""
        return RemainingRows(self.task, self.deletes, columns, num_rows)


def reverse_anti_join(
    context: ScanContext,
    parts: Sequence[RemainingRows],
    metrics: Metrics,
    contents: DeleteContents | None = None,
) -> list[NDArray[np.bool_]]:
    """Return for each part which of its rows are deleted, a bool each.

    Args:
        context: The scan.
        parts: Rows of any number of tasks.
        metrics: Gains ``delete_files.*`` and ``delete_keys.*``.
        contents: Reads remote delete files, if the task schedules its own reads.

    Raises:
        CorruptFileError: A delete file's bytes are wrong.
        ResourceLimitError: Not even the keys of a few rows fit in the budget.
    """
    try:
        return _one_pass(context, parts, metrics, contents)
    except ResourceLimitError as error:
        if error.code != "DELETE_KEYS_TOO_LARGE" or sum(one.num_rows for one in parts) <= MIN_ROWS_TO_SPLIT:
            raise
    metrics.choices["equality deletes read in several passes: rows' keys exceed task-memory"] += 1
    if len(parts) > 1:
        half = len(parts) // 2
        return reverse_anti_join(context, parts[:half], metrics, contents) + reverse_anti_join(
            context, parts[half:], metrics, contents
        )
    (rows,) = parts
    half = rows.num_rows // 2
    halves = (rows.part(0, half), rows.part(half, rows.num_rows - half))
    return [np.concatenate([reverse_anti_join(context, [one], metrics, contents)[0] for one in halves])]


def _one_pass(
    context: ScanContext,
    parts: Sequence[RemainingRows],
    metrics: Metrics,
    contents: DeleteContents | None,
) -> list[NDArray[np.bool_]]:
    """Read each delete file once; a join for each set of equality ids and scope."""
    results = [np.zeros(one.num_rows, np.bool_) for one in parts]
    shapes: dict[tuple[Any, ...], list[tuple[int, Sequence[DeleteFile]]]] = {}
    for number, one in enumerate(parts):
        # If scopes are unknown, all deletes of the task share one.
        for ids, scopes in group_by_scope(one.task, one.deletes).items():
            for scope, deletes in scopes.items():
                shapes.setdefault((ids, scope), []).append((number, deletes))
    for (ids, _), members in shapes.items():
        files = {delete.path: delete for _, deletes in members for delete in deletes}
        # Tasks with the same scope are in the same partition.
        shape = key_shape(context, parts[members[0][0]].task, ids, next(iter(files.values())))
        join = _ReverseJoin(context, shape, [parts[number] for number, _ in members])
        with closing(fetch_ahead(context, join.files_to_read(files.values(), metrics), contents)) as fetched:
            for delete, content in fetched:
                join.probe_with(delete, content, metrics)
        for place, (number, _) in enumerate(members):
            results[number] |= join.deleted(place)
    return results


class _ReverseJoin:
    """The keys of rows of one shape and scope, and which of them are in the delete files read so far."""

    def __init__(self, context: ScanContext, shape: KeyShape, parts: Sequence[RemainingRows]) -> None:
        self._context = context
        self._shape = shape
        fields = shape.fields
        self._parts = parts
        settings = context.settings
        limit = settings.memory_budget // PASS_BUDGET_DIVISOR
        if sum(one.num_rows for one in parts) <= MIN_ROWS_TO_SPLIT:
            limit = max(limit, MIN_TABLE_BYTES)
        budget = Budget(limit, lambda: self._row_keys.nbytes + self._deleted_keys.nbytes)
        self._row_keys = KeySet(budget, kernels=settings.kernels, dense=settings.dense_keys)
        self._deleted_keys = KeySet(budget, kernels=settings.kernels, dense=settings.dense_keys)
        self._groups: list[list[KeyRows]] = []
        expected = sum(one.num_rows for one in parts)
        encoded: list[list[KeyColumn]] = []
        for one in parts:
            encoded.append([encode_data(one.columns, key) for key in fields])
            self._groups.append(list(group_by_nulls(encoded[-1], one.num_rows)))
            self._row_keys.insert(self._groups[-1], 0, expected)
            expected -= one.num_rows
        by_column = list(zip(*encoded, strict=True))
        self._values = [list_values(key, columns) for key, columns in zip(fields, by_column, strict=True)]
        self._predicate = both(
            *(is_one_of(key, values) for key, values in zip(fields, self._values, strict=True) if values)
        )

    def files_to_read(self, deletes: Iterable[DeleteFile], metrics: Metrics) -> list[DeleteFile]:
        """Return the delete files whose bounds do not rule out the rows' keys."""
        deletes = list(deletes)
        if not self._context.settings.prune_deletes:
            return deletes
        kept = [one for one in deletes if match(self._predicate, one.keys.get) is not Match.NONE]
        metrics.add("delete_files.skipped.survivors", len(deletes) - len(kept))
        return kept

    def probe_with(self, delete: DeleteFile, content: bytes | memoryview | None, metrics: Metrics) -> None:
        """Read a delete file, and keep those of its keys that occur in the rows."""
        fields = fields_to_read(self._shape.every)
        predicate = self._predicate if self._context.settings.prune_deletes else None
        first = None if predicate is None else self._first_column()
        may_match = None if first is None else lambda array: self._may_match(array, first, delete)
        batches = read_columns(
            self._context,
            delete,
            fields,
            metrics,
            needed=NeededRows(predicate=predicate, first=first, may_match=may_match),
            content=content,
        )
        for num_rows, arrays in batches:
            every = encode_delete(arrays, self._shape.every, num_rows, delete)
            columns, count = self._shape.compared(every, num_rows)
            metrics.add("delete_keys.streamed", num_rows)
            rows = None if predicate is None else self._candidates(columns, count)
            if rows is not None:
                columns, count = take_columns(columns, rows), len(rows)
            hits = np.flatnonzero(self._row_keys.probe(group_by_nulls(columns, count), count, -1))
            if len(hits):
                kept = group_by_nulls(take_columns(columns, hits), len(hits))
                self._deleted_keys.insert(kept, delete.sequence_number, len(hits))

    def _first_column(self) -> int | None:
        """Return the index of the column that is searched before others are read; None if it is the only one."""
        fields, every = self._shape.fields, self._shape.every
        listed = [place for place, values in enumerate(self._values) if values is not None]
        listed.sort(key=lambda place: fields[place].kind.name not in NUMBERS)
        return every.index(fields[listed[0]]) if listed and len(every) > 1 else None

    def _may_match(self, array: pa.Array, first: int, delete: DeleteFile) -> bool:
        key = self._shape.every[first]
        (column,) = encode_delete([array], [key], len(array), delete)
        values = self._values[self._shape.fields.index(key)]
        return values is None or bool(values.among(column).any())

    def _candidates(self, columns: Sequence[KeyColumn], num_rows: int) -> NDArray[np.int64] | None:
        """Return which delete keys have a listed value in every listed column; None: all, or not worth testing.

        Most keys are dropped here: Arrow takes 4 ns to test a string against a few values, half as long as a
        probe, and no kernel needs to be loaded.
        """
        if len(columns) == 1 and columns[0].text is None:
            return None  # probing numbers is faster
        among = np.ones(num_rows, np.bool_)
        for values, column in zip(self._values, columns, strict=True):
            if values is not None:
                among &= values.among(column)
                if not among.any():
                    break
        return None if among.all() else np.flatnonzero(among)

    def deleted(self, place: int) -> NDArray[np.bool_]:
        """Return which rows of part number `place` are deleted, a bool each."""
        rows = self._parts[place]
        return self._deleted_keys.probe(self._groups[place], rows.num_rows, rows.task.sequence_number)
