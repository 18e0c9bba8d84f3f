"""A small local S3 that misbehaves when told to: GET with ranges, HEAD, folder listings, PUT and DELETE of
one bucket.

Takes a folder, whose files are the bucket's objects, and rules (`Fault`); answers as S3 does, or by the first
matching rule that has turns left. It checks no signatures; it records requests.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import socket
import struct
import threading
import time
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import BinaryIO

BUCKET = "lake"
ERROR = '<?xml version="1.0" encoding="UTF-8"?><Error><Code>{}</Code><Message>{}</Message></Error>'
CODES = {
    403: "InvalidAccessKeyId",
    404: "NoSuchKey",
    412: "PreconditionFailed",
    416: "InvalidRange",
    429: "SlowDown",
    500: "InternalError",
    503: "SlowDown",
}


@dataclass
class Fault:
    """What goes wrong, with which objects and how often.

    `kind`: an HTTP status as text; ``reset`` (mid-body), ``short`` (the connection ends before Content-Length),
    ``lies`` (fewer bytes than asked for, and Content-Length says so), ``drip`` (`seconds` between `pieces`), ``hang``
    (no answer for `seconds`), ``replaced`` (another object's bytes, from `body`).
    """

    kind: str
    path: str = r"\.parquet"
    times: int = 1
    after: int = 0
    """Matching requests that are answered correctly first."""
    seconds: float = 0.0
    pieces: int = 4
    code: str = ""
    """The error's name in S3's XML, if not the status's usual one."""
    body: Callable[[bytes], bytes] = bytes
    method: str = "GET"
    fired: int = 0


class S3:
    """The running server."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.faults: list[Fault] = []
        self.requests: list[tuple[str, str, str]] = []
        """Method, key and range of every request."""
        self.etags = True
        """Off: some gateways give none."""
        self.refuses: Callable[[BaseHTTPRequestHandler], bool] = lambda _: False
        """Whether a request's credentials have expired, by its headers and path."""
        self.patience = 60.0
        """Seconds that clients wait for an answer; short only in tests of silence: elsewhere a stalled
        machine would cause retries, and wrong counts of requests."""
        self.parts: dict[tuple[str, int], bytes] = {}
        """Parts of multipart uploads, by key and number, until they are complete."""
        self.marks: set[str] = set()
        """Objects without bytes whose keys end in a slash: a listing of such a folder also has the folder itself."""
        self._lock = threading.Lock()

    @property
    def options(self) -> dict[str, str]:
        """The reader's options that reach this server, credentials included."""
        return {
            "catalog.s3.endpoint": self.endpoint,
            "catalog.s3.access-key-id": "AKCANARY4711KEY",
            "catalog.s3.secret-access-key": "canary-4711/secret+key",
            "catalog.s3.session-token": "canary-4711-session==",
            "catalog.s3.region": "us-east-1",
            "catalog.s3.connect-timeout": "2",
            "catalog.s3.request-timeout": f"{self.patience:g}",
        }

    endpoint = ""

    def choose(self, method: str, key: str) -> Fault | None:
        """Return the fault to apply, if any."""
        with self._lock:
            for fault in self.faults:
                if method != fault.method or not re.search(fault.path, key):
                    continue
                if fault.after > 0:
                    fault.after -= 1
                elif fault.fired < fault.times:
                    fault.fired += 1
                    return fault
        return None


@contextlib.contextmanager
def serve(root: Path) -> Iterator[S3]:
    """Serve the folder `root` as the bucket `BUCKET` until the block ends."""
    s3 = S3(root)

    class Handler(_Handler):
        store = s3

    server = Server(("127.0.0.1", 0), Handler)
    s3.endpoint = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield s3
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class Server(ThreadingHTTPServer):
    """A server that hangs up when closed: clients keep connections, and each has a thread here until then."""

    daemon_threads = True
    request_queue_size = 256  # the default of 5 makes the sixth connection wait a second

    def __init__(self, *arguments: Any) -> None:
        self._connections: set[socket.socket] = set()
        super().__init__(*arguments)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer a connection's requests in its own thread."""
        self._connections.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        """Close a connection."""
        self._connections.discard(request)
        super().shutdown_request(request)

    def server_close(self) -> None:
        """Stop listening, and close the connections."""
        super().server_close()
        for connection in list(self._connections):
            with contextlib.suppress(OSError):  # the client has closed it
                connection.shutdown(socket.SHUT_RDWR)

    def handle_error(self, *_: Any) -> None:
        """Print nothing: clients are expected to hang up."""


def replace_object(path: Path, data: bytes) -> None:
    """Replace a file by another object atomically, as stores do: other requests see the old one or the new one."""
    whole = path.with_name(f".{path.name}.{threading.get_ident()}")
    whole.write_bytes(data)
    whole.replace(path)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    store: S3

    def log_message(self, *_: Any) -> None:
        pass

    def do_HEAD(self) -> None:
        if self._is_bucket() and not urlsplit(self.path).path.strip("/").removeprefix(BUCKET):
            self.send_response_only(200)
            self.send_header("Content-Length", "0")
            self.end_headers()
        else:
            self._object(body=False)

    def _is_bucket(self) -> bool:
        return urlsplit(self.path).path.split("/")[1] == BUCKET

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        query = parse_qs(parts.query, keep_blank_values=True)
        if "list-type" in query and not self._is_bucket():
            self._error(404, body=True, code="NoSuchBucket")
        elif "list-type" in query:
            self._list(query.get("prefix", [""])[0])
        else:
            self._object(body=True)

    def do_PUT(self) -> None:
        self._write(self._key())

    def do_DELETE(self) -> None:
        key = self._key()
        self.store.requests.append(("DELETE", key, ""))
        path = self.store.root / key
        if path.is_file():
            path.unlink()
        self.send_response_only(204)
        self.end_headers()

    def do_POST(self) -> None:
        """Start or complete a multipart upload."""
        self._body()
        key = self._key()
        if "uploads" in parse_qs(urlsplit(self.path).query, keep_blank_values=True):
            self._say(
                f"<InitiateMultipartUploadResult><UploadId>{key}</UploadId></InitiateMultipartUploadResult>"
            )
            return
        numbers = sorted(number for one, number in self.store.parts if one == key)
        self._keep(key, b"".join(self.store.parts.pop((key, number)) for number in numbers))
        self._say("<CompleteMultipartUploadResult><ETag>1</ETag></CompleteMultipartUploadResult>")

    def _key(self) -> str:
        return unquote(urlsplit(self.path).path).lstrip("/").removeprefix(f"{BUCKET}/")

    def _write(self, key: str) -> None:
        data = self._body()
        self.store.requests.append(("PUT", key, ""))
        fault = self.store.choose("PUT", key)
        if fault and fault.kind.isdigit():
            self._error(int(fault.kind), body=True, code=fault.code)
            return
        if fault and fault.kind == "hang":
            time.sleep(fault.seconds)
        part = parse_qs(urlsplit(self.path).query).get("partNumber")
        if part:
            self.store.parts[key, int(part[0])] = data
        else:
            self._keep(key, data)
        self.send_response_only(200)
        self.send_header("Content-Length", "0")
        self.send_header("ETag", '"1"')
        self.end_headers()

    def _body(self) -> bytes:
        """Return a request's body, without the checksums that PyArrow's client sends between its chunks."""
        if self.headers.get("Transfer-Encoding", "").lower() == "chunked":
            data = b"".join(_chunks(self.rfile, behind=b"\r\n"))
        else:
            data = self.rfile.read(int(self.headers.get("Content-Length", "0")))
        if "aws-chunked" in self.headers.get("Content-Encoding", ""):
            data = b"".join(_chunks(io.BytesIO(data)))
        return data

    def _keep(self, key: str, data: bytes) -> None:
        path = self.store.root / key
        if key.endswith("/"):  # PyArrow's mark of a folder whose last object it may have removed
            path.mkdir(parents=True, exist_ok=True)
            self.store.marks.add(key)
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_object(path, data)

    def _say(self, text: str) -> None:
        self.send_response_only(200)
        self.send_header("Content-Length", str(len(text.encode())))
        self.end_headers()
        self.wfile.write(text.encode())

    def _object(self, *, body: bool) -> None:
        key = self._key()
        asked = self.headers.get("Range", "")
        self.store.requests.append((self.command, key, asked))
        fault = self.store.choose(self.command, key)
        kind = fault.kind if fault else ""
        if self.store.refuses(self):
            self._error(403, body=body, code="ExpiredToken")
            return
        if kind.isdigit():
            self._error(int(kind), body=body, code=fault.code if fault else "")
            return
        path = self.store.root / key
        if not path.is_file():
            self._error(404, body=body)
            return
        if fault and kind == "replaced":
            replace_object(path, fault.body(path.read_bytes()))
        with path.open("rb") as file:  # if the file is replaced meanwhile, the opened one stays
            data = file.read()
            tag = f'"{len(data):x}-{os.fstat(file.fileno()).st_mtime_ns:x}"'
        size, status = len(data), 200
        if match := re.fullmatch(r"bytes=(\d*)-(\d*)", asked):
            from_end = 0 if match[1] else int(match[2])
            first = int(match[1] or max(0, size - from_end))
            last = size - 1 if from_end else min(int(match[2] or size), size - 1)
            data, status = data[first : last + 1], 206
        if kind == "lies":
            data = data[: len(data) // 2]
        if fault and kind == "hang":
            time.sleep(fault.seconds)
        self.send_response_only(status)
        self.send_header("Content-Length", str(len(data)))
        self.send_header("Content-Type", "application/octet-stream")
        if self.store.etags:
            self.send_header("ETag", tag)
        self.send_header("Last-Modified", "Mon, 01 Jan 2024 00:00:00 GMT")
        if status == 206:
            self.send_header("Content-Range", f"bytes {first}-{first + len(data) - 1}/{size}")
        self.end_headers()
        if body:
            self._send(data, fault)

    def _send(self, data: bytes, fault: Fault | None) -> None:
        kind = fault.kind if fault else ""
        if fault and kind == "drip":
            step = max(1, -(-len(data) // fault.pieces))
            for start in range(0, len(data), step):
                self.wfile.write(data[start : start + step])
                self.wfile.flush()
                time.sleep(fault.seconds)
        elif kind in ("reset", "short"):
            self.wfile.write(data[: len(data) // 2])
            self.wfile.flush()
            if kind == "reset":  # RST instead of FIN
                self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.close_connection = True
        else:
            self.wfile.write(data)

    def _error(self, status: int, *, body: bool, code: str = "") -> None:
        text = ERROR.format(code or CODES.get(status, "Error"), "injected").encode() if body else b""
        self.send_response_only(status)
        self.send_header("Content-Length", str(len(text)))
        self.send_header("Content-Type", "application/xml")
        if status in (429, 503):
            self.send_header("Retry-After", "1")
        self.end_headers()
        self.wfile.write(text)

    def _listed_tag(self, entry: Path) -> str:
        status = entry.stat()
        return (
            f"<ETag>&quot;{status.st_size:x}-{status.st_mtime_ns:x}&quot;</ETag>" if self.store.etags else ""
        )

    def _list(self, prefix: str) -> None:
        folder = self.store.root / prefix
        entries = sorted(folder.iterdir()) if folder.is_dir() else []
        stamp = "<LastModified>2024-01-01T00:00:00.000Z</LastModified>"
        mark = f"<Contents><Key>{escape(prefix)}</Key><Size>0</Size>{stamp}</Contents>"
        held = (mark if prefix in self.store.marks else "") + "".join(
            f"<CommonPrefixes><Prefix>{escape(prefix + entry.name)}/</Prefix></CommonPrefixes>"
            if entry.is_dir()
            else f"<Contents><Key>{escape(prefix + entry.name)}</Key><Size>{entry.stat().st_size}</Size>"
            f"{stamp}{self._listed_tag(entry)}</Contents>"
            for entry in entries
        )
        text = (
            f'<?xml version="1.0" encoding="UTF-8"?><ListBucketResult><Name>{BUCKET}</Name>'
            f"<Prefix>{escape(prefix)}</Prefix><KeyCount>{len(entries)}</KeyCount><MaxKeys>1000</MaxKeys>"
            f"<Delimiter>/</Delimiter><IsTruncated>false</IsTruncated>{held}</ListBucketResult>"
        ).encode()
        self.send_response_only(200)
        self.send_header("Content-Length", str(len(text)))
        self.send_header("Content-Type", "application/xml")
        self.end_headers()
        self.wfile.write(text)


def _chunks(stream: BinaryIO, behind: bytes = b"") -> Iterator[bytes]:
    """Yield the chunks of a body, each after its length in hexadecimal digits; `behind` follows the last."""
    while size := int(stream.readline().split(b";")[0], 16):
        yield stream.read(size)
        stream.readline()
    stream.read(len(behind))
