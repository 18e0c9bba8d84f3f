"""ORC files written by Spark (the Java library), in several time zones: Spark's own Parquet copy is the truth."""

from __future__ import annotations

import os
import subprocess
import sys

import pyarrow as pa
import pyarrow.parquet
import pytest

from declared.types import Column, ListOf, MapOf, Struct
from formats_bounds import assert_bounds_hold
from opened import open_file, read_all, schema_of
from twostage.formats.orc.tail import read_stripe_footer, read_tail

pytest.importorskip("pyspark")
CASES = [("UTC", "zstd"), ("America/New_York", "snappy"), ("Asia/Kolkata", "lz4")]
PROGRAM = """
import sys
from pyspark.sql import SparkSession
root, *cases = sys.argv[1:]
spark = (SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    .config("spark.driver.memory", "1g").config("spark.hadoop.orc.stripe.size", "65536")
    .config("spark.hadoop.orc.stripe.row.count", "1500").getOrCreate())
for case in cases:
    zone, codec = case.split(":")
    folder = f"{root}/{codec}"
    spark._jvm.java.util.TimeZone.setDefault(spark._jvm.java.util.TimeZone.getTimeZone(zone))
    spark.conf.set("spark.sql.session.timeZone", zone)
    spark.conf.set("spark.sql.orc.compression.codec", codec)
    spark.sql('''select id, if(id % 7 = 0, null, id * id * if(id % 2 = 0, 1, -1)) as l, cast(hash(id) as int) as i,
      cast(id / 3 as float) as f, if(id % 50 = 0, double('NaN'), id / 7) as d, cast(id / 100 as decimal(9,2)) as dec9,
      cast(id * 1234567.891 as decimal(38,10)) as dec38, cast(cast(id as string) as binary) as bin,
      concat('w', id % 17) as dict, concat('unique-', hash(id)) as str,
      timestamp_micros(id * 3600123456789 - 2000000000000000) as ts,
      cast(timestamp_micros(id * 3600123456789 - 2000000000000000) as timestamp_ntz) as ntz,
      date_add(date'1900-01-01', cast(id * 13 as int)) as da, id % 3 = 0 as bo,
      if(id % 5 = 0, null, array(id, id + 1, null)) as arr, map(concat('k', id), struct(id as u, 'v' as v)) as m,
      if(id % 4 = 0, null, struct(id as x, if(id % 3 = 0, null, 'y') as y)) as st,
      if(id % 1000 = 5, id * 1000000000000, id % 20) as patched, id div 10 as sorted
      from range(5000)''').coalesce(1).write.orc(folder + "/orc")
    spark.read.orc(folder + "/orc").selectExpr("* except (ts, ntz)", "unix_micros(ts) as ts",
      "unix_micros(cast(date_format(ntz, 'yyyy-MM-dd HH:mm:ss.SSSSSS') || 'Z' as timestamp)) as ntz"
    ).write.parquet(folder + "/parquet")
spark.stop()
"""
COLUMNS = [
    Column(1, "id", "long"),
    Column(2, "l", "long"),
    Column(3, "i", "int"),
    Column(4, "f", "float"),
    Column(5, "d", "double"),
    Column(6, "dec9", "decimal(9,2)"),
    Column(7, "dec38", "decimal(38,10)"),
    Column(8, "bin", "binary"),
    Column(9, "dict", "string"),
    Column(10, "str", "string"),
    Column(11, "ts", "timestamptz"),
    Column(12, "ntz", "timestamp"),
    Column(13, "da", "date"),
    Column(14, "bo", "boolean"),
    Column(15, "arr", ListOf(Column(16, "element", "long"))),
    Column(
        17,
        "m",
        MapOf(
            Column(18, "key", "string", required=True),
            Column(19, "value", Struct((Column(20, "u", "long"), Column(21, "v", "string")))),
        ),
    ),
    Column(22, "st", Struct((Column(23, "x", "long"), Column(24, "y", "string")))),
    Column(25, "patched", "long"),
    Column(26, "sorted", "long"),
]


def mapping_of(columns):
    """Return the name mapping of columns, for files without ids."""
    result = []
    for column in columns:
        kind, inner = column.type, ()
        if isinstance(kind, Struct):
            inner = kind.fields
        elif isinstance(kind, ListOf):
            inner = (kind.element,)
        elif isinstance(kind, MapOf):
            inner = (kind.key, kind.value)
        result.append({"field-id": column.id, "names": [column.name], "fields": list(mapping_of(inner))})
    return tuple(result)


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """Write a folder for each case, by one Spark."""
    root = tmp_path_factory.mktemp("spark")
    command = [sys.executable, "-c", PROGRAM, str(root), *(f"{zone}:{codec}" for zone, codec in CASES)]
    environment = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1"}
    subprocess.run(command, check=True, capture_output=True, timeout=240, env=environment)
    return root


@pytest.mark.parametrize(("zone", "codec"), CASES)
def test_a_file_of_spark(zone, codec, written):
    folder = written / codec
    (path,) = (folder / "orc").glob("*.orc")
    truth = pa.parquet.read_table(folder / "parquet")
    schema, mapping = schema_of(COLUMNS), mapping_of(COLUMNS)
    groups = read_all(path, schema, mapping=mapping)
    assert len(groups) > 1
    for place, column in enumerate(COLUMNS):
        found = pa.chunked_array([arrays[place] for arrays in groups])
        if column.name in ("ts", "ntz"):
            found = found.cast(pa.int64())
        assert repr(found.to_pylist()) == repr(truth[column.name].to_pylist()), column.name
    with pa.OSFile(str(path)) as file:
        tail = read_tail(file, file.size())
        assert read_stripe_footer(file, tail, tail.stripes[0]).time_zone == zone
    known = 0
    with open_file(path, schema, mapping=mapping) as file:
        for group, arrays in zip(file.row_groups(), groups, strict=True):
            known += assert_bounds_hold(file, group, COLUMNS, arrays)
    assert known > 8 * len(groups)
