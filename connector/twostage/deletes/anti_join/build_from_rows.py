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
import pyarrow as pa
import pyarrow.compute as pc

from twostage.deletes.anti_join.build_from_deletes import encode_data
from twostage.deletes.anti_join.load_key_sets import applied_groups, wanted_fields
from twostage.deletes.files.columns import fetch_ahead, read_columns
from twostage.deletes.keys.budget import Budget
from twostage.deletes.keys.encoding import TEXT, KeyColumn, group_by_nulls, take_columns
from twostage.deletes.keys.hash_table import FEW
from twostage.deletes.keys.key_columns import encode_delete, key_shape
from twostage.deletes.keys.key_set import KeySet
from twostage.errors import ResourceLimitError
from twostage.predicates.predicate import Column, In, IsNull, both, either
from twostage.predicates.prune import Match, match

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from twostage.deletes.compiled.recorder import Recorder
    from twostage.deletes.keys.encoding import KeyRows
    from twostage.deletes.keys.key_columns import KeyField, KeyShape
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
        parts = list(zip(*encoded, strict=True))
        self._values = [_values_of(key, part) for key, part in zip(fields, parts, strict=True)]
        self._predicate = both(
            *(_one_of(key, values) for key, values in zip(fields, self._values, strict=True) if values)
        )

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
        first = None if predicate is None else self._first_column()
        batches = read_columns(
            self._context,
            delete,
            wanted,
            metrics,
            predicate=predicate,
            content=content,
            first=first,
            may_match=None if first is None else lambda array: self._may_match(array, first, delete),
        )
        for num_rows, arrays in batches:
            every = encode_delete(arrays, self._shape.every, num_rows, delete)
            columns, count = self._shape.compared(every, num_rows)
            metrics.add("delete_keys.streamed", num_rows)
            rows = None if predicate is None else self._candidates(columns, count)
            if rows is not None:
                columns, count = take_columns(columns, rows), len(rows)
            hits = np.flatnonzero(self._wanted.probe(group_by_nulls(columns, count), count, -1))
            if len(hits):
                kept = group_by_nulls(take_columns(columns, hits), len(hits))
                self._found.insert(kept, delete.sequence_number, len(hits))

    def _first_column(self) -> int | None:
        """Return the column whose few values are looked for before others are read; None if it is the only one."""
        fields, every = self._shape.fields, self._shape.every
        listed = [place for place, values in enumerate(self._values) if values is not None]
        listed.sort(key=lambda place: fields[place].kind.name not in _NUMBERS)
        return every.index(fields[listed[0]]) if listed and len(every) > 1 else None

    def _may_match(self, array: pa.Array, first: int, delete: DeleteFile) -> bool:
        key = self._shape.every[first]
        (column,) = encode_delete([array], [key], len(array), delete)
        values = self._values[self._shape.fields.index(key)]
        return values is None or bool(values.among(column).any())

    def _candidates(self, columns: Sequence[KeyColumn], num_rows: int) -> NDArray[np.int64] | None:
        """Return the rows with a value that is asked for in each column that is asked for few; None for all rows.

        Most keys end here: Arrow tells in 4 ns whether a text is among few, half of what a probe takes, and no
        kernel needs to be loaded.
        """
        if len(columns) == 1 and columns[0].text is None:
            return None  # numbers are probed in less
        among = np.ones(num_rows, np.bool_)
        for values, column in zip(self._values, columns, strict=True):
            if values is not None:
                among &= values.among(column)
                if not among.any():
                    break
        return None if among.all() else np.flatnonzero(among)

    def answer(self, number: int) -> NDArray[np.bool_]:
        """Return which rows of one of those asked for are deleted."""
        one = self._asked[number]
        return self._found.probe(self._groups[number], one.num_rows, one.task.sequence_number)


@dataclass(frozen=True, slots=True, eq=False)
class _Values:
    """Different values of a key column, in the internal form, and whether NULL is one more; `listed` for Arrow."""

    plain: tuple[Any, ...]
    may_null: bool
    listed: pa.Array

    def among(self, column: KeyColumn) -> NDArray[np.bool_]:
        """Return which rows have one of the values."""
        found: NDArray[np.bool_]
        if column.valid is not None and not column.valid.any():
            # A file that lacks the column gives words for a text.
            return np.full(len(column.words), self.may_null)
        if column.text is None and len(self.listed) <= FEW:
            found = np.zeros(len(column.words), np.bool_)
            for word in self.listed.to_numpy():
                found |= column.words[:, 0] == word
        else:
            array = pa.array(column.words[:, 0]) if column.text is None else column.text
            found = np.asarray(pc.is_in(array, self.listed))
        if column.valid is not None:
            found = np.where(column.valid, found, self.may_null)
        return found


def _values_of(key: KeyField, columns: Iterable[KeyColumn]) -> _Values | None:
    """Return the values that these keys have in one column; None where they are many, or of a difficult type."""
    name = key.kind.name
    if name not in _NUMBERS and name not in ("string", "binary"):
        return None
    values: set[Any] = set()
    may_null = False
    for one in columns:
        if len(one.words) > 2 * MOST_VALUES:
            return None
        valid = np.ones(len(one.words), np.bool_) if one.valid is None else one.valid
        may_null |= not valid.all()
        if name in TEXT:
            assert one.text is not None
            values.update(text for text in one.text.to_pylist() if text is not None)
        else:
            values.update(one.words[valid, 0].view(np.int64).tolist())
        if len(values) > MOST_VALUES:
            return None
    plain = tuple(values)
    if name in TEXT:
        return _Values(plain, may_null, pa.array(plain, pa.large_binary()))
    return _Values(plain, may_null, pa.array(np.array(plain, np.int64).view(np.uint64)))


def _one_of(key: KeyField, values: _Values) -> Predicate:
    """Return what is true of each of these values."""
    column = Column(key.field.id, key.names, key.kind)
    plain = values.plain
    if key.kind.name == "string":
        try:
            plain = tuple(text.decode() for text in plain)
        except UnicodeDecodeError:
            return both()
    listed = In(column, plain) if plain else either()
    return either(listed, IsNull(column)) if values.may_null else listed
