"""The scan report: what a scan considered, pruned, deleted, filtered and fetched, and what that cost.

Takes the plan and the metrics that the tasks sent back; returns a value that prints as a table (`funnel.py` has
its rows), as HTML in a notebook, and as JSON.
"""

from __future__ import annotations

import io
import json
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from twostage.metrics import Metrics
from twostage.report.funnel import Funnel, by_reason, format_bytes, planning_line, store_line
from twostage.report.joins import KeysOfJoin
from twostage.report.tasks import TaskStates

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from rich.console import Console

    from twostage.task import ScanPlan

_TIMES = ("planning", "open", "prune", "deletes", "filter", "fetch")
_SPARK = {
    "numFiles": "spark.files",
    "filesSize": "spark.files.bytes",
    "numOutputRows": "spark.rows",
    "scanTime": "spark.scan.ms",
    "analysis": "spark.analysis.ms",
    "optimization": "spark.optimization.ms",
    "planning": "spark.planning.ms",
    "limited": "spark.limited",
    "failed": "spark.failed",
}
"""Names of Spark's metrics of a scan and of the phases of planning a query, each with the name of our counter."""
_PHASES = ("analysis", "optimization", "planning")
_WIDTH = 110
_MIN_DELETE_NANOSECONDS_TO_ADVISE = 200_000_000
"""Time that deletes must have taken before the report suggests doing something about them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanReport:
    """The report of one scan.

    Attributes:
        scan_id: Identifies the scan in Spark's plan and in logs.
        table: The table's name as the user gave it.
        snapshot_id: The pinned snapshot; None for a table without data.
        columns: The columns returned.
        predicate: The predicate that twostage evaluated; ``TRUE`` if none.
        hint: The predicate that only pruned: implied by what Spark evaluates itself, or by the keys of a join.
        limit: The maximum number of rows that each task returns.
        joins: The joins whose keys filtered the scan, once the query has ended.
        top: The sort order and limit of a top-n scan; empty if it is none.
        tasks_planned: Spark tasks of the plan.
        tasks_finished: Tasks that ended on their own; fewer if Spark needed no more rows, or while the query
            runs.
        tasks: What became of all tasks.
        is_handed_over: Spark's own Parquet reader did the scan, so there are no tasks of ours. According to the
            footers, it had ``handed_over.files``, ``.rows`` and ``.bytes`` to read. After the query, ``spark.files``,
            ``spark.files.bytes`` (whole files), ``spark.rows`` (rows that the scan returned) and ``spark.scan.ms``
            (summed over its tasks) are Spark's measurements. The bytes shown are always the footers'.
        is_from_metadata: Manifests, or indexes, answered the query's aggregates, and no data file was opened;
            ``files.answered`` counts the data files, ``files.answered.index`` those that indexes answered for.
        metrics: Counters (`metrics.COUNTERS` explains them), predicates and choices, summed. After the query,
            ``spark.analysis.ms``, ``spark.optimization.ms`` and ``spark.planning.ms`` are the times that Spark took to
            plan it, with all of its scans and our planning (``time.planning``, ns).
    """

    scan_id: str
    table: str
    snapshot_id: int | None
    columns: tuple[str, ...]
    predicate: str
    hint: str
    limit: int | None
    tasks_planned: int
    tasks_finished: int
    tasks: TaskStates = field(default_factory=TaskStates)
    joins: tuple[KeysOfJoin, ...] = ()
    top: str = ""
    is_handed_over: bool = False
    is_from_metadata: bool = False
    metrics: Metrics = field(default_factory=Metrics)

    @staticmethod
    def build(
        plan: ScanPlan,
        tasks: Iterable[Metrics] = (),
        spark: Mapping[str, Any] | None = None,
        states: TaskStates | None = None,
    ) -> ScanReport:
        """Sum the counters of the plan and of its tasks.

        Args:
            plan: The scan's plan.
            tasks: The metrics of each task.
            spark: Spark's measurements by Spark's names: the phases of planning the query (ms), the metrics
                of a scan by its own reader, and in ``joins`` the joins whose keys filtered it; None while the
                query runs.
            states: What became of the tasks; None: those with metrics have finished.
        """
        total = Metrics()
        total.counters.update(plan.counters)
        total.choices.update(plan.choices)
        total.counters.update({_SPARK[name]: n for name, n in (spark or {}).items() if name in _SPARK})
        heard = 0
        for metrics in tasks:
            heard += 1
            total.merge(metrics)
        if states is None:
            states = TaskStates(finished=heard, unknown=max(0, len(plan.groups) - heard))
        context = plan.context
        return ScanReport(
            scan_id=context.scan_id,
            table=context.table,
            snapshot_id=context.snapshot_id,
            columns=tuple(column.name for column in context.projection),
            predicate=str(context.predicate),
            hint=str(context.hint),
            limit=context.limit,
            joins=tuple(KeysOfJoin.of(raw, context.keys) for raw in (spark or {}).get("joins", ())),
            top="" if context.top is None else str(context.top),
            tasks_planned=len(plan.groups),
            tasks_finished=states.finished + states.limited,
            tasks=states,
            is_handed_over=plan.is_handed_over,
            is_from_metadata=plan.is_from_metadata,
            metrics=total,
        )

    def count(self, name: str) -> int:
        """Return the value of a counter; 0 if nothing was counted."""
        return self.metrics.counters.get(name, 0)

    def reasons(self, prefix: str) -> dict[str, int]:
        """Return the non-zero counters below `prefix` by the last part of their name: ``reasons("files.pruned")``."""
        return by_reason(self.metrics.counters, prefix)

    @property
    def advice(self) -> str:
        """What would make the next scan cheaper; empty unless deletes took more time than the rest of the scan."""
        spent = self.count("time.deletes")
        rest = sum(self.count(f"time.{name}") for name in _TIMES if name not in ("deletes", "planning"))
        if spent < _MIN_DELETE_NANOSECONDS_TO_ADVISE or spent <= rest:
            return ""
        share = f"Deletes took {spent / (spent + rest):.0%} of the tasks' time"
        if self.count("rows.deleted.equality") + self.count("delete_keys.loaded") == 0:
            return f"{share}: compact the table (rewrite_data_files)."
        return (
            f"{share}: compact the table (rewrite_data_files), or run "
            "python -m twostage compile-deletes with the table and this scan's options."
        )

    def as_dict(self) -> dict[str, Any]:
        """Return the report as plain values that JSON can hold."""
        plain = {**asdict(self), "advice": self.advice}
        plain["metrics"] = {
            "counters": dict(sorted(self.metrics.counters.items())),
            "predicates": {text: asdict(cost) for text, cost in self.metrics.predicates.items()},
            "choices": dict(self.metrics.choices),
        }
        return plain

    def json(self) -> str:
        """Return the report as JSON text."""
        return json.dumps(self.as_dict(), indent=2, default=str)

    def __str__(self) -> str:
        from rich.console import Console  # noqa: PLC0415 - needed only to show a report

        text = io.StringIO()
        self._print(
            Console(file=text, width=_WIDTH, no_color=True, force_terminal=False, force_jupyter=False)
        )
        return text.getvalue().rstrip()

    def _repr_html_(self) -> str:
        """Render the report for a notebook."""
        from rich.console import Console  # noqa: PLC0415

        console = Console(record=True, width=_WIDTH, file=io.StringIO(), force_jupyter=False)
        self._print(console)
        return console.export_html(inline_styles=True, code_format="<pre>{code}</pre>")

    def _print(self, console: Console) -> None:
        from rich.table import Table  # noqa: PLC0415
        from rich.text import Text  # noqa: PLC0415

        console.print(Text(f"twostage scan of {self.table}, snapshot {self.snapshot_id}", style="bold"))
        facts = [
            ("filtered by", self.predicate if self.predicate != "TRUE" else "nothing"),
            ("pruned by", self.hint if self.hint != "TRUE" else ""),
        ]
        facts += [("keys", str(keys)) for keys in self.joins]
        facts.append(("returned", ", ".join(self.columns) or "no column, rows only"))
        facts.append(("top", self.top))
        facts.append(("limit", "" if self.limit is None else str(self.limit)))
        if self.is_from_metadata:
            source = "metadata and indexes" if self.count("files.answered.index") else "metadata"
            facts.append(("read by", f"nobody: answered from {source}"))
        elif self.is_handed_over:
            facts.append(("read by", "Spark's own Parquet reader"))
        else:
            facts.append(("tasks", self.tasks.described(self.tasks_planned)))
        if self.count("spark.files"):
            files, size = self.count("spark.files"), format_bytes(self.count("spark.files.bytes"))
            rows_out, spent = self.count("spark.rows"), self.count("spark.scan.ms")
            facts.append(
                ("measured", f"{files:,} files of {size}, {rows_out:,} rows, {spent:,} ms in its tasks")
            )
        elif self.is_handed_over:
            facts.append(("measured", "nothing: the query has not ended, or needed no file of this scan"))
        phases = [(name, self.count(f"spark.{name}.ms")) for name in _PHASES]
        if total := sum(spent for _, spent in phases):
            listed = ", ".join(f"{name} {spent:,}" for name, spent in phases)
            facts.append(("planned", f"by Spark in {total:,} ms: {listed}; ours below"))
        for label, value in facts:
            if value:
                console.print(Text(f"  {label:<12}{_short(value)}"), soft_wrap=True)
        funnel = Funnel(
            counters=self.metrics.counters,
            tasks=self.tasks,
            is_handed_over=self.is_handed_over,
            is_from_metadata=self.is_from_metadata,
        )
        main = Table("", "considered", "pruned or removed", "read", box=None, pad_edge=True)
        for column in (1, 3):
            main.columns[column].justify = "right"
        for name, considered, removed, read in funnel.rows():
            main.add_row(name, considered, Text(removed), read)
        console.print(main)
        if self.metrics.predicates:
            names = ["predicate", "rows in", "rows out", "ms"]
            by_index = any(cost.index_bytes for cost in self.metrics.predicates.values())
            costs = Table(*names, *(["of indexes"] if by_index else []), box=None)
            for text, cost in self.metrics.predicates.items():
                cells = [f"{cost.rows_in:,}", f"{cost.rows_out:,}", f"{cost.nanoseconds / 1e6:,.1f}"]
                cells += [format_bytes(cost.index_bytes) if cost.index_bytes else ""] if by_index else []
                costs.add_row(Text(_short(text, 60)), *cells)
            for column in range(1, len(costs.columns)):
                costs.columns[column].justify = "right"
            console.print(costs)
        times = [(name, self.count(f"time.{name}")) for name in _TIMES]
        console.print(
            Text("  ms, summed  " + ", ".join(f"{name} {n / 1e6:,.1f}" for name, n in times if n)),
            soft_wrap=True,
        )
        if asked := planning_line(self.metrics.counters):
            console.print(Text(f"  planning    {asked}"), soft_wrap=True)
        if asked := store_line(self.metrics.counters):
            console.print(Text(f"  store       {asked}"), soft_wrap=True)
        for choice, times_chosen in self.metrics.choices.items():
            console.print(
                Text(f"  chosen      {choice}" + (f" (x{times_chosen})" if times_chosen > 1 else "")),
                soft_wrap=True,
            )

        if self.advice:
            console.print(Text(f"  advice      {self.advice}"), soft_wrap=True)


def _short(text: str, width: int = 90) -> str:
    return text if len(text) <= width else text[: width - 1] + "…"
