"""Tables of every format version in a SQL catalog, registered as their writers left them."""

from __future__ import annotations

import gzip
import sqlite3
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyiceberg.catalog.sql import SqlCatalog

from catalog_tables import TABLES, CatalogTable
from core_scan import Opened, open_table, scan
from twostage.catalog import client
from twostage.catalog.browse import list_namespaces, list_tables, namespace_exists, table_exists
from twostage.catalog.load_table import load_table
from twostage.columns import project_names, spark_schema
from twostage.errors import CorruptFileError, MissingFileError, NotFoundError, OptionError
from twostage.options import parse_options
from twostage.spark.source import visible_schema

if TYPE_CHECKING:
    from collections.abc import Iterator

METADATA_TABLES = ("files", "snapshots", "history", "manifests", "refs", "entries", "metadata_log_entries")


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Path]:
    """A catalog ``lake`` in SQLite with the namespace ``db``, made by PyIceberg."""
    path = tmp_path / "catalog.db"
    catalog = SqlCatalog("lake", uri=f"sqlite:///{path}", warehouse=str(tmp_path))
    catalog.create_namespace("db")
    catalog.close()
    yield path
    for opened in client._catalogs.values():
        opened.close()
    client._catalogs.clear()


def register(database: Path, name: str, metadata: Path | str, catalog: str = "lake") -> None:
    """Write the row that `register_table` writes; PyIceberg's parses the metadata, which version 3 may forbid."""
    with sqlite3.connect(database) as connection:
        connection.execute(
            "INSERT INTO iceberg_tables (catalog_name, table_namespace, table_name, metadata_location, iceberg_type)"
            " VALUES (?, 'db', ?, ?, 'TABLE')",
            (catalog, name, str(metadata)),
        )
    connection.close()


def confs_of(database: Path, name: str = "lake") -> dict[str, str]:
    prefix = f"spark.sql.catalog.{name}"
    return {prefix: "twostage", f"{prefix}.type": "jdbc", f"{prefix}.uri": f"jdbc:sqlite:{database}"}


def opened(path: str, confs: dict[str, str], held: CatalogTable) -> Opened:
    options = parse_options({"path": path, **held.options})
    return Opened(load_table(options, confs), options)


def read(table: Opened, names: list[str]) -> list[tuple[Any, ...]]:
    fields = project_names(visible_schema(table.table, table.options), tuple(names))
    return sorted(scan(table, fields).rows, key=repr)


@pytest.mark.parametrize("name", TABLES)
def test_every_version_is_read(tmp_path: Path, database: Path, name: str) -> None:
    held = TABLES[name](tmp_path / name)
    register(database, name, held.metadata)
    table = opened(f"lake.db.{name}", confs_of(database), held)
    by_path = open_table(held.metadata, **{key.replace("-", "_"): text for key, text in held.options.items()})
    assert table.table.metadata == by_path.table.metadata
    assert table.table.storage.root == by_path.table.storage.root
    names = [part for part in held.select.split(", ") if part.isidentifier() and part != "v"]
    found = read(table, names)
    assert found == read(by_path, names)
    assert sorted(row[0][1] for row in found) == [row[0] for row in held.rows]
    assert {
        field["name"]: {"long": "bigint", "integer": "int"}.get(field["type"], field["type"])
        for field in spark_schema(
            project_names(visible_schema(table.table, table.options), tuple(held.types))
        )["fields"]
    } == held.types


@pytest.mark.parametrize("name", ["version_1", "vectors", "variants"])
@pytest.mark.parametrize("metadata_table", METADATA_TABLES)
def test_metadata_tables(tmp_path: Path, database: Path, name: str, metadata_table: str) -> None:
    held = TABLES[name](tmp_path / name)
    register(database, name, held.metadata)
    found = opened(f"lake.db.{name}.{metadata_table}", confs_of(database), held)
    assert found.table.metadata_table == metadata_table
    fields = tuple(field for field in found.table.schema.fields if field.name != "readable_metrics")
    assert scan(found, fields).rows


def test_names_of_every_version(tmp_path: Path, database: Path) -> None:
    for name in ("version_1", "vectors", "variants"):
        register(database, name, TABLES[name](tmp_path / name).metadata)
    confs = confs_of(database)
    assert list_tables("lake", ("db",), confs) == ["variants", "vectors", "version_1"]
    assert all(table_exists("lake", ("db",), name, confs) for name in ("version_1", "vectors", "variants"))
    assert not table_exists("lake", ("db",), "absent", confs)


@pytest.mark.parametrize("name", ["v1.gz.metadata.json", "v1.metadata.json.gz", "packed.json"])
def test_packed_metadata_of_any_name(tmp_path: Path, database: Path, name: str) -> None:
    """PyIceberg unpacks what ends in ``.gz.metadata.json`` alone."""
    held = TABLES["vectors"](tmp_path / "t")
    packed = held.metadata.parent / name
    packed.write_bytes(gzip.compress(held.metadata.read_bytes()))
    register(database, "t", f"file://{packed}")
    assert len(read(opened("lake.db.t", confs_of(database), held), ["id"])) == len(held.rows)


def test_metadata_that_is_gone_or_damaged(tmp_path: Path, database: Path) -> None:
    held = TABLES["vectors"](tmp_path / "t")
    register(database, "t", held.metadata)
    held.metadata.write_text('{"format-version": 3, ')
    with pytest.raises(CorruptFileError, match=r"CORRUPT_METADATA.*not JSON"):
        opened("lake.db.t", confs_of(database), held)
    held.metadata.unlink()
    with pytest.raises(MissingFileError, match="named by catalog lake is missing"):
        opened("lake.db.t", confs_of(database), held)
    assert table_exists("lake", ("db",), "t", confs_of(database))


@pytest.fixture
def elsewhere(tmp_path: Path, database: Path) -> dict[str, str]:
    """The confs of a catalog ``other`` over the database in which everything belongs to ``lake``."""
    register(database, "t", TABLES["vectors"](tmp_path / "t").metadata)
    return confs_of(database, "other")


def test_a_name_that_the_database_does_not_know(elsewhere: dict[str, str]) -> None:
    for ask in (
        lambda: load_table(parse_options({"path": "other.db.t"}), elsewhere),
        lambda: list_tables("other", ("db",), elsewhere),
        lambda: list_namespaces("other", (), elsewhere),
        lambda: namespace_exists("other", ("db",), elsewhere),
        lambda: table_exists("other", ("db",), "t", elsewhere),
    ):
        with pytest.raises(
            OptionError, match=r"CATALOG_NAME_NOT_FOUND.*under: lake.*spark\.sql\.catalog\.lake"
        ):
            ask()


def test_a_name_that_the_database_knows_or_an_empty_database(
    tmp_path: Path, database: Path, elsewhere: dict[str, str]
) -> None:
    register(database, "u", TABLES["version_2"](tmp_path / "u").metadata, catalog="other")
    assert list_namespaces("other", (), elsewhere) == [("db",)]
    with pytest.raises(NotFoundError, match=r"Known: u\."):
        load_table(parse_options({"path": "other.db.zzz"}), elsewhere)
    with sqlite3.connect(database) as connection:
        connection.execute("DELETE FROM iceberg_tables")
        connection.execute("DELETE FROM iceberg_namespace_properties")
    connection.close()
    assert list_namespaces("other", (), elsewhere) == []
    assert not namespace_exists("other", ("db",), elsewhere)
