"""Parquet files that Arrow refuses, through Spark: the rows that Spark's own reader has of the same file."""

from __future__ import annotations

import pytest

from annotated_files import CASES, COUNT, DATA, annotate, loose_maps
from single_file_tables import single_file_table

READ_BY_SPARK = [name for name in CASES if name.startswith("null type on a") and "struct" not in name]


@pytest.mark.parametrize("name", [*READ_BY_SPARK, "optional keys"])
def test_files_that_arrow_refuses_have_sparks_rows(spark, tmp_path, name):
    path = tmp_path / "file.parquet"
    if name == "optional keys":
        data = loose_maps(path)
    else:
        data = DATA
        annotate(path, data, CASES[name])
    metadata = single_file_table(tmp_path / "table", path, data.schema, COUNT, "parquet")
    spark.read.parquet(str(path)).createOrReplaceTempView("oracle")
    reader = spark.read.format("twostage").option("allowed-locations", str(tmp_path))
    reader.load(str(metadata)).createOrReplaceTempView("ours")
    for query in (
        "SELECT * FROM {} ORDER BY id",
        "SELECT id FROM {} ORDER BY id",
        "SELECT m['k1'], id FROM {} WHERE id IN (237, 11) ORDER BY id",
        "SELECT sum(size(m)), count(m) FROM {}",
    ):
        assert spark.sql(query.format("ours")).collect() == spark.sql(query.format("oracle")).collect()
