"""An engine in a separate process, and the client that queries it and measures it from outside.

Requests and answers are lines of JSON on stdin and stdout; whatever else the engine prints goes to stderr.
All ways through Spark share one process; every other engine has its own.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from process_tree import ProcessTree
from queries import Query


@dataclass(frozen=True)
class Measured:
    """One run of a query: wall seconds, and the process tree's usage."""

    seconds: float
    cpu: float
    read: int
    from_disk: int


class EngineError(Exception):
    """An engine failed, or ended."""


class EngineProcess:
    """An engine's process. Use it as a context manager.

    Args:
        warehouse: The folder of its tables.
        python_path: Where its Python and the workers' look for packages first.
    """

    def __init__(self, warehouse: str, python_path: str | None = None) -> None:
        self._log = tempfile.TemporaryFile("w+")  # noqa: SIM115 - closed when the process ends
        self._process = subprocess.Popen(
            [sys.executable, __file__, warehouse],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            env=None if python_path is None else {**os.environ, "PYTHONPATH": python_path},
            text=True,
            bufsize=1,
        )
        self._tree = ProcessTree(self._process.pid)

    def __enter__(self) -> EngineProcess:
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(60)
        except subprocess.TimeoutExpired:
            self._process.kill()
        self._log.close()

    @property
    def is_running(self) -> bool:
        """Whether the process has not ended."""
        return self._process.poll() is None

    def ask(self, action: str, engine: str, query: Query | None = None, cap: float = 600) -> Any:
        """Send one request and wait for its answer; None if it was stopped after `cap` seconds."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        question = {"action": action, "engine": engine, "cap": cap, "query": query and asdict(query)}
        self._process.stdin.write(json.dumps(question) + "\n")
        line = self._process.stdout.readline()
        if not line:
            self._log.seek(0)
            raise EngineError(f"{engine} ended:\n{self._log.read()[-3000:]}")
        found = json.loads(line)
        if "error" in found:
            raise EngineError(f"{engine}, {query and query.title}: {found['error']}")
        return found["value"]

    def measure(self, engine: str, query: Query, cap: float) -> Measured | None:
        """Run a query once; None if it was stopped."""
        self._tree.used()
        started = time.perf_counter()
        is_done = self.ask("run", engine, query, cap)
        seconds = time.perf_counter() - started
        used = self._tree.used()
        return Measured(seconds, used.cpu, used.read, used.from_disk) if is_done else None


def serve(warehouse: str) -> None:
    """Answer requests until there are no more."""
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # Spark and Ivy print, too
    from engines import Stopped, start_engine  # noqa: PLC0415 - heavy, and the client needs none of it

    engines: dict[str, Any] = {}
    columns: list[str] = []
    for line in sys.stdin:
        asked = json.loads(line)
        name, cap = asked["engine"], asked["cap"]
        try:
            if name not in engines:
                engines[name] = start_engine(warehouse, name)
            engine = engines[name]
            value: Any = None
            if asked["action"] != "start":
                query = Query(**asked["query"])
                columns = columns or engine.names()
                sql = query.sql(columns)
                value = (
                    engine.answer(query, sql, cap)
                    if asked["action"] == "answer"
                    else engine.run(query, sql, cap) or True
                )
            answers.write(json.dumps({"value": value}) + "\n")
        except Stopped:
            answers.write(json.dumps({"value": None}) + "\n")
        except Exception as error:  # noqa: BLE001 - the client decides
            answers.write(json.dumps({"error": f"{type(error).__name__}: {error}"[:2000]}) + "\n")
    if "pyspark" in sys.modules:
        from pyspark.sql import SparkSession  # noqa: PLC0415

        session = SparkSession.getActiveSession()
        if session is not None:
            session.stop()


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent))
    serve(sys.argv[1])
