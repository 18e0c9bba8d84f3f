"""A REST catalog in this process: answers what it is told to, counts the requests, renews tokens."""

from __future__ import annotations

import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

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


def confs_of(rest: Rest) -> dict[str, str]:
    return {
        CONFS: "org.apache.iceberg.spark.SparkCatalog",
        f"{CONFS}.type": "rest",
        f"{CONFS}.uri": f"http://127.0.0.1:{rest.server_port}",
        f"{CONFS}.token": TOKEN,
        f"{CONFS}.s3.endpoint": "http://127.0.0.1:1",
    }
