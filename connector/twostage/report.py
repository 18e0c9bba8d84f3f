"""The scan report: what a scan considered, pruned, deleted, filtered and fetched, and what that cost.

Takes the plan and the metrics that the tasks sent back; gives a value object that prints as a table, as
HTML in a notebook, and as JSON. The rule: every number was counted by the stage that did the work.
"""

from __future__ import annotations

import io
import json
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from twostage.metrics import Metrics

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
"""The names of Spark's own metrics of a scan, and of the phases of planning its query, and ours for them."""
_PHASES = ("analysis", "optimization", "planning")
_WIDTH = 110
_LEAST_ADVISED = 200_000_000
"""Nanoseconds that deletes must have taken before anybody is told to do something about them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskStates:
    """What became of a scan's tasks: how many of them.

    Attributes:
        finished: Read all that they had to.
        limited: Returned as many rows as a LIMIT wants, and read no further.
        stopped: Spark had its rows, and asked for no more of theirs.
        killed: Spark ended them: the query was cancelled, or failed elsewhere, or another attempt was first.
        failed: Ended by an error.
        running: Not yet ended.
        not_started: Spark had its rows, or ended, before; or has not come to them yet.
        unknown: Nothing was heard of them: they were stopped, or not started, or run.
        unsure: Of all these, those that told their figures, but not their last ones.
    """

    finished: int = 0
    limited: int = 0
    stopped: int = 0
    killed: int = 0
    failed: int = 0
    running: int = 0
    not_started: int = 0
    unknown: int = 0
    unsure: int = 0

    @property
    def is_known(self) -> bool:
        """Whether the figures say all that was read."""
        return not (self.unknown or self.running or self.unsure)

    @property
    def ended_early(self) -> bool:
        """Whether some of what was planned was not read, or may not have been."""
        early = self.limited + self.stopped + self.killed + self.failed
        return bool(early + self.running + self.not_started + self.unknown)

    def described(self, planned: int) -> str:
        """Return a sentence of `planned` tasks: ``1 of 4 reported, stopped early by LIMIT; 3 not started``."""
        heard = planned - self.not_started - self.unknown
        ends = (
            (self.limited, "stopped early by LIMIT"),
            (self.stopped, "stopped early: Spark had its rows (LIMIT, take, show)"),
            (self.killed, "killed by Spark"),
            (self.failed, "failed"),
            (self.running, "still running"),
        )
        said = [text if count == heard == 1 else f"{count:,} of them {text}" for count, text in ends if count]
        text = ", ".join([f"{heard:,} of {planned:,} reported", *said])
        if self.not_started:
            text += f"; {self.not_started:,} not started"
        if self.unknown:
            text += f"; {self.unknown:,} unknown: stopped early, or not started"
        return text


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanReport:
    """One scan's report.

    Attributes:
        scan_id: Names the scan in Spark's plan and in logs.
        table: As the user named it.
        snapshot_id: The pinned snapshot; None for an empty table.
        columns: The columns returned.
        predicate: What twostage filtered by; ``TRUE`` for nothing.
        hint: What only pruned: it follows from what Spark evaluates itself, or from a join's keys.
        limit: Rows wanted at most by each task.
        top: By which order each task returns its first rows only; empty for none.
        tasks_planned: Spark tasks of the plan.
        tasks_finished: Those that came to their own end; fewer where Spark had its rows before, or while it runs.
        tasks: What became of all of them.
        is_handed_over: Spark's own Parquet reader did the scan: there are no tasks of ours. What the footers say that
            it was to read is in ``handed_over.files``, ``.rows`` and ``.bytes``; what Spark measured, when the query
            has ended, in ``spark.files``, ``spark.files.bytes`` (whole files), ``spark.rows`` (that the scan gave
            out) and ``spark.scan.ms`` (of all tasks). Bytes are always the footers'.
        is_from_metadata: Manifests answered the query's aggregates, and no data file was opened:
            ``files.answered`` of them were asked for.
        metrics: Counters (see `metrics.py` for the names), predicates and choices, summed. When the query has ended,
            ``spark.analysis.ms``, ``spark.optimization.ms`` and ``spark.planning.ms`` are what Spark took to plan it,
            all of its scans and our planning (``time.planning``, ns) included.
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
    tasks: TaskStates = TaskStates()
    top: str = ""
    is_handed_over: bool = False
    is_from_metadata: bool = False
    metrics: Metrics = field(default_factory=Metrics)

    @staticmethod
    def build(
        plan: ScanPlan,
        tasks: Iterable[Metrics] = (),
        spark: Mapping[str, int] | None = None,
        states: TaskStates | None = None,
    ) -> ScanReport:
        """Sum the plan's counters and those of the tasks (one `Metrics` each).

        `spark` is what Spark measured, by its names: the phases of planning the query (ms), and a scan that its own
        reader did; None while the query runs. `states` is what became of the tasks; without it, those whose metrics
        are there have finished.
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
            top="" if context.top is None else str(context.top),
            tasks_planned=len(plan.groups),
            tasks_finished=states.finished + states.limited,
            tasks=states,
            is_handed_over=plan.is_handed_over,
            is_from_metadata=plan.is_from_metadata,
            metrics=total,
        )

    def count(self, name: str) -> int:
        """Return a counter; 0 if nothing was counted."""
        return self.metrics.counters.get(name, 0)

    def reasons(self, prefix: str) -> dict[str, int]:
        """Return the counters below `prefix` by their last word: ``reasons("files.pruned")``."""
        counters = self.metrics.counters.items()
        return {
            name.rpartition(".")[2]: n for name, n in sorted(counters) if n and name.startswith(f"{prefix}.")
        }

    @property
    def advice(self) -> str:
        """What would make the next scan cheaper; empty where deletes cost less than the rest of the scan."""
        spent = self.count("time.deletes")
        rest = sum(self.count(f"time.{name}") for name in _TIMES if name not in ("deletes", "planning"))
        if spent < _LEAST_ADVISED or spent <= rest:
            return ""
        share = f"Deletes took {spent / (spent + rest):.0%} of the tasks' time"
        if self.count("rows.deleted.equality") + self.count("delete_keys.loaded") == 0:
            return f"{share}: compact the table (rewrite_data_files)."
        return (
            f"{share}: compact the table (rewrite_data_files), or run "
            "python -m twostage compile-deletes with the table and this scan's options."
        )

    def as_dict(self) -> dict[str, Any]:
        """Return the report as plain values, for JSON."""
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
        from rich.console import Console  # noqa: PLC0415 - only a report that is shown needs it

        text = io.StringIO()
        self._print(Console(file=text, width=_WIDTH, no_color=True, force_terminal=False))
        return text.getvalue().rstrip()

    def _repr_html_(self) -> str:
        """Render for a notebook."""
        from rich.console import Console  # noqa: PLC0415

        console = Console(record=True, width=_WIDTH, file=io.StringIO())
        self._print(console)
        return console.export_html(inline_styles=True, code_format="<pre>{code}</pre>")

    def _print(self, console: Console) -> None:
        from rich.table import Table  # noqa: PLC0415
        from rich.text import Text  # noqa: PLC0415

        console.print(Text(f"twostage scan of {self.table}, snapshot {self.snapshot_id}", style="bold"))
        facts = [("filtered by", self.predicate), ("pruned by", self.hint if self.hint != "TRUE" else "")]
        facts.append(("returned", ", ".join(self.columns) or "no column, rows only"))
        facts.append(("top", self.top))
        facts.append(("limit", "" if self.limit is None else str(self.limit)))
        if self.is_from_metadata:
            facts.append(("read by", "nobody: answered from metadata"))
        elif self.is_handed_over:
            facts.append(("read by", "Spark's own Parquet reader"))
        else:
            facts.append(("tasks", self.tasks.described(self.tasks_planned)))
        if self.count("spark.files"):
            files, size = self.count("spark.files"), _bytes(self.count("spark.files.bytes"))
            rows_out, spent = self.count("spark.rows"), self.count("spark.scan.ms")
            facts.append(
                ("measured", f"{files:,} files of {size}, {rows_out:,} rows, {spent:,} ms in its tasks")
            )
        phases = [(name, self.count(f"spark.{name}.ms")) for name in _PHASES]
        if total := sum(spent for _, spent in phases):
            said = ", ".join(f"{name} {spent:,}" for name, spent in phases)
            facts.append(("planned", f"by Spark in {total:,} ms: {said}; our share of it is below"))
        for label, value in facts:
            if value:
                console.print(Text(f"  {label:<12}{_short(value)}"), soft_wrap=True)
        funnel = Table("", "considered", "pruned or removed", "read", box=None, pad_edge=True)
        for column in (1, 3):
            funnel.columns[column].justify = "right"
        for name, considered, removed, read in self._funnel():
            funnel.add_row(name, considered, Text(removed), read)
        console.print(funnel)
        if self.metrics.predicates:
            costs = Table("predicate", "rows in", "rows out", "ms", box=None)
            for text, cost in self.metrics.predicates.items():
                milliseconds = f"{cost.nanoseconds / 1e6:,.1f}"
                costs.add_row(Text(_short(text, 60)), f"{cost.rows_in:,}", f"{cost.rows_out:,}", milliseconds)
            for column in (1, 2, 3):
                costs.columns[column].justify = "right"
            console.print(costs)
        times = [(name, self.count(f"time.{name}")) for name in _TIMES]
        console.print(
            Text("  ms, summed  " + ", ".join(f"{name} {n / 1e6:,.1f}" for name, n in times if n)),
            soft_wrap=True,
        )
        for choice, times_chosen in self.metrics.choices.items():
            console.print(
                Text(f"  chosen      {choice}" + (f" (x{times_chosen})" if times_chosen > 1 else "")),
                soft_wrap=True,
            )

        if self.advice:
            console.print(Text(f"  advice      {self.advice}"), soft_wrap=True)

    def _funnel(self) -> list[tuple[str, str, str, str]]:
        """Return the rows of the main table: name, considered, pruned or removed by what, read."""
        rows = []
        manifests = self.count("manifests.considered")
        pruned = self.count("manifests.pruned")
        rows.append(
            (
                "manifests",
                f"{manifests:,}",
                f"{pruned:,} by partition" if pruned else "",
                f"{manifests - pruned:,}",
            )
        )
        files = self.count("files.considered")
        answered = self.count("files.answered")
        pruned_files = self.reasons("files.pruned")
        rows.append(
            (
                "data files",
                f"{files:,}",
                _said({**pruned_files, "metadata": answered} if answered else pruned_files),
                self._opened(files - answered - sum(pruned_files.values())),
            )
        )
        if self.is_from_metadata:
            return rows
        rows += self._of_deletes()
        if self.is_handed_over:
            return rows + self._handed_over()
        groups = self.count("row_groups.considered")
        reasons = _said(self.reasons("row_groups.pruned"))
        if untouched := self.count("row_groups.untouched"):
            reasons += f"{', ' if reasons else ''}{untouched:,} without a deleted key"
        rows.append(("row groups", f"{groups:,}", reasons, f"{self.count('row_groups.read'):,}"))
        pages = self.count("pages.considered")
        if pages:
            ignored = self.count("page_indexes.ignored")
            note = f"{ignored:,} page indexes ignored: they contradict the pages" if ignored else ""
            rows.append(("pages of those", f"{pages:,}", note, f"{self.count('pages.read'):,}"))
        removed = {f"{kind} deletes": n for kind, n in self.reasons("rows.deleted").items()}
        if self.count("rows.pruned"):
            removed["pruning"] = self.count("rows.pruned")
        if self.count("rows.filtered"):
            removed["filters"] = self.count("rows.filtered")
        if self.count("rows.top-n"):
            removed["top-n"] = self.count("rows.top-n")
        considered, fetched = self.count("rows.considered"), self.count("rows.fetched")
        said = _said(removed)
        rest = considered - sum(removed.values()) - fetched
        if self.tasks.ended_early and self.tasks.is_known and rest > 0:
            said += f"{', ' if said else ''}{rest:,} not asked for"
        rows.append(("rows", f"{considered:,}", said, f"{fetched:,}"))
        total, read = self.count("bytes.considered"), self.count("bytes.read")
        split = ", ".join(
            f"{_bytes(self.count(f'bytes.{stage}'))} in stage {word}"
            for stage, word in (("filter", "one"), ("fetch", "two"))
            if self.count(f"bytes.{stage}")
        )
        if not self.tasks.is_known:
            split += f"{', ' if split else ''}as far as is known"
        elif total and read < total:
            split += f"{', ' if split else ''}{100 * (1 - read / total):.1f} % not read"
        rows.append(("bytes", _bytes(total), split, _bytes(read)))
        return rows

    def _opened(self, chosen: int) -> str:
        """Return how many of the files that were chosen were opened; a file may be read in parts, by several tasks."""
        if self.is_handed_over or self.is_from_metadata or not self.tasks.ended_early:
            return f"{chosen:,}"
        opened = min(chosen, self.count("files.read"))
        return f"up to {opened:,}" if opened > 1 else f"{opened:,}"

    def _of_deletes(self) -> list[tuple[str, str, str, str]]:
        """Return the rows of the main table for delete files and their keys."""
        deletes = self.count("delete_files.considered")
        if not deletes:
            return []
        rows = []
        skipped = self.count("delete_files.skipped")
        opened = f"{self.count('delete_files.opened'):,}"
        notes = [
            f"{count:,} {what}"
            for count, what in (
                (skipped, "cannot apply"),
                (self.count("delete_files.skipped.predicate"), "of these by the query"),
                (self.count("delete_files.skipped.survivors"), "cannot touch the rows left"),
                (self.count("delete_files.cached"), "uses from cache"),
                (self.count("delete_cache.hits"), "key tables from the host's cache"),
                (self.count("delete_compiled.hits"), "data files by compiled deletes"),
            )
            if count
        ]
        rows.append(("delete files", f"{deletes:,}", ", ".join(notes), opened))
        if keys := self.count("delete_keys.streamed"):
            rows.append(("delete keys streamed", "", "", f"{keys:,}"))
        if keys := self.count("delete_keys.loaded"):
            built, merged = self.count("delete_cache.built"), self.count("delete_cache.merged")
            said = []
            if built:
                said.append(f"{built:,} tables built for the host, {merged:,} of them on an older one")
            if folded := self.count("delete_keys.folded"):
                said.append(f"{folded:,} without what their partition decides")
            if redundant := self.count("delete_keys.redundant"):
                said.append(f"{redundant:,} redundant by shorter keys")
            rows.append(("delete keys", "", ", ".join(said), f"{keys:,}"))
        if pages := self.count("key_pages.considered"):
            untouched, gone = self.count("key_pages.untouched"), self.count("key_pages.deleted")
            said = [f"{untouched:,} hold none of them"] if untouched else []
            said += [f"{gone:,} only deleted rows"] if gone else []
            rows.append(("pages of keys", f"{pages:,}", ", ".join(said), f"{pages - untouched - gone:,}"))
        return rows

    def _handed_over(self) -> list[tuple[str, str, str, str]]:
        """Return the rows of the main table for what Spark's reader read: rows as measured, if they are."""
        rest, pruned = self.count("handed_over.rows"), self.count("rows.pruned")
        considered, read = self.count("bytes.considered"), self.count("handed_over.bytes")
        removed = {"pruning": pruned}
        given = rest
        most = ""
        if self.count("spark.files"):
            given = self.count("spark.rows")
            reader = "Spark's reader"
            if self.count("spark.failed"):
                reader += " or not read: the query failed, or was cancelled"
            elif self.count("spark.limited"):
                reader += " or not asked for: a LIMIT"
            removed[reader] = max(0, rest - given)
            most = "up to " if reader != "Spark's reader" and given < rest else ""
        text = _said(removed)
        if deleted := self.count("handed_over.deleted"):
            # Those of row groups that Spark's reader skipped are among them, so that they don't add up.
            text += f"{', ' if text else ''}{deleted:,} of the files' rows are deleted"
        return [
            ("rows", f"{rest + pruned:,}", text, f"{given:,}"),
            ("bytes", _bytes(considered), "", most + _bytes(read)),
        ]


def _said(reasons: dict[str, int]) -> str:
    return ", ".join(f"{n:,} by {reason}" for reason, n in reasons.items() if n)


def _short(text: str, width: int = 90) -> str:
    return text if len(text) <= width else text[: width - 1] + "…"


def _bytes(size: int) -> str:
    value = float(size)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 1024 or unit == "GiB":
            return f"{value:,.0f} {unit}" if unit == "B" else f"{value:,.1f} {unit}"
        value /= 1024
    return f"{value:,.1f} GiB"
