"""What the planner's Java says about a relation, and what it is told about a scan that Spark's own reader does.

Plain values. `ScanDemand` is part of the request ``hand_over``, `SparkScan` of its answer; the planner's `Requests.java`
and `Answers.java` have classes of the same names with the same fields.
"""

from __future__ import annotations

from collections.abc import Mapping  # noqa: TC003 - read at run time, by `spark/messages.py`
from dataclasses import dataclass
from typing import Any

KEYS_MAY_PRUNE = "join keys may prune it"
"""Why a side of a join stays with us; it may be handed over once it is known that no keys will come."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FilterConjunct:
    """One conjunct of the filters directly above the relation."""

    form: Mapping[str, Any] | None
    """As `bind_predicate` takes it; None for an expression that Spark's connectors have no form for."""
    columns: tuple[str, ...]
    """The relation's columns that it reads."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanDemand:
    """What the query above a relation needs of it."""

    columns: tuple[str, ...]
    """All columns that it names, those of its filters too."""
    returned: tuple[str, ...]
    """Those that operators above the filters use; none where rows are only counted."""
    predicates: tuple[FilterConjunct, ...] = ()
    under_limit: bool = False
    under_join: bool = False
    """Its rows are joined, so that other scans of the query wait for this one."""
    may_be_pruned_by_join: bool = False
    """The other side of a join is filtered, so that its keys may prune this side while the query runs."""
    joined_by: str | None = None
    """The only column that the nearest join compares, if that gives a row for each pair, and nothing filters its other side."""
    names_files: bool = False
    """It calls ``input_file_name()`` or its like, which know a file only under Spark's own readers."""
    reads_vectors: bool = True
    """The session's Parquet reader is the vectorized one."""
    file_systems: tuple[str, ...] = ()
    """The URI schemes of object stores that the session's Hadoop has classes for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyRange:
    """The least and the greatest non-NULL value of a column in a file; dates are days since 1970."""

    column: str
    lower: int
    upper: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkFile:
    """A data file that Spark's reader reads."""

    path: str
    length: int
    """Bytes."""
    first_bit: int | None
    """Where its rows begin among `DeletedRows`; None where no file of the scan has deleted rows."""
    ranges: tuple[KeyRange, ...]
    """Those of the scan's key columns whose keys can prune the file; without any, it is read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletedRows:
    """One bit for each row of the files with deletes, set where the row is deleted."""

    size: int
    """Bits."""
    texts: tuple[str, ...]
    """The bits in bytes, lowest bit first: compressed by zlib, cut into parts, each in Base64."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkScan:
    """How Spark's reader does a scan as we would."""

    scan: str
    """The scan's id."""
    root: str
    """The table's location, under a scheme that Spark knows."""
    files: tuple[SparkFile, ...]
    deleted: DeletedRows | None
    key_columns: tuple[str, ...]
    """The columns that `SparkFile.ranges` may have."""
    bytes: int
    """What the optimizer is to take for the scan's size."""
    ids: Mapping[str, int]
    """Field ids by the columns' names in the table."""
    options: Mapping[str, str]
    """The reader's options, which override the session's settings."""
