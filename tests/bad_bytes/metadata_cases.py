"""Damaged metadata files, manifest lists and manifests by name, each in a table of its own.

Takes a folder; `METADATA` gives for each name the maker of the table, the error's code (None: the rows are right),
what the file that it names ends with, and the stage.
"""

from __future__ import annotations

import gzip
import json
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import fastavro
from plain_tables import COLUMNS, ROWS, plain_table

from tables import Table
from thrift_writer import varint

if TYPE_CHECKING:
    from collections.abc import Callable

RIGHT = None
BOMB_BYTES = 2**32


def metadata_bytes(change: Callable[[bytes], bytes]) -> Callable[[Path], Path]:
    """Return a maker whose metadata file's bytes were changed."""

    def make(folder: Path) -> Path:
        path = plain_table(folder).write()
        path.write_bytes(change(path.read_bytes()))
        return path

    return make


def metadata(**changes: Any) -> Callable[[Path], Path]:
    """Return a maker whose metadata has other values: a function of the old one, or ... for left out."""

    def change(data: bytes) -> bytes:
        raw = json.loads(data)
        for name, value in changes.items():
            key = name.replace("_", "-")
            if value is ...:
                del raw[key]
            else:
                raw[key] = value(raw[key]) if callable(value) else value
        return json.dumps(raw).encode()

    return metadata_bytes(change)


def newest(folder: Path, kind: str) -> Path:
    """Return the last ``manifest`` or manifest list (``snap``) that was written."""
    return max(folder.glob(f"metadata/{kind}-*.avro"), key=lambda path: int(path.stem.partition("-")[2]))


def avro_file(kind: str, change: Callable[[Path], None], **options: Any) -> Callable[[Path], Path]:
    """Return a maker that changes the newest Avro file of a kind; `options` are of the table, or its maker."""
    table_of = options.pop("table", plain_table)

    def make(folder: Path) -> Path:
        path: Path = table_of(folder, **options).write()
        change(newest(folder, kind))
        return path

    return make


def rewritten(change: Callable[[dict[str, Any]], None]) -> Callable[[Path], None]:
    """Return a change of an Avro file's first record, written again with the schema it had."""

    def apply(path: Path) -> None:
        with path.open("rb") as file:
            reader = fastavro.reader(file)
            schema, records = reader.writer_schema, list(reader)
            header = {k: v for k, v in reader.metadata.items() if not k.startswith("avro.")}
        change(records[0])
        with path.open("wb") as file:
            fastavro.writer(file, schema, records, codec="deflate", metadata=header)

    return apply


def entry(**changes: Any) -> Callable[[Path], Path]:
    """Return a maker whose only data file's manifest entry says something else."""

    def change(record: dict[str, Any]) -> None:
        for name, value in changes.items():
            place = record if name in record else record["data_file"]
            assert name in place
            place[name] = value

    return avro_file("manifest", rewritten(change))


def listed(**changes: Any) -> Callable[[Path], Path]:
    """Return a maker whose manifest list says something else of the manifest."""
    return avro_file("snap", rewritten(lambda record: record.update(changes)))


def bytes_of(change: Callable[[bytes], bytes]) -> Callable[[Path], None]:
    return lambda path: (path.write_bytes(change(path.read_bytes())), None)[1]


def with_equality_delete(folder: Path) -> Table:
    table = plain_table(folder, COLUMNS | {"tags": ["string"]})
    table.delete_equal(["id"], [{"id": 2}])
    return table


def with_map(folder: Path) -> Table:
    table = plain_table(folder, COLUMNS | {"pairs": ("map", "string", "int")})
    table.delete_equal(["id"], [{"id": 2}])
    return table


def equality_ids(ids: list[int] | None, table: Callable[[Path], Table] = with_equality_delete) -> Any:
    change = rewritten(lambda record: record["data_file"].update(equality_ids=ids))
    return avro_file("manifest", change, table=table)


def partitioned(folder: Path) -> Path:
    """Return a table whose spec has a field that the manifest's partition tuples lack."""
    table = Table(folder, COLUMNS, partition=["id"])
    table.append_all(ROWS)
    path = table.write()
    raw = json.loads(path.read_text())
    raw["partition-specs"][-1]["fields"].append(
        {"name": "text", "transform": "identity", "source-id": 2, "field-id": 1001}
    )
    path.write_text(json.dumps(raw))
    return path


def other_transform(name: str) -> Callable[[Path], Path]:
    """Return a table partitioned by a transform of this name."""

    def make(folder: Path) -> Path:
        table = Table(folder, COLUMNS, partition=["bucket[4](id)"])
        table.append_all(ROWS)
        path = table.write()
        path.write_text(path.read_text().replace("bucket[4]", name))
        return path

    return make


def gzip_bomb(folder: Path) -> Path:
    """Return a table whose metadata unpacks to 4 GiB of spaces before its text, from some 4 MB."""
    path = plain_table(folder).write()
    bomb = path.with_name("v9.gz.metadata.json")
    member = gzip.compress(b" " * 2**26)
    bomb.write_bytes(member * (BOMB_BYTES // 2**26) + gzip.compress(path.read_bytes()))
    return bomb


def avro_bomb(folder: Path) -> Path:
    """Return a table whose manifest has a block that unpacks to 4 GiB."""
    packer = zlib.compressobj(1, zlib.DEFLATED, -15)
    part = packer.compress(bytes(2**26)) + packer.flush(zlib.Z_FULL_FLUSH)  # may be repeated
    block = part * (BOMB_BYTES // 2**26) + packer.flush()

    def change(data: bytes) -> bytes:
        sync = data[-16:]
        header = data[: data.index(sync) + 16]
        return header + _long(1) + _long(len(block)) + block + sync

    return avro_file("manifest", bytes_of(change))(folder)


def _long(value: int) -> bytes:
    return varint(value << 1)


def missing(kind: str) -> Callable[[Path], Path]:
    return avro_file(kind, lambda path: path.unlink())


def field_twice(schemas: list[Any]) -> list[Any]:
    schemas[0]["fields"].append({**schemas[0]["fields"][0], "name": "again"})
    return schemas


def flipped_sync(data: bytes) -> bytes:
    return data[:-1] + bytes([data[-1] ^ 1])


CORRUPT = "CORRUPT_METADATA"
MANIFEST = "CORRUPT_MANIFEST"
JSON, LIST, DELETE = "metadata.json", "snap-7000000000001000003.avro", "equality-2.parquet"
FIRST, LAST = "manifest-1.avro", "manifest-3.avro"

METADATA: dict[str, tuple[Callable[[Path], Path], str | None, str, str]] = {
    "not JSON": (metadata_bytes(lambda _: b"<html>"), CORRUPT, JSON, "catalog"),
    "empty": (metadata_bytes(lambda _: b""), CORRUPT, JSON, "catalog"),
    "truncated": (metadata_bytes(lambda data: data[: len(data) // 2]), CORRUPT, JSON, "catalog"),
    "nested 100,000 deep": (metadata_bytes(lambda _: b"[" * 100_000), CORRUPT, JSON, "catalog"),
    "invalid UTF-8": (
        metadata_bytes(lambda data: data.replace(b"text", b"te\xff")),
        CORRUPT,
        JSON,
        "catalog",
    ),
    "format version 4": (metadata(format_version=4), "UNSUPPORTED_FORMAT_VERSION", JSON, "catalog"),
    "format version x": (metadata(format_version="x"), CORRUPT, JSON, "catalog"),
    "format version missing": (metadata(format_version=...), CORRUPT, JSON, "catalog"),
    "current schema missing": (metadata(current_schema_id=9), CORRUPT, JSON, "catalog"),
    "schemas missing": (metadata(schemas=...), CORRUPT, JSON, "catalog"),
    "schema ids duplicated, alike": (metadata(schemas=lambda old: old * 2), RIGHT, "", ""),
    "schema ids duplicated, different": (
        metadata(schemas=lambda old: [*old, {**old[0], "fields": []}]),
        CORRUPT,
        JSON,
        "catalog",
    ),
    "field ids duplicated": (metadata(schemas=field_twice), CORRUPT, JSON, "catalog"),
    "type unknown": (
        metadata_bytes(lambda data: data.replace(b'"string"', b'"strong"')),
        CORRUPT,
        JSON,
        "catalog",
    ),
    **{
        f"type {bad}": (
            metadata_bytes(lambda data, bad=bad: data.replace(b'"string"', f'"{bad}"'.encode())),
            CORRUPT,
            JSON,
            "catalog",
        )
        for bad in (
            "decimal",
            "decimal(39,2)",
            "decimal(-1,2)",
            "decimal(9,10)",
            "fixed",
            "fixed[-1]",
            "long(5)",
        )
    },
    "current snapshot missing": (metadata(current_snapshot_id=5), CORRUPT, JSON, "catalog"),
    "snapshots missing": (metadata(snapshots=...), CORRUPT, JSON, "catalog"),
    "parent of a snapshot is itself": (
        metadata(snapshots=lambda old: [{**old[0], "parent-snapshot-id": old[0]["snapshot-id"]}]),
        RIGHT,
        "",
        "",
    ),
    "location missing": (metadata(location=...), CORRUPT, JSON, "catalog"),
    "unknown transform": (other_transform("zorder"), RIGHT, "", ""),
    "unknown transform with a number": (other_transform("bucket[x]"), RIGHT, "", ""),
    "gzip cut off": (
        metadata_bytes(lambda data: gzip.compress(data)[:-20]),
        CORRUPT,
        JSON,
        "catalog",
    ),
    "manifest list missing": (missing("snap"), "MISSING_FILE", LIST, "storage"),
    "manifest list is no Avro": (avro_file("snap", bytes_of(lambda _: b"PAR1")), MANIFEST, LIST, "plan"),
    "manifest missing": (missing("manifest"), "MISSING_FILE", FIRST, "storage"),
    "manifest empty": (avro_file("manifest", bytes_of(lambda _: b"")), MANIFEST, FIRST, "plan"),
    "manifest cut off": (
        avro_file("manifest", bytes_of(lambda data: data[:-30])),
        MANIFEST,
        FIRST,
        "plan",
    ),
    "Avro sync marker wrong": (avro_file("manifest", bytes_of(flipped_sync)), MANIFEST, FIRST, "plan"),
    "record count -1, which means not counted": (entry(record_count=-1), RIGHT, "", ""),
    "record count negative": (entry(record_count=-2), MANIFEST, FIRST, "plan"),
    "record count huge": (entry(record_count=2**62), RIGHT, "", ""),
    "file size too small": (entry(file_size_in_bytes=10), RIGHT, "", ""),
    "file size too large": (entry(file_size_in_bytes=2**40), RIGHT, "", ""),
    "file size negative": (entry(file_size_in_bytes=-1), MANIFEST, FIRST, "plan"),
    "file format unknown": (entry(file_format="CSV"), "UNSUPPORTED_FILE_FORMAT", ".parquet", "plan"),
    "file path empty": (entry(file_path=""), MANIFEST, FIRST, "plan"),
    "data file missing": (
        lambda folder: metadata_bytes(
            lambda data: ([path.unlink() for path in folder.glob("data/*")], data)[1]
        )(folder),
        "MISSING_FILE",
        ".parquet",
        "storage",
    ),
    "existing entry with null sequence": (entry(status=0, sequence_number=None), MANIFEST, FIRST, "plan"),
    "entry status unknown": (entry(status=7), MANIFEST, FIRST, "plan"),
    "content unknown": (entry(content=9), MANIFEST, FIRST, "plan"),
    "partition tuple of wrong length": (partitioned, RIGHT, "", ""),
    "manifest of an unknown spec": (listed(partition_spec_id=9), MANIFEST, FIRST, "plan"),
    "manifest length wrong": (listed(manifest_length=1), RIGHT, "", ""),
    "manifest path empty": (listed(manifest_path=""), MANIFEST, LIST, "plan"),
    "delete file without equality ids": (equality_ids(None), MANIFEST, LAST, "plan"),
    "delete file of no equality ids": (equality_ids([]), MANIFEST, LAST, "plan"),
    "equality id unknown": (equality_ids([99]), MANIFEST, DELETE, "plan"),
    "equality id negative": (equality_ids([-1]), MANIFEST, DELETE, "plan"),
    "equality id of a list": (equality_ids([3]), MANIFEST, DELETE, "plan"),
    "equality id of a list's element": (equality_ids([4]), MANIFEST, DELETE, "plan"),
    "equality id of a map": (equality_ids([3], with_map), MANIFEST, DELETE, "plan"),
    "equality id of a map's key": (equality_ids([4], with_map), MANIFEST, DELETE, "plan"),
}
