"""From logs to recommendations: one pass over the scans, sums by table, and recommendations from these.

Takes logs of either kind; returns an `Advice`. The rule: logs are read once, and nothing in them is executed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from twostage.advisor.choose_columns import MIN_GAIN
from twostage.advisor.log_place import open_logs
from twostage.advisor.recommend import recommend
from twostage.advisor.recommendation import Recommendation
from twostage.advisor.table_name import logged_name
from twostage.advisor.tally import QUANTILES, Tally
from twostage.advisor.thresholds import Thresholds
from twostage.advisor.what_if import QUERIES, WhatIf, what_if
from twostage.storage.location import canonical

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from twostage.advisor.column_metadata import TableColumns
    from twostage.advisor.log_place import Source
    from twostage.advisor.logged_scan import LoggedScan
    from twostage.task import Storage

MIN_SELECTIVITY = 2.0
"""S above which a column counts unless thresholds are given: reading an index that keeps most rows is
wasted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """The advisor's findings in logs.

    Attributes:
        recommendations: For each table that counts, those that scan the most first.
        tallies: The sums of each table, in the same order.
        problems: What could not be read, as text; empty if nothing.
        what_if: What the recommended indexes would do, for each table with any.
    """

    recommendations: tuple[Recommendation, ...]
    tallies: tuple[Tally, ...]
    problems: str = ""
    what_if: tuple[WhatIf, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """Return plain values that JSON can hold."""
        return {
            "recommendations": [one.as_dict() for one in self.recommendations],
            "what_if": [one.as_dict() for one in self.what_if],
            "tables": [table_facts(tally) for tally in self.tallies],
            "problems": self.problems,
        }


def table_facts(tally: Tally) -> dict[str, Any]:
    """Return the sums of a table's scans as plain values; ``quantiles`` are those of `tally.QUANTILES`."""
    model = tally.latency()
    quantiles = {
        name: [None if value != value else value for value in values]  # noqa: PLR0124 - NaN
        for name, values in tally.quantiles().items()
    }
    return {
        "table": tally.table,
        "scans": tally.scans,
        "filtered": tally.filtered,
        "entries_in_filter": tally.entries,
        "bytes_read": tally.bytes_read,
        "quantiles": {"at": list(QUANTILES), **quantiles},
        "latency": None
        if model is None
        else {"alpha": model.alpha, "beta": model.beta, "constant": model.constant, "r2": model.fit},
    }


def advise(
    log: Source | Iterable[Source],
    *,
    metadata: Mapping[str, TableColumns] | None = None,
    thresholds: Thresholds | None = None,
    min_gain: float = MIN_GAIN,
    max_columns: int | None = None,
    access: Storage | None = None,
    unopened: Mapping[str, str] | None = None,
    queries: int = QUERIES,
) -> Advice:
    """Return recommendations for the queries in logs.

    Args:
        log: The location of a query log or of Spark event logs, or several.
        metadata: What is known about tables, by name; columns that have an index get no vote.
        thresholds: What counts; default: columns whose filters leave at most half of the rows.
        min_gain: The share of all entries that one more index must save, 0 to 1.
        max_columns: The maximum number of indexes per table.
        access: How logs in buckets are opened, see `log_access`.
        unopened: Tables that could not be opened, and why: nothing is recommended for them.
        queries: How many query forms of a table `Advice.what_if` lists with bytes and seconds.

    Examples:
        >>> for one in advise("/logs/queries").recommendations:  # doctest: +SKIP
        ...     print(one.action, one.columns, one.reason)
    """
    metadata = {logged_name(name): one for name, one in (metadata or {}).items()}
    unopened = {logged_name(name): why for name, why in (unopened or {}).items()}
    thresholds = _with_existing(thresholds or Thresholds(selectivity=MIN_SELECTIVITY), metadata)
    names = {logged_name(canonical(one.location)): name for name, one in metadata.items() if one.location}
    tallies: dict[str, Tally] = {}
    problems: list[str] = []
    for opened in open_logs(log, access):
        for scan in opened:
            if scan.table in names and scan.reader == "spark" and not scan.is_measured:
                # In event logs, a scan by Spark's own reader names only the table's location.
                scan = replace(scan, table=names[scan.table])  # noqa: PLW2901
            _add(tallies, scan, thresholds, metadata)
        if opened.problems.counts:
            problems.append(str(opened.problems))
    problems += [
        f"{count:,} votes dropped, {one.table} has no column {name}"
        for one in tallies.values()
        for name, count in one.missing.most_common()
    ]
    counted = [one for one in tallies.values() if one.filtered >= thresholds.queries]
    counted.sort(key=lambda one: (-one.entries, one.table))
    recommended = [
        [_nothing_for(tally, unopened[tally.table])]
        if tally.table in unopened
        else recommend(tally, metadata.get(tally.table), min_gain=min_gain, max_columns=max_columns)
        for tally in counted
    ]
    predicted = [
        what_if(tally, indexes, queries=queries)
        for tally, found in zip(counted, recommended, strict=True)
        if (indexes := {one.columns[0]: one.kinds for one in found if one.action == "index"})
    ]
    return Advice(
        recommendations=tuple(one for found in recommended for one in found),
        tallies=tuple(counted),
        problems="\n".join(problems),
        what_if=tuple(predicted),
    )


def _nothing_for(tally: Tally, why: str) -> Recommendation:
    return Recommendation(
        table=tally.table, action="nothing", reason=f"{why}, {tally.scans:,} scans", votes=tally.filtered
    )


def _with_existing(thresholds: Thresholds, metadata: Mapping[str, TableColumns]) -> Thresholds:
    """Return thresholds with the tables' existing indexes, by the table names used in logs."""
    tables = thresholds.tables
    indexed = {logged_name(name): columns for name, columns in thresholds.indexed.items()}
    for name, known in metadata.items():
        columns = frozenset(column for column, one in known.columns.items() if one.indexed)
        if columns:
            indexed[name] = indexed.get(name, frozenset()) | columns
    return replace(
        thresholds,
        indexed=indexed,
        tables=None if tables is None else frozenset(map(logged_name, tables)),
    )


def _add(
    tallies: dict[str, Tally], scan: LoggedScan, thresholds: Thresholds, metadata: Mapping[str, TableColumns]
) -> None:
    if thresholds.tables is not None and scan.table not in thresholds.tables:
        return
    tally = tallies.get(scan.table)
    if tally is None:
        known = metadata.get(scan.table)
        tally = tallies[scan.table] = Tally(
            scan.table,
            thresholds,
            None if known is None else known.cardinalities,
            None if known is None else frozenset(known.columns),
            known,
        )
    known = metadata.get(scan.table)
    tally.add(scan if known is None else scan.of_table(known.rows))
