"""A REST catalog in this process: configuration, names, vended credentials, refusals."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

import pytest

from twostage.catalog import client
from twostage.catalog.load_table import list_namespaces, list_tables, load_table, table_exists
from twostage.errors import NotFoundError, OptionError, StorageError, UnsupportedFeatureError
from twostage.options import parse_options

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

VENDED = "canary-4711-vended"
TOKEN = "canary-4711-token"
CONFS = "spark.sql.catalog.r"


class Rest(ThreadingHTTPServer):
    """Answers what `answers` says, by path; counts the requests and keeps their headers."""

    answers: dict[str, Any]
    seen: list[tuple[str, str | None]]
    queries: list[str]
    expired: list[int]
    """Statuses that the next requests for the table are refused with."""
    tokens: int


class Handler(BaseHTTPRequestHandler):
    server: Rest

    def do_GET(self) -> None:
        path, _, query = self.path.partition("?")
        self.server.seen.append((path, self.headers.get("Authorization")))
        status, body = self.server.answers.get(path, (404, error("NoSuchTableException", "no such thing")))
        if path.endswith("/tables/events"):
            self.server.queries += [query] if query else []
            if self.server.expired:
                status, body = self.server.expired.pop(), error("Refused", "expired")
        self.answer(status, body)

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.server.seen.append((self.path, None))
        self.server.tokens += 1
        self.answer(200, {"access_token": f"{TOKEN}-{self.server.tokens}", "token_type": "bearer"})

    def answer(self, status: int, body: Any) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    do_HEAD = do_GET

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Print nothing."""


def error(kind: str, message: str) -> dict[str, Any]:
    return {"error": {"message": message, "type": kind, "code": 400}}


@pytest.fixture
def rest(metadata_of: Callable[..., dict[str, Any]]) -> Iterator[Rest]:
    server = Rest(("127.0.0.1", 0), Handler)
    server.seen, server.queries, server.expired, server.tokens = [], [], [], 0
    location = "s3://lake/db/events"
    server.answers = {
        "/v1/config": (200, {"defaults": {}, "overrides": {}}),
        "/v1/namespaces": (200, {"namespaces": [["db"]]}),
        "/v1/namespaces/db": (200, {"namespace": ["db"], "properties": {}}),
        "/v1/namespaces/db/tables": (200, {"identifiers": [{"namespace": ["db"], "name": "events"}]}),
        "/v1/namespaces/db/tables/events": (
            200,
            {
                "metadata-location": f"{location}/metadata/00001-x.metadata.json",
                "metadata": metadata_of(location, properties={"py-other": "x"}),
                "config": {"s3.access-key-id": "vended", "s3.secret-access-key": VENDED, "token": VENDED},
            },
        ),
    }
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()
    client._catalogs.clear()


def confs_of(rest: Rest) -> dict[str, str]:
    return {
        CONFS: "org.apache.iceberg.spark.SparkCatalog",
        f"{CONFS}.type": "rest",
        f"{CONFS}.uri": f"http://127.0.0.1:{rest.server_port}",
        f"{CONFS}.token": TOKEN,
        f"{CONFS}.s3.endpoint": "http://127.0.0.1:1",
    }


def test_vended_credentials(rest: Rest) -> None:
    table = load_table(parse_options({"path": "r.db.events", "branch": "audit"}), confs_of(rest))
    assert table.snapshot is not None
    assert table.snapshot.snapshot_id == 21
    assert table.metadata.metadata_location == "s3://lake/db/events/metadata/00001-x.metadata.json"
    assert table.storage.root == "s3://lake/db/events"
    assert dict(table.storage.properties) == {
        "s3.access-key-id": "vended",
        "s3.secret-access-key": VENDED,
        "s3.endpoint": "http://127.0.0.1:1",
    }
    assert VENDED not in repr(table)
    assert ("/v1/namespaces/db/tables/events", f"Bearer {TOKEN}") in rest.seen


def test_names(rest: Rest) -> None:
    confs = confs_of(rest)
    assert list_namespaces("r", (), confs) == [("db",)]
    assert list_tables("r", ("db",), confs) == ["events"]
    assert table_exists("r", ("db",), "events", confs)
    assert not table_exists("r", ("db",), "evnts", confs)
    with pytest.raises(NotFoundError) as caught:
        load_table(parse_options({"path": "r.db.evnts"}), confs)
    assert caught.value.code == "TABLE_NOT_FOUND"
    assert caught.value.hint == "Did you mean 'events'?"


@pytest.mark.parametrize(
    ("status", "code", "transient"),
    [
        (401, "CATALOG_DENIED", False),
        (403, "CATALOG_DENIED", False),
        (419, "CATALOG_DENIED", False),
        (400, "CATALOG_FAILED", False),
        (500, "CATALOG_FAILED", True),
        (503, "CATALOG_FAILED", True),
    ],
)
def test_refusals(rest: Rest, status: int, code: str, transient: bool) -> None:
    rest.answers["/v1/namespaces/db/tables/events"] = (status, error("Refused", f"no, {TOKEN}"))
    with pytest.raises(StorageError) as caught:
        load_table(parse_options({"path": "r.db.events"}), confs_of(rest))
    assert (caught.value.code, caught.value.transient) == (code, transient)
    assert TOKEN not in str(caught.value)


def test_nobody_there(rest: Rest) -> None:
    confs = {**confs_of(rest), f"{CONFS}.uri": "http://127.0.0.1:1"}
    with pytest.raises(StorageError) as caught:
        load_table(parse_options({"path": "r.db.events"}), confs)
    assert caught.value.code == "CATALOG_FAILED"
    assert caught.value.transient


def test_an_answer_that_is_no_table(rest: Rest) -> None:
    for body in ({}, {"metadata": {"format-version": 9}, "metadata-location": "s3://x/y", "config": {}}):
        rest.answers["/v1/namespaces/db/tables/events"] = (200, body)
        with pytest.raises(UnsupportedFeatureError):
            load_table(parse_options({"path": "r.db.events"}), confs_of(rest))


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
