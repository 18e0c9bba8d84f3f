"""The advisor: queries are logged, their log tells what to index, and a replay checks the prediction.

Run it with ``python examples/advise.py``. It uses the demo's warehouse, and removes the indexes at the end.
"""

from __future__ import annotations

import random
import subprocess
import sys
import tempfile
from typing import TYPE_CHECKING

import demo
import twostage

if TYPE_CHECKING:
    from pathlib import Path

TABLE = "lake.db.events"
QUERIES = 24


def queries(count: int) -> list[str]:
    """Return a day's queries of a support desk: devices, customers, and an occasional report."""
    pick = random.Random(11)
    found = []
    for number in range(count):
        device, user = pick.randrange(50_000), pick.randrange(200, 200_000)
        found.append(f"SELECT ts, kind, payload FROM events WHERE device_id = 'device-{device}'")
        if number % 2:
            found.append(f"SELECT * FROM events WHERE user_id = {user} AND kind = 'buy'")
        if number % 8 == 0:
            found.append("SELECT kind, avg(metric_1) AS mean FROM events WHERE amount > 99990 GROUP BY kind")
    return found


def command(*arguments: str) -> None:
    """Show a command, and run it."""
    print(f"\n$ python -m twostage {' '.join(arguments)}", flush=True)
    subprocess.run([sys.executable, "-m", "twostage", *arguments], check=True)


def main(folder: Path = demo.FOLDER, num_files: int = demo.NUM_FILES, count: int = QUERIES) -> None:
    """Log, advise, build the recommended indexes, check and remove them."""
    demo.make_warehouse(folder, num_files)
    with tempfile.TemporaryDirectory(prefix="twostage-queries-") as log:
        spark = demo.start_spark(folder)
        twostage.enable(spark, query_log=log)
        spark.read.format("twostage").load(TABLE).createOrReplaceTempView("events")
        asked = queries(count)
        print(f"Asking {len(asked)} queries …", flush=True)
        for query in asked:
            spark.sql(query).collect()
        spark.stop()  # by then the log has every query

        catalog = ("--catalog.type=sql", f"--catalog.uri=sqlite:///{folder}/catalog.db")
        command("advise", "--log", log, "--table", TABLE, *catalog, "--apply", "--yes")
        command("index", "list", TABLE, *catalog)
        command("advise", "check", "--log", log, "--table", TABLE, *catalog)
        command("index", "drop", TABLE, *catalog)


if __name__ == "__main__":
    main()
