"""What Python answers the planner's Java: one class for each call.

The planner's `Answers.java` has the same classes with the same fields; ``tests/spark/test_spark_messages.py`` compares
them. An error travels as a `Failure` instead.
"""

from __future__ import annotations

from collections.abc import Mapping  # noqa: TC003 - read at run time, by `messages.py`
from dataclasses import dataclass

from twostage.handover.protocol import SparkScan  # noqa: TC001 - the same

Row = tuple[str | None, ...]
"""Values as Java parses them by their columns' types; None for NULL."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """An error: `kind` chooses Java's exception, `message` begins with the code in brackets."""

    kind: str
    code: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadAnswer:
    """A table, pinned to its snapshot."""

    pin: str
    """Names the table in requests."""
    pinned: str
    """The table itself, for the request that follows its eviction."""
    key: str
    """Equal for tables that return the same rows under the same options."""
    schema: str
    """Its columns, as Spark's JSON of a ``StructType``."""
    hidden: str
    """Likewise, the metadata columns such as ``_file``."""
    name: str
    snapshot: str
    """Its id, or ``none``."""
    properties: Mapping[str, str]
    schemes: tuple[str, ...]
    """The URI schemes under which its files may be opened."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateAnswer:
    """The pickled source in Base64, and its columns."""

    source: str
    schema: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AdoptAnswer(LoadAnswer):
    """A table, and the options of the source that pinned it."""

    options: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class PushAnswer:
    """For each predicate whether it is evaluated exactly, and its text for EXPLAIN."""

    exact: tuple[bool, ...]
    texts: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TopAnswer:
    """The top-n's text for EXPLAIN; None where the scan leaves nothing out for it."""

    text: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanAnswer:
    """What the optimizer is told about a scan."""

    scan: str
    rows: int
    bytes: int
    prunable: bool
    """Whether keys of a join could leave out any of it."""
    indexed: str
    """The table's indexed columns with their kinds, for EXPLAIN."""
    placed: bool
    """Whether its tasks are to be placed on executors: the request to read must then list those that are alive."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadAnswer:
    """What Spark's Python tasks get: the read function and the partitions, pickled, in Base64."""

    scan: str
    function: str
    partitions: tuple[str, ...]
    executors: tuple[str, ...]
    """The one that each partition prefers; empty: none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HandOverAnswer:
    """Either the reason why the scan stays with us, or how Spark's reader does it."""

    reason: str | None
    by_metadata: bool = False
    """The reason is that metadata answers the aggregates."""
    awaits_keys: bool = False
    """The reason is that keys of a join may prune the scan: ask again if none will come, or only for `key_columns`."""
    key_columns: tuple[str, ...] = ()
    """While it awaits keys, the columns by whose keys Spark's reader could prune files, if no others come."""
    only_key_columns: bool = False
    """Keys of others are not wanted: Spark's reader does the scan in any case. False: by them our own reader filters rows."""
    handed_over: SparkScan | None


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataRows:
    """Aggregates that metadata or indexes answered."""

    scan: str
    """The id of the report."""
    schema: str
    rows: tuple[Row, ...]
    source: str
    """Where they are from, for EXPLAIN."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AggregateAnswer:
    """Either the reason why metadata does not answer, or the rows."""

    reason: str | None
    answered: MetadataRows | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PartialRows:
    """Aggregates of most files, and the table of the other files, pinned."""

    schema: str
    rows: tuple[Row, ...]
    pin: str
    pinned: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MixedAnswer:
    """Either the reason why metadata does not answer for most files, or the rows."""

    reason: str | None
    answered: PartialRows | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PassesRowsOnAnswer:
    """Whether the function changes nothing; False in doubt."""

    unchanged: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class StartedAnswer:
    """Done."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EndedAnswer:
    """It will be logged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NamespaceAnswer:
    """The namespace exists."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NamespacesAnswer:
    """The names of namespaces, each with those above it."""

    names: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TablesAnswer:
    """The names of tables."""

    names: tuple[str, ...]


ANSWERS = {
    "load": LoadAnswer,
    "create": CreateAnswer,
    "adopt": AdoptAnswer,
    "push": PushAnswer,
    "top": TopAnswer,
    "plan": PlanAnswer,
    "read": ReadAnswer,
    "hand_over": HandOverAnswer,
    "aggregate": AggregateAnswer,
    "mixed": MixedAnswer,
    "passes_rows_on": PassesRowsOnAnswer,
    "started": StartedAnswer,
    "ended": EndedAnswer,
    "namespace": NamespaceAnswer,
    "namespaces": NamespacesAnswer,
    "tables": TablesAnswer,
}
"""The answer of each call."""
