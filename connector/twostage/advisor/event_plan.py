"""The scans in a plan from Spark's event log: those of Iceberg's connector, and our own.

Takes a plan's nodes and their metric values; returns a `LoggedScan` for each scan of an Iceberg table. The
rule: a node's description is text that is parsed, its metrics are numbers that Spark and Iceberg counted, and
what neither states is not known.
"""

from __future__ import annotations

import datetime
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from twostage.advisor.filter_text import parse_filters
from twostage.advisor.log_values import whole_number
from twostage.advisor.logged_predicate import LoggedPredicate
from twostage.advisor.logged_scan import SPARK, LoggedScan
from twostage.advisor.spark_filter import parse_spark_filters
from twostage.advisor.table_name import logged_name
from twostage.storage.location import canonical

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from twostage.advisor.logged_scan import QueryFacts

_ICEBERG = re.compile(
    r"IcebergScan\(table=(?P<table>.*?), (?:schemaId=\d+, )?(?:snapshotId=(?P<snapshot>\d+|null), )?"
    r"(?:branch=(?P<branch>.*?), )?.*?filters=(?P<filters>.*?), runtimeFilters=(?P<runtime>.*?), groupedBy=",
    re.DOTALL,
)
_OLD_ICEBERG = re.compile(
    r"(?P<table>[\w.`-]+) \(branch=.*?\) \[filters=(?P<filters>.*?), groupedBy=", re.DOTALL
)
_OWN = re.compile(
    r"twostage (?P<table>.*?), snapshot (?P<snapshot>\d+|null), columns \[(?P<columns>.*?)\], predicates \[(?P<filters>.*?)\]"
    r"(?:, limit (?P<limit>\d+))?(?:, first by (?P<top>.*?))?(?:, not Spark's reader: .*?)?"
    r"(?:, indexes \[.*?\])?(?:, keys of joins \[(?P<joins>.*?)\])?\s*(?:RuntimeFilters: \[(?P<keys>.*)\])?$",
    re.DOTALL,
)
_OUTPUT = re.compile(r"^BatchScan .*?\[(?P<columns>[^\]]*)\]")
_COUNTERS = {
    "number of output rows": "spark.rows",
    "number of result data files": "files.read",
    "total data file size (bytes)": "spark.files.bytes",
    "total data manifests": "manifests.considered",
    "number of skipped data manifests": "manifests.pruned",
    "number of row deletes applied": "rows.deleted.position",
}
"""Spark's and Iceberg's metrics by name, each with our counter for the same."""
_OURS = re.compile(r"TwoStageFiles\(\d+ paths\)\[(?P<root>.*?)(?:, \.\.\.)?\]", re.DOTALL)
_HANDED_COLUMN = re.compile(r"[<,](\w+?)_\d+_[0-9a-f]{1,16}:")
_SPARK_COUNTERS = {
    "number of output rows": "spark.rows",
    "number of files read": "files.read",
    "size of files read": "spark.files.bytes",
    "scan time": "spark.scan.ms",
}
"""The same for Spark's file scan."""
_SKIPPED_FILES = "number of skipped data files"
_SCANS = ("BatchScan ", "Scan ")
_CACHES = ("InMemoryTableScan", "Scan In-memory ")
_NO_TIME = datetime.datetime.min.replace(tzinfo=datetime.UTC)
_PASSES = frozenset({"InputAdapter", "ColumnarToRow", "Project", "AdaptiveSparkPlan"})


def scans_of(plan: Mapping[str, Any], values: Mapping[int, int], facts: QueryFacts) -> list[LoggedScan]:
    """Return the scans of a query.

    Args:
        plan: Its last plan.
        values: Accumulator values by id; Spark does not report any that stayed 0.
        facts: What is known about the query; its scans, including those of other sources, are counted here.

    Raises:
        ValueError: It is not a plan; likewise TypeError, KeyError and AttributeError.
    """
    found: list[LoggedScan] = []
    used: set[int] = set()
    others = 0
    for place, (node, above, is_cached) in enumerate(_nodes(plan)):
        name = str(node.get("nodeName", ""))
        if not name.startswith(_SCANS) or name.startswith(_CACHES):
            continue
        numbers = _accumulators(node)
        if numbers and numbers <= used:
            continue  # a reused exchange shows the same scan again
        used |= numbers
        if is_cached and numbers and values.keys().isdisjoint(numbers):
            continue  # an earlier query read it, and filled the cache
        scan = _scan(node, above, values)
        if scan is None:
            others += 1
        else:
            found.append(replace(scan, scan=f"{facts.application}-{facts.query}-{place}"))
    of_query: dict[str, Any] = {
        "time": facts.time,
        "query_milliseconds": facts.milliseconds,
        "failed": facts.failed,
        "scans": len(found) + others,
        "application": facts.application,
        "application_name": facts.application_name,
        "user": facts.user,
        "query": facts.query,
        "description": facts.description,
    }
    return [replace(scan, **of_query) for scan in found]


def _scan(
    node: Mapping[str, Any], above: Mapping[str, Any] | None, values: Mapping[int, int]
) -> LoggedScan | None:
    """Return the scan of a node, without its query; None for one of another source."""
    text = str(node.get("simpleString", ""))
    if text.startswith("FileScan"):
        return _handed_over(node, above, values)
    if not text.startswith("BatchScan"):
        return None
    found = _ICEBERG.search(text) or _OWN.search(text) or _OLD_ICEBERG.search(text)
    if found is None:
        return None
    metrics = _metrics(node, values)
    is_own = found.re is _OWN
    predicate = parse_filters(found["filters"])
    rows_after = _rows_of(above, values)
    groups = found.groupdict()
    snapshot = groups.get("snapshot")
    return LoggedScan(
        time=_NO_TIME,
        scan="",
        table=logged_name(groups["table"].strip("`")),
        reader="twostage" if is_own else "iceberg",
        is_measured=False,
        snapshot=whole_number(int(snapshot), "snapshot") if snapshot and snapshot.isdigit() else None,
        columns=_columns(text),
        predicate=None if predicate is None else _measured(predicate, metrics, rows_after, is_own=is_own),
        hint=LoggedPredicate(op="unknown", text="keys of a join")
        if groups.get("keys") or groups.get("joins")
        else None,
        limit=whole_number(int(limit), "limit") if (limit := groups.get("limit")) else None,
        top=groups.get("top") or "",
        counters=_counters(metrics, is_own=is_own),
    )


def _handed_over(
    node: Mapping[str, Any], above: Mapping[str, Any] | None, values: Mapping[int, int]
) -> LoggedScan | None:
    """Return a scan that we handed over to Spark's own reader; None for a scan of other files.

    The node names only the table's folder. Column names end in a field id and hex digits of ours.
    """
    facts = node.get("metadata") or {}
    place = _OURS.fullmatch(str(facts.get("Location", "")))
    if place is None:
        return None
    metrics = _metrics(node, values)
    predicate = parse_spark_filters(str(facts.get("DataFilters", "")))
    rows_after = _rows_of(above, values)
    return LoggedScan(
        time=_NO_TIME,
        scan="",
        table=logged_name(canonical(place["root"])),
        reader=SPARK,
        is_measured=False,
        columns=tuple(dict.fromkeys(_HANDED_COLUMN.findall(str(facts.get("ReadSchema", ""))))),
        predicate=None if predicate is None else _measured(predicate, metrics, rows_after, is_own=False),
        counters={ours: metrics[name] for name, ours in _SPARK_COUNTERS.items() if metrics.get(name)},
    )


def accumulators_of(plan: Mapping[str, Any], *, with_caches: bool = True) -> set[int]:
    """Return the ids of all metrics of a plan; optionally of what filled a cache, maybe before the query."""
    return {
        number
        for node, _, is_cached in _nodes(plan)
        if with_caches or not is_cached
        for number in _accumulators(node)
    }


def _accumulators(node: Mapping[str, Any]) -> set[int]:
    return {whole_number(one["accumulatorId"], "accumulatorId") for one in node.get("metrics", ())}


def _nodes(plan: Mapping[str, Any]) -> Iterator[tuple[Mapping[str, Any], Mapping[str, Any] | None, bool]]:
    """Yield each node of a plan with the filter directly above it, if there is one, and whether it filled a cache."""
    stack: list[tuple[Mapping[str, Any], Mapping[str, Any] | None, bool]] = [(plan, None, False)]
    while stack:
        node, filtered, is_cached = stack.pop()
        yield node, filtered, is_cached
        name = str(node.get("nodeName", ""))
        passes = name in _PASSES or name.startswith(("WholeStageCodegen", "Scan"))
        below = node if name == "Filter" else filtered if passes else None
        fills = is_cached or name.startswith(_CACHES)
        stack.extend((child, below, fills) for child in reversed(node.get("children", [])))


def _metrics(node: Mapping[str, Any], values: Mapping[int, int]) -> dict[str, int]:
    return {
        str(one["name"]): values[whole_number(one["accumulatorId"], "accumulatorId")]
        for one in node.get("metrics", ())
        if whole_number(one["accumulatorId"], "accumulatorId") in values
    }


def _rows_of(filtered: Mapping[str, Any] | None, values: Mapping[int, int]) -> int | None:
    """Return a filter's output rows; Spark does not report a metric that stayed 0."""
    for one in () if filtered is None else filtered.get("metrics", ()):
        if one["name"] == "number of output rows":
            return values.get(whole_number(one["accumulatorId"], "accumulatorId"), 0)
    return None


def _measured(
    predicate: LoggedPredicate, metrics: Mapping[str, int], rows_after: int | None, *, is_own: bool
) -> LoggedPredicate:
    """Return the predicate with its input and output rows, if known: the scan's output and the filter's."""
    rows = metrics.get("number of output rows")
    if is_own or rows is None or rows_after is None or rows_after > rows:
        return predicate
    return replace(predicate, rows_in=rows, rows_out=rows_after)


def _counters(metrics: Mapping[str, int], *, is_own: bool) -> dict[str, int]:
    if is_own:
        return {"rows.fetched": rows} if (rows := metrics.get("number of output rows", 0)) else {}
    counters = {ours: metrics[name] for name, ours in _COUNTERS.items() if metrics.get(name)}
    if skipped := metrics.get(_SKIPPED_FILES):
        counters["files.pruned.bounds"] = skipped
    counters["files.considered"] = counters.get("files.read", 0) + metrics.get(_SKIPPED_FILES, 0)
    return {name: number for name, number in counters.items() if number}


def _columns(text: str) -> tuple[str, ...]:
    """Return the output columns of a scan's node:  ``BatchScan lake.db.t[id#80L, dev#81]``."""
    found = _OUTPUT.match(text)
    if found is None:
        return ()
    names = [part.strip().rpartition("#")[0] for part in found["columns"].split(",")]
    return tuple(name for name in names if name)
