"""New credentials for a table that was loaded a while ago: of a REST catalog that vends them for a short time."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest

from rest_catalog import CONFS, TOKEN, confs_of, serve_rest
from twostage.catalog.load_table import load_table
from twostage.catalog.renewal import ends_soon, renewed
from twostage.options import parse_options

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rest_catalog import Rest

LOCATION = "s3://lake/db/events"
HOUR = 3_600_000
OPTIONS = parse_options({"path": "r.db.events"})


@pytest.fixture
def vending(metadata_of: Callable[..., dict[str, Any]]) -> Iterator[Rest]:
    """A catalog whose first credentials are good for a minute, and each further ones for an hour more."""
    now = int(time.time() * 1000)

    def answer() -> tuple[int, dict[str, Any]]:
        number = sum(path.endswith("/tables/events") for path, _ in server.seen)
        config = {
            "s3.access-key-id": f"key-{number}",
            "s3.secret-access-key": f"secret-{number}",
            "s3.session-token": f"token-{number}",
            "s3.session-token-expires-at-ms": str(now + 60_000 + (number - 1) * HOUR),
        }
        credentials = [{"prefix": "s3://lake", "config": config}]
        return 200, {
            "metadata-location": f"{LOCATION}/metadata/1.metadata.json",
            "metadata": metadata_of(LOCATION),
            "storage-credentials": credentials,
        }

    with serve_rest(LOCATION, answer) as server:
        yield server


def test_credentials_are_renewed_and_nothing_else_changes(vending: Rest) -> None:
    table = load_table(OPTIONS, confs_of(vending))
    assert table.storage.properties["s3.access-key-id"] == "key-1"
    assert ends_soon(table)
    again = renewed(table, OPTIONS, confs_of(vending))
    assert again.storage.properties["s3.access-key-id"] == "key-2"
    assert not ends_soon(again)
    assert (again.metadata, again.snapshot, again.schema) == (table.metadata, table.snapshot, table.schema)
    assert again.storage.root == table.storage.root
    assert table.storage.renewal is None


def test_whoever_reads_the_files_renews_them_by_the_newest_token(vending: Rest) -> None:
    confs = confs_of(vending) | {f"{CONFS}.client.refresh-credentials-endpoint": "v1/credentials"}
    table = load_table(OPTIONS, confs)
    again = renewed(table, OPTIONS, confs | {f"{CONFS}.token": "another"})
    for one, token in ((table, TOKEN), (again, "another")):
        assert one.storage.renewal is not None
        assert dict(one.storage.renewal.headers)["Authorization"] == f"Bearer {token}"


def test_a_catalog_that_refuses_leaves_the_table_as_it_is(vending: Rest) -> None:
    table = load_table(OPTIONS, confs_of(vending))
    vending.expired = [500] * 9
    assert renewed(table, OPTIONS, confs_of(vending)) is table


def test_another_table_of_the_name_opens_nothing(
    vending: Rest, metadata_of: Callable[..., dict[str, Any]]
) -> None:
    table = load_table(OPTIONS, confs_of(vending))
    other = metadata_of(LOCATION) | {"table-uuid": "00000000-0000-0000-0000-000000000001"}
    answer = {"metadata-location": f"{LOCATION}/metadata/1.metadata.json", "metadata": other}
    vending.answers["/v1/namespaces/db/tables/events"] = (200, answer)
    assert renewed(table, OPTIONS, confs_of(vending)) is table


def test_credentials_without_a_stated_end_are_kept(rest: Rest) -> None:
    assert not ends_soon(load_table(OPTIONS, confs_of(rest)))
