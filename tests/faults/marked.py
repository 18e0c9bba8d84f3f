"""The processes of a Spark program and its cluster: those that have our mark in their environment."""

from __future__ import annotations

import os
import time
from pathlib import Path

MARK = "TWOSTAGE_TEST_MARK"


def marked(mark: str) -> dict[int, str]:
    """Return the processes whose environment has this mark, with their command lines; this one is not among them."""
    found = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                if f"{MARK}={mark}\0".encode() in (entry / "environ").read_bytes():
                    line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
                    found[int(entry.name)] = line[:200]
            except OSError:
                continue
    return found


def remaining(mark: str, seconds: float) -> dict[int, str]:
    """Return which of them are still there after at most so many seconds."""
    end = time.monotonic() + seconds
    while (found := marked(mark)) and time.monotonic() < end:
        time.sleep(0.1)
    return found


def open_files(mark: str, folder: str) -> list[str]:
    """Return the files of a folder that they, or this process, hold open."""
    found = []
    for process in (*marked(mark), os.getpid()):
        try:
            handles = list(Path(f"/proc/{process}/fd").iterdir())
        except OSError:
            continue
        for handle in handles:
            try:
                target = os.readlink(handle)
            except OSError:
                continue
            if target.startswith(folder):
                found.append(f"{process} {target}")
    return found


def settled(mark: str, folder: str) -> list[str]:
    """Return what stays open after a while: a cancelled task closes its files when it notices."""
    for _ in range(100):
        if not (found := open_files(mark, folder)):
            return []
        time.sleep(0.1)
    return found
