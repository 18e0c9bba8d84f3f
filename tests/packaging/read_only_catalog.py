"""An Iceberg REST catalog that serves the tables of a folder, read only: ``folder/db/events`` is ``db.events``."""

from __future__ import annotations

import contextlib
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@contextlib.contextmanager
def read_only_catalog(folder: Path) -> Iterator[str]:
    """Serve the folder's tables; yield the catalog's URI."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            match self.path.partition("?")[0].strip("/").split("/"):
                case ["v1", "config"]:
                    self.answer(200, {"defaults": {}, "overrides": {}})
                case ["v1", "namespaces", namespace, "tables", table]:
                    self.table(folder / namespace / table)
                case _:
                    self.answer(404, {"error": {"message": "none", "type": "NoSuchException", "code": 404}})

        def table(self, place: Path) -> None:
            files = sorted(place.glob("metadata/*.metadata.json"))
            if not files:
                error = {"message": "no such table", "type": "NoSuchTableException", "code": 404}
                self.answer(404, {"error": error})
                return
            metadata = json.loads(files[-1].read_text())
            self.answer(200, {"metadata-location": str(files[-1]), "metadata": metadata, "config": {}})

        def answer(self, status: int, body: dict) -> None:
            data = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            """Print nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
