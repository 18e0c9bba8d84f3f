"""The equality deletes of a task, chosen row group by row group.

Takes a task; tells which of its delete files may touch a row group, and gives what answers for them: a table of
their keys that the worker keeps, or the delete files themselves, read past the rows that are left. The rule: both
give the same rows; ``deletes.stream`` chooses, or the numbers of rows and keys do.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import cachetools
import numpy as np

from twostage.deletes.anti_join.build_from_deletes import EqualityDeletes
from twostage.deletes.anti_join.build_from_rows import StreamedDeletes
from twostage.deletes.anti_join.load_key_sets import load_equality, missing_keys, take_from_host
from twostage.deletes.keys.encoding import words_of
from twostage.deletes.pruning.delete_ranges import DeleteRanges
from twostage.deletes.pruning.page_proofs import KeyPages
from twostage.errors import ResourceLimitError
from twostage.predicates.bounds import Bounds
from twostage.schema import Primitive

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from twostage.data_files.data_file import DataFile
    from twostage.data_files.row_group import RowGroup
    from twostage.deletes.compiled.recorder import Recorder
    from twostage.metrics import Metrics
    from twostage.task import DeleteFile, ScanContext, ScanTask

FEW = 16
"""Rows are few if there are so many times as many keys to load."""
LEAST_KEYS = 50_000
"""Fewer keys are loaded at once: it takes a few milliseconds, and the next query finds them."""
SECONDS_OF_NUMBER = 60e-9
"""What it takes to load a key of one number, reading apart."""
SECONDS_OF_KEY = 200e-9
"""Likewise any other key: of a text, or of several columns. Most of it goes into memory that is written first."""
HOST_SECONDS = 5.0
"""The host's cache is not asked again so soon: that takes a few milliseconds for 200 files."""
CHECKED = 4
"""Values that bounds leave are looked up if there are so many times as many rows."""
_NUMBERS = frozenset(("int", "long", "date"))
"""Types whose words are their internal form."""

_streamed: cachetools.LRUCache[Any, tuple[int, float]] = cachetools.LRUCache(256)
"""How often this worker has streamed keys, and the seconds that took, by table, snapshot and budget."""
_absent: cachetools.LRUCache[Any, float] = cachetools.LRUCache(256)
"""When the host's cache did not hold the keys of some delete files."""
_too_large: cachetools.LRUCache[Any, bool] = cachetools.LRUCache(256)
"""Tables and snapshots whose keys exceeded the budget."""

Equality = EqualityDeletes | StreamedDeletes
NONE = EqualityDeletes((), 0)


class TaskDeletes:
    """The equality deletes of one task; false if there are none.

    Args:
        context: The scan.
        task: Its deletes of other kinds are not looked at.
        metrics: Gains ``delete_files.*`` and ``delete_keys.*``.
        recorder: Is told which rows were asked about and which are deleted.
    """

    def __init__(
        self, context: ScanContext, task: ScanTask, metrics: Metrics, recorder: Recorder | None = None
    ) -> None:
        self._context = context
        self._task = task
        self._metrics = metrics
        self.recorder = recorder
        self.files = tuple(delete for delete in task.deletes if delete.content == "equality")
        self._ranges = DeleteRanges(self._kind_of)
        self._loaded: dict[tuple[int, ...], EqualityDeletes] = {}
        self._pages: tuple[tuple[int, tuple[int, ...]], KeyPages | None] | None = None
        self._memo = (
            context.table,
            context.storage.root,
            context.snapshot_id,
            context.settings.memory_budget,
        )

    @classmethod
    def none(cls, context: ScanContext, task: ScanTask, metrics: Metrics) -> TaskDeletes:
        """Return no deletes, whatever the task has."""
        return cls(context, replace(task, deletes=()), metrics)

    def __bool__(self) -> bool:
        return bool(self.files)

    def all_of(self) -> Equality:
        """Return what tells which rows of the whole file are deleted."""
        return self.choose(self.files, self._task.record_count)

    def meeting(self, data_file: DataFile, row_group: RowGroup) -> tuple[DeleteFile, ...]:
        """Return the delete files that may hold a key of a row group."""
        if not self.files or not self._context.settings.prune_deletes:
            return self.files
        return self._ranges.meeting(
            self.files,
            lambda field_id: self._bounds(data_file, row_group, field_id),
            row_group.num_rows,
            self._is_column,
        )

    def choose(self, deletes: tuple[DeleteFile, ...], num_rows: int) -> Equality:
        """Return what tells which of `num_rows` rows these files delete.

        Raises:
            CorruptFileError: A delete file's bytes are wrong.
            ResourceLimitError: The keys exceed the budget and must not be streamed.
        """
        if not deletes:
            return NONE
        if self._prefers_stream(deletes, num_rows):
            return self._stream(deletes)
        key = tuple(id(delete) for delete in deletes)
        if key not in self._loaded:
            try:
                task = replace(self._task, deletes=deletes)
                loaded = load_equality(self._context, task, self._metrics)
            except ResourceLimitError as error:
                if error.code != "DELETE_KEYS_TOO_LARGE" or self._context.settings.stream_deletes == "never":
                    raise
                _too_large[self._memo] = True
                return self._stream(deletes)
            loaded.recorder = self.recorder
            self._loaded[key] = loaded
        return self._loaded[key]

    def _stream(self, deletes: tuple[DeleteFile, ...]) -> StreamedDeletes:
        return StreamedDeletes(self._context, self._task, deletes, self._metrics, self.recorder)

    def _prefers_stream(self, deletes: tuple[DeleteFile, ...], num_rows: int) -> bool:
        setting = self._context.settings.stream_deletes
        if setting != "auto":
            return setting == "always"
        if _too_large.get(self._memo):
            return True
        keys = sum(delete.record_count for delete in deletes)
        if keys < LEAST_KEYS or num_rows * FEW > keys:
            return False
        task = replace(self._task, deletes=deletes)
        missing = missing_keys(self._context, task)
        if num_rows * FEW > missing:
            return False
        place = self._context.settings.delete_cache_dir
        # A hash: the paths of some thousand files would be kept with each entry, and a mix-up costs a few seconds.
        asked = (self._memo, place, hash(frozenset(delete.path for delete in deletes)))
        if time.monotonic() - _absent.get(asked, -HOST_SECONDS) >= HOST_SECONDS:
            # Another worker may have built the table: it is mapped in milliseconds.
            take_from_host(self._context, task, self._metrics)
            missing = missing_keys(self._context, task)
            if missing:
                _absent[asked] = time.monotonic()
        return num_rows * FEW <= missing and not self._pays(deletes, missing)

    def _pays(self, deletes: tuple[DeleteFile, ...], missing: int) -> bool:
        """Tell whether so many keys should be loaded, given what streaming has cost so far.

        Nobody knows how often they will be asked for again. Who loads them once streaming has cost as much as loading
        pays twice the least at most, whatever comes. Loading reads all files once more: what a pass took is part of its cost.
        """
        passes, seconds = _streamed.get(self._memo, (0, 0.0))
        is_number = all(
            len(one.equality_ids) == 1 and words_of(self._kind_of(one.equality_ids[0])) == 1
            for one in deletes
        )
        cost = missing * (SECONDS_OF_NUMBER if is_number else SECONDS_OF_KEY)
        return passes > 0 and seconds > cost + seconds / passes

    def count_streamed(self, seconds: float) -> None:
        """Remember that keys went by, and how long it took: who asks often is better served by a table."""
        passes, before = _streamed.get(self._memo, (0, 0.0))
        _streamed[self._memo] = passes + 1, before + seconds

    def whole(
        self, data_file: DataFile, row_group: RowGroup, equality: Equality, num_rows: int
    ) -> bool | None:
        """Tell whether all rows of a row group are deleted (True) or none is (False), if its bounds prove it.

        The values that the bounds leave are looked up themselves: one where lowest and highest are the same,
        few where numbers lie close. None: the rows must be asked.
        """
        if isinstance(equality, StreamedDeletes):
            return None
        if not self._context.settings.prune_deletes or row_group.num_rows == 0:
            return None
        if self._all_missed(data_file, row_group, equality):
            return False
        run = KeyPages.whole(
            row_group.num_rows,
            equality.field_ids,
            lambda field_id: self._bounds(data_file, row_group, field_id),
            self._kind_of,
            self._is_column,
        )
        none, every = run.looked_up(equality.field_ids, equality.deleted, np.array([num_rows]), CHECKED)
        return True if every[0] else False if none[0] else None

    def pages(
        self, data_file: DataFile, row_group: RowGroup, deletes: tuple[DeleteFile, ...]
    ) -> KeyPages | None:
        """Return the pages of the key columns of these delete files; None if nothing is known of any."""
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
            self._pages = key, found  # windows of one row group ask again
        return self._pages[1]

    def missing_files(
        self, pages: KeyPages, deletes: tuple[DeleteFile, ...]
    ) -> dict[tuple[int, ...], NDArray[np.bool_]]:
        """Tell which runs of rows hold no key of the delete files, as their bounds tell, by equality ids."""
        found = {}
        for ids, domains in self._ranges.domains(deletes).items():
            found[ids] = np.zeros(len(pages.lengths), np.bool_)
            for field_id, domain in domains.items():
                found[ids] |= pages.missing(field_id, domain)
        return found

    def _all_missed(self, data_file: DataFile, row_group: RowGroup, equality: EqualityDeletes) -> bool:
        """Tell whether no key lies between the bounds of the one key column, a number that is never NULL."""
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
            return None  # dropped since: the scan's statistics know nothing of it
        constants = self._task.constants
        if field_id not in constants:
            return data_file.bounds(row_group, field_id)
        value, rows = constants[field_id], row_group.num_rows
        if value is None:
            return Bounds(null_count=rows, value_count=rows)
        if isinstance(value, float):
            return None  # NaN and -0.0 need care
        exact = {"exact_lower": True, "exact_upper": True}
        return Bounds(lower=value, upper=value, null_count=0, nan_count=0, value_count=rows, **exact)

    def _kind_of(self, field_id: int) -> Primitive:
        schema, older = self._context.schema, self._context.key_fields
        field = schema.field(field_id) if field_id in schema else older.get(field_id)
        # What is no primitive column is refused when the deletes are loaded; until then nothing is known.
        return field.type if field is not None and isinstance(field.type, Primitive) else Primitive("unknown")

    def _is_column(self, field_id: int) -> bool:
        return field_id in self._context.schema and len(self._context.schema.path(field_id)) == 1
