"""A REST catalog in this process: configuration, names, vended credentials, refusals."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

import pytest

from twostage.errors import NotFoundError, StorageError, UnsupportedFeatureError
from twostage.options import parse_options
from twostage.table import catalog_client
from twostage.table.catalog import list_namespaces, list_tables, load_table, table_exists

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

VENDED = "canary-4711-vended"
TOKEN = "canary-4711-token"
CONFS = "spark.sql.catalog.r"


class Rest(ThreadingHTTPServer):
    """Answers what `answers` says, by path; counts the requests and keeps their headers."""

    answers: dict[str, Any]
    seen: list[tuple[str, str | None]]


class Handler(BaseHTTPRequestHandler):
    server: Rest

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        self.server.seen.append((path, self.headers.get("Authorization")))
        status, body = self.server.answers.get(path, (404, error("NoSuchTableException", "no such thing")))
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
    server.seen = []
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
    catalog_client._catalogs.clear()


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
