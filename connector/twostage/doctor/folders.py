"""Looks at the folders that twostage keeps things in between queries: compiled kernels, and the host's delete keys.

Takes the reader's settings; gives findings. Both are made if they are not there, as a query would make them. A folder
that cannot be used is a warning: queries do without.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
from typing import TYPE_CHECKING

from twostage.deletes.cache import host
from twostage.doctor.finding import ok, warning
from twostage_native import _jit

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from twostage.doctor.finding import Finding
    from twostage.options import ReadSettings

KERNELS = "Compiled kernels"
DELETES = "Delete cache"
_GIB = 2**30


def kernels() -> Iterator[Finding]:
    """Look for a folder that compiled kernels can be kept in."""
    if os.environ.get("TWOSTAGE_JIT", "1") == "0":
        yield ok(KERNELS, "switched off by TWOSTAGE_JIT=0")
        return
    used = _jit.cache_directory()
    unfit = list(_unfit(_jit.cache_candidates(), used))
    if used is None:
        found = unfit[0][1] if unfit else "no folder to keep them in"
        yield warning(KERNELS, f"{found}: each process compiles for itself", _mend(unfit, "NUMBA_CACHE_DIR"))
    elif unfit:
        yield warning(KERNELS, f"{used}, for {unfit[0][1]}", _mend(unfit, "NUMBA_CACHE_DIR"))
    else:
        yield ok(KERNELS, _described(used))


def deletes(settings: ReadSettings) -> Iterator[Finding]:
    """Look for the folder that a host's workers share delete keys in, and for room in it."""
    if settings.delete_cache != "host":
        yield ok(DELETES, f"switched off by deletes.cache={settings.delete_cache}")
        return
    used: Path | None = None
    candidates = list(host.candidates(settings.delete_cache_dir))
    for candidate in candidates:
        used, _ = host.private_directory(candidate)
        if used is not None:
            break
    unfit = list(_unfit(candidates, used))
    if used is None:
        found = unfit[0][1] if unfit else "no folder to keep it in"
        yield warning(DELETES, f"{found}: each worker builds its own", _mend(unfit, "deletes.cache-dir"))
        return
    if unfit:
        yield warning(DELETES, f"{used}, for {unfit[0][1]}", _mend(unfit, "deletes.cache-dir"))
        return
    free = shutil.disk_usage(used).free
    if free < settings.delete_cache_size:
        yield warning(
            DELETES,
            f"{_described(used)}: {free / _GIB:.1f} GiB free, less than the "
            f"{settings.delete_cache_size / _GIB:.1f} GiB of deletes.cache-size",
            "Free some, set deletes.cache-size lower, or deletes.cache-dir to another disk.",
        )
        return
    yield ok(DELETES, f"{_described(used)}, {free / _GIB:.1f} GiB free")


def _unfit(candidates: Iterable[Path], used: Path | None) -> Iterator[tuple[Path, str]]:
    """Yield the folders that come before the one that is used, each with a sentence about why it is not."""
    for candidate in candidates:
        if used is not None and candidate.exists() and candidate.samefile(used):
            return
        _, reason = host.private_directory(candidate)
        if not candidate.is_absolute():
            reason = "it is not an absolute path"
        yield candidate, f"{candidate} is not used ({reason})"


def _mend(unfit: list[tuple[Path, str]], setting: str) -> str:
    otherwise = (
        f"Set {setting} to a folder that only you can write, below folders that only you or root can write."
    )
    for candidate, _ in unfit:
        with contextlib.suppress(OSError):
            own = candidate.lstat()
            if stat.S_ISDIR(own.st_mode) and own.st_uid == os.getuid() and stat.S_IMODE(own.st_mode) != 0o700:
                return f"chmod 700 {candidate}"
    return otherwise


def _described(folder: Path) -> str:
    return f"{folder}, mode {stat.S_IMODE(folder.stat().st_mode):04o}"
