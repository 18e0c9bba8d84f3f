"""Request one table from a catalog: the location of its metadata, and the properties that open its files.

Takes a catalog and an identifier; returns a `CatalogAnswer`. PyIceberg finds the table and communicates with the
service, but does not parse the table's metadata: its model refuses types that it has no class for, such as ``variant``,
and cannot serialize the metadata of a version 3 table.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from twostage.catalog.client import CatalogReference, call
from twostage.catalog.credentials_endpoint import credentials_endpoint
from twostage.catalog.metadata_locator import LOCATOR, MetadataLocatedError
from twostage.errors import UnsupportedFeatureError
from twostage.storage.files import hide_secrets

if TYPE_CHECKING:
    from collections.abc import Mapping

    from twostage.task import CredentialsEndpoint

_DENIED = ("UnauthorizedError", "AuthorizationExpiredError")
_LOADING_MODES = ("all", "refs")


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogAnswer:
    """A catalog's entry of a table. Properties contain secrets, so the repr omits them.

    A REST service sends the `metadata` too, and `metadata_location` may be None for a table without a commit; all other
    catalogs return only the location.
    """

    metadata_location: str | None
    metadata: Mapping[str, Any] | None = field(default=None, repr=False)
    properties: Mapping[str, Any] = field(repr=False)
    """The catalog's properties, merged with the configuration that its service sent."""
    table_config: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """Configuration that the service sent for this table, such as vended credentials; overrides everything else."""
    renewal: CredentialsEndpoint | None = field(default=None, repr=False)
    """Where the vended credentials are renewed, if processes that read the files can renew them there."""

    @property
    def file_properties(self) -> dict[str, Any]:
        """The properties that may open the table's files.

        Not those in its metadata, which anyone who writes to the table may set: an endpoint among them would
        receive the reader's login.
        """
        return {**self.properties, **self.table_config}


def request_table(catalog: CatalogReference, identifier: tuple[str, ...]) -> CatalogAnswer:
    """Request a table from a catalog.

    Raises:
        NotFoundError: The table does not exist; the code is NOT_IN_CATALOG.
        StorageError: The catalog failed or did not answer.
        UnsupportedFeatureError: The answer has no table metadata, or the table is not an Iceberg table.
    """
    return call(catalog, lambda opened: _request(opened, identifier, catalog))


def is_view(catalog: CatalogReference, identifier: tuple[str, ...]) -> bool:
    """Tell whether a REST catalog has a view of this name. PyIceberg's other catalogs have none.

    Raises:
        StorageError: The catalog failed or did not answer.
    """
    return call(catalog, lambda opened: _is_rest(opened) and bool(opened.view_exists(identifier)))


def _request(opened: Any, identifier: tuple[str, ...], catalog: CatalogReference) -> CatalogAnswer:
    if _is_rest(opened):
        return _request_over_rest(opened, identifier, catalog)
    try:
        table = opened.load_table(identifier)
    except MetadataLocatedError as located:
        return CatalogAnswer(metadata_location=located.location, properties=located.properties)
    except Exception as error:
        if {"NoSuchIcebergTableError", "NoSuchPropertyException"} & _names(error):
            raise _not_iceberg(catalog, identifier, hide_secrets(error, catalog.properties)) from None
        raise
    # The user's own catalog class may read the metadata without the FileIO of `py-io-impl`.
    properties = {key: value for key, value in table.io.properties.items() if value != LOCATOR}
    return CatalogAnswer(metadata_location=table.metadata_location, properties=properties)


def _is_rest(opened: Any) -> bool:
    return "RestCatalog" in {kind.__name__ for kind in type(opened).__mro__}


def _names(error: Exception) -> set[str]:
    return {kind.__name__ for kind in type(error).__mro__}


def _request_over_rest(opened: Any, identifier: tuple[str, ...], catalog: CatalogReference) -> CatalogAnswer:
    """Send the request that PyIceberg would send, in its session (authentication, signing, TLS); keep the JSON."""
    try:
        content = _get_table(opened, identifier)
    except Exception as error:
        if not _names(error) & set(_DENIED):
            raise
        opened._refresh_token()  # noqa: SLF001 - as PyIceberg does before its only retry
        content = _get_table(opened, identifier)
    try:
        answer = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise _no_answer(catalog, f"it is not JSON: {error}") from None
    if not isinstance(answer, dict) or not isinstance(answer.get("metadata"), dict):
        raise _no_answer(catalog, "it has no metadata")
    metadata, location = answer["metadata"], answer.get("metadata-location")
    place = str(location or metadata.get("location") or "")
    config = {
        **_mapping(answer.get("config")),
        **_vended_credentials(answer.get("storage-credentials"), place),
    }
    return CatalogAnswer(
        metadata_location=None if location is None else str(location),
        metadata=metadata,
        properties=opened.properties,
        table_config=config,
        renewal=credentials_endpoint(opened, config, place),
    )


def _get_table(opened: Any, identifier: tuple[str, ...]) -> bytes:
    from pyiceberg.catalog.rest import Endpoints  # noqa: PLC0415
    from pyiceberg.catalog.rest.response import _handle_non_200_response  # noqa: PLC0415
    from pyiceberg.exceptions import NoSuchTableError  # noqa: PLC0415
    from requests import HTTPError  # noqa: PLC0415

    mode = opened.properties.get("snapshot-loading-mode")
    if mode is not None and mode not in _LOADING_MODES:
        raise ValueError(f"snapshot-loading-mode is none of {', '.join(_LOADING_MODES)}: {mode}")
    names = opened._split_identifier_for_path(identifier)  # noqa: SLF001 - the server configures the separator
    url = opened.url(Endpoints.load_table, prefixed=True, **names)
    response = opened._session.get(url, params={} if mode is None else {"snapshots": mode})  # noqa: SLF001
    try:
        response.raise_for_status()
    except HTTPError as error:
        _handle_non_200_response(error, {404: NoSuchTableError})
    return bytes(response.content)


def _mapping(raw: Any) -> dict[str, Any]:
    return dict(raw) if isinstance(raw, dict) else {}


def _vended_credentials(credentials: Any, location: str) -> dict[str, Any]:
    """Return the configuration of the storage credentials with the longest prefix of `location`.

    Source: Iceberg's REST specification, ``LoadTableResult``: they take precedence over ``config``.
    """
    found = [
        item
        for item in (credentials if isinstance(credentials, list) else ())
        if isinstance(item, dict) and location.startswith(str(item.get("prefix", "")))
    ]
    best = max(found, key=lambda item: len(str(item.get("prefix", ""))), default=None)
    return {} if best is None else _mapping(best.get("config"))


def _no_answer(catalog: CatalogReference, why: str) -> UnsupportedFeatureError:
    return UnsupportedFeatureError(
        "UNREADABLE_METADATA",
        f"Catalog {catalog.name} answered something else than a table: {why}",
        stage="catalog",
        hint="Load the table by its path.",
    )


def _not_iceberg(
    catalog: CatalogReference, identifier: tuple[str, ...], text: str
) -> UnsupportedFeatureError:
    return UnsupportedFeatureError(
        "NOT_AN_ICEBERG_TABLE",
        f"Catalog {catalog.name} has {'.'.join(identifier)}, but not as an Iceberg table: {text}",
        stage="catalog",
        hint="Read it with Spark's own reader of its format.",
    )
