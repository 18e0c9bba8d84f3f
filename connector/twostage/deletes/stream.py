"""Equality deletes asked the other way round: which of some rows' keys do the delete files hold.

Takes the key columns of rows that are left, of any number of row groups and tasks; gives a bool for each row. The
rows' keys become the table, and the delete files pass by, batch after batch, each opened once. The rules: the
answer is the one that a table of all delete keys gives; memory goes with the rows asked about, not with the
keys, and rows that exceed the budget are asked about in parts, for which the files are read again.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from twostage.deletes.budget import Budget
from twostage.deletes.delete_files import fetch_ahead, read_columns
from twostage.deletes.equality import applied_groups, encode_data, encode_delete, key_shape, wanted_fields
from twostage.deletes.key_set import KeySet
from twostage.deletes.keys import TEXT, KeyColumn, group_by_nulls, take_columns
from twostage.errors import ResourceLimitError
from twostage.predicates.predicate import Column, In, IsNull, both, either
from twostage.predicates.prune import Match, match

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    import pyarrow as pa
    from numpy.typing import NDArray

    from twostage.deletes.compiled import Recorder
    from twostage.deletes.key_shape import KeyField, KeyShape
    from twostage.deletes.keys import KeyRows
    from twostage.metrics import Metrics
    from twostage.predicates.predicate import Predicate
    from twostage.task import DeleteFile, ScanContext, ScanTask

MOST_VALUES = 4096
"""Of a key column, different ones, by which delete files and their row groups are skipped: 1 ms to collect."""
SHARE = 2
"""Of the budget that one part may take: the other half is for what is held meanwhile."""
LEAST_ROWS = 64
"""Rows that are not divided further."""
LEAST_BYTES = 2 * 2**20
"""What the tables of so few rows may always take: the smallest one is of 10 kB, and there is one, twice, for each
combination of NULL columns."""
_NUMBERS = frozenset("int long date time timestamp timestamptz timestamp_ns timestamptz_ns".split())


@dataclass(frozen=True, slots=True, eq=False)
class Asked:
    """Rows to ask about: of one task, with the delete files that may hold their keys, and their key columns.

    `columns` are by field id, in the types of the scan's schema, as `EqualityDeletes.deleted` takes them.
    """

    task: ScanTask
    deletes: tuple[DeleteFile, ...]
    columns: Mapping[int, pa.Array]
    num_rows: int

    def part(self, start: int, length: int) -> Asked:
        """Return some of the rows."""
        columns = {field_id: array.slice(start, length) for field_id, array in self.columns.items()}
        return replace(self, columns=columns, num_rows=min(length, self.num_rows - start))


class StreamedDeletes:
    """The equality deletes of one task, read anew whenever they are asked; the counterpart of `EqualityDeletes`."""

    is_streamed = True

    def __init__(
        self,
        context: ScanContext,
        task: ScanTask,
        deletes: tuple[DeleteFile, ...],
        metrics: Metrics,
        recorder: Recorder | None = None,
    ) -> None:
        self._context = context
        self.task = task
        self.deletes = deletes
        self._metrics = metrics
        self.recorder = recorder
        shapes = (
            key_shape(context, task, ids, files[0])
            for ids, scopes in applied_groups(task, deletes).items()
            for files in scopes.values()
        )
        compared = (key.field.id for shape in shapes for key in shape.fields)
        self.field_ids: tuple[int, ...] = tuple(dict.fromkeys(compared))

    def __bool__(self) -> bool:
        return bool(self.deletes)

    def deleted(self, columns: Mapping[int, pa.Array], num_rows: int) -> NDArray[np.bool_]:
        """Return which data rows are deleted."""
        return stream_deleted(self._context, [self.asked(columns, num_rows)], self._metrics)[0]

    def asked(self, columns: Mapping[int, pa.Array], num_rows: int) -> Asked:
        """Return the question, to be put together with others."""
        return Asked(self.task, self.deletes, columns, num_rows)


def stream_deleted(context: ScanContext, asked: Sequence[Asked], metrics: Metrics) -> list[NDArray[np.bool_]]:
    """Return, for each of what is asked, which of its rows are deleted.

    Raises:
        CorruptFileError: A delete file's bytes are wrong.
        ResourceLimitError: Not even a few rows' keys fit the budget.
    """
    try:
        return _one_pass(context, asked, metrics)
    except ResourceLimitError as error:
        if error.code != "DELETE_KEYS_TOO_LARGE" or sum(one.num_rows for one in asked) <= LEAST_ROWS:
            raise
    metrics.choices["equality deletes read in several passes: rows' keys exceed task-memory"] += 1
    if len(asked) > 1:
        half = len(asked) // 2
        return stream_deleted(context, asked[:half], metrics) + stream_deleted(context, asked[half:], metrics)
    half = asked[0].num_rows // 2
    parts = (asked[0].part(0, half), asked[0].part(half, asked[0].num_rows - half))
    return [np.concatenate([stream_deleted(context, [part], metrics)[0] for part in parts])]


def _one_pass(context: ScanContext, asked: Sequence[Asked], metrics: Metrics) -> list[NDArray[np.bool_]]:
    results = [np.zeros(one.num_rows, np.bool_) for one in asked]
    shapes: dict[tuple[Any, ...], list[tuple[int, Sequence[DeleteFile]]]] = {}
    for place, one in enumerate(asked):
        # What a scope without a name stands for is all deletes of the task.
        for ids, scopes in applied_groups(one.task, one.deletes).items():
            for scope, deletes in scopes.items():
                shapes.setdefault((ids, scope), []).append((place, deletes))
    for (ids, _), members in shapes.items():
        files = {delete.path: delete for _, deletes in members for delete in deletes}
        # Tasks of one scope are of one partition.
        shape = key_shape(context, asked[members[0][0]].task, ids, next(iter(files.values())))
        question = _Question(context, shape, [asked[place] for place, _ in members])
        with closing(fetch_ahead(context, question.worth_reading(files.values(), metrics))) as fetched:
            for delete, content in fetched:
                question.read(delete, content, metrics)
        for number, (place, _) in enumerate(members):
            results[place] |= question.answer(number)
    return results


class _Question:
    """The keys of rows of one shape and scope, and which of them the delete files held so far."""

    def __init__(self, context: ScanContext, shape: KeyShape, asked: Sequence[Asked]) -> None:
        self._context = context
        self._shape = shape
        fields = shape.fields
        self._asked = asked
        settings = context.settings
        limit = settings.memory_budget // SHARE
        if sum(one.num_rows for one in asked) <= LEAST_ROWS:
            limit = max(limit, LEAST_BYTES)
        budget = Budget(limit, lambda: self._wanted.nbytes + self._found.nbytes)
        self._wanted = KeySet(budget, kernels=settings.kernels, dense=settings.dense_keys)
        self._found = KeySet(budget, kernels=settings.kernels, dense=settings.dense_keys)
        self._groups: list[list[KeyRows]] = []
        left = sum(one.num_rows for one in asked)
        encoded: list[list[KeyColumn]] = []
        for one in asked:
            encoded.append([encode_data(one.columns, key) for key in fields])
            self._groups.append(list(group_by_nulls(encoded[-1], one.num_rows)))
            self._wanted.insert(self._groups[-1], 0, left)
            left -= one.num_rows
        parts = zip(*encoded, strict=True)
        self._predicate = both(*(_one_of(key, part) for key, part in zip(fields, parts, strict=True)))

    def worth_reading(self, deletes: Iterable[DeleteFile], metrics: Metrics) -> list[DeleteFile]:
        """Return the delete files whose bounds leave room for a key that is asked for."""
        deletes = list(deletes)
        if not self._context.settings.prune_deletes:
            return deletes
        kept = [one for one in deletes if match(self._predicate, one.keys.get) is not Match.NONE]
        metrics.add("delete_files.skipped.survivors", len(deletes) - len(kept))
        return kept

    def read(self, delete: DeleteFile, content: bytes | None, metrics: Metrics) -> None:
        """Keep those keys of a delete file that are asked for."""
        wanted = wanted_fields(self._shape.every)
        predicate = self._predicate if self._context.settings.prune_deletes else None
        batches = read_columns(self._context, delete, wanted, metrics, predicate=predicate, content=content)
        for num_rows, arrays in batches:
            every = encode_delete(arrays, self._shape.every, num_rows, delete)
            columns, count = self._shape.compared(every, num_rows)
            metrics.add("delete_keys.streamed", num_rows)
            hits = self._wanted.probe(group_by_nulls(columns, count), count, -1)
            rows = np.flatnonzero(hits)
            if len(rows):
                kept = group_by_nulls(take_columns(columns, rows), len(rows))
                self._found.insert(kept, delete.sequence_number, len(rows))

    def answer(self, number: int) -> NDArray[np.bool_]:
        """Return which rows of one of those asked for are deleted."""
        one = self._asked[number]
        return self._found.probe(self._groups[number], one.num_rows, one.task.sequence_number)


def _one_of(key: KeyField, columns: Iterable[KeyColumn]) -> Predicate:
    """Return what is true of each of these keys in one column; TRUE where they are many, or of a difficult type."""
    name = key.kind.name
    if name not in _NUMBERS and name not in ("string", "binary"):
        return both()
    column = Column(key.field.id, key.names, key.kind)
    values: set[Any] = set()
    may_null = False
    for one in columns:
        if len(one.words) > 2 * MOST_VALUES:
            return both()
        valid = np.ones(len(one.words), np.bool_) if one.valid is None else one.valid
        may_null |= not valid.all()
        if name in TEXT:
            assert one.text is not None
            values.update(text for text in one.text.to_pylist() if text is not None)
        else:
            values.update(one.words[valid, 0].view(np.int64).tolist())
        if len(values) > MOST_VALUES:
            return both()
    if name == "string":
        try:
            values = {text.decode() for text in values}
        except UnicodeDecodeError:
            return both()
    listed = In(column, tuple(values)) if values else either()
    return either(listed, IsNull(column)) if may_null else listed
