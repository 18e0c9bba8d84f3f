"""From the reader's options to a pinned table.

Takes `ReadOptions` and the session's confs; returns a `PinnedTable`: metadata, one snapshot, its schema and how to open
its files, all plain values. The table is looked up once, here, in the driver; everything that runs later reads this
snapshot. PyIceberg is imported only for catalogs, not for paths.
"""

from __future__ import annotations

import contextlib
import os
from dataclasses import replace
from typing import TYPE_CHECKING

from twostage.catalog.browse import has_namespace, has_table, open_warehouse, tables_of
from twostage.catalog.catalog_answer import is_view, request_table
from twostage.catalog.client import CatalogReference, configured_catalogs, default_catalog, get_catalog
from twostage.catalog.path_table import (
    check_bucket,
    check_names,
    is_table,
    read_newest,
    table_folder,
)
from twostage.catalog.properties import file_properties, hadoop_properties
from twostage.catalog.sql_names import check_name
from twostage.catalog.table_name import is_path, split_name
from twostage.errors import (
    MissingFileError,
    NotFoundError,
    OptionError,
    TwoStageError,
    UnsupportedFeatureError,
    mask,
    nearest,
)
from twostage.metadata_tables import (
    METADATA_TABLES,
    NOT_YET,
    choose_metadata_table,
    open_metadata_table,
    unknown_metadata_table,
)
from twostage.storage.immutable_files import read_immutable
from twostage.storage.location import join, parse_location
from twostage.storage.store_identity import scope_of
from twostage.table.metadata import MAX_METADATA_BYTES, parse_metadata, parse_metadata_bytes
from twostage.table.pinned import PinnedTable
from twostage.table.snapshots import apply_selector, chooses_snapshot, select_snapshot
from twostage.task import Storage

if TYPE_CHECKING:
    from collections.abc import Mapping

    from twostage.catalog.catalog_answer import CatalogAnswer
    from twostage.options import ReadOptions
    from twostage.table.metadata import TableMetadata

_SESSION_CATALOG = "spark_catalog"
_MAX_ATTEMPTS = 3
"""Attempts to read the newest metadata file, which a concurrent commit may remove."""


def load_table(options: ReadOptions, confs: Mapping[str, str] | None = None) -> PinnedTable:
    """Find the table that the option ``path`` names, and pin the snapshot that the options select.

    Args:
        options: The reader's options.
        confs: The Spark confs; only those of catalogs, Hadoop's S3A and the session's time zone are used.

    Raises:
        OptionError: There is no path, or it names no configured catalog.
        NotFoundError: There is no such table, snapshot, branch or tag.
        UnsupportedFeatureError: It is a view.
        StorageError: The catalog or the storage failed.
    """
    confs = confs or {}
    path = (options.path or "").strip()
    if not path:
        raise OptionError(
            "MISSING_PATH",
            "No table was named",
            stage="options",
            hint="load('/warehouse/db/events') or load('catalog.db.events').",
        )
    base, _, suffix = path.rpartition("#")
    if is_path(base) and suffix.lower() in METADATA_TABLES:
        path, options = base, choose_metadata_table(options, suffix)
    elif is_path(base) and suffix.lower() in NOT_YET:
        raise unknown_metadata_table(suffix)
    if is_path(path):
        properties = {**hadoop_properties(confs), **file_properties(options.catalog, trusted=options.catalog)}
        return _load_path(path, path, options, confs, properties)
    parts = split_name(path)
    catalog, identifier = _resolve(parts, options, confs)
    try:
        return _load_identifier(catalog, identifier, options, confs)
    except NotFoundError as error:
        if error.code != "TABLE_NOT_FOUND" or len(identifier) < 2:
            raise
        if identifier[-1].lower() in METADATA_TABLES:
            chosen = choose_metadata_table(options, identifier[-1])
            try:
                return _load_identifier(catalog, identifier[:-1], chosen, confs)
            except NotFoundError as other:
                raise (error if other.code == "TABLE_NOT_FOUND" else other) from None
        selected = apply_selector(options, identifier[-1])
        if selected is None:
            raise _unknown_suffix(catalog, identifier, error) from None
        return _load_identifier(catalog, identifier[:-1], selected, confs)


def _load_path(
    name: str, path: str, options: ReadOptions, confs: Mapping[str, str], properties: Mapping[str, str]
) -> PinnedTable:
    location = parse_location(path)
    if location.is_local and not location.authority:
        path = os.path.abspath(location.path)  # noqa: PTH100 (executors run in another folder)
    client = options.settings.object_store_client
    storage = Storage(properties=properties, root=path, allowed=options.allowed_locations, client=client)
    metadata_path, data = _read_newest(storage, path)
    metadata = parse_metadata_bytes(data, location=metadata_path)
    root = table_folder(metadata_path)
    written = parse_location(metadata.location)
    if location.is_hadoop and not location.authority and written.family == location.family:
        root = f"{written.scheme}://{written.authority}{parse_location(root).path}"
    return _pin(name, metadata, Storage(properties=properties, root=root, client=client), options, confs)


def _read_newest(storage: Storage, path: str) -> tuple[str, bytes]:
    """Return the path and bytes of the newest metadata file; a commit may remove it before it is read."""
    for attempt in range(_MAX_ATTEMPTS):
        try:
            return read_newest(storage, path, limit=MAX_METADATA_BYTES)
        except MissingFileError:
            if attempt + 1 == _MAX_ATTEMPTS:
                raise
    raise AssertionError


def _pin(
    name: str, metadata: TableMetadata, storage: Storage, options: ReadOptions, confs: Mapping[str, str]
) -> PinnedTable:
    storage = replace(
        storage,
        moved_from=metadata.location if options.allow_moved_paths else None,
        allowed=(*storage.allowed, *options.allowed_locations),
    )
    snapshot, schema = select_snapshot(metadata, options, time_zone=confs.get("spark.sql.session.timeZone"))
    table = PinnedTable(name=mask(name), metadata=metadata, snapshot=snapshot, schema=schema, storage=storage)
    if options.metadata_table is None:
        return table
    return open_metadata_table(table, options.metadata_table, chose_snapshot=chooses_snapshot(options))


def _resolve(
    parts: tuple[str, ...], options: ReadOptions, confs: Mapping[str, str]
) -> tuple[CatalogReference, tuple[str, ...]]:
    """Split a name into its catalog and the table's identifier in it."""
    configured = configured_catalogs(confs)
    first = next((name for name in configured if name == parts[0]), None) or next(
        (name for name in configured if name.lower() == parts[0].lower()), None
    )
    if first is not None and len(parts) > 1:
        return get_catalog(first, confs, options.catalog), parts[1:]
    given = options.catalog.keys() & {"type", "uri", "catalog-impl", "py-catalog-impl"}
    if given and len(parts) > 2:  # catalog.namespace.table
        return get_catalog(parts[0], confs, options.catalog), parts[1:]
    default = next(
        (name for name in (confs.get("spark.sql.defaultCatalog"), default_catalog()) if name in configured),
        _SESSION_CATALOG if _SESSION_CATALOG in configured else None,
    )
    if len(parts) > 1 and (given or default is not None):
        return get_catalog(default or "default", confs, options.catalog), parts
    known = ", ".join(configured) or "none"
    raise OptionError(
        "UNKNOWN_CATALOG",
        f"No catalog of this name is configured: {parts[0]}" if len(parts) > 1 else f"Not a path: {parts[0]}",
        stage="catalog",
        hint=f"Configured: {known}. Set spark.sql.catalog.{parts[0]}.type and .uri, or PyIceberg's "
        "configuration; a table's folder is written with a slash, such as ./events.",
    )


def _load_identifier(
    catalog: CatalogReference, identifier: tuple[str, ...], options: ReadOptions, confs: Mapping[str, str]
) -> PinnedTable:
    name = ".".join(f"`{part}`" if "." in part else part for part in (catalog.name, *identifier))
    if catalog.is_hadoop:
        storage = open_warehouse(catalog)
        folder = join(storage.root, *identifier)
        if not check_names(identifier) or not is_table(storage, folder):
            raise _no_table(catalog, identifier)
        return _load_path(name, folder, options, confs, storage.properties)
    if len(identifier) < 2:  # PyIceberg's catalogs need a namespace
        raise _no_table(catalog, identifier)
    client = options.settings.object_store_client
    answer, metadata = _read_answer(catalog, identifier, client)
    properties = file_properties(answer.file_properties, trusted=catalog.properties)
    written_at = answer.metadata_location
    root = table_folder(written_at) if written_at else metadata.location
    written = parse_location(metadata.location)
    own = (
        () if written.is_local or options.allow_moved_paths else (f"{written.scheme}://{written.authority}",)
    )
    scope = scope_of(catalog.name, catalog.properties)
    storage = Storage(
        properties=properties, root=root, allowed=own, client=client, scope=scope, renewal=answer.renewal
    )
    return _pin(name, metadata, storage, options, confs)


def _read_answer(
    catalog: CatalogReference, identifier: tuple[str, ...], client: str
) -> tuple[CatalogAnswer, TableMetadata]:
    """Return the catalog's answer and the table's metadata; a commit may remove the file before it is read."""
    for attempt in range(_MAX_ATTEMPTS):
        answer = _request_table(catalog, identifier)
        location = answer.metadata_location
        if answer.metadata is not None:
            place = location or join(str(answer.metadata.get("location", "")), "metadata")
            return answer, parse_metadata(answer.metadata, location=place)
        if not location:
            raise _no_table(catalog, identifier)
        properties = file_properties(answer.file_properties, trusted=catalog.properties)
        scope = scope_of(catalog.name, catalog.properties)
        storage = Storage(properties=properties, root=location, client=client, scope=scope)
        try:
            data = read_immutable(storage, location, limit=MAX_METADATA_BYTES)
        except MissingFileError as error:
            if attempt + 1 == _MAX_ATTEMPTS:
                raise MissingFileError(
                    error.code,
                    f"Metadata file named by catalog {catalog.name} is missing",
                    path=location,
                    stage="catalog",
                    hint="The table's files were moved or removed: load it by its path where they are now.",
                ) from None
        else:
            return answer, parse_metadata_bytes(data, location=location)
    raise AssertionError


def _request_table(catalog: CatalogReference, identifier: tuple[str, ...]) -> CatalogAnswer:
    try:
        return request_table(catalog, identifier)
    except NotFoundError as error:
        if error.code != "NOT_IN_CATALOG":
            raise
        found = False
        with contextlib.suppress(TwoStageError):
            found = is_view(catalog, identifier)
        raise (_is_a_view if found else _no_table)(catalog, identifier) from None


def _is_a_view(catalog: CatalogReference, identifier: tuple[str, ...]) -> TwoStageError:
    return UnsupportedFeatureError(
        "UNSUPPORTED_VIEW",
        f"A view, not a table, in catalog {catalog.name}: {'.'.join(identifier)}",
        stage="catalog",
        hint="twostage reads tables: query those that the view names.",
    )


def _no_table(catalog: CatalogReference, identifier: tuple[str, ...]) -> NotFoundError:
    """Return the error for a table that does not exist; its hint names the nearest one that does."""
    if catalog.is_hadoop:
        warehouse = open_warehouse(catalog)
        check_bucket(warehouse, warehouse.root)
    else:
        check_name(catalog)
    hint = f"There is no such namespace: {'.'.join(identifier[:-1])}."
    with contextlib.suppress(TwoStageError):
        if has_namespace(catalog, identifier[:-1]):
            hint = nearest(identifier[-1], tables_of(catalog, identifier[:-1]))
    name, is_path, suffix = identifier[-1].partition("#")
    if is_path:
        hint = f"'#' is for paths; write {'.'.join((catalog.name, *identifier[:-1], name, suffix))}."
    return NotFoundError(
        "TABLE_NOT_FOUND",
        f"Catalog {catalog.name} has no such table: {'.'.join(identifier)}",
        stage="catalog",
        hint=hint,
    )


def _unknown_suffix(
    catalog: CatalogReference, identifier: tuple[str, ...], error: NotFoundError
) -> TwoStageError:
    """Return the error for a name that does not exist; if it is a table's name with a suffix, about the suffix."""
    with contextlib.suppress(TwoStageError):
        if not has_table(catalog, identifier[:-1]):
            return error
        if identifier[-1].lower() in NOT_YET:
            return unknown_metadata_table(identifier[-1])
        known = nearest(identifier[-1], METADATA_TABLES, max_listed=len(METADATA_TABLES))
        error.hint = mask(
            f"{'.'.join(identifier[:-1])} is a table without a metadata table of this name. {known}"
        )
    return error
