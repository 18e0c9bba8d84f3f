"""A REST catalog in this process: answers as told, counts the requests, renews tokens."""

from __future__ import annotations

import contextlib
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

from twostage.catalog import client

if TYPE_CHECKING:
    from collections.abc import Iterator

VENDED = "canary-4711-vended"
TOKEN = "canary-4711-token"
CONFS = "spark.sql.catalog.r"


class Rest(ThreadingHTTPServer):
    """Answers by path from `answers`, which has answers or functions that make one; counts requests and keeps
    their headers."""

    answers: dict[str, Any]
    seen: list[tuple[str, str | None]]
    queries: list[str]
    expired: list[int]
    """Statuses with which the next requests for the table are refused."""
    tokens: int


class Handler(BaseHTTPRequestHandler):
    server: Rest

    def do_GET(self) -> None:
        path, _, query = self.path.partition("?")
        self.server.seen.append((path, self.headers.get("Authorization")))
        found = self.server.answers.get(path, (404, error("NoSuchTableException", "no such thing")))
        status, body = found() if callable(found) else found
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


@contextlib.contextmanager
def serve_rest(location: str, table: Any) -> Iterator[Rest]:
    """Serve a catalog with the table ``db.events`` until the block ends.

    Args:
        location: The table's.
        table: The body of its answer, or a function that returns status and body.
    """
    server = Rest(("127.0.0.1", 0), Handler)
    server.seen, server.queries, server.expired, server.tokens = [], [], [], 0
    server.answers = {
        "/v1/config": (200, {"defaults": {}, "overrides": {}}),
        "/v1/namespaces": (200, {"namespaces": [["db"]]}),
        "/v1/namespaces/db": (200, {"namespace": ["db"], "properties": {}}),
        "/v1/namespaces/db/tables": (200, {"identifiers": [{"namespace": ["db"], "name": "events"}]}),
        "/v1/namespaces/db/tables/events": table
        if callable(table)
        else (200, {"metadata-location": f"{location}/metadata/00001-x.metadata.json", **table}),
    }
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
        client._catalogs.clear()


def error(kind: str, message: str) -> dict[str, Any]:
    return {"error": {"message": message, "type": kind, "code": 400}}


def confs_of(rest: Rest) -> dict[str, str]:
    return {
        CONFS: "org.apache.iceberg.spark.SparkCatalog",
        f"{CONFS}.type": "rest",
        f"{CONFS}.uri": f"http://127.0.0.1:{rest.server_port}",
        f"{CONFS}.token": TOKEN,
        f"{CONFS}.s3.endpoint": "http://127.0.0.1:1",
    }
