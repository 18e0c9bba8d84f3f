"""Check the cache folders: compiled kernels, and the host's delete keys.

Takes the reader's settings; yields findings. Missing folders are created, as a query would create them. A folder that
cannot be used is a warning, because queries run without it.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
from typing import TYPE_CHECKING

from twostage.deletes.cache import directory
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
    """Check the folder for compiled kernels."""
    if os.environ.get("TWOSTAGE_JIT", "1") == "0":
        yield ok(KERNELS, "switched off by TWOSTAGE_JIT=0")
        return
    used = _jit.cache_directory()
    rejected = list(_rejected(_jit.cache_candidates(), used))
    if used is None:
        found = rejected[0][1] if rejected else "no folder to keep them in"
        yield warning(
            KERNELS, f"{found}: each process compiles for itself", _mend(rejected, "NUMBA_CACHE_DIR")
        )
    elif rejected:
        yield warning(KERNELS, f"{used}, for {rejected[0][1]}", _mend(rejected, "NUMBA_CACHE_DIR"))
    else:
        yield ok(KERNELS, _described(used))


def deletes(settings: ReadSettings) -> Iterator[Finding]:
    """Check the folder in which the workers of a host share delete keys, and its free space."""
    if settings.delete_cache != "host":
        yield ok(DELETES, f"switched off by deletes.cache={settings.delete_cache}")
        return
    used: Path | None = None
    candidates = list(directory.candidates(settings.delete_cache_dir))
    for candidate in candidates:
        used, _ = directory.private_directory(candidate)
        if used is not None:
            break
    rejected = list(_rejected(candidates, used))
    if used is None:
        found = rejected[0][1] if rejected else "no folder to keep it in"
        yield warning(DELETES, f"{found}: each worker builds its own", _mend(rejected, "deletes.cache-dir"))
        return
    if rejected:
        yield warning(DELETES, f"{used}, for {rejected[0][1]}", _mend(rejected, "deletes.cache-dir"))
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


def _rejected(candidates: Iterable[Path], used: Path | None) -> Iterator[tuple[Path, str]]:
    """Yield the candidates that precede the folder in use, each with the reason why it is not used."""
    for candidate in candidates:
        if used is not None and candidate.exists() and candidate.samefile(used):
            return
        _, reason = directory.private_directory(candidate)
        if not candidate.is_absolute():
            reason = "it is not an absolute path"
        yield candidate, f"{candidate} is not used ({reason})"


def _mend(rejected: list[tuple[Path, str]], setting: str) -> str:
    otherwise = (
        f"Set {setting} to a folder that only you can write, below folders that only you or root can write."
    )
    for candidate, _ in rejected:
        with contextlib.suppress(OSError):
            own = candidate.lstat()
            if stat.S_ISDIR(own.st_mode) and own.st_uid == os.getuid() and stat.S_IMODE(own.st_mode) != 0o700:
                return f"chmod 700 {candidate}"
    return otherwise


def _described(folder: Path) -> str:
    return f"{folder}, mode {stat.S_IMODE(folder.stat().st_mode):04o}"
