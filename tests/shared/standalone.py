"""A Spark cluster on one machine that Spark sees as two hosts: 127.0.0.2 and 127.0.0.3.

Spark places no speculative copy on the host of the first attempt, so ``local-cluster``, one host, never runs one.
"""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pyspark

if TYPE_CHECKING:
    from collections.abc import Iterator

HOSTS = ("127.0.0.2", "127.0.0.3")
DEPLOY = "org.apache.spark.deploy"
START_SECONDS = 60


@contextlib.contextmanager
def standalone(folder: Path, environment: dict[str, str]) -> Iterator[str]:
    """Start a master and a two-core worker on each host; yield the master's URL, stop them afterwards.

    Args:
        folder: For the daemons' logs and the executors' working directories.
        environment: The daemons', and through them the executors'.
    """
    home = Path(environment.get("SPARK_HOME") or Path(pyspark.__file__).parent)
    environment = {**environment, "SPARK_HOME": str(home), "SPARK_DAEMON_MEMORY": "256m"}
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    url = f"spark://127.0.0.1:{port}"
    master = ["master.Master", "--host", "127.0.0.1", "--port", str(port), "--webui-port", "0"]
    common = ["--cores", "2", "--memory", "1g", "--webui-port", "0"]
    daemons: list[subprocess.Popen[bytes]] = []

    def start(address: str, arguments: list[str]) -> None:
        with (folder / f"log-{address}").open("wb") as log:
            daemons.append(
                subprocess.Popen(
                    [str(home / "bin" / "spark-class"), f"{DEPLOY}.{arguments[0]}", *arguments[1:]],
                    env={**environment, "SPARK_LOCAL_IP": address},
                    cwd=folder,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                )
            )

    try:
        start("127.0.0.1", master)
        _wait_for(port, daemons[0])
        for host in HOSTS:
            start(host, ["worker.Worker", "--host", host, *common, "--work-dir", str(folder / host), url])
        yield url
    finally:
        for daemon in reversed(daemons):
            daemon.terminate()
        for daemon in daemons:
            try:
                daemon.wait(20)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()


def _wait_for(port: int, master: subprocess.Popen[bytes]) -> None:
    """Wait until the master listens."""
    end = time.monotonic() + START_SECONDS
    while time.monotonic() < end and master.poll() is None:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.1)
    raise RuntimeError(f"the master did not start: exit code {master.poll()}, {os.getcwd()}")  # noqa: PTH109
