"""The SQLite catalog of the fixture `lake`: where it is, and the confs by which Spark names it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def uri(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/catalog.db"


def confs_of(tmp_path: Path, name: str = "lake") -> dict[str, str]:
    prefix = f"spark.sql.catalog.{name}"
    return {
        prefix: "twostage",
        f"{prefix}.catalog-impl": "org.apache.iceberg.jdbc.JdbcCatalog",
        f"{prefix}.uri": f"jdbc:sqlite:{tmp_path}/catalog.db",
        f"{prefix}.warehouse": f"file://{tmp_path}/warehouse",
        f"{prefix}.io-impl": "org.apache.iceberg.hadoop.HadoopFileIO",
    }
