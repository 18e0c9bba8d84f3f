"""The main table of a scan report: manifests, files, row groups, pages, rows and bytes considered, removed and read.

Takes the scan's counters and the states of its tasks; returns the table's rows as text. Every number was counted by the
stage that did the work.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from twostage.report.tasks import TaskStates


def by_reason(counters: Mapping[str, int], prefix: str) -> dict[str, int]:
    """Return the non-zero counters below `prefix` by the last part of their name.

    >>> by_reason({"files.pruned.bounds": 3, "files.pruned.partition": 0, "files.read": 1}, "files.pruned")
    {'bounds': 3}
    """
    return {
        name.rpartition(".")[2]: count
        for name, count in sorted(counters.items())
        if count and name.startswith(f"{prefix}.")
    }


def format_bytes(size: int) -> str:
    """Return a size with a binary unit.

    >>> format_bytes(3 * 2**20)
    '3.0 MiB'
    """
    value = float(size)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 1024 or unit == "GiB":
            return f"{value:,.0f} {unit}" if unit == "B" else f"{value:,.1f} {unit}"
        value /= 1024
    return f"{value:,.1f} GiB"


def store_line(counters: Mapping[str, int]) -> str:
    """Return a line about the tasks' requests to object stores; empty if there were none.

    >>> store_line({"store.requests": 120, "store.trips": 3, "time.waiting": 4, "time.tasks": 10,
    ...             "store.bytes": 2048, "store.bytes.asked": 1024,
    ...             "store.time.requests": 600, "store.time.busy": 20, "store.most": 64, "bytes.read": 512})
    '120 requests, 30 at a time (at most 64), up to 3 in sequence in a task, 2.0 KiB read for 1.0 KiB requested, 512 B of columns, waited for in 40 % of task time'
    """
    requests, busy = counters.get("store.requests", 0), counters.get("store.time.busy", 0)
    if not requests:
        return ""
    at_a_time = f", {counters.get('store.time.requests', 0) / busy:,.0f} at a time" if busy else ""
    if at_a_time and (most := counters.get("store.most", 0)):
        at_a_time += f" (at most {most:,})"
    retries = counters.get("store.retries", 0)
    repeated = f", {retries:,} of them retried" if retries else ""
    sizes = (
        f"{format_bytes(counters.get('store.bytes', 0))} read for "
        f"{format_bytes(counters.get('store.bytes.asked', 0))} requested"
    )
    if used := counters.get("bytes.read", 0):
        sizes += f", {format_bytes(used)} of columns"
    trips = counters.get("store.trips", 0)
    depth = f", up to {trips:,} in sequence in a task" if trips else ""
    waiting, tasks = counters.get("time.waiting", 0), counters.get("time.tasks", 0)
    waited = f", waited for in {100 * waiting / tasks:.0f} % of task time" if waiting and tasks else ""
    return f"{requests:,} requests{at_a_time}{depth}{repeated}, {sizes}{waited}"


def planning_line(counters: Mapping[str, int]) -> str:
    """Return a line about the driver's requests to object stores for planning; empty if there were none.

    >>> planning_line({"planning.requests": 7, "planning.trips": 3})
    '7 requests by the driver, 3 in sequence'
    """
    requests, trips = counters.get("planning.requests", 0), counters.get("planning.trips", 0)
    return f"{requests:,} requests by the driver, {trips:,} in sequence" if requests else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Funnel:
    """The rows of the main table.

    Attributes:
        counters: The scan's counters, summed over its tasks.
        tasks: What became of the tasks.
        is_handed_over: Spark's own Parquet reader did the scan.
        is_from_metadata: Manifests, or indexes, answered the query, and no data file was opened.
    """

    counters: Mapping[str, int]
    tasks: TaskStates
    is_handed_over: bool
    is_from_metadata: bool

    def _count(self, name: str) -> int:
        return self.counters.get(name, 0)

    def _by_keys(self, level: str) -> str:
        """Return how many of those pruned were excluded by join keys alone."""
        count = self._count(f"{level}.unjoined")
        return f" ({count:,} for join keys)" if count else ""

    def _reasons(self, prefix: str) -> dict[str, int]:
        return by_reason(self.counters, prefix)

    def rows(self) -> list[tuple[str, str, str, str]]:
        """Return the rows: name, considered, pruned or removed (with the reasons), read."""
        rows = []
        manifests = self._count("manifests.considered")
        pruned = self._count("manifests.pruned")
        rows.append(
            (
                "manifests",
                f"{manifests:,}",
                f"{pruned:,} by partition{self._by_keys('manifests')}" if pruned else "",
                f"{manifests - pruned:,}",
            )
        )
        files = self._count("files.considered")
        answered, by_index = self._count("files.answered"), self._count("files.answered.index")
        pruned_files = self._reasons("files.pruned")
        rows.append(
            (
                "data files",
                f"{files:,}",
                _join_reasons({**pruned_files, "metadata": answered - by_index, "indexes": by_index})
                + self._by_keys("files"),
                self._opened(files - answered - sum(pruned_files.values())),
            )
        )
        if self.is_from_metadata:
            return rows + self._index_rows()
        rows += self._delete_rows()
        if self.is_handed_over:
            return rows + self._handed_over_rows()
        groups = self._count("row_groups.considered")
        reasons = _join_reasons(self._reasons("row_groups.pruned")) + self._by_keys("row_groups")
        if untouched := self._count("row_groups.untouched"):
            reasons += f"{', ' if reasons else ''}{untouched:,} without a deleted key"
        rows.append(("row groups", f"{groups:,}", reasons, f"{self._count('row_groups.read'):,}"))
        rows += self._condition_rows() + self._index_rows()
        pages = self._count("pages.considered")
        if pages:
            ignored = self._count("page_indexes.ignored")
            note = f"{ignored:,} page indexes ignored: they contradict the pages" if ignored else ""
            rows.append(("pages of those", f"{pages:,}", note, f"{self._count('pages.read'):,}"))
        removed = {f"{kind} deletes": n for kind, n in self._reasons("rows.deleted").items()}
        if self._count("rows.pruned"):
            by_pages = self._count("rows.unjoined.pages")
            note = f" ({by_pages:,} in pages without join keys)" if by_pages else ""
            removed[f"pruning{note}"] = self._count("rows.pruned")
        if self._count("rows.filtered"):
            removed["filters"] = self._count("rows.filtered")
        if self._count("rows.unjoined"):
            removed["join keys"] = self._count("rows.unjoined")
        if self._count("rows.top-n"):
            removed["top-n"] = self._count("rows.top-n")
        considered, fetched = self._count("rows.considered"), self._count("rows.fetched")
        notes = _join_reasons(removed)
        rest = considered - sum(removed.values()) - fetched
        if self.tasks.ended_early and self.tasks.is_known and rest > 0:
            notes += f"{', ' if notes else ''}{rest:,} not needed"
        rows.append(("rows", f"{considered:,}", notes, f"{fetched:,}"))
        total, read = self._count("bytes.considered"), self._count("bytes.read")
        stages = ", ".join(
            f"{format_bytes(self._count(f'bytes.{stage}'))} in stage {word}"
            for stage, word in (("filter", "one"), ("fetch", "two"))
            if self._count(f"bytes.{stage}")
        )
        if not self.tasks.is_known:
            stages += f"{', ' if stages else ''}as far as known"
        elif total and read < total:
            stages += f"{', ' if stages else ''}{100 * (1 - read / total):.1f} % not read"
        rows.append(("bytes", format_bytes(total), stages, format_bytes(read)))
        return rows

    def _condition_rows(self) -> list[tuple[str, str, str, str]]:
        """Return the row for answers of earlier scans; "read" are the row groups that were filtered."""
        asked = self._count("conditions.asked")
        if not asked:
            return []
        known = self._count("conditions.known")
        notes = [
            f"{count:,} {what}"
            for count, what in (
                (known, "known from earlier scans"),
                (self._count("condition_cache.hits"), "answers from the host's cache"),
                (self._count("conditions.known_in_part"), "known in part"),
            )
            if count
        ]
        return [("conditions", f"{asked:,}", ", ".join(notes), f"{asked - known:,}")]

    def _index_rows(self) -> list[tuple[str, str, str, str]]:
        """Return the row for indexes: for how many data files they were looked for, and what was read."""
        asked = self._count("indexes.asked")
        if not asked:
            return []
        size = format_bytes(self._count("indexes.bytes_read"))
        return [("indexes", f"{asked:,}", f"{size} read", f"{self._count('indexes.used'):,}")]

    def _opened(self, chosen: int) -> str:
        """Return the number of chosen files that were opened; approximate, because several tasks may read one file."""
        if self.is_handed_over or self.is_from_metadata or not self.tasks.ended_early:
            return f"{chosen:,}"
        opened = min(chosen, self._count("files.read"))
        return f"up to {opened:,}" if opened > 1 else f"{opened:,}"

    def _delete_rows(self) -> list[tuple[str, str, str, str]]:
        """Return the rows for delete files and their keys."""
        deletes = self._count("delete_files.considered")
        if not deletes:
            return []
        rows = []
        skipped = self._count("delete_files.skipped")
        opened = f"{self._count('delete_files.opened'):,}"
        notes = [
            f"{count:,} {what}"
            for count, what in (
                (skipped, "cannot apply"),
                (self._count("delete_files.skipped.predicate"), "of these by the query"),
                (self._count("delete_files.skipped.survivors"), "cannot apply to the remaining rows"),
                (self._count("delete_files.cached"), "uses from cache"),
                (self._count("delete_cache.hits"), "key tables from the host's cache"),
                (self._count("delete_compiled.hits"), "data files by compiled deletes"),
            )
            if count
        ]
        rows.append(("delete files", f"{deletes:,}", ", ".join(notes), opened))
        if keys := self._count("delete_keys.streamed"):
            rows.append(("delete keys streamed", "", "", f"{keys:,}"))
        if keys := self._count("delete_keys.loaded"):
            built, merged = self._count("delete_cache.built"), self._count("delete_cache.merged")
            notes = []
            if built:
                notes.append(
                    f"{built:,} tables built for the host, {merged:,} of them extending an older one"
                )
            if folded := self._count("delete_keys.folded"):
                notes.append(f"{folded:,} without their constant partition columns")
            if redundant := self._count("delete_keys.redundant"):
                notes.append(f"{redundant:,} made redundant by shorter keys")
            rows.append(("delete keys", "", ", ".join(notes), f"{keys:,}"))
        if pages := self._count("key_pages.considered"):
            untouched, deleted = self._count("key_pages.untouched"), self._count("key_pages.deleted")
            notes = [f"{untouched:,} hold none of them"] if untouched else []
            notes += [f"{deleted:,} only deleted rows"] if deleted else []
            rows.append(("pages of keys", f"{pages:,}", ", ".join(notes), f"{pages - untouched - deleted:,}"))
        return rows

    def _handed_over_rows(self) -> list[tuple[str, str, str, str]]:
        """Return the rows for a scan by Spark's reader: as Spark measured it, or at most what it was handed."""
        rest, pruned = self._count("handed_over.rows"), self._count("rows.pruned")
        considered, read = self._count("bytes.considered"), self._count("handed_over.bytes")
        removed = {"pruning": pruned}
        is_measured = bool(self._count("spark.files"))
        given = self._count("spark.rows") if is_measured else rest
        unless_measured = prefix = "" if is_measured else "up to "
        if is_measured:
            reader = "Spark's reader"
            if self._count("spark.failed"):
                reader += " or not read: the query failed, or was cancelled"
            elif self._count("spark.limited"):
                reader += " or not needed: a LIMIT"
            removed[reader] = max(0, rest - given)
            prefix = "up to " if reader != "Spark's reader" and given < rest else ""
        text = _join_reasons(removed)
        if deleted := self._count("handed_over.deleted"):
            # Includes rows of row groups that Spark's reader skipped, so it cannot be subtracted from the others.
            text += f"{', ' if text else ''}{deleted:,} of the files' rows are deleted"
        return [
            ("rows", f"{rest + pruned:,}", text, unless_measured + f"{given:,}"),
            ("bytes", format_bytes(considered), "", prefix + format_bytes(read)),
        ]


def _join_reasons(reasons: dict[str, int]) -> str:
    return ", ".join(f"{n:,} by {reason}" for reason, n in reasons.items() if n)
