"""SQL catalogs hold the tables of several catalogs in one database, each row under its catalog's name.

Takes a SQL catalog in which nothing was found; raises if its database knows other names only, since then the name,
and not the table, is what is wrong. Source: ``catalog_name`` in Iceberg's JdbcCatalog and PyIceberg's SqlCatalog.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from twostage.catalog.client import call
from twostage.catalog.properties import is_sql
from twostage.errors import OptionError, nearest

if TYPE_CHECKING:
    from twostage.catalog.client import CatalogReference

MOST_NAMES = 100


def check_name(catalog: CatalogReference) -> None:
    """Return if the catalog is no SQL catalog, or its database holds something under its name, or nothing at all.

    Raises:
        OptionError: The database holds other catalogs only.
    """
    if not is_sql(catalog.properties):
        return
    names = call(catalog, _names)
    if not names or catalog.name in names:
        return
    shown = ", ".join(names[:10]) + (", …" if len(names) > 10 else "")
    close = nearest(catalog.name, names)
    raise OptionError(
        "CATALOG_NAME_NOT_FOUND",
        f"The database of SQL catalog {catalog.name} holds nothing under this name, but under: {shown}",
        stage="catalog",
        hint="A SQL catalog keeps its tables under the name that it had when they were written: configure "
        f"spark.sql.catalog.{names[0] if len(names) == 1 else '<that name>'} instead."
        + (f" {close}" if close.startswith("Did you mean") else ""),
    )


def _names(opened: Any) -> list[str]:
    from pyiceberg.catalog.sql import IcebergNamespaceProperties, IcebergTables  # noqa: PLC0415
    from sqlalchemy import select, union  # noqa: PLC0415

    both = union(select(IcebergTables.catalog_name), select(IcebergNamespaceProperties.catalog_name))
    with opened.engine.connect() as connection:
        return sorted(str(name) for (name,) in connection.execute(both.limit(MOST_NAMES)))
