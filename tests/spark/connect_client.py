"""A test's Spark Connect client, in its own process: reads, SQL, and user errors.

Arguments: the remote (``sc://…``), a table's folder, and the folder of two copies of it: in ``missing`` a
    data file is missing, in ``damaged`` one is not Parquet. Prints one line of JSON: each case's answer, or
    its error's class and text.
"""

from __future__ import annotations

import json
import sys

from pyspark.sql import SparkSession

import twostage

REMOTE, TABLE, COPIES = sys.argv[1:]


def main() -> None:
    spark = SparkSession.builder.remote(REMOTE).getOrCreate()

    def load(path=TABLE, **options):
        return spark.read.format("twostage").options(**options).load(path)

    def ids(frame):
        return sorted(row.id for row in frame.collect())

    cases = {
        "where": lambda: ids(load().where("id % 2 = 1 AND id >= 290")),
        "options": lambda: ids(load(filter="id >= 295", columns="id")),
        "columns": lambda: load(columns="id, device").columns,
        "plan": lambda: load().where("id >= 295").select("id")._explain_string(),
        "sql": lambda: spark.sql("SELECT count(*) FROM lake.db.events VERSION AS OF 'audit'").collect()[0][0],
        "filter": lambda: ids(load(filter="id % 2 = 1")),
        "like": lambda: ids(load(filter="device LIKE 'd_'")),
        "syntax": lambda: ids(load(filter="id <")),
        "unknown column": lambda: ids(load(filter="nope = 1")),
        "unknown columns": lambda: ids(load(columns="idd")),
        "unknown option": lambda: ids(load(brnch="x")),
        "no table": lambda: ids(spark.read.format("twostage").load(TABLE + "-not")),
        "missing": lambda: ids(load(f"{COPIES}/missing", **{"allow-moved-paths": "true"})),
        "damaged": lambda: ids(load(f"{COPIES}/damaged", **{"allow-moved-paths": "true"})),
        "write": lambda: load().write.format("twostage").mode("append").save(TABLE),
        "enable": lambda: twostage.enable(spark),
        "last_scan": lambda: twostage.last_scan(spark),
        "scans": lambda: twostage.scans(spark),
    }
    found = {}
    for name, case in cases.items():
        for shown in ("true", "false"):
            spark.conf.set("spark.sql.connect.serverStacktrace.enabled", shown)
            try:
                found[name] = case()
                break
            except Exception as error:
                key = name if shown == "true" else f"{name}, short"
                found[key] = [type(error).__name__, str(error)]
    print("FOUND", json.dumps(found))


if __name__ == "__main__":
    main()
