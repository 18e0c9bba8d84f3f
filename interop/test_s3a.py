"""Full scans of tables in S3 go to Spark's reader over Hadoop's own S3A, configured for Spark alone.

The server is the tests' own, on this machine: it checks no signatures, so a wrong key goes unnoticed here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import twostage
from s3_server import S3, serve
from tables import Table

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession


def configure(session: SparkSession, server: S3) -> None:
    """Let Hadoop's S3A reach the server."""
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
        configure(session, server)
        rows = {}
        for native in ("auto", "never"):
            reader = session.read.format("twostage").options(**server.options).option("scan.native", native)
            rows[native] = sorted(tuple(row) for row in reader.load(table.location).collect())
            assert twostage.last_scan(session).is_handed_over == (native == "auto")
    assert rows["auto"] == rows["never"] == [(n, f"n{n % 7}") for n in range(200) if n not in (3, 5)]


@pytest.mark.parametrize("written_at", ["hdfs://namenode:8020/w/t", "/w/t", "s3://elsewhere/t"])
def test_rows_of_a_moved_table(spark: SparkSession, tmp_path: Path, written_at: str) -> None:
    table = Table(tmp_path / "moved", {"id": "long"})
    table.location = written_at
    first = table.append([{"id": n} for n in range(100)])
    table.delete_positions({first: [3, 5]})
    table.write()
    session = spark.newSession()
    with serve(tmp_path) as server:
        configure(session, server)
        rows = {}
        for native in ("auto", "never"):
            reader = session.read.format("twostage").options(**server.options)
            reader = reader.option("scan.native", native).option("allow-moved-paths", "true")
            rows[native] = sorted(row.id for row in reader.load("s3a://lake/moved").collect())
            assert twostage.last_scan(session).is_handed_over == (native == "auto")
    assert rows["auto"] == rows["never"] == [n for n in range(100) if n not in (3, 5)]
