"""Rows of very many files: what the walk over encoded entries counts is what reading the entries gives."""

from __future__ import annotations

import io
import json
import os
import random
from typing import TYPE_CHECKING, Any

import fastavro
import numpy as np
import pytest

from core_scan import open_table, scan
from random_tables import random_table
from tables import Table
from twostage.aggregates import metadata_answer, row_counts
from twostage.aggregates.metadata_answer import Aggregate, AggregateAnswer, answer
from twostage.errors import CorruptFileError
from twostage.formats.avro.compression import unpack
from twostage.formats.avro.container import open_avro
from twostage.storage.files import locate, read_all
from twostage.table.manifest import read_manifest_list
from twostage.table.manifest_fields import ENTRY_IDS, named_by_id
from twostage.table.manifest_records import parse_manifest
from twostage_native import avro_walk_reference
from twostage_native.avro_walk import END, LONG, SKIP, walk_records

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from core_scan import Opened

SEED = int(os.environ.get("TWOSTAGE_SEED", "1"))
pytest.importorskip("numba")


def manifests_of(opened: Opened) -> Iterator[tuple[Any, bytes, Any]]:
    """Yield the data manifests with their bytes and specs."""
    table = opened.table
    assert table.snapshot is not None
    for manifest in read_manifest_list(table.storage, table.snapshot):
        if not manifest.is_deletes:
            data = read_all(table.storage, locate(table.storage, manifest.path))
            assert manifest.spec_id is not None
            yield manifest, data, table.metadata.specs[manifest.spec_id]


def has_fixed(schema: Any) -> bool:
    """Tell whether a schema has a fixed type that is no decimal or UUID: such bytes can be read in two ways."""
    if isinstance(schema, list):
        return any(map(has_fixed, schema))
    if not isinstance(schema, dict):
        return False
    if schema.get("type") == "fixed":
        return "logicalType" not in schema
    return any(map(has_fixed, schema.values()))


def test_random_manifests_are_counted_as_they_are_read(tmp_path: Path) -> None:
    assert row_counts.is_compiled()
    counted = closer = 0
    for seed in range(SEED, SEED + 40):
        random_table(seed, tmp_path / str(seed))
        opened = open_table(tmp_path / str(seed))
        for manifest, data, spec in manifests_of(opened):
            entries = parse_manifest(data, manifest, opened.table.metadata.specs)
            plain = all(one.format in ("parquet", "orc") and one.record_count > 0 for one in entries)
            plain = plain and not has_fixed(fastavro.reader(io.BytesIO(data)).writer_schema)
            expected = (len(entries), sum(one.record_count for one in entries)) if plain else None
            assert row_counts.count_rows(data, manifest, spec) == expected, f"TWOSTAGE_SEED={seed}"
            counted += expected is not None
            closer += expected is None
    assert counted > 20
    assert closer > 5


def test_kernel_and_twin_agree_on_whatever_bytes(tmp_path: Path) -> None:
    """Flipped, cut and repeated bytes: no step leaves them, and both say alike that they are malformed."""
    table = Table(tmp_path, {"id": "long", "p": "string", "x": "double"}, partition=["p"], version=3)
    table.append_all([{"id": i, "p": f"p{i % 3}", "x": i / 2} for i in range(12)])
    ((manifest, data, spec),) = manifests_of(open_table(table.write()))
    file = open_avro(data, path=manifest.path, code="X")
    ((count, packed),) = file.blocks
    whole = unpack(file.codec, packed, 1 << 20)
    steps: list[list[int]] = []
    row_counts._compile(named_by_id(file.schema, ENTRY_IDS, spec), steps)
    program = np.array([*steps, [END, 0, 0]], np.int64)
    pick = random.Random(SEED)
    malformed = 0
    for number in range(1500):
        made = bytearray(whole)
        for _ in range(pick.randint(0, 3) if number else 0):
            made[pick.randrange(len(made))] = pick.randrange(256)
        if pick.random() < 0.2 and number:
            del made[pick.randrange(len(made)) :]
        block = np.frombuffer(bytes(made), np.uint8)
        ends, kept = [], []
        assert walk_records.compiled(block, program, np.empty((count, 9), np.int64))
        for walk in (walk_records, avro_walk_reference.walk_records):
            found = np.zeros((count, 9), np.int64)
            ends.append(walk(block, program, found))
            kept.append(found)
        assert ends[0] == ends[1], f"TWOSTAGE_SEED={SEED} number {number}"
        if ends[0] < 0:
            malformed += 1
        else:
            assert (kept[0] == kept[1]).all(), f"TWOSTAGE_SEED={SEED} number {number}"
        if number == 0:
            assert ends[0] == len(whole)
            assert kept[0][:, 2].tolist() == [4, 4, 4]
    assert 100 < malformed < 1500


@pytest.mark.parametrize("size", [-1, 4, 2**63 - 1])
def test_a_fixed_field_of_any_size_stays_within_the_bytes(size: int) -> None:
    """The size comes from the manifest's schema: a sum that overflows must lead nowhere."""
    program = np.array([[LONG, 0, 0], [SKIP, size, 0], [LONG, 0, 0], [END, 0, 0]], np.int64)
    data, kept = np.frombuffer(bytes([2, 4, 6, 8]), np.uint8), np.zeros((1, 9), np.int64)
    assert walk_records.compiled(data, program, kept)
    for walk in (walk_records, avro_walk_reference.walk_records):
        assert walk(data, program, kept) == -1


def test_a_size_that_is_no_number_of_64_bits_takes_a_closer_look(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = Table(tmp_path, {"id": "long"})
    table.append([{"id": 1}])
    ((manifest, data, spec),) = manifests_of(open_table(table.write()))
    assert row_counts.count_rows(data, manifest, spec) == (1, 1)
    monkeypatch.setattr(row_counts, "named_by_id", lambda *_: {"type": "fixed", "name": "f", "size": 2**70})
    assert row_counts.count_rows(data, manifest, spec) is None


@pytest.mark.parametrize("count", [-1, 0, 3])
def test_answers_of_many_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    """Rows that nobody counted take a closer look, which is refused."""
    monkeypatch.setattr(metadata_answer, "MIN_FILES_TO_SUM_COUNTS", 2)
    walked: list[Any] = []
    real = row_counts.count_rows
    monkeypatch.setattr(row_counts, "count_rows", lambda *given: walked.append(real(*given)) or walked[-1])
    table = Table(tmp_path, {"id": "long"})
    gone = table.append([{"id": 9}])
    with table.transaction():
        table.append([{"id": 1}, {"id": 2}])
        table.append([{"id": i} for i in range(3)]).entry["record_count"] = count  # type: ignore[index]
    table.remove(gone)
    opened = open_table(table.write())
    found = answer(opened.table, opened.options, aggregates=(Aggregate("rows"),))
    if count > 0:
        assert isinstance(found, AggregateAnswer)
        assert found.rows == ((5,),)
        assert len(scan(opened, ()).rows) == 5
        assert sum(files for files, _ in walked) == found.files == 2
    else:
        assert found == "a file's rows were not counted"
        assert None in walked


def test_deletes_of_many_files_take_a_closer_look(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metadata_answer, "MIN_FILES_TO_SUM_COUNTS", 1)
    table = Table(tmp_path, {"id": "long"}, version=3)
    file = table.append([{"id": i} for i in range(5)])
    table.delete_vectors({file: [1]})
    opened = open_table(table.write())
    found = answer(opened.table, opened.options, aggregates=(Aggregate("rows"),))
    assert isinstance(found, AggregateAnswer)
    assert found.rows == ((4,),)


def container(fields: list[dict[str, Any]], block: bytes, count: int = 1, codec: str = "null") -> bytes:
    """Return a manifest of one block, whose files have these fields besides path, format and rows."""
    kinds = [("file_path", 100, "string"), ("file_format", 101, "string"), ("record_count", 103, "long")]
    known = [{"name": name, "field-id": number, "type": kind} for name, number, kind in kinds]
    inner = {"type": "record", "name": "r2", "fields": [*known, *fields]}
    parts = [
        {"name": "status", "field-id": 0, "type": "int"},
        {"name": "data_file", "field-id": 2, "type": inner},
    ]
    schema = json.dumps({"type": "record", "name": "e", "fields": parts}).encode()
    header = b"\x04" + b"".join(
        encode(len(text)) + text for text in (b"avro.schema", schema, b"avro.codec", codec.encode())
    )
    sync = bytes(range(16))
    return b"Obj\x01" + header + b"\0" + sync + encode(count) + encode(len(block)) + block + sync


def encode(number: int) -> bytes:
    """Return a number as Avro writes it."""
    out = io.BytesIO()
    fastavro.schemaless_writer(out, "long", number)
    return out.getvalue()


ENTRY = encode(1) + encode(3) + b"a/b" + encode(7) + b"parquet"


@pytest.mark.parametrize(
    ("fields", "rest", "expected"),
    [
        ([], encode(5), (1, 5)),
        ([{"name": "x", "type": {"type": "fixed", "name": "f", "size": 2}}], encode(5) + b"xx", (1, 5)),
        # Sizes that lead behind the bytes, in front of them, or past 64 bits.
        *(
            ([{"name": "x", "type": {"type": "fixed", "name": "f", "size": size}}], encode(5) + b"xx", None)
            for size in (3, -2, -40, 2**63 - 1, 2**70)
        ),
        # Items of no bytes: some of 2**60 would be walked for years.
        ([{"name": "x", "type": {"type": "array", "items": "null"}}], encode(5) + encode(2) + b"\0", None),
        # A text where a number belongs is no number of rows.
        ([{"name": "rows", "field-id": 103, "type": "string"}], encode(5) + b"\0", None),
        ([], encode(2**62), None),
        ([], encode(-1), None),
    ],
)
def test_what_is_not_plainly_in_order_is_not_counted(
    tmp_path: Path, fields: list[dict[str, Any]], rest: bytes, expected: Any
) -> None:
    ((manifest, _, spec),) = manifests_of(open_table(a_table(tmp_path)))
    assert row_counts.count_rows(container(fields, ENTRY + rest), manifest, spec) == expected


def a_table(folder: Path) -> Path:
    table = Table(folder, {"id": "long"})
    table.append([{"id": i} for i in range(5)])
    return table.write()


@pytest.mark.parametrize("codec", ["deflate", "snappy", "zstandard", "xz", "bzip2", "other"])
def test_packed_bytes_that_are_damaged_are_not_counted(tmp_path: Path, codec: str) -> None:
    ((manifest, _, spec),) = manifests_of(open_table(a_table(tmp_path)))
    assert row_counts.count_rows(container([], b"\xff" * 30, codec=codec), manifest, spec) is None


def test_flipped_bytes_of_many_files_are_errors_of_the_manifest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Packed bytes that do not unpack raised zlib's own error."""
    monkeypatch.setattr(metadata_answer, "MIN_FILES_TO_SUM_COUNTS", 1)
    opened = open_table(a_table(tmp_path))
    ((manifest, data, _),) = manifests_of(opened)
    pick, raised = random.Random(SEED), 0
    path = locate(opened.table.storage, manifest.path)
    for _ in range(200):
        made = bytearray(data)
        made[pick.randrange(len(data) - 250, len(data))] = pick.randrange(256)
        with open(path, "wb") as file:  # noqa: PTH123
            file.write(made)
        try:
            found = answer(opened.table, opened.options, aggregates=(Aggregate("rows"),))
        except CorruptFileError:
            raised += 1
        else:
            assert isinstance(found, str) or found.files == 1, f"TWOSTAGE_SEED={SEED}"
    assert raised > 20
