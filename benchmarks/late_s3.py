"""An S3 in a separate process with the latency of a real one: the store of the object-store benchmark.

    python late_s3.py FOLDER PORT

The folder's first level are buckets. Each answer's first byte is due `latency` after its request, its body is
sent at `mbps` megabytes (10**6) per second and connection, and any number of requests wait concurrently. It
checks no signatures. GET with ranges, HEAD, PUT (also in S3's signed chunks), DELETE, lists; and, without
delay:

    POST /-/reset?latency_ms=30&mbps=80    settings, counters to 0
    GET  /-/stats                          requests, bytes, most in flight, connections, seconds later than due

`late` in the last of these shows whether the machine was the bottleneck: a busy one answers later than due.
"""

from __future__ import annotations

import asyncio
import contextlib
import email.utils
import json
import os
import socket
import subprocess
import sys
import time
import urllib.parse
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

CHUNK = 256 * 2**10
XML = '<?xml version="1.0" encoding="UTF-8"?>'


@dataclass
class State:
    """Settings, and the counters since the last reset."""

    latency: float = 0.0
    rate: float = 0.0
    in_flight: int = 0
    requests: int = 0
    sent: int = 0
    most: int = 0
    connections: int = 0
    late: float = 0.0
    by: dict[str, int] = field(default_factory=dict)

    def reset(self, **given: str) -> None:
        """Set what is given, and reset the counters."""
        self.latency = float(given.get("latency_ms", self.latency * 1000)) / 1000
        self.rate = float(given.get("mbps", self.rate / 1e6)) * 1e6
        self.requests = self.sent = self.most = self.connections = 0
        self.late = 0.0
        self.by = {}

    def stats(self) -> dict[str, object]:
        """Return the counters."""
        return {
            "requests": self.requests,
            "bytes": self.sent,
            "most_in_flight": self.most,
            "connections": self.connections,
            "late": round(self.late, 3),
            "by": self.by,
        }


class Store:
    """The buckets in a folder."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.state = State()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the requests of one connection."""
        self.state.connections += 1
        writer.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
                method, target, _ = head[0].split(" ", 2)
                pairs = (line.split(":", 1) for line in head[1:] if ":" in line)
                headers = {name.strip().lower(): value.strip() for name, value in pairs}
                if headers.get("expect", "").lower() == "100-continue":
                    writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
                body = await _body(reader, headers)
                await self._answer(writer, method, target, headers, body)
                if headers.get("connection", "").lower() == "close":
                    break
        writer.close()

    async def _answer(
        self, writer: asyncio.StreamWriter, method: str, target: str, headers: dict[str, str], body: bytes
    ) -> None:
        state = self.state
        parts = urllib.parse.urlsplit(target)
        query = dict(urllib.parse.parse_qsl(parts.query, keep_blank_values=True))
        path = urllib.parse.unquote(parts.path)
        if path.startswith("/-/"):
            if path == "/-/reset":
                state.reset(**query)
            text = json.dumps(state.stats()).encode()
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(text), text))
            await writer.drain()
            return
        due = time.monotonic() + state.latency
        state.requests += 1
        state.in_flight += 1
        state.most = max(state.most, state.in_flight)
        kind = f"{method} {_kind(path, query)}"
        state.by[kind] = state.by.get(kind, 0) + 1
        try:
            status, found, fields = self._do(method, path, query, headers, body)
            left = due - time.monotonic()
            if left > 0:
                await asyncio.sleep(left)
            else:
                state.late -= left
            size = fields.pop("Content-Length", str(len(found)))
            lines = [
                f"HTTP/1.1 {status}",
                f"Content-Length: {size}",
                *(f"{k}: {v}" for k, v in fields.items()),
            ]
            writer.write("\r\n".join([*lines, "", ""]).encode("latin-1"))
            if method != "HEAD":
                await self._pour(writer, found)
            await writer.drain()
        finally:
            state.in_flight -= 1

    async def _pour(self, writer: asyncio.StreamWriter, data: bytes) -> None:
        """Send a body no faster than the connection's rate."""
        began, rate = time.monotonic(), self.state.rate
        for start in range(0, len(data), CHUNK):
            part = data[start : start + CHUNK]
            writer.write(part)
            self.state.sent += len(part)
            await writer.drain()
            if rate and (ahead := (start + len(part)) / rate - (time.monotonic() - began)) > 0.001:
                await asyncio.sleep(ahead)

    def _do(
        self, method: str, path: str, query: dict[str, str], headers: dict[str, str], body: bytes
    ) -> tuple[str, bytes, dict[str, str]]:
        bucket, _, key = path.lstrip("/").partition("/")
        file = self.root / bucket / key
        if method == "POST" and "delete" in query:
            return "200 OK", f"{XML}<DeleteResult></DeleteResult>".encode(), {}
        if method == "GET" and not key:
            return "200 OK", self._list(bucket, query), {"Content-Type": "application/xml"}
        if method == "PUT":
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(body)
            return "200 OK", b"", {"ETag": _etag(file)}
        if method == "DELETE":
            file.unlink(missing_ok=True)
            return "204 No Content", b"", {}
        if method == "HEAD" and not key:
            return "200 OK", b"", {}
        if not file.is_file():
            error = f"{XML}<Error><Code>NoSuchKey</Code><Message>none</Message></Error>".encode()
            return "404 Not Found", error, {"Content-Type": "application/xml"}
        size = file.stat().st_size
        fields = {
            "ETag": _etag(file),
            "Last-Modified": email.utils.formatdate(file.stat().st_mtime, usegmt=True),
            "Content-Type": "application/octet-stream",
            "Accept-Ranges": "bytes",
        }
        if method == "HEAD":
            return "200 OK", b"", {**fields, "Content-Length": str(size)}
        first, last, status = 0, size - 1, "200 OK"
        if asked := headers.get("range", "").removeprefix("bytes="):
            start, _, end = asked.partition("-")
            first = int(start) if start else max(0, size - int(end))
            last = min(int(end), size - 1) if start and end else size - 1
            status = "206 Partial Content"
            fields["Content-Range"] = f"bytes {first}-{last}/{size}"
        descriptor = os.open(file, os.O_RDONLY)
        try:
            return status, os.pread(descriptor, last - first + 1, first), fields
        finally:
            os.close(descriptor)

    def _list(self, bucket: str, query: dict[str, str]) -> bytes:
        prefix, delimiter = query.get("prefix", ""), query.get("delimiter", "")
        top = self.root / bucket
        keys = sorted(str(path.relative_to(top)) for path in top.rglob("*") if path.is_file())
        found, folders = [], set()
        for key in keys:
            if not key.startswith(prefix):
                continue
            rest = key[len(prefix) :]
            if delimiter and delimiter in rest:
                folders.add(prefix + rest.partition(delimiter)[0] + delimiter)
            else:
                file = top / key
                found.append(
                    f"<Contents><Key>{escape(key)}</Key><Size>{file.stat().st_size}</Size><ETag>{escape(_etag(file))}</ETag>"
                    "<LastModified>2024-01-01T00:00:00.000Z</LastModified></Contents>"
                )
        found += [
            f"<CommonPrefixes><Prefix>{escape(one)}</Prefix></CommonPrefixes>" for one in sorted(folders)
        ]
        head = f"<Name>{bucket}</Name><Prefix>{escape(prefix)}</Prefix><KeyCount>{len(found)}</KeyCount><MaxKeys>100000</MaxKeys>"
        return f"{XML}<ListBucketResult>{head}<IsTruncated>false</IsTruncated>{''.join(found)}</ListBucketResult>".encode()


def _kind(path: str, query: dict[str, str]) -> str:
    """Return what a request is for, by the file names of Iceberg's writers."""
    name = path.rpartition("/")[2]
    if "list-type" in query or not name:
        return "list"
    if "/metadata/" in path and not name.endswith(".puffin"):
        return "metadata"
    return "deletes" if name.endswith(".puffin") or "delete" in path.partition("/data/")[2] else "data"


def _etag(file: Path) -> str:
    status = file.stat()
    return f'"{status.st_size:x}-{status.st_mtime_ns:x}"'


async def _body(reader: asyncio.StreamReader, headers: dict[str, str]) -> bytes:
    """Return a request's body, without the signatures between its chunks."""
    if headers.get("transfer-encoding", "").lower() == "chunked":
        raw = bytearray()
        while size := int((await reader.readuntil(b"\r\n")).split(b";")[0], 16):
            raw += (await reader.readexactly(size + 2))[:-2]
        await reader.readuntil(b"\r\n")
    else:
        raw = bytearray(await reader.readexactly(int(headers.get("content-length", "0"))))
    is_signed = "aws-chunked" in headers.get("content-encoding", "") or headers.get(
        "x-amz-content-sha256", ""
    ).startswith("STREAMING-")
    if not is_signed:
        return bytes(raw)
    plain, at = bytearray(), 0
    while True:
        end = raw.index(b"\r\n", at)
        size = int(raw[at:end].split(b";")[0], 16)
        if not size:
            return bytes(plain)
        plain += raw[end + 2 : end + 2 + size]
        at = end + 2 + size + 2


class LateStore:
    """The late store, in a separate process. Use it as a context manager."""

    def __init__(self, folder: Path) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = int(free.getsockname()[1])
        folder.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, __file__, str(folder), str(self.port)]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        self._process.stdout.readline()

    def __enter__(self) -> LateStore:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.wait(30)


def ask_store(port: int, what: str) -> dict[str, Any]:
    """Reset the store, or return its counters."""
    method = "POST" if what.startswith("reset") else "GET"
    request = urllib.request.Request(f"http://127.0.0.1:{port}/-/{what}", method=method)
    with urllib.request.urlopen(request, timeout=60) as answer:
        return dict(json.loads(answer.read()))


async def main() -> None:
    """Serve until the process is ended."""
    store = Store(Path(sys.argv[1]))
    server = await asyncio.start_server(store.serve, "127.0.0.1", int(sys.argv[2]), backlog=1024, limit=2**20)
    async with server:
        print("ready", flush=True)
        await server.serve_forever()


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(main())
