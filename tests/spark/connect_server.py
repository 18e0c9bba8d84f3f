"""A Spark Connect server in its own Python process, which gives its sessions the planner, or does not.

Arguments: a port, and the confs of the catalog ``lake`` as JSON; with ``null``, the planner is not enabled.
    Prints READY, then the last scan's report for each line that it reads, and ends with its input.
"""

from __future__ import annotations

import json
import sys

from pyspark.sql import SparkSession

import twostage

PORT, CATALOG = sys.argv[1:]

spark = (
    SparkSession.builder.master("local[1]")
    .config("spark.ui.enabled", "false")
    .config("spark.ui.showConsoleProgress", "false")
    .config("spark.driver.memory", "1g")
    .config("spark.plugins", "org.apache.spark.sql.connect.SparkConnectPlugin")
    .config("spark.connect.grpc.binding.address", "127.0.0.1")
    .config("spark.connect.grpc.binding.port", PORT)
    .getOrCreate()
)
if (confs := json.loads(CATALOG)) is not None:
    twostage.enable(spark, catalogs={"lake": confs})
print("READY", flush=True)
for _ in sys.stdin:
    print("REPORT", json.dumps(json.loads(twostage.last_scan(spark).json())), flush=True)
spark.stop()
