"""The live rows of a data file for which a predicate is TRUE, by its indexes: a bitmap, or why they cannot tell.

Takes the indexes of a data file, its deletes and the predicate. The rule: exactly these rows, never a guess. Leaves are
decided by the file's bounds or by an index; equality deletes by their compiled form, or by the values of their key
columns, which are compared as the reader compares rows; a row in doubt is permitted only if it is deleted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from twostage.aggregates.indexed_file import UnansweredError
from twostage.deletes.anti_join.load_key_sets import load_equality
from twostage.deletes.compiled.for_planning import read_compiled
from twostage.deletes.positions.position_deletes import load_positions
from twostage.errors import ResourceLimitError
from twostage.formats import internal_values
from twostage.indexes import bitmaps
from twostage.indexes.combined import combine, every_row, never_true, no_row
from twostage.predicates import predicate as tree
from twostage.predicates.prune import Match, match
from twostage.reading.index_answers import INDEXED
from twostage.schema import Primitive

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray
    from pyroaring import BitMap

    from twostage.aggregates.indexed_file import IndexedFile
    from twostage.deletes.positions.position_deletes import DeletedPositions
    from twostage.indexes.answer import IndexAnswer
    from twostage.metrics import Metrics
    from twostage.predicates.bounds import Bounds
    from twostage.predicates.predicate import Leaf, Predicate
    from twostage.task import ScanContext, ScanTask

    LoadPositions = Callable[[ScanContext, ScanTask, Metrics], DeletedPositions]

_ZEROS = ("float", "double")
"""Types in which an index has one zero; equality deletes tell 0.0 from -0.0."""


def select_rows(
    file: IndexedFile,
    context: ScanContext,
    task: ScanTask,
    predicate: Predicate,
    bounds_of: Callable[[int], Bounds | None] | None,
    load: LoadPositions = load_positions,
) -> BitMap:
    """Return the positions of the live rows that meet a predicate.

    Args:
        file: The indexes.
        context: How to read deletes.
        task: The whole data file, with its deletes.
        predicate: The query's; `tree.TRUE` for a file of which all rows are known to match.
        bounds_of: Returns the bounds of the file's columns; None: they must not prune.
        load: Reads the positional deletes and vectors.

    Raises:
        UnansweredError: Indexes do not tell.
        TwoStageError: A delete file is not there or damaged.
    """
    answers = {}
    for leaf in tree.leaves(predicate):
        found = _answer(leaf, file, bounds_of)
        if found is not None:
            answers[id(leaf)] = found
    answer = combine(predicate, answers, file.num_rows)
    dead = deleted_rows(file, context, task, load)
    if answer.unsure - dead:
        unknown = next((leaf for leaf in tree.leaves(predicate) if id(leaf) not in answers), None)
        if unknown is not None:
            raise UnansweredError(f"no index of a file decides {unknown}")
        raise UnansweredError(f"an index of a file leaves rows to check for {predicate}")
    return answer.certain - dead


def _answer(
    leaf: Leaf, file: IndexedFile, bounds_of: Callable[[int], Bounds | None] | None
) -> IndexAnswer | None:
    num_rows = file.num_rows
    proven = Match.SOME
    if bounds_of is not None:
        proven = match(leaf, bounds_of, num_rows)
        if proven is Match.ALL:
            return every_row(num_rows)
        if match(tree.Not(leaf), bounds_of, num_rows) is Match.ALL:
            return no_row(num_rows)
    if isinstance(leaf, INDEXED) and (index := file.indexes.get(leaf.column.field_id)) is not None:
        cost = index.cost(leaf, file.metrics, exactly=True)
        if cost is not None:
            file.budget.read(cost.nbytes)
            found = index.find(leaf, file.metrics, exactly=True)
            if found is not None:
                file.metrics.add("indexes.bytes_read", found.cost.nbytes)
                kinds = ", ".join(found.kinds)
                file.metrics.choices[f"index of {leaf.column} read ({kinds}): {found.certainty}"] += 1
                return found
    return never_true(num_rows) if proven is Match.NONE else None


def deleted_rows(
    file: IndexedFile, context: ScanContext, task: ScanTask, load: LoadPositions = load_positions
) -> BitMap:
    """Return the positions of a data file's deleted rows.

    Raises:
        UnansweredError: They cannot be told without reading the file.
        TwoStageError: A delete file is not there or damaged.
    """
    if not task.deletes:
        return bitmaps.whole(0)
    with file.metrics.timed("deletes"):
        positions = load(context, task, file.metrics)
        dead = bitmaps.of_rows(positions.within(0, file.num_rows))
        if any(delete.content == "equality" for delete in task.deletes):
            compiled = read_compiled(context, [[task]], file.metrics)
            if isinstance(compiled, str):
                return dead | _deleted_by_values(file, context, task)
            dead |= bitmaps.of_rows(compiled[0].within(0, file.num_rows))
        return dead


def _deleted_by_values(file: IndexedFile, context: ScanContext, task: ScanTask) -> BitMap:
    """Return the rows that equality deletes remove, by the values of the key columns."""
    for delete in task.deletes:
        for field_id in delete.equality_ids:
            if field_id not in context.schema:
                raise UnansweredError("equality deletes have a column that was dropped")
    try:
        equality = load_equality(context, task, file.metrics)
    except ResourceLimitError:
        raise UnansweredError("equality deletes have too many keys") from None
    columns = [_KeyColumn(file, context, task, field_id) for field_id in equality.field_ids]
    if not columns:
        return bitmaps.whole(0) if not equality.deleted({}, 1).any() else bitmaps.whole(file.num_rows)
    if len(columns) == 1:
        (only,) = columns
        deleted = equality.deleted({only.field_id: only.values}, len(only.values))
        return only.rows_of(np.flatnonzero(deleted))
    combined = np.zeros(file.num_rows, np.int64)
    for column in columns:
        file.budget.compare(len(column.values), file.num_rows)
        _, combined = np.unique(combined * len(column.values) + column.codes(), return_inverse=True)
    _, first = np.unique(combined, return_index=True)
    keys = {column.field_id: column.values.take(pa.array(column.codes()[first])) for column in columns}
    return bitmaps.of_rows(np.flatnonzero(equality.deleted(keys, len(first))[combined]))


class _KeyColumn:
    """A key column's distinct values in a data file, NULL among them, and the rows of each.

    Attributes:
        field_id: The column.
        values: In the scan's type.
    """

    def __init__(self, file: IndexedFile, context: ScanContext, task: ScanTask, field_id: int) -> None:
        self.field_id = field_id
        self._num_rows = file.num_rows
        field = context.schema.field(field_id)
        if not isinstance(field.type, Primitive) or field.type.name in _ZEROS:
            raise UnansweredError(f"equality deletes have the key {field.name}")
        if field_id in task.constants and len(context.schema.path(field_id)) == 1:
            self.values = internal_values.constant(field.type, task.constants[field_id], 1)
            self._rows = [bitmaps.whole(file.num_rows)]
            return
        self.values, self._rows = file.arrays(field)
        null = file.nulls(field)
        if null:
            missing = pa.nulls(1, self.values.type)
            self.values = pa.concat_arrays([self.values, missing]) if len(self._rows) else missing
            self._rows = [*self._rows, null]

    def rows_of(self, places: NDArray[np.int64]) -> BitMap:
        """Return the rows that have one of the values at these places."""
        return bitmaps.whole(0).union(*(self._rows[place] for place in places.tolist()))

    def codes(self) -> NDArray[np.int64]:
        """Return for each row of the file the place of its value."""
        found = np.full(self._num_rows, -1, np.int64)
        for place, rows in enumerate(self._rows):
            found[np.frombuffer(rows.to_array(), np.uint32)] = place
        if (found < 0).any():
            raise UnansweredError("an index lacks rows of its file")
        return found
