"""A reader whose tasks fail on purpose; the workers import it from the Python path.

`install` makes the driver plan with it. What goes wrong is one word in a file that the driver writes (`order`), so that
one session serves all cases. Each fault strikes the first attempt of a task once: a marker file says that it did.
"""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from twostage.spark import bridge
from twostage.spark.source import GroupPartition, TwoStageReader

if TYPE_CHECKING:
    from collections.abc import Iterator

FOLDER = "TWOSTAGE_TEST_FAULTS"
SLOW_SECONDS = 40.0


class FaultyReader(TwoStageReader):
    """Reads as the product does, and does what the order says before, between or after the batches."""

    folder = os.environ.get(FOLDER, "")

    def read(self, partition: Any) -> Iterator[Any]:
        folder = Path(self.folder)
        order = (folder / "order").read_text() if self.folder else ""
        word, _, name = order.partition(" ")
        if not isinstance(partition, GroupPartition):
            return
        index = partition.group.index
        every = word in ("half", "each-kill", "wait")

        def strike() -> bool:
            if word == "none" or (index and not every):
                return False
            try:
                (folder / f"{name}-{index}").touch(exist_ok=False)
            except FileExistsError:
                return False
            return True

        if word != "none" and index == 0:
            (folder / f"attempt-{name}-{os.getpid()}-{time.time_ns()}").touch()
        if word == "raise" and strike():
            raise RuntimeError("a worker's own fault")
        sent = 0
        for batch in super().read(partition):
            yield batch
            sent += 1
            # The batch was handed over; Spark may have sent it on to the JVM already.
            if word in ("kill", "each-kill") and strike():
                os.kill(os.getpid(), signal.SIGKILL)
            if word == "half" and sent == 2 and strike():
                raise RuntimeError("half of the batches were sent")
            if word == "executor" and strike():
                _kill_executor(folder)
            if word == "wait" and strike():
                time.sleep(SLOW_SECONDS)

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (self._schema, self._metrics, self.folder)


def _rebuild(schema: Any, metrics: Any, folder: str) -> FaultyReader:
    made = FaultyReader(schema, (), metrics)
    made.folder = folder
    return made


def _kill_executor(folder: Path) -> None:
    """Kill the executor's JVM: the nearest process above that is one."""
    process = os.getpid()
    while process > 1:
        if b"CoarseGrainedExecutorBackend" in Path(f"/proc/{process}/cmdline").read_bytes():
            os.kill(process, signal.SIGKILL)
            (folder / f"executor-{process}").touch()  # this worker outlives its JVM by a moment
            time.sleep(SLOW_SECONDS)
            return
        process = int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])
    raise RuntimeError("no executor above this worker")


def install() -> None:
    """Let the planner send these readers."""
    bridge.TwoStageReader = FaultyReader  # type: ignore[misc]
