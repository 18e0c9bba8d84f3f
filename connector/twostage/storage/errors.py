"""Errors of libraries and the operating system as ours.

Takes the exceptions of pyarrow, its file systems and the operating system; raises ours. The rules: bytes that are wrong
are `CorruptFileError`, bytes that could not be read are `StorageError` or `MissingFileError`; and a library's text is
repeated masked and shortened, never chained, because its traceback would show what `mask` removed.
"""

from __future__ import annotations

import contextlib
import re
import struct
import zlib
from typing import TYPE_CHECKING

import pyarrow as pa

from twostage.errors import (
    CorruptFileError,
    MissingFileError,
    ResourceLimitError,
    StorageError,
    TwoStageError,
    UnsupportedFeatureError,
    mask,
)
from twostage.storage.expiry import expires_at, refused
from twostage.storage.location import is_outside, parse_location
from twostage.storage.reach import is_unreached, reach_hint
from twostage.storage.vended_credentials import vended_credentials

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from twostage.task import Storage

MAX_TEXT = 300
"""Characters of a library's message that are repeated."""
MAX_UNMASKED_SECRET = 3
"""Characters of a secret up to which it is not masked: replacing it would garble the message."""

_SECRET_KEY = re.compile(
    r"(?i)secret|token|passw(?:or)?d|passphrase|credential|access-key|account-key|api-?key|authorization|sas"
    r"|connection-string"
)
_LOGIN = re.compile(r"://[^/\s:@]*:([^/\s]+)@")
_MISSING = re.compile(
    r"(?i)NO_SUCH_(?:KEY|BUCKET)|RESOURCE_NOT_FOUND|HTTP (?:status |error |response code:? )?404"
    r"|NoSuchKey|BlobNotFound|ContainerNotFound|Path does not exist|FileNotFoundException"
)
_DENIED = re.compile(
    r"(?i)ACCESS_DENIED|INVALID_ACCESS_KEY|SIGNATURE_DOES_NOT_MATCH|EXPIRED|UNRECOGNIZED_CLIENT"
    r"|HTTP (?:\w+ )*40[13]|AuthenticationFailed|AuthorizationFailure|AccessControlException|Permission"
)
_TRANSPORT = re.compile(
    r"(?i)AWS Error|curl|google::cloud|Azure|HDFS|HTTP |timed? ?out|connection|network|resolve host|SLOW_DOWN"
)
_NOT_IMPLEMENTED = re.compile(r"(?i)not yet implemented|not supported by the C\+\+ implementation")
_DAMAGE = (
    ValueError,
    pa.ArrowException,
    struct.error,
    zlib.error,
    EOFError,
    OverflowError,
    LookupError,
    RecursionError,  # a schema nested a thousand deep
)


@contextlib.contextmanager
def name_snapshot(snapshot_id: int | None) -> Iterator[None]:
    """Add to errors of the block which snapshot was read, and what it means if one of its files is missing."""
    try:
        yield
    except TwoStageError as error:
        if error.snapshot_id is None:
            error.snapshot_id = snapshot_id
        if isinstance(error, MissingFileError) and error.hint is None and snapshot_id is not None:
            error.hint = (
                f"A file of snapshot {snapshot_id} is gone: the snapshot was expired, or the file removed, after "
                "the table was loaded. Load the table again to read its current snapshot."
            )
        raise


@contextlib.contextmanager
def translate_errors(path: str, stage: str, *, storage: Storage | None = None) -> Iterator[None]:
    """Turn exceptions of libraries and of the system that leave the block into ours; ours gain the file's path.

    The file does not exist: `MissingFileError`. No access or no network: `StorageError`. Out of memory:
    `ResourceLimitError`. Anything that says that the bytes are wrong: `CorruptFileError`. The library's exception is not
    chained, because its text may hold what `mask` removed.

    Args:
        path: The file, for the error.
        stage: The stage, for the error.
        storage: The scan's, whose secrets are masked.
    """
    try:
        yield
    except TwoStageError as error:
        error.path = error.path or mask(path)
        raise
    except MemoryError as error:
        raise ResourceLimitError(
            "OUT_OF_MEMORY",
            f"Out of memory: {_text(error, storage, path)}",
            path=path,
            stage=stage,
            hint="Give Spark's Python workers more memory, or lower the option 'task-memory'.",
        ) from None
    except pa.ArrowNotImplementedError as error:
        raise _unreadable(error, path, stage, storage) from None
    except OSError as error:
        raise _from_os_error(error, path, stage, storage) from None
    except _DAMAGE as error:
        raise CorruptFileError(
            "CORRUPT_FILE", f"File is damaged: {_text(error, storage, path)}", path=path, stage=stage
        ) from None


def _from_os_error(error: OSError, path: str, stage: str, storage: Storage | None) -> TwoStageError:
    """Return our error for an OSError, which pyarrow raises for damage and for the network alike; its text tells which."""
    text = str(error)
    shown = _text(error, storage, path)
    remote = not parse_location(path).is_local
    if isinstance(error, (FileNotFoundError, NotADirectoryError)) or (remote and _MISSING.search(text)):
        return missing(path, stage, storage)
    if isinstance(error, PermissionError) or (remote and _DENIED.search(text)):
        if remote:
            vended = vended_credentials(storage) if storage else None
            if vended is not None:
                return refused(shown, path, stage, vended.until, vended.failure)
            return refused(shown, path, stage, expires_at(storage.properties) if storage else None)
        hint = "The user of the Spark process (driver or executor) needs permission to read it."
        return StorageError(
            "ACCESS_DENIED", f"Storage refused access: {shown}", path=path, stage=stage, hint=hint
        )
    if isinstance(error, IsADirectoryError):
        return StorageError("NOT_A_FILE", "Path is a folder", path=path, stage=stage)
    known = isinstance(error, (TimeoutError, ConnectionError)) or error.errno is not None
    if known or (remote and _TRANSPORT.search(text)):
        reach = None
        if remote and storage and is_unreached(text):
            reach = reach_hint(parse_location(path), storage.properties)
        return StorageError(
            "STORAGE_FAILED", f"Storage failed: {shown}", transient=remote, path=path, stage=stage, hint=reach
        )
    if _NOT_IMPLEMENTED.search(text):
        return _unreadable(error, path, stage, storage)
    return CorruptFileError("CORRUPT_FILE", f"File is damaged: {shown}", path=path, stage=stage)


def missing(path: str, stage: str, storage: Storage | None) -> MissingFileError:
    """Return the error for a file that is not in storage; one outside the table's folder may have been left behind there."""
    hint = "If the table was copied from there, set allow-moved-paths=true."
    is_elsewhere = storage is not None and is_outside(storage, path)
    return MissingFileError(
        "MISSING_FILE", "File is not in storage", path=path, stage=stage, hint=hint if is_elsewhere else None
    )


def _unreadable(error: Exception, path: str, stage: str, storage: Storage | None) -> UnsupportedFeatureError:
    """Return the error for a feature of the format that Arrow does not implement, such as LZO."""
    return UnsupportedFeatureError(
        "UNREADABLE_BY_ARROW",
        f"File cannot be read by Arrow, which decodes it: {_text(error, storage, path)}",
        path=path,
        stage=stage,
    )


def _text(error: BaseException, storage: Storage | None, path: str = "") -> str:
    properties = dict(storage.properties) if storage else {}
    return hide_secrets(error, {**properties, "path": path, "root": storage.root if storage else ""})


def hide_secrets(error: BaseException, properties: Mapping[str, str]) -> str:
    """Return the exception's class and the beginning of its text, without the secrets among `properties`.

    >>> hide_secrets(OSError("token abc4711 refused"), {"s3.session-token": "abc4711"})
    'OSError token *** refused'
    """
    text = f"{type(error).__name__} {error}"
    for secret in secrets_of(properties):
        text = text.replace(secret, "***")
    lines = text.strip().splitlines()
    return lines[0][:MAX_TEXT] if lines else ""


def secrets_of(properties: Mapping[str, str]) -> list[str]:
    """Return the values that must not be shown, the longest first, because one may contain another.

    >>> secrets_of({"s3.session-token": "abc4711", "uri": "http://me:hidden@host/", "s3.region": "eu-west-1"})
    ['abc4711', 'hidden']
    """
    found = {str(value) for key, value in properties.items() if _SECRET_KEY.search(key)}
    found.update(login for value in properties.values() for login in _LOGIN.findall(str(value)))
    return sorted(
        (value for value in found if len(value) > MAX_UNMASKED_SECRET), key=lambda one: (-len(one), one)
    )
