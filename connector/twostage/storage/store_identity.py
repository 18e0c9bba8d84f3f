"""For whom what was read from a store may be cached.

Takes properties that open files, and those of a catalog; gives plain values for the keys of caches. The rule: what was read for
one user's configuration, logins included, serves no other. Credentials that a catalog vends change with each query and are no part of it:
a user whom the catalog does not answer never gets as far as the caches.
"""

from __future__ import annotations

import hashlib
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from twostage.task import Storage

_VENDED = frozenset(
    (
        *("s3.access-key-id", "s3.secret-access-key", "s3.session-token", "s3.session-token-expires-at-ms"),
        *("client.access-key-id", "client.secret-access-key", "client.session-token"),
        *(
            "gcs.oauth2.token",
            "gcs.oauth2.token-expires-at",
            "adls.sas-token",
            "adls.sas-token-expires-at-ms",
        ),
    )
)
_VENDED_PREFIXES = ("adls.sas-token.", "adls.sas-token-expires-at-ms.")
"""Followed by the account's name."""

_key = os.urandom(32)
"""Shared by this process and those forked from it: a scope is sent to executors, which must not be able to guess a catalog's password by it."""


def is_vended(name: str) -> bool:
    """Return whether a storage property is one that catalogs vend, and change with each vending.

    >>> is_vended("s3.session-token"), is_vended("s3.endpoint")
    (True, False)
    """
    return name in _VENDED or name.startswith(_VENDED_PREFIXES)


def scope_of(catalog: str, properties: Mapping[str, str]) -> str:
    """Name a catalog as it is configured, its logins included; `Storage.scope` of the tables that it loads."""
    return _hash(catalog, *sorted((name, str(value)) for name, value in properties.items())).hex()


def kept_for(storage: Storage) -> bytes:
    """Return for whom what is read with these properties may be cached: a hash, because logins are part of it."""
    given = sorted(storage.properties.items())
    if storage.scope:
        given = [item for item in given if not is_vended(item[0])]
    return _hash(storage.scope, *given)


def _hash(*values: object) -> bytes:
    return hashlib.blake2b(repr(values).encode(), key=_key, digest_size=32).digest()
