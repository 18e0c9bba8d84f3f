"""Answers the planner's question whether metadata alone answers a query's aggregates.

Takes the wanted aggregates; gives the rows for Spark's ``LocalScan`` and the plan that the report is about, or the
reason why files are read. The rule: an error on the way means no answer; if it matters, the scan raises the same one.
"""

from __future__ import annotations

import threading
import time
import uuid
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from twostage.aggregates.metadata_answer import AggregateAnswer, answer
from twostage.aggregates.sums import type_of_sum
from twostage.aggregates.totals import Aggregate
from twostage.columns import spark_schema
from twostage.errors import TwoStageError
from twostage.schema import Field, Primitive
from twostage.spark.requests import WantedAggregates
from twostage.task import ScanContext, ScanPlan

if TYPE_CHECKING:
    from collections.abc import Mapping

    from twostage.aggregates.totals import Function
    from twostage.options import ReadOptions
    from twostage.predicates.predicate import Predicate
    from twostage.schema import Schema
    from twostage.spark.answers import Row
    from twostage.table.pinned import PinnedTable

MAX_WAITING_ANSWERS = 8
_LONG = Primitive("long")
_FUNCTIONS: dict[str, Function] = {
    "rows": "rows", "count": "count", "distinct": "distinct", "min": "min", "max": "max", "sum": "sum"
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class AnsweredAggregates:
    """An answer: `plan` is for the report, the rest for the planner's Java. A value is text, or None for NULL."""

    plan: ScanPlan
    schema: Mapping[str, Any]
    rows: tuple[Row, ...]
    unread: frozenset[str]
    """Data files that the rows leave out."""
    lacks: str
    """What the metadata of the first of them lacks."""
    by_index: int
    """How many data files indexes answered for."""
    source: str
    """Where the rows are from, for EXPLAIN."""


class MetadataAnswers:
    """Answers that wait between the requests ``hand_over`` and ``aggregate``, so that manifests are read once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: list[tuple[Any, AnsweredAggregates | str]] = []

    def find(
        self,
        pin: str,
        table: PinnedTable,
        options: ReadOptions,
        wanted: WantedAggregates,
        predicate: Predicate,
        *,
        take: bool,
        mix: bool = False,
    ) -> AnsweredAggregates | str:
        """Return `answer_aggregates` of the table that `pin` names; with `take` it waits no longer.

        The request ``mixed``, which may `mix` metadata and files, comes first; for the others an answer that leaves files
        out counts as none.
        """
        started = time.perf_counter_ns()
        key = (pin, wanted, predicate)
        with self._lock:
            place = next((n for n, (waiting, _) in enumerate(self._waiting) if waiting == key), None)
            if place is not None:
                known = (self._waiting.pop(place) if take else self._waiting[place])[1]
                if isinstance(known, AnsweredAggregates) and known.unread and not mix:
                    return known.lacks
                return known
        found = answer_aggregates(table, options, wanted, predicate, mix=mix)
        if isinstance(found, AnsweredAggregates):
            counters = {**found.plan.counters, "time.planning": time.perf_counter_ns() - started}
            found = replace(found, plan=replace(found.plan, counters=counters))
        if not take:
            with self._lock:
                self._waiting = [*self._waiting, (key, found)][-MAX_WAITING_ANSWERS:]
        return found


def with_own_names(wanted: WantedAggregates, schema: Schema, *, case_sensitive: bool) -> WantedAggregates:
    """Return aggregates under the columns' own names: the optimizer has them as the query writes them."""

    def own(name: str) -> str:
        field = schema.find((name,), case_sensitive=case_sensitive)
        return name if field is None else field.name

    return WantedAggregates(
        functions=tuple(
            function if function.column is None else replace(function, column=own(function.column))
            for function in wanted.functions
        ),
        groups=tuple(own(name) for name in wanted.groups),
    )


def answer_aggregates(
    table: PinnedTable,
    options: ReadOptions,
    wanted: WantedAggregates,
    predicate: Predicate,
    *,
    mix: bool = False,
) -> AnsweredAggregates | str:
    """Return the answer, or why there is none.

    Args:
        table: The table at its pinned snapshot.
        options: The reader's options.
        wanted: The functions and groups, under the columns' own names.
        predicate: What the rows must meet.
        mix: Whether the answer may leave out files that must be read.
    """
    if not options.metadata_aggregates:
        return "aggregate-push-down-enabled is false"
    by_name = {field.name: field for field in table.schema.fields}
    aggregates = []
    for function in wanted.functions:
        kind = _FUNCTIONS.get(function.name)
        field = None if kind == "rows" or function.column is None else by_name.get(function.column)
        if kind is None or (kind != "rows" and field is None):
            return f"{function.name} is not answered from metadata"
        aggregates.append(Aggregate(kind, field))
    if not all(name in by_name for name in wanted.groups):
        return "a group is not a column of the table"
    groups = tuple(by_name[name] for name in wanted.groups)
    try:
        found = answer(
            table, options, aggregates=tuple(aggregates), groups=groups, predicate=predicate, mix=mix
        )
    except TwoStageError as error:
        return f"an error while planning: {error.code}"
    if isinstance(found, str):
        return found
    fields = (*groups, *(_result(number, part) for number, part in enumerate(aggregates)))
    named = [*groups, *(part.field for part in aggregates if part.field is not None)]
    plan = _plan(table, options, fields, predicate, found)
    return AnsweredAggregates(
        plan=replace(plan, answered_columns=tuple(dict.fromkeys(field.name for field in named))),
        schema=spark_schema(fields),
        rows=tuple(tuple(_text(value) for value in row) for row in found.rows),
        unread=found.unread,
        lacks=found.lacks,
        by_index=found.by_index,
        source=_source(found) if found.by_index else "metadata",
    )


def _source(found: AggregateAnswer) -> str:
    if not found.by_index:
        return f"metadata of {found.files} data files"
    return f"metadata of {found.files - found.by_index} and indexes of {found.by_index} data files"


def _result(number: int, part: Aggregate) -> Field:
    if part.field is None:
        return Field(id=-1 - number, name="count(*)", type=_LONG, required=True)
    name = f"{part.function}({part.field.name})"
    if part.function == "distinct":
        return Field(id=-1 - number, name=f"count(distinct {part.field.name})", type=_LONG, required=True)
    if part.function == "count":
        return Field(id=-1 - number, name=name, type=_LONG, required=True)
    kind = type_of_sum(part.field.type) if part.function == "sum" else part.field.type
    return Field(id=-1 - number, name=name, type=kind, required=False)


def _text(value: Any) -> str | None:
    """Return a value as Java parses it by its type."""
    if value is None:
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return {"inf": "Infinity", "-inf": "-Infinity", "nan": "NaN"}.get(repr(value), repr(value))
    return str(value)


def _plan(
    table: PinnedTable,
    options: ReadOptions,
    fields: tuple[Field, ...],
    predicate: Predicate,
    found: AggregateAnswer,
) -> ScanPlan:
    read: tuple[str, ...] = ()
    if found.delete_files:
        read = (f"Deleted rows counted in {found.delete_files} position delete files.",)
    return ScanPlan(
        context=ScanContext(
            scan_id=uuid.uuid4().hex,
            table=table.name,
            snapshot_id=None if table.snapshot is None else table.snapshot.snapshot_id,
            schema=table.schema,
            projection=fields,
            predicate=predicate,
            settings=options.settings,
        ),
        groups=(),
        estimated_rows=len(found.rows),
        estimated_bytes=0,
        counters={
            **found.counters,
            "files.answered": found.files,
            "files.answered.index": found.by_index,
        },
        choices=(
            f"Answered from the {_source(found)}; none was opened.",
            *read,
            *found.choices,
        ),
        is_from_metadata=True,
    )
