"""What a process and its descendants have used, seen from outside: CPU seconds and bytes read.

The same figures for every engine, whatever it is written in: `utime` and `stime` of /proc/PID/stat, `rchar`
(bytes returned by read calls, also from the page cache) and `read_bytes` (bytes from the disk) of
/proc/PID/io. Linux only.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Used:
    """CPU seconds, bytes returned by read calls, bytes read from the disk."""

    cpu: float
    read: int
    from_disk: int


class ProcessTree:
    """A process and its descendants; `used` returns what they used since the last call."""

    def __init__(self, root: int) -> None:
        self._root = root
        self._last: dict[int, Used] = {}
        self.used()

    def used(self) -> Used:
        """Return what was used since the last call, without processes that ended in between."""
        now = {pid: used for pid in self.members() if (used := _used(pid)) is not None}
        none = Used(0, 0, 0)
        changes = [(used, self._last.get(pid, none)) for pid, used in now.items()]
        self._last = now
        return Used(
            sum(new.cpu - old.cpu for new, old in changes),
            sum(new.read - old.read for new, old in changes),
            sum(new.from_disk - old.from_disk for new, old in changes),
        )

    def members(self) -> list[int]:
        """Return the processes that are alive."""
        children: dict[int, list[int]] = {}
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit() and (stat := _stat(int(entry.name))):
                children.setdefault(int(stat[1]), []).append(int(entry.name))
        found, waiting = [], [self._root]
        while waiting:
            pid = waiting.pop()
            found.append(pid)
            waiting += children.get(pid, [])
        return found


def _stat(pid: int) -> list[str]:
    """Return the fields of /proc/PID/stat after the name, which may contain spaces; none if the process has ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


def _used(pid: int) -> Used | None:
    stat = _stat(pid)
    try:
        lines = Path(f"/proc/{pid}/io").read_text().splitlines()
    except OSError:
        return None
    if not stat:
        return None
    io = {name: int(value) for name, _, value in (line.partition(":") for line in lines)}
    return Used((int(stat[11]) + int(stat[12])) / TICKS, io["rchar"], io["read_bytes"])


def forget_files(folder: Path) -> None:
    """Drop all files of a folder from the page cache, so that the next reads come from the disk."""
    os.sync()  # dirty pages would stay
    for path in folder.rglob("*"):
        if path.is_file():
            descriptor = os.open(path, os.O_RDONLY)
            try:
                os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            finally:
                os.close(descriptor)
