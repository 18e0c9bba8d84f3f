"""``compile-deletes --spark``: a Spark job compiles, and Spark's scans open no equality-delete file after it."""

from __future__ import annotations

import twostage
from s3_server import BUCKET, serve
from tables import Table
from twostage.__main__ import main


def test_a_spark_job_compiles_a_table(spark, tmp_path, capsys):
    table = Table(tmp_path / "t", {"id": "long", "k": "long"})
    for start in range(0, 90, 30):
        table.append([{"id": start + i, "k": i % 10} for i in range(30)])
    for key in (3, 7):
        table.delete_equal(["k"], [{"k": key}])
    table.write()
    place = str(tmp_path / "compiled")
    options = {"deletes.cache-dir": str(tmp_path / "cache"), "deletes.compiled-dir": place}
    arguments = [f"--{name}={value}" for name, value in options.items()]
    assert main(["compile-deletes", str(table.folder), "--spark", *arguments]) == 0
    assert "3 compiled" in capsys.readouterr().err
    assert len(list((tmp_path / "compiled").iterdir())) == 3
    df = spark.read.format("twostage").options(**options).load(str(table.folder))
    assert sorted(row.id for row in df.where("k >= 3").collect()) == [
        start + i for start in (0, 30, 60) for i in range(30) if i % 10 >= 3 and i % 10 not in (3, 7)
    ]
    report = twostage.last_scan(spark)
    assert report.count("delete_files.opened") == 0
    assert report.count("delete_compiled.hits") == 3
    assert report.reasons("rows.deleted") == {"compiled": 18}
    assert "3 data files by compiled deletes" in str(report)
    assert main(["compile-deletes", str(table.folder), "--spark", "--option", f"deletes.cache-dir={tmp_path}/x",
                 "--compiled-dir", str(table.folder)]) == 1  # fmt: skip


def test_a_spark_job_compiles_a_table_into_a_bucket(spark, tmp_path, capsys):
    """Each of its tasks reads and writes several files at the same time; a second job finds them all."""
    table = Table(tmp_path / "t", {"id": "long", "k": "long"}, version=2)
    table.location = f"s3://{BUCKET}/t"
    for start in range(0, 600, 30):
        table.append([{"id": start + i, "k": i % 10} for i in range(30)])
    for key in (3, 7):
        table.delete_equal(["k"], [{"k": key}])
    table.write()
    with serve(tmp_path) as s3:
        options = {**s3.options, "deletes.cache": "worker", "deletes.compiled-dir": f"s3://{BUCKET}/compiled"}
        given = [f"--option={name}={value}" for name, value in options.items()]
        for made in (20, 0):
            assert main(["compile-deletes", table.location, "--spark", *given]) == 0
            said = " ".join(capsys.readouterr().err.split())
            assert f"{made} compiled, {20 - made} already compiled; 120 rows deleted" in said
        assert sum(method == "PUT" for method, _, _ in s3.requests) == 20
        df = spark.read.format("twostage").options(**options).load(table.location)
        assert sorted(row.id for row in df.where("k >= 2").collect()) == [
            start + i for start in range(0, 600, 30) for i in range(30) if i % 10 not in (0, 1, 3, 7)
        ]
        report = twostage.last_scan(spark)
        assert report.count("delete_files.opened") == 0
        assert report.count("delete_compiled.hits") == 20
