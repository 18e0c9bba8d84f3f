"""One scan in a log: what a query requested from a table, and what that cost.

Takes a scan's plan and report, or a line of a log; returns a `LoggedScan`, the value that all of the advisor
works on, whatever its source. The rule: what was not measured is None or missing, never a guess.
"""

from __future__ import annotations

import datetime
import json
import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from twostage.advisor.log_values import load_line, text, texts, whole_number, whole_number_or_none
from twostage.advisor.logged_predicate import (
    RANGE,
    LoggedPredicate,
    log_predicate,
    parse_predicate,
    with_ranges,
    without_implied,
)
from twostage.advisor.table_name import logged_name
from twostage.errors import mask

if TYPE_CHECKING:
    from collections.abc import Mapping

    from twostage.metrics import PredicateCost
    from twostage.predicates.top import TopRows
    from twostage.report.scan_report import ScanReport
    from twostage.task import ScanPlan

VERSION = 1
"""Of the line format; a reader refuses lines of later ones."""
REQUIRED_TEXTS = ("scan", "table", "reader")
"""String fields that every line has; it also has a time."""
INDEX = "index"
"""The reader of scans answered entirely by indexes."""
SPARK = "spark"
"""The reader of scans handed over to Spark's own."""
_ORDER = re.compile(r"(?P<column>.+) (?:ASC|DESC) NULLS (?:FIRST|LAST)")
_MORE_TEXTS = ("top", "application", "application_name", "user", "description")
_NUMBERS = ("snapshot", "limit", "query_milliseconds", "query")


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedScan:
    """A scan as it is logged.

    Attributes:
        time: When its query ended, in UTC.
        scan: The scan's id; unique within its application.
        table: The table's name as the query gave it.
        reader: What read it: ``twostage``; ``spark``, Spark's own reader for us; ``iceberg``, Iceberg's
            connector; or ``index``: indexes and manifests answered aggregates, and `columns` are the
            aggregated and grouping columns.
        snapshot: The snapshot's id; None if it has none or it is not known.
        columns: The columns returned; nested fields are not distinguished.
        predicate: What was evaluated, as bound, with the costs of its parts; None: all rows match.
        hint: What only pruned, or was left to Spark; None for none.
        limit: The maximum number of rows per task, for ``LIMIT``.
        top: The order and limit of a top-n scan.
        counters: Those of `metrics.COUNTERS` that are not zero.
        query_milliseconds: The wall-clock time of the whole query; None if not known.
        scans: How many logged scans the query had; in event logs those of other sources count, too.
        failed: The query failed or was cancelled.
        application: Spark's id of the application.
        application_name: And its name.
        user: Who ran it.
        query: Spark's number of the query in the application; None if not known.
        description: What Spark calls the query: the job's description, or where it was called from.
        is_measured: twostage logged it, with the costs of each part of its filter; event logs have few of
            these.
        rows_of_table: The number of rows to filter if the log does not say it; see `of_table`.
    """

    time: datetime.datetime
    scan: str
    table: str
    reader: str = "twostage"
    snapshot: int | None = None
    columns: tuple[str, ...] = ()
    predicate: LoggedPredicate | None = None
    hint: LoggedPredicate | None = None
    limit: int | None = None
    top: str = ""
    counters: Mapping[str, int] = field(default_factory=dict)
    query_milliseconds: int | None = None
    scans: int = 1
    failed: bool = False
    application: str = ""
    application_name: str = ""
    user: str = ""
    query: int | None = None
    description: str = ""
    is_measured: bool = True
    rows_of_table: int | None = None

    def count(self, name: str) -> int:
        """Return a counter; 0 if nothing was counted."""
        return self.counters.get(name, 0)

    @property
    def filter(self) -> LoggedPredicate | None:
        """Everything that the rows had to match: the predicate and the hint.

        Without ``IS NOT NULL`` that the rest implies, and with ranges as one leaf.
        """
        parts = [part for one in (self.predicate, self.hint) if one is not None for part in one.conjuncts]
        found = without_implied(parts)
        if found is not None:
            found = with_ranges(found)
            if found.op == RANGE and found.rows_out is not None and self.limit is None and not self.top:
                # Its two sides were measured on different rows: which comes first may change between row groups.
                found = replace(found, rows_out=min(found.rows_out, self.count("rows.fetched")))
        whole = self.predicate if self.hint is None else None
        if found is None or whole is None or found.rows_in is not None:
            return found
        return replace(
            found,
            rows_in=whole.rows_in,
            rows_out=whole.rows_out,
            nanoseconds=whole.nanoseconds,
            nbytes=whole.nbytes,
        )

    @property
    def answered_columns(self) -> tuple[str, ...]:
        """The columns of aggregates, and of their groups and filters, that indexes answered for all data files, or for most."""
        if not self.count("files.answered.index"):
            return ()
        named = (
            () if self.filter is None else [name for leaf in self.filter.leaves() for name in leaf.columns]
        )
        return tuple(dict.fromkeys((*self.columns, *named)))

    @property
    def order_column(self) -> str | None:
        """The column that a top-n scan is ordered by; None for other scans."""
        order = _ORDER.match(self.top)
        return None if order is None else order["column"].replace("`", "")

    @property
    def rows_read(self) -> int:
        """The rows to filter after pruning by metadata."""
        if "rows.considered" not in self.counters:
            return self.count("spark.rows") or self.count("handed_over.rows") or self.rows_of_table or 0
        deleted = sum(number for name, number in self.counters.items() if name.startswith("rows.deleted."))
        left = self.count("rows.considered") - self.count("rows.pruned") - deleted
        return max(0, left)

    @property
    def knows_rows(self) -> bool:
        """Whether the number of rows to filter is known, even if it is 0."""
        return self.is_measured or self.reader != "twostage" or self.rows_of_table is not None

    def of_table(self, rows: int) -> LoggedScan:
        """Return an unmeasured scan as one that filtered all of its table's `rows` rows.

        How many of them metadata pruned is not known; the rows returned are those that matched the filter,
        unless a limit ended the scan or something else, such as join keys, dropped more.
        """
        if self.knows_rows:
            return self
        predicate, returned = self.predicate, self.count("rows.fetched")
        is_all = self.limit is None and not self.top and self.hint is None
        if predicate is not None and is_all and returned <= rows:
            predicate = replace(predicate, rows_in=rows, rows_out=returned)
        return replace(self, predicate=predicate, rows_of_table=rows)

    @property
    def entries_in_filter(self) -> int:
        """Values scanned to evaluate the filter, column by column: Pinot's ``numEntriesScannedInFilter``.

        Counted if the scan was ours; otherwise every filter column of every row read counts.
        """
        return self.entries_of({})

    def entries_of(self, entries_per_row: Mapping[str, float]) -> int:
        """Return `entries_in_filter`; a row of a list or map counts as many entries as it has on average, by column."""
        if self.reader == "twostage" and self.is_measured:
            if self.predicate is None:
                return 0
            return round(sum([_entries(part, entries_per_row) for part in self.predicate.conjuncts]))
        whole = self.filter
        if whole is None:
            return 0
        columns = {column for leaf in whole.leaves() for column in leaf.columns}
        return round(self.rows_read * sum(entries_per_row.get(column, 1.0) for column in columns))

    @property
    def entries_after_filter(self) -> int:
        """Values of the columns returned, of the rows returned: Pinot's ``numEntriesScannedPostFilter``."""
        rows = self.count("rows.fetched") if self.reader == "twostage" else self.rows_read
        return rows * len(self.columns)

    @property
    def bytes_read(self) -> int:
        """Bytes read from data files; for other readers, those of the selected columns by the footers."""
        return self.count("bytes.read") or self.count("handed_over.bytes") or self.count("spark.files.bytes")

    def as_dict(self) -> dict[str, Any]:
        """Return the line's values; what is empty or not known is left out."""
        plain: dict[str, Any] = {
            "v": VERSION,
            "time": self.time.astimezone(datetime.UTC)
            .isoformat(timespec="milliseconds")
            .replace("+00:00", "Z"),
        }
        for name in ("scan", "table", "reader", "snapshot", "limit", "top", "failed", "scans"):
            plain[name] = getattr(self, name)
        plain["columns"] = list(self.columns)
        for name, predicate in (("predicate", self.predicate), ("hint", self.hint)):
            plain[name] = None if predicate is None else predicate.as_dict()
        plain["text"] = self.text
        plain["counters"] = dict(sorted(self.counters.items()))
        plain["entries_in_filter"] = self.entries_in_filter
        plain["entries_after_filter"] = self.entries_after_filter
        for name in ("query_milliseconds", "application", "application_name", "user", "query", "description"):
            plain[name] = getattr(self, name)
        return {name: value for name, value in plain.items() if value is not None and value != ""}

    @property
    def text(self) -> str:
        """The whole filter as SQL, literals left out where the log leaves them out; empty for none."""
        whole = self.filter
        if whole is None:
            return ""
        return whole.text or " AND ".join(
            f"({one.text})" if one.op == "or" else one.text for one in whole.children
        )

    def json(self) -> str:
        """Return the line, without its end."""
        return json.dumps(self.as_dict(), separators=(",", ":"), ensure_ascii=False)


def _entries(part: LoggedPredicate, entries_per_row: Mapping[str, float]) -> float:
    """Return the values that a predicate's leaves scanned; an unmeasured leaf counts the predicate's rows."""
    if not entries_per_row:  # most of a million scans
        return sum(
            [
                (part.rows_in or 0 if leaf.rows_in is None else leaf.rows_in) * len(leaf.columns)
                for leaf in part.leaves()
            ]
        )
    found = 0.0
    for leaf in part.leaves():
        rows = (part.rows_in if leaf.rows_in is None else leaf.rows_in) or 0
        found += rows * sum([entries_per_row.get(column, 1.0) for column in leaf.columns])
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryFacts:
    """What is known about a query apart from its scans; see `LoggedScan` for the fields."""

    time: datetime.datetime
    milliseconds: int | None = None
    failed: bool = False
    scans: int = 1
    application: str = ""
    application_name: str = ""
    user: str = ""
    query: int | None = None
    description: str = ""


def log_scan(plan: ScanPlan, report: ScanReport, query: QueryFacts, *, literals: bool = True) -> LoggedScan:
    """Return what is logged of one of our scans.

    Args:
        plan: The scan's plan.
        report: The same scan's report, after its query.
        query: The query that it is part of.
        literals: Keep literals; without them the query's description and the limit of a top-n scan are left out, too.
    """
    context, metrics = plan.context, report.metrics
    costs: dict[str, PredicateCost] = {**metrics.parts, **metrics.predicates}
    return LoggedScan(
        time=query.time,
        scan=context.scan_id,
        table=logged_name(context.table),
        reader=INDEX if plan.is_from_metadata else SPARK if plan.is_handed_over else "twostage",
        snapshot=context.snapshot_id,
        columns=plan.answered_columns
        if plan.is_from_metadata
        else tuple(column.name for column in context.projection),
        predicate=log_predicate(context.predicate, costs, literals=literals),
        hint=log_predicate(context.hint, costs, literals=literals),
        limit=context.limit,
        top=_top(context.top, literals=literals),
        counters={name: count for name, count in metrics.counters.items() if count},
        query_milliseconds=query.milliseconds,
        scans=query.scans,
        failed=query.failed,
        application=query.application,
        application_name=query.application_name,
        user=query.user,
        query=query.query,
        description=mask(query.description) if literals else "",
    )


def _top(top: TopRows | None, *, literals: bool) -> str:
    if top is None:
        return ""
    return str(top) if literals else f"{str(top).rpartition(' ')[0]} ?"


def _masked(name: str) -> str:
    return (
        name if name.isalnum() else logged_name(name)
    )  # every scan has its own id, of letters and digits; there are few tables and readers


def parse_scan(line: str | bytes) -> LoggedScan:
    """Return the scan of a line.

    Raises:
        ValueError: It is not JSON, or not a scan's.
    """
    raw = load_line(line)
    if not isinstance(raw, dict) or type(raw.get("v")) is not int:
        raise ValueError("not a line of a query log")
    if raw["v"] > VERSION:
        raise ValueError(f"a line of a later version: {str(raw['v'])[:20]}")
    counters = raw.get("counters", {})
    if not isinstance(counters, dict):
        raise ValueError("not a line of a query log")  # noqa: TRY004 - a value of the log, not of the program
    for name, number in counters.items():
        whole_number(number, name)
    more: dict[str, Any] = {name: whole_number_or_none(raw.get(name), name) for name in _NUMBERS}
    more |= {name: text(raw.get(name, ""), name) for name in _MORE_TEXTS}
    more |= {name: _masked(text(raw.get(name), name)) for name in REQUIRED_TEXTS}
    return LoggedScan(
        time=_time(text(raw.get("time"), "time")),
        predicate=parse_predicate(raw.get("predicate")),
        hint=parse_predicate(raw.get("hint")),
        columns=texts(raw.get("columns", []), "columns"),
        counters=counters,
        scans=whole_number(raw.get("scans", 1), "scans") or 1,
        failed=raw.get("failed") is True,
        **more,
    )


def _time(value: str) -> datetime.datetime:
    time = datetime.datetime.fromisoformat(value)
    try:
        return time.astimezone(datetime.UTC) if time.tzinfo else time.replace(tzinfo=datetime.UTC)
    except OverflowError:
        raise ValueError("no time: time") from None
