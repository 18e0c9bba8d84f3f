"""What a catalog contains: its namespaces and tables.

Takes a catalog's name and the session's confs; returns names, sorted. Works for PyIceberg's catalogs and for hadoop
warehouses, which are folders.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from twostage.catalog.catalog_answer import request_table
from twostage.catalog.client import CatalogReference, call, get_catalog
from twostage.catalog.path_table import check_names, is_table, list_warehouse
from twostage.catalog.properties import file_properties
from twostage.catalog.sql_names import check_name
from twostage.errors import NotFoundError
from twostage.storage.location import join, parse_location
from twostage.task import Storage

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


def list_namespaces(
    catalog: str, parent: Sequence[str] = (), confs: Mapping[str, str] | None = None
) -> list[tuple[str, ...]]:
    """Return the namespaces directly inside `parent`, each by its full name.

    Raises:
        NotFoundError: `parent` does not exist.
    """
    reference, inside = get_catalog(catalog, confs or {}), tuple(parent)
    if inside and not has_namespace(reference, inside):
        raise _no_namespace(reference, inside)
    if reference.is_hadoop:
        names = list_warehouse(open_warehouse(reference), inside, tables=False)
        return [(*inside, name) for name in names]
    found = {tuple(name) for name in call(reference, lambda opened: opened.list_namespaces(inside))}
    if not found:
        check_name(reference)
    return sorted(name for name in found if len(name) == len(inside) + 1)


def list_tables(catalog: str, namespace: Sequence[str], confs: Mapping[str, str] | None = None) -> list[str]:
    """Return the names of the tables in a namespace.

    Raises:
        NotFoundError: The namespace does not exist.
    """
    reference = get_catalog(catalog, confs or {})
    if namespace and not has_namespace(reference, tuple(namespace)):
        raise _no_namespace(reference, tuple(namespace))
    return tables_of(reference, tuple(namespace))


def tables_of(catalog: CatalogReference, namespace: tuple[str, ...]) -> list[str]:
    """Return the names of the tables in a namespace that exists."""
    if catalog.is_hadoop:
        return list_warehouse(open_warehouse(catalog), namespace, tables=True)
    if not namespace:
        return []
    return sorted(name[-1] for name in call(catalog, lambda opened: opened.list_tables(namespace)))


def table_exists(
    catalog: str, namespace: Sequence[str], table: str, confs: Mapping[str, str] | None = None
) -> bool:
    """Return whether the catalog has this table."""
    return has_table(get_catalog(catalog, confs or {}), (*namespace, table))


def has_table(catalog: CatalogReference, identifier: tuple[str, ...]) -> bool:
    """Return whether a catalog has a table with this namespace and name."""
    if catalog.is_hadoop:
        storage = open_warehouse(catalog)
        return check_names(identifier) and is_table(storage, join(storage.root, *identifier))
    if len(identifier) < 2:
        return False
    try:
        request_table(catalog, identifier)
    except NotFoundError:
        check_name(catalog)
        return False
    return True


def namespace_exists(catalog: str, namespace: Sequence[str], confs: Mapping[str, str] | None = None) -> bool:
    """Return whether the catalog has this namespace."""
    return has_namespace(get_catalog(catalog, confs or {}), tuple(namespace))


def has_namespace(catalog: CatalogReference, namespace: tuple[str, ...]) -> bool:
    """Return whether a catalog has this namespace; the empty one always exists."""
    if not namespace:
        return True
    if catalog.is_hadoop:
        return check_names(namespace) and namespace[-1] in list_warehouse(
            open_warehouse(catalog), namespace[:-1], tables=False
        )
    try:
        found = bool(call(catalog, lambda opened: opened.namespace_exists(namespace)))
    except NotFoundError:
        found = False
    if not found:
        check_name(catalog)
    return found


def open_warehouse(catalog: CatalogReference) -> Storage:
    """Return the storage of a hadoop catalog, with its warehouse folder as the root."""
    path = catalog.properties["warehouse"]
    location = parse_location(path)
    if location.is_local and not location.authority:
        path = os.path.abspath(location.path)  # noqa: PTH100
    return Storage(properties=file_properties(catalog.properties, trusted=catalog.properties), root=path)


def _no_namespace(catalog: CatalogReference, namespace: tuple[str, ...]) -> NotFoundError:
    return NotFoundError(
        "NAMESPACE_NOT_FOUND",
        f"Catalog {catalog.name} has no such namespace: {'.'.join(namespace)}",
        stage="catalog",
    )
