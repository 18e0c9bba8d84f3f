"""Makes a case's table and works out its right answers.

Takes a case; returns a `Prepared`: the rows of the whole table as Iceberg reads them, and for each predicate
the ids for which Spark's own filter over these rows is true. The rule: no query that Iceberg or twostage
prunes decides what is right; the table is read whole, detached from its source, and filtered by Spark alone.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import iceberg_java
from workshop import Row, Workshop

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from case import Case

UNION_WIDTH = 24
"""Queries per job: starting a job costs more than such a small scan."""


@dataclass
class Prepared:
    """A case's table and its right answers."""

    case: Case
    spark: SparkSession
    location: str
    version: str
    options: Mapping[str, str]
    names: tuple[str, ...]
    rows: dict[int, Row]
    matches: dict[str, frozenset[int]]
    """By predicate: the ids for which Spark's filter over the rows of the whole table is true."""
    _views: set[str] = field(default_factory=set)
    _right: dict[str, Counter[Row]] = field(default_factory=dict)

    @staticmethod
    def build(workshop: Workshop, case: Case) -> Prepared:
        """Make the table, read it whole and let Spark evaluate every predicate on its rows."""
        spark = workshop.spark
        workshop.build_once(case.identifier, case.build)
        version = workshop.resolve(case.version)
        whole = spark.sql(f"SELECT * FROM {case.identifier} {version}").coalesce(1).localCheckpoint()
        whole.createOrReplaceTempView(f"whole_{case.name}")
        table = whole.toArrow()
        ids = table.column("id").to_pylist()
        assert len(set(ids)) == len(ids), "ids must be unique for rows to be told apart"
        predicates = [*case.predicates, *case.spark_predicates, *case.core_predicates]
        truths = whole.selectExpr("id", *(f"({text}) AS q{n}" for n, text in enumerate(predicates))).toArrow()
        columns = [column.to_pylist() for column in truths.columns]
        return Prepared(
            case=case,
            spark=spark,
            location=iceberg_java.location(spark, case.identifier),
            version=version,
            options={key: workshop.resolve(value) for key, value in case.options.items()},
            names=tuple(table.column_names),
            rows=dict(zip(ids, canonical_rows(table), strict=True)),
            matches={
                text: frozenset(
                    row_id for row_id, truth in zip(columns[0], columns[n + 1], strict=True) if truth
                )
                for n, text in enumerate(predicates)
            },
        )

    @property
    def iceberg(self) -> str:
        """The relation that Iceberg reads, for FROM."""
        return f"{self.case.identifier} {self.version}"

    @property
    def lake(self) -> str:
        """The relation that our SQL catalog reads, for FROM."""
        return self.iceberg.replace("ice", "lake", 1)

    @property
    def ours(self) -> str:
        """A temporary view of our source."""
        name = f"ours_{self.case.name}"
        if name not in self._views:
            reader = self.spark.read.format("twostage").options(**self.options)
            reader.load(self.location).createOrReplaceTempView(name)
            self._views.add(name)
        return name

    def ids(self, relation: str, predicates: Sequence[str]) -> dict[str, Counter[int]]:
        """Return by predicate the ids that a scan of the relation with this predicate returns."""
        found: dict[str, Counter[int]] = {text: Counter() for text in predicates}
        for start in range(0, len(predicates), UNION_WIDTH):
            part = predicates[start : start + UNION_WIDTH]
            query = " UNION ALL ".join(
                f"(SELECT {n} AS q, id FROM {relation} WHERE {text})" for n, text in enumerate(part)
            )
            for row in self.spark.sql(query).collect():
                found[part[row.q]][row.id] += 1
        return found

    def right(self, query: str) -> Counter[Row]:
        """Return the rows of a query on the whole table's rows, with counts."""
        if query not in self._right:
            self._right[query] = self.answer(query, f"whole_{self.case.name}")
        return self._right[query]

    def answer(self, query: str, relation: str) -> Counter[Row]:
        """Return the rows of a query on the relation, with counts."""
        return Counter(canonical_rows(to_arrow(self.spark.sql(query.replace("{t}", relation)))))


def to_arrow(frame: DataFrame) -> pa.Table:
    """Collect a DataFrame as Arrow: floats keep their bits, timestamps their zone."""
    return frame.toArrow()


def canonical_rows(table: pa.Table) -> list[Row]:
    """Return the rows as hashable values that are equal only if the cells are the same."""
    columns = [[canonical(value) for value in column.to_pylist()] for column in table.columns]
    return list(zip(*columns, strict=True)) if columns else [()] * table.num_rows


def canonical(value: Any) -> Any:
    """Return a hashable form: NaN equals NaN, 0.0 is not -0.0, 1 is not True."""
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else value.hex()
    if isinstance(value, dict):
        return tuple((key, canonical(item)) for key, item in value.items())
    if isinstance(value, list | tuple):
        return ("list", *(canonical(item) for item in value))
    return value if value is None else f"{type(value).__name__} {value}"


def difference(expected: Counter[Any], found: Counter[Any]) -> str:
    """Return what is missing and what is extra; empty if they are equal."""
    if expected == found:
        return ""
    return f"missing {_first_rows(expected - found)}, too much {_first_rows(found - expected)}"


def _first_rows(rows: Counter[Any]) -> str:
    items: Iterable[Any] = sorted(rows.elements(), key=repr)
    shown = list(items)
    return f"{len(shown)}: {shown[:4]}" if shown else "none"
