"""A table's indexes from a Spark session: ``twostage.index(spark, table)``.

Takes a session, a table and the reader's options; gives an object whose methods are the verbs of ``python -m twostage index``,
with building done by Spark jobs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from twostage.advisor.index_uses import index_uses
from twostage.advisor.kept_metadata import counted_values
from twostage.advisor.log_place import log_access, query_logs, sources_of
from twostage.advisor.replay import QUERIES, check_log
from twostage.indexes.place import list_indexes
from twostage.maintenance.index_arguments import AUTO, DEFAULT_SAMPLE_FILES
from twostage.maintenance.index_command import names_in
from twostage.maintenance.index_files import index_files
from twostage.maintenance.table_indexes import OwnedIndexes
from twostage.maintenance.verify_indexes import verify_indexes
from twostage.metrics import Metrics
from twostage.options import parse_options
from twostage.spark.session import run_job

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from pyspark.sql import SparkSession

    from twostage.advisor.index_uses import IndexUses
    from twostage.advisor.log_place import Source
    from twostage.advisor.query_log import QueryLog
    from twostage.advisor.replay import Check
    from twostage.maintenance.index_files import IndexWork
    from twostage.maintenance.table_indexes import IndexStatus
    from twostage.maintenance.verify_indexes import Verified


class Indexes:
    """The indexes of one table; `said` keeps what the last command said, such as why ``auto`` refused a column.

    Args:
        spark: A session that is not a Connect client's.
        table: A folder, a metadata file, or ``catalog.namespace.table``.
        options: The reader's.
    """

    def __init__(self, spark: SparkSession, table: str, options: Mapping[str, str]) -> None:
        self._spark = spark
        self._options = parse_options({"path": table, **options})
        self.said: list[str] = []
        self._progress: Callable[[int, int], None] | None = None

    def create(
        self,
        columns: str | Sequence[str],
        kind: str = AUTO,
        *,
        progress: Callable[[int, int], None] | None = None,
    ) -> int:
        """Index columns; return how many data files were indexed.

        Args:
            columns: Names, taken literally, dotted for fields of structs; in one string separated by commas, a name with a comma in backticks.
            kind: ``auto``, or ``values``, ``postings``, ``sorted``, ``bins``, ``slices``, ``elements`` and ``files``, separated by commas.
            progress: Called during the work with the number of units done, and of all units.

        Raises:
            OptionError: No such column or kind; it has these kinds already; there is no place for indexes.
            UnsupportedFeatureError: The type has no such index, or ``auto`` refuses all columns.
        """
        self._progress = progress
        return self._built(self._owned().create(_names(columns), kind, counted_values))

    def refresh(self, *, progress: Callable[[int, int], None] | None = None) -> int:
        """Index the data files that have no index yet, or one that cannot be used; return how many.

        Args:
            progress: Called during the work with the number of units done, and of all units.
        """
        self._progress = progress
        return self._built(self._owned().refresh())

    def list(self) -> list[IndexStatus]:
        """Return what is indexed: kinds, data files and bytes of each group of columns."""
        return self._owned().status()

    def uses(self, log: Source | Iterable[Source], *, name: str | None = None) -> IndexUses:
        """Return how often the scans of a query log filtered on columns, and used indexes then.

        Args:
            log: Where the log is, or several of them.
            name: The table's name in the log, if it is another one.

        Raises:
            OptionError: A log is Spark's.
        """
        return index_uses(self._opened(log), name or self._owned().table_name)

    def verify(self, sample: int | None = DEFAULT_SAMPLE_FILES, *, repair: bool = False) -> Verified:
        """Compare indexes with the data of some data files, drawn at random; None: of all.

        Args:
            sample: How many data files.
            repair: Rebuild what differs, is damaged or is missing.
        """
        owned = self._owned()
        context, tasks, place, _ = owned.indexed_tasks()
        indexes = list_indexes(place, Metrics())
        verified = verify_indexes(context, tasks, place, indexes, sample, lambda _done, _of: None)
        if repair:
            self._built(owned.repair(verified.bad))
        return verified

    def check(
        self,
        log: Source | Iterable[Source],
        *,
        queries: int = QUERIES,
        name: str | None = None,
        spark_scans: bool = False,
    ) -> Check:
        """Replay the heaviest scans of a query log here, without and with indexes: what was predicted, and what is measured.

        Args:
            log: Where the log is, or several of them.
            queries: How many different scans.
            name: The table's name in the log, if it is another one.
            spark_scans: Also replay scans that Spark's reader did, by twostage's, as with ``scan.native=never``.

        Raises:
            OptionError: A log is Spark's.
        """
        return check_log(
            self._opened(log),
            self._options,
            self._confs(),
            name=name,
            queries=queries,
            spark_scans=spark_scans,
        )

    def drop(self, columns: str | Sequence[str] | None = None) -> int:
        """Remove the indexes of columns, of all for None; return how many files were removed."""
        return self._owned().drop(None if columns is None else _names(columns))

    def clean(self) -> tuple[int, int]:
        """Remove indexes of data files that no snapshot has; return how many files were removed and kept."""
        return self._owned().clean(lambda _done, _of: None)

    def _owned(self) -> OwnedIndexes:
        self.said = []
        return OwnedIndexes(self._options, self._confs(), self._run, self.said.append)

    def _opened(self, log: Source | Iterable[Source]) -> Sequence[QueryLog]:
        logs = sources_of(log)
        return query_logs(logs, log_access(logs, self._options, self._confs()))

    def _confs(self) -> dict[str, str]:
        return confs_of(self._spark)

    def _run(self, work: Sequence[IndexWork]) -> Iterable[Metrics]:
        progress = self._progress
        told = (lambda _done: None) if progress is None else (lambda done: progress(done, len(work)))
        if not work:
            return ()
        return run_job(index_files, work, told, "twostage: building indexes")

    def _built(self, metrics: Metrics) -> int:
        self.said.extend(metrics.choices)
        return metrics.counters["indexes.made"]


def index(spark: SparkSession, table: str, options: Mapping[str, str] | None = None) -> Indexes:
    """Return the indexes of a table, to create, refresh, list, verify, drop and clean them.

    Args:
        spark: A session that is not a Connect client's.
        table: A folder, a metadata file, or ``catalog.namespace.table``.
        options: The reader's, such as ``index.location``.

    Examples:
        >>> twostage.index(spark, "lake.db.events").create(["device_id"])  # doctest: +SKIP
    """
    return Indexes(spark, table, options or {})


def confs_of(spark: Any) -> dict[str, str]:
    """Return the confs of a session and of its context, the session's first."""
    return {**dict(spark.sparkContext.getConf().getAll()), **dict(spark.conf.getAll)}


def _names(columns: str | Sequence[str]) -> Sequence[str]:
    return names_in(columns) if isinstance(columns, str) else columns
