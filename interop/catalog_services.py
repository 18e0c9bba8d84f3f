"""Real catalog services on this machine: Iceberg's own REST catalog and the Hive metastore.

Takes a folder for their data; yields the URI of a running service, which ends with the block. Each is a
separate JVM whose main class, in `services`, is compiled by Janino when it starts: a JRE is enough.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import threading
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyspark

import resolver
from resolver import SOURCES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

JARS = Path(pyspark.__file__).parent / "jars"
START_SECONDS = 240
"""A metastore creates its tables first: 4 s on an idle machine."""


@contextlib.contextmanager
def serve_rest(folder: Path) -> Iterator[str]:
    """Serve a REST catalog until the block ends; yield its URI."""
    own = [
        jar
        for name in ("hadoop-client-*", "janino-*", "commons-compiler-*")
        for jar in JARS.glob(f"{name}.jar")
    ]
    with _serve("RestCatalog", [*resolver.rest_catalog_jars(), *own], folder) as port:
        yield f"http://127.0.0.1:{port}"


@contextlib.contextmanager
def serve_hive(folder: Path) -> Iterator[str]:
    """Serve a Hive metastore until the block ends; yield its URI."""
    with _serve("HiveMetastore", [JARS / "*"], folder) as port:
        yield f"thrift://127.0.0.1:{port}"


@contextlib.contextmanager
def _serve(main: str, jars: Iterable[Path], folder: Path) -> Iterator[int]:
    folder.mkdir(parents=True, exist_ok=True)
    options = ["-Xmx512m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", f"-Dderby.system.home={folder}"]
    compiler = ["org.codehaus.janino.SimpleCompiler", SOURCES / f"{main}.java", main, folder]
    service = subprocess.Popen(
        ["java", *options, "-cp", os.pathsep.join(map(str, jars)), *compiler],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=folder,
        env={**os.environ, "JDK_JAVA_OPTIONS": ""},
    )
    said: list[str] = []
    ready = threading.Event()

    def listen() -> None:
        for line in service.stdout or ():
            said.append(line)
            if line.startswith("listening on "):
                ready.set()
        ready.set()

    thread = threading.Thread(target=listen, daemon=True)
    thread.start()
    try:
        ready.wait(START_SECONDS)
        port = re.search(r"^listening on (\d+)$", "".join(said), re.MULTILINE)
        assert port is not None, f"{main} did not start: {''.join(said)[-3000:]}"
        yield int(port[1])
    finally:
        service.kill()
        service.wait()
        thread.join()
        if service.stdout is not None:
            service.stdout.close()


def ask(uri: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
    """Send a REST catalog a request and return its answer."""
    request = urllib.request.Request(
        f"{uri}/v1/{path}",
        None if body is None else json.dumps(body).encode(),
        {"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=60) as response:
        return json.loads(response.read() or b"null")


def register_over_rest(uri: str, name: str, metadata: Path) -> None:
    """Register a table as ``db.<name>``."""
    ask(uri, "namespaces/db/register", {"name": name, "metadata-location": f"file:{metadata}"})


def register_in_hive(uri: str, name: str, metadata: Path) -> None:
    """Register a table as ``db.<name>``: its row in the metastore, as every engine writes it."""
    from hive_metastore.ttypes import FieldSchema, SerDeInfo, StorageDescriptor, Table

    formats = {"inputFormat": "org.apache.iceberg.mr.hive.HiveIcebergInputFormat", "outputFormat": ""}
    table = Table(
        dbName="db",
        tableName=name,
        owner="twostage",
        tableType="EXTERNAL_TABLE",
        parameters={"EXTERNAL": "TRUE", "table_type": "ICEBERG", "metadata_location": f"file:{metadata}"},
        partitionKeys=[],
        sd=StorageDescriptor(
            cols=[FieldSchema("id", "bigint", None)],
            location=f"file:{metadata.parent.parent}",
            serdeInfo=SerDeInfo(serializationLib="org.apache.iceberg.mr.hive.HiveIcebergSerDe"),
            **formats,
        ),
    )
    with hive_client(uri) as client:
        client.create_table(table)


@contextlib.contextmanager
def hive_client(uri: str) -> Iterator[Any]:
    """Yield a client of the metastore."""
    from pyiceberg.catalog.hive import HiveCatalog

    catalog = HiveCatalog("hive", uri=uri)
    with catalog._client as client:
        yield client
