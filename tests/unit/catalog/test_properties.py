"""Spark confs, PyIceberg's configuration and options become one mapping under PyIceberg's names."""

from __future__ import annotations

import pytest

from twostage.catalog.properties import (
    conf_catalogs,
    file_properties,
    hadoop_properties,
    is_sql,
    merge_properties,
)
from twostage.errors import OptionError, UnsupportedFeatureError

CATALOG = "spark.sql.catalog.lake"


def merge(confs: dict[str, str], **layers: dict[str, str]) -> dict[str, str]:
    named = {f"{CATALOG}.{key}": value for key, value in confs.items()}
    return merge_properties(
        "lake",
        configuration=layers.get("configuration", {}),
        confs={CATALOG: "org.apache.iceberg.spark.SparkCatalog", **named, **layers.get("more", {})},
        options=layers.get("options", {}),
    )


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"type": "rest", "uri": "http://x"}, {"type": "rest", "uri": "http://x"}),
        ({"type": "REST", "uri": "http://x"}, {"type": "rest", "uri": "http://x"}),
        ({"type": "hive", "uri": "thrift://h:9083"}, {"type": "hive", "uri": "thrift://h:9083"}),
        ({"catalog-impl": "org.apache.iceberg.rest.RESTCatalog"}, {"type": "rest"}),
        ({"catalog-impl": "org.apache.iceberg.aws.glue.GlueCatalog"}, {"type": "glue"}),
        ({"catalog-impl": "org.apache.iceberg.hive.HiveCatalog"}, {"type": "hive"}),
        (
            {"catalog-impl": "org.apache.iceberg.hadoop.HadoopCatalog", "warehouse": "/w"},
            {"type": "hadoop", "warehouse": "/w"},
        ),
        (
            {"type": "rest", "io-impl": "org.apache.iceberg.aws.s3.S3FileIO", "cache-enabled": "false"},
            {"type": "rest"},
        ),
        (
            {"type": "rest", "s3.path-style-access": "true", "s3.access-key-id": "k", "client.region": "r"},
            {
                "type": "rest",
                "s3.force-virtual-addressing": "false",
                "s3.access-key-id": "k",
                "client.region": "r",
            },
        ),
        (
            {"type": "rest", "s3.path-style-access": "false"},
            {"type": "rest", "s3.force-virtual-addressing": "true"},
        ),
        (
            {
                "type": "rest",
                "token": "t",
                "credential": "a:b",
                "oauth2-server-uri": "http://o",
                "header.X-A": "1",
            },
            {
                "type": "rest",
                "token": "t",
                "credential": "a:b",
                "oauth2-server-uri": "http://o",
                "header.X-A": "1",
            },
        ),
        ({"type": "rest", "adls.sas-token.account": "s"}, {"type": "rest", "adls.sas-token": "s"}),
        ({"type": "rest", "rest.auth.type": "sigv4"}, {"type": "rest", "rest.sigv4-enabled": "true"}),
    ],
)
def test_spark_confs(given: dict[str, str], expected: dict[str, str]) -> None:
    assert merge(given) == expected


@pytest.mark.parametrize(
    ("uri", "login", "expected"),
    [
        ("jdbc:sqlite:/tmp/c.db", {}, "sqlite:////tmp/c.db"),
        ("jdbc:sqlite:file:/tmp/c.db?mode=ro", {}, "sqlite:////tmp/c.db"),
        ("jdbc:sqlite:c.db", {}, "sqlite:///c.db"),
        ("jdbc:postgresql://h:5432/db", {}, "postgresql+psycopg2://h:5432/db"),
        (
            "jdbc:postgresql://h/db?user=u&password=p&ssl=true&sslmode=require",
            {},
            "postgresql+psycopg2://u:p@h/db?sslmode=require",
        ),
        (
            "jdbc:postgresql://h/db",
            {"jdbc.user": "u@x", "jdbc.password": "p/w:1"},
            "postgresql+psycopg2://u%40x:p%2Fw%3A1@h/db",
        ),
    ],
)
def test_jdbc(uri: str, login: dict[str, str], expected: str) -> None:
    merged = merge({"catalog-impl": "org.apache.iceberg.jdbc.JdbcCatalog", "uri": uri, **login})
    assert merged == {"type": "sql", "uri": expected, "init_catalog_tables": "false"}
    assert is_sql(merged)


@pytest.mark.parametrize(
    "given",
    [
        {"type": "nessie"},
        {"catalog-impl": "org.apache.iceberg.nessie.NessieCatalog"},
        {"type": "jdbc", "uri": "jdbc:mysql://h/db?password=canary-4711"},
        {"catalog-impl": "com.example.Mine"},
    ],
)
def test_catalogs_without_a_twin_are_refused_by_name(given: dict[str, str]) -> None:
    with pytest.raises(UnsupportedFeatureError) as caught:
        merge(given)
    assert caught.value.code == "UNSUPPORTED_CATALOG"
    assert "canary" not in str(caught.value)


def test_hadoop_needs_a_warehouse() -> None:
    with pytest.raises(OptionError, match="spark.sql.catalog.lake.warehouse"):
        merge({"type": "hadoop"})


def test_options_win_over_confs_and_those_over_configuration() -> None:
    merged = merge(
        {"uri": "http://conf", "warehouse": "conf"},
        configuration={"type": "rest", "uri": "http://file", "warehouse": "file", "token": "file"},
        options={"uri": "http://option"},
    )
    assert merged == {"type": "rest", "uri": "http://option", "warehouse": "conf", "token": "file"}


def test_a_layer_that_says_its_type_replaces_a_class_below() -> None:
    merged = merge({"type": "rest", "uri": "http://x"}, configuration={"py-catalog-impl": "a.B"})
    assert merged == {"type": "rest", "uri": "http://x"}


def test_hadoop_settings_for_s3() -> None:
    confs = {
        "spark.hadoop.fs.s3a.access.key": "k",
        "spark.hadoop.fs.s3a.secret.key": "s",
        "spark.hadoop.fs.s3a.endpoint": "127.0.0.1:9000",
        "spark.hadoop.fs.s3a.connection.ssl.enabled": "false",
        "spark.hadoop.fs.s3a.path.style.access": "true",
    }
    expected = {
        "s3.access-key-id": "k",
        "s3.secret-access-key": "s",
        "s3.endpoint": "http://127.0.0.1:9000",
        "s3.force-virtual-addressing": "false",
    }
    assert hadoop_properties(confs) == expected
    assert merge({"type": "rest", "s3.access-key-id": "own"}, more=confs)["s3.access-key-id"] == "own"


def test_only_file_properties_travel() -> None:
    given = {
        "uri": "postgresql://u:secret@h/db",
        "token": "secret",
        "credential": "secret",
        "s3.access-key-id": "k",
        "gcs.oauth2.token": "g",
        "adls.account-key": "a",
        "client.region": "r",
        "py-io-impl": "evil.Module",
        "s3.retry-strategy-impl": "evil.Module",
    }
    kept = {"s3.access-key-id": "k", "gcs.oauth2.token": "g", "adls.account-key": "a", "client.region": "r"}
    assert file_properties(given) == kept
    # Code is the user's alone: that a table or a server names some, too, changes nothing.
    own = {"s3.retry-strategy-impl": "own.Module", "s3.access-key-id": "other"}
    assert file_properties(given, trusted=own) == {**kept, "s3.retry-strategy-impl": "own.Module"}
    assert file_properties({"s3.region": "x"}, trusted=own) == {"s3.region": "x"}


def test_names_of_configured_catalogs() -> None:
    confs = {
        "spark.sql.catalog.b": "x",
        "spark.sql.catalog.a.uri": "y",
        "spark.sql.catalog.b.uri": "z",
        "spark.sql.catalogImplementation": "hive",
        "spark.sql.defaultCatalog": "a",
    }
    assert conf_catalogs(confs) == ("a", "b")


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (
            {
                "adls.connection-string": "DefaultEndpointsProtocol=http;AccountName=dev;AccountKey=k==;BlobEndpoint=http://127.0.0.1:10000/dev"
            },
            {
                "adls.account-name": "dev",
                "adls.account-key": "k==",
                "adls.blob-storage-scheme": "http",
                "adls.blob-storage-authority": "127.0.0.1:10000",
            },
        ),
        (
            {
                "adls.connection-string": "BlobEndpoint=https://a.blob.core.x/;AccountName=a;SharedAccessSignature=sig=y"
            },
            {
                "adls.account-name": "a",
                "adls.sas-token": "sig=y",
                "adls.blob-storage-scheme": "https",
                "adls.blob-storage-authority": ".blob.core.x",
            },
        ),
        (
            {"adls.account-host": "a.blob.core.x"},
            {"adls.account-name": "a", "adls.blob-storage-authority": ".blob.core.x"},
        ),
        ({"adls.account-name": "b", "adls.connection-string": "AccountName=a"}, {"adls.account-name": "b"}),
    ],
)
def test_azure_by_a_connection_string_or_a_host(given: dict[str, str], expected: dict[str, str]) -> None:
    assert file_properties(given) == expected


def test_a_connection_string_that_names_no_host() -> None:
    with pytest.raises(OptionError, match="BlobEndpoint"):
        file_properties({"adls.connection-string": "AccountKey=canary;BlobEndpoint=http://["})
