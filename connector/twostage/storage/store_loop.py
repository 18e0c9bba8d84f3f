"""The thread in which a process talks to object stores: one event loop, started at the first request.

Spark forks its Python workers, and neither a thread nor the runtime of a Rust library survives that. The rules: nothing
starts before the first request, and a process that was forked from one with a running loop knows that it was; asyncio, whose
import takes 23 ms of CPU, is imported at the first request too, which tables on local disks never make.
"""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import asyncio

_lock = threading.Lock()
_loop: asyncio.AbstractEventLoop | None = None
_was_forked_while_running = False


def event_loop() -> asyncio.AbstractEventLoop:
    """Return the process's event loop, running in a thread of its own."""
    global _loop  # noqa: PLW0603 - one for each process
    with _lock:
        if _loop is None:
            from asyncio import new_event_loop  # noqa: PLC0415

            _loop = new_event_loop()
            threading.Thread(target=_loop.run_forever, name="twostage-store", daemon=True).start()
        return _loop


async def pause(seconds: float) -> None:
    """Wait, in the event loop."""
    from asyncio import sleep  # noqa: PLC0415

    await sleep(seconds)


def lost_its_runtime() -> bool:
    """Return whether this process was forked from one that had read from a store: Rust clients do not work here."""
    return _was_forked_while_running


def _after_fork() -> None:
    global _lock, _loop, _was_forked_while_running  # noqa: PLW0603 - one for each process
    _lock = threading.Lock()
    if _loop is not None:
        _loop, _was_forked_while_running = None, True


os.register_at_fork(after_in_child=_after_fork)
