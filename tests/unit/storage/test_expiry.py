"""When credentials end, and how a refusal is called."""

from __future__ import annotations

import pytest

from twostage.storage.expiry import expires_at, refused

PAST, FUTURE = 1_700_000_000_000, 4_000_000_000_000


@pytest.mark.parametrize(
    ("properties", "expected"),
    [
        ({}, None),
        ({"s3.session-token-expires-at-ms": "5", "gcs.oauth2.token-expires-at": "4"}, 4),
        ({"adls.sas-token-expires-at-ms.account.dfs.core.windows.net": "7"}, 7),
        ({"adls.sas-token-expires-at-ms": "7", "s3.session-token-expires-at-ms": "soon"}, 7),
        ({"s3.session-token": "9"}, None),
        ({"s3.session-token-expires-at-ms": "9" * 15}, None),
        ({"s3.session-token-expires-at-ms": "9" * 5_000}, None),
        ({"s3.session-token-expires-at-ms": "-5"}, None),
    ],
)
def test_until_when_credentials_are_good(properties, expected):
    assert expires_at(properties) == expected


@pytest.mark.parametrize(
    ("text", "expires", "code"),
    [
        ("HTTP 403 Forbidden, InvalidAccessKeyId", None, "ACCESS_DENIED"),
        ("HTTP 403 Forbidden, InvalidAccessKeyId", FUTURE, "ACCESS_DENIED"),
        ("HTTP 403 Forbidden, InvalidAccessKeyId", PAST, "CREDENTIALS_EXPIRED"),
        ("HTTP 400 Bad Request, ExpiredToken: The provided token has expired.", None, "CREDENTIALS_EXPIRED"),
        ("HTTP 403: Signature not valid in the specified time frame", None, "CREDENTIALS_EXPIRED"),
    ],
)
def test_a_refusal_is_an_expiry_if_the_store_or_the_time_says_so(text, expires, code):
    found = refused(text, "s3://lake/f", "storage", expires)
    assert found.code == code
    assert text in found.message
    assert ("2023-11-14 22:13:20 UTC" in found.hint) == (expires == PAST)
    assert (found.path, found.transient) == ("s3://lake/f", False)
    assert "no new ones" not in found.hint


def test_why_credentials_were_not_renewed_is_said_where_they_have_expired():
    why = "HTTP 403: not yours"
    assert f"The catalog gave no new ones: {why}" in refused("x", "s3://lake/f", "s", PAST, why).hint
    assert why not in refused("x", "s3://lake/f", "s", FUTURE, why).hint
