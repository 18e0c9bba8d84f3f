"""A planted secret in every kind of option and conf shows nowhere that Spark or the report shows anything."""

from __future__ import annotations

import pytest
from pyspark.errors import PySparkException

import twostage

CANARY = "canary6f1c0e8d24b94a5f9d3c7b1a0e5f2468"  # the same in every process: it stands in names of tests
SECRETS = {
    "catalog.s3.access-key-id": f"{CANARY}1",
    "catalog.s3.secret-access-key": f"{CANARY}2",
    "catalog.s3.session-token": f"{CANARY}3",
    "catalog.token": f"{CANARY}4",
    "catalog.credential": f"me:{CANARY}5",
    "catalog.header.Authorization": f"Bearer {CANARY}6",
    "catalog.adls.account-key": f"{CANARY}7",
    "catalog.adls.sas-token": f"sig={CANARY}8",
    "catalog.gcs.oauth2.token": f"{CANARY}9",
}


def plans(spark, frame, capsys):
    """Return everything that tells of a query: plans of all kinds, the UI's description, the report."""
    frame.explain(True)
    for mode in ("simple", "extended", "codegen", "cost", "formatted"):
        frame.explain(mode)
    execution = frame._jdf.queryExecution()
    shown = [
        capsys.readouterr().out,
        execution.toString(),
        execution.stringWithStats(),
        repr(frame),
        str(frame),
    ]
    shown += [execution.logical().toJSON(), execution.executedPlan().treeString(), frame._jdf.toString()]
    store = spark._jsparkSession.sharedState().statusStore()
    listed = store.executionsList()
    for place in range(listed.size()):
        one = listed.apply(place)
        shown += [
            one.physicalPlanDescription(),
            one.description(),
            one.details(),
            one.modifiedConfigs(),
        ]
        shown.append(
            store.planGraph(one.executionId()).makeDotFile(spark._jvm.scala.collection.immutable.HashMap())
        )
    for report in twostage.scans(spark):
        shown += [str(report), repr(report), report.json(), report._repr_html_()]
    return "\n".join(map(str, shown))  # None of an execution whose start Spark's store has not seen


@pytest.fixture
def reader(spark):
    made = spark.read.format("twostage")
    for key, value in SECRETS.items():
        made = made.option(key, value)
    return made


def test_plans_the_ui_and_the_report(spark, warehouse, reader, capsys):
    frame = reader.load(warehouse.events).where("id < 3 OR device = 'd1'").select("id", "device")
    assert frame.count() > 3
    frame.collect()
    frame.createOrReplaceTempView("secretive")
    text = plans(spark, frame, capsys)
    text += "\n".join(map(str, spark.sql("DESCRIBE EXTENDED secretive").collect()))
    assert "events" in text
    assert CANARY not in text


def test_sql_with_options(spark, warehouse, capsys):
    options = ", ".join(f"'{key}' '{value}'" for key, value in SECRETS.items())
    spark.sql(
        f"CREATE OR REPLACE TEMPORARY VIEW secret_view USING twostage OPTIONS (path '{warehouse.events}', {options})"
    )
    frame = spark.sql("SELECT id FROM secret_view WHERE id = 7")
    assert [row.id for row in frame.collect()] == [7]
    assert CANARY not in plans(spark, frame, capsys)


def test_a_sql_catalog(spark, warehouse, capsys):
    confs = {
        f"spark.sql.catalog.lake.{key.removeprefix('catalog.')}": value for key, value in SECRETS.items()
    }
    for key, value in confs.items():
        spark.conf.set(key, value)
    try:
        frame = spark.sql("SELECT id FROM lake.db.events WHERE id = 7")
        assert [row.id for row in frame.collect()] == [7]
        text = plans(spark, frame, capsys)
        for statement in ("DESCRIBE EXTENDED", "SHOW TBLPROPERTIES", "SHOW CREATE TABLE"):
            try:
                text += str(spark.sql(f"{statement} lake.db.events").collect())
            except PySparkException as error:
                text += str(error)
        with pytest.raises(PySparkException) as caught:
            spark.sql("SELECT * FROM lake.db.evnets")
        text += str(caught.value)
        assert "db.events" in text
        assert CANARY not in text
    finally:
        for key in confs:
            spark.conf.unset(key)


def test_the_users_own_redaction_stays(spark):
    """`enable` adds to the pattern and replaces nothing; a second call adds nothing."""
    key = "spark.sql.redaction.options.regex"
    before = spark.conf.get(key)
    assert before.startswith("(?i)url|")
    try:
        spark.conf.set(key, "(?i)mine")
        twostage.enable(spark)
        assert spark.conf.get(key).startswith("(?i)mine|")
        once = spark.conf.get(key)
        twostage.enable(spark)
        assert spark.conf.get(key) == once
    finally:
        spark.conf.set(key, before)


@pytest.mark.parametrize(
    "path",
    [
        f"s3://user:{CANARY}@bucket/t",
        f"https://user:{CANARY}@host/t?token={CANARY}",
        f"/no/such/folder?X-Amz-Signature={CANARY}",
        "nowhere.db.t",
    ],
)
def test_errors_while_loading(reader, path):
    closed = {"catalog.s3.endpoint": "http://127.0.0.1:1", "catalog.s3.connect-timeout": "1"}
    with pytest.raises(PySparkException) as caught:
        reader.options(**closed).load(path)
    assert "[TWOSTAGE." in str(caught.value)
    assert CANARY not in f"{caught.value} {caught.value!r}"


def test_errors_in_workers(spark, tmp_path, reader):
    import pyarrow as pa
    from pyiceberg.catalog.sql import SqlCatalog

    catalog = SqlCatalog("c", uri=f"sqlite:///{tmp_path}/c.db", warehouse=f"file://{tmp_path}")
    catalog.create_namespace("db")
    values = pa.table({"a": pa.array([1, 2, 3], pa.int64())})
    catalog.create_table("db.t", schema=values.schema).append(values)
    catalog.engine.dispose()
    for file in (tmp_path / "db" / "t" / "data").glob("*.parquet"):
        file.write_bytes(b"PAR1" * 300)
    with pytest.raises(PySparkException) as caught:
        reader.load(f"{tmp_path}/db/t").collect()
    assert "[TWOSTAGE.CORRUPT" in str(caught.value)
    assert CANARY not in f"{caught.value} {caught.value!r}"
