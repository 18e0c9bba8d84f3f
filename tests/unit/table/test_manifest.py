"""Reading manifests and manifest lists: codecs, limits, encryption, lists of old writers, order, missing files."""

from __future__ import annotations

import io
import itertools
import json
import os
import struct
import zlib
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import fastavro
import pyarrow as pa
import pytest

from avro_manifests import (
    LIST_SCHEMA,
    entry,
    entry_schema,
    listed,
    manifest,
    without_fields,
    write,
)
from twostage.errors import (
    CorruptFileError,
    MissingFileError,
    ResourceLimitError,
    UnsupportedFeatureError,
)
from twostage.table.manifest import read_manifest_list, read_manifests
from twostage.table.manifest_entry import ManifestFile
from twostage.table.manifest_records import parse_manifest
from twostage.table.metadata import PartitionSpec, Snapshot, parse_metadata_bytes
from twostage.task import Storage

TABLES = os.environ.get("TWOSTAGE_TABLES")
PLAIN = {0: PartitionSpec(spec_id=0)}
LISTED = ManifestFile(path="/t/m.avro", spec_id=0, sequence_number=7, snapshot_id=70)


@pytest.mark.parametrize("codec", ["null", "deflate", "bzip2", "xz"])
def test_codecs(codec):
    data = manifest([entry(f"/t/{n}" + "x" * 100) for n in range(500)], codec=codec)
    assert len(parse_manifest(data, LISTED, PLAIN)) == 500


def repacked(data: bytes, codec: str, pack: Callable[[bytes], bytes]) -> bytes:
    """Return an unpacked container of one block in a codec that fastavro has no library for here."""
    sync = data[-16:]
    start = data.index(sync) + 16
    stream = io.BytesIO(data[start:-16])
    count, _ = (fastavro.schemaless_reader(stream, "long", None) for _ in range(2))
    packed = pack(stream.read())
    head = io.BytesIO()
    for number in (count, len(packed)):
        fastavro.schemaless_writer(head, "long", number)
    named = b"\x14avro.codec" + bytes([2 * len(codec)]) + codec.encode()
    return data[:start].replace(b"\x14avro.codec\x08null", named) + head.getvalue() + packed + sync


def test_codecs_that_pyarrow_unpacks():
    data = manifest([entry(f"/t/{n}" + "x" * 100) for n in range(50)], codec="null")

    def snappy(block: bytes) -> bytes:
        return pa.compress(block, "snappy", asbytes=True) + zlib.crc32(block).to_bytes(4, "big")

    for codec, pack in (
        ("zstandard", lambda block: pa.compress(block, "zstd", asbytes=True)),
        ("snappy", snappy),
    ):
        packed = repacked(data, codec, pack)
        assert codec.encode() in packed
        assert len(packed) < len(data)
        assert parse_manifest(packed, LISTED, PLAIN) == parse_manifest(data, LISTED, PLAIN)
    flipped = packed[:-17] + bytes([packed[-17] ^ 1]) + packed[-16:]
    with pytest.raises(CorruptFileError, match="checksum"):
        parse_manifest(flipped, LISTED, PLAIN)
    with pytest.raises(CorruptFileError, match="unknown codec"):
        parse_manifest(repacked(data, "lz4", lambda block: block), LISTED, PLAIN)


def test_a_bomb_is_refused(monkeypatch):
    monkeypatch.setattr("twostage.formats.avro.container.MAX_UNPACKED_BYTES", 100_000)
    for codec in ("deflate", "bzip2", "xz"):
        data = manifest([entry("/t/" + "x" * 5_000_000)], codec=codec)
        assert len(data) < 20_000
        with pytest.raises(ResourceLimitError, match="AVRO_TOO_LARGE"):
            parse_manifest(data, LISTED, PLAIN)


def test_an_encrypted_manifest_is_refused_by_name():
    with pytest.raises(UnsupportedFeatureError, match="UNSUPPORTED_ENCRYPTION"):
        parse_manifest(b"AGS1" + b"\0" * 40, LISTED, PLAIN)


def test_arrays_of_nothing_are_refused():
    """Two bytes of count could announce 2**60 items that take no byte each."""
    schema = entry_schema([])
    schema["fields"].append({"name": "bomb", "type": {"type": "array", "items": "null"}})
    data = write(schema, [{**entry(), "bomb": [None] * 3}])
    with pytest.raises(CorruptFileError, match="no bytes"):
        parse_manifest(data, LISTED, PLAIN)


def snapshot_in(folder: Path, records: list[dict], schema: dict = LIST_SCHEMA) -> tuple[Storage, Snapshot]:
    path = folder / "list.avro"
    path.write_bytes(write(schema, records))
    return Storage(root=str(folder)), Snapshot(snapshot_id=1, manifest_list=str(path))


def test_manifest_list(tmp_path):
    summary = {"contains_null": False, "contains_nan": True, "lower_bound": b"\1", "upper_bound": None}
    storage, snapshot = snapshot_in(
        tmp_path,
        [
            listed(
                "/t/a", partitions=[summary], sequence_number=9, added_files_count=2, existing_files_count=3
            ),
            listed("/t/b", content=1, first_row_id=4, partition_spec_id=2),
        ],
    )
    first, second = read_manifest_list(storage, snapshot)
    assert (first.path, first.sequence_number, first.num_live_files, first.is_deletes) == (
        "/t/a",
        9,
        5,
        False,
    )
    (found,) = first.partitions
    assert (found.contains_null, found.contains_nan, found.lower, found.upper) == (False, True, b"\1", None)
    assert (second.is_deletes, second.first_row_id, second.spec_id) == (True, 4, 2)


def test_manifest_list_of_old_writers(tmp_path):
    absent = (
        "content", "sequence_number", "min_sequence_number", "contains_nan", "first_row_id", "added_rows_count",
        "added_files_count", "existing_rows_count", "deleted_rows_count", "partitions",
    )  # fmt: skip
    storage, snapshot = snapshot_in(tmp_path, [listed("/t/a")], without_fields(LIST_SCHEMA, *absent))
    (found,) = read_manifest_list(storage, snapshot)
    told = {
        "length": found.length,
        "existing_files": found.existing_files,
        "deleted_files": found.deleted_files,
    }
    assert None not in told.values()
    assert found == ManifestFile(path="/t/a", spec_id=0, snapshot_id=1, **told)
    assert found.num_live_files is None


def test_inline_manifests_tell_their_spec_themselves(tmp_path):
    (tmp_path / "m.avro").write_bytes(manifest([entry("/t/a")], version=1))
    snapshot = Snapshot(snapshot_id=1, manifests=(str(tmp_path / "m.avro"),))
    storage = Storage(root=str(tmp_path))
    manifests = read_manifest_list(storage, snapshot)
    ((file,),) = read_manifests(storage, manifests, PLAIN)
    assert (file.path, file.spec_id, file.sequence_number) == ("/t/a", 0, 0)


def test_manifests_are_read_in_order_and_a_missing_one_is_named(tmp_path):
    manifests = []
    for n in range(20):
        path = tmp_path / f"m{n}.avro"
        path.write_bytes(manifest([entry(f"/t/{n}")]))
        manifests.append(ManifestFile(path=str(path), spec_id=0, sequence_number=n))
    storage = Storage(root=str(tmp_path))
    files = list(itertools.chain(*read_manifests(storage, manifests, PLAIN)))
    assert [(file.path, file.sequence_number) for file in files] == [(f"/t/{n}", n) for n in range(20)]
    (tmp_path / "m7.avro").unlink()
    with pytest.raises(MissingFileError, match="m7.avro"):
        read_manifests(storage, manifests, PLAIN)


@pytest.mark.parametrize("data", [b"", b"Obj", b"PAR1" * 9, struct.pack("<4sq", b"Obj\1", -1)])
def test_files_that_are_no_avro(tmp_path, data):
    (tmp_path / "list.avro").write_bytes(data)
    snapshot = Snapshot(snapshot_id=1, manifest_list=str(tmp_path / "list.avro"))
    with pytest.raises(CorruptFileError, match=r"CORRUPT_MANIFEST.*list.avro"):
        read_manifest_list(Storage(root=str(tmp_path)), snapshot)


@pytest.mark.skipif(TABLES is None, reason="TWOSTAGE_TABLES names no folder of tables")
def test_every_real_table():
    """Files and rows by kind, as tables.json states them; a manifest may be missing, never unreadable."""
    names = {0: "DATA", 1: "POSITION_DELETES", 2: "EQUALITY_DELETES"}
    read = 0
    for table in json.loads((Path(TABLES) / "tables.json").read_text()):
        path = Path(TABLES) / table["metadata"]
        metadata = parse_metadata_bytes(path.read_bytes(), location=str(path))
        if metadata.current_snapshot is None:
            continue
        storage = Storage(root=str(path.parent.parent), moved_from=metadata.location)
        try:
            manifests = read_manifest_list(storage, metadata.current_snapshot)
            files = list(itertools.chain(*read_manifests(storage, manifests, metadata.specs)))
        except MissingFileError:
            continue
        if table["files"]:  # tables.json does not know those of two tables that pyiceberg could not read
            kinds = Counter(f"{names[file.content]}/{file.format.upper()}" for file in files)
            assert kinds == table["files"], table["table"]
            assert sum(file.record_count for file in files if file.content == 0) == table["data_rows"]
        read += 1
    assert read > 60
