"""From the reader's options to one pinned table.

Takes `ReadOptions` and the session's confs; gives a `PinnedTable`: metadata, one snapshot, its schema and
how to open its files, all plain values. The rule: the table is looked up once, here, on the driver, and
whatever runs later reads this snapshot and no other. PyIceberg is loaded for catalogs only, never for a
local path.
"""

from __future__ import annotations

import contextlib
import os
from dataclasses import replace
from typing import TYPE_CHECKING

from twostage.catalog.catalog_answer import request_table
from twostage.catalog.client import CatalogReference, call, configured_catalogs, default_catalog, get_catalog
from twostage.catalog.path_table import (
    check_bucket,
    check_names,
    find_metadata,
    is_table,
    list_warehouse,
    table_folder,
)
from twostage.catalog.properties import file_properties, hadoop_properties
from twostage.catalog.sql_names import check_name
from twostage.catalog.table_name import is_path, split_name
from twostage.errors import MissingFileError, NotFoundError, OptionError, TwoStageError, mask, nearest
from twostage.metadata_tables import (
    METADATA_TABLES,
    NOT_YET,
    choose_metadata_table,
    open_metadata_table,
    unknown_metadata_table,
)
from twostage.storage.files import read_all
from twostage.storage.location import join, parse_location
from twostage.table.metadata import MAX_METADATA_BYTES, parse_metadata, parse_metadata_bytes
from twostage.table.pinned import PinnedTable
from twostage.table.snapshots import apply_selector, chooses_snapshot, select_snapshot
from twostage.task import Storage

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from twostage.catalog.catalog_answer import CatalogAnswer
    from twostage.options import ReadOptions
    from twostage.table.metadata import TableMetadata

_SESSION_CATALOG = "spark_catalog"
_FIND_ATTEMPTS = 3


def load_table(options: ReadOptions, confs: Mapping[str, str] | None = None) -> PinnedTable:
    """Find the table that ``path`` names and pin the snapshot that the options choose.

    Args:
        options: The reader's options.
        confs: The Spark confs, ``spark.sql.catalog.*`` at least.

    Raises:
        OptionError: No path, or a name or catalog that means nothing.
        NotFoundError: No such table, snapshot, branch or tag.
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
            raise _behind_a_table(catalog, identifier, error) from None
        return _load_identifier(catalog, identifier[:-1], selected, confs)


def _load_path(
    name: str, path: str, options: ReadOptions, confs: Mapping[str, str], properties: Mapping[str, str]
) -> PinnedTable:
    location = parse_location(path)
    if location.is_local and not location.authority:
        path = os.path.abspath(location.path)  # noqa: PTH100 (executors run in another folder)
    storage = Storage(properties=properties, root=path, allowed=options.allowed_locations)
    metadata_path, data = _read_newest(storage, path)
    metadata = parse_metadata_bytes(data, location=metadata_path)
    root = table_folder(metadata_path)
    written = parse_location(metadata.location)
    if location.is_hadoop and not location.authority and written.family == location.family:
        root = f"{written.scheme}://{written.authority}{parse_location(root).path}"
    return _pin(name, metadata, Storage(properties=properties, root=root), options, confs)


def _read_newest(storage: Storage, path: str) -> tuple[str, bytes]:
    """Return the newest metadata file and its bytes; commits may remove it between finding and reading."""
    for attempt in range(_FIND_ATTEMPTS):
        metadata_path = find_metadata(storage, path)
        try:
            return metadata_path, read_all(storage, metadata_path, limit=MAX_METADATA_BYTES)
        except MissingFileError:
            if attempt + 1 == _FIND_ATTEMPTS:
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
    """Split a name into its catalog and the table's name within."""
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
        storage = _warehouse(catalog)
        folder = join(storage.root, *identifier)
        if not check_names(identifier) or not is_table(storage, folder):
            raise _no_table(catalog, identifier)
        return _load_path(name, folder, options, confs, storage.properties)
    if len(identifier) < 2:  # PyIceberg's catalogs need a namespace
        raise _no_table(catalog, identifier)
    answer, metadata = _read_answer(catalog, identifier)
    properties = file_properties(answer.file_properties(metadata.properties), trusted=catalog.properties)
    written_at = answer.metadata_location
    root = table_folder(written_at) if written_at else metadata.location
    written = parse_location(metadata.location)
    own = (
        () if written.is_local or options.allow_moved_paths else (f"{written.scheme}://{written.authority}",)
    )
    storage = Storage(properties=properties, root=root, allowed=own)
    return _pin(name, metadata, storage, options, confs)


def _read_answer(
    catalog: CatalogReference, identifier: tuple[str, ...]
) -> tuple[CatalogAnswer, TableMetadata]:
    """Return what the catalog says of a table, and its metadata; commits may remove the file meanwhile."""
    for attempt in range(_FIND_ATTEMPTS):
        answer = _request_table(catalog, identifier)
        location = answer.metadata_location
        if answer.metadata is not None:
            place = location or join(str(answer.metadata.get("location", "")), "metadata")
            return answer, parse_metadata(answer.metadata, location=place)
        if not location:
            raise _no_table(catalog, identifier)
        storage = Storage(
            properties=file_properties(answer.file_properties({}), trusted=catalog.properties), root=location
        )
        try:
            data = read_all(storage, location, limit=MAX_METADATA_BYTES)
        except MissingFileError as error:
            if attempt + 1 == _FIND_ATTEMPTS:
                raise MissingFileError(
                    error.code,
                    f"Metadata file that catalog {catalog.name} names is not there",
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
        raise _no_table(catalog, identifier) from None


def _warehouse(catalog: CatalogReference) -> Storage:
    path = catalog.properties["warehouse"]
    location = parse_location(path)
    if location.is_local and not location.authority:
        path = os.path.abspath(location.path)  # noqa: PTH100
    return Storage(properties=file_properties(catalog.properties, trusted=catalog.properties), root=path)


def list_namespaces(
    catalog: str, parent: Sequence[str] = (), confs: Mapping[str, str] | None = None
) -> list[tuple[str, ...]]:
    """Return the namespaces directly inside `parent`, each by its full name.

    Raises:
        NotFoundError: `parent` is not there.
    """
    reference, inside = get_catalog(catalog, confs or {}), tuple(parent)
    if inside and not _namespace_exists(reference, inside):
        raise _no_namespace(reference, inside)
    if reference.is_hadoop:
        names = list_warehouse(_warehouse(reference), inside, tables=False)
        return [(*inside, name) for name in names]
    found = {tuple(name) for name in call(reference, lambda opened: opened.list_namespaces(inside))}
    if not found:
        check_name(reference)
    return sorted(name for name in found if len(name) == len(inside) + 1)


def list_tables(catalog: str, namespace: Sequence[str], confs: Mapping[str, str] | None = None) -> list[str]:
    """Return the names of the tables in a namespace.

    Raises:
        NotFoundError: The namespace is not there.
    """
    reference = get_catalog(catalog, confs or {})
    if namespace and not _namespace_exists(reference, tuple(namespace)):
        raise _no_namespace(reference, tuple(namespace))
    return _tables(reference, tuple(namespace))


def _tables(catalog: CatalogReference, namespace: tuple[str, ...]) -> list[str]:
    if catalog.is_hadoop:
        return list_warehouse(_warehouse(catalog), namespace, tables=True)
    if not namespace:
        return []
    return sorted(name[-1] for name in call(catalog, lambda opened: opened.list_tables(namespace)))


def table_exists(
    catalog: str, namespace: Sequence[str], table: str, confs: Mapping[str, str] | None = None
) -> bool:
    """Return whether the catalog holds this table."""
    return _holds(get_catalog(catalog, confs or {}), (*namespace, table))


def _holds(catalog: CatalogReference, identifier: tuple[str, ...]) -> bool:
    if catalog.is_hadoop:
        storage = _warehouse(catalog)
        return check_names(identifier) and is_table(storage, join(storage.root, *identifier))
    if len(identifier) < 2:
        return False
    try:
        request_table(catalog, identifier)
    except NotFoundError:
        check_name(catalog)
        return False
    return True


def namespace_exists(catalog: str, namespace: Sequence[str], confs: Mapping[str, str] | None = None) -> bool:
    """Return whether the catalog holds this namespace."""
    return _namespace_exists(get_catalog(catalog, confs or {}), tuple(namespace))


def _namespace_exists(catalog: CatalogReference, namespace: tuple[str, ...]) -> bool:
    if not namespace:
        return True
    if catalog.is_hadoop:
        return check_names(namespace) and namespace[-1] in list_warehouse(
            _warehouse(catalog), namespace[:-1], tables=False
        )
    try:
        found = bool(call(catalog, lambda opened: opened.namespace_exists(namespace)))
    except NotFoundError:
        found = False
    if not found:
        check_name(catalog)
    return found


def _no_table(catalog: CatalogReference, identifier: tuple[str, ...]) -> NotFoundError:
    """Return the error for a table that is not there; its hint names the nearest one that is."""
    if catalog.is_hadoop:
        warehouse = _warehouse(catalog)
        check_bucket(warehouse, warehouse.root)
    else:
        check_name(catalog)
    hint = f"Namespace is not there: {'.'.join(identifier[:-1])}."
    with contextlib.suppress(TwoStageError):
        if _namespace_exists(catalog, identifier[:-1]):
            hint = nearest(identifier[-1], _tables(catalog, identifier[:-1]))
    return NotFoundError(
        "TABLE_NOT_FOUND",
        f"Catalog {catalog.name} has no such table: {'.'.join(identifier)}",
        stage="catalog",
        hint=hint,
    )


def _behind_a_table(
    catalog: CatalogReference, identifier: tuple[str, ...], error: NotFoundError
) -> TwoStageError:
    """Return the error for a name that is not there: if all but its last part is a table's, about that part."""
    with contextlib.suppress(TwoStageError):
        if not _holds(catalog, identifier[:-1]):
            return error
        if identifier[-1].lower() in NOT_YET:
            return unknown_metadata_table(identifier[-1])
        known = nearest(identifier[-1], METADATA_TABLES, most=len(METADATA_TABLES))
        error.hint = mask(
            f"{'.'.join(identifier[:-1])} is a table without a metadata table of this name. {known}"
        )
    return error


def _no_namespace(catalog: CatalogReference, namespace: tuple[str, ...]) -> NotFoundError:
    return NotFoundError(
        "NAMESPACE_NOT_FOUND",
        f"Catalog {catalog.name} has no such namespace: {'.'.join(namespace)}",
        stage="catalog",
    )
