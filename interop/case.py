"""What a case declares: a table, how it is made, and what is asked of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from workshop import Workshop


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One way to look at one table.

    Every table has a column ``id`` whose values are unique.
    """

    name: str
    build: Callable[[Workshop, str], None]
    """Makes the table of the given name."""
    table: str | None = None
    """The table's name, where several cases look at one table; the case's name if left out."""
    catalog: str = "ice"
    predicates: tuple[str, ...] = ()
    """SQL that both `filter` and Spark take."""
    spark_predicates: tuple[str, ...] = ()
    """SQL that the option `filter` refuses (functions, casts, patterns) and Spark evaluates."""
    core_predicates: tuple[str, ...] = ()
    """SQL asked of the core alone: a scan through Spark costs a hundred times as much."""
    queries: tuple[str, ...] = ()
    """SELECT statements on ``{t}``, compared with what Spark answers about the rows of the whole table."""
    columns: tuple[tuple[str, ...], ...] = ()
    """Columns to project by the option `columns`."""
    live: frozenset[int] | None = None
    """The ids that are live, worked out by hand."""
    version: str = ""
    """``VERSION AS OF …`` or ``TIMESTAMP AS OF …``; ``@name`` of a snapshot that `build` marked."""
    options: Mapping[str, str] = field(default_factory=dict)
    """Our options that choose the same version."""
    iceberg_wrong: Mapping[str, str] = field(default_factory=dict)
    """Predicates and queries that Iceberg-Spark 1.12.0 answers wrongly: Spark's own filter decides. By text; why."""

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
