"""What tells stores apart, and holds no secret."""

from __future__ import annotations

import pytest

from twostage.storage.store_identity import stores_of

SECRETS = {
    "s3.access-key-id": "canary",
    "s3.secret-access-key": "canary",
    "s3.session-token": "canary",
    "gcs.oauth2.token": "canary",
    "adls.sas-token": "canary",
}


@pytest.mark.parametrize(
    "name",
    [
        *("s3.endpoint", "gcs.service.host", "adls.account-name", "adls.blob-storage-authority", "hdfs.host"),
        *("adls.blob-storage-scheme", "hdfs.port", "gcs.project-id"),
    ],
)
def test_stores_differ_by_where_they_are(name):
    one, other = stores_of({name: "http://one", **SECRETS}), stores_of({name: "http://other", **SECRETS})
    assert one != other
    assert "canary" not in str(one)
    assert stores_of({name: "http://one"}) == one


def test_a_login_in_an_address_is_masked():
    assert "canary" not in str(stores_of({"s3.endpoint": "http://me:canary@host"}))
