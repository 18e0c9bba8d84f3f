"""A reader whose tasks fail on purpose; the workers import it from the Python path.

`install` makes the driver plan with it. What goes wrong stands in a file that the driver writes (`order`: a word of
`WORDS`, the case's name, the task, a number), so that one session serves all cases. A fault strikes the first attempt
of a task once: a marker file says that it did. Only the faults of memory strike every attempt.
"""

from __future__ import annotations

import contextlib
import os
import re
import resource
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from twostage.spark import bridge
from twostage.spark.source import GroupPartition, TwoStageReader

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

FOLDER = "TWOSTAGE_TEST_FAULTS"
SLOW_SECONDS = 40.0
COPY_SECONDS = 300.0
"""An attempt that is to lose against another one waits so long; Spark kills it as soon as the other has ended."""
WORDS = {
    "none": "nothing goes wrong",
    "raise": "the worker raises before its first batch",
    "kill": "the worker is killed after its first batch",
    "each-kill": "the same in every task",
    "half": "every task raises after its second batch",
    "executor": "the executor's JVM is killed after the first batch",
    "wait": "every task waits after its first batch: it is to be cancelled, or its driver killed",
    "limit": "nothing; the query stops early",
    "memory": "no byte of memory is left for the first attempt",
    "memory-always": "so many MiB are left for any attempt of any task",
    "slow": "of two copies the first reader waits after its first batch, so that the other ends first",
    "race": "the first reader goes on when the other begins",
    "late": "the same, and the other waits: the first reader ends first",
}
EVERY = ("half", "each-kill", "wait", "memory-always")


class FaultyReader(TwoStageReader):
    """Reads as the product does, and does what the order says before, between or after the batches."""

    folder = os.environ.get(FOLDER, "")

    def read(self, partition: Any) -> Iterator[Any]:
        if not isinstance(partition, GroupPartition):
            return
        folder, index = Path(self.folder), partition.group.index
        word, name, task, amount = ((folder / "order").read_text() if self.folder else "none - 0 0").split()

        def strike() -> bool:
            if index != int(task) and word not in EVERY:
                return False
            try:
                (folder / f"{name}-{index}").touch(exist_ok=False)
            except FileExistsError:
                return False
            return True

        if index == int(task):
            (folder / f"attempt-{name}-{os.getpid()}-{time.time_ns()}").touch()
        if word == "raise" and strike():
            raise RuntimeError("a worker's own fault")
        limit = None
        if word == "memory-always" or (word == "memory" and strike()):
            (folder / f"{name}-{index}").touch()
            limit = int(amount) << 20
        copies = word in ("slow", "race", "late") and index == int(task)
        is_first = copies and strike()
        for sent, batch in enumerate(_limited(lambda: super(FaultyReader, self).read(partition), limit), 1):
            yield batch
            # The batch was handed over; Spark may have sent it on to the JVM already.
            if word in ("kill", "each-kill") and strike():
                os.kill(os.getpid(), signal.SIGKILL)
            if word == "half" and sent == 2 and strike():
                raise RuntimeError("half of the batches were sent")
            if word == "executor" and strike():
                _kill_executor(folder)
            if word == "wait" and strike():
                time.sleep(SLOW_SECONDS)
            if copies and sent == 1:
                _beside_a_copy(word, is_first, lambda: len(list(folder.glob(f"attempt-{name}-*"))))

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (self._schema, self._reports, self.folder)


def _rebuild(schema: Any, metrics: Any, folder: str) -> FaultyReader:
    made = FaultyReader(schema, (), metrics)
    made.folder = folder
    return made


def _beside_a_copy(word: str, is_first: bool, attempts: Callable[[], int]) -> None:
    """Wait as the case asks; `attempts` tells how many have begun."""
    if (word, is_first) in (("slow", True), ("late", False)):
        time.sleep(COPY_SECONDS)
    elif is_first:
        end = time.monotonic() + COPY_SECONDS
        while attempts() < 2 and time.monotonic() < end:
            time.sleep(0.02)


def _limited(batches: Callable[[], Iterator[Any]], limit: int | None) -> Iterator[Any]:
    """Yield the batches while the process may take no more than `limit` bytes above what it has."""
    if limit is None:
        yield from batches()
        return
    import twostage.reading.pipeline  # noqa: F401, PLC0415 - what a fresh worker imports is no rows' memory

    found = re.search(r"VmSize:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert found is not None
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (int(found[1]) * 1024 + limit, before[1]))
    held = []
    try:
        if not limit:
            with contextlib.suppress(MemoryError):
                while True:  # what the heap has free is taken, too
                    held.append(bytearray(1 << 14))
        yield from batches()
    finally:
        held.clear()
        resource.setrlimit(resource.RLIMIT_AS, before)


def _kill_executor(folder: Path) -> None:
    """Kill the executor's JVM: the nearest process above that is one."""
    process = os.getpid()
    while process > 1:
        if b"CoarseGrainedExecutorBackend" in Path(f"/proc/{process}/cmdline").read_bytes():
            os.kill(process, signal.SIGKILL)
            (folder / f"lost-executor-{process}").touch()  # this worker outlives its JVM by a moment
            time.sleep(SLOW_SECONDS)
            return
        process = int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])
    raise RuntimeError("no executor above this worker")


def install() -> None:
    """Let the planner send these readers."""
    bridge.TwoStageReader = FaultyReader  # type: ignore[misc]
