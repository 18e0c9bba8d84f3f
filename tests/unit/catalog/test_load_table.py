"""Tables in real catalogs: SQLite through PyIceberg, and hadoop warehouses."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import ValidationError

from twostage.catalog import client, load_table as module
from twostage.catalog.browse import list_tables, table_exists
from twostage.catalog.load_table import load_table
from twostage.catalog.table_name import split_name
from twostage.errors import MissingFileError, NotFoundError, OptionError, StorageError
from twostage.options import parse_options
from twostage.storage.files import exists, locate
from twostage.table.pinned import PinnedTable

from .sqlite_catalog import confs_of, uri

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

CANARY = "canary-4711-secret"


def load(path: str, confs: dict[str, str] | None = None, **options: str) -> PinnedTable:
    return load_table(parse_options({"path": path, **options}), confs)


def events_of(table: PinnedTable, lake: SqlCatalog) -> None:
    expected = lake.load_table("db.events")
    assert table.name == "lake.db.events"
    assert table.metadata.metadata_location == expected.metadata_location
    assert table.snapshot is not None
    assert table.snapshot.snapshot_id == expected.metadata.current_snapshot_id
    assert [field.name for field in table.schema.fields] == ["a", "b"]
    assert table.snapshot.manifest_list is not None
    assert exists(table.storage, locate(table.storage, table.snapshot.manifest_list))
    assert pickle.loads(pickle.dumps(table)) == table


def test_spark_confs(lake: SqlCatalog, tmp_path: Path) -> None:
    for name in ("lake.db.events", "`lake`.`db`.`events`", "LAKE.db.events"):
        events_of(load(name, confs_of(tmp_path)), lake)


def test_pyiceberg_yaml(lake: SqlCatalog, tmp_path: Path, no_configuration: Path) -> None:
    (no_configuration / ".pyiceberg.yaml").write_text(
        f"catalog:\n  lake:\n    type: sql\n    uri: {uri(tmp_path)}\n    warehouse: file://{tmp_path}/warehouse\n"
    )
    events_of(load("lake.db.events"), lake)
    # A Spark conf of the same name wins; the rest comes from the file.
    with pytest.raises(OptionError, match="there is no file"):
        load("lake.db.events", {"spark.sql.catalog.lake.uri": f"sqlite:///{tmp_path}/absent/c.db"})


def test_pyiceberg_environment(lake: SqlCatalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYICEBERG_CATALOG__LAKE__URI", uri(tmp_path))
    events_of(load("lake.db.events"), lake)


def test_options(lake: SqlCatalog, tmp_path: Path) -> None:
    events_of(load("lake.db.events", **{"catalog.type": "sql", "catalog.uri": uri(tmp_path)}), lake)


def test_default_catalogs(lake: SqlCatalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = lake.load_table("db.events").metadata_location
    confs = {**confs_of(tmp_path), "spark.sql.defaultCatalog": "lake"}
    assert load("db.events", confs).metadata.metadata_location == expected
    with pytest.raises(OptionError) as caught:
        load("db.events", confs_of(tmp_path))
    assert caught.value.code == "UNKNOWN_CATALOG"
    assert "Configured: lake." in str(caught.value)
    monkeypatch.setenv("PYICEBERG_DEFAULT_CATALOG", "lake")
    assert load("db.events", confs_of(tmp_path)).metadata.metadata_location == expected


def test_session_catalog(tmp_path: Path) -> None:
    catalog = SqlCatalog("spark_catalog", uri=uri(tmp_path), warehouse=f"file://{tmp_path}/w")
    catalog.create_namespace("db")
    catalog.create_table("db.t", pa.schema([("a", pa.int64())]))
    catalog.close()
    assert load("db.t", confs_of(tmp_path, "spark_catalog")).name == "spark_catalog.db.t"
    assert load("spark_catalog.db.t", confs_of(tmp_path, "spark_catalog")).snapshot is None


def test_snapshot_choices(lake: SqlCatalog, tmp_path: Path) -> None:
    confs = confs_of(tmp_path)
    refs = lake.load_table("db.events").metadata.refs
    first, current = refs["v1"].snapshot_id, refs["main"].snapshot_id

    def chosen(name: str, **options: str) -> tuple[int | None, int]:
        table = load(name, confs, **options)
        return table.snapshot.snapshot_id if table.snapshot else None, len(table.schema.fields)

    assert chosen("lake.db.events", versionAsOf="v1") == (first, 1)
    assert chosen("lake.db.events", branch="audit") == (first, 2)
    assert chosen("lake.db.events", **{"snapshot-id": str(current)}) == (current, 1)
    assert chosen("lake.db.events.tag_v1") == (first, 1)
    assert chosen("lake.db.events.branch_audit") == (first, 2)
    assert chosen(f"lake.db.events.snapshot_id_{first}") == (first, 1)
    with pytest.raises(OptionError, match="CONFLICTING_OPTIONS"):
        chosen("lake.db.events.tag_v1", branch="audit")
    with pytest.raises(NotFoundError, match="Did you mean 'audit'"):
        chosen("lake.db.events", branch="audits")


def test_pinned_while_the_table_moves_on(lake: SqlCatalog, tmp_path: Path) -> None:
    before = load("lake.db.events", confs_of(tmp_path))
    lake.load_table("db.events").append(pa.table({"a": [3], "b": ["x"]}))
    after = load("lake.db.events", confs_of(tmp_path))
    assert before.snapshot is not None
    assert after.snapshot is not None
    assert before.snapshot.snapshot_id == after.snapshot.parent_id
    lake.rename_table("db.events", "db.renamed")
    with pytest.raises(NotFoundError) as caught:
        load("lake.db.events", confs_of(tmp_path))
    assert caught.value.code == "TABLE_NOT_FOUND"
    assert load("lake.db.renamed", confs_of(tmp_path)).snapshot == after.snapshot


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("lake.db.evnts", "Did you mean 'events'?"),
        ("lake.db.zzzzz", "Known: events, other."),
        ("lake.absent.events", "There is no such namespace: absent."),
        ("lake.events", "There are none."),
        ("lake.db.nested.dep", "Did you mean 'deep'?"),
    ],
)
def test_no_table(lake: SqlCatalog, tmp_path: Path, name: str, hint: str) -> None:
    assert lake.name == "lake"
    with pytest.raises(NotFoundError) as caught:
        load(name, confs_of(tmp_path))
    assert caught.value.code == "TABLE_NOT_FOUND"
    assert caught.value.hint == hint


def test_unknown_catalog_lists_the_known_ones(tmp_path: Path, no_configuration: Path) -> None:
    (no_configuration / ".pyiceberg.yaml").write_text("catalog:\n  prod:\n    uri: http://x\n")
    for name in ("laek.db.events", "events"):
        with pytest.raises(OptionError) as caught:
            load(name, confs_of(tmp_path))
        assert "lake, prod" in str(caught.value.hint)
    with pytest.raises(OptionError, match="Did you mean 'lake'"):
        list_tables("laek", ("db",), confs_of(tmp_path))


@pytest.mark.parametrize("name", ["", "lake..events", "lake.db.", ".db", "`lake.db", "lake.`a`b"])
def test_bad_names(name: str) -> None:
    with pytest.raises(OptionError):
        split_name(name)


def test_names_in_backticks() -> None:
    assert split_name("a.`b.c`.`d``e`.f g") == ("a", "b.c", "d`e", "f g")
    assert split_name("`a/b`.c") == ("a/b", "c")


def test_no_catalog_is_created_by_reading(tmp_path: Path, lake: SqlCatalog) -> None:
    assert lake.name == "lake"
    absent = tmp_path / "absent.db"
    confs = {"spark.sql.catalog.l2.type": "jdbc", "spark.sql.catalog.l2.uri": f"jdbc:sqlite:{absent}"}
    with pytest.raises(OptionError, match=r"BAD_CATALOG.*no file .*absent\.db.*catalog\.l2\.uri"):
        load("l2.db.events", confs)
    assert not absent.exists()
    absent.touch()  # another database, without a catalog's tables
    with pytest.raises(StorageError, match=r"CATALOG_FAILED.*No Iceberg catalog is in that database"):
        load("l2.db.events", confs)
    assert absent.stat().st_size == 0


def test_lost_metadata_file(lake: SqlCatalog, tmp_path: Path) -> None:
    location = lake.load_table("db.other").metadata_location.removeprefix("file://")
    (tmp_path / location).unlink()
    with pytest.raises(MissingFileError):
        load("lake.db.other", confs_of(tmp_path))


def test_metadata_that_pyiceberg_cannot_read(lake: SqlCatalog, tmp_path: Path) -> None:
    """Its model has no class for the type; ours need not have one to know of the column."""
    location = tmp_path / lake.load_table("db.other").metadata_location.removeprefix("file://")
    location.write_text(location.read_text().replace('"long"', '"variant"'))
    with pytest.raises(ValidationError, match="variant"):
        lake.load_table("db.other")
    assert str(load("lake.db.other", confs_of(tmp_path)).schema.fields[0].type) == "variant"
    assert table_exists("lake", ("db",), "other", confs_of(tmp_path))


def test_moved_warehouse(lake: SqlCatalog, tmp_path: Path) -> None:
    """The tables' files were copied; the catalog still names the old place of the data."""
    expected = lake.load_table("db.events")
    (tmp_path / "warehouse").rename(tmp_path / "moved")
    folder = expected.location().removeprefix("file://").replace("/warehouse/", "/moved/")
    table = load(folder, **{"allow-moved-paths": "true"})
    assert table.snapshot is not None
    assert table.snapshot.snapshot_id == expected.metadata.current_snapshot_id
    assert table.snapshot.manifest_list is not None
    assert exists(table.storage, locate(table.storage, table.snapshot.manifest_list))


def test_catalogs_are_opened_once(lake: SqlCatalog, tmp_path: Path) -> None:
    assert lake.name == "lake"
    for _ in range(3):
        load("lake.db.events", confs_of(tmp_path))
    assert len(client._catalogs) == 1
    load("lake.db.events", {**confs_of(tmp_path), "spark.sql.catalog.lake.s3.region": "x"})
    assert len(client._catalogs) == 2


def test_first_use_from_many_threads(lake: SqlCatalog, tmp_path: Path) -> None:
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(8) as pool:
        tables = list(pool.map(lambda _: load("lake.db.events", confs_of(tmp_path)), range(16)))
    for table in tables:
        events_of(table, lake)


def test_secrets_stay_out(lake: SqlCatalog, tmp_path: Path) -> None:
    assert lake.name == "lake"
    prefix = "spark.sql.catalog.lake"
    confs = {
        **confs_of(tmp_path),
        f"{prefix}.s3.secret-access-key": CANARY,
        f"{prefix}.token": f"{CANARY}-token",
        f"{prefix}.jdbc.password": CANARY,
    }
    table = load("lake.db.events", confs)
    assert table.storage.properties["s3.secret-access-key"] == CANARY
    assert f"{CANARY}-token" not in str(dict(table.storage.properties))
    shown = [repr(table), str(table), repr(table.metadata), repr(client.get_catalog("lake", confs))]
    for path, more in (
        ("lake.db.evnts", {}),
        ("lake.db.events", {f"{prefix}.uri": f"postgresql://u:{CANARY}@127.0.0.1:1/db"}),
        ("lake.db.events", {f"{prefix}.uri": f"unknown://u:{CANARY}@127.0.0.1:1/db"}),
        ("lake.db.events", {f"{prefix}.type": "rest", f"{prefix}.uri": f"http://u:{CANARY}@127.0.0.1:1"}),
    ):
        with pytest.raises((NotFoundError, StorageError, OptionError)) as caught:
            load(path, {**confs, **more})
        shown.append(str(caught.value))
        assert caught.value.__cause__ is None
    assert not [text for text in shown if CANARY in text]


def test_hadoop_warehouse(warehouse: dict[str, str], tmp_path: Path) -> None:
    table = load("h.db.events", warehouse, tag="v1")
    assert table.name == "h.db.events"
    assert table.snapshot is not None
    assert table.snapshot.snapshot_id == 11
    assert table.storage.root == str(tmp_path / "w/db/events")
    assert load("h.db.deep.t", warehouse).storage.root == str(tmp_path / "w/db/deep/t")
    assert load("h.top", warehouse).storage.root == str(tmp_path / "w/top")
    assert (
        load("h.db.events.branch_audit", warehouse).snapshot
        == load("h.db.events", warehouse, branch="audit").snapshot
    )


@pytest.mark.parametrize(
    "name", ["h.db.evnts", "h.`..`.w.db.events", "h.`../w`.db.events", "h.db.`.`.events", "h.db"]
)
def test_hadoop_no_table(warehouse: dict[str, str], name: str) -> None:
    with pytest.raises(NotFoundError) as caught:
        load(name, warehouse)
    assert caught.value.code == "TABLE_NOT_FOUND"
    if name == "h.db.evnts":
        assert caught.value.hint == "Did you mean 'events'?"


def test_moved_hadoop_table(write_table: Callable[..., Path], tmp_path: Path) -> None:
    write_table(tmp_path / "w" / "db" / "t", location="hdfs://namenode/w/db/t")
    confs = {"spark.sql.catalog.h.type": "hadoop", "spark.sql.catalog.h.warehouse": str(tmp_path / "w")}
    table = load("h.db.t", confs, **{"allow-moved-paths": "true"})
    assert locate(table.storage, "hdfs://other/w/db/t/data/f") == str(tmp_path / "w/db/t/data/f")


def test_a_service_that_never_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    import threading

    forever = threading.Event()
    monkeypatch.setattr(client, "CALL_SECONDS", 0.05)
    monkeypatch.setattr(client, "_open", lambda _: forever.wait())
    confs = {"spark.sql.catalog.r.type": "rest", "spark.sql.catalog.r.uri": "http://127.0.0.1:1"}
    with pytest.raises(StorageError) as caught:
        load("r.db.events", confs)
    forever.set()
    assert caught.value.code == "CATALOG_TIMEOUT"
    assert caught.value.transient


def exception_kinds() -> list[type[Exception]]:
    import pyiceberg.exceptions

    found = [getattr(pyiceberg.exceptions, name) for name in dir(pyiceberg.exceptions)]
    return [kind for kind in found if isinstance(kind, type) and issubclass(kind, Exception)]


@pytest.mark.parametrize("kind", [*exception_kinds(), RuntimeError, OSError, KeyError, AssertionError])
def test_every_exception_of_pyiceberg_becomes_ours(kind: type[Exception]) -> None:
    def fail() -> Any:
        with client.catalog_errors("lake", {"token": CANARY}):
            raise kind(f"text {CANARY}")

    with pytest.raises(module.TwoStageError) as caught:
        fail()
    assert caught.value.stage == "catalog"
    assert "lake" in str(caught.value)
    assert CANARY not in str(caught.value)
    assert caught.value.__cause__ is None
