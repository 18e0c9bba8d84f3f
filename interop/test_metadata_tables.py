"""Metadata tables: the same columns and rows as Iceberg-Spark's, through the catalogs of both."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest

import iceberg_java

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

    from comparison import Workshop

COMPARED = (
    "entries",
    "files",
    "data_files",
    "delete_files",
    "all_entries",
    "all_files",
    "all_data_files",
    "all_delete_files",
    "manifests",
    "all_manifests",
    "partitions",
    "snapshots",
    "history",
    "refs",
    "metadata_log_entries",
)


def _version_1(workshop: Workshop, name: str) -> None:
    """Entries that a later commit carried over, and some that record a deletion."""
    workshop.create(
        name, "id bigint, p int, s string", version=1, partitioned="p", write__delete__mode="copy-on-write"
    )
    workshop.sql(
        f"INSERT INTO {name} SELECT id, CAST(id % 3 AS int), CAST(id AS string) FROM range(12)",
        f"DELETE FROM {name} WHERE id = 4",
        f"DELETE FROM {name} WHERE p = 2",
    )
    iceberg_java.load(workshop.spark, name).rewriteManifests().clusterBy(
        workshop.spark._jvm.java.util.function.Function.identity()
    ).commit()
    workshop.sql(f"INSERT INTO {name} VALUES (20, 1, 'x')")


def _upgraded(workshop: Workshop, name: str) -> None:
    """Manifests of version 1 in lists of version 2."""
    _version_1(workshop, name)
    workshop.sql(
        f"ALTER TABLE {name} SET TBLPROPERTIES ('format-version'='2', 'write.delete.mode'='merge-on-read')",
        f"INSERT INTO {name} VALUES (21, 1, 'y'), (22, 1, 'z')",
        f"DELETE FROM {name} WHERE id IN (3, 21)",
        f"DELETE FROM {name} WHERE p = 0",
    )


def _deletes(workshop: Workshop, name: str) -> None:
    workshop.create(name, "id bigint, p int, s struct<a: int, b: string>", partitioned="p")
    workshop.sql(
        f"INSERT INTO {name} SELECT id, CAST(id % 3 AS int), named_struct('a', CAST(id AS int), 'b', 'x') FROM range(12)",
        f"DELETE FROM {name} WHERE id = 4",
    )
    workshop.delete_equal(name, ["id"], "SELECT 5L AS id", everywhere=True)
    workshop.sql(
        f"ALTER TABLE {name} ADD PARTITION FIELD bucket(2, id)", f"INSERT INTO {name} VALUES (30, NULL, NULL)"
    )


def _partition_texts(workshop: Workshop, name: str) -> None:
    """Values that Java and Python format differently, and fields that some of the specs lack."""
    columns = "id bigint, f float, d double, e decimal(20,10), t timestamp, n timestamp_ntz, a date"
    workshop.create(name, columns, partitioned="f, d, e, t, n, a")
    moment = "timestamp{0} '{1}'"
    for number, (f, e, at, day) in enumerate(
        (
            ("'inf'", "1e-10", "2024-05-01 00:00:00", "9999-12-31"),
            ("'1e10'", "0", "1969-12-31 23:59:59.1", "0001-01-01"),
            ("0.1", "-12.5", "2024-05-01 10:20:30.000120", "1969-12-31"),
        )
    ):
        values = (
            f"{number}L, float({f}), double({f}), {e}, {moment.format('', at)}, {moment.format('_ntz', at)}"
        )
        workshop.sql(f"INSERT INTO {name} VALUES ({values}, date '{day}')")
    workshop.sql(f"INSERT INTO {name} (id) VALUES (9)")
    for field in ("f", "d", "e", "t", "n", "a"):
        workshop.sql(f"ALTER TABLE {name} DROP PARTITION FIELD {field}")
    workshop.sql(f"INSERT INTO {name} (id) VALUES (10)")
    workshop.sql(
        f"ALTER TABLE {name} ADD PARTITION FIELD bucket(2, id)", f"INSERT INTO {name} (id) VALUES (NULL)"
    )


def _variants(workshop: Workshop, name: str) -> None:
    columns = "id bigint, v variant, s struct<v: variant, n: int>, l array<variant>"
    workshop.create(name, columns, version=3, read__parquet__vectorization__enabled="false")
    workshop.sql(
        f"INSERT INTO {name} SELECT id, parse_json('[1]'), named_struct('v', parse_json('1'), 'n', 2), array(parse_json('{{}}')) "
        "FROM range(3)",
        f"DELETE FROM {name} WHERE id = 1",
    )


def _variants_alone(workshop: Workshop, name: str) -> None:
    workshop.create(name, "v variant", version=3)
    workshop.sql(f"INSERT INTO {name} SELECT parse_json('[1]')")


def _shown(spark: SparkSession, relation: str) -> tuple[str, Counter[str]]:
    """Return the columns, and the rows as text: a row with maps is not hashable."""
    frame = spark.sql(f"SELECT * FROM {relation}")
    return frame.schema.simpleString(), Counter(str(row.asDict(recursive=True)) for row in frame.collect())


@pytest.mark.parametrize(
    "build", [_version_1, _upgraded, _deletes, _partition_texts, _variants, _variants_alone]
)
def test_metadata_tables_are_those_of_iceberg(
    workshop: Workshop, build: Callable[[Workshop, str], None]
) -> None:
    spark, table = workshop.spark, f"metadata_of{build.__name__}"
    build(workshop, f"ice.db.{table}")
    wrong = {}
    for name in COMPARED:
        theirs = _shown(spark, f"ice.db.{table}.{name}")
        ours = _shown(spark, f"lake.db.{table}.{name}")
        if theirs != ours:
            rows = (theirs[1] - ours[1], ours[1] - theirs[1])
            wrong[name] = (theirs[0], ours[0]) if theirs[0] != ours[0] else tuple(map(sorted, rows))
    assert not wrong
    if build is _version_1:
        query = "SELECT DISTINCT status, file_sequence_number FROM lake.db.{}.entries"
        found = {tuple(row) for row in spark.sql(query.format(table)).collect()}
        assert (0, 0) in found
        assert {number for _, number in found} == {0}
