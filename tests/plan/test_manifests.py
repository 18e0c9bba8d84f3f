"""Manifests: inheritance, internal forms, odd writers, damage."""

from __future__ import annotations

import datetime
import io
import itertools
import json
import os
import random
import struct
import uuid
import zlib
from collections import Counter
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

import fastavro
import pyarrow as pa
import pytest
from avro_manifests import (
    LIST_SCHEMA,
    entry,
    entry_schema,
    field,
    listed,
    manifest,
    optional,
    without_fields,
    without_ids,
    write,
)

from twostage.errors import (
    CorruptFileError,
    MissingFileError,
    ResourceLimitError,
    TwoStageError,
    UnsupportedFeatureError,
)
from twostage.table.manifest import parse_manifest, read_manifest_list, read_manifests
from twostage.table.manifest_entry import ManifestFile
from twostage.table.metadata import PartitionField, PartitionSpec, Snapshot, parse_metadata_bytes
from twostage.task import Storage

TABLES = os.environ.get("TWOSTAGE_TABLES")
PLAIN = {0: PartitionSpec(spec_id=0)}
LISTED = ManifestFile(path="/t/m.avro", spec_id=0, sequence_number=7, snapshot_id=70)


def deletes(**changes):
    return ManifestFile(path="/t/m.avro", spec_id=0, is_deletes=True, sequence_number=7, **changes)


def spec(*names: str) -> dict[int, PartitionSpec]:
    fields = tuple(
        PartitionField(source_id=n, field_id=999 + n, name=name, transform="identity")
        for n, name in enumerate(names, 1)
    )
    return {0: PartitionSpec(spec_id=0, fields=fields)}


@pytest.mark.parametrize(
    ("status", "own", "listed_sequence", "version", "expected"),
    [
        (1, None, 7, 2, 7),  # added: inherited
        (1, 3, 7, 2, 3),  # added with a number of its own
        (0, 3, 7, 2, 3),  # existing: keeps its own
        (0, 0, 7, 2, 0),
        (0, None, 0, 1, 0),  # version 1: all are 0
        (1, None, 0, 1, 0),
        (0, None, 7, 1, 0),  # version 1's manifest, rewritten list
        (0, None, 0, 2, 0),
    ],
)
def test_sequence_numbers_are_inherited_as_the_spec_says(status, own, listed_sequence, version, expected):
    source = ManifestFile(path="/t/m.avro", spec_id=0, sequence_number=listed_sequence)
    data = manifest([entry(status=status, sequence=own)], version=version)
    (file,) = parse_manifest(data, source, PLAIN)
    assert file.sequence_number == expected


@pytest.mark.parametrize(
    ("status", "own", "listed_sequence", "expected"),
    [
        (1, None, 7, 7),
        (1, 3, 7, 3),
        (0, 3, 7, 3),
        (0, None, 7, None),  # carried over by a writer that did not know it
        (0, None, 0, 0),  # version 1: all are 0
        (1, None, 0, 0),
        (2, None, 0, 0),
    ],
)
def test_file_sequence_numbers_are_inherited_as_iceberg_does(status, own, listed_sequence, expected):
    source = ManifestFile(path="/t/m.avro", spec_id=0, sequence_number=listed_sequence)
    given = {**entry(status=status, sequence=3), "file_sequence_number": own}
    (file,) = parse_manifest(manifest([given]), source, PLAIN, deleted=True)
    assert file.file_sequence_number == expected


def test_an_existing_entry_without_sequence_number_is_an_error():
    with pytest.raises(CorruptFileError, match=r"CORRUPT_MANIFEST.*no sequence number.*/t/m.avro"):
        parse_manifest(manifest([entry(status=0)]), LISTED, PLAIN)


def test_version_1_has_no_sequence_number_column_and_no_content():
    schema = without_fields(
        entry_schema([]),
        "sequence_number",
        "file_sequence_number",
        "content",
        "equality_ids",
        "nan_value_counts",
    )
    data = write(schema, [entry("/t/a"), entry("/t/b", status=0)])
    files = parse_manifest(data, ManifestFile(path="m", spec_id=None), PLAIN)
    assert [(file.path, file.sequence_number, file.content) for file in files] == [
        ("/t/a", 0, 0),
        ("/t/b", 0, 0),
    ]


def test_deleted_entries_are_gone_and_snapshot_ids_inherited():
    data = manifest([entry("/t/a"), entry("/t/b", status=2), {**entry("/t/c"), "snapshot_id": 5}])
    files = parse_manifest(data, LISTED, PLAIN)
    assert [(file.path, file.snapshot_id) for file in files] == [("/t/a", 70), ("/t/c", 5)]


def test_row_ids_count_up_over_files_that_have_none():
    source = ManifestFile(path="m", spec_id=0, sequence_number=7, first_row_id=1000)
    data = manifest([entry("/t/a"), entry("/t/b", first_row_id=50), entry("/t/c", status=2), entry("/t/d")])
    assert [file.first_row_id for file in parse_manifest(data, source, PLAIN)] == [1000, 50, 1010]


def test_every_metric():
    given = entry(
        column_sizes={1: 10}, value_counts={1: 9}, null_value_counts={1: 2}, nan_value_counts={1: 1},
        lower_bounds={1: b"\1\0\0\0"}, upper_bounds={1: b"\2\0\0\0", 2: b"z"}, split_offsets=[4, 500], sort_order_id=3,
    )  # fmt: skip
    (file,) = parse_manifest(manifest([given]), LISTED, PLAIN)
    assert (file.column_sizes, file.value_counts, file.null_counts, file.nan_counts) == (
        {1: 10},
        {1: 9},
        {1: 2},
        {1: 1},
    )
    assert (file.lower_bounds, file.upper_bounds) == ({1: b"\1\0\0\0"}, {1: b"\2\0\0\0", 2: b"z"})
    assert (file.split_offsets, file.sort_order_id, file.format) == ((4, 500), 3, "parquet")


def test_deletes_and_vectors():
    vector = {
        "referenced_data_file": "/t/a",
        "content_offset": 4,
        "content_size_in_bytes": 30,
        "file_format": "puffin",
    }
    data = manifest([entry("/t/e", content=2, equality_ids=[1, 3]), entry("/t/v", content=1, **vector)])
    equality, position = parse_manifest(data, deletes(), PLAIN)
    assert equality.equality_ids == (1, 3)
    assert (position.referenced_data_file, position.content_offset, position.content_size) == ("/t/a", 4, 30)


PARTITIONS = [
    ({"type": "int", "logicalType": "date"}, datetime.date(2020, 1, 2), 18263),
    ({"type": "long", "logicalType": "timestamp-micros"}, -5, -5),
    ({"type": "long", "logicalType": "timestamp-micros", "adjust-to-utc": True}, 2**62, 2**62),  # no year has it
    ({"type": "long", "logicalType": "time-micros"}, 5, 5),
    ({"type": "fixed", "size": 5, "name": "d", "logicalType": "decimal", "precision": 9, "scale": 2}, Decimal("-3.05"), Decimal("-3.05")),
    ({"type": "fixed", "size": 16, "name": "u", "logicalType": "uuid"}, uuid.UUID(int=7).bytes, str(uuid.UUID(int=7))),
    ({"type": "fixed", "size": 3, "name": "x"}, b"abc", b"abc"),
    ("bytes", b"\0\xff", b"\0\xff"),
    ("string", "é", "é"),
    ("double", 2.222, 2.222),
    ("float", 0.5, 0.5),
    ("boolean", True, True),
    ("long", -(2**63), -(2**63)),
    ("int", None, None),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "written", "expected"), PARTITIONS, ids=str)
def test_partition_values_come_in_internal_form(kind, written, expected):
    data = manifest([entry(partition={"p": written})], partition=[field("p", 1000, optional(kind))])
    (file,) = parse_manifest(data, LISTED, spec("p"))
    assert file.partition == {1000: expected}
    assert type(file.partition[1000]) is type(expected)


def test_fields_are_matched_by_id_and_not_by_name():
    swapped = [field("b", 1000, "int"), field("a", 1001, "int")]
    data = manifest([entry(partition={"b": 1, "a": 2})], partition=swapped)
    (file,) = parse_manifest(data, LISTED, spec("a", "b"))
    assert file.partition == {1000: 1, 1001: 2}
    renamed = json.loads(json.dumps(entry_schema([])).replace('"file_path"', '"where_it_is"'))
    record = entry()
    record["data_file"]["where_it_is"] = record["data_file"].pop("file_path")
    (file,) = parse_manifest(write(renamed, [record]), LISTED, PLAIN)
    assert file.path == "s3://lake/t/f.parquet"


@pytest.mark.parametrize("names", [("status", "file_path"), ("x_1", "x_2")])
def test_without_field_ids_names_or_places_match(names):
    """Partition fields may be called like entry fields, or be sanitized beyond recognition."""
    partition = [field(name, 1000 + n, "int") for n, name in enumerate(names)]
    data = write(
        without_ids(entry_schema(partition)),
        [entry(partition=dict(zip(names, (5, 6), strict=True)))],
        format_version="2",
    )
    (file,) = parse_manifest(data, LISTED, spec("status", "file_path"))
    assert file.partition == {1000: 5, 1001: 6}
    assert file.path == "s3://lake/t/f.parquet"
    assert file.sequence_number == 7


def test_a_partition_field_that_the_manifest_lacks_is_absent():
    data = manifest([entry(partition={"a": 1})], partition=[field("a", 1000, "int")])
    (file,) = parse_manifest(data, LISTED, spec("a", "b"))
    assert file.partition == {1000: 1}


@pytest.mark.parametrize(
    "wrong",
    [
        entry(status=3),
        entry(record_count=-2),
        entry(file_size_in_bytes=-1),
        entry(""),
        entry(content=1),
        entry(content=9),
        entry(sequence=-4),
    ],
)
def test_impossible_entries(wrong):
    with pytest.raises(CorruptFileError, match=r"\[TWOSTAGE.CORRUPT_MANIFEST\].*/t/m.avro"):
        parse_manifest(manifest([entry(), wrong]), LISTED, PLAIN)


def test_rows_that_nobody_counted():
    """Iceberg wrote -1 when it imported Avro files; of delete files nothing like it is known."""
    (file,) = parse_manifest(manifest([entry(record_count=-1)]), LISTED, PLAIN)
    assert (file.record_count, file.num_rows) == (-1, None)
    with pytest.raises(CorruptFileError, match="CORRUPT_MANIFEST"):
        parse_manifest(manifest([entry(content=1, record_count=-1)]), deletes(), PLAIN)


def test_equality_deletes_need_equality_ids():
    with pytest.raises(CorruptFileError, match="no equality ids"):
        parse_manifest(manifest([entry(content=2)]), deletes(), PLAIN)


def test_unknown_spec():
    with pytest.raises(CorruptFileError, match="partition spec that the table lacks: 9"):
        parse_manifest(manifest([entry()]), ManifestFile(path="/t/m.avro", spec_id=9), PLAIN)


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


@pytest.mark.parametrize("seed", range(4))
def test_damaged_bytes_give_a_typed_error_or_an_answer(seed):
    """No crash, no hang, no foreign exception; a cut file is always noticed."""
    rng = random.Random(seed)
    whole = manifest(
        [entry(f"/t/{n}", lower_bounds={1: b"abc"}, split_offsets=[4]) for n in range(20)],
        codec="null" if seed % 2 else "deflate",
    )
    refused = Counter()
    for _ in range(250):
        data = bytearray(whole)
        for _ in range(rng.randint(1, 3)):
            data[rng.randrange(len(data))] = rng.randrange(256)
        try:
            parse_manifest(bytes(data), LISTED, PLAIN)
        except TwoStageError as error:
            refused[error.code] += 1
    assert refused["CORRUPT_MANIFEST"] > 50
    for _ in range(50):
        cut = whole[: rng.randrange(len(whole) - 1)]
        header = cut.find(b"Obj\x01") == 0 and whole[-16:] in cut and cut.endswith(whole[-16:])
        if not header:  # a file may end after a whole block, even after none
            with pytest.raises(CorruptFileError):
                parse_manifest(cut, LISTED, PLAIN)


def test_a_lowered_record_count_is_noticed():
    """A count that a bit flip made smaller would lose files without a trace."""
    data = bytearray(manifest([entry(f"/t/{n}") for n in range(20)], codec="null"))
    sync = bytes(data[-16:])
    place = data.index(sync) + 16
    assert data[place] == 40  # zigzag of 20
    for count in (19, 10, 1, 21, 60):
        data[place] = count * 2
        with pytest.raises(CorruptFileError, match=r"CORRUPT_MANIFEST.*malformed"):
            parse_manifest(bytes(data), LISTED, PLAIN)
        data[place] = 40


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
