"""What a catalog says of one table: where its metadata lies, and what opens its files.

Takes a catalog and a table's name; gives a `CatalogAnswer`. The rule: PyIceberg finds the table and speaks with the
service, but never parses the table's metadata. Its model refuses what it has no class for, a ``variant`` column
say, and cannot write a table of version 3 back as JSON.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from twostage.catalog.client import CatalogReference, call
from twostage.catalog.metadata_locator import LOCATOR, MetadataLocatedError
from twostage.errors import UnsupportedFeatureError
from twostage.storage.files import hide_secrets

if TYPE_CHECKING:
    from collections.abc import Mapping

_DENIED = ("UnauthorizedError", "AuthorizationExpiredError")
_LOADING_MODES = ("all", "refs")


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogAnswer:
    """A table as its catalog knows it; `properties` hold secrets and are in no repr.

    Over REST the service sends the `metadata` along, and `metadata_location` may be None for a table that was never
    committed; every other catalog knows the location alone.
    """

    metadata_location: str | None
    metadata: Mapping[str, Any] | None = field(default=None, repr=False)
    properties: Mapping[str, Any] = field(repr=False)
    """Of the catalog, its service's configuration included."""
    lent: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """What the service says for this table alone, credentials above all: it counts more than anything else."""

    def file_properties(self, table: Mapping[str, str]) -> dict[str, Any]:
        """Return what opens the table's files, its own properties `table` included, for `properties.py` to choose from."""
        return {**self.properties, **table, **self.lent}


def request_table(catalog: CatalogReference, identifier: tuple[str, ...]) -> CatalogAnswer:
    """Ask a catalog for a table.

    Raises:
        NotFoundError: With code NOT_IN_CATALOG: it is not there.
        StorageError: The catalog failed or did not answer.
        UnsupportedFeatureError: The answer is no table's metadata, or the table is not Iceberg's.
    """
    return call(catalog, lambda opened: _request(opened, identifier, catalog))


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
    # A catalog class of the user's, which opens files in its own way.
    properties = {key: value for key, value in table.io.properties.items() if value != LOCATOR}
    return CatalogAnswer(metadata_location=table.metadata_location, properties=properties)


def _is_rest(opened: Any) -> bool:
    return "RestCatalog" in {kind.__name__ for kind in type(opened).__mro__}


def _names(error: Exception) -> set[str]:
    return {kind.__name__ for kind in type(error).__mro__}


def _request_over_rest(opened: Any, identifier: tuple[str, ...], catalog: CatalogReference) -> CatalogAnswer:
    """Send the request that PyIceberg would, in its session (authentication, signing, TLS), and keep the JSON."""
    try:
        content = _get_table(opened, identifier)
    except Exception as error:
        if not _names(error) & set(_DENIED):
            raise
        opened._refresh_token()  # noqa: SLF001 - as PyIceberg does before its one other try
        content = _get_table(opened, identifier)
    try:
        answer = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise _no_answer(catalog, f"it is not JSON: {error}") from None
    if not isinstance(answer, dict) or not isinstance(answer.get("metadata"), dict):
        raise _no_answer(catalog, "it has no metadata")
    metadata, location = answer["metadata"], answer.get("metadata-location")
    credentials = _lent(answer.get("storage-credentials"), str(location or metadata.get("location") or ""))
    return CatalogAnswer(
        metadata_location=None if location is None else str(location),
        metadata=metadata,
        properties=opened.properties,
        lent={**_mapping(answer.get("config")), **credentials},
    )


def _get_table(opened: Any, identifier: tuple[str, ...]) -> bytes:
    from pyiceberg.catalog.rest import Endpoints  # noqa: PLC0415
    from pyiceberg.catalog.rest.response import _handle_non_200_response  # noqa: PLC0415
    from pyiceberg.exceptions import NoSuchTableError  # noqa: PLC0415
    from requests import HTTPError  # noqa: PLC0415

    mode = opened.properties.get("snapshot-loading-mode")
    if mode is not None and mode not in _LOADING_MODES:
        raise ValueError(f"snapshot-loading-mode is none of {', '.join(_LOADING_MODES)}: {mode}")
    names = opened._split_identifier_for_path(identifier)  # noqa: SLF001 - the server chooses how parts are joined
    url = opened.url(Endpoints.load_table, prefixed=True, **names)
    response = opened._session.get(url, params={} if mode is None else {"snapshots": mode})  # noqa: SLF001
    try:
        response.raise_for_status()
    except HTTPError as error:
        _handle_non_200_response(error, {404: NoSuchTableError})
    return bytes(response.content)


def _mapping(raw: Any) -> dict[str, Any]:
    return dict(raw) if isinstance(raw, dict) else {}


def _lent(credentials: Any, location: str) -> dict[str, Any]:
    """Return the configuration of the credentials for `location`: of several prefixes the longest.

    Source: Iceberg's REST specification, ``LoadTableResult``: they come before ``config``.
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
