"""Check the cache folders: compiled kernels, and what the workers of a host share.

Takes the reader's settings; yields findings. Missing folders are created, as a query would create them. A folder that
cannot be used is a warning, because queries run without it.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from twostage.deletes.cache import directory
from twostage.doctor.finding import ok, warning
from twostage_native import _jit

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from twostage.doctor.finding import Finding
    from twostage.options import ReadSettings

KERNELS = "Compiled kernels"
_GIB = 2**30


@dataclass(frozen=True, slots=True, kw_only=True)
class HostCacheFolder:
    """A cache of the host, and the options that configure it.

    Attributes:
        check: The check's name as shown.
        option: Says who keeps it; with ``-dir`` and ``-size``, where and how much of it.
        setting: That option's attribute of `ReadSettings`; with ``_dir`` and ``_size`` those of the others.
        folder: Its name below twostage's own in the user's cache directory.
        otherwise: What happens without it.
    """

    check: str
    option: str
    setting: str
    folder: str
    otherwise: str


HOST_CACHES = (
    HostCacheFolder(
        check="Delete cache",
        option="deletes.cache",
        setting="delete_cache",
        folder="deletes",
        otherwise="each worker builds its own",
    ),
    HostCacheFolder(
        check="Footer cache",
        option="footers.cache",
        setting="footer_cache",
        folder="footers",
        otherwise="each worker reads its own",
    ),
    HostCacheFolder(
        check="Condition cache",
        option="filter.cache",
        setting="filter_cache",
        folder="conditions",
        otherwise="each worker keeps its own in memory",
    ),
)


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


def host_cache(cache: HostCacheFolder, settings: ReadSettings) -> Iterator[Finding]:
    """Check a folder that the workers of a host share, and its free space."""
    if _setting(settings, cache, "") != "host":
        yield ok(cache.check, f"switched off by {cache.option}={_setting(settings, cache, '')}")
        return
    used: Path | None = None
    candidates = list(directory.candidates(_setting(settings, cache, "_dir"), cache.folder))
    for candidate in candidates:
        used, _ = directory.private_directory(candidate)
        if used is not None:
            break
    rejected = list(_rejected(candidates, used))
    mend = _mend(rejected, f"{cache.option}-dir")
    if used is None:
        found = rejected[0][1] if rejected else "no folder to keep it in"
        yield warning(cache.check, f"{found}: {cache.otherwise}", mend)
        return
    if rejected:
        yield warning(cache.check, f"{used}, for {rejected[0][1]}", mend)
        return
    free, size = shutil.disk_usage(used).free, _setting(settings, cache, "_size")
    if free < size:
        yield warning(
            cache.check,
            f"{_described(used)}: {free / _GIB:.1f} GiB free, less than the {size / _GIB:.1f} GiB of {cache.option}-size",
            f"Free some, set {cache.option}-size lower, or {cache.option}-dir to another disk.",
        )
        return
    yield ok(cache.check, f"{_described(used)}, {free / _GIB:.1f} GiB free")


def _setting(settings: ReadSettings, cache: HostCacheFolder, part: str) -> Any:
    """Return what the settings say about a cache: who keeps it (no `part`), its ``_dir`` or its ``_size``."""
    return getattr(settings, cache.setting + part)


def _rejected(candidates: Iterable[Path], used: Path | None) -> Iterator[tuple[Path, str]]:
    """Yield the candidates that precede the folder in use, each with the reason why it is not used."""
    for candidate in candidates:
        if used is not None and candidate.exists() and candidate.samefile(used):
            return
        _, reason = directory.private_directory(candidate)
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
