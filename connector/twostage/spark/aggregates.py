"""Answers the planner's question whether metadata alone answers a query's aggregates.

Takes the planner's request ``aggregate``; gives the rows for Spark's ``LocalScan`` and the plan that the report is
about, or the reason why files are read. The rule: an error met on the way is no answer; the scan raises the
same one if it is one.
"""

from __future__ import annotations

import threading
import time
import uuid
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from twostage.aggregates.metadata_answer import Aggregate, Answer, answer
from twostage.columns import spark_schema
from twostage.errors import TwoStageError
from twostage.schema import Field, Primitive
from twostage.task import ScanContext, ScanPlan

if TYPE_CHECKING:
    from collections.abc import Mapping

    from twostage.options import ReadOptions
    from twostage.predicates.predicate import Predicate
    from twostage.schema import Schema
    from twostage.table.pinned import PinnedTable

MAX_HELD = 8
_LONG = Primitive("long")
_FUNCTIONS = ("rows", "count", "min", "max")


@dataclass(frozen=True, slots=True, kw_only=True)
class FromMetadata:
    """An answer: `plan` is for the report, the rest for the planner's Java. A value is text, or None for NULL."""

    plan: ScanPlan
    schema: Mapping[str, Any]
    rows: list[list[str | None]]
    unread: frozenset[str]
    """Data files that the rows leave out."""
    lacks: str
    """What the first of them lacks."""


class Answers:
    """Answers held between the planner's first question and the second, so that manifests are read once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._held: list[tuple[Any, FromMetadata | str]] = []

    def find(
        self,
        pin: str,
        table: PinnedTable,
        options: ReadOptions,
        wanted: Mapping[str, Any],
        predicate: Predicate,
        *,
        take: bool,
        mix: bool = False,
    ) -> FromMetadata | str:
        """Return `answer_aggregates` of the table that `pin` names; to `take` it is to hold it no longer.

        Who wants to `mix` asks first; for the others an answer that leaves files out is none.
        """
        started = time.perf_counter_ns()
        key = (pin, wanted, predicate)
        with self._lock:
            place = next((n for n, (known, _) in enumerate(self._held) if known == key), None)
            if place is not None:
                held = (self._held.pop(place) if take else self._held[place])[1]
                return held.lacks if isinstance(held, FromMetadata) and held.unread and not mix else held
        found = answer_aggregates(table, options, wanted, predicate, mix=mix)
        if isinstance(found, FromMetadata):
            counters = {**found.plan.counters, "time.planning": time.perf_counter_ns() - started}
            found = replace(found, plan=replace(found.plan, counters=counters))
        if not take:
            with self._lock:
                self._held = [*self._held, (key, found)][-MAX_HELD:]
        return found


def with_own_names(wanted: Mapping[str, Any], schema: Schema, *, case_sensitive: bool) -> dict[str, Any]:
    """Return aggregates under the columns' own names: the optimizer has them as the query writes them."""

    def own(name: str | None) -> str | None:
        field = None if name is None else schema.find((name,), case_sensitive=case_sensitive)
        return name if field is None else field.name

    return {
        "functions": [[function, own(column)] for function, column in wanted["functions"]],
        "groups": [own(name) for name in wanted["groups"]],
    }


def answer_aggregates(
    table: PinnedTable,
    options: ReadOptions,
    wanted: Mapping[str, Any],
    predicate: Predicate,
    *,
    mix: bool = False,
) -> FromMetadata | str:
    """Return the answer, or why there is none.

    Args:
        table: The table at its pinned snapshot.
        options: The reader's options.
        wanted: ``functions``, a list of name and column (or none) each; ``groups``, a list of columns.
        predicate: What the rows must meet.
        mix: Whether the answer may leave out files that must be read.
    """
    if not options.metadata_aggregates:
        return "aggregate-push-down-enabled is false"
    by_name = {field.name: field for field in table.schema.fields}
    aggregates = []
    for name, column in wanted["functions"]:
        if name not in _FUNCTIONS or (name != "rows" and column not in by_name):
            return f"{name} is not answered from metadata"
        aggregates.append(Aggregate(name, None if name == "rows" else by_name[column]))
    if not all(name in by_name for name in wanted["groups"]):
        return "a group is no column of the table"
    groups = tuple(by_name[name] for name in wanted["groups"])
    try:
        found = answer(
            table, options, aggregates=tuple(aggregates), groups=groups, predicate=predicate, mix=mix
        )
    except TwoStageError as error:
        return f"an error while planning: {error.code}"
    if isinstance(found, str):
        return found
    fields = (*groups, *(_result(number, part) for number, part in enumerate(aggregates)))
    return FromMetadata(
        plan=_plan(table, options, fields, predicate, found),
        schema=spark_schema(fields),
        rows=[[_text(value) for value in row] for row in found.rows],
        unread=found.unread,
        lacks=found.lacks,
    )


def _result(number: int, part: Aggregate) -> Field:
    if part.field is None:
        return Field(id=-1 - number, name="count(*)", type=_LONG, required=True)
    name = f"{part.function}({part.field.name})"
    if part.function == "count":
        return Field(id=-1 - number, name=name, type=_LONG, required=True)
    return Field(id=-1 - number, name=name, type=part.field.type, required=False)


def _text(value: Any) -> str | None:
    """Return a value as Java parses it by its type."""
    if value is None:
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return {"inf": "Infinity", "-inf": "-Infinity"}.get(repr(value), repr(value))
    return str(value)


def _plan(
    table: PinnedTable, options: ReadOptions, fields: tuple[Field, ...], predicate: Predicate, found: Answer
) -> ScanPlan:
    read: tuple[str, ...] = ()
    if found.delete_files:
        read = (f"Deleted rows counted in {found.delete_files} files of positions.",)
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
        counters={**found.counters, "files.answered": found.files},
        choices=(f"Answered from the metadata of {found.files} data files; none was opened.", *read),
        is_from_metadata=True,
    )
