"""A catalog's properties, merged from all places that configure it.

Takes Spark confs (``spark.sql.catalog.<name>.*``, ``spark.hadoop.fs.s3a.*``), PyIceberg's configuration and the
``catalog.*`` options; returns one mapping under PyIceberg's names. Options override Spark confs, and those override
PyIceberg's configuration. A catalog class without a counterpart in PyIceberg is refused by name. Only properties that
open files are sent to executors.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, quote, urlsplit

from twostage.errors import OptionError, UnsupportedFeatureError

if TYPE_CHECKING:
    from collections.abc import Mapping

CONF_PREFIX = "spark.sql.catalog."
HADOOP = "hadoop"
_FILE_PROPERTIES = ("s3.", "client.", "gcs.", "adls.", "hdfs.")
_CODE_PROPERTIES = frozenset({"s3.retry-strategy-impl", "py-io-impl", "py-catalog-impl"})
"""Properties that name Python code to import: accepted from the user only, never from a table or a server."""

_TYPES = {
    "hadoop": HADOOP,
    "rest": "rest",
    "hive": "hive",
    "glue": "glue",
    "jdbc": "sql",
    "sql": "sql",
    "dynamodb": "dynamodb",
    "in-memory": "in-memory",
    "bigquery": "bigquery",
}
_IMPLEMENTATIONS = {
    "HadoopCatalog": HADOOP,
    "RESTCatalog": "rest",
    "HiveCatalog": "hive",
    "GlueCatalog": "glue",
    "JdbcCatalog": "sql",
    "DynamoDbCatalog": "dynamodb",
    "BigQueryMetastoreCatalog": "bigquery",
}
_DROPPED = re.compile(
    r"io-impl|io\..*|cache[.-].*|default-namespace|table-(?:default|override)\..*|metrics-reporter-impl|clients"
    r"|client\.credentials-provider.*|client\.factory|lock[.-].*|jdbc\..*|use-nullable-query-schema"
)
_RENAMED = {
    "adls.auth.shared-key.account.name": "adls.account-name",
    "adls.auth.shared-key.account.key": "adls.account-key",
    "s3.cross-region-access-enabled": "s3.resolve-region",
}
_CONNECTION_PARTS = {
    "AccountName": "adls.account-name",
    "AccountKey": "adls.account-key",
    "SharedAccessSignature": "adls.sas-token",
    "DefaultEndpointsProtocol": "adls.blob-storage-scheme",
}
_HADOOP_CONFS = {
    "access.key": "s3.access-key-id",
    "secret.key": "s3.secret-access-key",
    "session.token": "s3.session-token",
    "endpoint": "s3.endpoint",
    "endpoint.region": "s3.region",
    "path.style.access": "s3.path-style-access",
}


def conf_catalogs(confs: Mapping[str, str]) -> tuple[str, ...]:
    """Return the names of the catalogs that the Spark confs configure.

    >>> conf_catalogs({"spark.sql.catalog.lake": "twostage", "spark.sql.catalog.lake.uri": "http://x"})
    ('lake',)
    """
    names = {key[len(CONF_PREFIX) :].partition(".")[0] for key in confs if key.startswith(CONF_PREFIX)}
    return tuple(sorted(names - {""}))


def hadoop_properties(confs: Mapping[str, str]) -> dict[str, str]:
    """Return Hadoop's S3A settings among the Spark confs as PyIceberg's properties."""
    found = {}
    for name, target in _HADOOP_CONFS.items():
        if value := confs.get(f"spark.hadoop.fs.s3a.{name}"):
            found[target] = value
    endpoint = found.get("s3.endpoint")
    if endpoint and "://" not in endpoint:
        secure = confs.get("spark.hadoop.fs.s3a.connection.ssl.enabled", "true").lower() != "false"
        found["s3.endpoint"] = f"{'https' if secure else 'http'}://{endpoint}"
    return _translate(found)


def merge_properties(
    catalog: str,
    *,
    configuration: Mapping[str, str],
    confs: Mapping[str, str],
    options: Mapping[str, str],
) -> dict[str, str]:
    """Return a catalog's properties under PyIceberg's names.

    Args:
        catalog: The catalog's name.
        configuration: Its properties in PyIceberg's configuration.
        confs: The Spark confs; they override `configuration`.
        options: The ``catalog.*`` options; they override `confs`.

    Raises:
        OptionError: A hadoop catalog has no warehouse.
        UnsupportedFeatureError: PyIceberg has no counterpart of its ``catalog-impl`` or ``type``.
    """
    prefix = f"{CONF_PREFIX}{catalog}."
    given = {key[len(prefix) :]: value for key, value in confs.items() if key.startswith(prefix)}
    layers = [dict(configuration), hadoop_properties(confs), _translate(given), _translate(options)]
    merged: dict[str, str] = {}
    for layer in layers:
        if layer.keys() & {"type", "py-catalog-impl"}:  # either one replaces both of the lower layers
            merged.pop("type", None)
            merged.pop("py-catalog-impl", None)
        merged |= {key: str(value) for key, value in layer.items()}
    if merged.get("uri", "").startswith("jdbc:"):
        merged["uri"] = _sqlalchemy_uri(merged["uri"], {**given, **options})
        merged.setdefault("type", "sql")
    if is_sql(merged) and merged.get("type") != "in-memory":
        merged["init_catalog_tables"] = "false"  # a wrong URI must not create a new catalog
        merged.pop("schema_version", None)  # PyIceberg would alter the catalog's tables
    if merged.get("type") == HADOOP and not merged.get("warehouse"):
        raise OptionError(
            "BAD_CATALOG",
            f"Catalog of type hadoop has no warehouse: {catalog}",
            stage="catalog",
            hint=f"Set {prefix}warehouse to the folder of its namespaces.",
        )
    return merged


def file_properties(
    properties: Mapping[str, str], trusted: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Return the properties that open files; those that name code only from `trusted`, the user's own properties.

    >>> file_properties({"s3.endpoint": "http://x", "token": "t", "s3.retry-strategy-impl": "os.system"})
    {'s3.endpoint': 'http://x'}
    """
    own = {key: value for key, value in (trusted or {}).items() if key in _CODE_PROPERTIES}
    kept = {
        key: str(own.get(key, value))
        for key, value in properties.items()
        if key.startswith(_FILE_PROPERTIES) and (key not in _CODE_PROPERTIES or key in own)
    }
    return _translate(kept)


def is_sql(properties: Mapping[str, str]) -> bool:
    """Return whether these are the properties of a SQL catalog, by type or, without one, by URI."""
    if "type" in properties:
        return properties["type"] in ("sql", "in-memory")
    return properties.get("uri", "").startswith(("sqlite", "postgresql"))


def _translate(given: Mapping[str, str]) -> dict[str, str]:
    """Rename the properties of Iceberg's Java catalogs to PyIceberg's, and drop those that only Java uses."""
    found: dict[str, str] = {}
    for key, value in given.items():
        if key == "type":
            found["type"] = _known(str(value), str(value).lower(), _TYPES)
        elif key == "catalog-impl":
            found["type"] = _known(str(value), str(value).rpartition(".")[2], _IMPLEMENTATIONS)
        elif key == "s3.path-style-access":
            found.setdefault("s3.force-virtual-addressing", str(str(value).lower() != "true").lower())
        elif key == "rest.auth.type" and str(value).lower() == "sigv4":
            found["rest.sigv4-enabled"] = "true"
        elif key.startswith("adls.sas-token."):
            found["adls.sas-token"] = value
        elif key == "adls.connection-string":
            for name, part in _connection_string(str(value)).items():
                found.setdefault(name, part)
        elif key == "adls.account-host":
            account, _, rest = str(value).partition(".")
            found.setdefault("adls.account-name", account)
            found.setdefault("adls.blob-storage-authority", f".{rest}")
        elif not _DROPPED.fullmatch(key):
            found[_RENAMED.get(key, key)] = value
    return found


def _connection_string(text: str) -> dict[str, str]:
    """Return the properties that an Azure connection string stands for; what names no blob storage is left out.

    >>> _connection_string("DefaultEndpointsProtocol=https;AccountName=a;AccountKey=k==;EndpointSuffix=core.windows.net")
    {'adls.account-name': 'a', 'adls.account-key': 'k==', 'adls.blob-storage-scheme': 'https', 'adls.blob-storage-authority': '.blob.core.windows.net'}
    """
    parts = dict(part.strip().split("=", 1) for part in text.split(";") if "=" in part)
    found = {name: parts[key] for key, name in _CONNECTION_PARTS.items() if key in parts}
    if suffix := parts.get("EndpointSuffix"):
        found["adls.blob-storage-authority"] = f".blob.{suffix}"
    if endpoint := parts.get("BlobEndpoint"):
        try:
            address = urlsplit(endpoint)
        except ValueError:
            raise OptionError(
                "BAD_CATALOG", "adls.connection-string has no valid BlobEndpoint", stage="catalog"
            ) from None
        account = found.get("adls.account-name", "")
        own = f"{account}."
        found["adls.blob-storage-scheme"] = address.scheme
        found["adls.blob-storage-authority"] = (
            f".{address.netloc.removeprefix(own)}" if address.netloc.startswith(own) else address.netloc
        )
    return found


def _known(value: str, name: str, choices: Mapping[str, str]) -> str:
    if name not in choices:
        raise UnsupportedFeatureError(
            "UNSUPPORTED_CATALOG",
            f"Catalog type is not supported: {value}",
            stage="catalog",
            hint=f"Supported: {', '.join(sorted(choices))}; a catalog with an Iceberg REST interface is of type rest.",
        )
    return choices[name]


def _sqlalchemy_uri(uri: str, properties: Mapping[str, str]) -> str:
    """Return the SQLAlchemy form of a JDBC URL.

    >>> _sqlalchemy_uri("jdbc:sqlite:/tmp/c.db", {})
    'sqlite:////tmp/c.db'
    >>> _sqlalchemy_uri("jdbc:postgresql://db:5432/c", {"jdbc.user": "me", "jdbc.password": "p@ss"})
    'postgresql+psycopg2://me:p%40ss@db:5432/c'
    """
    if match := re.fullmatch(r"jdbc:sqlite:(?:file:)?([^?]*)(?:\?.*)?", uri):
        return f"sqlite:///{match[1]}"
    if match := re.fullmatch(r"jdbc:postgresql:(?://([^/?]*)/)?([^?]*)(?:\?(.*))?", uri):
        query = dict(parse_qsl(match[3] or ""))
        user = properties.get("jdbc.user", query.pop("user", ""))
        password = properties.get("jdbc.password", query.pop("password", ""))
        login = quote(user, safe="") + (f":{quote(password, safe='')}" if password else "")
        mode = f"?sslmode={query['sslmode']}" if "sslmode" in query else ""
        return (
            f"postgresql+psycopg2://{login}{'@' if login else ''}{match[1] or 'localhost'}/{match[2]}{mode}"
        )
    raise UnsupportedFeatureError(
        "UNSUPPORTED_CATALOG",
        f"JDBC URL is not supported: {uri.partition('?')[0]}",
        stage="catalog",
        hint="Supported: jdbc:sqlite: and jdbc:postgresql:; for others set catalog.uri to a SQLAlchemy URL.",
    )
