"""What tells a data file from one that is put in its place, as an index keeps it.

Takes a local file's path; gives 8 bytes: which host says it, and a hash of the file's time of change, which nobody can set. Of an
object it takes the ETag. The rule: what one host says is not compared with what another one says, because a copy or another mount
of the same file has another time.
"""

from __future__ import annotations

import functools
import hashlib
import socket
from pathlib import Path

from twostage.storage import files

STAMP_BYTES = 8
NO_STAMP = bytes(STAMP_BYTES)
"""Of a file that nothing tells apart: one that is missing, or an object whose ETag nobody has asked for."""
_HALF = STAMP_BYTES // 2
_BY_STORE = b"etag"
"""Says a stamp of an object, in a host's place."""


def file_stamp(path: str) -> bytes:
    """Return what stands for a located local file as it is now; `NO_STAMP` if it is remote or missing."""
    found = files.stamp(path)
    if not found:
        return NO_STAMP
    _, changed, _ = found
    return _host() + hashlib.blake2b(changed.to_bytes(8, "little", signed=True), digest_size=_HALF).digest()


def version_stamp(version: bytes) -> bytes:
    """Return what stands for an object that has this ETag; `NO_STAMP` if the store names none.

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
