"""Check catalogs: list each one's namespaces, with a timeout.

Takes names and Spark confs; yields a finding per catalog. Without names, all catalogs in the confs, Spark's properties
file and PyIceberg's configuration are checked. Values of properties are never shown.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from twostage.catalog.browse import list_namespaces
from twostage.catalog.client import configured_catalogs, get_catalog, within
from twostage.catalog.properties import CONF_PREFIX
from twostage.doctor.finding import guarded, ok, refused, warning
from twostage.errors import TwoStageError
from twostage.spark.driver_confs import driver_confs

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from twostage.doctor.finding import Finding

TIMEOUT_SECONDS = 20
_MAX_NAMESPACES_SHOWN = 5


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


def _mend(name: str, code: str) -> str:
    if code == "CATALOG_NOT_INSTALLED":
        return "pip install twostage with the extra that the catalog's type needs, such as 'twostage[hive]'."
    return f"Is its service running, and reachable from here? Check {CONF_PREFIX}{name}.uri."
