"""The requests of the planner's Java: one class for each call, with the call's fields.

The planner's `Requests.java` has the same classes with the same fields; ``tests/spark/test_spark_messages.py`` compares
them. `messages.py` makes them of JSON. The rule: a handler takes its request as one of these, never as a map.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from twostage.handover.protocol import ScanDemand  # noqa: TC001 - the same

PredicateForm = Mapping[str, Any]
"""A predicate of Spark's as `bind_predicate` takes it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstRows:
    """The first rows by a sort order (``ORDER BY … LIMIT``), as `bind_top` takes them."""

    column: tuple[str, ...] | None
    """The first sort key; None where it is no column."""
    descending: bool
    nulls_first: bool
    keys: int
    """How many sort keys there are."""
    count: int
    """How many rows are wanted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AggregateFunction:
    """``rows`` (``count(*)``), or ``count``, ``distinct`` (``count(DISTINCT …)``), ``min``, ``max`` or ``sum`` of a column."""

    name: str
    column: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedAggregates:
    """The distinct functions of an aggregation, and the columns that it groups by."""

    functions: tuple[AggregateFunction, ...]
    groups: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadRequest:
    """Load the table that `options` name, and pin its snapshot."""

    options: Mapping[str, str]
    confs: Mapping[str, str]
    """The session's, of catalogs and stores."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateRequest(LoadRequest):
    """Load a table, for Spark's stock Python source: it wants a pickled `TwoStageSource`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AdoptRequest:
    """Take over a `TwoStageSource` with the snapshot that it pinned."""

    source: str
    """Pickled, in Base64."""
    confs: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class PinnedRequest:
    """A request about a table that was loaded."""

    pin: str
    """The table's key."""
    pinned: str | None
    """The table itself, as `LoadAnswer` gave it; None unless Python said that it has evicted it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PushRequest(PinnedRequest):
    """Tell which predicates are evaluated exactly as Spark evaluates them."""

    predicates: tuple[PredicateForm, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TopRequest(PinnedRequest):
    """Tell whether a scan can leave out what is not among the first rows."""

    top: FirstRows


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanRequest(PinnedRequest):
    """Plan a scan."""

    schema: str
    """The columns that Spark wants, as its JSON of a ``StructType``."""
    exact: tuple[PredicateForm, ...]
    """What the scan evaluates; Spark does not do it again."""
    hints: tuple[PredicateForm, ...]
    """What Spark evaluates again: good for pruning only."""
    runtime: tuple[PredicateForm, ...]
    """Keys of joins that arrived while the query ran; Spark's joins evaluate them, too."""
    limit: int | None
    top: FirstRows | None
    parallelism: int
    reason: str | None
    """Why Spark's own Parquet reader does not do the scan; None where that was not decided."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadRequest(PlanRequest):
    """Hand out the tasks of a planned scan; it is planned once more if its plan is not there."""

    scan: str
    """The id that `PlanAnswer` gave."""
    executors: tuple[str, ...]
    """Where to place the tasks, as Spark's scheduler takes preferred locations; empty: wherever Spark does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HandOverRequest(PinnedRequest):
    """Tell whether Spark's own Parquet reader does a relation's scan."""

    demand: ScanDemand
    top: FirstRows | None
    aggregates: WantedAggregates | None
    parallelism: int
    planned: str | None
    """The id of the relation's scan as planned here, if it awaited keys of a join and it is known now whether any come;
    None before."""
    has_keys: bool
    """They do, for the columns that the first answer wanted keys of."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AggregateRequest(PinnedRequest):
    """Answer aggregates from metadata alone."""

    aggregates: WantedAggregates
    predicates: tuple[PredicateForm, ...]
    """What the rows must meet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MixedRequest(AggregateRequest):
    """Answer aggregates of most data files from metadata, and pin the others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StartedRequest:
    """Note that Spark began to read a scan that it does itself, or took an answer from metadata."""

    scan: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EndedRequest:
    """Log the scans of a query that has ended."""

    query: int
    """Spark's number of it in the application."""
    description: str | None
    milliseconds: int | None
    failed: bool
    application: Mapping[str, str]
    """Its ``id``, its ``name`` and the ``user`` that runs it."""
    scans: Mapping[str, Any]
    """What Spark measured, by scan id: as `ScanReport.build` takes it."""
    confs: Mapping[str, str]
    """The session's confs of the query log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PassesRowsOnRequest:
    """Tell whether a function of PySpark's passes the rows of an RDD on unchanged."""

    command: str
    """The function with its serializers, pickled, in Base64."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NamespaceRequest:
    """Tell whether a namespace exists."""

    catalog: str
    namespace: tuple[str, ...]
    confs: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class NamespacesRequest(NamespaceRequest):
    """List the namespaces in a namespace."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TablesRequest(NamespaceRequest):
    """List the tables of a namespace."""


REQUESTS = {
    "load": LoadRequest,
    "create": CreateRequest,
    "adopt": AdoptRequest,
    "push": PushRequest,
    "passes_rows_on": PassesRowsOnRequest,
    "top": TopRequest,
    "plan": PlanRequest,
    "read": ReadRequest,
    "hand_over": HandOverRequest,
    "aggregate": AggregateRequest,
    "mixed": MixedRequest,
    "started": StartedRequest,
    "ended": EndedRequest,
    "namespace": NamespaceRequest,
    "namespaces": NamespacesRequest,
    "tables": TablesRequest,
}
"""The request of each call."""
