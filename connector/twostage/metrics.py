"""Counters of a scan: what it considered, pruned, deleted, filtered and fetched.

Every stage adds to one `Metrics`, by name. The metrics of the driver and the tasks are summed, and `report` shows
them. No code reads a counter to decide anything. `COUNTERS` lists all names with their meaning; docs/report.md shows
it, and a test finds counters that are missing.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

COUNTERS: dict[str, str] = {
    "manifests.considered": "manifests of the snapshot, for data and deletes",
    "manifests.pruned": "of these, skipped by their partition summaries",
    "manifests.unjoined": "of the skipped data manifests, those that only join keys excluded",
    "files.considered": "data files in the snapshot's manifests",
    "files.pruned.partition": "of these, skipped by their partition values, or together with their manifest",
    "files.pruned.bounds": "skipped by the bounds of their columns",
    "files.pruned.index": "skipped because a table-wide index proves that they hold none of the keys",
    "files.pruned.top-n": "skipped because other files have enough better rows for `ORDER BY … LIMIT`",
    "files.unjoined": "of the files skipped by partitions and bounds, those that only join keys excluded",
    "files.read": "data files opened by tasks; a file that is split counts once per task",
    "files.answered": "data files whose part of an aggregate was answered from manifests or indexes",
    "files.answered.index": "of these, data files whose part came from indexes",
    "row_groups.considered": "row groups (ORC: stripes, Avro: runs of blocks) of the opened files",
    "row_groups.pruned.statistics": "of these, skipped by their statistics",
    "row_groups.pruned.dictionary": "skipped because no value of the dictionary matches",
    "row_groups.pruned.bloom": "skipped by a Bloom filter",
    "row_groups.pruned.deletes": "skipped because deletes leave no live row",
    "row_groups.pruned.filter": "skipped because page indexes or the filter leave no live row",
    "row_groups.pruned.top-n": "skipped because `ORDER BY … LIMIT` leaves no live row",
    "row_groups.unjoined": "of the row groups skipped by statistics, those that only join keys excluded",
    "row_groups.read": "row groups whose select columns were read",
    "row_groups.untouched": "row groups proven to lose no row to equality deletes, without a probe per row",
    "pages.considered": "pages of column chunks that were read page by page",
    "pages.read": "of these, those that were fetched and decoded",
    "pages.searched": "pages of plain-encoded text that were searched for a literal's bytes before decoding",
    "page_indexes.ignored": "page indexes that were not used because they contradict their pages",
    "requests": "requests to storage by page reads",
    "store.requests": "requests to object stores by tasks, including repeated ones",
    "store.retries": "of these, requests repeated after a failure",
    "store.bytes": "bytes that object stores sent",
    "store.bytes.asked": "bytes that were requested; more were sent if ranges close together were read by one request, or a request was repeated",
    "store.most": "the most requests that any one task had in flight",
    "store.trips": "round trips on a task's critical path: the longest chain of requests, each made only once the answer before it had been used or the file before it had ended; the largest number of any task",
    "planning.requests": "requests to object stores by the driver since the previous scan of the table, for its metadata, manifests, indexes and deletes, and to decide who reads; including repeated ones",
    "planning.trips": "of these, how many had to wait for one another",
    "store.time.requests": "nanoseconds that requests were in flight, summed; divided by `store.time.busy`, how many at a time",
    "store.time.busy": "nanoseconds in which a task had a request in flight, summed over tasks",
    "columns.filtered_encoded": "filter columns of row groups that were filtered by dictionary codes instead of values",
    "columns.fetched_as_codes": "columns of row groups that were fetched as dictionary codes",
    "columns.taken_by_row": "columns of row groups from which single values were decoded without the rest of their pages",
    "rows.considered": "rows of the row groups considered, and of data files that were skipped individually",
    "rows.pruned": "of these, rows of skipped files, row groups and pages",
    "rows.unjoined.pages": "of the pruned rows, those in pages that join keys excluded",
    "rows.deleted.position": "removed by position deletes",
    "rows.deleted.vector": "removed by deletion vectors",
    "rows.deleted.equality": "removed by equality deletes",
    "rows.deleted.compiled": "removed by compiled equality deletes, in a scan by Spark's reader",
    "rows.filtered": "removed by the filter",
    "rows.unjoined": "removed by join keys; the join would have dropped them later",
    "rows.top-n": "removed by `ORDER BY … LIMIT`",
    "rows.fetched": "returned to Spark",
    "bytes.considered": "bytes of the data files in the manifests that were read",
    "bytes.read": "bytes read of data files",
    "bytes.filter": "of these, in stage one (filter columns)",
    "bytes.fetch": "of these, in stage two (select columns)",
    "delete_files.considered": "delete files of the snapshot",
    "delete_files.skipped": "of these, delete files that apply to none of the remaining data files",
    "delete_files.skipped.predicate": "of the skipped ones, delete files whose key bounds contradict the query",
    "delete_files.skipped.survivors": "uses of delete files skipped because their key bounds exclude the remaining rows",
    "delete_files.opened": "delete files opened",
    "delete_files.cached": "uses of delete files that were cached in memory",
    "delete_keys.loaded": "equality-delete keys loaded into key tables",
    "delete_keys.streamed": "equality-delete keys streamed past the remaining rows",
    "delete_keys.folded": "of the loaded ones, keys stored without columns that are constant in their partition",
    "delete_keys.redundant": "keys not loaded because shorter keys delete the same rows",
    "key_pages.considered": "pages of key columns that were compared with the keys",
    "key_pages.untouched": "of these, pages proven to have no deleted key",
    "key_pages.deleted": "of these, pages proven to have only deleted rows",
    "indexes.asked": "data files whose indexes were looked for",
    "indexes.used": "of these, data files whose indexes answered part of the filter",
    "indexes.bytes_read": "bytes read of indexes",
    "conditions.asked": "row groups for which the condition cache was asked which rows meet the filter",
    "conditions.known": "of these, row groups for which it knew, so that no filter column was read",
    "conditions.known_in_part": "row groups for which it knew the answer to some of the filter's conjuncts",
    "conditions.kept": "answers kept: for a row group, which rows meet the filter or one of its conjuncts",
    "footer_cache.hits": "footers of remote files that were read from the host's cache",
    "footer_cache.written": "footers written into the host's cache",
    "footer_cache.removed": "footers evicted from the host's cache",
    "footer_cache.ignored": "damaged footers in the host's cache (a warning)",
    "footer_cache.failed": "times that the host's cache of footers could not be written (a warning)",
    "footer_cache.unusable": "times that the directory of the host's cache of footers could not be used (a warning)",
    "footer_cache.too_large": "footers larger than the limit of the host's cache (a warning)",
    "condition_cache.hits": "answers that were read from the host's cache",
    "condition_cache.written": "answers written into the host's cache",
    "condition_cache.removed": "answers evicted from the host's cache",
    "condition_cache.ignored": "damaged answers in the host's cache (a warning)",
    "condition_cache.failed": "times that the host's cache of conditions could not be written (a warning)",
    "condition_cache.unusable": "times that the directory of the host's cache of conditions could not be used (a warning)",
    "condition_cache.too_large": "answers larger than the limit of the host's cache (a warning)",
    "delete_cache.hits": "key tables found in the host's cache",
    "delete_cache.built": "key tables built",
    "delete_cache.merged": "of these, tables built by extending an older table",
    "delete_cache.written": "files written into the host's cache",
    "delete_cache.removed": "files evicted from the host's cache",
    "delete_cache.ignored": "damaged files in the host's cache (a warning)",
    "delete_cache.failed": "times that the host's cache could not be written or locked (a warning)",
    "delete_cache.unusable": "times that the directory of the host's cache could not be used (a warning)",
    "delete_cache.too_large": "key tables larger than the limit of the host's cache (a warning)",
    "delete_compiled.hits": "data files whose equality deletes were found compiled",
    "delete_compiled.written": "data files whose equality deletes were compiled and stored",
    "delete_compiled.ignored": "damaged entries of compiled deletes (a warning)",
    "delete_compiled.failed": "entries of compiled deletes that could not be written (a warning)",
    "delete_compiled.files": "by `compile-deletes`: data files with equality deletes",
    "delete_compiled.made": "by `compile-deletes`: of these, files that were not compiled before",
    "delete_compiled.rows": "by `compile-deletes`: their deleted rows",
    "indexes.ignored": "damaged or foreign index files (a warning)",
    "indexes.failed": "times that indexes could not be listed (a warning)",
    "indexes.files": "by `index create` and `refresh`: live data files",
    "indexes.made": "by these: of the files, those that lacked an index",
    "indexes.bytes": "by these: bytes of new index files",
    "handed_over.files": "data files that Spark's own reader reads",
    "handed_over.rows": "their rows according to the footers, including deleted ones",
    "handed_over.bytes": "bytes of the selected columns, according to the footers",
    "handed_over.deleted": "of those rows, the deleted ones; `rows.deleted.*` includes rows that Spark's reader skips",
    "spark.files": "files of a scan by Spark's own reader, as Spark measured",
    "spark.files.bytes": "bytes of these files, as Spark measured",
    "spark.rows": "rows that the scan returned, as Spark measured",
    "spark.scan.ms": "milliseconds of the scan's tasks, summed, as Spark measured",
    "spark.limited": "1 if a LIMIT may have ended the scan early",
    "spark.failed": "1 if the query of a scan by Spark's own reader failed or was cancelled",
    "spark.analysis.ms": "milliseconds that Spark took to analyse the query",
    "spark.optimization.ms": "milliseconds that Spark took to optimise it",
    "spark.planning.ms": "milliseconds that Spark took to make its physical plan",
    "tasks.limited": "tasks that stopped after as many rows as a LIMIT needs",
    "time.planning": "nanoseconds of our planning in the driver",
    "time.open": "nanoseconds of opening files and reading footers",
    "time.prune": "nanoseconds of pruning row groups and pages",
    "time.deletes": "nanoseconds of reading and applying deletes",
    "time.filter": "nanoseconds of stage one: filter columns, and the filter",
    "time.fetch": "nanoseconds of stage two: select columns",
    "time.waiting": "nanoseconds of waiting for bytes in a task that reads files ahead and had nothing else to do; its other times exclude waiting",
    "time.tasks": "nanoseconds of the tasks in their Python workers, including waiting for Spark to take batches",
    "time.cpu": "nanoseconds of processor time in these workers",
}
"""The meaning of each counter. The unit is part of it; ``time.*`` are nanoseconds."""

MERGED_BY_MAXIMUM = ("store.most", "store.trips")
"""Counters that are merged by taking the maximum instead of the sum."""

Step = TypeVar("Step")
_lock = threading.Lock()


@dataclass(slots=True)
class PredicateCost:
    """Measured cost of one predicate: rows evaluated and kept, nanoseconds, bytes of indexes and columns."""

    rows_in: int = 0
    rows_out: int = 0
    nanoseconds: int = 0
    index_bytes: int = 0
    column_bytes: int = 0


@dataclass(slots=True)
class Metrics:
    """Counters by name, and the cost of each predicate by its text.

    `predicates` are the conjuncts of the filter, which the report shows; `parts` are the predicates inside their ANDs and
    ORs, for the query log.

    >>> metrics = Metrics()
    >>> metrics.add("files.read", 2)
    >>> metrics.counters["files.read"]
    2
    """

    counters: Counter[str] = field(default_factory=Counter)
    predicates: dict[str, PredicateCost] = field(default_factory=dict)
    parts: dict[str, PredicateCost] = field(default_factory=dict)
    choices: Counter[str] = field(default_factory=Counter)
    """Report lines about decisions, and how often each was made."""
    clock: Callable[[], int] = field(default=time.perf_counter_ns, repr=False, compare=False)
    """Nanoseconds; if a task reads its files in turns, only those of the calling thread's turns."""
    _filtered: Counter[int] = field(default_factory=Counter, repr=False, compare=False)
    """Bytes read in stage one, by thread: each file that is read in turns has one."""

    def add(self, name: str, amount: int = 1) -> None:
        """Add `amount` to the counter `name`."""
        with _lock:  # read-ahead threads count too, and += is not atomic
            self.counters[name] += amount

    def raise_to(self, name: str, amount: int) -> None:
        """Raise the counter `name`, one of `MERGED_BY_MAXIMUM`, to `amount`, unless it is larger."""
        with _lock:
            self.counters[name] = max(self.counters[name], amount)

    def add_read(self, stage: str, nbytes: int) -> None:
        """Add bytes that the calling thread has read from a data file in a stage, ``filter`` or ``fetch``."""
        with _lock:
            self.counters[f"bytes.{stage}"] += nbytes
            self.counters["bytes.read"] += nbytes
            if stage == "filter":
                self._filtered[threading.get_ident()] += nbytes

    def filter_bytes(self) -> int:
        """Return the bytes that the calling thread has read in stage one so far."""
        return self._filtered[threading.get_ident()]

    @contextmanager
    def timed(self, name: str) -> Iterator[None]:
        """Add the nanoseconds that the block takes to the counter ``time.<name>``."""
        start = self.clock()
        try:
            yield
        finally:
            self.counters[f"time.{name}"] += self.clock() - start

    def timed_steps(self, name: str, steps: Iterator[Step]) -> Iterator[Step]:
        """Yield from `steps`; add the time spent in it, without that of the consumer, to ``time.<name>``."""
        while True:
            with self.timed(name):
                step = next(steps, None)
            if step is None:
                return
            yield step

    def count_predicate(
        self, text: str, rows_in: int, rows_out: int, nanoseconds: int, column_bytes: int = 0
    ) -> None:
        """Add one evaluation of the conjunct `text`."""
        added = PredicateCost(rows_in, rows_out, nanoseconds, column_bytes=column_bytes)
        _add_cost(self.predicates, text, added)

    def count_index_bytes(self, text: str, nbytes: int) -> None:
        """Add bytes read from indexes for the conjunct `text`."""
        _add_cost(self.predicates, text, PredicateCost(index_bytes=nbytes))

    def count_part(
        self, text: str, rows_in: int, rows_out: int, nanoseconds: int, column_bytes: int = 0
    ) -> None:
        """Add one evaluation of the predicate `text`, a child of an AND or OR."""
        added = PredicateCost(rows_in, rows_out, nanoseconds, column_bytes=column_bytes)
        _add_cost(self.parts, text, added)

    def merge(self, other: Metrics) -> None:
        """Add another task's metrics to these."""
        largest = {name: max(self.counters[name], other.counters[name]) for name in MERGED_BY_MAXIMUM}
        self.counters.update(other.counters)
        self.counters.update({name: most - self.counters[name] for name, most in largest.items() if most})
        self.choices.update(other.choices)
        for text, cost in other.predicates.items():
            _add_cost(self.predicates, text, cost)
        for text, cost in other.parts.items():
            _add_cost(self.parts, text, cost)


def _add_cost(costs: dict[str, PredicateCost], text: str, added: PredicateCost) -> None:
    cost = costs.setdefault(text, PredicateCost())
    cost.rows_in += added.rows_in
    cost.rows_out += added.rows_out
    cost.nanoseconds += added.nanoseconds
    cost.index_bytes += added.index_bytes
    cost.column_bytes += added.column_bytes
