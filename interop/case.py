"""What a case declares: a table, how it is made, and its queries."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from workshop import Workshop


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One set of queries on one table.

    Every table has a column ``id`` whose values are unique.
    """

    name: str
    build: Callable[[Workshop, str], None]
    """Makes the table of the given name."""
    table: str | None = None
    """The table's name, if several cases share one table; the case's name if left out."""
    catalog: str = "ice"
    predicates: tuple[str, ...] = ()
    """SQL that both `filter` and Spark accept."""
    spark_predicates: tuple[str, ...] = ()
    """SQL that the option `filter` refuses (functions, casts, patterns) and Spark evaluates."""
    core_predicates: tuple[str, ...] = ()
    """SQL for the core alone: a scan through Spark costs a hundred times as much."""
    queries: tuple[str, ...] = ()
    """SELECT statements on ``{t}``, compared with Spark's answers on the rows of the whole table."""
    columns: tuple[tuple[str, ...], ...] = ()
    """Columns to project with the option `columns`."""
    live: frozenset[int] | None = None
    """The live ids, worked out by hand."""
    version: str = ""
    """``VERSION AS OF …`` or ``TIMESTAMP AS OF …``; ``@name`` of a snapshot that `build` marked."""
    options: Mapping[str, str] = field(default_factory=dict)
    """Our options for the same version."""
    iceberg_wrong: Mapping[str, str] = field(default_factory=dict)
    """Predicates and queries that Iceberg-Spark 1.12.0 answers wrongly, by Spark's own filter: text to reason."""

    def __post_init__(self) -> None:
        asked = (*self.predicates, *self.spark_predicates, *self.core_predicates, *self.queries)
        assert len(set(asked)) == len(asked), (
            f"{self.name} asks twice: {[q for q in asked if asked.count(q) > 1]}"
        )
        unknown = set(self.iceberg_wrong) - set(asked)
        assert not unknown, f"{self.name} does not ask {unknown}"

    @property
    def identifier(self) -> str:
        """The table's name for SQL."""
        return f"{self.catalog}.db.{self.table or self.name}"
