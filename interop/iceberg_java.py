"""Drives Apache Iceberg's own Java classes, for what its SQL cannot express.

Takes a live SparkSession with Iceberg's runtime on its class path, and table names; commits snapshots:
equality deletes, columns of any type, data files in a partition of our choice. The rule: every byte is
written by Iceberg's writers; this module only says which.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import SparkSession

_file_number = itertools.count(1)


def load(spark: SparkSession, name: str) -> Any:
    """Return Iceberg's ``Table`` object, freshly loaded."""
    table = spark._jvm.org.apache.iceberg.spark.Spark3Util.loadIcebergTable(spark._jsparkSession, name)
    table.refresh()
    return table


def location(spark: SparkSession, name: str) -> str:
    """Return the table's folder, as its metadata names it."""
    return str(load(spark, name).location())


def delete_equal(
    spark: SparkSession,
    name: str,
    columns: Sequence[str],
    keys: str,
    *,
    file_format: str = "PARQUET",
    partition: str | None = None,
    everywhere: bool = False,
    spec_id: int | None = None,
    branch: str | None = None,
) -> None:
    """Commit equality deletes.

    Args:
        spark: The session.
        name: The table.
        columns: The key columns, ``struct.field`` for a field inside a struct.
        keys: SQL whose rows are the delete file's rows: the top-level columns that `columns` need, with
            exactly the table's types.
        file_format: ``PARQUET``, ``ORC`` or ``AVRO``.
        partition: The partition's path (``p=1/q=2``).
        everywhere: Write one delete file for each partition that has data in the spec.
        spec_id: The partition spec; the table's current one if left out.
        branch: The branch to commit to.
    """
    jvm = spark._jvm
    iceberg = jvm.org.apache.iceberg
    table = load(spark, name)
    spec = table.spec() if spec_id is None else table.specs()[spec_id]
    partitions: list[Any] = [None]
    if partition is not None:
        partitions = [iceberg.DataFiles.data(spec, partition)]
    elif everywhere:
        files = [task.file() for task in _drain(table.newScan().planFiles())]
        by_path = {
            spec.partitionToPath(f.partition()): f.partition() for f in files if f.specId() == spec.specId()
        }
        partitions = list(by_path.values())
    # Iceberg's writer takes the values by position, in the order of the table's columns.
    top_level = {column.partition(".")[0] for column in columns}
    order = [field.name() for field in table.schema().columns() if field.name() in top_level]
    frame = spark.sql(keys).select(*(f"`{name}`" for name in order))
    rows = frame._jdf.queryExecution().executedPlan().executeCollect()
    delta = table.newRowDelta()
    for data in partitions:
        writer = _equality_writer(spark, table, spec, data, columns, getattr(iceberg.FileFormat, file_format))
        for row in rows:
            writer.write(row)
        writer.close()
        delta.addDeletes(writer.toDeleteFile())
    if branch is not None:
        delta = delta.toBranch(branch)
    delta.commit()
    spark.catalog.refreshTable(name)


def _equality_writer(
    spark: SparkSession, table: Any, spec: Any, partition: Any, columns: Sequence[str], file_format: Any
) -> Any:
    jvm = spark._jvm
    iceberg = jvm.org.apache.iceberg
    schema = table.schema().select(_java_list(spark, columns))
    ids = spark._sc._gateway.new_array(jvm.int, len(columns))
    for index, column in enumerate(columns):
        ids[index] = table.schema().findField(column).fieldId()
    files = iceberg.io.OutputFileFactory.builderFor(table, next(_file_number), 1).format(file_format)
    factory = files.suffix("equality-deletes").build()
    output = factory.newOutputFile() if partition is None else factory.newOutputFile(spec, partition)
    row_class = jvm.org.apache.spark.util.Utils.classForName(
        "org.apache.spark.sql.catalyst.InternalRow", True, False
    )
    builder = iceberg.formats.FormatModelRegistry.equalityDeleteWriteBuilder(file_format, row_class, output)
    builder.schema(schema).engineSchema(iceberg.spark.SparkSchemaUtil.convert(schema))
    builder.equalityFieldIds(ids).spec(spec).overwrite()
    builder.setAll(table.properties()).metricsConfig(iceberg.MetricsConfig.forTable(table))
    if partition is not None:
        builder.partition(partition)
    return builder.build()


def append_file_as_partition(spark: SparkSession, name: str, source: str, partition: str) -> None:
    """Append every data file of `source` to the table, in a partition that its rows need not match."""
    iceberg = spark._jvm.org.apache.iceberg
    table = load(spark, name)
    tasks = load(spark, source).newScan().includeColumnStats().planFiles()
    append = table.newAppend()
    for task in _drain(tasks):
        builder = iceberg.DataFiles.builder(table.spec()).copy(task.file()).withPartitionPath(partition)
        append.appendFile(builder.build())
    append.commit()
    spark.catalog.refreshTable(name)


def add_column(spark: SparkSession, name: str, column: str, type_text: str, default: Any = None) -> None:
    """Add a column of a type that Spark's DDL lacks (``uuid``, ``fixed[4]``), or one with an initial default."""
    iceberg = spark._jvm.org.apache.iceberg
    table = load(spark, name)
    kind = iceberg.types.Types.fromPrimitiveString(type_text)
    update = table.updateSchema()
    if default is None:
        update.addColumn(column, kind)
    else:
        literal = iceberg.expressions.Expressions.lit(default).to(kind)
        update.addColumn(column, kind, literal)
    update.commit()
    spark.catalog.refreshTable(name)


def _java_list(spark: SparkSession, items: Sequence[str]) -> Any:
    made = spark._jvm.java.util.ArrayList()
    for item in items:
        made.add(item)
    return made


def _drain(closeable: Any) -> list[Any]:
    iterator = closeable.iterator()
    found = []
    while iterator.hasNext():
        found.append(iterator.next())
    closeable.close()
    return found
