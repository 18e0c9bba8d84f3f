"""PyIceberg's properties of object stores as obstore's.

Takes a location and the properties that open files; gives what `obstore_client` needs, or the reason why PyArrow reads
this store. The rule: a request is signed, addressed and timed as PyArrow's would be under the same properties; where that
is not certain, PyArrow sends it.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from twostage.storage.location import Location

CONNECT_SECONDS = 10.0
REQUEST_SECONDS = 60.0
ASSUMED_REGION = "us-east-1"
"""Region of an endpoint that is not AWS's, if none was given."""
_TRUE = ("true", "t", "yes", "y", "1", "on")
_ARROW_S3 = (
    "s3.role-arn",
    "client.role-arn",
    "s3.profile-name",
    "client.profile-name",
    "s3.signer",
    "s3.signer.uri",
    "s3.remote-signing-enabled",
    "s3.retry-strategy-impl",
)
"""Properties of S3 that only PyArrow, or PyIceberg's use of it, follows or ignores."""
_OWN_ADDRESSES = ("cn-", "us-iso", "eu-isoe")
"""Regions whose hosts do not end in amazonaws.com."""
_ARROW_AZURE = ("adls.dfs-storage-authority",)
_KNOWN_GOOGLE_CREDENTIALS = ("service_account", "authorized_user")


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreProperties:
    """What opens one bucket or container: `kind` is ``s3``, ``gs`` or ``azure``. Holds secrets: it has no repr."""

    kind: str
    bucket: str
    config: Mapping[str, Any] = field(default_factory=dict, repr=False)
    credentials: Callable[[], Any] | None = field(default=None, repr=False)
    """Those that are not part of `config`."""
    renewed: Callable[[Mapping[str, str]], dict[str, Any]] | None = None
    """In their place, if they renew themselves: gives them in obstore's form, without their end, of the current properties."""
    allows_http: bool = False
    connect_seconds: float = CONNECT_SECONDS
    request_seconds: float = REQUEST_SECONDS
    proxy: str = field(default="", repr=False)

    @property
    def key(self) -> tuple[str, ...]:
        """Equal for requests that share a window: those to one bucket of one host."""
        return (self.kind, str(self.config.get("endpoint", self.config.get("base_url", ""))), self.bucket)


def store_properties(
    location: Location, properties: Mapping[str, str], *, are_renewed: bool = False
) -> StoreProperties | str:
    """Return how obstore opens a location's store, or why PyArrow does instead.

    Args:
        location: Of an object.
        properties: PyIceberg's.
        are_renewed: Whether the credentials among them renew themselves.

    >>> from twostage.storage.location import parse_location
    >>> store_properties(parse_location("hdfs://namenode/x"), {})
    'hdfs is read by PyArrow'
    """
    if location.family == "s3":
        return _s3(location.authority, properties, are_renewed=are_renewed)
    if location.family == "gs":
        return _google(location.authority, properties, are_renewed=are_renewed)
    if location.family in ("abfs", "wasb"):
        return _azure(location.authority, properties, are_renewed=are_renewed)
    return f"{location.scheme} is read by PyArrow"


def _s3(bucket: str, given: Mapping[str, str], *, are_renewed: bool) -> StoreProperties | str:
    if "@" in bucket or not bucket:
        return "the bucket's name is not plain"
    if found := _first_of(_ARROW_S3, given):
        return f"{found} is set"
    config: dict[str, Any] = {}
    endpoint = given.get("s3.endpoint") or _first(os.environ, "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")
    region = _first(given, "s3.region", "client.region")
    if endpoint:
        parts = urlsplit(endpoint if "://" in endpoint else f"https://{endpoint}")
        is_virtual = _is_true(given.get("s3.force-virtual-addressing", "false"))
        host = f"{bucket}.{parts.netloc}" if is_virtual else parts.netloc
        config |= {
            "endpoint": f"{parts.scheme}://{host}{parts.path.rstrip('/')}",
            "virtual_hosted_style_request": is_virtual,
            "region": region or _first(os.environ, "AWS_REGION", "AWS_DEFAULT_REGION") or ASSUMED_REGION,
        }
    else:
        if not region or _is_true(given.get("s3.resolve-region", "false")):
            region = (
                _bucket_region(bucket) or region or _first(os.environ, "AWS_REGION", "AWS_DEFAULT_REGION")
            )
        if region.startswith(_OWN_ADDRESSES) or _is_true(
            _first(os.environ, "AWS_USE_FIPS_ENDPOINT", "AWS_USE_DUALSTACK_ENDPOINT")
        ):
            return "the region's addresses are of another form"
        is_virtual = "." not in bucket  # else its certificate does not cover the host's name
        config |= {"region": region or ASSUMED_REGION, "virtual_hosted_style_request": is_virtual}
    credentials: Callable[[], Any] | None = None
    renewed = None
    keys = _keys(given)
    key, secret = keys["access_key_id"], keys["secret_access_key"]
    if _is_true(given.get("s3.anonymous", "false")):
        config["skip_signature"] = True
    elif bool(key) != bool(secret):
        return "only half of a key is set"
    elif key and are_renewed:
        renewed = _keys
    elif key:
        # As they are: the environment's session token must not be added to a key of the catalog's.
        fixed = {**keys, "expires_at": None}
        credentials = lambda: fixed  # noqa: E731
    elif reason := _default_aws_credentials():
        return reason
    return StoreProperties(
        kind="s3",
        bucket=bucket,
        config=config,
        credentials=credentials,
        renewed=renewed,
        allows_http=str(config.get("endpoint", "")).startswith("http:"),
        connect_seconds=_seconds(given.get("s3.connect-timeout"), CONNECT_SECONDS),
        request_seconds=_seconds(given.get("s3.request-timeout"), REQUEST_SECONDS),
        proxy=given.get("s3.proxy-uri", ""),
    )


def _bucket_region(bucket: str) -> str:
    """Return the region that a bucket is in according to AWS, as PyIceberg asks for it; empty if it does not say."""
    from pyarrow.fs import resolve_s3_region  # noqa: PLC0415

    try:
        return str(resolve_s3_region(bucket))
    except (OSError, TypeError):
        return ""


def _default_aws_credentials() -> str | None:
    """Return why obstore would not find the credentials that AWS's own libraries find; None if it does."""
    if _first(os.environ, "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        return None
    if _first(os.environ, "AWS_PROFILE", "AWS_DEFAULT_PROFILE"):
        return "AWS_PROFILE is set"
    for name, default in (("AWS_SHARED_CREDENTIALS_FILE", "credentials"), ("AWS_CONFIG_FILE", "config")):
        if Path(os.environ.get(name) or Path.home() / ".aws" / default).is_file():
            return f"a profile may hold the credentials ({name})"
    return None


def _keys(given: Mapping[str, str]) -> dict[str, Any]:
    """Return S3 credentials in obstore's form."""
    return {
        "access_key_id": _first(given, "s3.access-key-id", "client.access-key-id"),
        "secret_access_key": _first(given, "s3.secret-access-key", "client.secret-access-key"),
        "token": _first(given, "s3.session-token", "client.session-token") or None,
    }


def _google(bucket: str, given: Mapping[str, str], *, are_renewed: bool) -> StoreProperties | str:
    if "@" in bucket or not bucket:
        return "the bucket's name is not plain"
    config: dict[str, Any] = {}
    if host := given.get("gcs.service.host"):
        config["base_url"] = host.rstrip("/")
    renewed = None
    if (token := given.get("gcs.oauth2.token")) and are_renewed:
        renewed = _token
    elif token:
        config["bearer_token"] = token
    elif reason := _default_google_credentials():
        return reason
    return StoreProperties(
        kind="gs",
        bucket=bucket,
        config=config,
        renewed=renewed,
        allows_http=(host or "").startswith("http:"),
    )


def _token(given: Mapping[str, str]) -> dict[str, Any]:
    """Return a Google token in obstore's form."""
    return {"token": given["gcs.oauth2.token"]}


def _default_google_credentials() -> str | None:
    """Return why obstore would not find Google's default credentials; None if it does."""
    name = os.environ.get("GOOGLE_APPLICATION_CREDENTIALS")
    place = (
        Path(name) if name else Path.home() / ".config" / "gcloud" / "application_default_credentials.json"
    )
    if not place.is_file():
        return f"Google's credentials are not in a file: {place}" if name else None
    try:
        kind = json.loads(place.read_text()).get("type")
    except (OSError, ValueError, AttributeError):
        return "Google's credentials file is not readable"
    return None if kind in _KNOWN_GOOGLE_CREDENTIALS else f"Google's credentials are of type {kind}"


def _azure(authority: str, given: Mapping[str, str], *, are_renewed: bool) -> StoreProperties | str:
    container, _, host = authority.partition("@")
    account = given.get("adls.account-name") or host.partition(".")[0]
    if found := _first_of(_ARROW_AZURE, given):
        return f"{found} is set"
    if not container or not account:
        return "the storage account is not known"
    config: dict[str, Any] = {"account_name": account}
    blob = given.get("adls.blob-storage-authority", ".blob.core.windows.net")
    scheme = given.get("adls.blob-storage-scheme", "https")
    config["endpoint"] = (
        f"{scheme}://{account}{blob}" if blob.startswith(".") else f"{scheme}://{blob}/{account}"
    )
    renewed = None
    login = [given.get(f"adls.{name}") for name in ("client-id", "client-secret", "tenant-id")]
    if key := given.get("adls.account-key"):
        config |= {"account_key": key, "credential_type": "access_key"}
    elif (token := given.get("adls.sas-token")) and are_renewed:
        renewed = _signature
    elif token:
        config |= {"sas_key": token.removeprefix("?"), "credential_type": "sas_token"}
    elif all(login):
        config |= dict(zip(("client_id", "client_secret", "tenant_id"), login, strict=True))
        config["credential_type"] = "client_secret"
    elif any(login):
        return "a part of the login is missing"
    elif bearer := given.get("adls.token"):
        config |= {"token": bearer, "credential_type": "bearer_token"}
    elif _is_true(given.get("adls.anon", "false")):
        config["skip_signature"] = True
    else:
        return "Azure's default credentials are to be found"
    return StoreProperties(
        kind="azure",
        bucket=container,
        config=config,
        renewed=renewed,
        allows_http=scheme == "http",
    )


def _signature(given: Mapping[str, str]) -> dict[str, Any]:
    """Return a shared access signature in obstore's form."""
    return {"sas_token": given["adls.sas-token"].removeprefix("?")}


def _first(given: Mapping[str, str], *names: str) -> str:
    return next((value for name in names if (value := given.get(name))), "")


def _first_of(names: tuple[str, ...], given: Mapping[str, str]) -> str:
    return next((name for name in names if given.get(name) and given[name].lower() != "false"), "")


def _is_true(text: str) -> bool:
    return text.strip().lower() in _TRUE


def _seconds(text: str | None, default: float) -> float:
    try:
        return float(text) if text else default
    except ValueError:
        return default
