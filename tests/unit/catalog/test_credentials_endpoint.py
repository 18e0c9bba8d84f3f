"""Where vended credentials are renewed outside the driver: the catalog's address alone, by an authorisation that can travel."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from pyiceberg.catalog.rest.auth import BasicAuthManager, NoopAuthManager, OAuth2AuthManager

from rest_catalog import CONFS, TOKEN, confs_of
from twostage.catalog.credentials_endpoint import credentials_endpoint, resolve
from twostage.catalog.load_table import load_table
from twostage.options import parse_options

if TYPE_CHECKING:
    from collections.abc import Callable

    from rest_catalog import Rest
    from twostage.task import CredentialsEndpoint

LOCATION = "s3://lake/db/events"
NAME = "client.refresh-credentials-endpoint"
PATH = "v1/namespaces/db/tables/events/credentials"
KEYS = {"s3.access-key-id": "k", "s3.secret-access-key": "s", "s3.session-token": "t"}


@pytest.fixture
def endpoint_of(rest: Rest, metadata_of: Callable[..., dict[str, Any]]) -> Callable[..., Any]:
    """Load the table with what the service sends of it, and return where its credentials are renewed."""

    def endpoint_of(
        config: dict[str, str], table: dict[str, str] | None = None, **confs: str
    ) -> CredentialsEndpoint | None:
        metadata = metadata_of(LOCATION)
        metadata["properties"] = table or {}
        answer = {"metadata-location": f"{LOCATION}/metadata/1.json", "metadata": metadata, "config": config}
        rest.answers["/v1/namespaces/db/tables/events"] = (200, answer)
        given = confs_of(rest) | {f"{CONFS}.{name.replace('_', '-')}": text for name, text in confs.items()}
        found = load_table(parse_options({"path": "r.db.events"}), given).storage
        assert found.renewal is None or found.properties["s3.access-key-id"] == "k"
        return found.renewal

    return endpoint_of


@pytest.mark.parametrize("written", [PATH, f"/{PATH}"])
def test_the_services_address_and_the_catalogs_token(
    rest: Rest, endpoint_of: Callable[..., Any], written: str
) -> None:
    found = endpoint_of({**KEYS, NAME: written})
    assert found.url == f"http://127.0.0.1:{rest.server_port}/{PATH}"
    assert found.location == f"{LOCATION}/metadata/1.json"
    assert dict(found.headers)["Authorization"] == f"Bearer {TOKEN}"
    assert (found.login_url, found.login, found.verify, found.certificate) == ("", (), True, None)
    assert TOKEN not in repr(found)


def test_the_tables_own_token_and_the_users_headers(endpoint_of: Callable[..., Any]) -> None:
    found = endpoint_of({**KEYS, NAME: PATH, "token": "of the table"}, **{"header.X-Realm": "mine"})
    assert dict(found.headers) == {
        "X-Iceberg-Access-Delegation": "vended-credentials",
        "X-Realm": "mine",
        "Authorization": "Bearer of the table",
    }


@pytest.mark.parametrize(("credential", "client"), [("me:secret", "me"), ("secret", None)])
def test_a_login_travels_with_the_token(
    rest: Rest, endpoint_of: Callable[..., Any], credential: str, client: str | None
) -> None:
    found = endpoint_of({**KEYS, NAME: PATH}, credential=credential)
    assert dict(found.headers)["Authorization"] == f"Bearer {TOKEN}-{rest.tokens}"
    assert found.login_url == f"http://127.0.0.1:{rest.server_port}/v1/oauth/tokens"
    login = dict(found.login)
    assert (login["grant_type"], login["client_secret"]) == ("client_credentials", "secret")
    assert login.get("client_id") == client
    assert login["scope"] == "catalog"


@pytest.mark.parametrize(
    ("config", "confs"),
    [
        (KEYS, {}),
        ({**KEYS, NAME: PATH, "client.refresh-credentials-enabled": "false"}, {}),
        ({**KEYS, NAME: PATH}, {"client.refresh-credentials-enabled": "False"}),
        ({**KEYS, NAME: "https://elsewhere.example.com/credentials"}, {}),
        ({**KEYS, NAME: "http://127.0.0.1:1/credentials"}, {}),
        ({**KEYS, NAME: "http://127.0.0.1:none/credentials"}, {}),
        ({**KEYS, "gcs.oauth2.refresh-credentials-endpoint": PATH}, {}),
        ({NAME: PATH}, {"s3.access-key-id": "the user's own"}),
    ],
)
def test_nowhere(endpoint_of: Callable[..., Any], config: dict[str, str], confs: dict[str, str]) -> None:
    assert endpoint_of(config, **confs) is None


def test_a_tables_own_properties_name_no_address(endpoint_of: Callable[..., Any]) -> None:
    """Whoever may write into the table would be sent the catalog's token."""
    assert endpoint_of(KEYS, {NAME: PATH}) is None
    found = endpoint_of({**KEYS, NAME: PATH}, {NAME: "elsewhere", "client.refresh-credentials-enabled": "0"})
    assert found.url.endswith(PATH)


def opened(manager: object, **properties: str) -> Any:
    session = SimpleNamespace(auth=SimpleNamespace(auth_manager=manager), verify="/ca.pem", cert=["c", "k"])
    return SimpleNamespace(uri="http://catalog/", properties=properties, _session=session)


@pytest.mark.parametrize(
    ("location", "name", "vended"),
    [
        ("gs://lake/t", "gcs.oauth2", {"gcs.oauth2.token": "t"}),
        ("abfss://c@a.dfs.core.windows.net/t", "adls", {"adls.sas-token.a.dfs.core.windows.net": "t"}),
    ],
)
def test_other_stores_have_names_of_their_own(location: str, name: str, vended: dict[str, str]) -> None:
    config = {**vended, f"{name}.refresh-credentials-endpoint": "c"}
    found = credentials_endpoint(opened(NoopAuthManager()), config, location)
    assert found is not None
    assert (found.url, found.verify, found.certificate) == ("http://catalog/c", "/ca.pem", ("c", "k"))
    assert "Authorization" not in dict(found.headers)
    config[f"{name}.refresh-credentials-enabled"] = "false"
    assert credentials_endpoint(opened(NoopAuthManager()), config, location) is None
    assert credentials_endpoint(opened(NoopAuthManager()), config, "hdfs://n/t") is None


def test_each_kind_of_authorisation() -> None:
    config = {**KEYS, NAME: "c"}

    def found(manager: object, **properties: str) -> CredentialsEndpoint | None:
        return credentials_endpoint(opened(manager, **properties), config, LOCATION)

    basic = found(BasicAuthManager("me", "secret"))
    assert basic is not None
    assert dict(basic.headers)["Authorization"] == "Basic bWU6c2VjcmV0"
    manager = OAuth2AuthManager("me", "secret", "http://login/token", "scope")
    manager.token_provider._token, manager.token_provider._expires_at = "now", 2**62
    login = found(manager)
    assert login is not None
    assert dict(login.headers)["Authorization"] == "Bearer now"
    assert login.login_url == "http://login/token"
    assert dict(login.login) == {"grant_type": "client_credentials", "scope": "scope"}
    assert dict(login.login_headers) == {"Authorization": "Basic bWU6c2VjcmV0"}
    assert found(NoopAuthManager(), **{"rest.sigv4-enabled": "true"}) is None
    assert found(object()) is None, "the user's own, which the driver alone has"
    assert found(None) is None


def test_addresses() -> None:
    assert resolve("http://c/api", "/v1/x?table-id=7") == "http://c/api/v1/x?table-id=7"
    assert resolve("http://c", "https://d/x") == "https://d/x"
