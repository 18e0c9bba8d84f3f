"""Tables of every format version in real catalog services, read by name through Spark.

Some were registered as declared, others written by Iceberg-Spark through the same service.
"""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

import twostage
from catalog_services import ask, hive_client, register_in_hive, register_over_rest, serve_hive, serve_rest
from catalog_tables import TABLES, CatalogTable
from twostage.catalog.load_table import load_table
from twostage.options import parse_options

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.xdist_group("catalog services")  # one process starts them
WRITTEN = "written"


class Service:
    """A running catalog with the tables of `TABLES` and one that Iceberg-Spark wrote, as ``<name>.db.<table>``."""

    def __init__(self, spark: SparkSession, kind: str, uri: str, held: dict[str, CatalogTable]) -> None:
        self.spark, self.kind, self.uri, self.held = spark, kind, uri, held

    def read(self, table: str, **options: str) -> DataFrame:
        given = {**self.held[table].options, **options}
        return self.spark.read.format("twostage").options(**given).load(f"{self.kind}lake.db.{table}")

    def sql(self, query: str) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in self.spark.sql(query.replace("lake.", f"{self.kind}lake.")).collect()]


@pytest.fixture(scope="module", params=["rest", "hive"])
def service(
    request: pytest.FixtureRequest, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Service]:
    kind = request.param
    if kind == "hive":
        pytest.importorskip("thrift", reason="pyiceberg[hive] is not installed here: make .venv-4.1 anew")
    folder = tmp_path_factory.mktemp(kind)
    held = {name: make(folder / "tables" / name) for name, make in TABLES.items()}
    with serve_rest(folder) if kind == "rest" else serve_hive(folder) as uri:
        if kind == "rest":
            ask(uri, "namespaces", {"namespace": ["db"]})
        else:
            with hive_client(uri) as client:
                from hive_metastore.ttypes import Database

                client.create_database(Database(name="db", locationUri=f"file:{folder}/db"))
        for name, table in held.items():
            (register_over_rest if kind == "rest" else register_in_hive)(uri, name, table.metadata)
        spark.conf.set(f"spark.sql.catalog.{kind}ice", "org.apache.iceberg.spark.SparkCatalog")
        spark.conf.set(f"spark.sql.catalog.{kind}ice.type", kind)
        spark.conf.set(f"spark.sql.catalog.{kind}ice.uri", uri)
        spark.conf.set(f"spark.sql.catalog.{kind}ice.warehouse", f"file:{folder}/written")
        twostage.enable(spark, catalogs={f"{kind}lake": {"type": kind, "uri": uri}})
        # Iceberg's Hive catalog gives a variant column the type "unknown", which this metastore refuses.
        write(spark, f"{kind}ice.db.{WRITTEN}", variants=kind == "rest")
        yield Service(spark, kind, uri, held)


def write(spark: SparkSession, table: str, *, variants: bool) -> None:
    """Let Iceberg-Spark write a table of version 3: deletion vectors, lineage, variants if its catalog
    accepts them."""
    text = "'{\"a\": ' || id || '}'"
    spark.sql(
        f"CREATE TABLE {table} (id BIGINT, v {'VARIANT' if variants else 'STRING'}, s STRUCT<a: INT>) USING iceberg"
        " TBLPROPERTIES ('format-version' = '3', 'write.delete.mode' = 'merge-on-read',"
        " 'write.update.mode' = 'merge-on-read')"
    )
    for first in (0, 100):
        spark.sql(
            f"INSERT INTO {table} SELECT id, {f'parse_json({text})' if variants else text}, named_struct('a', int(id))"
            f" FROM range({first}, {first + 100}, 1, 1)"
        )
    spark.sql(f"DELETE FROM {table} WHERE id % 10 = 3")
    spark.sql(f"UPDATE {table} SET s = named_struct('a', -1) WHERE id = 50")


@pytest.mark.parametrize("name", TABLES)
def test_rows_by_name(service: Service, name: str) -> None:
    held = service.held[name]
    frame = service.read(name)
    types = dict(frame.dtypes)
    assert {column: types[column] for column in held.types} == held.types
    rows = frame.selectExpr(*_parts(held.select)).collect()
    assert sorted((tuple(row) for row in rows), key=repr) == sorted(held.rows, key=repr)
    if not held.options:
        rows = service.sql(f"SELECT {held.select} FROM lake.db.{name}")
        assert sorted(rows, key=repr) == sorted(held.rows, key=repr)
        described = {row[0]: row[1] for row in service.sql(f"DESCRIBE lake.db.{name}")}
        assert {column: described[column] for column in held.types} == held.types


def _parts(select: str) -> list[str]:
    """Split at the commas outside brackets."""
    parts, depth = [""], 0
    for letter in select:
        depth += {"(": 1, ")": -1}.get(letter, 0)
        if letter == "," and not depth:
            parts.append("")
        else:
            parts[-1] += letter
    return parts


def test_what_iceberg_wrote(service: Service) -> None:
    part = "variant_get(v, '$.a', 'int')" if service.kind == "rest" else "v"
    columns = f"id, {part}, s.a, _row_id, _last_updated_sequence_number"
    ours = service.sql(f"SELECT {columns} FROM lake.db.{WRITTEN}")
    theirs = [
        tuple(row)
        for row in service.spark.sql(f"SELECT {columns} FROM {service.kind}ice.db.{WRITTEN}").collect()
    ]
    assert sorted(ours) == sorted(theirs)
    assert len(ours) == 180
    where = "WHERE id BETWEEN 40 AND 60 AND s.a < 0"
    assert service.sql(f"SELECT id, s.a FROM lake.db.{WRITTEN} {where}") == [(50, -1)]
    first = service.sql(f"SELECT snapshot_id FROM lake.db.{WRITTEN}.history ORDER BY made_current_at")[0][0]
    assert service.sql(f"SELECT count(*), max(id) FROM lake.db.{WRITTEN} VERSION AS OF {first}") == [
        (100, 99)
    ]


def test_names(service: Service) -> None:
    assert ("db",) in service.sql(f"SHOW NAMESPACES IN {service.kind}lake")
    shown = {row[1] for row in service.sql("SHOW TABLES IN lake.db")}
    assert shown == {*TABLES, WRITTEN}
    assert service.spark.catalog.tableExists(f"{service.kind}lake.db.variants")
    assert not service.spark.catalog.tableExists(f"{service.kind}lake.db.absent")


@pytest.mark.parametrize("name", ["version_1", "vectors", "variants", WRITTEN])
def test_metadata_tables(service: Service, name: str) -> None:
    for metadata_table in ("files", "snapshots", "history", "manifests", "refs", "partitions"):
        assert service.sql(f"SELECT * FROM lake.db.{name}.{metadata_table}"), metadata_table
    counts = service.sql(
        f"SELECT content, sum(record_count) FROM lake.db.{name}.files GROUP BY content ORDER BY 1"
    )
    assert counts[0][1] > 0
    assert len(counts) == (1 if name == "version_1" else 2)


def test_many_threads_get_their_own_tables(service: Service) -> None:
    """A session's queries are planned in threads; a connection shared by all would mix up their answers."""
    name = f"spark.sql.catalog.{service.kind}many"
    confs = {f"{name}.type": service.kind, f"{name}.uri": service.uri}
    expected = {
        table: json.loads(held.metadata.read_text())["table-uuid"] for table, held in service.held.items()
    }

    def load(number: int) -> tuple[str, str]:
        table = [*expected][number % len(expected)]
        options = parse_options({"path": f"{service.kind}many.db.{table}"})
        return table, str(load_table(options, confs).metadata.table_uuid)

    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(load, range(40 * len(expected))))
    assert found == [(table, expected[table]) for table in expected] * 40


def test_a_table_of_hive_that_is_not_icebergs(service: Service) -> None:
    if service.kind != "hive":
        pytest.skip("a REST catalog holds Iceberg's tables only")
    from hive_metastore.ttypes import FieldSchema, SerDeInfo, StorageDescriptor, Table

    plain = StorageDescriptor(
        cols=[FieldSchema("id", "bigint", None)],
        location="file:/tmp/none",
        inputFormat="org.apache.hadoop.mapred.TextInputFormat",
        outputFormat="org.apache.hadoop.hive.ql.io.HiveIgnoreKeyTextOutputFormat",
        serdeInfo=SerDeInfo(serializationLib="org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe"),
    )
    with hive_client(service.uri) as client:
        client.create_table(
            Table(dbName="db", tableName="text", tableType="EXTERNAL_TABLE", parameters={}, sd=plain)
        )
    try:
        for path in ("SELECT * FROM lake.db.text", "SELECT * FROM lake.db.text.files"):
            with pytest.raises(Exception, match=r"NOT_AN_ICEBERG_TABLE|TABLE_OR_VIEW_NOT_FOUND"):
                service.sql(path)
        with pytest.raises(Exception, match=r"TWOSTAGE\.NOT_AN_ICEBERG_TABLE.*db\.text"):
            service.spark.read.format("twostage").load("hivelake.db.text")
    finally:
        with hive_client(service.uri) as client:
            client.drop_table("db", "text", deleteData=False)
