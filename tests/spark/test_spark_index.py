"""``twostage.index`` and ``index --spark``: Spark jobs build indexes."""

from __future__ import annotations

import pytest

import twostage
from tables import Table
from twostage.__main__ import main
from twostage.errors import NotFoundError


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
    assert indexes.refresh() == 1
    verified = indexes.verify(None)
    assert (verified.data_files, verified.wrong, verified.without_index) == (4, [], 0)
    assert indexes.clean()[0] == 0
    assert indexes.drop("id, k") > 4
    assert indexes.create("k", "values") == 4
    assert indexes.drop() > 4
    with pytest.raises(NotFoundError, match="has no indexes"):
        indexes.refresh()


def test_by_the_command_line(spark, tmp_path, capsys):
    table = make(tmp_path / "t")
    assert main(["index", "create", str(table.folder), "--columns", "k", "--kind", "values", "--spark"]) == 0
    assert "3 data files: 3 indexed" in capsys.readouterr().err
    assert main(["index", "verify", str(table.folder), "--all"]) == 0
