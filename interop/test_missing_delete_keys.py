"""Equality-delete files without one of the columns that their manifest names as keys.

Iceberg's library writes such an entry if told to; the spec requires the columns in the file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import iceberg_java

if TYPE_CHECKING:
    from comparison import Workshop


@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
def test_null_does_not_stand_for_a_missing_key(workshop: Workshop, file_format: str) -> None:
    """Iceberg-Spark deletes the row whose key is NULL, which no delete names."""
    spark = workshop.spark
    iceberg = spark._jvm.org.apache.iceberg
    name, keys = f"ice.db.missing_key_{file_format}", f"ice.db.missing_key_{file_format}_keys"
    workshop.create(name, "a bigint, k string, id bigint")
    workshop.sql(f"INSERT INTO {name} VALUES (1, 'x', 1), (1, NULL, 2), (2, 'x', 3)")
    workshop.create(keys, "a bigint", write__format__default=file_format)
    workshop.sql(f"INSERT INTO {keys} VALUES (1)")
    (written,) = spark.sql(
        f"SELECT file_path, file_size_in_bytes, record_count FROM {keys}.data_files"
    ).collect()
    table = iceberg_java.load(spark, name)
    ids = spark._sc._gateway.new_array(spark._jvm.int, 2)
    ids[0], ids[1] = 1, 2
    builder = iceberg.FileMetadata.deleteFileBuilder(table.spec()).ofEqualityDeletes(ids)
    builder.withPath(written.file_path).withFormat(file_format.upper())
    builder.withFileSizeInBytes(written.file_size_in_bytes).withRecordCount(written.record_count)
    table.newRowDelta().addDeletes(builder.build()).commit()
    spark.catalog.refreshTable(name)
    assert sorted(row.id for row in spark.sql(f"SELECT id FROM {name}").collect()) == [1, 3]
    ours = name.replace("ice.", "lake.")
    for query in (
        f"SELECT id FROM {ours}",
        f"SELECT * FROM {ours} WHERE id = 1",
        f"SELECT count(*) FROM {ours}",
    ):
        with pytest.raises(Exception, match=r"TWOSTAGE\.MISSING_DELETE_KEY.*field id 2.*'k'.*Hint"):
            spark.sql(query).collect()
