"""The equality deletes of a task, per row group: which files apply, what is proven, and which anti-join is used.

Takes a task; tells which of its delete files may hold a key of a row group, and what the bounds of key
columns prove about its rows; returns the anti-join for the others: by key sets that the worker caches
(`build_from_deletes`), or by streaming the delete files past the remaining rows (`build_from_rows`). The
rule: both give the same rows; ``deletes.stream`` chooses, or the numbers of rows and keys do
(`stream_or_load`).

Benefit: "bounds of delete files" and "lookups of bounded values" in docs/benchmarks-deletes.md
(`prune.deletes`).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from twostage.deletes.anti_join.build_from_deletes import EqualityDeletes
from twostage.deletes.anti_join.build_from_rows import StreamedDeletes
from twostage.deletes.anti_join.load_key_sets import await_contents, load_equality, missing_files
from twostage.deletes.anti_join.stream_or_load import StreamOrLoad
from twostage.deletes.pruning.delete_ranges import DeleteRanges
from twostage.deletes.pruning.page_proofs import KeyPages
from twostage.errors import ResourceLimitError
from twostage.predicates.bounds import Bounds
from twostage.schema import Primitive

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from twostage.data_files.data_file import DataFile
    from twostage.data_files.row_group import RowGroup
    from twostage.deletes.files.contents import DeletesAhead
    from twostage.metrics import Metrics
    from twostage.task import DeleteFile, ScanContext, ScanTask

MIN_ROWS_PER_LOOKUP = 4
"""Rows of a row group per value between its bounds, from which the values are looked up instead of the
rows."""
_NUMBERS = frozenset(("int", "long", "date"))
"""Types whose key words are their internal form."""

EqualityAntiJoin = EqualityDeletes | StreamedDeletes
NO_DELETES = EqualityDeletes((), 0)


class TaskDeletes:
    """The equality deletes of one task; falsy if there are none.

    Args:
        context: The scan.
        task: The task; its deletes of other kinds are ignored.
        metrics: Gains ``delete_files.*`` and ``delete_keys.*``.
        ahead: Reads remote delete files, if the task schedules its own reads.
    """

    def __init__(
        self, context: ScanContext, task: ScanTask, metrics: Metrics, ahead: DeletesAhead | None = None
    ) -> None:
        self._ahead = ahead
        self._contents = None if ahead is None else ahead.contents
        self._context = context
        self._task = task
        self._metrics = metrics
        self.files = tuple(delete for delete in task.deletes if delete.content == "equality")
        self._ranges = DeleteRanges(self._kind_of)
        self._loaded: dict[tuple[int, ...], EqualityDeletes] = {}
        self._pages: tuple[tuple[int, tuple[int, ...]], KeyPages | None] | None = None
        self._stream_or_load = StreamOrLoad(context, task, metrics, self._kind_of)

    def none(self) -> TaskDeletes:
        """Return no deletes for the same task."""
        return TaskDeletes(self._context, replace(self._task, deletes=()), self._metrics)

    def __bool__(self) -> bool:
        return bool(self.files)

    def choose_for_file(self) -> EqualityAntiJoin:
        """Return the anti-join for all rows of the data file."""
        return self.choose(self.files, self._task.record_count)

    def overlapping(self, data_file: DataFile, row_group: RowGroup) -> tuple[DeleteFile, ...]:
        """Return the delete files whose bounds overlap the row group's: those that may hold a key of it."""
        if not self.files or not self._context.settings.prune_deletes:
            return self.files
        return self._ranges.overlapping(
            self.files,
            lambda field_id: self._bounds(data_file, row_group, field_id),
            row_group.num_rows,
            self._is_column,
        )

    def choose(self, deletes: tuple[DeleteFile, ...], num_rows: int) -> EqualityAntiJoin:
        """Return the anti-join for `num_rows` rows and these delete files.

        Raises:
            CorruptFileError: A delete file's bytes are wrong.
            ResourceLimitError: The keys exceed the budget and must not be streamed.
        """
        if not deletes:
            return NO_DELETES
        if self._stream_or_load.should_stream(deletes, num_rows):
            return self._stream(deletes)
        return self.load(deletes)

    def load(self, deletes: tuple[DeleteFile, ...]) -> EqualityAntiJoin:
        """Return the anti-join by key sets, if they fit in memory; see `choose` for the errors."""
        key = tuple(id(delete) for delete in deletes)
        if key not in self._loaded:
            try:
                loaded = self._load(replace(self._task, deletes=deletes))
            except ResourceLimitError as error:
                if error.code != "DELETE_KEYS_TOO_LARGE" or self._context.settings.stream_deletes == "never":
                    raise
                self._stream_or_load.forbid_loading()
                return self._stream(deletes)
            self._loaded[key] = loaded
        return self._loaded[key]

    def must_fetch(self, deletes: Sequence[DeleteFile]) -> bool:
        """Tell whether `choose` would have to wait for some of these remote delete files."""
        if self._contents is None or tuple(map(id, deletes)) in self._loaded:
            return False
        return bool(missing_files(self._context, replace(self._task, deletes=tuple(deletes))))

    def _load(self, task: ScanTask) -> EqualityDeletes:
        if self._ahead is None or self._contents is None:
            return load_equality(self._context, task, self._metrics)
        fetched = await_contents(self._context, task, self._metrics, self._contents)
        try:
            with self._ahead.keep_turn():  # `load_equality` holds the cache's lock
                return load_equality(self._context, task, self._metrics, self._contents)
        finally:
            for delete in fetched:  # unneeded if another process has built the set meanwhile
                self._contents.forget(delete)

    def _stream(self, deletes: tuple[DeleteFile, ...]) -> StreamedDeletes:
        return StreamedDeletes(self._context, self._task, deletes, self._metrics, self._contents)

    def add_streaming_cost(self, seconds: float) -> None:
        """Record one streaming of delete files and the seconds it took, towards the decision to load."""
        self._stream_or_load.add_streaming_cost(seconds)

    def all_or_none_deleted(
        self, data_file: DataFile, row_group: RowGroup, equality: EqualityAntiJoin, num_rows: int
    ) -> bool | None:
        """Tell whether all rows of a row group are deleted (True) or none (False); None if it takes a probe.

        If there are few values between the bounds (one if both bounds are equal, a few if integers are
        close), the values are looked up instead of the rows.

        Args:
            data_file: The data file.
            row_group: Its row group.
            equality: The anti-join.
            num_rows: How many rows would be probed.
        """
        if isinstance(equality, StreamedDeletes):
            return None
        if not self._context.settings.prune_deletes or row_group.num_rows == 0:
            return None
        if self._all_missed(data_file, row_group, equality):
            return False
        run = KeyPages.of_row_group(
            row_group.num_rows,
            equality.field_ids,
            lambda field_id: self._bounds(data_file, row_group, field_id),
            self._kind_of,
            self._is_column,
        )
        none, every = run.decide_by_lookup(
            equality.field_ids, equality.deleted, np.array([num_rows]), MIN_ROWS_PER_LOOKUP
        )
        return True if every[0] else False if none[0] else None

    def key_pages(
        self, data_file: DataFile, row_group: RowGroup, deletes: tuple[DeleteFile, ...]
    ) -> KeyPages | None:
        """Return the pages of the key columns of these delete files; None if no page index has them."""
        settings = self._context.settings
        if not settings.prune_deletes or not settings.prune_pages:
            return None
        key = row_group.index, tuple(id(delete) for delete in deletes)
        if self._pages is None or self._pages[0] != key:
            ids = dict.fromkeys(field_id for delete in deletes for field_id in delete.equality_ids)
            found = KeyPages.of(
                data_file,
                row_group,
                ids,
                lambda field_id: self._bounds(data_file, row_group, field_id),
                self._kind_of,
                self._is_column,
            )
            self._pages = key, found  # for the next window of the same row group
        return self._pages[1]

    def runs_outside_bounds(
        self, pages: KeyPages, deletes: tuple[DeleteFile, ...]
    ) -> dict[tuple[int, ...], NDArray[np.bool_]]:
        """Return, by equality ids, which runs hold no key of these delete files by their bounds: a bool each."""
        found = {}
        for ids, domains in self._ranges.domains(deletes).items():
            found[ids] = np.zeros(len(pages.lengths), np.bool_)
            for field_id, domain in domains.items():
                found[ids] |= pages.runs_outside(field_id, domain)
        return found

    def _all_missed(self, data_file: DataFile, row_group: RowGroup, equality: EqualityDeletes) -> bool:
        """Tell whether no key is between the bounds of the single key column, an integer without NULLs."""
        if len(equality.field_ids) != 1 or not self._is_column(equality.field_ids[0]):
            return False
        (field_id,) = equality.field_ids
        bounds = self._bounds(data_file, row_group, field_id)
        if self._kind_of(field_id).name not in _NUMBERS or bounds is None:
            return False
        if bounds.null_count != 0 or bounds.value_count != row_group.num_rows:
            return False
        lower, upper = bounds.lower, bounds.upper
        return lower is not None and upper is not None and equality.none_between(field_id, lower, upper)

    def _bounds(self, data_file: DataFile, row_group: RowGroup, field_id: int) -> Bounds | None:
        if field_id not in self._context.schema:
            return None  # since dropped: the scan has no statistics for it
        constants = self._task.constants
        if field_id not in constants:
            return data_file.bounds(row_group, field_id)
        value, rows = constants[field_id], row_group.num_rows
        if value is None:
            return Bounds(null_count=rows, value_count=rows)
        if isinstance(value, float):
            return None  # NaN and -0.0 are special cases
        exact = {"exact_lower": True, "exact_upper": True}
        return Bounds(lower=value, upper=value, null_count=0, nan_count=0, value_count=rows, **exact)

    def _kind_of(self, field_id: int) -> Primitive:
        schema, older = self._context.schema, self._context.key_fields
        field = schema.field(field_id) if field_id in schema else older.get(field_id)
        # A key that is not a primitive column is refused when the deletes are loaded; until then its type is
        # unknown.
        return field.type if field is not None and isinstance(field.type, Primitive) else Primitive("unknown")

    def _is_column(self, field_id: int) -> bool:
        return field_id in self._context.schema and len(self._context.schema.path(field_id)) == 1
