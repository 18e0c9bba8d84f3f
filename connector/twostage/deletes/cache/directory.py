"""The directory of the host's cache: one that only this user can read, write or replace.

Takes the option ``deletes.cache-dir`` (or another cache's), or tries the user's cache directory and then the
temporary one; returns a directory, or why it cannot be used. The rule: whoever can write there decides which
rows are deleted, so a directory that another user owns, may write to or may replace is not used.
"""

from __future__ import annotations

import contextlib
import os
import stat
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from twostage.errors import mask

if TYPE_CHECKING:
    from collections.abc import Iterator


def private_directory(directory: Path) -> tuple[Path | None, str]:
    """Return the directory, creating it if necessary, if only this user can use it; else None and the reason.

    Refuses links, directories of another user or open to others, directories that others may replace (they
    own or may write to a parent), and directories that this user cannot write to.
    """
    if not directory.is_absolute() or not hasattr(os, "getuid"):
        return None, "it is not an absolute path"
    try:
        directory.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        directory.mkdir(mode=0o700, exist_ok=True)
        own = directory.lstat()
        if not stat.S_ISDIR(own.st_mode):
            return None, "its directory is a link or a file"
        if own.st_uid != os.getuid() or stat.S_IMODE(own.st_mode) & 0o077:
            return None, "its directory belongs to, or is open to, other users"
        resolved = directory.resolve()
        for parent in resolved.parents:
            status = parent.stat()
            others_write = status.st_mode & 0o022 and not status.st_mode & stat.S_ISVTX
            if others_write or status.st_uid not in (0, os.getuid()):
                return None, "other users may replace its directory"
        if not os.access(resolved, os.R_OK | os.W_OK | os.X_OK):
            return None, "its directory cannot be written"
    except (OSError, RuntimeError) as error:  # RuntimeError: links that lead in a circle
        return (
            None,
            f"its directory cannot be created or opened: {mask(getattr(error, 'strerror', None) or str(error))}",
        )
    return resolved, ""


def first_usable(chosen: str | None, folder: str = "deletes") -> tuple[Path | None, str]:
    """Return the first of `candidates` that only this user can use; else None and why the last one cannot be used."""
    reason = "there is none"
    for candidate in candidates(chosen, folder):
        directory, reason = private_directory(candidate)
        if directory is not None:
            return directory, ""
    return None, reason


def candidates(chosen: str | None, folder: str = "deletes") -> Iterator[Path]:
    """Yield possible cache directories, best first: only the one that the option names, if it names one."""
    if chosen is not None:
        yield Path(chosen)
        return
    with contextlib.suppress(Exception):  # no home
        import platformdirs  # noqa: PLC0415 - few processes need it

        yield platformdirs.user_cache_path("twostage", appauthor=False) / folder
    with contextlib.suppress(OSError, AttributeError):
        yield Path(tempfile.gettempdir(), f"twostage-{os.getuid()}", folder)
