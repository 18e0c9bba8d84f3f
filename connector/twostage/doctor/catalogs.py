"""Check catalogs: list each one's namespaces, with a timeout, and read a manifest list of one of its tables.

Takes names and Spark confs; yields a finding per catalog, and one for its tables' storage, which has an
address and keys of its own. Without names, all catalogs in the confs, Spark's properties file and PyIceberg's
configuration are checked. Values of properties are never shown.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from twostage.catalog.browse import list_namespaces, list_tables
from twostage.catalog.client import configured_catalogs, get_catalog, within
from twostage.catalog.load_table import load_table
from twostage.catalog.properties import CONF_PREFIX
from twostage.doctor.finding import guarded, ok, refused, warning
from twostage.errors import StorageError, TwoStageError
from twostage.options import parse_options
from twostage.spark.driver_confs import driver_confs
from twostage.table.manifest import read_manifest_list

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from twostage.doctor.finding import Finding

TIMEOUT_SECONDS = 20
_MAX_NAMESPACES_SHOWN = 5
_MAX_TABLES_TRIED = 5
"""To find one that has data."""


def catalogs(names: Sequence[str], confs: Mapping[str, str]) -> Iterator[Finding]:
    """Yield a finding for each catalog."""
    known = {**driver_confs(), **confs}
    selected = names or [name for name in configured_catalogs(known) if _is_iceberg(name, known)]
    if not selected:
        yield ok("Catalogs", "none is configured, and none was named")
    for name in selected:
        yield from guarded(f"Catalog {name}", lambda name=name: _catalog(name, known))  # type: ignore[misc]


def _is_iceberg(name: str, confs: Mapping[str, str]) -> bool:
    """Return whether the class of a configured catalog is twostage's or Iceberg's."""
    plugin = confs.get(f"{CONF_PREFIX}{name}", "twostage").lower()
    return "twostage" in plugin or "iceberg" in plugin


def _catalog(name: str, confs: Mapping[str, str]) -> Iterator[Finding]:
    check = f"Catalog {name}"
    try:
        reference = get_catalog(name, confs)
        found = within(TIMEOUT_SECONDS, lambda: list_namespaces(name, (), confs), name)
    except TwoStageError as error:
        yield refused(check, error, _mend(name, error.code))
        return
    kind = reference.properties.get("type", "answers")
    names = [".".join(one) for one in found]
    listed = ", ".join(names[:_MAX_NAMESPACES_SHOWN]) + (", …" if len(names) > _MAX_NAMESPACES_SHOWN else "")
    if not names:
        mend = f"Check {CONF_PREFIX}{name}.uri and .warehouse: wrong ones look like an empty catalog."
        yield warning(check, f"{kind}, without namespaces", mend)
        return
    yield ok(check, f"{kind}, {len(names)} namespace{'s' if len(names) > 1 else ''}: {listed}")
    yield from guarded(f"Files of {name}", lambda: _files(name, found, confs))


def _files(name: str, namespaces: Sequence[tuple[str, ...]], confs: Mapping[str, str]) -> Iterator[Finding]:
    """Yield whether the files of a catalog's tables can be read; nothing if the first tables have none."""
    tables = ((space, table) for space in namespaces for table in list_tables(name, space, confs))
    for space, table in itertools.islice(tables, _MAX_TABLES_TRIED):
        path = ".".join("`" + part.replace("`", "``") + "`" for part in (name, *space, table))
        try:
            pinned = load_table(parse_options({"path": path}), confs)
            if pinned.snapshot is None:
                continue
            manifests = len(read_manifest_list(pinned.storage, pinned.snapshot))
        except StorageError as error:
            mend = f"The catalog answers, its tables' storage does not: check {CONF_PREFIX}{name}.s3.endpoint and such."
            yield refused(f"Files of {name}", error, mend)
            return
        except TwoStageError:  # a view, or a table that is not supported, says nothing about the storage
            continue
        shown = ".".join((*space, table))
        yield ok(
            f"Files of {name}", f"{shown} was opened: {manifests} manifest{'s' if manifests != 1 else ''}"
        )
        return


def _mend(name: str, code: str) -> str:
    if code == "CATALOG_NOT_INSTALLED":
        return "pip install twostage with the extra that the catalog's type needs, such as 'twostage[hive]'."
    return f"Is its service running, and reachable from here? Check {CONF_PREFIX}{name}.uri."
