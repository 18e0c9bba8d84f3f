"""Spark Connect with real servers: a client without the planner, and a server's program that called ``enable``."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

import lakehouse

HERE = Path(__file__).parent
NEEDED = ("grpc", "grpc_status", "google.rpc", "pandas", "zstandard")
CODES = {
    "filter": "UNSUPPORTED_FILTER",
    "like": "UNSUPPORTED_FILTER",
    "syntax": "BAD_FILTER",
    "unknown column": "UNKNOWN_COLUMN",
    "unknown columns": "UNKNOWN_COLUMN",
    "unknown option": "UNKNOWN_OPTION",
    "no table": "TABLE_NOT_FOUND",
}
SHORT = 900
"""Characters of an error at most, Spark's own stack trace left out; it was 12,000 with it."""


def has(module):
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False


pytestmark = [
    pytest.mark.skipif(
        not all(has(module) for module in NEEDED), reason="pyspark[connect] is not installed here"
    ),
    pytest.mark.timeout(600),
]


def environment(tmp_path):
    kept = {key: value for key, value in os.environ.items() if not key.startswith("PYSPARK_GATEWAY")}
    kept.pop("SPARK_REMOTE", None)
    paths = os.pathsep.join(lakehouse.SOURCES)
    return kept | {"PYTHONPATH": paths, "PYSPARK_PYTHON": sys.executable, "XDG_CACHE_HOME": str(tmp_path)}


def ask(remote, table, tmp_path):
    """Run the client; return what its cases answered."""
    for name in ("missing", "damaged"):
        shutil.copytree(table, tmp_path / name)
        file = min((tmp_path / name).glob("data/*.parquet"))
        if name == "missing":
            file.unlink()
        else:
            file.write_bytes(b"\0" * file.stat().st_size)
    done = subprocess.run(
        [sys.executable, "-W", "ignore", str(HERE / "connect_client.py"), remote, table, str(tmp_path)],
        env=environment(tmp_path), cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    line = next(line for line in done.stdout.splitlines() if "FOUND " in line)  # progress bars may precede it
    return json.loads(line.partition("FOUND ")[2])


@contextlib.contextmanager
def serve(folder, confs):
    """Run a server on a free port (that of ``local[1]`` is fixed); give the process and its address."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    with (folder / "log").open("w") as log:
        server = subprocess.Popen(
            [sys.executable, str(HERE / "connect_server.py"), port, json.dumps(confs)],
            env=environment(folder), cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True,
        )  # fmt: skip
    try:
        line = server.stdout.readline()
        assert line == "READY\n", line + (folder / "log").read_text()[-4000:]
        yield server, f"sc://127.0.0.1:{port}"
        server.stdin.close()
        assert server.wait(200) == 0
    finally:
        server.kill()
        server.wait()
        server.stdout.close()


@pytest.fixture(scope="module")
def plain(warehouse, tmp_path_factory):
    """A server that nobody gave the planner."""
    folder = tmp_path_factory.mktemp("connect")
    with serve(folder, None) as (_, remote):
        return ask(remote, warehouse.events, folder)


@pytest.fixture(scope="module")
def planned(warehouse, tmp_path_factory):
    """A server whose program called ``enable``; with what its clients found, its report of their last scan."""
    folder = tmp_path_factory.mktemp("connect")
    with serve(folder, warehouse.confs) as (server, remote):
        found = ask(remote, warehouse.events, folder)
        server.stdin.write("\n")
        server.stdin.flush()
        return {**found, "report": json.loads(server.stdout.readline().removeprefix("REPORT "))}


def test_a_client_reads_without_the_planner(plain):
    assert plain["where"] == [291, 293, 295, 297, 299]
    assert plain["options"] == [295, 296, 297, 298, 299]
    assert plain["columns"] == ["id", "device"]


def test_a_server_that_was_given_the_planner_plans_its_clients_queries(planned):
    assert planned["where"] == [291, 293, 295, 297, 299]
    assert planned["options"] == [295, 296, 297, 298, 299]
    assert planned["sql"] == 200
    assert "predicates [id IS NOT NULL, id >= 295]" in planned["plan"]
    assert planned["report"]["table"]


@pytest.mark.parametrize("server", ["plain", "planned"])
def test_an_error_begins_with_code_message_and_hint(server, request):
    """Without a traceback of ours, without advice that a client cannot follow."""
    found = request.getfixturevalue(server)
    for name, code in CODES.items():
        _, text = found[f"{name}, short"]
        first = text.splitlines()[0]
        assert f"[TWOSTAGE.{code}] " in first, (name, text)
        assert "Hint: " in first, (name, text)
        assert "Traceback" not in text, (name, text)
        assert "twostage.enable" not in text, (name, text)
        assert len(text) < SHORT, (name, text)
        _, long = found[name]
        assert long.splitlines()[0] == first, (name, long)
        assert "/twostage/" not in long, (name, long)  # none of our frames, in Python
        assert "at twostage_planner" not in long, (name, long)  # nor in Java
    assert "DataFrame.where" in found["filter"][1]
    assert "DataFrame.where" in found["like"][1]


@pytest.mark.parametrize("server", ["plain", "planned"])
def test_an_error_of_a_task_begins_with_code_message_and_hint(server, request):
    """Only where the fault could be ours a traceback follows."""
    found = request.getfixturevalue(server)
    _, missing = found["missing, short"]
    assert "[TWOSTAGE.MISSING_FILE]" in missing
    assert "Traceback (most" not in missing
    assert "/twostage/" not in missing
    _, damaged = found["damaged, short"]
    assert "[TWOSTAGE.CORRUPT_PARQUET]" in damaged
    assert damaged.index("[TWOSTAGE.") < damaged.index("Traceback (most")


@pytest.mark.parametrize("server", ["plain", "planned"])
def test_writing_is_refused(server, request):
    assert "[TWOSTAGE.READ_ONLY]" in request.getfixturevalue(server)["write"][1]


@pytest.mark.parametrize("server", ["plain", "planned"])
def test_enable_and_reports_say_what_works_instead(server, request):
    found = request.getfixturevalue(server)
    kind, text = found["enable"]
    assert kind == "OptionError"
    assert text.startswith("[TWOSTAGE.CONNECT_SESSION]")
    assert "option('columns'" in text
    assert "option('filter'" in text
    assert "server" in text
    for name in ("last_scan", "scans"):
        kind, text = found[name]
        assert kind == "OptionError"
        assert text.startswith("[TWOSTAGE.CONNECT_SESSION]")
        assert "in the Python program that runs the Connect server" in text
