"""An environment without the developer's own catalogs; and, by name, a catalog in SQLite, a hadoop warehouse, a REST service."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.types import StringType

from rest_catalog import VENDED, Rest, serve_rest
from twostage.catalog import client

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


@pytest.fixture(autouse=True)
def no_configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Hide ``.pyiceberg.yaml`` and ``PYICEBERG_*`` of whoever runs the tests; return the empty home."""
    for name in [name for name in os.environ if name.upper().startswith("PYICEBERG_")]:
        monkeypatch.delenv(name)
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("PYICEBERG_HOME", str(home))
    monkeypatch.chdir(home)
    return home


@pytest.fixture(autouse=True)
def no_open_catalogs() -> Iterator[None]:
    """The process keeps catalogs open: none of one test is there in the next."""
    yield
    for opened in client._catalogs.values():
        if hasattr(opened, "close"):
            opened.close()
    client._catalogs.clear()


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[SqlCatalog]:
    """A SQLite catalog ``lake`` with ``db.events`` of two snapshots, a branch and a tag, and ``db.other``."""
    (tmp_path / "warehouse").mkdir()
    catalog = SqlCatalog(
        "lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=f"file://{tmp_path}/warehouse"
    )
    catalog.create_namespace("db")
    catalog.create_namespace(("db", "nested"))
    schema = pa.schema([("a", pa.int64())])
    events = catalog.create_table("db.events", schema)
    events.append(pa.table({"a": [1]}))
    first = events.metadata.current_snapshot_id
    assert first is not None
    events.manage_snapshots().create_tag(first, "v1").create_branch(first, "audit").commit()
    events.append(pa.table({"a": [2]}))
    with events.update_schema() as update:
        update.add_column("b", StringType())
    catalog.create_table(("db", "nested", "deep"), schema)
    catalog.create_table("db.other", schema)
    yield catalog
    catalog.close()
    for opened in client._catalogs.values():
        opened.close()
    client._catalogs.clear()


@pytest.fixture
def warehouse(tmp_path: Path, write_table: Callable[..., Path]) -> dict[str, str]:
    """A hadoop catalog ``h``: db.events, db.logs, db.deep.t, and a table ``top`` without a namespace."""
    for names in ("db/events", "db/logs", "db/deep/t", "top"):
        write_table(tmp_path / "w" / names)
    (tmp_path / "w" / "db" / "_tmp").mkdir()
    (tmp_path / "w" / "empty").mkdir()
    return {
        "spark.sql.catalog.h": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.h.type": "hadoop",
        "spark.sql.catalog.h.warehouse": f"file://{tmp_path}/w",
    }


@pytest.fixture
def rest(metadata_of: Callable[..., dict[str, Any]]) -> Iterator[Rest]:
    """A REST catalog ``r`` with ``db.events``."""
    location = "s3://lake/db/events"
    answer = {
        "metadata": metadata_of(location, properties={"py-other": "x"}),
        "config": {"s3.access-key-id": "vended", "s3.secret-access-key": VENDED, "token": VENDED},
    }
    with serve_rest(location, answer) as server:
        yield server
