"""``compile-deletes --spark``: a Spark job compiles, and Spark's scans open no equality-delete file after it."""

from __future__ import annotations

import twostage
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
