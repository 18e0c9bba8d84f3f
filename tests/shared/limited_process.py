"""Calls a function in a child process with limits on memory and time, and survives its crashes.

Takes a function by name (``module:function``, from JSON dicts to JSON dicts) and requests; returns its
answers. A child that died or hangs is also an answer (`CRASH`, `HANG`), and the next request gets a new
child. The memory limit applies on top of what the child uses when it is ready: interpreter and libraries are
not counted.
"""

from __future__ import annotations

import importlib
import json
import os
import re
import resource
import selectors
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

MEMORY = 2**30
SECONDS = 30.0
START_SECONDS = 120.0
CRASH, HANG, RAISED = "CRASH", "HANG", "RAISED"


class LimitedProcess:
    """A child that answers requests; use it as a context manager.

    Args:
        function: ``module:function``; the module is found on the tests' path.
        memory: Bytes of address space that an answer may take.
        seconds: Time limit for one answer.
        pool: Arrow's memory pool; the empty name is that of the product's processes.
    """

    def __init__(
        self, function: str, *, memory: int = MEMORY, seconds: float = SECONDS, pool: str = "system"
    ) -> None:
        self._command = [sys.executable, str(Path(__file__)), function, str(memory)]
        self._seconds = seconds
        self._pool = pool
        self._child: subprocess.Popen[bytes] | None = None
        self.starts = 0
        """Children started: one, and another after each that died."""

    def __enter__(self) -> LimitedProcess:
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        """Return the answer; ``{"class": CRASH}`` or ``{"class": HANG}`` with a ``detail`` if there is none."""
        child = self._child or self._start()
        assert child.stdin is not None
        try:
            child.stdin.write(json.dumps(request).encode() + b"\n")
            child.stdin.flush()
            line = self._line(child, self._seconds)
        except TimeoutError:
            self._end()
            return {"class": HANG, "detail": f"no answer within {self._seconds} s"}
        except (EOFError, BrokenPipeError):
            code = child.wait()
            self._end()
            how = signal.Signals(-code).name if code < 0 else f"exit code {code}"
            return {"class": CRASH, "detail": how}
        return dict(json.loads(line))

    def _start(self) -> subprocess.Popen[bytes]:
        """Start a child and wait until it has imported what it needs."""
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
            # Other allocators' pools reserve far more address space than they use.
            "ARROW_DEFAULT_MEMORY_POOL": self._pool,
            "MALLOC_ARENA_MAX": "1",
            "OMP_NUM_THREADS": "1",
        }
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        self._child = subprocess.Popen(self._command, env=environment, **pipes)  # type: ignore[call-overload]
        self.starts += 1
        assert self._line(self._child, START_SECONDS) == b"ready"
        return self._child

    @staticmethod
    def _line(child: subprocess.Popen[bytes], seconds: float) -> bytes:
        assert child.stdout is not None
        with selectors.DefaultSelector() as selector:  # select() is limited to 1,024 files
            selector.register(child.stdout, selectors.EVENT_READ)
            if not selector.select(seconds):
                raise TimeoutError
        line = child.stdout.readline()
        if not line.endswith(b"\n"):
            raise EOFError
        return line[:-1]

    def _end(self) -> None:
        if self._child is None:
            return
        self._child.kill()
        self._child.wait()
        for pipe in (self._child.stdin, self._child.stdout):
            assert pipe is not None
            pipe.close()
        self._child = None


def memory_of_this_process(name: str) -> int:
    """Return a figure of /proc/self/status in bytes: ``VmSize`` (address space) or ``VmHWM`` (peak)."""
    found = re.search(rf"{name}:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert found is not None
    return int(found[1]) * 1024


def serve(function: str, memory: int) -> None:
    """Answer requests from standard input until it ends; what the function prints goes to standard error."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    module, _, name = function.partition(":")
    answer = getattr(importlib.import_module(module), name)
    limit = memory_of_this_process("VmSize") + memory
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    answers.write(b"ready\n")
    answers.flush()
    for line in sys.stdin:
        try:
            found = answer(json.loads(line))
        except Exception as error:
            found = {"class": RAISED, "detail": repr(error)}
        answers.write(json.dumps(found).encode() + b"\n")
        answers.flush()


if __name__ == "__main__":
    serve(sys.argv[1], int(sys.argv[2]))
