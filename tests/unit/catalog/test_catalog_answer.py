"""What a catalog answers of one table: the metadata as it came, credentials by prefix, tokens that expire."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from pyiceberg.exceptions import NoSuchIcebergTableError

from rest_catalog import CONFS, TOKEN, confs_of, error
from twostage.catalog import client
from twostage.catalog.browse import table_exists
from twostage.catalog.catalog_answer import CatalogAnswer, request_table
from twostage.catalog.client import CatalogReference, get_catalog
from twostage.catalog.load_table import load_table
from twostage.catalog.metadata_locator import LOCATOR
from twostage.errors import NotFoundError, OptionError, UnsupportedFeatureError
from twostage.options import parse_options

if TYPE_CHECKING:
    from collections.abc import Callable

    from rest_catalog import Rest


def test_an_answer_that_is_no_table(rest: Rest) -> None:
    for body in ({}, {"metadata": {"format-version": 9}, "metadata-location": "s3://x/y", "config": {}}):
        rest.answers["/v1/namespaces/db/tables/events"] = (200, body)
        with pytest.raises(UnsupportedFeatureError):
            load_table(parse_options({"path": "r.db.events"}), confs_of(rest))


def test_a_view_is_named(rest: Rest) -> None:
    rest.answers["/v1/namespaces/db/views/v"] = (204, {})
    with pytest.raises(UnsupportedFeatureError) as caught:
        load_table(parse_options({"path": "r.db.v"}), confs_of(rest))
    assert caught.value.code == "UNSUPPORTED_VIEW"
    assert "db.v" in str(caught.value)


@pytest.mark.parametrize("status", [404, 405, 500])
def test_what_is_neither_table_nor_view(rest: Rest, status: int) -> None:
    """Services without views answer anything."""
    rest.answers["/v1/namespaces/db/views/v"] = (status, error("Refused", "no views here"))
    with pytest.raises(NotFoundError) as caught:
        load_table(parse_options({"path": "r.db.v"}), confs_of(rest))
    assert caught.value.code == "TABLE_NOT_FOUND"


def variant_answer(metadata_of: Callable[..., dict[str, Any]], **changes: Any) -> dict[str, Any]:
    """Return the answer for a table of version 3 with a column that PyIceberg's model refuses."""
    location = "s3://lake/db/events"
    metadata = metadata_of(location, **{"format-version": 3, "next-row-id": 0})
    for schema in metadata["schemas"]:
        schema["fields"].append({"id": 9, "name": "v", "type": "variant", "required": False})
    return {
        "metadata-location": f"{location}/metadata/00001-x.metadata.json",
        "metadata": metadata,
        **changes,
    }


def test_the_answer_is_read_as_it_came(rest: Rest, metadata_of: Callable[..., dict[str, Any]]) -> None:
    rest.answers["/v1/namespaces/db/tables/events"] = (200, variant_answer(metadata_of))
    table = load_table(parse_options({"path": "r.db.events"}), confs_of(rest))
    assert [str(field.type) for field in table.schema.fields] == ["long", "long", "variant"]
    assert table.metadata.format_version == 3
    assert table_exists("r", ("db",), "events", confs_of(rest))


def test_a_table_that_was_never_committed(rest: Rest, metadata_of: Callable[..., dict[str, Any]]) -> None:
    answer = variant_answer(metadata_of, **{"metadata-location": None, "config": None})
    rest.answers["/v1/namespaces/db/tables/events"] = (200, answer)
    table = load_table(parse_options({"path": "r.db.events"}), confs_of(rest))
    assert table.metadata.metadata_location == "s3://lake/db/events/metadata"
    assert table.storage.root == "s3://lake/db/events"


def test_credentials_of_the_longest_prefix(rest: Rest, metadata_of: Callable[..., dict[str, Any]]) -> None:
    answer = variant_answer(
        metadata_of,
        **{
            "config": {
                "s3.access-key-id": "config",
                "s3.region": "eu-west-1",
                "s3.retry-strategy-impl": "x.Y",
            },
            "storage-credentials": [
                {"prefix": "s3://", "config": {"s3.access-key-id": "any"}},
                {"prefix": "s3://lake/db/events", "config": {"s3.access-key-id": "near"}},
                {"prefix": "s3://lake/db", "config": {"s3.access-key-id": "far"}},
                {"prefix": "s3://lake/db/events/metadata/1", "config": {"s3.access-key-id": "other"}},
            ],
        },
    )
    rest.answers["/v1/namespaces/db/tables/events"] = (200, answer)
    table = load_table(parse_options({"path": "r.db.events"}), confs_of(rest))
    assert dict(table.storage.properties) == {
        "s3.access-key-id": "near",
        "s3.region": "eu-west-1",
        "s3.endpoint": "http://127.0.0.1:1",
    }


@pytest.mark.parametrize("status", [401, 419])
def test_a_token_that_expired_is_renewed(rest: Rest, status: int) -> None:
    """PyIceberg keeps one session per catalog: its token is renewed where the server no longer takes it."""
    confs = confs_of(rest)
    del confs[f"{CONFS}.token"]
    confs[f"{CONFS}.credential"] = f"me:{TOKEN}"
    load_table(parse_options({"path": "r.db.events"}), confs)
    rest.expired.append(status)
    rest.seen.clear()
    load_table(parse_options({"path": "r.db.events"}), confs)
    assert [path for path, _ in rest.seen] == [
        "/v1/namespaces/db/tables/events",
        "/v1/oauth/tokens",
        "/v1/namespaces/db/tables/events",
    ]
    assert rest.seen[0][1] != rest.seen[2][1]


def test_snapshot_loading_mode(rest: Rest) -> None:
    confs = {**confs_of(rest), f"{CONFS}.snapshot-loading-mode": "refs"}
    load_table(parse_options({"path": "r.db.events"}), confs)
    assert rest.queries == ["snapshots=refs"]
    with pytest.raises(OptionError, match="snapshot-loading-mode"):
        load_table(
            parse_options({"path": "r.db.events"}), {**confs, f"{CONFS}.snapshot-loading-mode": "some"}
        )


@pytest.mark.parametrize(
    "body", ["no object", [], {"metadata": []}, {"metadata-location": "s3://x/y"}], ids=str
)
def test_an_answer_without_metadata_is_none(rest: Rest, body: Any) -> None:
    rest.answers["/v1/namespaces/db/tables/events"] = (200, body)
    with pytest.raises(UnsupportedFeatureError, match=r"UNREADABLE_METADATA.*it has no metadata"):
        request_table(get_catalog("r", confs_of(rest)), ("db", "events"))


class Refusing:
    """A catalog in which all names are tables of something else."""

    def load_table(self, identifier: tuple[str, ...]) -> Any:
        raise NoSuchIcebergTableError(f"{identifier} is a Hive table, password=canary-4711")


def test_tables_of_something_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "_open", lambda _: Refusing())
    with pytest.raises(UnsupportedFeatureError, match=r"NOT_AN_ICEBERG_TABLE.*h has db\.t.*Hive") as caught:
        request_table(CatalogReference("h", {"type": "hive", "password": "canary-4711"}), ("db", "t"))
    assert "canary" not in str(caught.value)


class Reading:
    """A catalog that reads the metadata by itself."""

    def load_table(self, _: tuple[str, ...]) -> Any:
        io = SimpleNamespace(properties={"py-io-impl": LOCATOR, "s3.region": "x"})
        return SimpleNamespace(metadata_location="/t/metadata/v1.json", io=io)


def test_a_catalog_of_the_users_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """The property by which we find the metadata file is none of the table's."""
    monkeypatch.setattr(client, "_open", lambda _: Reading())
    answer = request_table(CatalogReference("own", {"py-catalog-impl": "x.Y"}), ("db", "t"))
    assert answer.metadata_location == "/t/metadata/v1.json"
    assert answer.file_properties == {"s3.region": "x"}


def test_the_services_word_on_a_table_counts_most() -> None:
    answer = CatalogAnswer(
        metadata_location="/t",
        properties={"a": "catalog", "c": "catalog"},
        table_config={"c": "service", "secret": "canary-4711"},
    )
    assert answer.file_properties == {"a": "catalog", "c": "service", "secret": "canary-4711"}
    assert "canary" not in repr(answer)
