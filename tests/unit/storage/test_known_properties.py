"""Each of PyIceberg's properties of object stores is followed, without effect on reads, or refused by name."""

from __future__ import annotations

import pyiceberg.io
import pytest

from twostage.errors import UnsupportedFeatureError
from twostage.storage import known_properties
from twostage.storage.file_systems import file_system
from twostage.storage.known_properties import FOLLOWED, REFUSED, WITHOUT_EFFECT, check_properties
from twostage.storage.location import parse_location
from twostage.storage.stores import client_of
from twostage.task import Storage

AZURE = parse_location("abfss://box@acc.dfs.core.windows.net/t/f")
GOOGLE = parse_location("gs://lake/t/f")


def test_every_name_of_pyiceberg_is_known():
    defined = {
        value
        for value in vars(pyiceberg.io).values()
        if isinstance(value, str) and value.startswith(("s3.", "gcs.", "adls."))
    }
    assert len(defined) > 30
    assert defined == FOLLOWED | WITHOUT_EFFECT | set(REFUSED)
    assert not FOLLOWED & WITHOUT_EFFECT
    assert not (FOLLOWED | WITHOUT_EFFECT) & set(REFUSED)


@pytest.mark.parametrize(
    ("location", "given"),
    [(GOOGLE, {"gcs.requester-pays": "True"}), (AZURE, {"adls.credential": "canary-4711"})],
)
@pytest.mark.parametrize("client", ["auto", "arrow"])
def test_what_is_refused_is_named(location, given, client):
    with pytest.raises(UnsupportedFeatureError) as caught:
        client_of(Storage(properties=given, client=client), location, "box/t/f")
    assert caught.value.code == "UNSUPPORTED_PROPERTY"
    assert next(iter(given)) in str(caught.value)
    assert "canary" not in str(caught.value)


@pytest.mark.parametrize("given", [{"adls.token": "canary-4711"}, {"adls.anon": "true"}])
def test_what_obstore_alone_follows_is_refused_where_pyarrow_reads(given):
    check_properties(AZURE, given, by_arrow=False)
    with pytest.raises(UnsupportedFeatureError, match=next(iter(given))):
        file_system(Storage(properties=given), AZURE)
    check_properties(AZURE, {**given, "adls.account-key": "k"}, by_arrow=True)


@pytest.mark.parametrize("given", [{"gcs.requester-pays": "false"}, {"adls.credential": "x"}])
def test_what_does_not_concern_the_store_is_let_be(given):
    check_properties(GOOGLE, given, by_arrow=True)


S3 = parse_location("s3://lake/t/f")
SIGNED = [{"s3.remote-signing-enabled": "true"}, {"s3.signer": "S3V4RestSigner", "s3.signer.uri": "http://h"}]


@pytest.fixture
def no_login(monkeypatch, tmp_path):
    for name in known_properties._AWS_LOGINS_OF_ENVIRONMENT:
        monkeypatch.delenv(name, raising=False)
    for name in ("AWS_SHARED_CREDENTIALS_FILE", "AWS_CONFIG_FILE"):
        monkeypatch.setenv(name, str(tmp_path / "absent"))


@pytest.mark.usefixtures("no_login")
@pytest.mark.parametrize("given", SIGNED)
@pytest.mark.parametrize("client", ["auto", "arrow"])
def test_a_store_whose_requests_only_the_catalog_signs_is_refused_by_name(given, client):
    with pytest.raises(UnsupportedFeatureError, match=next(iter(given))) as caught:
        client_of(Storage(properties={**given, "s3.region": "r"}, client=client), S3, "lake/t/f")
    assert caught.value.code == "UNSUPPORTED_PROPERTY"
    assert "vended-credentials" in caught.value.hint


@pytest.mark.usefixtures("no_login")
@pytest.mark.parametrize("given", SIGNED)
def test_keys_sign_where_there_are_some(given, monkeypatch, tmp_path):
    for login in ({"s3.access-key-id": "k"}, {"s3.anonymous": "true"}, {"s3.profile-name": "p"}):
        check_properties(S3, {**given, **login}, by_arrow=False)
    check_properties(GOOGLE, given, by_arrow=False)
    check_properties(S3, {"s3.remote-signing-enabled": "false"}, by_arrow=False)
    (tmp_path / "credentials").write_text("[default]")
    for name, value in {
        "AWS_ACCESS_KEY_ID": "k",
        "AWS_SHARED_CREDENTIALS_FILE": str(tmp_path / "credentials"),
    }.items():
        with monkeypatch.context() as patch:
            patch.setenv(name, value)
            check_properties(S3, given, by_arrow=False)
