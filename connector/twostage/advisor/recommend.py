"""Recommendations for one table: what to index, how to lay it out, what to drop, or nothing.

Takes the sums of its scans and its column metadata; returns recommendations, the best first, each with a
one-sentence reason, its votes, size and savings. The rules: an index that saves less over the log than
writing it once costs is not recommended; if nothing pays, the result says so.
"""

from __future__ import annotations

import math
from dataclasses import replace
from shlex import quote
from typing import TYPE_CHECKING

from twostage.advisor.choose_columns import MIN_GAIN, choose_columns
from twostage.advisor.column_metadata import MAX_DISTINCT_FOR_VALUES
from twostage.advisor.layout import EQUALITY, identifier, layout_for
from twostage.advisor.logged_predicate import RANGE
from twostage.advisor.recommendation import Recommendation
from twostage.advisor.selectivity import HAS_ELEMENT
from twostage.advisor.votes import Vote
from twostage.report.funnel import format_bytes

if TYPE_CHECKING:
    from twostage.advisor.column_metadata import ColumnMetadata, TableColumns
    from twostage.advisor.tally import Tally

MIN_SHARE_OF_DELETES = 0.5
"""Share of the tasks' time from which on deletes are worth compiling."""
BYTES_PER_DELETED_ROW = 2.0
"""In a bitmap of compiled deletes, if the rows are scattered: fewer if they are adjacent."""
MAX_OVERLAP = 0.1
"""A column whose bounds leave less than this share of the files needs no index."""
MIN_COLUMN_BYTES = 32 << 10
"""Of a column in a data file, on average: a smaller one is read with a request or two, as its index would
be."""
_RANGES = frozenset({"<", "<=", ">", ">=", RANGE})


def recommend(
    tally: Tally,
    metadata: TableColumns | None = None,
    *,
    min_gain: float = MIN_GAIN,
    max_columns: int | None = None,
) -> list[Recommendation]:
    """Return the recommendations for a table.

    Args:
        tally: The sums of its scans.
        metadata: Of its columns; without it, sizes and index kinds are not known.
        min_gain: G0: the share of all entries that one more index must save.
        max_columns: The maximum number of indexes.
    """
    found = [
        *_indexes(tally, metadata, min_gain, max_columns),
        *_deletes(tally, metadata),
        *_unused(tally, metadata),
    ]
    indexed = [one for one in found if one.action == "index"]
    found += layout_for(indexed, tally, metadata)
    return found or [
        Recommendation(table=tally.table, action="nothing", reason=_why_nothing(tally), votes=tally.filtered)
    ]


def _indexes(
    tally: Tally, metadata: TableColumns | None, min_gain: float, max_columns: int | None
) -> list[Recommendation]:
    rejected: frozenset[str] = frozenset()
    while True:
        votes = [kept for vote in tally.votes if (kept := _without(vote, rejected)).alternatives]
        by_bytes = None
        weighed, total = votes, float(tally.entries)
        if tally.knows_bytes:  # what an index is for; entries stand in if bytes are not known
            by_bytes = [kept for vote in tally.byte_votes if (kept := _without(vote, rejected)).alternatives]
            weighed, total = by_bytes, tally.bytes_weighed
        chosen = choose_columns(weighed, total, min_gain=min_gain, max_columns=max_columns)
        best = chosen[-1].columns if chosen else frozenset[str]()
        found, lost = _of_choice(tally, metadata, votes, by_bytes, best)
        if not lost:
            is_best = all(one.is_best for one in chosen)
            found.sort(key=lambda one: (-one.saved_entries, one.columns))
            return [replace(one, is_best=is_best) for one in found]
        # One at a time, the one that pays the least: without it, the others save more.
        rejected |= {min(lost, key=lambda name: (lost[name], name))}


def _without(vote: Vote, rejected: frozenset[str]) -> Vote:
    return Vote(alternatives=tuple(one for one in vote.alternatives if not one.columns & rejected))


def _of_choice(
    tally: Tally,
    metadata: TableColumns | None,
    votes: list[Vote],
    by_bytes: list[Vote] | None,
    best: frozenset[str],
) -> tuple[list[Recommendation], dict[str, float]]:
    """Return the indexes of a choice that save more than they cost; and the others' net bytes, all negative."""
    model = tally.latency()
    found = []
    lost: dict[str, float] = {}
    for column in best:
        # What is lost without it, while the others stay.
        saved = sum(vote.saved_by(best) - vote.saved_by(best - {column}) for vote in votes)
        saved = min(saved, float(tally.entries))
        known = None if metadata is None else metadata.columns.get(column)
        kinds = _kinds(tally, column, known, 1 if metadata is None else metadata.files)
        sizes = [known.index_bytes(kind, metadata.files) if known and metadata else None for kind in kinds]
        size = None if not sizes or None in sizes else sum(one or 0.0 for one in sizes)
        saved_bytes = tally.bytes_saved(saved)
        if by_bytes is not None:
            saved_bytes = sum(vote.saved_by(best) - vote.saved_by(best - {column}) for vote in by_bytes)
        if known is not None and _needs_none(known, metadata):
            lost[column] = -math.inf
            continue
        if saved_bytes is not None and (saved_bytes < (size or 0.0) or saved_bytes < 0):
            lost[column] = saved_bytes - (size or 0.0)
            continue
        share = saved / tally.entries if tally.entries else 0.0
        others = "" if len(best) == 1 else f", with the indexes of {', '.join(sorted(best - {column}))}"
        reason = (
            f"filters on {column} would not have scanned {saved:,.0f} of {tally.entries:,} entries{others}"
        )
        if (
            not round(saved) and saved_bytes is not None
        ):  # entries count for the column that saves the most alone
            reason = f"filters on {column} would have read {format_bytes(int(saved_bytes))} less{others}"
        kind = f" --kind {','.join(kinds)}" if known is not None else ""
        found.append(
            Recommendation(
                table=tally.table,
                action="index",
                columns=(column,),
                kinds=kinds if known is not None else (),
                reason=reason,
                votes=tally.voters(column),
                queries=tuple(tally.heaviest(column)),
                saved_entries=saved,
                saved_share=share,
                saved_bytes=saved_bytes,
                saved_seconds=model.alpha * saved if model is not None and model.is_usable else None,
                size=size,
                build_cost=known.bytes + size
                if known is not None and known.bytes and size is not None
                else None,
                command=f"python -m twostage index create {quote(tally.table)} --columns {quote(identifier(column))}{kind}",
            )
        )
    return found, lost


def _needs_none(known: ColumnMetadata, metadata: TableColumns | None) -> bool:
    """Tell whether a column is cheap to read anyway: bounds exclude most files, or it is small in each."""
    if known.overlap is not None and known.overlap < MAX_OVERLAP:
        return True
    files = 0 if metadata is None else metadata.files
    return bool(files and known.bytes) and known.bytes / files < MIN_COLUMN_BYTES


def _kinds(tally: Tally, column: str, known: ColumnMetadata | None, files: int) -> tuple[str, ...]:
    """Return the kinds of index that answer the operators used on a column."""
    operators = set(tally.operators[column])
    if HAS_ELEMENT in operators:
        return ("elements",)
    if known is not None and known.has_bitmaps(files):
        few = (known.distinct_per_file or 0.0) <= MAX_DISTINCT_FOR_VALUES
        if few or not tally.ordered[column]:  # only sorted rows give an order
            return ("values",)
    kinds = []
    if operators & _RANGES:
        kinds.append("sorted")
    if operators & EQUALITY:  # sorted rows of numbers answer it as well
        is_text = known is not None and known.type in ("string", "binary")
        kinds += ["files"] if kinds and not is_text else ["postings", "files"]
    return tuple(kinds) or ("values",)


def _deletes(tally: Tally, metadata: TableColumns | None) -> list[Recommendation]:
    if (
        not tally.time_tasks
        or tally.time_deletes < MIN_SHARE_OF_DELETES * tally.time_tasks
        or not tally.deleted_by_equality
    ):
        return []
    share = tally.time_deletes / tally.time_tasks
    # The scan with the most deleted rows presumably read most of the table.
    size = BYTES_PER_DELETED_ROW * tally.most_deleted
    reads = None if metadata is None else metadata.compile_bytes
    return [
        Recommendation(
            table=tally.table,
            action="compile deletes",
            reason=f"equality deletes took {share:.0%} of the tasks' time",
            votes=tally.scans_with_deletes,
            queries=tuple(tally.slowed_by_deletes()),
            saved_seconds=tally.time_deletes / 1e9,
            size=size,
            build_cost=None if reads is None else reads + size,
            command=f"python -m twostage compile-deletes {quote(tally.table)}",
        )
    ]


def _unused(tally: Tally, metadata: TableColumns | None) -> list[Recommendation]:
    """Return the indexes that no query uses, and those that save less than they take.

    An index that answers top-n scans or aggregates stays, whatever filters save with it: those savings are
    not known.
    """
    found = []
    for column in sorted(tally.thresholds.indexed_of(tally.table)):
        kinds = tally.existing.get(column, ())
        if tally.answered[column] or (tally.ordered[column] and (not kinds or "sorted" in kinds)):
            continue
        known = None if metadata is None else metadata.columns.get(column)
        sizes = (
            []
            if known is None or metadata is None
            else [known.index_bytes(kind, metadata.files) for kind in kinds]
        )
        size = sum(one or 0.0 for one in sizes) if sizes and None not in sizes else None
        reason = (
            f"none of {tally.filtered:,} filters names {column}, and no aggregate or ORDER BY … LIMIT used it"
        )
        if column in tally.operators:
            saved = max(0, tally.saved_by_existing(column))
            if size is None or not tally.knows_bytes or not tally.measured or saved >= size:
                continue
            reason = (
                f"it takes about {format_bytes(int(size))}, and saves the log's filters on {column} "
                f"{format_bytes(saved)}"
            )
        found.append(
            Recommendation(
                table=tally.table,
                action="drop index",
                columns=(column,),
                kinds=kinds,
                reason=reason,
                size=size,
                command=f"python -m twostage index drop {quote(tally.table)} --columns {quote(identifier(column))}",
            )
        )
    return found


def _why_nothing(tally: Tally) -> str:
    if not tally.scans:
        return "the log has no scan of the table"
    if not tally.filtered:
        return f"none of its {tally.scans:,} scans has a filter that counts"
    if not tally.entries and tally.of_unknown_rows:
        return (
            f"event logs do not say how many rows {tally.of_unknown_rows:,} of its {tally.filtered:,} filters were evaluated for; "
            "with --table or --metadata the table's number is assumed"
        )
    if not tally.entries:
        return "metadata alone decided its filters: no entry was scanned for them"
    if tally.by_spark == tally.filtered:
        return f"Spark's own reader did its {tally.filtered:,} scans with a filter, and reads no index; with scan.native=never twostage does them"
    read = format_bytes(tally.bytes_read)
    if not tally.votes:
        return f"no index would reduce the entries that its filters scan; {read} were read in {tally.scans:,} scans"
    return f"no index would save enough of {tally.entries:,} entries, in {tally.scans:,} scans of {read}, to pay for itself"
