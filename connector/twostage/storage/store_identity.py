"""Which store a path is of, and for whom what was read of it may be kept.

Takes properties that open files; gives plain values for the keys of caches. The rule: two stores whose buckets have the same
name are told apart; and what tells them apart holds no secret.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from twostage.errors import mask

if TYPE_CHECKING:
    from collections.abc import Mapping

_STORE_PROPERTIES = (
    *("endpoint", "account-name", "project-id", "service.host", "storage-authority", "storage-scheme"),
    *("account-host", "hdfs.host", "hdfs.port"),
)
"""Ends of the storage properties that say which store a path is of."""

_masked = lru_cache(256)(mask)


def stores_of(properties: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """Return what storage properties say of which store a path is of, without logins.

    >>> stores_of({"s3.endpoint": "http://me:secret@h", "s3.secret-access-key": "k"})
    (('s3.endpoint', 'http://***@h'),)
    """
    return tuple(
        sorted(
            (name, _masked(str(text)))
            for name, text in properties.items()
            if name.endswith(_STORE_PROPERTIES)
        )
    )
