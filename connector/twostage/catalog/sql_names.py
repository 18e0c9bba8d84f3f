"""Detect a wrong catalog name in a SQL catalog.

The database of a SQL catalog stores the tables of several catalogs, each row with its catalog's name. If nothing was
found, and the database has rows of other catalogs only, then the name of the catalog is wrong, not that of the table.
Source: ``catalog_name`` in Iceberg's JdbcCatalog and PyIceberg's SqlCatalog.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from twostage.catalog.client import call
from twostage.catalog.properties import is_sql
from twostage.errors import OptionError, nearest

if TYPE_CHECKING:
    from twostage.catalog.client import CatalogReference

MAX_NAMES_READ = 100
"""Catalog names to read from the database."""


def check_name(catalog: CatalogReference) -> None:
    """Raise if the catalog is a SQL catalog whose database has rows of other catalogs only.

    Raises:
        OptionError: The hint names the catalogs in the database.
    """
    if not is_sql(catalog.properties):
        return
    names = call(catalog, lambda opened: _names(opened, catalog.name))
    if not names or catalog.name in names:
        return
    shown = ", ".join(names[:10]) + (", …" if len(names) > 10 else "")
    close = nearest(catalog.name, names)
    raise OptionError(
        "CATALOG_NAME_NOT_FOUND",
        f"The database of SQL catalog {catalog.name} has no tables under this name, but has under: {shown}",
        stage="catalog",
        hint="A SQL catalog keeps its tables under the name that it had when they were written: configure "
        f"spark.sql.catalog.{names[0] if len(names) == 1 else '<that name>'} instead."
        + (f" {close}" if close.startswith("Did you mean") else ""),
    )


def _names(opened: Any, own: str) -> list[str]:
    """Return the names of the catalogs in the database: `own` alone if it is one of them, else the first of the others."""
    from pyiceberg.catalog.sql import IcebergNamespaceProperties, IcebergTables  # noqa: PLC0415
    from sqlalchemy import select, union  # noqa: PLC0415

    columns = (IcebergTables.catalog_name, IcebergNamespaceProperties.catalog_name)
    with opened.engine.connect() as connection:
        if connection.execute(union(*(select(one).where(one == own) for one in columns)).limit(1)).first():
            return [own]
        names = connection.execute(union(*map(select, columns)).limit(MAX_NAMES_READ))
        return sorted(str(name) for (name,) in names)
