"""Full scans of tables in S3 go to Spark's reader over Hadoop's own S3A, configured for Spark alone.

The server is the tests' own, on this machine: it checks no signature, so that a wrong key is not noticed here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import twostage
from s3_server import serve
from tables import Table

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession


@pytest.mark.parametrize("written_as", ["s3", "s3a"])
def test_rows_through_s3a(spark: SparkSession, tmp_path: Path, written_as: str) -> None:
    table = Table(tmp_path / written_as, {"id": "long", "name": "string"})
    table.location = f"{written_as}://lake/{written_as}"
    first = table.append([{"id": n, "name": f"n{n % 7}"} for n in range(100)])
    table.append([{"id": n, "name": f"n{n % 7}"} for n in range(100, 200)])
    table.delete_positions({first: [3, 5]})
    table.write()
    session = spark.newSession()
    with serve(tmp_path) as server:
        for key, value in {
            "endpoint": server.endpoint,
            "endpoint.region": "us-east-1",
            "access.key": "key",
            "secret.key": "secret",
            "path.style.access": "true",
            "connection.ssl.enabled": "false",
            "impl.disable.cache": "true",
        }.items():
            session.conf.set(f"fs.s3a.{key}", value)
        rows = {}
        for native in ("auto", "never"):
            reader = session.read.format("twostage").options(**server.options).option("scan.native", native)
            rows[native] = sorted(tuple(row) for row in reader.load(table.location).collect())
            assert twostage.last_scan(session).is_handed_over == (native == "auto")
    assert rows["auto"] == rows["never"] == [(n, f"n{n % 7}") for n in range(200) if n not in (3, 5)]
