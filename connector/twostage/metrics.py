"""Counts what a scan considered, pruned, deleted, filtered and fetched.

Every stage adds to one `Metrics`, by name; the driver's and the tasks' metrics merge by
addition, and `report.py` shows them. Rule: a counter never changes what is read.
`COUNTERS` has their names, each with what it counts; docs/report.md shows them, and a test finds one that is missing.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterator

COUNTERS: dict[str, str] = {
    "manifests.considered": "manifests of the snapshot, of data and of deletes",
    "manifests.pruned": "of these, skipped by their partition summaries",
    "files.considered": "data files in the snapshot's manifests",
    "files.pruned.partition": "of these, skipped by their partition values, or with their manifest",
    "files.pruned.bounds": "skipped by the bounds of their columns",
    "files.pruned.top-n": "skipped because `ORDER BY … LIMIT` has enough better rows elsewhere",
    "files.read": "data files opened by tasks; a file read in parts counts once for each part",
    "files.answered": "data files that manifests answered for, in an aggregate",
    "row_groups.considered": "row groups (ORC: stripes, Avro: runs of blocks) of the files that were opened",
    "row_groups.pruned.statistics": "of these, skipped by their statistics",
    "row_groups.pruned.dictionary": "skipped because no value of a dictionary matches",
    "row_groups.pruned.bloom": "skipped by a Bloom filter",
    "row_groups.pruned.deletes": "without a live row, by deletes",
    "row_groups.pruned.filter": "without a live row, by page indexes or the filter",
    "row_groups.pruned.top-n": "without a live row, by `ORDER BY … LIMIT`",
    "row_groups.read": "row groups whose select columns were read",
    "row_groups.untouched": "row groups from which no equality delete removes a row, as was known without asking about each",
    "pages.considered": "pages of the column chunks that were read by pages",
    "pages.read": "of these, those that were fetched and decoded",
    "pages.searched": "pages of plain text that were searched for bytes before any decoding",
    "page_indexes.ignored": "page indexes that contradict their pages, and were not used",
    "requests": "requests to storage, of reads by pages",
    "columns.filtered_encoded": "filter columns of row groups whose dictionary codes were filtered instead of their values",
    "columns.fetched_as_codes": "columns of row groups that were fetched as dictionary codes",
    "columns.taken_by_row": "columns of row groups whose few wanted values were taken out of their pages without decoding the others",
    "rows.considered": "rows of the row groups considered, and of the data files that were skipped one by one",
    "rows.pruned": "of these, those in files, row groups and pages that were skipped",
    "rows.deleted.position": "removed by positional deletes",
    "rows.deleted.vector": "removed by deletion vectors",
    "rows.deleted.equality": "removed by equality deletes",
    "rows.deleted.compiled": "removed by compiled equality deletes, in a scan that Spark's reader does",
    "rows.filtered": "removed by the filter",
    "rows.top-n": "removed by `ORDER BY … LIMIT`",
    "rows.fetched": "returned to Spark",
    "bytes.considered": "sizes of the data files in the manifests that were read",
    "bytes.read": "bytes read of data files",
    "bytes.filter": "of these, in stage one (filter columns)",
    "bytes.fetch": "of these, in stage two (select columns)",
    "delete_files.considered": "delete files of the snapshot",
    "delete_files.skipped": "of these, those that can apply to no data file left",
    "delete_files.skipped.predicate": "of the skipped ones, those whose key bounds contradict the query",
    "delete_files.skipped.survivors": "uses left out, because the key bounds contradict the rows left",
    "delete_files.opened": "delete files opened",
    "delete_files.cached": "uses of delete files that were in memory already",
    "delete_keys.loaded": "keys of equality deletes that were put into tables",
    "delete_keys.streamed": "keys of equality deletes that were read past the rows left",
    "delete_keys.folded": "of the loaded ones, those kept without the columns that their partition decides",
    "delete_keys.redundant": "left out, as shorter keys delete the same rows",
    "key_pages.considered": "pages of key columns that were compared with the keys",
    "key_pages.untouched": "of these, those that prove to hold no key",
    "key_pages.deleted": "of these, those that prove to hold deleted rows alone",
    "delete_cache.hits": "key tables found in the host's cache",
    "delete_cache.built": "key tables built",
    "delete_cache.merged": "of these, those begun with an older table",
    "delete_cache.written": "files written into the host's cache",
    "delete_cache.removed": "files removed from it to make room",
    "delete_cache.ignored": "files of it that were damaged (a warning)",
    "delete_cache.failed": "times that it could not be written or locked (a warning)",
    "delete_cache.unusable": "times that its directory could not be used (a warning)",
    "delete_cache.too_large": "tables that are larger than it may be (a warning)",
    "delete_compiled.hits": "data files whose equality deletes were found compiled",
    "delete_compiled.written": "data files whose equality deletes were compiled and kept",
    "delete_compiled.ignored": "entries that were damaged (a warning)",
    "delete_compiled.failed": "entries that could not be written (a warning)",
    "delete_compiled.files": "by `compile-deletes`: data files with equality deletes",
    "delete_compiled.made": "by `compile-deletes`: of these, those that were not compiled before",
    "delete_compiled.rows": "by `compile-deletes`: their deleted rows",
    "handed_over.files": "data files that Spark's own reader reads",
    "handed_over.rows": "their rows, deleted ones included, as their footers say",
    "handed_over.bytes": "bytes of the wanted columns, as the footers say",
    "handed_over.deleted": "of those rows, the deleted ones; `rows.deleted.*` are those of the files, whatever Spark skips",
    "spark.files": "files, as Spark measured its own reader's scan",
    "spark.files.bytes": "their sizes, bytes, as Spark measured",
    "spark.rows": "rows that the scan gave out, as Spark measured",
    "spark.scan.ms": "milliseconds of its tasks, as Spark measured",
    "spark.limited": "1 where a LIMIT may have ended the scan",
    "spark.failed": "1 if an error or a cancellation ended the query that Spark's reader was reading for",
    "spark.analysis.ms": "milliseconds that Spark took to analyse the query",
    "spark.optimization.ms": "milliseconds that Spark took to optimise it",
    "spark.planning.ms": "milliseconds that Spark took to make its physical plan",
    "tasks.limited": "tasks that returned as many rows as a LIMIT wants, and read no further",
    "time.planning": "nanoseconds of our planning in the driver",
    "time.open": "nanoseconds of opening files and reading footers",
    "time.prune": "nanoseconds of pruning row groups and pages",
    "time.deletes": "nanoseconds of reading and applying deletes",
    "time.filter": "nanoseconds of stage one: filter columns, and the filter",
    "time.fetch": "nanoseconds of stage two: select columns",
}
"""What each counter counts. Plain numbers, bytes or milliseconds as it says, nanoseconds for ``time.*``."""

Step = TypeVar("Step")
_lock = threading.Lock()


@dataclass(slots=True)
class PredicateCost:
    """One predicate's share: rows it was asked about, rows it kept, nanoseconds it took."""

    rows_in: int = 0
    rows_out: int = 0
    nanoseconds: int = 0


@dataclass(slots=True)
class Metrics:
    """Counters by name, and the cost of each predicate by its text.

    >>> metrics = Metrics()
    >>> metrics.add("files.read", 2)
    >>> metrics.counters["files.read"]
    2
    """

    counters: Counter[str] = field(default_factory=Counter)
    predicates: dict[str, PredicateCost] = field(default_factory=dict)
    choices: Counter[str] = field(default_factory=Counter)
    """Sentences that say what was decided while reading, and how often."""

    def add(self, name: str, amount: int = 1) -> None:
        """Add `amount` to the counter `name`."""
        with _lock:  # a thread that reads ahead counts, too; += is not atomic
            self.counters[name] += amount

    @contextmanager
    def timed(self, name: str) -> Iterator[None]:
        """Add the nanoseconds that the block takes to the counter ``time.<name>``."""
        start = time.perf_counter_ns()
        try:
            yield
        finally:
            self.counters[f"time.{name}"] += time.perf_counter_ns() - start

    def timed_steps(self, name: str, steps: Iterator[Step]) -> Iterator[Step]:
        """Yield from `steps`, adding only the time that the steps take themselves to ``time.<name>``."""
        while True:
            with self.timed(name):
                step = next(steps, None)
            if step is None:
                return
            yield step

    def count_predicate(self, text: str, rows_in: int, rows_out: int, nanoseconds: int) -> None:
        """Add one evaluation of the predicate `text`."""
        cost = self.predicates.setdefault(text, PredicateCost())
        cost.rows_in += rows_in
        cost.rows_out += rows_out
        cost.nanoseconds += nanoseconds

    def merge(self, other: Metrics) -> None:
        """Add another task's metrics to these."""
        self.counters.update(other.counters)
        self.choices.update(other.choices)
        for text, cost in other.predicates.items():
            self.count_predicate(text, cost.rows_in, cost.rows_out, cost.nanoseconds)
