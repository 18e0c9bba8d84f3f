"""Counts what a scan considered, pruned, deleted, filtered and fetched.

Every stage adds to one `Metrics` under the names below; the driver's and the tasks' metrics merge by
addition, and `report.py` shows them. Rule: a counter never changes what is read.

Names: ``manifests.considered``, ``manifests.pruned``; ``files.considered``, ``files.pruned.partition``,
``files.pruned.{bounds,top-n}``, ``files.read``, ``files.answered`` (from metadata); ``row_groups.considered``,
``row_groups.pruned.{statistics,dictionary,bloom,deletes,filter,top-n}``, ``row_groups.read``;
``pages.considered``, ``pages.read`` (of the chunks read by pages), ``pages.searched`` (for text), ``page_indexes.ignored``, ``requests`` (of
reads by pages); ``rows.considered``, ``rows.pruned``, ``rows.deleted.{position,vector,equality,compiled}``, ``rows.filtered``, ``rows.top-n``,
``rows.fetched``; ``bytes.considered`` (the files' sizes), ``bytes.read``, ``bytes.filter``,
``bytes.fetch``; ``delete_files.{considered,skipped,opened,cached}``, ``delete_files.skipped.{predicate,survivors}`` (by key bounds
against the query, and against the rows left), ``delete_keys.{loaded,streamed}``, ``delete_keys.folded`` (of those loaded, without what their partition decides), ``delete_keys.redundant`` (left out,
as shorter ones delete the same rows),
``row_groups.untouched`` (by any key), ``key_pages.{considered,untouched,deleted}`` (of key columns, those that prove
to hold no key, or deleted rows alone);
``delete_cache.{hits,built,merged,written,removed}`` (key tables in the host's cache, and what was removed to make
room), ``delete_cache.{ignored,failed,unusable,too_large}`` (warnings), ``delete_compiled.{hits,written}`` (data
files), ``delete_compiled.{ignored,failed}`` (warnings);
``handed_over.{files,rows,bytes,deleted}`` (of a scan that Spark's reader does, as the footers say; its
``rows.deleted.*`` are those of the files, whatever Spark skips),
``spark.{files,files.bytes,rows,scan.ms}`` (the same as Spark measured it), ``spark.{limited,failed}`` (a LIMIT may have ended it; an error or a
cancellation has),
``spark.{analysis,optimization,planning}.ms`` (of planning the whole query, as Spark measured it);
``tasks.limited`` (that returned as many rows as a LIMIT wants, and read no further);
``time.{planning,open,prune,deletes,filter,fetch}`` (nanoseconds).
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
