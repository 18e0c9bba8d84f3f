"""Compares indexes with the data that they were made of: ``index verify``.

Takes the data files of a table and its groups of indexed columns; gives what was compared and what differs. All bytes of an
index file are compared with their checksums. Then predicates made of the column's own values, drawn at random, are
answered by the index and by the filter, over all rows of the data file: the index must bound the filter's result.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from twostage.data_files.open_data_file import open_data_file
from twostage.errors import TwoStageError
from twostage.indexes import bitmaps
from twostage.indexes.file_keys import FILES, ScannedFiles, file_key, find_files
from twostage.indexes.kinds.elements import non_null_elements
from twostage.indexes.open_index import read_index
from twostage.indexes.puffin import BlobReader, read_footer
from twostage.maintenance.index_files import FileColumn, has_values
from twostage.metrics import Metrics
from twostage.predicates.evaluate import evaluate
from twostage.predicates.predicate import Column, Compare, HasElement, IsNull
from twostage.schema import element_of
from twostage.storage import files

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import pyarrow as pa

    from twostage.indexes.data_file_index import DataFileIndex
    from twostage.indexes.place import IndexGroup, IndexPlace, TableIndexes
    from twostage.schema import Primitive
    from twostage.task import ScanContext, ScanTask

_LITERALS = 5
"""Of each column of a data file: each is compared by =, <> and <."""


@dataclass(slots=True)
class Verified:
    """What was compared, and what differs: a sentence each."""

    data_files: int = 0
    answers: int = 0
    without_index: int = 0
    wrong: list[str] = field(default_factory=list)


def verify_indexes(
    context: ScanContext,
    tasks: Sequence[ScanTask],
    place: IndexPlace,
    indexes: TableIndexes,
    sample: int | None,
    step: Callable[[int, int], None],
    seed: int | None = None,
) -> Verified:
    """Compare the indexes of some data files with them.

    Args:
        context: A scan of the table.
        tasks: Its data files, whole.
        place: Where the indexes are.
        indexes: What there is.
        sample: How many data files to compare, drawn at random; None: all.
        step: Called with the number of data files compared so far, and of all.
        seed: Of what is drawn.
    """
    drawn = random.Random(seed)  # noqa: S311 - a sample
    chosen = list(tasks) if sample is None or sample >= len(tasks) else drawn.sample(list(tasks), sample)
    verified = Verified()
    for number, task in enumerate(chosen):
        step(number, len(chosen))
        for group in indexes.groups:
            _verify_file(context, task, place, group, indexes, drawn, verified)
        verified.data_files += 1
    step(len(chosen), len(chosen))
    return verified


def _verify_file(
    context: ScanContext,
    task: ScanTask,
    place: IndexPlace,
    group: IndexGroup,
    indexes: TableIndexes,
    drawn: random.Random,
    verified: Verified,
) -> None:
    has_rows = any(kind != FILES for _, kinds in group.columns for kind in kinds)
    path = place.index_file(group, task)
    metrics, scanned = Metrics(), ScannedFiles.at({file_key(task): task.path})
    index = read_index(place, path, task, metrics) if has_rows else None
    verified.without_index += int(has_rows and index is None)
    try:
        if index is not None:
            _check_bytes(place, path)
        with open_data_file(context, task, Metrics()) as data_file:
            for field_id, kinds in group.columns if data_file.has_field_ids else ():
                if field_id not in context.schema or not has_values(data_file, field_id):
                    continue
                values = FileColumn(data_file, field_id, task.record_count, 2**40)
                for leaf, arrays in _leaves(context, values, drawn):
                    if index is not None:
                        _check_answer(index, leaf, arrays, task, verified, metrics)
                    if FILES in kinds and isinstance(leaf, Compare) and leaf.op == "=":
                        budget = context.settings.memory_budget
                        found = find_files(place, indexes, leaf, metrics, budget, scanned)
                        if found is not None and not found.may_hold(task):
                            verified.wrong.append(f"{task.written_path}: not found by {leaf}")
    except (TwoStageError, ValueError) as error:
        verified.wrong.append(f"{task.written_path}: {error}")
    verified.wrong.extend(f"{task.written_path}: {sentence}" for sentence in metrics.choices)


def _check_bytes(place: IndexPlace, path: str) -> None:
    """Compare all blobs of an index file with their checksums.

    Raises:
        BadIndexError: They differ.
    """
    with files.open_file(place.storage, path) as file:
        footer, _ = read_footer(file)
        reader = BlobReader(file, footer)
        for blob in footer.blobs.values():
            reader.whole(blob)


def _leaves(
    context: ScanContext, values: FileColumn, drawn: random.Random
) -> Iterator[tuple[Any, list[pa.Array]]]:
    """Yield predicates of a column, drawn from its values, each with all values."""
    arrays = list(values.chunks())
    kind = context.schema.field(values.field_id).type
    column = Column(values.field_id, context.schema.path(values.field_id), kind)
    yield IsNull(column), arrays
    if (inner := element_of(kind)) is not None:
        element = Column(inner.id, context.schema.path(inner.id), values.type)
        present = [found for array in arrays if len(found := non_null_elements(array)[1])]
        for _ in range(_LITERALS if present else 0):
            array = drawn.choice(present)
            value = literal_of(values.type, array[drawn.randrange(len(array))])
            yield HasElement(column, element, value), arrays
        return
    filled = [array for array in arrays if array.null_count < len(array)]
    for _ in range(_LITERALS if filled else 0):
        array = drawn.choice(filled).drop_null()
        value = literal_of(values.type, array[drawn.randrange(len(array))])
        for op in ("=", "<>", "<"):
            yield Compare(op, column, value), arrays


def literal_of(kind: Primitive, scalar: pa.Scalar) -> Any:
    """Return a value in the internal form of `schema.py`."""
    is_number = kind.name == "date" or kind.name.startswith("timestamp")
    return scalar.value if is_number else scalar.as_py()


def _check_answer(
    index: DataFileIndex,
    leaf: Any,
    arrays: list[pa.Array],
    task: ScanTask,
    verified: Verified,
    metrics: Metrics,
) -> None:
    answer = index.find(leaf, metrics)
    if answer is None:
        return
    hits = [evaluate(leaf, {leaf.column.field_id: array}, len(array)).true for array in arrays]
    true = bitmaps.of_rows(np.flatnonzero(np.concatenate([np.zeros(0, np.bool_), *hits])))
    verified.answers += 1
    if not answer.certain <= true <= answer.possible:
        verified.wrong.append(f"{task.written_path}: {leaf} is answered wrongly by {', '.join(answer.kinds)}")
