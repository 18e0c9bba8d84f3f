"""Whether to stream equality deletes past a few rows or load them into key sets: rent or buy.

Takes the delete files that apply to a row group and the number of its remaining rows; tells which anti-join
is cheaper. Streaming (`build_from_rows`) reads all keys on each use and keeps none; loading
(`build_from_deletes`) is slower once, and then nearly free. How often the keys will be needed is unknown, so
it is the ski-rental problem: stream until streaming has cost as much as one load, then load; that costs at
most twice the optimum plus one pass.
Source: Karlin et al., "Competitive Snoopy Caching", 1988.

The rules: the choice never changes rows; small sets are always loaded; what the host's cache holds is mapped
rather than streamed; keys that once exceeded the budget are streamed from then on.

Benefit: "streaming" and "rent or buy" in docs/benchmarks-deletes.md.
"""

from __future__ import annotations

import time
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import cachetools

from twostage.deletes.anti_join.load_key_sets import count_missing_keys, map_from_host
from twostage.deletes.cache import fingerprint
from twostage.deletes.keys.encoding import words_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from twostage.metrics import Metrics
    from twostage.schema import Primitive
    from twostage.task import DeleteFile, ScanContext, ScanTask

MIN_KEYS_PER_ROW_TO_STREAM = 16
"""Keys to load for each remaining row: with fewer, a probe of loaded keys is cheaper even once."""
MIN_KEYS_TO_STREAM = 50_000
"""Fewer keys are always loaded: it takes a few milliseconds, and the next query finds them cached."""
SECONDS_TO_LOAD_NUMBER = 60e-9
"""CPU seconds to insert a key that is a single number, without reading it."""
SECONDS_TO_LOAD_KEY = 200e-9
"""The same for any other key, of text or several columns: most of it is the first write to memory."""
HOST_RETRY_SECONDS = 5.0
"""Time before the host's cache is searched again for the same keys: a search takes a few milliseconds for 200
files."""
_MAX_REMEMBERED = 256

_streamed: cachetools.LRUCache[Any, tuple[int, float]] = cachetools.LRUCache(_MAX_REMEMBERED)
"""By snapshot and budget: how often this worker has streamed keys, and the total seconds."""
_absent: cachetools.LRUCache[Any, float] = cachetools.LRUCache(_MAX_REMEMBERED)
"""By delete files: when (monotonic seconds) the host's cache was found not to hold their keys."""
_too_large: cachetools.LRUCache[Any, bool] = cachetools.LRUCache(_MAX_REMEMBERED)
"""Snapshots and budgets whose keys exceeded the budget."""


class StreamOrLoad:
    """Decides for one task, from what this worker has learned from earlier tasks.

    Args:
        context: The scan.
        task: The task; only its equality deletes count.
        metrics: Gains the counters of mapping keys from the host's cache.
        kind_of: The type of a key column, by field id.
    """

    def __init__(
        self, context: ScanContext, task: ScanTask, metrics: Metrics, kind_of: Callable[[int], Primitive]
    ) -> None:
        self._context = context
        self._task = task
        self._metrics = metrics
        self._kind_of = kind_of

    @cached_property
    def _snapshot(self) -> tuple[str, int]:
        return fingerprint.of_snapshot(self._context), self._context.settings.memory_budget

    def should_stream(self, deletes: tuple[DeleteFile, ...], num_rows: int) -> bool:
        """Tell whether to stream these delete files past `num_rows` rows rather than load their keys."""
        setting = self._context.settings.stream_deletes
        if setting != "auto":
            return setting == "always"
        if _too_large.get(self._snapshot):
            return True
        keys = sum(delete.record_count for delete in deletes)
        if keys < MIN_KEYS_TO_STREAM or num_rows * MIN_KEYS_PER_ROW_TO_STREAM > keys:
            return False
        task = replace(self._task, deletes=deletes)
        missing = count_missing_keys(self._context, task)
        if num_rows * MIN_KEYS_PER_ROW_TO_STREAM > missing:
            return False
        # A hash: otherwise each entry would hold the paths of thousands of files; a collision costs a few
        # seconds.
        directory = self._context.settings.delete_cache_dir
        searched = (self._snapshot, directory, hash(frozenset(delete.path for delete in deletes)))
        if time.monotonic() - _absent.get(searched, -HOST_RETRY_SECONDS) >= HOST_RETRY_SECONDS:
            # Another worker may have built the key set: it is mapped in milliseconds.
            map_from_host(self._context, task, self._metrics)
            missing = count_missing_keys(self._context, task)
            if missing:
                _absent[searched] = time.monotonic()
        return num_rows * MIN_KEYS_PER_ROW_TO_STREAM <= missing and not self.loading_is_due(deletes, missing)

    def loading_is_due(self, deletes: tuple[DeleteFile, ...], missing: int) -> bool:
        """Tell whether streaming has by now cost as much as loading these keys would.

        Args:
            deletes: The delete files.
            missing: How many of their keys this worker does not hold.
        """
        passes, seconds = _streamed.get(self._snapshot, (0, 0.0))
        is_number = all(
            len(one.equality_ids) == 1 and words_of(self._kind_of(one.equality_ids[0])) == 1
            for one in deletes
        )
        cost = missing * (SECONDS_TO_LOAD_NUMBER if is_number else SECONDS_TO_LOAD_KEY)
        # Loading reads all files once more: the mean of the passes so far is part of its cost.
        return passes > 0 and seconds > cost + seconds / passes

    def add_streaming_cost(self, seconds: float) -> None:
        """Record one streaming of delete files and the seconds it took."""
        passes, before = _streamed.get(self._snapshot, (0, 0.0))
        _streamed[self._snapshot] = passes + 1, before + seconds

    def forbid_loading(self) -> None:
        """Record that the keys of this snapshot exceed the budget."""
        _too_large[self._snapshot] = True
