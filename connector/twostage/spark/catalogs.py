"""Answers the planner's questions about catalogs: which tables and namespaces there are.

Takes the planner's requests as plain values, gives plain values.
"""

from __future__ import annotations

from typing import Any


def list_tables(message: dict[str, Any]) -> dict[str, Any]:
    """Return the names of a namespace's tables."""
    from twostage.catalog import load_table  # noqa: PLC0415 - its libraries take a while to import

    return {"names": load_table.list_tables(message["catalog"], message["namespace"], message["confs"])}


def list_namespaces(message: dict[str, Any]) -> dict[str, Any]:
    """Return the names of the namespaces in a namespace."""
    from twostage.catalog import load_table  # noqa: PLC0415

    return {"names": load_table.list_namespaces(message["catalog"], message["namespace"], message["confs"])}


def check_namespace(message: dict[str, Any]) -> dict[str, Any]:
    """Return nothing.

    Raises:
        NotFoundError: There is no such namespace.
    """
    from twostage.catalog import load_table  # noqa: PLC0415
    from twostage.errors import NotFoundError  # noqa: PLC0415

    if not load_table.namespace_exists(message["catalog"], message["namespace"], message["confs"]):
        name = ".".join(message["namespace"])
        raise NotFoundError("NAMESPACE_NOT_FOUND", f"No such namespace: {name}", stage="catalog")
    return {}
