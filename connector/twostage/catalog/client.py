"""PyIceberg's catalogs: configuration, connections and requests.

Takes a catalog's name, Spark confs and options; returns a `CatalogReference`, and the results of requests to PyIceberg's
catalog, which is opened once per process. Exceptions of PyIceberg and of the libraries below it are translated to ours,
with secrets masked, and no request to a service takes longer than `CALL_SECONDS`.
"""

from __future__ import annotations

import contextlib
import re
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from twostage.catalog.metadata_locator import LOCATOR
from twostage.catalog.properties import HADOOP, conf_catalogs, is_sql, merge_properties
from twostage.errors import (
    MissingFileError,
    NotFoundError,
    OptionError,
    StorageError,
    TwoStageError,
    UnsupportedFeatureError,
    nearest,
)
from twostage.storage.files import hide_secrets

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

_T = TypeVar("_T")
CALL_SECONDS = 120
"""Timeout of a request to a catalog service; PyIceberg itself has none."""
MAX_CATALOGS = 16
"""Open catalogs to keep per process."""
_SQLITE_FILE = re.compile(r"sqlite(?:\+\w+)?:///(?!:memory:|file:)([^?]+)(?:\?.*)?")
_LACKING = re.compile(r"(?i)no such table|does not exist|UndefinedTable")
_SERVICES = ("rest", "glue", "hive", "dynamodb", "bigquery")
_catalogs: dict[Any, Any] = {}
_lock = threading.Lock()


@dataclass(frozen=True, slots=True)
class CatalogReference:
    """A configured catalog: its name and merged properties, which contain secrets, so the repr omits them."""

    name: str
    properties: Mapping[str, str]

    def __repr__(self) -> str:
        return f"CatalogReference({self.name!r})"

    @property
    def is_hadoop(self) -> bool:
        """Whether it is a warehouse folder, in which tables are found by path."""
        return self.properties.get("type") == HADOOP


def configured_catalogs(confs: Mapping[str, str]) -> list[str]:
    """Return the names of all configured catalogs, those of the Spark confs first."""
    names = list(conf_catalogs(confs))
    return names + [name for name in _configuration().get_known_catalogs() if name not in names]


def _configuration() -> Any:
    """Return PyIceberg's configuration, read anew from its files and the environment."""
    with catalog_errors("configuration", {}):
        from pyiceberg.utils.config import Config  # noqa: PLC0415

        return Config()


def default_catalog() -> str:
    """Return the name of PyIceberg's default catalog, configured or not."""
    return str(_configuration().get_default_catalog_name())


def get_catalog(
    name: str, confs: Mapping[str, str], options: Mapping[str, str] | None = None
) -> CatalogReference:
    """Return a catalog's merged properties.

    Raises:
        OptionError: The catalog is not configured.
        UnsupportedFeatureError: Its type is not supported.
    """
    options = options or {}
    with catalog_errors(name, options):
        configuration = _configuration().get_catalog_config(name) or {}
    properties = merge_properties(name, configuration=configuration, confs=confs, options=options)
    if not properties.keys() & {"type", "uri", "py-catalog-impl"}:
        raise OptionError(
            "UNKNOWN_CATALOG",
            f"Catalog is not configured: {name}",
            stage="catalog",
            hint=f"Set spark.sql.catalog.{name}.type and .uri. {nearest(name, configured_catalogs(confs))}",
        )
    return CatalogReference(name, properties)


def call(catalog: CatalogReference, request: Callable[[Any], _T]) -> _T:
    """Send a request to PyIceberg's catalog; if it is a service, with a timeout of `CALL_SECONDS`.

    Raises:
        NotFoundError: The table or namespace does not exist; the code is NOT_IN_CATALOG.
        StorageError: The catalog failed or did not answer.
    """

    def send() -> _T:
        with catalog_errors(catalog.name, catalog.properties):
            return request(_open(catalog))

    kind = catalog.properties.get("type")
    if kind in _SERVICES or (kind is None and not is_sql(catalog.properties)):
        return within(CALL_SECONDS, send, catalog.name)
    return send()  # an in-memory SQLite database belongs to its thread


def _open(catalog: CatalogReference) -> Any:
    """Return PyIceberg's catalog for these properties, one per process.

    A Hive catalog is opened for each request: it has a single connection, and threads that share it close it while
    another one uses it, or receive each other's answers.
    """
    key = (catalog.name, frozenset((key, str(value)) for key, value in catalog.properties.items()))
    with _lock:
        if key in _catalogs:
            return _catalogs[key]
    _check_database(catalog)
    from pyiceberg.catalog import load_catalog  # noqa: PLC0415

    opened = load_catalog(catalog.name, **{**catalog.properties, "py-io-impl": LOCATOR})
    if "HiveCatalog" in {kind.__name__ for kind in type(opened).__mro__}:
        return opened
    with _lock:
        while len(_catalogs) >= MAX_CATALOGS:
            _catalogs.pop(next(iter(_catalogs)))
        return _catalogs.setdefault(key, opened)


def _check_database(catalog: CatalogReference) -> None:
    """Raise if a SQL catalog's SQLite file does not exist: SQLite would create an empty one.

    Raises:
        OptionError: It does not exist.
    """
    named = _SQLITE_FILE.fullmatch(catalog.properties.get("uri", "")) if is_sql(catalog.properties) else None
    if named is not None and not Path(named[1]).exists():
        raise OptionError(
            "BAD_CATALOG",
            f"Catalog {catalog.name} has no database: there is no file {named[1]}",
            stage="catalog",
            hint=f"Check spark.sql.catalog.{catalog.name}.uri: an absolute path has four slashes, sqlite:////path.",
        )


def within(seconds: float, call: Callable[[], _T], catalog: str) -> _T:
    """Run a call in its own daemon thread, which is abandoned after a timeout.

    Raises:
        StorageError: The call took longer than `seconds`; the code is CATALOG_TIMEOUT.
    """
    results: list[_T] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            results.append(call())
        except BaseException as error:  # noqa: BLE001 (raised again below, in the caller's thread)
            errors.append(error)

    thread = threading.Thread(target=run, name="twostage-catalog", daemon=True)
    thread.start()
    thread.join(seconds)
    if errors:
        raise errors[0]
    if not results:
        raise StorageError(
            "CATALOG_TIMEOUT",
            f"Catalog {catalog} did not answer within {seconds} s",
            transient=True,
            stage="catalog",
        )
    return results[0]


@contextlib.contextmanager
def catalog_errors(catalog: str, properties: Mapping[str, str]) -> Iterator[None]:
    """Translate exceptions of PyIceberg and the libraries below it to ours, by class name."""
    try:
        yield
    except TwoStageError:
        raise
    except Exception as error:  # noqa: BLE001 (thrift, botocore, SQLAlchemy, requests: no common base)
        raise _translate(error, catalog, hide_secrets(error, properties)) from None


_NOT_THERE = frozenset(
    {"NoSuchTableError", "NoSuchNamespaceError", "NoSuchIdentifierError", "NoSuchViewError"}
)
_NOT_INSTALLED = frozenset({"NotInstalledError", "ImportError"})
_DENIED = frozenset(
    {"UnauthorizedError", "ForbiddenError", "OAuthError", "AuthorizationExpiredError", "SignError"}
)
_TRANSIENT = frozenset(
    {
        "ServerError",
        "ServiceUnavailableError",
        "TooManyRequestsError",
        "ConnectionError",
        "Timeout",
        "TTransportException",
        "EndpointConnectionError",
    }
)
_UNREADABLE = frozenset({"ValidationError", "ResolveError", "TypeError", "KeyError"})
_MISCONFIGURED = frozenset({"ValueError", "NoSuchPropertyException"})


def _translate(error: Exception, catalog: str, text: str) -> TwoStageError:
    names = {kind.__name__ for kind in type(error).__mro__}
    if names & _NOT_THERE:
        return NotFoundError("NOT_IN_CATALOG", f"Catalog {catalog}: {text}", stage="catalog")
    if names & _NOT_INSTALLED:
        return OptionError(
            "CATALOG_NOT_INSTALLED",
            f"Catalog {catalog} needs a package that is not installed: {text}",
            stage="catalog",
        )
    if names & _DENIED:
        return StorageError(
            "CATALOG_DENIED",
            f"Catalog {catalog} refused access: {text}",
            stage="catalog",
            hint="Check the catalog's token, credential and scope.",
        )
    if isinstance(error, FileNotFoundError):
        return MissingFileError(
            "MISSING_FILE",
            f"Metadata file that catalog {catalog} names is not there: {text}",
            stage="catalog",
        )
    if names & _UNREADABLE:
        return UnsupportedFeatureError(
            "UNREADABLE_METADATA",
            f"PyIceberg can't read what catalog {catalog} answered: {text}",
            stage="catalog",
            hint="Load the table by its path.",
        )
    if names & _MISCONFIGURED:
        return OptionError(
            "BAD_CATALOG",
            f"Catalog {catalog} is misconfigured: {text}",
            stage="catalog",
            hint=f"Its properties are spark.sql.catalog.{catalog}.*, options catalog.*, or PyIceberg's configuration.",
        )
    is_empty = "SQLAlchemyError" in names and "iceberg_" in text and _LACKING.search(text)
    return StorageError(
        "CATALOG_FAILED",
        f"Catalog {catalog} failed: {text}",
        transient=bool(names & _TRANSIENT),
        stage="catalog",
        hint=f"No Iceberg catalog is in that database: check spark.sql.catalog.{catalog}.uri."
        if is_empty
        else None,
    )
