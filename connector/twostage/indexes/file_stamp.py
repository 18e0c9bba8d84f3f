"""Stamps by which an index tells a data file from one that was put in its place.

Takes a local file's path; gives 8 bytes: which host it was, and a hash of the file's change time (ctime), which nobody can set. For
an object it takes the ETag. The rule: stamps of different hosts are not compared, because a copy or another mount of the same file
has another time.
"""

from __future__ import annotations

import functools
import hashlib
import socket
from pathlib import Path

from twostage.storage import files

STAMP_BYTES = 8
NO_STAMP = bytes(STAMP_BYTES)
"""Of a file that cannot be told apart: one that is missing, or an object whose ETag is not known."""
_HALF = STAMP_BYTES // 2
_BY_STORE = b"etag"
"""Marks the stamp of an object, in place of a host."""


def file_stamp(path: str) -> bytes:
    """Return the stamp of a located local file as it is now; `NO_STAMP` if it is remote or missing."""
    found = files.stamp(path)
    if not found:
        return NO_STAMP
    _, changed, _ = found
    return _host() + hashlib.blake2b(changed.to_bytes(8, "little", signed=True), digest_size=_HALF).digest()


def version_stamp(version: bytes) -> bytes:
    """Return the stamp of an object that has this ETag; `NO_STAMP` if the store names none.

    >>> is_replaced(version_stamp(b"1"), version_stamp(b"2")), is_replaced(version_stamp(b"1"), version_stamp(b""))
    (True, False)
    """
    return _BY_STORE + hashlib.blake2b(version, digest_size=_HALF).digest() if version else NO_STAMP


def is_replaced(kept: bytes, now: bytes) -> bool:
    """Tell whether a file's stamp proves that it is not the one that was indexed.

    >>> is_replaced(b"hostaaaa", b"hostbbbb"), is_replaced(b"hostaaaa", b"elsebbbb"), is_replaced(NO_STAMP, b"hostbbbb")
    (True, False, False)
    """
    return kept[:_HALF] == now[:_HALF] != NO_STAMP[:_HALF] and kept != now


@functools.cache
def _host() -> bytes:
    try:
        machine = Path("/etc/machine-id").read_bytes()
    except OSError:
        machine = b""
    found = hashlib.blake2b(machine + socket.gethostname().encode(), digest_size=_HALF).digest()
    return found if found not in (NO_STAMP[:_HALF], _BY_STORE) else b"host"
