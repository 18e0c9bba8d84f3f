"""One recommendation of the advisor, with its reason, votes and figures.

Plain values, for tables on a terminal, pages and JSON. The rule: a figure that is not known is missing.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from twostage.report.funnel import format_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Recommendation:
    """One thing to do, or not to.

    Attributes:
        table: The table.
        action: ``index``, ``sort``, ``partition``, ``bloom filter``, ``compile deletes``, ``drop index`` or ``nothing``.
        columns: The columns that it is about.
        kinds: Kinds of index, by the names of ``index create --kind``.
        transform: For ``partition``, such as ``day(ts)``; the column's name for identity.
        reason: Why, in one sentence.
        votes: Votes of queries for it; one query may cast several.
        queries: The filters of the heaviest of these queries.
        saved_entries: Entries in filters that the log's queries would not have scanned.
        saved_share: Their share of all entries that were scanned.
        saved_bytes: The bytes that by the byte model these queries would not have read, net of those read
            from the index; without known column bytes, the filter columns' bytes in proportion; None if none
            were measured.
        saved_seconds: By the latency model; None if that does not fit.
        size: Estimated bytes in storage once built, or now if an index is to be dropped; None if not known.
        build_cost: Estimated bytes that are read and written once to build it: for an index its column, and the index; for a
            sort order or partitions the whole table, twice; for Bloom filters the data files without them, twice, and the filters;
            for compiled deletes the delete files, their key columns, and the result. None if not known.
        is_best: No other set of as many columns saves more; False if the search for the best set was cut short.
        command: How to do it; empty if twostage has no command for it.
    """

    table: str
    action: str
    reason: str
    columns: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()
    transform: str = ""
    votes: int = 0
    queries: tuple[str, ...] = ()
    saved_entries: float = 0.0
    saved_share: float = 0.0
    saved_bytes: float | None = None
    saved_seconds: float | None = None
    size: float | None = None
    build_cost: float | None = None
    is_best: bool = True
    command: str = ""

    @property
    def title(self) -> str:
        """What to do, in a few words."""
        name = ", ".join(self.columns)
        match self.action:
            case "index":
                return f"Index {name}" + (f" ({', '.join(self.kinds)})" if self.kinds else "")
            case "sort":
                return f"Sort by {name} at the next rewrite"
            case "partition":
                return f"Partition by {self.transform} at the next rewrite"
            case "bloom filter":
                return f"Write Bloom filters for {name}"
            case "drop index":
                return f"Drop the index of {name}"
            case "compile deletes":
                return "Compile deletes"
        return "Nothing to do"

    @property
    def facts(self) -> list[str]:
        """What it saves and takes, each as a text."""
        found = []
        if self.saved_share:
            found.append(f"saves {self.saved_share:.1%} of the entries")
        if self.saved_bytes is not None:
            found.append(f"{format_bytes(max(0, int(self.saved_bytes)))} of filter columns")
        if self.saved_seconds is not None:
            found.append(f"{self.saved_seconds:,.1f} s")
        if self.size:
            found.append(f"size about {format_bytes(int(self.size))}")
        if self.build_cost is not None:
            found.append(f"building it reads and writes about {format_bytes(int(self.build_cost))}")
        if self.votes and self.action != "nothing":
            found.append(f"{self.votes:,} votes")
        if not self.is_best:
            found.append("the search was cut short: another set of columns may save more")
        return found

    def as_dict(self) -> dict[str, Any]:
        """Return plain values that JSON can hold."""
        return asdict(self)
