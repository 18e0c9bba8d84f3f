"""A wrong name of a SQL catalog: only a database that holds other catalogs' rows alone proves it."""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING

import pytest
from pyiceberg.catalog.sql import SqlCatalog

from twostage.catalog import client
from twostage.catalog.client import get_catalog
from twostage.catalog.sql_names import MAX_NAMES_READ, check_name
from twostage.errors import OptionError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Path]:
    """A database with PyIceberg's tables, and no rows in them."""
    path = tmp_path / "catalog.db"
    SqlCatalog("any", uri=f"sqlite:///{path}", warehouse=str(tmp_path)).close()
    yield path
    for opened in client._catalogs.values():
        opened.close()
    client._catalogs.clear()


@pytest.fixture
def check(database: Path) -> Callable[[str], None]:
    """Check a name of a catalog over the database."""

    def checked(name: str) -> None:
        prefix = f"spark.sql.catalog.{name}"
        check_name(get_catalog(name, {f"{prefix}.type": "jdbc", f"{prefix}.uri": f"jdbc:sqlite:{database}"}))

    return checked


def add_tables(database: Path, *catalogs: str) -> None:
    with sqlite3.connect(database) as connection:
        connection.executemany(
            "INSERT INTO iceberg_tables (catalog_name, table_namespace, table_name) VALUES (?, 'db', 't')",
            [(name,) for name in catalogs],
        )
    connection.close()


def add_namespaces(database: Path, *catalogs: str) -> None:
    with sqlite3.connect(database) as connection:
        connection.executemany(
            "INSERT INTO iceberg_namespace_properties (catalog_name, namespace, property_key, property_value)"
            " VALUES (?, 'db', 'exists', 'true')",
            [(name,) for name in catalogs],
        )
    connection.close()


def test_an_empty_database_proves_nothing(check: Callable[[str], None]) -> None:
    check("lake")


@pytest.mark.parametrize("add", [add_tables, add_namespaces])
def test_a_name_that_has_a_table_or_a_namespace_is_right(
    database: Path, check: Callable[[str], None], add: Callable[..., None]
) -> None:
    add(database, "lake", "other")
    check("lake")
    with pytest.raises(OptionError, match=r"CATALOG_NAME_NOT_FOUND.*under: lake, other;?"):
        check("laek")


def test_the_only_other_name_is_the_hint(database: Path, check: Callable[[str], None]) -> None:
    add_tables(database, "production")
    with pytest.raises(OptionError) as caught:
        check("test")
    assert (caught.value.code, caught.value.stage) == ("CATALOG_NAME_NOT_FOUND", "catalog")
    assert "configure spark.sql.catalog.production instead." in str(caught.value.hint)
    assert "Did you mean" not in str(caught.value.hint)


def test_of_several_names_the_nearest_is_the_hint(database: Path, check: Callable[[str], None]) -> None:
    add_tables(database, *(f"name{n:02}" for n in range(12)), "lake")
    with pytest.raises(OptionError) as caught:
        check("laek")
    assert "under: lake, name00, name01" in str(caught.value)
    assert "name08, …" in str(caught.value)
    assert "name09" not in str(caught.value)
    assert "spark.sql.catalog.<that name> instead. Did you mean 'lake'?" in str(caught.value.hint)


def test_other_catalogs_have_no_such_database(tmp_path: Path) -> None:
    confs = {"spark.sql.catalog.h.type": "hadoop", "spark.sql.catalog.h.warehouse": str(tmp_path)}
    check_name(get_catalog("h", confs))


def test_a_name_behind_many_others_is_found(database: Path, check: Callable[[str], None]) -> None:
    """Of a large database only some names are read: the catalog's own is looked for by itself."""
    add_tables(database, *(f"name{i:03}" for i in range(MAX_NAMES_READ)), "zebra")
    check("zebra")
