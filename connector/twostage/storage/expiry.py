"""When short-lived credentials end, and the error of a store that refuses them.

Takes the properties that open files, among which catalogs say until when their credentials are good. The rule: a refusal is
called an expiry only if the store says so, or the time that the catalog stated has passed.
Source: Iceberg's `S3FileIOProperties`, `GCPProperties` and `AzureProperties`.
"""

from __future__ import annotations

import re
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from twostage.errors import StorageError

if TYPE_CHECKING:
    from collections.abc import Mapping

_STATED = ("s3.session-token-expires-at-ms", "gcs.oauth2.token-expires-at", "adls.sas-token-expires-at-ms")
_EXPIRED = re.compile(
    r"(?i)ExpiredToken|TokenRefreshRequired|token (?:\w+ )*expired|EXPIRED_TOKEN|signature not valid in the specified time"
)
_YEAR_10000 = 253_402_300_800_000
"""Milliseconds since 1970, beyond which dates cannot be shown; a time that far away says nothing."""
RENEWED_BEFORE_MS = 5 * 60 * 1000
"""Credentials that end sooner are renewed. Source: Iceberg's `VendedCredentialsProvider`."""
EXPIRED = "Credentials of the storage have expired: "
_CHECK = "Check the credentials: options catalog.s3.access-key-id …, the catalog's, or the environment's."


def expires_at(properties: Mapping[str, str]) -> int | None:
    """Return until when the credentials are good, in milliseconds since 1970, the earliest if several say; None: unknown.

    >>> expires_at({"s3.session-token-expires-at-ms": "1700000000000", "s3.region": "eu-west-1"})
    1700000000000
    """
    stated = (
        value
        for key, value in properties.items()
        if key in _STATED or key.startswith("adls.sas-token-expires-at-ms.")
    )
    known = (int(value) for value in stated if re.fullmatch(r"[0-9]{1,15}", str(value)))
    return min((value for value in known if value < _YEAR_10000), default=None)


def refused(text: str, path: str, stage: str, expires: int | None, not_renewed: str = "") -> StorageError:
    """Return the error of a store that refused access.

    Args:
        text: What the store said, masked.
        path: The file.
        stage: The stage.
        expires: What `expires_at` says of the credentials.
        not_renewed: Why the catalog gave no new ones when it was asked last, masked; empty if it did or was not asked.
    """
    is_past = expires is not None and expires <= time.time() * 1000
    if not is_past and not _EXPIRED.search(text):
        return StorageError(
            "ACCESS_DENIED", f"Storage refused access: {text}", path=path, stage=stage, hint=_CHECK
        )
    until = ""
    if expires is not None:
        until = f" This query's were valid until {datetime.fromtimestamp(expires / 1000, UTC):%Y-%m-%d %H:%M:%S} UTC."
    if not_renewed:
        until += f" The catalog gave no new ones: {not_renewed}"
    return StorageError(
        "CREDENTIALS_EXPIRED",
        f"{EXPIRED}{text}",
        path=path,
        stage=stage,
        hint="Run the query again: for a table in a REST catalog, planning asks for new ones. A query that takes longer needs "
        "credentials that the catalog vends for longer, or a catalog that says where to renew them "
        f"(client.refresh-credentials-endpoint); keys that you set yourself must be replaced.{until}",
    )
