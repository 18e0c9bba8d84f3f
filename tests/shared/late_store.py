"""A local S3 with the latency of a real one, which records which requests waited for which.

Takes a folder, whose files are the objects of the bucket `BUCKET`, as `s3_server` does, faults included. Each answer's first
byte comes `latency` seconds after its request, and its body as fast as `bandwidth`; above `most` concurrent
requests it answers 503. With `rounds` there is no clock: requests are held until the reader, in this process,
has nothing left to do (`idle`), and then answered together. The number of such rounds is the depth of the
requests' dependencies, whatever the load on the machine.
"""

from __future__ import annotations

import contextlib
import os
import re
import threading
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from s3_server import BUCKET, S3, Fault, Server, _Handler, replace_object

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["BUCKET", "Fault", "LateStore", "Request", "serve_late"]

CHUNK = 64 * 2**10


@dataclass(slots=True)
class Request:
    """One request as the store saw it; times are monotonic seconds."""

    method: str
    key: str
    first: int | None
    """First byte requested; None: no range."""
    last: int | None
    """Last byte requested, inclusive; None: to the end."""
    start: float
    end: float = 0.0
    status: int = 0
    sent: int = 0
    """Bytes of the body."""
    round: int = 0
    """With `rounds`: the round in which it was answered, from 1."""
    at_once: int = 0
    """Requests in flight when it arrived, including itself."""


class LateStore(S3):
    """The running store. Its settings may be changed while it runs.

    Attributes:
        latency: Seconds from a request to the first byte of its answer.
        bandwidth: Bytes per second of one answer; None: unlimited.
        most: Requests in flight above which it answers 503 SlowDown; None: any number.
        rounds: Whether requests are held until all of this process waits; otherwise each is answered after
            its latency.
        keys: Access keys that may read; None: any. Others are told that their token has expired.
        log: Every request, in order of arrival.
    """

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.latency = 0.0
        self.bandwidth: float | None = None
        self.most: int | None = None
        self.rounds = False
        self.keys: set[str] | None = None
        self.log: list[Request] = []
        self.in_flight = 0
        self._held: list[tuple[Request, threading.Event]] = []
        self._round = 0
        self._changed = threading.Condition()
        self._ends = False

    def reset(self) -> None:
        """Forget past requests; none may be in flight."""
        self.log.clear()
        self.requests.clear()
        self._round = 0

    def of(self, pattern: str) -> list[Request]:
        """Return the requests whose keys match a regular expression."""
        return [one for one in self.log if re.search(pattern, one.key)]

    @property
    def most_at_once(self) -> int:
        """The maximum number of requests in flight."""
        return max((one.at_once for one in self.log), default=0)

    @property
    def depth(self) -> int:
        """With `rounds`: the length of the longest chain of requests that waited for one another."""
        return max((one.round for one in self.log), default=0)

    def by_round(self, name: Callable[[Request], str] | None = None) -> list[dict[str, int]]:
        """Return for each round the number of requests answered, by name: by default method and kind of file."""
        found = [Counter[str]() for _ in range(self.depth)]
        for one in self.log:
            found[one.round - 1][(name or kind_of)(one)] += 1
        return [dict(sorted(one.items())) for one in found]

    def arrived(self, request: Request) -> None:
        """Record a request, and hold it until it may be answered."""
        with self._changed:
            self.in_flight += 1
            request.at_once = self.in_flight
            self.log.append(request)
            held = threading.Event() if self.rounds else None
            if held is not None:
                self._held.append((request, held))
                self._changed.notify_all()
        if held is not None:
            held.wait()
        elif self.latency:
            time.sleep(max(0.0, request.start + self.latency - time.monotonic()))

    def answered(self, request: Request) -> None:
        """Record that a request's answer was sent, or that the client disconnected."""
        with self._changed:
            self.in_flight -= 1
            request.end = time.monotonic()

    def conduct(self) -> None:
        """Answer the requests that are held, round by round, until `stop`."""
        with self._changed:
            while not self._ends:
                if not self._held:
                    self._changed.wait()
                    continue
                known = len(self.log)
                self._changed.release()
                try:
                    wait_until_idle()
                finally:
                    self._changed.acquire()
                if len(self.log) != known:
                    continue
                self._round += 1
                for request, held in self._held:
                    request.round = self._round
                    held.set()
                self._held.clear()

    def stop(self) -> None:
        """Release everything that is held."""
        with self._changed:
            self._ends = True
            for _, held in self._held:
                held.set()
            self._changed.notify_all()


QUIET_TURNS, TURN_SECONDS, QUIET_SHARE = 12, 0.005, 0.1
BUSY_SECONDS = 60.0


def wait_until_idle() -> None:
    """Return once all other threads of this process have waited for something other than a CPU for a while.

    A clock alone would mistake a stalled process, as on a busy machine, for an idle one. A thread that is
    ready to run is not waiting, whether it gets a CPU or not; one that waits for the GIL, which this thread
    takes to look, is recognized by the CPU time that the process uses meanwhile.
    """
    quiet, ends = 0, time.monotonic() + BUSY_SECONDS
    own = threading.get_native_id()
    while quiet < QUIET_TURNS and time.monotonic() < ends:
        before = time.process_time() - time.thread_time()
        time.sleep(TURN_SECONDS)
        computed = time.process_time() - time.thread_time() - before
        quiet = quiet + 1 if computed < QUIET_SHARE * TURN_SECONDS and not _ready(own) else 0


def _ready(own: int) -> bool:
    """Tell whether any other thread runs, could run, or waits for a disk; False if the system does not say."""
    for task in Path("/proc/self/task").glob("*"):
        if task.name != str(own):
            with contextlib.suppress(OSError):  # it has ended
                if (task / "stat").read_text().rpartition(") ")[2][0] in "RD":
                    return True
    return False


def kind_of(request: Request) -> str:
    """Return the method and the kind of key: ``GET data``, ``GET deletes``, ``GET index``, ``GET metadata``,
    ``GET list``."""
    name = request.key.rpartition("/")[2]
    if name.endswith((".json", ".json.gz", ".avro", ".text")) and "/metadata/" in request.key:
        what = "metadata"
    elif "indexes/" in request.key and "." in name:
        what = "index"
    elif name.endswith(".puffin") or "delete" in name or name.startswith("equality-"):
        what = "deletes"
    else:
        what = "data" if "." in name else "list"
    return f"{request.method} {what}"


@contextlib.contextmanager
def serve_late(root: Path, *, latency: float = 0.0, rounds: bool = False) -> Iterator[LateStore]:
    """Serve the folder `root` as the bucket `BUCKET` until the block ends."""
    late = LateStore(root)
    late.latency, late.rounds = latency, rounds

    class Handler(_LateHandler):
        store = late

    server = Server(("127.0.0.1", 0), Handler)
    late.endpoint = f"http://127.0.0.1:{server.server_address[1]}"
    threads = [
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True),
        threading.Thread(target=late.conduct, daemon=True),
    ]
    for thread in threads:
        thread.start()
    try:
        yield late
    finally:
        late.stop()
        server.shutdown()
        server.server_close()
        for thread in threads:
            thread.join()


class _LateHandler(_Handler):
    store: LateStore
    wbufsize = CHUNK  # head and body in one packet
    disable_nagle_algorithm = True

    def handle_expect_100(self) -> bool:
        """Say at once that a body may come: PyArrow's client waits for that, a second at most."""
        answered = super().handle_expect_100()
        self.wfile.flush()
        return answered

    def _object(self, *, body: bool) -> None:
        store = self.store
        key = unquote(urlsplit(self.path).path).lstrip("/").removeprefix(f"{BUCKET}/")
        asked = self.headers.get("Range", "")
        store.requests.append((self.command, key, asked))
        first, last = _range_of(asked)
        request = Request(self.command, key, first, last, time.monotonic())
        store.arrived(request)
        try:
            self._answer(request, asked, body=body)
            self.wfile.flush()
        finally:
            store.answered(request)

    def _write(self, key: str) -> None:
        request = Request("PUT", key, None, None, time.monotonic())
        self.store.arrived(request)
        try:
            super()._write(key)
            self.wfile.flush()
        finally:
            self.store.answered(request)

    def _answer(self, request: Request, asked: str, *, body: bool) -> None:
        store = self.store
        fault = store.choose(request.method, request.key)
        if store.most is not None and request.at_once > store.most:
            fault = Fault("503")
        signed = self.headers.get("Authorization", "")
        if store.keys is not None and not any(f"Credential={key}/" in signed for key in store.keys):
            fault = Fault("403", code="ExpiredToken")
        path = store.root / request.key
        kind = fault.kind if fault else ""
        if kind.isdigit() or not path.is_file():
            request.status = int(kind) if kind.isdigit() else 404
            self._error(request.status, body=body, code=fault.code if fault else "")
            return
        if fault and kind == "replaced":
            replace_object(path, fault.body(path.read_bytes()))
        status = path.stat()
        size, tag = status.st_size, f'"{status.st_size:x}-{status.st_mtime_ns:x}"'
        if self.headers.get("If-Match", tag) not in (tag, "*"):
            request.status = 412
            self._error(412, body=body, code="PreconditionFailed")
            return
        first, end = 0, size
        if asked.startswith("bytes=-"):
            first = max(0, size - int(asked.removeprefix("bytes=-")))
        elif request.first is not None:
            first, end = request.first, size if request.last is None else min(size, request.last + 1)
        if asked and first >= size:
            request.status = 416
            self._error(416, body=body, code="InvalidRange")
            return
        data = b""
        if body:
            with path.open("rb") as file:
                data = os.pread(file.fileno(), end - first, first)
        if kind == "lies":
            data = data[: len(data) // 2]
            end = first + len(data)
        if fault and kind == "hang":
            time.sleep(fault.seconds)
        request.status = 206 if asked else 200
        self.send_response_only(request.status)
        self.send_header("Content-Length", str(end - first))
        self.send_header("Content-Type", "application/octet-stream")
        if store.etags:
            self.send_header("ETag", tag)
        self.send_header("Last-Modified", "Mon, 01 Jan 2024 00:00:00 GMT")
        if asked:
            self.send_header("Content-Range", f"bytes {first}-{end - 1}/{size}")
        self.end_headers()
        request.sent = len(data)
        if not body:
            return
        if store.bandwidth is None or kind in ("drip", "reset", "short"):
            self._send(data, fault)
            return
        began = time.monotonic()
        for start in range(0, len(data), CHUNK):
            self.wfile.write(data[start : start + CHUNK])
            self.wfile.flush()
            time.sleep(max(0.0, began + (start + CHUNK) / store.bandwidth - time.monotonic()))

    def _list(self, prefix: str) -> None:
        request = Request("GET", prefix, None, None, time.monotonic())
        self.store.arrived(request)
        try:
            super()._list(prefix)
            self.wfile.flush()
        finally:
            request.status = 200
            self.store.answered(request)


def _range_of(asked: str) -> tuple[int | None, int | None]:
    """Return the first and last byte of a range header; the first is None without a range, or with one from
    the end."""
    match = re.fullmatch(r"bytes=(\d+)-(\d*)", asked)
    if match is None:
        return None, None
    return int(match[1]), int(match[2]) if match[2] else None
