"""For whom what was read is kept: for one configuration, logins included, which it does not tell."""

from __future__ import annotations

import hashlib

import pytest

from twostage.storage.store_identity import kept_for, scope_of
from twostage.task import Storage

CATALOG = {"type": "rest", "uri": "http://h", "token": "canary-of-a"}


def kept(catalog, **vended):
    properties = {
        "s3.endpoint": "http://s",
        **{f"s3.{key.replace('_', '-')}": value for key, value in vended.items()},
    }
    return kept_for(Storage(properties=properties, scope=scope_of("lake", catalog) if catalog else ""))


def test_credentials_that_a_catalog_vends_anew_change_nothing():
    first = {
        "access_key_id": "0",
        "secret_access_key": "0",
        "session_token": "0",
        "session_token_expires_at_ms": "1",
    }
    assert kept(CATALOG, **first) == kept(CATALOG, **dict.fromkeys(first, "7"))
    assert kept(CATALOG, **first, endpoint="http://other") != kept(CATALOG, **first)
    azure = [
        Storage(
            properties={
                "adls.sas-token.acc": n,
                "adls.sas-token-expires-at-ms.acc": n,
                "gcs.oauth2.token": n,
            },
            scope="s",
        )
        for n in "01"
    ]
    assert kept_for(azure[0]) == kept_for(azure[1])


@pytest.mark.parametrize(
    "other",
    [{**CATALOG, "token": "of-b"}, {**CATALOG, "s3.access-key-id": "b"}, {**CATALOG, "uri": "http://b"}],
)
def test_another_configuration_is_another_user(other):
    assert kept(CATALOG, access_key_id="0") != kept(other, access_key_id="0")
    assert scope_of("lake", CATALOG) != scope_of("other", CATALOG)


def test_without_a_catalog_keys_are_the_user():
    assert kept(None, access_key_id="0") != kept(None, access_key_id="1")
    assert kept(None, access_key_id="0") == kept(None, access_key_id="0")


def test_a_scope_tells_nothing():
    """Executors have it, and not the catalog's login."""
    assert "canary" not in scope_of("lake", CATALOG)
    guessed = hashlib.blake2b(repr(("lake", *sorted(CATALOG.items()))).encode(), digest_size=32).hexdigest()
    assert scope_of("lake", CATALOG) != guessed, "without the process's key it cannot be guessed at"
