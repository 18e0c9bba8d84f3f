"""What Iceberg's own writer and reader do where the table spec leaves room, and that twostage agrees.

Each expectation is written out by hand.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest
from pyspark.errors import AnalysisException

import core_read
import iceberg_java
import twostage
from twostage.metrics import Metrics

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from workshop import Workshop

FLOATS = "0.0D, -0.0D, double('NaN'), NULL, 1.5D"


def _ours(spark: SparkSession, name: str, **options: str) -> str:
    view = f"facts_{name.rpartition('.')[2]}"
    reader = spark.read.format("twostage").options(**options)
    reader.load(iceberg_java.location(spark, name)).createOrReplaceTempView(view)
    return view


def _ids(spark: SparkSession, relation: str, where: str = "true") -> list[int]:
    return sorted(row.id for row in spark.sql(f"SELECT id FROM {relation} WHERE {where}").collect())


def _core_ids(spark: SparkSession, name: str, **options: str) -> list[int]:
    return sorted(core_read.read(iceberg_java.location(spark, name), options).column("id").to_pylist())


@pytest.mark.parametrize("kind", ["double", "float"])
@pytest.mark.parametrize(
    ("key", "left"),
    [("0.0", [2, 3, 4, 5]), ("-0.0", [1, 3, 4, 5]), ("NaN", [1, 2, 4, 5]), (None, [1, 2, 3, 5])],
)
def test_delete_keys_are_compared_bit_by_bit_but_for_nan(
    workshop: Workshop, kind: str, key: str | None, left: list[int]
) -> None:
    """0.0 and -0.0 are different keys, all NaN are one, NULL equals NULL."""
    spark = workshop.spark
    name = f"ice.db.zero_{kind}_{('null' if key is None else key).replace('-', 'minus_').replace('.', '_')}"
    workshop.create(name, f"id bigint, k {kind}")
    workshop.sql(
        f"INSERT INTO {name} SELECT pos + 1, CAST(k AS {kind}) FROM (SELECT posexplode(array({FLOATS})) AS (pos, k))"
    )
    literal = "NULL" if key is None else f"'{key}'"
    workshop.delete_equal(name, ["k"], f"SELECT CAST({literal} AS {kind}) AS k")
    assert _ids(spark, name) == left
    assert _core_ids(spark, name) == left
    ours = _ours(spark, name)
    assert _ids(spark, ours) == left
    # Finding 2: a predicate must not prune a delete that reaches a row it keeps.
    zeros = [row_id for row_id in left if row_id < 3]
    for where in ("k = 0.0", "k = -0.0"):
        assert _ids(spark, ours, where) == zeros
        assert _core_ids(spark, name, filter=where) == zeros
    assert _ids(spark, ours, f"k >= {kind}('NaN')") == [row_id for row_id in left if row_id == 3]


def test_paths_in_positional_deletes(workshop: Workshop) -> None:
    """Positional deletes name data files in the form of the table's location: with or without ``file:``."""
    written = {}
    for catalog in ("ice", "icefile"):
        name = f"{catalog}.db.paths"
        workshop.create(name, "id bigint")
        workshop.sql(f"INSERT INTO {name} SELECT id FROM range(10)", f"DELETE FROM {name} WHERE id = 3")
        (row,) = workshop.spark.sql(f"SELECT file_path FROM {name}.delete_files").collect()
        (deleted,) = pq.read_table(row.file_path.removeprefix("file:")).to_pylist()
        data = {r.file_path for r in workshop.spark.sql(f"SELECT file_path FROM {name}.data_files").collect()}
        assert deleted["file_path"] in data
        written[catalog] = deleted["file_path"]
        assert _core_ids(workshop.spark, name) == [0, 1, 2, 4, 5, 6, 7, 8, 9]
    assert written["ice"].startswith("/")
    assert written["icefile"].startswith("file:/")


def test_partition_value_overrides_the_file(workshop: Workshop) -> None:
    """A file's own value of an identity partition's column is ignored, both for rows and for deletes."""
    spark = workshop.spark
    name = "ice.db.override"
    workshop.create(f"{name}_source", "id bigint, p int", write__metadata__metrics__column__p="none")
    workshop.sql(f"INSERT INTO {name}_source VALUES (1, 1), (2, 2)")
    workshop.create(name, "id bigint, p int", partitioned="p")
    iceberg_java.append_file_as_partition(spark, name, f"{name}_source", "p=7")
    assert [(row.id, row.p) for row in spark.table(name).orderBy("id").collect()] == [(1, 7), (2, 7)]
    table = core_read.read(iceberg_java.location(spark, name), {}).sort_by("id")
    assert table.column("p").to_pylist() == [7, 7]
    assert _core_ids(spark, name, filter="p = 7") == [1, 2]
    assert _core_ids(spark, name, filter="p = 1") == []
    workshop.delete_equal(name, ["p", "id"], "SELECT 1 AS p, 1L AS id", partition="p=7")
    assert _ids(spark, name) == [1, 2]
    assert _core_ids(spark, name) == [1, 2]
    workshop.delete_equal(name, ["p", "id"], "SELECT 7 AS p, 1L AS id", partition="p=7")
    assert _ids(spark, name) == [2]
    assert _core_ids(spark, name) == [2]


def test_key_dropped_and_its_name_used_again(workshop: Workshop) -> None:
    """Finding 6: Iceberg-Spark can't read this table; by field id the delete applies only to the old column."""
    spark = workshop.spark
    name = "ice.db.name_again"
    workshop.create(name, "id bigint, k string, v int")
    workshop.sql(f"INSERT INTO {name} VALUES (1, 'a', 1), (2, 'b', 2), (3, NULL, 3)")
    workshop.delete_equal(name, ["k"], "SELECT 'a' AS k")
    workshop.sql(
        f"ALTER TABLE {name} DROP COLUMN k",
        f"ALTER TABLE {name} ADD COLUMN k string",
        f"INSERT INTO {name} VALUES (4, 4, 'a')",
    )
    with pytest.raises(Exception, match="(?s).*"):
        spark.table(name).collect()
    assert _core_ids(spark, name) == [2, 3, 4]
    ours = _ours(spark, name)
    assert _ids(spark, ours) == [2, 3, 4]
    assert _ids(spark, ours, "k = 'a'") == [4]
    assert _ids(spark, ours, "k IS NULL") == [2, 3]


def test_bloom_filters_of_parquet_mr_prune(workshop: Workshop) -> None:
    """Values within the bounds that no row has: only the Bloom filter can exclude them."""
    spark = workshop.spark
    name = "ice.db.bloom"
    columns = {"s": "string", "l": "bigint", "d": "double", "bin": "binary"}
    properties = {f"write__parquet__bloom_filter_enabled__column__{column}": "true" for column in columns}
    properties |= {f"write__parquet__dict_encoding_enabled__column__{column}": "false" for column in columns}
    workshop.create(
        name,
        "id bigint, " + ", ".join(f"{column} {kind}" for column, kind in columns.items()),
        write__parquet__bloom_filter_max_bytes="4096",
        write__parquet__row_group_size_bytes="1",
        write__parquet__row_group_check_min_record_count="500",
        write__parquet__row_group_check_max_record_count="500",
        **properties,
    )
    spark.range(0, 2000, 1, 1).selectExpr(
        "id",
        "md5(cast(id AS string)) AS s",
        "xxhash64(id) AS l",
        "cast(xxhash64(id) AS double) AS d",
        "unhex(md5(cast(id AS string))) AS bin",
    ).writeTo(name).append()
    location = iceberg_java.location(spark, name)
    wanted = spark.sql(f"SELECT s, l, d, hex(bin) AS bin FROM {name} WHERE id = 777").collect()[0]
    absent = {"s": "'5" + "f" * 31 + "'", "l": "123456789012345", "d": "1.5D", "bin": "X'5FFF'"}
    present = {"s": f"'{wanted.s}'", "l": str(wanted.l), "d": f"{wanted.d:.17g}D", "bin": f"X'{wanted.bin}'"}
    for column in columns:
        metrics = Metrics()
        none = core_read.read(location, {"filter": f"{column} = {absent[column]}"}, metrics)
        assert none.num_rows == 0
        assert metrics.counters["row_groups.pruned.bloom"] >= 3, (column, metrics.counters)
        metrics = Metrics()
        one = core_read.read(location, {"filter": f"{column} = {present[column]}"}, metrics)
        assert one.column("id").to_pylist() == [777]
        assert metrics.counters["row_groups.pruned.bloom"] >= 2, (column, metrics.counters)


def test_join_keys_reach_the_scan(workshop: Workshop) -> None:
    """Join keys: the rows are Iceberg's, and our scan is filtered by the build side's keys."""
    spark = workshop.spark
    for name, partitioned in (("ice.db.fact", "part"), ("ice.db.fact_plain", "")):
        workshop.create(name, "id bigint, part int, v string", partitioned=partitioned)
        workshop.sql(
            f"INSERT INTO {name} SELECT id, CAST(id % 10 AS int), md5(CAST(id AS string)) FROM range(400)"
        )
        workshop.sql(f"DELETE FROM {name} WHERE id % 7 = 0")
    workshop.create("ice.db.tags", "part int, tag string")
    workshop.sql("INSERT INTO ice.db.tags VALUES (3, 'x'), (5, 'x'), (6, 'y')")
    query = (
        "SELECT f.id, f.v FROM {t} f JOIN ice.db.tags t ON f.part = t.part WHERE t.tag = 'x' ORDER BY f.id"
    )
    for name in ("ice.db.fact", "ice.db.fact_plain"):
        expected = [tuple(row) for row in spark.sql(query.replace("{t}", name)).collect()]
        assert [row[0] for row in expected] == [i for i in range(400) if i % 10 in (3, 5) and i % 7]
        ours = _ours(spark, name, **{"scan.native": "never"})
        assert [tuple(row) for row in spark.sql(query.replace("{t}", ours)).collect()] == expected
    report = twostage.last_scan(spark)
    assert "part IN (3, 5)" in report.predicate, str(report)


VARIANTS = """SELECT id, IF(id = 3, NULL, parse_json(concat('{"a": ', id, ', "b": ["x", null]}'))) AS v FROM range(6)"""


@pytest.mark.parametrize(
    ("file_format", "shredded"), [("parquet", False), ("parquet", True), ("avro", False)]
)
def test_variants_are_those_of_iceberg(workshop: Workshop, file_format: str, shredded: bool) -> None:
    spark = workshop.spark
    name = f"ice.db.variant_{file_format}_{shredded}".lower()
    deep = "struct<l: array<map<string, variant>>>"
    properties = {"write__format__default": file_format, "read__parquet__vectorization__enabled": "false"}
    properties["write__parquet__shred-variants"] = str(shredded).lower()
    # Iceberg's vectorized reader fails if a query needs only a variant's NULLs.
    workshop.create(name, f"id bigint, v variant, deep {deep}", version=3, **properties)
    workshop.sql(
        f"INSERT INTO {name} SELECT id, v, named_struct('l', array(map('k', v), NULL)) FROM ({VARIANTS})"
    )
    if file_format == "parquet":
        for row in spark.sql(f"SELECT file_path FROM {name}.files").collect():
            assert ("typed_value" in str(pq.read_schema(row.file_path.removeprefix("file:")))) == shredded
    workshop.sql(f"DELETE FROM {name} WHERE id = 2")
    ours = _ours(spark, name)
    query = "SELECT id, to_json(v), to_json(deep), variant_get(v, '$.a', 'int') FROM {} WHERE {} ORDER BY id"
    for where in ("true", "v IS NULL", "v IS NOT NULL AND id > 1", "variant_get(v, '$.a', 'int') > 3"):
        expected = spark.sql(query.format(name, where)).collect()
        assert expected
        assert spark.sql(query.format(ours, where)).collect() == expected


def test_tables_without_rows(workshop: Workshop) -> None:
    """No snapshot yet; and every row deleted."""
    spark = workshop.spark
    workshop.create("ice.db.no_snapshot", "id bigint, s string")
    workshop.create("ice.db.all_deleted", "id bigint, s string")
    workshop.sql(
        "INSERT INTO ice.db.all_deleted VALUES (1, 'a'), (2, 'b'), (3, 'c')",
        "DELETE FROM ice.db.all_deleted WHERE id > 1 AND id < 3",
    )
    workshop.delete_equal("ice.db.all_deleted", ["s"], "SELECT * FROM VALUES ('a'), ('c') AS v(s)")
    for name in ("ice.db.no_snapshot", "ice.db.all_deleted"):
        ours = _ours(spark, name)
        assert _core_ids(spark, name) == _ids(spark, ours) == _ids(spark, ours, "s = 'a' OR id = 3") == []
        assert spark.sql(f"SELECT count(*) FROM {ours}").collect()[0][0] == 0


def test_catalog_lists_what_iceberg_lists(workshop: Workshop) -> None:
    spark = workshop.spark
    workshop.create("ice.db.listed", "id bigint COMMENT 'the key', s string")
    workshop.sql("INSERT INTO ice.db.listed VALUES (1, 'a')")
    tables = {row.tableName for row in spark.sql("SHOW TABLES IN ice.db").collect()}
    assert {row.tableName for row in spark.sql("SHOW TABLES IN lake.db").collect()} == tables
    assert "db" in {row.namespace for row in spark.sql("SHOW NAMESPACES IN lake").collect()}
    described = [tuple(row) for row in spark.sql("DESCRIBE lake.db.listed").collect()][:2]
    assert [row[:2] for row in described] == [("id", "bigint"), ("s", "string")]
    with pytest.raises(AnalysisException, match="TABLE_OR_VIEW_NOT_FOUND"):
        spark.sql("SELECT * FROM lake.db.not_there")


def test_snapshots_of_the_log_by_time(workshop: Workshop) -> None:
    """TIMESTAMP AS OF and our options choose the snapshot that Iceberg chooses."""
    spark = workshop.spark
    name = "ice.db.timed"
    workshop.create(name, "id bigint")
    for row_id in range(3):
        workshop.sql(f"INSERT INTO {name} VALUES ({row_id})")
    log = spark.sql(
        f"SELECT made_current_at, unix_millis(made_current_at) AS ms FROM {name}.history ORDER BY 1"
    ).collect()
    for number, row in enumerate(log):
        ids = list(range(number + 1))
        text = row.made_current_at.strftime("%Y-%m-%d %H:%M:%S.%f")
        assert _ids(spark, f"{name} TIMESTAMP AS OF '{text}'") == ids
        assert _ids(spark, f"lake.db.timed TIMESTAMP AS OF '{text}'") == ids
        assert _core_ids(spark, name, **{"as-of-timestamp": str(row.ms)}) == ids
        assert _ids(spark, _ours(spark, name, timestampAsOf=text)) == ids
        # Bare digits are seconds, in SQL and in Iceberg's own option: the snapshots of the seconds before them.
        later = row.ms // 1000 + 1
        ids = _ids(spark, f"{name} TIMESTAMP AS OF {later}")
        assert ids[: number + 1] == list(range(number + 1))
        assert _ids(spark, f"lake.db.timed TIMESTAMP AS OF {later}") == ids
        option = spark.read.format("iceberg").option("timestampAsOf", str(later)).load(name)
        assert sorted(one.id for one in option.collect()) == ids
        assert _ids(spark, _ours(spark, name, timestampAsOf=str(later))) == ids
    with pytest.raises(Exception, match="`as-of-timestamp` \\(in millis\\) is no longer supported"):
        spark.read.format("iceberg").option("as-of-timestamp", str(log[0].ms)).load(name)


def test_avro_files_have_no_bounds(workshop: Workshop) -> None:
    """Neither data files nor positional delete files; the list of named cases omits what would need them."""
    name = "ice.db.avro_bounds"
    workshop.create(name, "id bigint", write__format__default="avro")
    workshop.append(name, [(1,), (2,)], "id bigint")
    workshop.sql(f"DELETE FROM {name} WHERE id = 1")
    found = workshop.spark.sql(f"SELECT content, file_format, lower_bounds FROM {name}.files").collect()
    assert sorted(row.content for row in found) == [0, 1]
    assert {row.file_format.upper() for row in found} == {"AVRO"}
    assert not any(row.lower_bounds for row in found)


def test_version_1_keeps_dropped_partition_fields(workshop: Workshop) -> None:
    """The list of named cases omits specs of version 1 that drop a field."""
    name = "ice.db.dropped_fields"
    workshop.create(name, "id bigint, b int", version=1, partitioned="b")
    workshop.sql(f"ALTER TABLE {name} DROP PARTITION FIELD b")
    fields = iceberg_java.load(workshop.spark, name).spec().fields()
    assert [field.transform().toString() for field in fields] == ["void"]


def test_fixed_partition_values_are_read(workshop: Workshop) -> None:
    """Iceberg's manifests store them with a length, which their headers do not declare."""
    spark, name = workshop.spark, "ice.db.fixed_partition"
    workshop.create(name, "id bigint")
    iceberg_java.add_column(spark, name, "k", "fixed[2]")
    iceberg_java.load(spark, name).updateSpec().addField("k").commit()
    spark.catalog.refreshTable(name)
    workshop.sql(f"INSERT INTO {name} VALUES (1, X'0000'), (2, X'FFFF'), (3, NULL)")
    assert _core_ids(spark, name) == [1, 2, 3]
    assert _core_ids(spark, name, filter="k = X'FFFF'") == [2]
    assert _ids(spark, _ours(spark, name), "k IS NULL OR k < X'7F00'") == [1, 3]
