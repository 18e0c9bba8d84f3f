"""Aggregates of the data files for which metadata proves too little, answered by their indexes in the driver.

Takes data files with their deletes; gives for each the groups with their aggregates, or why it must be read. The rules: a file
without a suitable index is read, and no other because of it; no data file is opened, except to ask its store whether it is
still the one that was indexed; and the driver reads only as much of indexes and deletes as takes no longer than starting
tasks would.
"""

from __future__ import annotations

import threading
import uuid
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from twostage.aggregates.deleted_counts import WantedDeletes
from twostage.aggregates.file_proofs import COUNTED, FileProofs
from twostage.aggregates.indexed_file import DriverBudget, IndexedFile, UnansweredError
from twostage.aggregates.indexed_groups import COMPARED_BY_INDEX, GROUPED_BY_INDEX, GroupsOfFile
from twostage.aggregates.selected_rows import select_rows
from twostage.aggregates.sums import is_summed
from twostage.data_files.computed_columns import COMPUTED
from twostage.deletes.positions.position_deletes import load_positions
from twostage.deletes.positions.read_together import SharedDeletes
from twostage.indexes.kind import MAX_ROWS_OF_A_FILE
from twostage.indexes.kinds.bit_slices import BitSlices
from twostage.indexes.kinds.values import Values
from twostage.indexes.of_files import ask_files
from twostage.indexes.of_scan import indexes_of_table
from twostage.metrics import Metrics
from twostage.planning.index_pruning import prune_by_keys
from twostage.planning.plan import own_folders, refuse_inside
from twostage.predicates.predicate import TRUE
from twostage.schema import Primitive
from twostage.task import ScanContext

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Sequence

    from twostage.aggregates.selected_rows import LoadPositions
    from twostage.aggregates.totals import Aggregate, Group
    from twostage.indexes.data_file_index import DataFileIndex
    from twostage.indexes.of_files import FileIndexes
    from twostage.indexes.of_scan import ScanIndexes
    from twostage.options import ReadOptions
    from twostage.planning.choose_files import Planning
    from twostage.planning.splits import Candidate
    from twostage.predicates.predicate import Predicate
    from twostage.schema import Field
    from twostage.storage.task_reads import TaskReads
    from twostage.table.manifest_entry import ContentFile
    from twostage.table.pinned import PinnedTable
    from twostage.task import ScanTask

MAX_FILES = 256
"""Data files whose indexes the driver reads for one query: 1 ms each, a Spark task takes 10 ms to start."""
MAX_IN_VAIN = 16
"""Data files that are tried in vain before the others are not tried any more."""
MAX_WAITING_FILES = 20_000
"""Data files that table-wide indexes are used to prune first."""
_FORMATS = ("parquet", "orc")
_VALUES = {Values.name, BitSlices.name}
"""Kinds that give values."""

Groups = dict["Group", list[Any]]


@dataclass(frozen=True, slots=True)
class WaitingFile:
    """A data file for which metadata proves too little.

    Attributes:
        file: Its manifest entry.
        candidate: Its task.
        all_match: All of its rows meet the predicate.
    """

    file: ContentFile
    candidate: Candidate
    all_match: bool

    @property
    def task(self) -> ScanTask:
        """The task of the whole file."""
        return self.candidate.task


class IndexAnswers:
    """Answers one query's aggregates for files with indexes.

    Args:
        table: The pinned table.
        options: The reader's options.
        planning: The query's planning.
        indexes: The table's.
        aggregates: The aggregates.
        groups: The columns to group by.
        predicate: The query's filter.

    Attributes:
        metrics: Gains what was read, and warnings.
    """

    def __init__(
        self,
        table: PinnedTable,
        options: ReadOptions,
        planning: Planning,
        indexes: ScanIndexes,
        aggregates: tuple[Aggregate, ...],
        groups: tuple[Field, ...],
        predicate: Predicate,
    ) -> None:
        self.metrics = Metrics()
        self._lock = threading.Lock()
        self._planning = planning
        self._indexes = indexes
        self._aggregates, self._groups, self._predicate = aggregates, groups, predicate
        self._proofs = FileProofs(table, ())
        self._budget = DriverBudget()
        self._asked: list[ScanTask] = []
        self._deletes: SharedDeletes | None = None
        self._in_vain = 0
        """Files that were tried in vain while none was answered for."""
        self._reason = ""
        self._context = ScanContext(
            scan_id=uuid.uuid4().hex,
            table=table.name,
            snapshot_id=None if table.snapshot is None else table.snapshot.snapshot_id,
            schema=planning.schema,
            projection=(),
            predicate=predicate,
            table_uuid=table.metadata.table_uuid,
            storage=table.storage,
            settings=options.settings,
        )

    @staticmethod
    def of(
        table: PinnedTable,
        options: ReadOptions,
        planning: Planning,
        aggregates: tuple[Aggregate, ...],
        groups: tuple[Field, ...],
        predicate: Predicate,
        needs_values: frozenset[int] = frozenset(),
    ) -> IndexAnswers | None:
        """Return what answers by indexes; None if the table has none, or none could answer.

        Args:
            table: The pinned table.
            options: The reader's options.
            planning: The query's planning.
            aggregates: The aggregates.
            groups: The columns to group by.
            predicate: The query's filter.
            needs_values: Columns whose values metadata gives for no file.

        Raises:
            OptionError: ``index.location`` lies inside the table.
        """
        if not options.settings.index or not _are_answerable(aggregates, groups):
            return None
        refuse_inside(table, options.settings.index_location, "index.location")
        metrics, metadata = Metrics(), table.metadata
        found = indexes_of_table(
            table.storage, options.settings, metadata.table_uuid, metrics, own_folders(table)
        )
        if found is None:
            return None
        with_values = {
            field_id for group in found.groups for field_id, kinds in group.columns if {*kinds} & _VALUES
        }
        if not with_values.issuperset(needs_values):
            return None
        made = IndexAnswers(table, options, planning, found, aggregates, groups, predicate)
        made.metrics.merge(metrics)
        return made

    def answer(self, waiting: Sequence[WaitingFile]) -> Iterator[tuple[WaitingFile, Groups | str]]:
        """Yield each file with its groups, or with the reason why it must be read."""
        chosen = waiting
        if self._predicate != TRUE:
            chosen = self._without_pruned(waiting)
            kept = set(map(id, chosen))
            yield from ((one, {}) for one in waiting if id(one) not in kept)
        wanted = WantedDeletes(MAX_FILES)
        for number, one in enumerate(chosen):
            if number < MAX_FILES:
                wanted.add(one.task.deletes)
        asked: list[WaitingFile] = []
        for number, one in enumerate(chosen):
            reason = None
            if number >= MAX_FILES:
                reason = f"indexes of more than {MAX_FILES} files would have to be read first"
            elif one.task.deletes:
                reason = wanted.too_much
            if reason is None:
                asked.append(one)
            else:
                yield one, reason
        yield from zip(asked, self._answers(asked), strict=True)

    def _without_pruned(self, waiting: Sequence[WaitingFile]) -> list[WaitingFile]:
        """Return the files that may hold the keys of the predicate, by table-wide indexes."""
        kept = prune_by_keys(
            [one.candidate for one in waiting],
            self._predicate,
            self._indexes,
            self._context.settings.memory_budget,
            Counter(),
            self.metrics,
        )
        left = set(map(id, kept))
        return [one for one in waiting if id(one.candidate) in left]

    def _answers(self, asked: Sequence[WaitingFile]) -> Generator[Groups | str, None, None]:
        """Yield the answer of each file; if the first ones have none, the others are not tried."""
        self._asked = [one.task for one in asked]
        return ask_files(self._context, self._indexes, asked, lambda one: one.task, self._of_file)

    def _load_positions(self, task: ScanTask, reads: TaskReads | None) -> LoadPositions:
        """Request a file's positional deletes and vectors; return the function that loads them."""
        if reads is None or not task.deletes:
            return load_positions
        with self._lock:
            if self._deletes is None:
                self._deletes = SharedDeletes(self._context, reads, self._asked)
        self._deletes.ask(task)
        return self._deletes.load

    def _of_file(self, one: WaitingFile, indexes: FileIndexes) -> Groups | str:
        if self._in_vain >= MAX_IN_VAIN:
            return self._reason
        metrics = Metrics()
        try:
            found: Groups | str = self._groups_of(one, indexes, metrics)
        except UnansweredError as error:
            found = str(error)
        with self._lock:
            self.metrics.merge(metrics)
            self._count(found)
        return found

    def _count(self, found: Groups | str) -> None:
        if isinstance(found, str):
            self._in_vain += 1
            self._reason = self._reason or found
        else:  # one that was answered for will not be the last
            self._in_vain = -MAX_FILES

    def _groups_of(self, one: WaitingFile, indexes: FileIndexes, metrics: Metrics) -> Groups:
        entry, task = one.file, one.task
        num_rows = entry.record_count
        if entry.format not in _FORMATS:
            raise UnansweredError(f"a data file has the format {entry.format}")
        if not 0 < num_rows <= MAX_ROWS_OF_A_FILE:
            raise UnansweredError("a file's rows were not counted")
        metrics.add("indexes.asked")
        load = self._load_positions(task, indexes.reads)
        file = IndexedFile(num_rows, self._open(task, indexes, metrics), self._budget, metrics)
        bounds_of = self._planning.bounds_of(entry) if self._context.settings.prune_files else None
        predicate = TRUE if one.all_match else self._predicate
        rows = select_rows(file, self._context, task, predicate, bounds_of, load)
        groups = GroupsOfFile(
            file,
            lambda field: self._proofs.whole_column(entry, field),
            lambda field: self._constant(entry, field),
        )
        found = groups.aggregate(rows, self._groups, self._aggregates)
        metrics.add("indexes.used")
        return found

    def _constant(self, entry: ContentFile, field: Field) -> Any:
        """Return a partition's value, for types in which it is the group's, too."""
        found = self._proofs.constant_of(entry, field)
        return ... if isinstance(found, float) else found

    def _open(self, task: ScanTask, indexes: FileIndexes, metrics: Metrics) -> dict[int, DataFileIndex]:
        """Return the indexes of a data file by field id."""
        found: dict[int, DataFileIndex] = {}
        for group in self._indexes.groups:
            index = indexes.open(group, metrics)
            if index is not None:
                found.update(dict.fromkeys(index.field_ids, index))
        return {
            field_id: index
            for field_id, index in found.items()
            if field_id not in task.constants and field_id not in COMPUTED
        }


def _are_answerable(aggregates: tuple[Aggregate, ...], groups: tuple[Field, ...]) -> bool:
    """Tell whether indexes answer functions of these types at all."""
    allowed = {
        "count": COUNTED,
        "distinct": GROUPED_BY_INDEX,
        "min": COMPARED_BY_INDEX,
        "max": COMPARED_BY_INDEX,
    }
    return all(
        part.field is None
        or (
            is_summed(part.field.type)
            if part.function == "sum"
            else isinstance(part.field.type, Primitive) and part.field.type.name in allowed[part.function]
        )
        for part in aggregates
    ) and all(isinstance(field.type, Primitive) and field.type.name in GROUPED_BY_INDEX for field in groups)
