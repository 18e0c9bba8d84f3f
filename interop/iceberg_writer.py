"""A plugin for pytest, ``-p iceberg_writer``: the tables of `tests/cases` are written by Iceberg's own Spark library."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tables import Table


@pytest.fixture(scope="session")
def iceberg_table() -> Iterator[type[Table]]:
    """The kind of table that Iceberg writes."""
    from iceberg_table import IcebergTable, start_session

    IcebergTable.spark = start_session()
    yield IcebergTable
    IcebergTable.spark.stop()
