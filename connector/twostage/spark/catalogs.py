"""Answers the planner's questions about catalogs: which tables and namespaces there are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from twostage.spark.answers import NamespaceAnswer, NamespacesAnswer, TablesAnswer

if TYPE_CHECKING:
    from twostage.spark.requests import NamespaceRequest, NamespacesRequest, TablesRequest


def list_tables(request: TablesRequest) -> TablesAnswer:
    """Return the names of a namespace's tables.

    Raises:
        NotFoundError: There is no such namespace.
    """
    from twostage.catalog import browse  # noqa: PLC0415 - its libraries take a while to import

    return TablesAnswer(names=tuple(browse.list_tables(request.catalog, request.namespace, request.confs)))


def list_namespaces(request: NamespacesRequest) -> NamespacesAnswer:
    """Return the names of the namespaces in a namespace.

    Raises:
        NotFoundError: There is no such namespace.
    """
    from twostage.catalog import browse  # noqa: PLC0415

    names = browse.list_namespaces(request.catalog, request.namespace, request.confs)
    return NamespacesAnswer(names=tuple(tuple(name) for name in names))


def check_namespace(request: NamespaceRequest) -> NamespaceAnswer:
    """Return nothing if a namespace exists.

    Raises:
        NotFoundError: There is no such namespace.
    """
    from twostage.catalog import browse  # noqa: PLC0415
    from twostage.errors import NotFoundError  # noqa: PLC0415

    if not browse.namespace_exists(request.catalog, request.namespace, request.confs):
        name = ".".join(request.namespace)
        raise NotFoundError("NAMESPACE_NOT_FOUND", f"No such namespace: {name}", stage="catalog")
    return NamespaceAnswer()
