"""A failed request as one of our errors, with the file, a hint, and no secret.

Takes a `RequestFailedError` of a client, whose text is the library's; gives the error to raise.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from twostage.errors import (
    CorruptFileError,
    ResourceLimitError,
    StorageError,
    TwoStageError,
)
from twostage.storage.errors import hide_secrets, missing
from twostage.storage.expiry import expires_at, refused
from twostage.storage.location import parse_location
from twostage.storage.reach import is_unreached, reach_hint

if TYPE_CHECKING:
    from twostage.storage.store_client import RangedFile, RequestFailedError


def cancelled(file: RangedFile) -> StorageError:
    """Return the error of a read whose task has ended."""
    return StorageError(
        "READ_CANCELLED", "Task ended while the file was read", path=file.path, stage="storage"
    )


def error_of(file: RangedFile, failure: RequestFailedError, attempts: int) -> TwoStageError:
    """Return the error of a request that failed for good, after this many attempts."""
    path, stage, storage, vended = file.path, "storage", file.storage, file.client.vended
    renewed = {} if vended is None else {f"renewed {key}": text for key, text in vended.properties.items()}
    secrets = {**storage.properties, "path": path, "root": storage.root, **renewed}
    text = hide_secrets(OSError(failure.text), secrets).removeprefix("OSError ")
    match failure.kind:
        case "missing":
            return missing(path, stage, storage)
        case "denied":
            if vended is not None:
                return refused(text, path, stage, vended.until, vended.failure)
            return refused(text, path, stage, expires_at(storage.properties))
        case "replaced":
            return CorruptFileError(
                "FILE_CHANGED",
                "File was replaced by another one while it was read",
                path=path,
                stage=stage,
                hint="Iceberg's writers never write a name twice; something else writes into the table's folder.",
            )
        case "beyond":
            return CorruptFileError(
                "CORRUPT_FILE",
                f"File holds fewer bytes than its metadata says: {text}",
                path=path,
                stage=stage,
            )
        case "too large":
            return ResourceLimitError(
                "FILE_TOO_LARGE",
                f"File is larger than can be read at once: {text} bytes",
                path=path,
                stage=stage,
            )
    tries = f" ({attempts} attempts)" if attempts > 1 else ""
    is_reached = not is_unreached(failure.text)
    hint = None if is_reached else reach_hint(parse_location(path), storage.properties)
    return StorageError(
        "STORAGE_FAILED",
        f"Storage failed{tries}: {text}",
        transient=failure.is_transient,
        path=path,
        stage=stage,
        hint=hint,
    )
