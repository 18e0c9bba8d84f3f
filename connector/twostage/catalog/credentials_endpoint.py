"""Where a REST catalog renews the credentials that it vended with a table, for processes that read its files.

Takes PyIceberg's opened REST catalog and its answer for a table; returns a `CredentialsEndpoint`, or None if
only the driver can renew them: because requests are signed, or only the driver can renew the authorisation.
The rules: the catalog or its user names the address, never the table's own properties, which anyone who
writes to the table may have set; and authorisation is sent to the catalog's host only.
Source: Iceberg's `AwsClientProperties`, `GCPProperties`, `AzureProperties` and `RESTUtil.resolveEndpoint`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from twostage.errors import TwoStageError
from twostage.storage.location import parse_location
from twostage.storage.store_identity import is_vended
from twostage.task import CredentialsEndpoint

if TYPE_CHECKING:
    from collections.abc import Mapping

_NAMES = {
    "s3": "client.refresh-credentials",
    "gs": "gcs.oauth2.refresh-credentials",
    "abfs": "adls.refresh-credentials",
    "wasb": "adls.refresh-credentials",
}
"""Names of properties by the scheme of the table's location, up to ``-endpoint`` and ``-enabled``."""
_DELEGATION = ("X-Iceberg-Access-Delegation", "vended-credentials")
_HEADER = "header."
_AUTHORIZATION = "Authorization"
_TRUE = ("true", "t", "yes", "y", "1", "on")


def credentials_endpoint(opened: Any, config: Mapping[str, Any], location: str) -> CredentialsEndpoint | None:
    """Return where the credentials of a table are renewed; None if nowhere, or only in the driver.

    Args:
        opened: PyIceberg's REST catalog, just after the request for the table: its token is valid.
        config: What its service sent for the table, vended credentials included.
        location: The table's, whose credentials are wanted.
    """
    try:
        name = _NAMES.get(parse_location(location).family, "")
    except TwoStageError:
        return None
    given = {**opened.properties, **config}
    endpoint = str(given.get(f"{name}-endpoint") or "")
    if not name or not endpoint or not any(is_vended(key) for key in config):
        return None
    if str(given.get(f"{name}-enabled", "true")).lower() == "false":
        return None
    url = resolve(str(opened.uri), endpoint)
    if not _is_same_host(url, str(opened.uri)) or _is_true(opened.properties.get("rest.sigv4-enabled")):
        return None
    headers = dict([_DELEGATION])
    headers |= {
        key.removeprefix(_HEADER): str(value)
        for key, value in opened.properties.items()
        if key.startswith(_HEADER)
    }
    login = _login(opened, headers, config.get("token"))
    if login is None:
        return None
    session = opened._session  # noqa: SLF001 - PyIceberg has no other way to its TLS settings
    return CredentialsEndpoint(
        url=url,
        location=location,
        headers=tuple(headers.items()),
        verify=session.verify,
        certificate=tuple(session.cert) if isinstance(session.cert, list) else session.cert,
        **login,
    )


def resolve(uri: str, endpoint: str) -> str:
    """Return an endpoint's address, which may be given relative to the catalog's.

    >>> resolve("http://catalog/api/", "v1/namespaces/db/tables/t/credentials")
    'http://catalog/api/v1/namespaces/db/tables/t/credentials'
    """
    if endpoint.startswith(("http://", "https://")):
        return endpoint
    return f"{uri.rstrip('/')}/{endpoint.removeprefix('/')}"


def _is_same_host(url: str, uri: str) -> bool:
    try:
        one, other = ((at.scheme, at.hostname, at.port) for at in (urlsplit(url), urlsplit(uri)))
    except ValueError:  # of the port
        return False
    return one == other


def _login(opened: Any, headers: dict[str, str], token: Any) -> dict[str, Any] | None:
    """Put the authorisation into `headers`, and return what gets a new token; None if only the driver can.

    Args:
        opened: PyIceberg's REST catalog, whose auth manager keeps its state in private attributes.
        headers: Of the request.
        token: The table's, if the service sent one; else the catalog's is used.
    """
    manager: Any = getattr(opened._session.auth, "auth_manager", None)  # noqa: SLF001
    kind = type(manager).__name__
    if kind == "NoopAuthManager":
        return {}
    if kind == "BasicAuthManager":
        headers[_AUTHORIZATION] = str(manager.auth_header())
        return {}
    if kind == "LegacyOAuth2AuthManager":
        token = token or manager._token  # noqa: SLF001
        if token:
            headers[_AUTHORIZATION] = f"Bearer {token}"
        return _legacy_login(manager)
    if kind == "OAuth2AuthManager":
        headers[_AUTHORIZATION] = f"Bearer {token}" if token else str(manager.auth_header())
        provider = manager.token_provider
        scope = [("scope", str(provider.scope))] if provider.scope else []
        return {
            "login_url": provider.token_url,
            "login": (("grant_type", "client_credentials"), *scope),
            "login_headers": ((_AUTHORIZATION, provider._client_secret_header),),  # noqa: SLF001
        }
    return None  # Google's, Entra's, the user's own: their tokens expire, and only the driver gets new ones


def _legacy_login(manager: Any) -> dict[str, Any]:
    credential, address = manager._credential, manager._auth_url  # noqa: SLF001
    if not credential or not address:
        return {}
    client, colon, secret = str(credential).partition(":")
    login = [("client_id", client), ("client_secret", secret)] if colon else [("client_secret", client)]
    more = (manager._optional_oauth_params or {}).items()  # noqa: SLF001
    return {"login_url": str(address), "login": (("grant_type", "client_credentials"), *login, *more)}


def _is_true(value: Any) -> bool:
    return str(value).strip().lower() in _TRUE
