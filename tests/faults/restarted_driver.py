"""The program that `test_driver_restart.py` kills and starts again: one session, one query, one line of JSON.

Takes the table, the folder of the faults and Spark's settings; prints the rows' ids, sorted.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import faulty_reader

import twostage


def main() -> None:
    """Run the query under the order that the folder holds."""
    from pyspark.sql import SparkSession

    table, folder, confs = sys.argv[1:]
    os.environ[faulty_reader.FOLDER] = faulty_reader.FaultyReader.folder = folder
    builder = SparkSession.builder.master("local[2,4]")
    for key, value in json.loads(confs).items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    twostage.enable(spark)
    faulty_reader.install()
    (Path(folder) / "gateway").write_text(str(spark.sparkContext._gateway.proc.pid))
    reader = spark.read.format("twostage").option("split-size", "1k").option("batch-size", "100")
    frame = reader.option("scan.native", "never").load(table)
    found = sorted(row.id for row in frame.where("id % 3 <> 0").select("id", "s").collect())
    print("ROWS " + json.dumps(found), flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
