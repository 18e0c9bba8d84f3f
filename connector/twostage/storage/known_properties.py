"""What becomes of each property of object stores that PyIceberg defines.

Takes the properties that open files; refuses, by name, those that a read would need and that no client here follows. The
rule: every name that PyIceberg has is in one of these sets, so that none is ignored without anybody having decided it.
Source: PyIceberg's `pyiceberg.io`.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from twostage.errors import UnsupportedFeatureError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from twostage.storage.location import Location

FOLLOWED = frozenset(
    (
        *("s3.access-key-id", "s3.secret-access-key", "s3.session-token", "s3.anonymous", "s3.region"),
        *("s3.resolve-region", "s3.endpoint", "s3.force-virtual-addressing", "s3.proxy-uri"),
        *("s3.connect-timeout", "s3.request-timeout"),
        *("s3.role-arn", "s3.role-session-name", "s3.profile-name", "s3.retry-strategy-impl"),
        *("gcs.oauth2.token", "gcs.oauth2.token-expires-at", "gcs.service.host"),
        *("adls.account-name", "adls.account-key", "adls.sas-token", "adls.token", "adls.anon"),
        *("adls.client-id", "adls.client-secret", "adls.tenant-id", "adls.account-host"),
        *("adls.connection-string", "adls.blob-storage-authority", "adls.blob-storage-scheme"),
        *("adls.dfs-storage-authority", "adls.dfs-storage-scheme"),
    )
)
WITHOUT_EFFECT = frozenset(
    (
        *("s3.server-side-encryption", "s3.sse-kms-key-id", "gcs.default-bucket-location"),  # of writers
        *("gcs.project-id", "gcs.access", "gcs.consistency", "gcs.version-aware"),  # of writers and listings
        *("gcs.cache-timeout", "gcs.session-kwargs"),  # of the Python library gcsfs, which is not used
        *(
            "s3.signer",
            "s3.signer.uri",
            "s3.signer.endpoint",
        ),  # the keys given, or the environment's, sign: see `check_properties`
    )
)
REFUSED = {
    "gcs.requester-pays": "No client here can name a project to bill; copy the table to a bucket without requester pays.",
    "adls.credential": "It names Python code; set adls.account-key, adls.sas-token, adls.token or a client's credentials.",
}
_AZURE_KEYS = ("adls.account-key", "adls.sas-token", "adls.client-id")
_SIGNED_BY_CATALOG = ("s3.remote-signing-enabled", "s3.signer")
_AWS_LOGINS = (
    *("s3.access-key-id", "client.access-key-id", "s3.anonymous", "s3.role-arn", "client.role-arn"),
    *("s3.profile-name", "client.profile-name"),
)
_AWS_LOGINS_OF_ENVIRONMENT = (
    *("AWS_ACCESS_KEY_ID", "AWS_PROFILE", "AWS_DEFAULT_PROFILE", "AWS_WEB_IDENTITY_TOKEN_FILE"),
    *("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "AWS_CONTAINER_CREDENTIALS_FULL_URI"),
)
_BY_OBSTORE_ALONE = ("adls.token", "adls.anon")


def check_properties(location: Location, properties: Mapping[str, str], *, by_arrow: bool) -> None:
    """Refuse what opening a location would need and nothing here does.

    Raises:
        UnsupportedFeatureError: The property's name is in its text, its value is not; the code is UNSUPPORTED_PROPERTY.
    """
    if location.family == "s3":
        _check_signing(properties)
    names = [name for name in REFUSED if name.startswith(_prefix(location))]
    if by_arrow:
        names += [name for name in _BY_OBSTORE_ALONE if name.startswith(_prefix(location))]
    has_keys = any(properties.get(name) for name in _AZURE_KEYS)
    for name in names:
        if properties.get(name, "false").lower() in ("", "false") or (name.startswith("adls.") and has_keys):
            continue
        raise UnsupportedFeatureError(
            "UNSUPPORTED_PROPERTY",
            f"Storage property is not supported: {name}",
            stage="storage",
            hint=REFUSED.get(
                name,
                "PyArrow, which lists folders of Azure and reads with object-store-client=arrow, does not support it: "
                "load the table from a catalog by its name.",
            ),
        )


def _check_signing(properties: Mapping[str, str]) -> None:
    """Refuse a store whose requests only the catalog can sign: without keys it would deny access, and nobody could say why."""
    signed = next((name for name in _SIGNED_BY_CATALOG if _is_set(properties.get(name, ""))), None)
    if signed is None or any(_is_set(properties.get(name, "")) for name in _AWS_LOGINS):
        return
    if any(os.environ.get(name) for name in _AWS_LOGINS_OF_ENVIRONMENT) or any(
        Path(os.environ.get(variable) or Path.home() / ".aws" / name).is_file()
        for variable, name in (("AWS_SHARED_CREDENTIALS_FILE", "credentials"), ("AWS_CONFIG_FILE", "config"))
    ):
        return
    raise UnsupportedFeatureError(
        "UNSUPPORTED_PROPERTY",
        f"Catalog signs the requests to its store itself, which is not supported: {signed}",
        stage="storage",
        hint="Let the catalog vend credentials instead of signing (vended-credentials are requested), or give "
        "s3.access-key-id and s3.secret-access-key, or s3.profile-name.",
    )


def _is_set(text: str) -> bool:
    return text.strip().lower() not in ("", "false")


def _prefix(location: Location) -> str:
    return {"gs": "gcs.", "abfs": "adls.", "wasb": "adls."}.get(location.family, "s3.")
