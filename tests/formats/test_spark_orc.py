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

pytest.importorskip("pyspark")
PROGRAM = """
import sys
from pyspark.sql import SparkSession
folder, zone, codec = sys.argv[1:]
spark = (SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    .config("spark.driver.memory", "1g").config("spark.driver.extraJavaOptions", f"-Duser.timezone={zone}")
    .config("spark.sql.session.timeZone", zone).config("spark.sql.orc.compression.codec", codec)
    .config("spark.hadoop.orc.stripe.size", "65536").config("spark.hadoop.orc.stripe.row.count", "1500")
    .getOrCreate())
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
  from range(5000)''').coalesce(1).createOrReplaceTempView("t")
spark.table("t").write.orc(folder + "/orc")
spark.read.orc(folder + "/orc").selectExpr("* except (ts, ntz)", "unix_micros(ts) as ts",
  "unix_micros(cast(date_format(ntz, 'yyyy-MM-dd HH:mm:ss.SSSSSS') || 'Z' as timestamp)) as ntz").write.parquet(folder + "/parquet")
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


@pytest.mark.parametrize(("zone", "codec"), [("UTC", "zstd"), ("America/New_York", "snappy"), ("Asia/Kolkata", "lz4")])
def test_a_file_of_spark(zone, codec, tmp_path):
    environment = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", "TZ": zone}
    command = [sys.executable, "-c", PROGRAM, str(tmp_path), zone, codec]
    subprocess.run(command, check=True, capture_output=True, timeout=180, env=environment)
    (path,) = (tmp_path / "orc").glob("*.orc")
    truth = pa.parquet.read_table(tmp_path / "parquet")
    schema, mapping = schema_of(COLUMNS), mapping_of(COLUMNS)
    groups = read_all(path, schema, mapping=mapping)
    assert len(groups) > 1
    for place, column in enumerate(COLUMNS):
        found = pa.chunked_array([arrays[place] for arrays in groups])
        if column.name in ("ts", "ntz"):
            found = found.cast(pa.int64())
        assert repr(found.to_pylist()) == repr(truth[column.name].to_pylist()), column.name
    known = 0
    with open_file(path, schema, mapping=mapping) as file:
        for group, arrays in zip(file.row_groups(), groups, strict=True):
            known += assert_bounds_hold(file, group, COLUMNS, arrays)
    assert known > 8 * len(groups)
