"""The driver's end of the reports that tasks send while they run: a thread that listens, and the latest reports by scan.

Takes messages signed with this process's key, as `task_reports.py` packs them; anything else ends its connection. The
rule: what arrives are numbers and texts for the scan report, and nothing is decided by them.
"""

from __future__ import annotations

import hmac
import json
import secrets
import selectors
import socket
import threading
import time
from typing import TYPE_CHECKING, Any

from twostage.errors import OptionError
from twostage.spark.task_reports import LENGTH, SIGNATURE_SIZE, Address, merge_reports, unpack

if TYPE_CHECKING:
    from collections.abc import Mapping

    from twostage.spark.task_reports import ScanReports, TaskReport

PORT = "spark.twostage.report.port"
"""The conf of the port where a cluster's driver listens, or ``off``; without it any free port."""
_ENCRYPTS = (
    "spark.network.crypto.enabled",
    "spark.authenticate.enableSaslEncryption",
    "spark.ssl.rpc.enabled",
)
LISTENER_CONFS = ("spark.master", "spark.driver.host", "spark.driver.bindAddress", PORT, *_ENCRYPTS)
"""The confs that decide where a driver listens."""
_LAST_PORT = 65_535
_MAX_MESSAGE_BYTES = 1 << 20
"""Bytes of one message; most have some kilobytes."""
_MAX_CONNECTIONS = 20_000
_FILES_PER_CONNECTION = 2
"""One in this many of the files that this process may open may be a connection."""
_MAX_UNSIGNED_CONNECTIONS = 256
"""Connections that have not sent a signed message yet; with more, the oldest is closed. Anyone who finds the port can open them."""
_MAX_UNSIGNED_BYTES = 64 << 20
"""Bytes that arrived on all connections and are not part of a complete message yet."""
_LAST_REPORT_SECONDS = 1.0
_NO_FILE_SECONDS = 0.1
"""Pause before accepting again when this process or the system has no file descriptor for another connection."""


class ReportListener:
    """Listens from its construction to the end of the process.

    Raises:
        OSError: It cannot listen there.
    """

    def __init__(self, host: str, bind: str, port: int, *, is_local: bool, max_scans: int) -> None:
        family, _, _, _, place = socket.getaddrinfo(
            bind, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        self._server = socket.create_server(place[:2], family=family, backlog=256)
        self._server.setblocking(False)
        self._key = secrets.token_bytes(32)
        self.address = Address(
            host=host, port=self._server.getsockname()[1], key=self._key, with_texts=is_local
        )
        self.is_local = is_local
        self.was_reached = False
        """A task's message has arrived, so those of other tasks can, too."""
        self._max_scans = max_scans
        self._unsigned: dict[socket.socket, None] = {}
        self._unsigned_bytes = 0
        self._news = threading.Condition()
        self._messages: dict[str, dict[int, tuple[tuple[int, bool], bytes]]] = {}
        threading.Thread(target=self._listen, name="twostage-reports", daemon=True).start()

    def latest_reports(self, scan_id: str) -> dict[int, TaskReport]:
        """Return the latest report of each task of a scan, by task group."""
        with self._news:
            found = list(self._messages.get(scan_id, {}).values())
        reports: ScanReports = {}
        for _, body in found:
            scan, index, report = unpack(body)
            merge_reports(reports, {scan: {index: report}})
        return reports.get(scan_id, {})

    def wait_for_end(self, attempts: Mapping[tuple[str, int], int]) -> None:
        """Wait a moment, once, for the last reports of tasks that Spark says have ended: attempts by scan and task group."""

        def not_ended() -> list[tuple[str, int]]:
            return [
                (scan_id, index)
                for (scan_id, index), attempt in attempts.items()
                if (known := self._messages.get(scan_id, {}).get(index)) and known[0] < (attempt, True)
            ]

        with self._news:
            self._news.wait_for(lambda: not not_ended(), _LAST_REPORT_SECONDS)
            for scan_id, index in not_ended():
                _, body = self._messages[scan_id][index]
                self._messages[scan_id][index] = ((attempts[scan_id, index], True), body)

    def _listen(self) -> None:
        with selectors.DefaultSelector() as selector:
            selector.register(self._server, selectors.EVENT_READ, None)
            while True:
                for key, _ in selector.select():
                    connection: Any = key.fileobj
                    if connection.fileno() < 0:
                        continue  # it was closed after it was selected
                    if key.data is None:
                        self._accept(selector)
                    elif not self._receive(connection, key.data):
                        self._hang_up(selector, connection)

    def _accept(self, selector: selectors.BaseSelector) -> None:
        try:
            connection, _ = self._server.accept()
        except (BlockingIOError, ConnectionError):
            return
        except OSError:
            time.sleep(_NO_FILE_SECONDS)
            return
        if len(selector.get_map()) > _max_connections():
            connection.close()
            return
        connection.setblocking(False)
        selector.register(connection, selectors.EVENT_READ, bytearray())
        self._unsigned[connection] = None
        if len(self._unsigned) > _MAX_UNSIGNED_CONNECTIONS:
            self._hang_up(selector, next(iter(self._unsigned)))

    def _hang_up(self, selector: selectors.BaseSelector, connection: socket.socket) -> None:
        self._unsigned_bytes -= len(selector.unregister(connection).data)
        self._unsigned.pop(connection, None)
        connection.close()

    def _receive(self, connection: socket.socket, received: bytearray) -> bool:
        """Take what arrived; return whether the connection may stay open."""
        try:
            more = connection.recv(1 << 16)
        except BlockingIOError:
            return True
        except OSError:
            return False
        before = len(received)
        received += more
        may_stay = self._take(connection, received)
        self._unsigned_bytes += len(received) - before
        return may_stay and bool(more) and self._unsigned_bytes <= _MAX_UNSIGNED_BYTES

    def _take(self, connection: socket.socket, received: bytearray) -> bool:
        """Take the complete messages out of what was received; return whether they, and the next one's length, are valid."""
        while len(received) >= LENGTH.size:
            size = LENGTH.unpack_from(received)[0]
            start = LENGTH.size + SIGNATURE_SIZE
            if size > _MAX_MESSAGE_BYTES:
                return False
            if len(received) < start + size:
                break
            body = bytes(received[start : start + size])
            signature = bytes(received[LENGTH.size : start])
            del received[: start + size]
            if not hmac.compare_digest(signature, hmac.digest(self._key, body, "sha256")):
                return False
            self._unsigned.pop(connection, None)
            try:
                self._keep(body)
            except (ValueError, TypeError):
                return False  # another version of twostage sent it
        return True

    def _keep(self, body: bytes) -> None:
        scan_id, index, attempt, state = json.loads(body.partition(b"\n")[0])
        order = (attempt, state != "running")
        with self._news:
            self.was_reached = True
            known = self._messages.setdefault(scan_id, {})
            if index not in known or order >= known[index][0]:
                known[index] = (order, body)  # unpacked when it is wanted: few reports are
            while len(self._messages) > self._max_scans:
                del self._messages[next(iter(self._messages))]
            self._news.notify_all()


def _max_connections() -> int:
    try:
        import resource  # noqa: PLC0415 - not on every platform
    except ImportError:
        return _MAX_CONNECTIONS
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return _MAX_CONNECTIONS if limit < 0 else min(_MAX_CONNECTIONS, limit // _FILES_PER_CONNECTION)


def listen(conf: Mapping[str, str], *, max_scans: int) -> ReportListener | None:
    """Listen where the tasks of a Spark context reach the driver; None where its configuration or the host forbids it.

    A cluster's messages cross its network unencrypted, as Spark's own do; where Spark encrypts its own, there are none.

    Raises:
        OptionError: The conf of the port is not a port.
    """
    master = conf.get("spark.master", "")
    is_local = master == "local" or master.startswith("local[")
    port = conf.get(PORT, "").strip() or "0"
    if port != "off" and not (port.isdecimal() and port.isascii() and int(port) <= _LAST_PORT):
        raise OptionError(
            "BAD_OPTION",
            f"Conf {PORT} is not a port: {port!r}",
            stage="options",
            hint="A number up to 65535 that executors can reach, off, or nothing for any free one.",
        )
    if port == "off" or (not is_local and any(conf.get(name, "").lower() == "true" for name in _ENCRYPTS)):
        return None
    host = "127.0.0.1" if is_local else conf.get("spark.driver.host", "").strip("[]")
    bind = host if is_local else conf.get("spark.driver.bindAddress", host).strip("[]")
    try:
        return ReportListener(host, bind, int(port), is_local=is_local, max_scans=max_scans)
    except (OSError, UnicodeError):  # UnicodeError: the host's name is not valid
        return None
