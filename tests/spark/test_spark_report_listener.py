"""The listener that tasks report to: what it takes, from whom, and how little strangers cost it."""

from __future__ import annotations

import pytest

from lakehouse import run_python
from twostage.errors import OptionError
from twostage.metrics import Metrics
from twostage.spark.report_listener import listen
from twostage.spark.task_reports import LENGTH, SIGNATURE_SIZE, STOPPED, Address, TaskReport, pack, unpack


def test_texts_stay_on_this_machine():
    """Predicates quote the query; what crosses a network is numbers alone."""
    metrics = Metrics()
    metrics.count_predicate("name = 'secret'", 5, 3, 7)
    metrics.choices["as name = 'secret' says"] += 1
    metrics.add("rows.fetched", 3)
    report = TaskReport(attempt=1, state=STOPPED, metrics=metrics)
    for with_texts in (False, True):
        address = Address(host="driver", port=1, key=b"0" * 32, with_texts=with_texts)
        sent = pack(address, "scan", 0, report)
        assert (b"secret" in sent) == with_texts
        _, _, told = unpack(sent[LENGTH.size + SIGNATURE_SIZE :])
        assert told.metrics.counters == metrics.counters
        assert told.metrics.predicates == (metrics.predicates if with_texts else {})


def test_the_listener_takes_only_what_its_tasks_sign():
    """Whoever else finds the port changes no report."""
    code = """
import socket, struct, dataclasses
from twostage.metrics import Metrics
from twostage.spark import task_reports
from twostage.spark.report_listener import ReportListener
listener = ReportListener("127.0.0.1", "127.0.0.1", 0, is_local=True, max_scans=2)
address = listener.address
assert address.key.hex() not in repr(address) and repr(address.key) not in repr(address)
metrics = Metrics()
metrics.add("rows.fetched", 3)
metrics.count_predicate("id < 'x'", 5, 3, 7)
def report(attempt, state):
    return task_reports.TaskReport(attempt=attempt, state=state, metrics=metrics)
def send(*parts):
    with socket.create_connection((address.host, address.port)) as connection:
        try:
            for part in parts:
                connection.sendall(part)
            connection.shutdown(socket.SHUT_WR)
            assert connection.recv(1) == b""
        except OSError:
            pass  # hung up on
forged = dataclasses.replace(address, key=b"0" * 32)
good = task_reports.pack(address, "scan", 0, report(1, "finished"))
send(task_reports.pack(forged, "scan", 0, report(9, "finished")))
send(struct.pack("!I", 2**31), b"x" * 100)
send(b"GET / HTTP/1.1\\r\\n\\r\\n" * 9)
send(good[:-1] + bytes([good[-1] ^ 1]))
print("refused", listener.latest_reports("scan"), listener.was_reached)
send(*[good[start : start + 7] for start in range(0, len(good), 7)])
send(task_reports.pack(address, "scan", 0, report(1, "running")))  # comes late
found = listener.latest_reports("scan")[0]
print("heard", found.state, dict(found.metrics.counters), found.metrics.predicates)
for number in range(4):
    send(task_reports.pack(address, f"scan{number}", 0, report(1, "finished")))
print("kept", [number for number in range(4) if listener.latest_reports(f"scan{number}")])
"""
    out = run_python(code)
    assert "refused {} False\n" in out
    assert "heard finished {'rows.fetched': 3} {\"id < 'x'\": PredicateCost(rows_in=5" in out
    assert "kept [2, 3]" in out


def test_strangers_take_little_of_the_listener():
    """Connections that say nothing, or begin a message and never end it: neither files nor memory for all of them."""
    code = """
import resource, socket, struct, time
from twostage.spark import report_listener, task_reports
resource.setrlimit(resource.RLIMIT_NOFILE, (4096, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
listener = report_listener.ReportListener("127.0.0.1", "127.0.0.1", 0, is_local=True, max_scans=2)
address = listener.address
def is_open(connection):
    try:
        return connection.recv(1, socket.MSG_DONTWAIT) != b""
    except BlockingIOError:
        return True
    except OSError:
        return False
def connect():
    return socket.create_connection((address.host, address.port))
def report(scan):
    return task_reports.pack(address, scan, 0, task_reports.TaskReport(attempt=1, state="finished"))
def wait_until(holds):
    end = time.monotonic() + 100
    while not holds() and time.monotonic() < end:
        time.sleep(0.05)
    return holds()
def heard(*scans):
    return [len(listener.latest_reports(scan)) for scan in scans]
own = connect()
own.sendall(report("first"))
silent = [connect() for _ in range(600)]
wait_until(lambda: sum(map(is_open, silent)) == 256)
print("silent", sum(map(is_open, silent)))
beginning = struct.pack("!I", 1 << 20) + b"x" * (1 << 20)
sent = [connect() for _ in range(100)]
for connection in sent:
    try:
        connection.sendall(beginning)
    except OSError:
        pass
few = wait_until(lambda: sum(map(is_open, sent)) <= 64)
print("bytes", listener._unsigned_bytes <= report_listener._MAX_UNSIGNED_BYTES, few)
for connection in (*silent, *sent):
    connection.close()
own.sendall(report("second"))
late = connect()
late.sendall(report("third"))
wait_until(lambda: heard("second", "third") == [1, 1] and not listener._unsigned_bytes)
print("heard", *heard("second", "third"), listener._unsigned_bytes)
# No file is left for a connection: it waits, without turning in a circle, until one is.
resource.setrlimit(resource.RLIMIT_NOFILE, (64, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
files = []
waiting = socket.socket()
try:
    while True:
        files.append(open("/dev/null"))
except OSError:
    pass
waiting.connect((address.host, address.port))
waiting.sendall(report("fourth"))
before = time.process_time()
time.sleep(1)
print("busy", time.process_time() - before > 0.5)
for file in files:
    file.close()
wait_until(lambda: heard("fourth") == [1])
print("at last", *heard("fourth"))
"""
    out = run_python(code)
    assert "silent 256\n" in out
    assert "bytes True True\n" in out
    assert "heard 1 1 0\n" in out
    assert "busy False\nat last 1\n" in out


@pytest.mark.parametrize("port", ["70000", "auto", "²", "-1"])
def test_a_port_that_is_none(port):
    with pytest.raises(OptionError, match=r"spark\.twostage\.report\.port is not a port"):
        listen({"spark.master": "local[2]", "spark.twostage.report.port": port}, max_scans=1)
