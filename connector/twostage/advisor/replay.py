"""Replays the heaviest scans of a query log, with and without indexes, and compares them with predictions.

Takes a query log, the reader's options of one table and its column metadata; reads the table in this process, without
Spark. The rules: a scan is rebuilt from values (`rebuilt_scan`), no text in a log is executed; what cannot be
replayed is counted by reason; and if both ways return different numbers of rows, that is an error, not a
figure. Optionally, a scan by Spark's reader is replayed with twostage's, as with ``scan.native=never``; its
prediction is based on what that takes without indexes.
"""

from __future__ import annotations

import heapq
import itertools
import statistics
import time
import uuid
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from twostage.advisor.byte_model import bytes_saved
from twostage.advisor.collect import collect, with_indexes
from twostage.advisor.logged_scan import SPARK, QueryFacts, log_scan
from twostage.advisor.rebuilt_scan import CannotReplayError, rebuild
from twostage.advisor.table_name import logged_name
from twostage.advisor.tally import Tally
from twostage.advisor.thresholds import Thresholds
from twostage.catalog.load_table import load_table
from twostage.errors import InternalError, NotFoundError
from twostage.metrics import Metrics
from twostage.planning.plan import plan_scan
from twostage.reading.pipeline import read_group
from twostage.report.scan_report import ScanReport

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from twostage.advisor.column_metadata import TableColumns
    from twostage.advisor.latency import LatencyModel
    from twostage.advisor.logged_scan import LoggedScan
    from twostage.advisor.query_log import QueryLog
    from twostage.advisor.rebuilt_scan import RebuiltScan
    from twostage.options import ReadOptions
    from twostage.table.pinned import PinnedTable
    from twostage.task import ScanPlan

QUERIES = 10
"""Scans replayed by default."""
ROUNDS = 2
"""Reads of each scan with and without indexes; the shortest time counts."""
_CANDIDATES_PER_REPLAY = 20
"""Scans kept for each scan to replay, because some cannot be replayed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Replayed:
    """One scan, predicted and measured. Bytes are of data files and indexes together.

    Attributes:
        text: Its filter.
        columns: The columns that it returned.
        rows: How many rows it returns.
        bytes_without: Read without indexes.
        bytes_with: Read with them.
        predicted: Bytes that indexes save according to the model; None if it predicts nothing.
        seconds_without: The shortest time of a read, planning included, in this process.
        seconds_with: The same with indexes.
        predicted_seconds: Seconds that indexes save according to the latency model; None if it does not fit.
        reader: What read it when it was logged: ``twostage`` or ``spark``. Bytes are always of twostage's
            reader.
    """

    text: str
    columns: tuple[str, ...]
    rows: int
    bytes_without: int
    bytes_with: int
    predicted: float | None
    seconds_without: float
    seconds_with: float
    predicted_seconds: float | None = None
    reader: str = "twostage"

    @property
    def saved(self) -> int:
        """The bytes that indexes saved; negative where they cost more."""
        return self.bytes_without - self.bytes_with

    @property
    def error(self) -> float | None:
        """How far the prediction is off, as a share of what was saved; None without one."""
        if self.predicted is None:
            return None
        off = abs(self.predicted - self.saved)
        return off / abs(self.saved) if self.saved else float(off >= 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """The result of replaying a log's heaviest scans of a table.

    Attributes:
        table: Its name in logs.
        replayed: The heaviest first.
        refused: Heavy scans that could not be replayed, by reason.
        problems: What could not be read in the log; empty if nothing.
    """

    table: str
    replayed: tuple[Replayed, ...]
    refused: Mapping[str, int] = field(default_factory=dict)
    problems: str = ""

    @property
    def median_error(self) -> float | None:
        """The median of `Replayed.error`; None without predictions."""
        errors = [one.error for one in self.replayed if one.error is not None]
        return statistics.median(errors) if errors else None

    def as_dict(self) -> dict[str, Any]:
        """Return plain values that JSON can hold."""
        names = Replayed.__dataclass_fields__
        return {
            "table": self.table,
            "median_error": self.median_error,
            "replayed": [
                {name: getattr(one, name) for name in (*names, "saved", "error")} for one in self.replayed
            ],
            "refused": dict(self.refused),
            "problems": self.problems,
        }


def check_log(
    logs: Sequence[QueryLog],
    options: ReadOptions,
    confs: Mapping[str, str],
    *,
    name: str | None = None,
    metadata: TableColumns | None = None,
    queries: int = QUERIES,
    spark_scans: bool = False,
    step: Callable[[int, int], None] = lambda _done, _of: None,
) -> Check:
    """Replay the heaviest scans of a table in query logs, and return what was predicted and measured.

    Args:
        logs: twostage's own.
        options: The reader's; they say where the table is.
        confs: Spark's, for catalogs.
        name: The table's name in the logs; by default as in the options.
        metadata: Of its columns; by default it is collected now. Existing indexes are always looked up.
        queries: How many different scans are replayed.
        spark_scans: Also replay scans by Spark's reader, with twostage's.
        step: Called with the number of scans replayed so far, and of all.

    Raises:
        NotFoundError: There is no such table or log.
        InternalError: A scan returned other rows with indexes than without.
    """
    name = logged_name(name or options.path or "")
    known = collect(options, confs) if metadata is None else with_indexes(metadata, options, confs)
    tally = Tally(name, Thresholds())
    problems: list[str] = []

    def scans() -> Iterator[LoggedScan]:
        for log in logs:
            for scan in log:
                if scan.table == name:
                    tally.add(scan)
                yield scan
            if log.problems.counts:
                problems.append(str(log.problems))

    refused: Counter[str] = Counter()
    chosen = heaviest(scans(), name, queries * _CANDIDATES_PER_REPLAY, refused, spark_scans=spark_scans)
    found = check(
        chosen, options, confs, replace(known, table=name), queries=queries, model=tally.latency(), step=step
    )
    return replace(found, refused={**refused, **found.refused}, problems="\n".join(problems))


def check(
    chosen: Sequence[LoggedScan],
    options: ReadOptions,
    confs: Mapping[str, str],
    metadata: TableColumns,
    *,
    queries: int = QUERIES,
    model: LatencyModel | None = None,
    step: Callable[[int, int], None] = lambda _done, _of: None,
) -> Check:
    """Replay scans of a table, and return what was predicted and measured.

    Args:
        chosen: The scans, the heaviest first; more than are wanted, because some cannot be replayed.
        options: The reader's; they say where the table is.
        confs: Spark's, for catalogs.
        metadata: The table's current metadata, including indexes; its name is the table's in the log.
        queries: How many are replayed.
        model: The latency model, for predictions of seconds.
        step: Called with the number of scans replayed so far, and of all.

    Raises:
        NotFoundError: There is no such table.
        InternalError: A scan returned other rows with indexes than without.
    """
    indexed = {name: one.indexed for name, one in metadata.columns.items() if one.indexed}
    refused: Counter[str] = Counter()
    replayed: list[Replayed] = []
    wanted = min(queries, len(chosen))  # the total for `step`; fewer are replayed if too many cannot be
    for scan in chosen:
        if len(replayed) == wanted:
            break
        step(len(replayed), wanted)
        try:
            table = _table_at(scan, options, confs)
            rebuilt = rebuild(scan, table.schema)
        except CannotReplayError as error:
            refused[str(error)] += 1
            continue
        found, measured = _replay(scan, rebuilt, table, options)
        saved = bytes_saved(measured if scan.reader == SPARK else scan, metadata, indexed)
        seconds = None  # the model says nothing about a query by another reader
        if model is not None and model.is_usable and saved is not None and scan.count("bytes.filter"):
            share = max(0.0, saved) / scan.count("bytes.filter")
            seconds = model.alpha * scan.entries_in_filter * min(1.0, share)
        replayed.append(replace(found, predicted=saved, predicted_seconds=seconds))
    step(wanted, wanted)
    return Check(table=metadata.table, replayed=tuple(replayed), refused=dict(refused))


def heaviest(
    log: Iterable[LoggedScan], table: str, count: int, refused: Counter[str], *, spark_scans: bool = False
) -> list[LoggedScan]:
    """Return the scans of a table whose filters scanned the most entries, each filter with its columns once.

    Args:
        log: Any log.
        table: Its name in the log.
        count: How many.
        refused: Gains the scans that cannot be compared, by reason.
        spark_scans: Scans by Spark's reader can be compared, too.
    """
    kept: dict[tuple[str, tuple[str, ...]], tuple[float, LoggedScan]] = {}
    limit = 0.0
    for scan in log:
        if scan.table != table or scan.predicate is None:
            continue
        if scan.reader == SPARK and not spark_scans:
            refused["Spark's reader read it, which reads no index"] += 1
        elif scan.reader not in ("twostage", SPARK):
            refused["another reader than twostage's read it"] += 1
        elif scan.count("indexes.used") or scan.count("files.pruned.index"):
            refused["it was logged while indexes were read"] += 1
        else:
            weight, key = float(scan.entries_in_filter), (scan.text, scan.columns)
            if weight < limit or (key in kept and kept[key][0] >= weight):
                continue
            kept[key] = (weight, scan)
            if len(kept) > 2 * count:
                best = heapq.nlargest(count, kept.items(), key=lambda item: item[1][0])
                kept, limit = dict(best), best[-1][1][0]
    best = heapq.nlargest(count, kept.items(), key=lambda item: item[1][0])
    return [scan for _, (_, scan) in best]


def _table_at(scan: LoggedScan, options: ReadOptions, confs: Mapping[str, str]) -> PinnedTable:
    """Return the table at the snapshot that was logged, or as it is now if that has expired."""
    if scan.snapshot is not None:
        try:
            return load_table(replace(options, snapshot_id=scan.snapshot), confs)
        except NotFoundError as error:
            if error.code != "SNAPSHOT_NOT_FOUND":
                raise
    return load_table(options, confs)


def _replay(
    scan: LoggedScan, rebuilt: RebuiltScan, table: PinnedTable, options: ReadOptions
) -> tuple[Replayed, LoggedScan]:
    """Read a scan without and with indexes, in turn, so that other load on the machine affects both.

    Returns:
        What was measured; and the scan as it would have been logged, had it been read without indexes.
    """
    ways = [replace(options, settings=replace(options.settings, index=on)) for on in (False, True)]
    first: list[tuple[int, int]] = []
    logged = scan
    seconds: list[list[float]] = [[], []]
    for number, place in itertools.product(range(ROUNDS), range(2)):
        started = time.perf_counter()
        plan, report = _read(rebuilt, table, ways[place])
        seconds[place].append(time.perf_counter() - started)
        if number == 0:  # later rounds find the directories of indexes in memory
            counted = report.metrics.counters
            first.append((counted["bytes.read"] + counted["indexes.bytes_read"], counted["rows.fetched"]))
            if place == 0:
                logged = log_scan(plan, report, QueryFacts(time=scan.time))
    (bytes_without, rows), (bytes_with, rows_with) = first
    if rows != rows_with and rebuilt.limit is None:
        raise InternalError(
            "WRONG_INDEX",
            f"With indexes {rows_with:,} rows are returned, without {rows:,}: {scan.text}",
            stage="advisor",
            hint="index verify says which indexes are wrong; index drop removes them.",
        )
    replayed = Replayed(
        text=scan.text,
        columns=scan.columns,
        rows=rows,
        bytes_without=bytes_without,
        bytes_with=bytes_with,
        predicted=None,
        seconds_without=min(seconds[0]),
        seconds_with=min(seconds[1]),
        reader=scan.reader,
    )
    return replayed, logged


def _read(rebuilt: RebuiltScan, table: PinnedTable, options: ReadOptions) -> tuple[ScanPlan, ScanReport]:
    plan = plan_scan(
        table,
        options,
        projection=rebuilt.projection,
        predicate=rebuilt.predicate,
        hint=rebuilt.hint,
        limit=rebuilt.limit,
        parallelism=1,
        scan_id=uuid.uuid4().hex,
    )
    metrics = Metrics()
    for group in plan.groups:
        for _ in read_group(group, metrics):
            pass
    return plan, ScanReport.build(plan, [metrics])
