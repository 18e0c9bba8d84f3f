"""Compares indexes with the data that they were built from: ``index verify``.

Takes the data files of a table and its groups of indexed columns; returns what was compared and what differs.
All bytes of index files and runs are checked against their checksums. Then predicates made from random values
of the column are answered by each kind of index and by the filter, over all rows of the data file: the index
must bound the filter's result. Bit slices must give the sum and the extremes of the values.
"""

from __future__ import annotations

import itertools
import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from twostage.data_files.open_data_file import open_data_file
from twostage.errors import MissingFileError, TwoStageError
from twostage.indexes import bitmaps
from twostage.indexes.file_keys import FILES, ScannedFiles, file_key, find_files
from twostage.indexes.keys import is_same_domain, order_keys
from twostage.indexes.kinds.bit_slices import BitSlices, BitSlicesReader
from twostage.indexes.kinds.elements import non_null_elements
from twostage.indexes.open_index import read_index
from twostage.indexes.puffin import BlobReader, read_footer
from twostage.indexes.wanted import Range
from twostage.maintenance.index_files import FileColumn, has_values
from twostage.metrics import Metrics
from twostage.predicates.evaluate import evaluate
from twostage.predicates.predicate import And, Column, Compare, HasElement, In, IsNull, StringMatch
from twostage.schema import element_of
from twostage.storage import files

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import pyarrow as pa

    from twostage.indexes.data_file_index import DataFileIndex
    from twostage.indexes.place import IndexGroup, IndexPlace, TableIndexes
    from twostage.schema import Primitive
    from twostage.task import ScanContext, ScanTask

_LITERALS_PER_COLUMN = 5
"""Per column of a data file: each is compared by =, <> and <, and all of them in a list and in ranges."""


@dataclass(slots=True)
class Verified:
    """What was compared, and what differs.

    Attributes:
        data_files: How many were compared.
        answers: How many answers of indexes were compared.
        without_index: Index files that are missing or unusable.
        wrong: A sentence for each difference.
        bad: Paths of index files and runs to rebuild.
    """

    data_files: int = 0
    answers: int = 0
    without_index: int = 0
    wrong: list[str] = field(default_factory=list)
    bad: set[str] = field(default_factory=set)


def verify_indexes(
    context: ScanContext,
    tasks: Sequence[ScanTask],
    place: IndexPlace,
    indexes: TableIndexes,
    sample: int | None,
    step: Callable[[int, int], None],
    seed: int | None = None,
) -> Verified:
    """Compare the indexes of some data files with the data.

    Args:
        context: A scan of the table.
        tasks: Its data files, whole.
        place: Where the indexes are.
        indexes: The table's.
        sample: How many data files to compare, drawn at random; None: all.
        step: Called with the number of data files compared so far, and in total.
        seed: Of the random choices.
    """
    drawn = random.Random(seed)  # noqa: S311 - a sample
    chosen = list(tasks) if sample is None or sample >= len(tasks) else drawn.sample(list(tasks), sample)
    verified = Verified()
    for run in indexes.runs:
        _check_bytes(place, place.path(run.name), run.name, verified)
    for number, task in enumerate(chosen):
        step(number, len(chosen))
        for group in indexes.groups:
            _OneFile(context, task, place, group, indexes, drawn, verified).verify()
        verified.data_files += 1
    step(len(chosen), len(chosen))
    return verified


def _check_bytes(place: IndexPlace, path: str, of: str, verified: Verified) -> None:
    """Check all blobs of an index file or run against their checksums."""
    try:
        with files.open_file(place.storage, path) as file:
            footer, _ = read_footer(file)
            reader = BlobReader(file, footer)
            for blob in footer.blobs.values():
                reader.whole(blob)
    except MissingFileError:  # another process merged it
        return
    except ValueError as error:
        verified.wrong.append(f"{of}: {error}")
        verified.bad.add(path)


@dataclass(slots=True)
class _OneFile:
    """One data file and its indexes for one group of columns."""

    context: ScanContext
    task: ScanTask
    place: IndexPlace
    group: IndexGroup
    indexes: TableIndexes
    drawn: random.Random
    verified: Verified
    metrics: Metrics = field(default_factory=Metrics)

    def verify(self) -> None:
        """Compare all columns of the group."""
        has_rows = any(kind != FILES for _, kinds in self.group.columns for kind in kinds)
        index = read_index(self.place, self.path, self.task, self.metrics) if has_rows else None
        self.verified.without_index += int(has_rows and index is None)
        if index is not None:
            _check_bytes(self.place, self.path, self.task.written_path, self.verified)
        try:
            with open_data_file(self.context, self.task, Metrics()) as data_file:
                for field_id, kinds in self.group.columns if data_file.has_field_ids else ():
                    if field_id in self.context.schema and has_values(data_file, field_id):
                        values = FileColumn(data_file, field_id, self.task.record_count, 2**40)
                        self._verify_column(index, values, kinds)
        except (TwoStageError, ValueError) as error:
            self.verified.wrong.append(f"{self.task.written_path}: {error}")
        for sentence in self.metrics.choices:
            self._blame(sentence, self.path)

    @property
    def path(self) -> str:
        """The index file."""
        return self.place.index_file(self.group, self.task)

    def _blame(self, sentence: str, *paths: str) -> None:
        self.verified.wrong.append(f"{self.task.written_path}: {sentence}")
        self.verified.bad.update(paths)

    def _verify_column(self, index: DataFileIndex | None, values: FileColumn, kinds: Sequence[str]) -> None:
        arrays = list(values.chunks())
        if index is not None and BitSlices.name in index.kinds(values.field_id):
            self._check_slices(index, values, arrays)
        for leaf in leaves_of(self.context, values, arrays, self.drawn):
            if index is not None:
                self._check_answers(index, leaf, arrays)
            if FILES in kinds and isinstance(leaf, Compare | In):
                self._check_keys(leaf)

    def _check_answers(self, index: DataFileIndex, leaf: Any, arrays: list[pa.Array]) -> None:
        """Compare each kind of index's answer for a leaf with its evaluation."""
        field_id = leaf.column.field_id
        plain = And((leaf.low, leaf.high)) if isinstance(leaf, Range) else leaf
        hits = [evaluate(plain, {field_id: array}, len(array)).true for array in arrays]
        true = bitmaps.of_rows(np.flatnonzero(np.concatenate([np.zeros(0, np.bool_), *hits])))
        for kind in index.kinds(field_id) or (None,):
            answer = index.find(leaf, self.metrics, only=kind)
            if answer is None:
                continue
            self.verified.answers += 1
            if not answer.certain <= true <= answer.possible:
                self._blame(f"{plain} is answered wrongly by {', '.join(answer.kinds)}", self.path)

    def _check_keys(self, leaf: Compare | In) -> None:
        """Look up values, at least one of which the data file has, in the table-wide index."""
        scanned = ScannedFiles.at({file_key(self.task): self.task.path})
        budget = self.context.settings.memory_budget
        found = find_files(self.place, self.indexes, leaf, self.metrics, budget, scanned)
        if found is not None and not found.may_hold(self.task):
            runs = self.indexes.runs_of(leaf.column.field_id)
            self._blame(f"not found by {leaf}", *(self.place.path(run.name) for run in runs))

    def _check_slices(self, index: DataFileIndex, values: FileColumn, arrays: list[pa.Array]) -> None:
        """Compare the sum and the extremes from bit slices with those of the keys."""
        field_id = values.field_id
        built = index.type_of(field_id, self.metrics)
        if built is None or not is_same_domain(built, values.type):
            return
        keys = [found for array in arrays if (found := order_keys(array.drop_null())) is not None]
        every = np.concatenate([np.zeros(0, np.int64), *keys])
        null = index.nulls(field_id, self.metrics)
        column = index.of_kind(field_id, BitSlicesReader, BitSlicesReader.read, self.metrics)
        if null is None or column is None or not len(every):
            return
        rows = bitmaps.whole(index.num_rows) - null
        self.verified.answers += 1
        answered = column.sum(rows), column.extreme(rows, last=False), column.extreme(rows, last=True)
        if answered != (int(every.sum(dtype=object)), int(every.min()), int(every.max())):
            self._blame("the sum or an extreme is answered wrongly by slices", self.path)


def leaves_of(
    context: ScanContext, values: FileColumn, arrays: Sequence[pa.Array], drawn: random.Random
) -> Iterator[Any]:
    """Yield predicates on a column, and ranges, with literals drawn from its values."""
    kind = context.schema.field(values.field_id).type
    column = Column(values.field_id, context.schema.path(values.field_id), kind)
    yield IsNull(column)
    if (inner := element_of(kind)) is not None:
        element = Column(inner.id, context.schema.path(inner.id), values.type)
        present = [found for array in arrays if len(found := non_null_elements(array)[1])]
        for value in _drawn(present, values.type, drawn):
            yield HasElement(column, element, value)
        return
    filled = [array.drop_null() for array in arrays if array.null_count < len(array)]
    literals = _drawn(filled, values.type, drawn)
    for value in literals:
        for op in ("=", "<>", "<"):
            yield Compare(op, column, value)
        if isinstance(value, str):
            yield StringMatch("prefix", column, value[: drawn.randint(0, len(value))])
    for low, high in itertools.pairwise(literals):
        yield Range(Compare(">=", column, low), Compare("<", column, high))
        yield Range(Compare(">", column, high), Compare("<=", column, low))
    if literals:
        yield In(column, tuple(dict.fromkeys(literals)))


def _drawn(arrays: Sequence[pa.Array], kind: Primitive, drawn: random.Random) -> list[Any]:
    """Return random values of arrays without NULLs, with replacement; none if there are none."""
    chosen = [drawn.choice(arrays) for _ in range(_LITERALS_PER_COLUMN if arrays else 0)]
    return [literal_of(kind, array[drawn.randrange(len(array))]) for array in chosen]


def literal_of(kind: Primitive, scalar: pa.Scalar) -> Any:
    """Return a value in the internal form of `schema.py`."""
    is_number = kind.name == "date" or kind.name.startswith("timestamp")
    return scalar.value if is_number else scalar.as_py()
