"""The findings, shown on Iceberg-Spark itself: its answer is the one listed, and twostage's is right.

The tables are those of `finding_tables`, written by hand into Iceberg's warehouse; those that only Iceberg's
own writers can make are below. Once Iceberg answers correctly, the test of that finding fails: take it off
the list.
"""

from __future__ import annotations

import datetime as dt
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.orc as orc
import pytest

import iceberg_java
from comparison import canonical_rows, to_arrow
from finding_tables import FINDINGS, SAME, STRUCT_KEY_ROWS, Finding, FindingQuery

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from workshop import Workshop

EACH = [
    pytest.param(finding, asked, id=f"{finding}-{number}")
    for finding in FINDINGS
    for number, asked in enumerate(finding.asked)
]


def _name(finding: Finding) -> str:
    return str(finding)


@pytest.fixture(scope="module")
def firsts(spark: SparkSession) -> dict[str, str]:
    """Write every finding's table into the warehouse; return the id of each one's first snapshot."""
    spark.sql("CREATE NAMESPACE IF NOT EXISTS ice.db").collect()
    made = {}
    for finding in FINDINGS:
        table = finding.build(Path(spark.conf.get("interop.warehouse")) / "db" / _name(finding))
        table.write()
        made[_name(finding)] = str(table.snapshots[0].id)
    return made


def _query(reader: DataFrame, asked: FindingQuery) -> Counter[tuple[object, ...]]:
    if asked.columns == ("count(*)",):
        return Counter([(reader.where(asked.where).count(),)])
    frame = reader.where(asked.where).select(*asked.columns)
    return Counter(tuple(row) for row in frame.collect())


@pytest.mark.parametrize(("finding", "asked"), EACH)
def test(spark: SparkSession, finding: Finding, asked: FindingQuery, firsts: dict[str, str]) -> None:
    name = _name(finding)
    options = {key: text.replace("@first", firsts[name]) for key, text in asked.options.items()}
    ours = (
        spark.read.format("twostage").options(**options).load(iceberg_java.location(spark, f"ice.db.{name}"))
    )
    assert _query(ours, asked) == Counter(asked.right)
    iceberg = spark.read.format("iceberg").options(**options)
    if isinstance(asked.iceberg, str) and asked.iceberg != SAME:
        with pytest.raises(Exception, match=f"(?s){asked.iceberg.removeprefix('raises ')}"):
            _query(iceberg.load(f"ice.db.{name}"), asked)
        return
    expected = asked.right if asked.iceberg == SAME else asked.iceberg
    assert _query(iceberg.load(f"ice.db.{name}"), asked) == Counter(expected)


def test_finding_01_the_executor_cache_returns_deleted_rows(
    spark: SparkSession, firsts: dict[str, str]
) -> None:
    """It keeps the delete's keys as the first query's projection left them; the cache is on by default.

    Not in every JVM, and not always: without its cache Iceberg returns no row, its other wrong answer. So
    copies of the table are queried until one shows it; ``make findings`` uses a separate JVM.
    """
    del firsts
    warehouse = Path(spark.conf.get("interop.warehouse")) / "db"
    spark.conf.set("spark.sql.iceberg.executor-cache.enabled", "true")
    try:
        for copy in (f"cached_keys_{number}" for number in range(10)):
            FINDINGS[0].build(warehouse / copy).write()
            whole = [row.id for row in spark.sql(f"SELECT id, st FROM ice.db.{copy}").collect()]
            cut = [row.id for row in spark.sql(f"SELECT id FROM ice.db.{copy}").collect()]
            assert sorted(whole) == [i for (i,) in STRUCT_KEY_ROWS]
            if cut:
                assert sorted(cut) == list(range(6))
                return
    finally:
        spark.conf.set("spark.sql.iceberg.executor-cache.enabled", "false")
    pytest.skip("Iceberg's executor cache kept nothing of ten tables")


def test_finding_05_orc_moments_before_1970_are_stored_a_second_late(workshop: Workshop) -> None:
    """By Iceberg's ORC writer: both readers return what is stored."""
    spark, name = workshop.spark, "ice.db.before_1970"
    workshop.create(name, "id bigint, ts timestamp", write__format__default="orc")
    workshop.sql(f"INSERT INTO {name} VALUES (1, TIMESTAMP '1969-12-31 23:59:59.999999')")
    late = [(1, dt.datetime(1970, 1, 1, 0, 0, 0, 999999))]
    ours = spark.read.format("twostage").load(iceberg_java.location(spark, name))
    assert [tuple(row) for row in spark.table(name).collect()] == late
    assert [tuple(row) for row in ours.collect()] == late


def test_finding_09_iceberg_hands_the_old_name_to_the_new_column(workshop: Workshop, tmp_path: Path) -> None:
    """Both read the file's column as the new one, so a NULL equality delete on the renamed one deletes every
    row."""
    import pyarrow.parquet as parquet

    spark, name = workshop.spark, "ice.db.imported_name_again"
    parquet.write_table(pa.table({"id": [1, 2], "s": ["a", "b"]}), tmp_path / "file.parquet")
    workshop.create(name, "id bigint, s string")
    workshop.sql(
        f"CALL ice.system.add_files(table => 'db.imported_name_again', source_table => '`parquet`.`{tmp_path}`')",
        f"ALTER TABLE {name} RENAME COLUMN s TO t",
        f"ALTER TABLE {name} ADD COLUMN s string",
    )
    ours = spark.read.format("twostage").load(iceberg_java.location(spark, name))
    assert Counter(canonical_rows(to_arrow(ours))) == Counter(canonical_rows(to_arrow(spark.table(name))))
    assert [row.t for row in ours.collect()] == [None, None]
    # Our pruning does not trust the metrics that the import stored for the renamed column; Iceberg's does.
    assert sorted(row.id for row in ours.where("t IS NULL").collect()) == [1, 2]
    assert spark.table(name).where("t IS NULL").collect() == []
    workshop.delete_equal(name, ["t"], "SELECT CAST(NULL AS string) AS t")
    after = spark.read.format("twostage").load(iceberg_java.location(spark, name))
    assert after.collect() == []


def test_finding_12_imported_orc_timestamps_in_a_timestamptz_column(
    workshop: Workshop, tmp_path: Path
) -> None:
    spark, name = workshop.spark, "ice.db.imported_moments"
    orc.write_table(
        pa.table({"id": [1], "ts": pa.array([0], pa.timestamp("us"))}), str(tmp_path / "file.orc")
    )
    workshop.create(name, "id bigint, ts timestamp")
    workshop.sql(
        f"CALL ice.system.add_files(table => 'db.imported_moments', source_table => '`orc`.`{tmp_path}`')"
    )
    with pytest.raises(Exception, match="Job aborted"):
        spark.table(name).collect()
    ours = spark.read.format("twostage").load(iceberg_java.location(spark, name))
    assert [tuple(row) for row in ours.collect()] == [(1, dt.datetime(1970, 1, 1))]


@pytest.mark.parametrize("unit", ["ms", "ns"])
def test_finding_13_imported_moments(unit: str, workshop: Workshop, tmp_path: Path) -> None:
    """Iceberg stores the bounds as they are in the file, and its vectorized reader returns such timestamps, too."""
    import pyarrow.parquet as parquet

    spark, name, source = workshop.spark, f"ice.db.imported_{unit}", f"default.moments_{unit}"
    moments = [dt.datetime(2024, 1, 1), dt.datetime(2024, 6, 1)]
    rows = pa.table({"id": [1, 2], "at": pa.array(moments, pa.timestamp(unit, "UTC"))})
    parquet.write_table(rows, tmp_path / "file.parquet")
    workshop.create(name, "id bigint, at timestamp")
    workshop.sql(
        f"CREATE TABLE spark_catalog.{source} (id bigint, at timestamp) USING parquet LOCATION '{tmp_path}'",
        f"CALL ice.system.add_files(table => 'db.imported_{unit}', source_table => '{source}')",
        f"DROP TABLE spark_catalog.{source}",
    )
    years = [row.year for row in spark.sql(f"SELECT year(at) AS year FROM {name}").collect()]
    assert 2024 not in years
    ours = spark.read.format("twostage").load(iceberg_java.location(spark, name))
    assert [row.at for row in ours.orderBy("id").collect()] == moments
    assert [row.id for row in ours.where("at > '2024-02-01'").collect()] == [2]
    assert [row.id for row in ours.orderBy("at").limit(1).collect()] == [1]
    assert tuple(ours.selectExpr("min(at)", "max(at)").collect()[0]) == tuple(moments)
