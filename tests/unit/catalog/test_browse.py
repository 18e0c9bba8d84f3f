"""What catalogs contain: a SQLite catalog of PyIceberg's, and a hadoop warehouse."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from twostage.catalog import browse
from twostage.catalog.browse import list_namespaces, list_tables, namespace_exists, table_exists
from twostage.errors import NotFoundError

from .sqlite_catalog import confs_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyiceberg.catalog.sql import SqlCatalog


def test_listing(lake: SqlCatalog, tmp_path: Path) -> None:
    assert lake.name == "lake"
    confs = confs_of(tmp_path)
    assert list_namespaces("lake", (), confs) == [("db",)]
    assert list_namespaces("lake", ("db",), confs) == [("db", "nested")]
    assert list_tables("lake", ("db",), confs) == ["events", "other"]
    assert list_tables("lake", ("db", "nested"), confs) == ["deep"]
    assert table_exists("lake", ("db",), "events", confs)
    assert not table_exists("lake", ("db",), "absent", confs)
    assert not table_exists("lake", ("absent",), "events", confs)
    assert namespace_exists("lake", ("db",), confs)
    assert not namespace_exists("lake", ("absent",), confs)
    for call in (
        lambda: list_tables("lake", ("absent",), confs),
        lambda: list_namespaces("lake", ("x",), confs),
    ):
        with pytest.raises(NotFoundError) as caught:
            call()
        assert caught.value.code == "NAMESPACE_NOT_FOUND"


def test_hadoop_listing(warehouse: dict[str, str]) -> None:
    assert list_namespaces("h", (), warehouse) == [("db",), ("empty",)]
    assert list_namespaces("h", ("db",), warehouse) == [("db", "deep")]
    assert list_namespaces("h", ("empty",), warehouse) == []
    assert list_tables("h", ("db",), warehouse) == ["events", "logs"]
    assert list_tables("h", (), warehouse) == ["top"]
    assert table_exists("h", ("db",), "events", warehouse)
    assert not table_exists("h", ("db",), "deep", warehouse)
    assert namespace_exists("h", ("db", "deep"), warehouse)
    assert not namespace_exists("h", ("db", "events"), warehouse)
    with pytest.raises(NotFoundError):
        list_tables("h", ("absent",), warehouse)


def test_hadoop_lists_nothing_outside_the_warehouse(warehouse: dict[str, str]) -> None:
    for names in (("..",), ("db", "..", ".."), ("/etc",), ("",)):
        assert not namespace_exists("h", names, warehouse)
        assert not table_exists("h", names, "events", warehouse)


def test_hadoop_names_do_not_lead_out_of_the_warehouse(
    warehouse: dict[str, str], tmp_path: Path, write_table: Callable[..., Path]
) -> None:
    """Not even to what is there."""
    write_table(tmp_path / "outside" / "t")
    assert not namespace_exists("h", ("..", "outside"), warehouse)
    assert not table_exists("h", ("..", "outside"), "t", warehouse)
    with pytest.raises(NotFoundError):
        list_tables("h", ("..", "outside"), warehouse)


def test_only_namespaces_directly_inside_are_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Some services list deeper ones, or the parent itself, too."""
    names = [("db", "z"), ("db",), ("db", "a", "b"), ("db", "a")]
    monkeypatch.setattr(browse, "call", lambda catalog, request: names)
    confs = {"spark.sql.catalog.r.type": "rest", "spark.sql.catalog.r.uri": "http://127.0.0.1:1"}
    assert list_namespaces("r", (), confs) == [("db",)]
    assert list_namespaces("r", ("db",), confs) == [("db", "a"), ("db", "z")]


def test_services_have_no_table_outside_namespaces() -> None:
    """None is asked."""
    confs = {"spark.sql.catalog.r.type": "rest", "spark.sql.catalog.r.uri": "http://127.0.0.1:1"}
    assert list_tables("r", (), confs) == []
    assert not table_exists("r", (), "t", confs)
    assert namespace_exists("r", (), confs)
