"""``twostage.index`` and ``index --spark``: Spark jobs build indexes."""

from __future__ import annotations

import pytest

import twostage
from lakehouse import executed_plan
from tables import Table
from twostage.__main__ import main
from twostage.errors import NotFoundError, OptionError


def make(folder):
    table = Table(folder, {"id": "long", "k": "string"})
    for start in range(0, 90, 30):
        table.append([{"id": start + row, "k": f"k{row % 7}"} for row in range(30)])
    table.write()
    return table


def test_spark_jobs_build_indexes(spark, tmp_path):
    table = make(tmp_path / "t")
    options = {"index.location": str(tmp_path / "indexes")}
    indexes = twostage.index(spark, str(table.folder), options)
    assert indexes.list() == []
    assert indexes.create(["id", "k"], "values,postings,files") == 3
    table.append([{"id": 1_000, "k": None}])
    table.write()
    (status,) = indexes.list()
    assert (status.indexed, status.data_files) == (3, 4)
    told = []
    assert indexes.refresh(progress=lambda done, of: told.append((done, of))) == 1
    assert told[-1] == (1, 1)
    verified = indexes.verify(None)
    assert (verified.data_files, verified.wrong, verified.without_index) == (4, [], 0)
    assert indexes.clean()[0] == 0
    assert indexes.drop("id, k") > 4
    assert indexes.create("k", "values") == 4
    assert indexes.drop() > 4
    with pytest.raises(NotFoundError, match="has no indexes"):
        indexes.refresh()


def test_a_list_has_names_as_they_are_and_a_text_has_them_in_backticks(spark, tmp_path):
    names = ("a,b", "c d", "e.f", "g`h")
    table = Table(tmp_path / "t", {"id": "long", **dict.fromkeys(names, "int")})
    table.append([{"id": row, **dict.fromkeys(names, row % 7)} for row in range(60)])
    table.write()
    indexes = twostage.index(spark, str(table.folder))
    for given in (list(names), ["`a,b`", "`c d`", "`e.f`", "`g``h`"], "`a,b`, c d, `e.f`, `g``h`"):
        assert indexes.create(given, "values") == 1
        (status,) = indexes.list()
        assert tuple(status.columns) == names
        assert indexes.drop(given) == 2
    with pytest.raises(OptionError, match=r"in backticks: `a,b`"):
        indexes.create("a,b", "values")


def test_by_the_command_line(spark, tmp_path, capsys):
    table = make(tmp_path / "t")
    assert main(["index", "create", str(table.folder), "--columns", "k", "--kind", "values", "--spark"]) == 0
    assert "3 data files: 3 indexed" in capsys.readouterr().err
    assert main(["index", "verify", str(table.folder), "--all"]) == 0


def test_explain_and_the_report_name_indexes_and_their_bytes(spark, tmp_path):
    table = Table(tmp_path / "t", {"id": "long", "k": "string"})
    rows = 60_000
    table.append([{"id": n, "k": f"key-{n * 7919 % rows:06}-{n * 104_729 % 1_000_003}"} for n in range(rows)])
    table.write()
    twostage.index(spark, str(table.folder)).create(["k"], "postings,files")
    frame = spark.read.format("twostage").load(str(table.folder))
    wanted = f"key-{7919 * 5:06}-{104_729 * 5 % 1_000_003}"
    asked = frame.where(f"k = '{wanted}'")
    for frame_of in (asked, frame.where("id > 5")):
        assert "indexes [k (postings, files)]" in executed_plan(frame_of)
    assert "indexes [" not in executed_plan(frame)
    assert [row.id for row in asked.select("id").collect()] == [5]
    report = twostage.last_scan(spark)
    ((text, cost),) = (
        (text, cost) for text, cost in report.metrics.predicates.items() if "by index, " in text
    )
    assert text == f"k = '{wanted}': by index, at most"
    assert (cost.rows_in, cost.index_bytes) == (rows, report.count("indexes.bytes_read"))
    assert 1 <= cost.rows_out < 5
    assert 0 < cost.index_bytes < 40_000
    (line,) = (line for line in str(report).splitlines() if ": by index, at most" in line)
    assert line.rstrip().endswith(" KiB"), line
    assert "of indexes" in str(report)
