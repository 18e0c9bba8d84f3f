"""What a log's queries would read and take with the recommended indexes: before and after, before building.

Takes the sums of a table's scans and the chosen indexes; returns bytes and seconds, for the query forms that
read the most and for all. The rules: "before" was measured, and only the difference is a prediction; scans
without a prediction are counted, and stay as they are; and no seconds if the latency model does not fit.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from twostage.advisor.byte_model import Emulation
from twostage.advisor.logged_scan import SPARK
from twostage.advisor.selectivity import with_spread_shares
from twostage.advisor.votes import estimator_of, votes_of
from twostage.report.funnel import format_bytes

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from twostage.advisor.latency import LatencyModel
    from twostage.advisor.logged_predicate import LoggedPredicate
    from twostage.advisor.logged_scan import LoggedScan
    from twostage.advisor.tally import Tally
    from twostage.advisor.templates import Template
    from twostage.advisor.votes import Vote

    Indexed = Mapping[str, tuple[str, ...]]

QUERIES = 10
"""Query forms shown by default."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Predicted:
    """Scans of one form, which read the same columns by the same operators; or all scans together.

    Attributes:
        text: The heaviest of their filters; empty for all scans.
        scans: How many there are.
        bytes_before: That they read in total, from data files and existing indexes.
        bytes_after: That they would read, from the new indexes, too.
        seconds_before: By the latency model, of all of them; None if that does not fit.
        seconds_after: Likewise.
    """

    text: str
    scans: int
    bytes_before: float
    bytes_after: float
    seconds_before: float | None = None
    seconds_after: float | None = None

    @property
    def bytes_each(self) -> str:
        """What one of the scans reads, before and after."""
        count = max(1, self.scans)
        return (
            f"{format_bytes(int(self.bytes_before / count))} -> {format_bytes(int(self.bytes_after / count))}"
        )

    @property
    def seconds_each(self) -> str:
        """What one of the scans takes, before and after; empty if that is not known."""
        if self.seconds_before is None or self.seconds_after is None:
            return ""
        count = max(1, self.scans)
        return f"{self.seconds_before / count:,.3f} -> {self.seconds_after / count:,.3f}"


@dataclass(frozen=True, slots=True, kw_only=True)
class WhatIf:
    """What indexes would do for a table's scans with a filter.

    Attributes:
        table: Its name.
        columns: Of the new indexes.
        queries: The query forms that read the most, the heaviest first.
        total: All scans with a filter.
        unknown: Of these, scans without a prediction: the total counts them unchanged.
    """

    table: str
    columns: tuple[str, ...]
    queries: tuple[Predicted, ...]
    total: Predicted
    unknown: int = 0

    @property
    def summary(self) -> str:
        """The sums as a sentence."""
        total = self.total
        text = (
            f"in all, {total.scans:,} scans with a filter: {format_bytes(int(total.bytes_before))} -> "
            f"{format_bytes(int(total.bytes_after))}"
        )
        if total.seconds_before is not None and total.seconds_after is not None:
            text += f", {total.seconds_before:,.1f} s -> {total.seconds_after:,.1f} s"
        if self.unknown:
            text += f"; nothing is predicted for {self.unknown:,} of them"
        return text

    def as_dict(self) -> dict[str, Any]:
        """Return plain values that JSON can hold."""
        return asdict(self)


def what_if(tally: Tally, indexes: Indexed, *, queries: int = QUERIES) -> WhatIf:
    """Return what indexes would do for a table's scans.

    Args:
        tally: The sums of its scans.
        indexes: The kinds of the indexes that would be built, by column; empty if not known.
        queries: How many query forms are listed.
    """
    model = tally.latency()
    usable = model if model is not None and model.is_usable else None
    templates = tally.templates  # before `unlisted` is read, which this updates
    found, unknown = [], tally.unlisted.scans
    for template in templates:
        one, is_known = _predicted(template, tally, indexes, usable)
        found.append(one)
        unknown += 0 if is_known else one.scans
    found.sort(key=lambda one: (-one.bytes_before, -one.scans, one.text))
    rest = tally.unlisted
    total = Predicted(
        text="",
        scans=sum(one.scans for one in found) + rest.scans,
        bytes_before=sum(one.bytes_before for one in found) + rest.bytes,
        bytes_after=sum(one.bytes_after for one in found) + rest.bytes,
        seconds_before=_sum(one.seconds_before for one in found) if usable else None,
        seconds_after=_sum(one.seconds_after for one in found) if usable else None,
    )
    return WhatIf(
        table=tally.table,
        columns=tuple(sorted(indexes)),
        queries=tuple(found[:queries]),
        total=total,
        unknown=unknown,
    )


def _sum(numbers: Iterable[float | None]) -> float:
    return sum(one or 0.0 for one in numbers)


def _predicted(
    template: Template, tally: Tally, indexes: Indexed, model: LatencyModel | None
) -> tuple[Predicted, bool]:
    """Return what indexes would do for scans of one form, and whether their bytes are predicted."""
    scan, whole = template.mean()
    whole = with_spread_shares(whole, tally.known)
    columns: frozenset[str] = frozenset() if scan.reader == SPARK else frozenset(indexes)  # it reads none
    each = float(scan.bytes_read + scan.count("indexes.bytes_read"))
    entries = template.entries / template.count
    saved_entries = min(
        entries, _saved(votes_of(scan, whole, tally.known, tally.thresholds), columns, tally.columns)
    )
    share = saved_entries / entries if entries else 0.0
    saved = _emulated(template, scan, tally, indexes)
    if saved is None:
        saved = _bytes_saved(scan, whole, tally, indexes, share)
    before = after = None
    if model is not None:
        before = template.count * model.seconds(entries, scan.entries_after_filter)
        after = template.count * model.seconds(entries - saved_entries, scan.entries_after_filter)
    one = Predicted(
        text=template.heaviest_text,
        scans=template.count,
        bytes_before=each * template.count,
        bytes_after=max(0.0, each - (saved or 0.0)) * template.count,
        seconds_before=before,
        seconds_after=after,
    )
    return one, saved is not None


def _emulated(template: Template, scan: LoggedScan, tally: Tally, indexes: Indexed) -> float | None:
    """Return the bytes that a template's mean scan would not read, by emulation; None if that is impossible."""
    if tally.metadata is None:
        return None
    emulation = Emulation.of(scan, tally.metadata, template.summed(), template.count)
    if emulation is None:
        return None
    without = emulation.saved(tally.existing)
    saved = emulation.saved({**indexes, **tally.existing})
    return None if without is None or saved is None else saved - without


def _bytes_saved(
    scan: LoggedScan, whole: LoggedPredicate, tally: Tally, indexes: Indexed, share: float
) -> float | None:
    """Return the bytes that a scan that cannot be emulated would not read.

    For other readers by the columns' bytes per row; for twostage in proportion to the entries, of which
    `share` is saved. None if not known. Spark's own reader saves nothing: it reads no index.
    """
    if scan.reader == SPARK:
        return 0.0
    if scan.reader != "twostage":
        if not tally.costs or scan.reader == "index":
            return None
        estimator = estimator_of(scan, tally.known, tally.thresholds, tally.costs)
        saved = _saved(estimator.votes(whole), frozenset(indexes), tally.columns)
        return min(saved, estimator.entries(whole), float(scan.bytes_read))
    return share * scan.count("bytes.filter")


def _saved(votes: Iterable[Vote], indexed: frozenset[str], present: frozenset[str] | None) -> float:
    """Return what indexes of some columns save for votes; columns that the table lacks can have none."""
    columns = indexed if present is None else indexed & present
    return sum(vote.saved_by(columns) for vote in votes)
