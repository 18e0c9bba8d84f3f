"""A table's advice from a Spark session: ``twostage.advise(spark, table, log=…)``.

Takes a session, a table and logs; gives what they recommend for this table, which can be shown, carried out and checked. The
rule: nothing is built before `TableAdvice.apply` is called.
"""

from __future__ import annotations

import io
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from twostage.advisor.advise import MIN_SELECTIVITY, advise as advise_logs
from twostage.advisor.collect import collect
from twostage.advisor.column_sample import sample_files
from twostage.advisor.command_line import print_recommendations
from twostage.advisor.log_place import log_access, sources_of
from twostage.advisor.replay import QUERIES
from twostage.advisor.table_name import logged_name
from twostage.advisor.thresholds import Thresholds
from twostage.options import parse_options
from twostage.spark.index_jobs import confs_of, index
from twostage.spark.session import run_job

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pyspark.sql import SparkSession

    from twostage.advisor.advise import Advice
    from twostage.advisor.column_sample import ColumnSample, SampleWork
    from twostage.advisor.log_place import Source
    from twostage.advisor.recommendation import Recommendation
    from twostage.advisor.replay import Check
    from twostage.advisor.what_if import WhatIf
    from twostage.spark.index_jobs import Indexes


@dataclass(frozen=True, slots=True, kw_only=True)
class TableAdvice:
    """What logs say of one table; its text is what ``python -m twostage advise`` prints.

    Attributes:
        table: As the logs call it.
        advice: All of it, as values.
    """

    table: str
    advice: Advice
    _indexes: Indexes
    _log: list[Source]

    @property
    def recommendations(self) -> tuple[Recommendation, ...]:
        """The recommendations; a single one with the action ``nothing`` where nothing would pay off."""
        return self.advice.recommendations

    @property
    def what_if(self) -> WhatIf | None:
        """What the recommended indexes would do, in bytes and seconds, before they are built; None where none is recommended."""
        return next(iter(self.advice.what_if), None)

    def __repr__(self) -> str:
        from rich.console import Console  # noqa: PLC0415 - keeps importing cheap

        text = io.StringIO()
        print_recommendations(self.advice, Console(file=text, highlight=False, soft_wrap=True, width=120))
        return f"{text.getvalue()}{self.advice.problems}".rstrip()

    def show(self) -> None:
        """Print it."""
        print(self)  # noqa: T201 - what it is for

    def apply(self) -> int:
        """Build the recommended indexes by Spark jobs; return how many data files were indexed.

        A sort order, a table property, compiled deletes and indexes to drop are left to you.

        Raises:
            OptionError: A column is indexed already, as after an earlier call.
            UnsupportedFeatureError: A column has no such index.
        """
        return sum(
            self._indexes.create(one.columns, ",".join(one.kinds) or "auto")
            for one in self.recommendations
            if one.action == "index"
        )

    def check(self, *, queries: int = QUERIES, spark_scans: bool = False) -> Check:
        """Replay the heaviest scans of the logs, without and with the indexes that the table has now.

        Raises:
            OptionError: A log is Spark's, which does not say what a filter's parts took.
        """
        return self._indexes.check(self._log, queries=queries, name=self.table, spark_scans=spark_scans)


def advise(
    spark: SparkSession,
    table: str,
    *,
    log: Source | Iterable[Source],
    options: Mapping[str, str] | None = None,
    name: str | None = None,
    selectivity: float = MIN_SELECTIVITY,
    max_columns: int | None = None,
) -> TableAdvice:
    """Return what the queries of logs recommend for a table: indexes, a sort order, or nothing.

    The table's manifests and, by a Spark job, a sample of its rows are read (or what ``advise collect`` stored of it), and its
    indexes are found. Nothing is changed.

    Args:
        spark: A session that is not a Connect client's.
        table: A folder, a metadata file, or ``catalog.namespace.table``.
        log: Where a query log or Spark event logs are, or several of them; one in a bucket is opened as the table is.
        options: The reader's, such as ``index.location``.
        name: The table's name in the logs; default: that under which its scans are logged.
        selectivity: A column counts where its filter leaves less than 1/S of the rows.
        max_columns: The maximum number of indexes.

    Raises:
        OptionError: The options do not name a table, or it is a metadata table.
        NotFoundError: There is no such table or log.

    Examples:
        >>> advice = twostage.advise(spark, "lake.db.events", log="/logs/queries")  # doctest: +SKIP
        >>> advice.show()  # doctest: +SKIP
        >>> advice.apply()  # doctest: +SKIP
    """
    parsed, confs = parse_options({"path": table, **(options or {})}), confs_of(spark)
    known = collect(parsed, confs, run=_sample_by_spark)
    called = logged_name(name or known.table)
    known = replace(known, table=called)
    thresholds = Thresholds(selectivity=selectivity, tables=frozenset({called}))
    logs = sources_of(log)
    return TableAdvice(
        table=called,
        advice=advise_logs(
            logs,
            metadata={called: known},
            thresholds=thresholds,
            max_columns=max_columns,
            access=log_access(logs, parsed, confs),
        ),
        _indexes=index(spark, table, options),
        _log=logs,
    )


def _sample_by_spark(work: Sequence[SampleWork]) -> Iterable[dict[int, ColumnSample]]:
    return run_job(sample_files, work, lambda _done: None, "twostage: collecting column metadata")
