"""Spark's Python data source API: schema, partitions, batches.

Takes the reader's options; gives Spark batches of exactly the schema that it requires. Runs in the driver (called by
`bridge.py`), in Spark's planning worker (without ``enable``) and in executors, so it imports nothing heavy. The rule: there
is no ``pushFilters``. Spark keeps what one scan pushed in an object that all scans of one ``load()`` share, and a later
``count()`` would silently lose rows.
"""

from __future__ import annotations

import os
import uuid
from typing import TYPE_CHECKING, Any, NoReturn

from pyspark.accumulators import AccumulatorParam
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from twostage.errors import OptionError, UnsupportedFeatureError
from twostage.metrics import Metrics
from twostage.predicates.predicate import TRUE, Predicate
from twostage.spark.spark_internals import arrow_schema
from twostage.spark.task_reports import merge_reports
from twostage.spark.worker_errors import text_first

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import pyarrow as pa
    from pyspark.sql.types import StructType

    from twostage.options import ReadOptions
    from twostage.schema import Field, Schema
    from twostage.spark.task_reports import ScanReports, TaskReports
    from twostage.table.pinned import PinnedTable
    from twostage.task import ScanPlan, TaskGroup

MAX_SCANS = 100
"""Scans whose reports the driver keeps."""
_TABLE_PROPERTIES = frozenset({"owner", "provider", "location", "external", "is_managed_location", "comment"})


class ReportsParam(AccumulatorParam["ScanReports"]):
    """Collects the reports of tasks. A task that runs twice replaces its first report instead of adding to it."""

    def zero(self, value: ScanReports) -> ScanReports:  # noqa: ARG002
        """Return an empty collection."""
        return {}

    def addInPlace(self, value1: ScanReports, value2: ScanReports) -> ScanReports:  # noqa: N802
        """Merge `value2` into `value1` and forget the oldest scans."""
        merge_reports(value1, value2)
        while len(value1) > MAX_SCANS:
            del value1[next(iter(value1))]
        return value1


class GroupPartition(InputPartition):
    """What one Spark task reads."""

    def __init__(self, group: TaskGroup) -> None:
        super().__init__(group.index)
        self.group = group


class TwoStageReader(DataSourceReader):
    """Reads task groups, and gives Spark batches of its own schema."""

    def __init__(
        self,
        schema: StructType,
        groups: Sequence[TaskGroup],
        reports: TaskReports | None = None,
    ) -> None:
        self._schema = schema
        self._groups = tuple(groups)
        self._reports = reports

    def partitions(self) -> list[InputPartition]:
        """Return one partition for each task group."""
        return [GroupPartition(group) for group in self._groups]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the batches of one partition and report what reading them took.

        Raises:
            NoLongerWantedError: Spark has closed the connection, so the error reaches no user.
        """
        if not isinstance(partition, GroupPartition):  # Spark's stand-in for "no partition"
            return
        from twostage.reading.pipeline import read_group  # noqa: PLC0415
        from twostage.spark.stopped_tasks import still_wanted  # noqa: PLC0415
        from twostage.spark.worker_tuning import task_ended, tune_worker  # noqa: PLC0415

        tune_worker()
        group, metrics, schema = partition.group, Metrics(), arrow_schema(self._schema)
        try:
            with text_first():
                if self._reports is None:
                    for batch in read_group(group, metrics, still_wanted()):
                        yield conform(batch, schema)
                    return
                with self._reports.of(group, metrics) as report:
                    for batch in read_group(group, metrics, still_wanted()):
                        report.before_batch()
                        yield conform(batch, schema)
        finally:
            task_ended()

    def __reduce__(self) -> tuple[Any, ...]:
        # The groups travel one by one, as partitions.
        return TwoStageReader, (self._schema, (), self._reports)


class TwoStageSource(DataSource):
    """Apache Iceberg tables, filter columns first: ``spark.read.format("twostage").load("/warehouse/db/events")``.

    Options: see `options.py`. Without ``twostage.enable(spark)`` the options ``columns`` and ``filter`` say by
    hand what the planner otherwise takes from the query.
    """

    def __init__(self, options: Mapping[str, str]) -> None:
        super().__init__(dict(options))
        self.pinned: PinnedTable | None = None

    @classmethod
    def name(cls) -> str:
        """Return the name for ``format``."""
        return "twostage"

    @text_first()
    def schema(self) -> StructType:
        """Load the table, pin its snapshot, and return the columns that the options choose."""
        from pyspark.sql.types import StructType  # noqa: PLC0415

        from twostage.columns import spark_schema  # noqa: PLC0415

        options = parse_source_options(self.options)
        self.pinned = self.pinned or _pin_here(options)
        return StructType.fromJson(spark_schema(chosen_fields(self.pinned, options)))

    @text_first()
    def reader(self, schema: StructType) -> TwoStageReader:
        """Plan the scan of the pinned snapshot."""
        from twostage.columns import project_spark  # noqa: PLC0415
        from twostage.planning.plan import plan_scan  # noqa: PLC0415

        options = parse_source_options(self.options)
        table = self.pinned or _pin_here(options)
        plan: ScanPlan = plan_scan(
            table,
            options,
            projection=project_spark(visible_schema(table, options), schema.jsonValue()),
            predicate=option_filter(table, options),
            hint=TRUE,
            limit=None,
            parallelism=os.cpu_count() or 1,
            scan_id=uuid.uuid4().hex,
        )
        return TwoStageReader(schema, plan.groups)

    @text_first()
    def writer(self, schema: StructType, overwrite: bool) -> NoReturn:  # noqa: ARG002, FBT001
        """Refuse to write."""
        raise UnsupportedFeatureError(
            "READ_ONLY", "twostage reads tables and never changes them", stage="options"
        )

    def streamWriter(self, schema: StructType, overwrite: bool) -> NoReturn:  # noqa: FBT001, N802
        """Refuse to write."""
        self.writer(schema, overwrite)

    def __repr__(self) -> str:
        return f"TwoStageSource(table={self.pinned.name if self.pinned else None!r})"


def parse_source_options(raw: Mapping[str, str]) -> ReadOptions:
    """Validate the options and require a table.

    CREATE TABLE … USING twostage hands over the new table's properties as well; they say nothing about the read.

    Raises:
        OptionError: A wrong option, or none that names a table.
    """
    from twostage.options import parse_options  # noqa: PLC0415

    if {"owner", "provider"} <= {name.lower() for name in raw}:
        raw = {
            name: value
            for name, value in raw.items()
            if name.lower() not in _TABLE_PROPERTIES and not name.lower().startswith("option.")
        }
    options = parse_options(raw)
    if not (options.path or "").strip():
        raise OptionError(
            "MISSING_OPTION",
            "Option 'path' is missing: no table was named, and Spark drops the options of CREATE TABLE … USING twostage",
            stage="options",
            hint="Use load('…'), CREATE TEMPORARY VIEW … USING twostage OPTIONS (path '…'), or "
            "SELECT … FROM t WITH (path = '…').",
        )
    return options


def pin_table(options: ReadOptions, confs: Mapping[str, str] | None = None) -> PinnedTable:
    """Load the table at one snapshot."""
    from twostage.catalog.load_table import load_table  # noqa: PLC0415

    return load_table(options, confs or {})


def _pin_here(options: ReadOptions) -> PinnedTable:
    """Load the table in Spark's planning worker, to which Spark sends no confs."""
    from twostage.spark.driver_confs import driver_confs  # noqa: PLC0415

    try:
        return pin_table(options, driver_confs())
    except OptionError as error:
        if error.code == "UNKNOWN_CATALOG":
            error.hint = (
                f"{error.hint or ''} Without the planner, as in Spark Connect, catalogs are those that the driver was "
                "started with (--conf, spark-defaults.conf), not what a session sets later; or give the "
                "catalog with the read: .option('catalog.type', 'rest').option('catalog.uri', '…')."
            ).strip()
        raise


def visible_schema(table: PinnedTable, options: ReadOptions) -> Schema:
    """Return the columns that a query may name, metadata columns too, in the types that it sees."""
    from twostage.columns import truncate_nanoseconds  # noqa: PLC0415
    from twostage.table.metadata_columns import scan_schema  # noqa: PLC0415

    schema = scan_schema(table)
    return truncate_nanoseconds(schema) if options.truncate_nanoseconds else schema


def chosen_fields(table: PinnedTable, options: ReadOptions) -> tuple[Field, ...]:
    """Return the columns that the option ``columns`` chooses; all of them without it.

    A type that cannot be carried is refused here only if the option names it: a table with such a column
    stays readable.
    """
    from twostage.columns import project_names  # noqa: PLC0415

    if options.columns is None:
        return table.schema.fields
    schema = visible_schema(table, options)
    return project_names(schema, options.columns, case_sensitive=options.case_sensitive)


def option_filter(table: PinnedTable, options: ReadOptions) -> Predicate:
    """Return the option ``filter`` as a predicate; its names match as the option ``case-sensitive`` says.

    Raises:
        OptionError: Not a predicate that we evaluate exactly.
    """
    from twostage.predicates.sql_filter import parse_filter  # noqa: PLC0415

    if options.filter is None:
        return TRUE
    schema = visible_schema(table, options)
    return parse_filter(options.filter, schema, case_sensitive=options.case_sensitive)


def conform(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return the batch under exactly this schema: Spark compares nullability and metadata too."""
    if batch.schema.equals(schema, check_metadata=True) or not schema.names:
        return batch
    import pyarrow as pa  # noqa: PLC0415

    columns = [
        column if column.type == field.type else column.cast(field.type)
        for column, field in zip(batch.columns, schema, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)
