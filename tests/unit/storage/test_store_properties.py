"""PyIceberg's properties as obstore's: each is followed, or PyArrow reads the store."""

from __future__ import annotations

import json

import pytest

from twostage.storage import store_properties as module
from twostage.storage.location import parse_location
from twostage.storage.store_properties import StoreProperties, store_properties

KEYS = {"s3.access-key-id": "AK", "s3.secret-access-key": "canary-4711", "s3.region": "eu-west-1"}


@pytest.fixture(autouse=True)
def environment(monkeypatch, tmp_path):
    for name in module.os.environ:
        if name.startswith(("AWS_", "GOOGLE_", "AZURE_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(module, "_bucket_region", lambda _bucket: "found-1")
    return tmp_path


def s3(**more):
    given = {**KEYS, **{f"s3.{key.replace('_', '-')}": value for key, value in more.items()}}
    return store_properties(parse_location("s3a://lake/t/f"), given)


def opened(found) -> StoreProperties:
    assert isinstance(found, StoreProperties), found
    return found


def test_static_keys_and_a_region():
    found = opened(s3(session_token="canary-token"))
    assert (found.kind, found.bucket) == ("s3", "lake")
    assert found.config == {"region": "eu-west-1", "virtual_hosted_style_request": True}
    assert found.credentials() == {
        "access_key_id": "AK",
        "secret_access_key": "canary-4711",
        "token": "canary-token",
        "expires_at": None,
    }
    assert "canary" not in repr(found)
    assert not found.allows_http


def test_keys_of_the_catalog_are_not_joined_with_a_token_of_the_environment(monkeypatch):
    monkeypatch.setenv("AWS_SESSION_TOKEN", "another")
    assert opened(s3()).credentials()["token"] is None


def test_keys_under_the_names_of_all_aws_services():
    given = {
        "client.access-key-id": "AK",
        "client.secret-access-key": "s",
        "client.session-token": "t",
        "client.region": "r",
    }
    found = opened(store_properties(parse_location("s3://lake/x"), given))
    assert found.credentials()["token"] == "t"
    assert found.config["region"] == "r"


def test_an_endpoint_is_addressed_by_path_unless_told_otherwise():
    found = opened(s3(endpoint="http://127.0.0.1:9000/"))
    assert found.config["endpoint"] == "http://127.0.0.1:9000"
    assert found.config["virtual_hosted_style_request"] is False
    assert found.allows_http
    found = opened(s3(endpoint="https://minio:9000", force_virtual_addressing="true"))
    assert found.config["endpoint"] == "https://lake.minio:9000"
    assert found.config["virtual_hosted_style_request"] is True
    assert not found.allows_http


def test_the_region_of_an_endpoint_is_assumed_and_that_of_a_bucket_looked_up(monkeypatch):
    given = {key: value for key, value in KEYS.items() if key != "s3.region"}
    assert opened(store_properties(parse_location("s3://b/x"), given)).config["region"] == "found-1"
    assert opened(s3(resolve_region="true")).config["region"] == "found-1"
    with_endpoint = {**given, "s3.endpoint": "http://h:1"}
    assert opened(store_properties(parse_location("s3://b/x"), with_endpoint)).config["region"] == "us-east-1"
    monkeypatch.setattr(module, "_bucket_region", lambda _bucket: "")
    assert opened(store_properties(parse_location("s3://b/x"), given)).config["region"] == "us-east-1"
    monkeypatch.setenv("AWS_REGION", "env-1")
    assert opened(store_properties(parse_location("s3://b/x"), given)).config["region"] == "env-1"


def test_addresses_of_another_form_are_left_to_pyarrow(monkeypatch):
    assert s3(region="cn-north-1") == "the region's addresses are of another form"
    opened(s3(region="cn-north-1", endpoint="https://s3.cn-north-1.amazonaws.com.cn"))
    monkeypatch.setenv("AWS_USE_FIPS_ENDPOINT", "true")
    assert isinstance(s3(), str)


def test_a_bucket_with_a_dot_is_addressed_by_path():
    found = opened(store_properties(parse_location("s3://my.lake/x"), KEYS))
    assert found.config["virtual_hosted_style_request"] is False


def test_time_limits_and_a_proxy():
    found = opened(s3(connect_timeout="2.5", request_timeout="7", proxy_uri="http://proxy:1"))
    assert (found.connect_seconds, found.request_seconds, found.proxy) == (2.5, 7.0, "http://proxy:1")
    assert (opened(s3()).connect_seconds, opened(s3()).request_seconds) == (10.0, 60.0)


def test_anonymous_access():
    found = opened(s3(anonymous="true"))
    assert found.config["skip_signature"] is True
    assert found.credentials is None


@pytest.mark.parametrize("name", module._ARROW_S3)
def test_what_pyarrow_does_alone_is_left_to_it(name):
    found = store_properties(parse_location("s3://lake/x"), {**KEYS, name: "x"})
    assert found == f"{name} is set"
    assert isinstance(store_properties(parse_location("s3://lake/x"), {**KEYS, name: ""}), StoreProperties)


def test_half_of_a_key():
    assert store_properties(parse_location("s3://b/x"), {"s3.access-key-id": "a", "s3.region": "r"}) == (
        "only half of a key is set"
    )


def test_default_credentials_of_aws(monkeypatch, environment):
    location, given = parse_location("s3://b/x"), {"s3.region": "r"}
    assert opened(store_properties(location, given)).credentials is None  # instance, container, web identity
    monkeypatch.setenv("AWS_PROFILE", "p")
    assert store_properties(location, given) == "AWS_PROFILE is set"
    monkeypatch.delenv("AWS_PROFILE")
    (environment / ".aws").mkdir()
    (environment / ".aws" / "credentials").write_text("[default]")
    assert "AWS_SHARED_CREDENTIALS_FILE" in store_properties(location, given)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AK")  # comes first for AWS's own libraries too
    assert opened(store_properties(location, given)).credentials is None


def test_google(monkeypatch, environment):
    location = parse_location("gs://lake/t/f")
    found = opened(
        store_properties(location, {"gcs.oauth2.token": "canary", "gcs.service.host": "http://localhost:1/"})
    )
    assert (found.kind, found.bucket) == ("gs", "lake")
    assert found.config == {"base_url": "http://localhost:1", "bearer_token": "canary"}
    assert found.allows_http
    assert opened(store_properties(location, {})).config == {}
    for kind, is_known in (("service_account", True), ("authorized_user", True), ("external_account", False)):
        (environment / "c.json").write_text(json.dumps({"type": kind}))
        monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(environment / "c.json"))
        assert isinstance(store_properties(location, {}), StoreProperties) is is_known


def test_azure():
    location = parse_location("abfss://box@acc.dfs.core.windows.net/t/f")
    found = opened(store_properties(location, {"adls.account-key": "k"}))
    assert (found.kind, found.bucket) == ("azure", "box")
    assert found.config == {
        "account_name": "acc",
        "endpoint": "https://acc.blob.core.windows.net",
        "account_key": "k",
        "credential_type": "access_key",
    }
    found = opened(store_properties(location, {"adls.sas-token": "?sig=x"}))
    assert (found.config["sas_key"], found.config["credential_type"]) == ("sig=x", "sas_token")
    emulator = {
        "adls.account-key": "k",
        "adls.account-name": "dev",
        "adls.blob-storage-authority": "127.0.0.1:10000",
        "adls.blob-storage-scheme": "http",
    }
    found = opened(store_properties(location, emulator))
    assert found.config["endpoint"] == "http://127.0.0.1:10000/dev"
    assert found.allows_http
    found = opened(store_properties(location, {"adls.token": "bearer"}))
    assert (found.config["token"], found.config["credential_type"]) == ("bearer", "bearer_token")
    assert opened(store_properties(location, {"adls.anon": "true"})).config["skip_signature"] is True
    login = {"adls.client-id": "i", "adls.client-secret": "s", "adls.tenant-id": "t"}
    assert opened(store_properties(location, login)).config["credential_type"] == "client_secret"


@pytest.mark.parametrize(
    "given",
    [{}, {"adls.client-id": "i"}, {"adls.account-key": "k", "adls.dfs-storage-authority": "x"}],
)
def test_azure_that_is_left_to_pyarrow(given):
    assert isinstance(store_properties(parse_location("abfss://box@acc.dfs.core.windows.net/t"), given), str)


@pytest.mark.parametrize(
    "path", ["hdfs://n/x", "oss://b/x", "s3://key:secret@b/x", "abfss://box/x", "gs:///x"]
)
def test_stores_that_pyarrow_reads(path):
    assert isinstance(store_properties(parse_location(path), KEYS), str)
