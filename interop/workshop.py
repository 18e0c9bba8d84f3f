"""Makes tables through Iceberg's own writer, and remembers the snapshots that a case will query."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import iceberg_java

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql import SparkSession


Row = tuple[Any, ...]


@dataclass
class Workshop:
    """Makes tables through Iceberg and remembers the snapshots that a build marked."""

    spark: SparkSession
    marks: dict[str, int] = field(default_factory=dict)
    built: set[str] = field(default_factory=set)

    def sql(self, *statements: str) -> None:
        """Run statements for their effect."""
        for statement in statements:
            self.spark.sql(statement).collect()

    def create(
        self, name: str, columns: str, *, version: int = 2, partitioned: str = "", **properties: str
    ) -> None:
        """Create a table with merge-on-read deletes; in a property's name ``__`` becomes ``.``, and ``_``
        becomes ``-``."""
        known = {"format-version": str(version), "write.metadata.delete-after-commit.enabled": "false"}
        known["read.split.adaptive-size.enabled"] = (
            "false"  # one task for Iceberg's own scans, which halves their time
        )
        known |= {f"write.{kind}.mode": "merge-on-read" for kind in ("delete", "update", "merge")}
        known |= {key.replace("__", ".").replace("_", "-"): value for key, value in properties.items()}
        listed = ", ".join(f"'{key}'='{value}'" for key, value in known.items())
        clause = f"PARTITIONED BY ({partitioned})" if partitioned else ""
        self.sql(f"CREATE TABLE {name} ({columns}) USING iceberg {clause} TBLPROPERTIES ({listed})")

    def append(self, name: str, rows: Sequence[Row], columns: str, *, branch: str = "") -> None:
        """Append the rows, in their order, as one file (per partition)."""
        frame = self.spark.createDataFrame(rows, columns).coalesce(1)
        frame.writeTo(f"{name}.branch_{branch}" if branch else name).append()

    def delete_equal(self, name: str, columns: Sequence[str], keys: str, **options: Any) -> None:
        """Commit an equality delete file; see `iceberg_java.delete_equal`."""
        iceberg_java.delete_equal(self.spark, name, columns, keys, **options)

    def mark(self, name: str, mark: str) -> None:
        """Remember the table's current snapshot."""
        self.marks[f"@{mark}"] = iceberg_java.load(self.spark, name).currentSnapshot().snapshotId()

    def build_once(self, name: str, build: Callable[[Workshop, str], None]) -> None:
        """Make the table unless an earlier case did."""
        if name not in self.built:
            build(self, name)
            self.built.add(name)

    def resolve(self, text: str) -> str:
        """Replace the marks in a version by their snapshot ids."""
        for mark, snapshot in self.marks.items():
            text = text.replace(mark, str(snapshot))
        return text
