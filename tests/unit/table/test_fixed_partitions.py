"""Partition values of type fixed, as the header of the manifest announces them and as Iceberg's library writes them."""

from __future__ import annotations

import copy
import io
import os
import random
from collections import Counter
from typing import TYPE_CHECKING, Any

import fastavro
import pytest

from avro_manifests import entry, field, manifest, optional
from check import check, ids
from core_scan import open_table, scan
from tables import Table
from twostage.aggregates import metadata_answer, row_counts
from twostage.aggregates.metadata_answer import Aggregate, AggregateAnswer, answer
from twostage.errors import CorruptFileError
from twostage.predicates.predicate import Compare
from twostage.table.manifest_entry import ManifestFile, PartitionSummary
from twostage.table.manifest_records import parse_manifest
from twostage.table.metadata import PartitionField, PartitionSpec

if TYPE_CHECKING:
    from pathlib import Path

SEED = int(os.environ.get("TWOSTAGE_SEED", "1"))
KEYS = [b"\x00\x00\x01", b"\x7f\xff\x00", None, b"\x00\x00\x01"]


def _long(value: int) -> bytes:
    found = io.BytesIO()
    fastavro.schemaless_writer(found, {"type": "long"}, value)
    return found.getvalue()


def with_lengths(data: bytes, *, grown: bool = False) -> bytes:
    """Return a manifest written again: its header still says ``fixed``, each such value has its length before it."""
    reader = fastavro.reader(io.BytesIO(data))
    schema: Any = reader.writer_schema
    records = list(reader)
    written = copy.deepcopy(schema)
    (data_file,) = (part for part in written["fields"] if part["name"] == "data_file")
    (partition,) = (part for part in data_file["type"]["fields"] if part["name"] == "partition")
    for part in partition["type"]["fields"]:
        kind = part["type"][-1] if isinstance(part["type"], list) else part["type"]
        named = isinstance(kind, str) and "fixed" in kind
        if named or (isinstance(kind, dict) and kind["type"] == "fixed" and "logicalType" not in kind):
            part["type"] = ["null", "bytes"] if isinstance(part["type"], list) else "bytes"
    if grown:
        for record in records:
            values = record["data_file"]["partition"]
            for name, value in values.items():
                values[name] = value + b"\x00" if isinstance(value, bytes) else value
    block = io.BytesIO()
    parsed = fastavro.parse_schema(written)
    for record in records:
        fastavro.schemaless_writer(block, parsed, record)
    head, sync = io.BytesIO(), b"0123456789abcdef"
    metadata = {k: v for k, v in reader.metadata.items() if not k.startswith("avro.")}
    fastavro.writer(head, schema, [], metadata=metadata, codec="null", sync_marker=sync)
    body = block.getvalue()
    return head.getvalue() + _long(len(records)) + _long(len(body)) + body + sync


def write_with_lengths(path: Path, *, grown: bool = False) -> None:
    """Write a manifest of a table again, with lengths."""
    path.write_bytes(with_lengths(path.read_bytes(), grown=grown))


@pytest.fixture(params=[1, 2, 3])
def table(tmp_path: Path, request: pytest.FixtureRequest) -> Table:
    made = Table(
        tmp_path, {"id": "long", "k": "fixed[3]", "n": "int"}, version=request.param, partition=["k", "n"]
    )
    made.append_all(ids(4, k=KEYS, n=[1, 1, 1, 2]))
    made.append_all(ids(2, id=[10, 11], k=KEYS[:2], n=[5, 5]))
    made.write()
    return made


def test_values_with_their_length_are_read(table: Table) -> None:
    manifests = sorted((table.folder / "metadata").glob("manifest-*.avro"))
    assert len(manifests) == 2
    for path in manifests[: table.version]:
        write_with_lengths(path)
    check(table, [0, 1, 2, 3, 10, 11])
    result = check(table, [0, 3, 10], lambda c: Compare("=", c("k"), KEYS[0]))
    assert result.count("files.pruned.partition") == 3
    check(table, [1, 11], lambda c: Compare(">", c("k"), KEYS[0]))


def test_values_of_another_length_are_refused(table: Table) -> None:
    for path in (table.folder / "metadata").glob("manifest-*.avro"):
        write_with_lengths(path, grown=True)
    with pytest.raises(CorruptFileError, match="CORRUPT_MANIFEST"):
        scan(open_table(table.folder))


LAST = [0x00, 0x01, 0x7F, 0x80, 0x81, 0xFE, 0xFF]


@pytest.mark.parametrize("last", LAST)
@pytest.mark.parametrize("version", [1, 2, 3])
def test_the_last_byte_of_a_value_is_not_the_record_count(tmp_path: Path, version: int, last: int) -> None:
    """As announced, 0xFF and a count of 1 read as -192 rows, 0xFE as 191 rows of another partition."""
    table = Table(tmp_path, {"id": "long", "k": "fixed[3]"}, version=version, partition=["k"])
    key = bytes([6, 0xFF, last])
    first = table.append([{"id": 1, "k": key}])
    if version > 1:
        table.append([{"id": 2, "k": key}])
        table.delete_equal(["id"], [{"id": 2}], like=first)
        if version == 2:
            table.delete_positions({table.append([{"id": 3, "k": key}]): [0]})
    table.write()
    for path in (table.folder / "metadata").glob("manifest-*.avro"):
        write_with_lengths(path)
    check(table, [1])
    check(table, [1], lambda c: Compare("=", c("k"), key))
    check(table, [], lambda c: Compare("<", c("k"), key))


def test_many_files_are_not_counted_by_the_wrong_reading(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The walk over very many entries knows one reading only."""
    pytest.importorskip("numba")
    assert row_counts.is_compiled()
    monkeypatch.setattr(metadata_answer, "MIN_FILES_TO_SUM_COUNTS", 1)
    table = Table(tmp_path, {"id": "long", "k": "fixed[3]"}, partition=["k"])
    table.append([{"id": 1, "k": b"\x00\x00\xfe"}])
    table.write()
    for path in (table.folder / "metadata").glob("manifest-*.avro"):
        write_with_lengths(path)
    opened = open_table(table.folder)
    found = answer(opened.table, opened.options, aggregates=(Aggregate("rows"),))
    assert isinstance(found, AggregateAnswer)
    assert found.rows == ((1,),)


FIXED = {"type": "fixed", "size": 3, "name": "fixed_3"}
SPEC = {
    0: PartitionSpec(
        spec_id=0,
        fields=(PartitionField(source_id=1, field_id=1000, name="p", transform="identity"),),
    )
}


def _one(value: bytes, rows: int) -> bytes:
    return manifest(
        [entry(partition={"p": value}, record_count=rows)], partition=[field("p", 1000, optional(FIXED))]
    )


AS_ANNOUNCED = _one(b"\x06\x00\x01", 130)
WITH_LENGTHS = with_lengths(_one(b"\x00\x01\xfe", 1))


@pytest.mark.parametrize("told", ["rows", "partitions", "both"])
@pytest.mark.parametrize(
    ("data", "value", "rows"), [(AS_ANNOUNCED, b"\x06\x00\x01", 130), (WITH_LENGTHS, b"\x00\x01\xfe", 1)]
)
def test_the_manifest_list_tells_which_of_two_sound_readings_is_right(
    data: bytes, value: bytes, rows: int, told: str
) -> None:
    summary = PartitionSummary(contains_null=False, lower=value, upper=value)
    listed = ManifestFile(
        path="/t/m.avro",
        spec_id=0,
        sequence_number=7,
        added_rows=rows if told != "partitions" else None,
        existing_rows=0 if told != "partitions" else None,
        partitions=(summary,) if told != "rows" else (),
    )
    (file,) = parse_manifest(data, listed, SPEC)
    assert (file.partition, file.record_count) == ({1000: value}, rows)


@pytest.mark.parametrize("data", [AS_ANNOUNCED, WITH_LENGTHS])
@pytest.mark.parametrize("told", [{}, {"added_rows": 17, "existing_rows": 0}])
def test_two_sound_readings_are_refused_where_the_list_tells_nothing(
    data: bytes, told: dict[str, int]
) -> None:
    listed = ManifestFile(path="/t/m.avro", spec_id=0, sequence_number=7, **told)
    with pytest.raises(CorruptFileError, match=r"CORRUPT_MANIFEST.*two ways.*list does not say.*/t/m\.avro"):
        parse_manifest(data, listed, SPEC)


def test_values_that_are_all_null_need_no_list() -> None:
    data = manifest([entry(partition={"p": None})], partition=[field("p", 1000, optional(FIXED))])
    listed = ManifestFile(path="/t/m.avro", spec_id=0, sequence_number=7)
    assert parse_manifest(data, listed, SPEC) == parse_manifest(with_lengths(data), listed, SPEC)


KINDS = [
    "string",
    "long",
    {"type": "int", "logicalType": "date"},
    {"type": "fixed", "size": 16, "name": "uuid_fixed", "logicalType": "uuid"},
    {"type": "fixed", "size": 4, "name": "decimal_8_2", "logicalType": "decimal", "precision": 8, "scale": 2},
]


def _value(pick: random.Random, kind: Any) -> Any:
    if kind == "string":
        return pick.choice(["", "x", "é" * 40])
    if kind == "long":
        return pick.randint(-(2**63), 2**63 - 1)
    if kind["type"] == "int":
        return pick.randint(-1000, 20_000)  # a day that Python has, too
    if kind.get("logicalType") == "decimal":
        return b"\x00\x00\x00\x07"
    return pick.randbytes(kind["size"])


def test_random_manifests_read_alike_written_either_way() -> None:
    """Fixed values of several lengths among other partition values, data and deletes, one entry to many."""
    seen: Counter[str] = Counter()
    for seed in range(SEED, SEED + 300):
        pick = random.Random(seed)
        lengths = pick.sample([1, 2, 3, 16, 40, 63, 64, 100, 200], pick.randint(1, 3))
        kinds: list[Any] = [{"type": "fixed", "size": size, "name": f"fixed_{size}"} for size in lengths]
        kinds += pick.sample(KINDS, pick.randint(0, 3))
        pick.shuffle(kinds)
        partition = [
            field(f"p{n}", 1000 + n, optional(kind) if pick.random() < 0.8 else kind)
            for n, kind in enumerate(kinds)
        ]
        is_deletes = pick.random() < 0.4
        entries = []
        for n in range(pick.choice([1, 1, 1, 2, 3, 30])):
            values = {
                part["name"]: None
                if isinstance(part["type"], list) and pick.random() < 0.2
                else _value(pick, kind)
                for part, kind in zip(partition, kinds, strict=True)
            }
            if pick.random() < 0.5:  # what leads astray: a last byte that joins the count of rows
                for name, value in values.items():
                    if isinstance(value, bytes):
                        values[name] = value[:-1] + bytes([pick.choice([0x80, 0xFE, 0xFF])])
            more: dict[str, Any] = {"content": 2, "equality_ids": [1]} if is_deletes else {}
            rows = pick.choice([0, 1, 2, 63, 64, 130, 10**6])
            status = pick.choice([1, 1, 0, 2])
            entries.append(
                entry(f"/t/{n}", status=status, sequence=3, partition=values, record_count=rows, **more)
            )
        specs = {
            0: PartitionSpec(
                spec_id=0,
                fields=tuple(
                    PartitionField(source_id=n + 1, field_id=1000 + n, name=f"p{n}", transform="identity")
                    for n in range(len(kinds))
                ),
            )
        }
        summaries = []
        for part, kind in zip(partition, kinds, strict=True):
            held = [one["data_file"]["partition"][part["name"]] for one in entries]
            known = [value for value in held if value is not None]
            raw = known and isinstance(kind, dict) and kind["type"] == "fixed"
            summaries.append(
                PartitionSummary(
                    contains_null=None in held,
                    lower=min(known) if raw else None,
                    upper=max(known) if raw else None,
                )
            )
        rows_of = {
            status: sum(one["data_file"]["record_count"] for one in entries if one["status"] == status)
            for status in (0, 1)
        }
        listed = ManifestFile(
            path="/t/m.avro",
            spec_id=0,
            is_deletes=is_deletes,
            sequence_number=7,
            snapshot_id=70,
            partitions=tuple(summaries),
            added_rows=rows_of[1],
            existing_rows=rows_of[0],
        )
        data = manifest(entries, partition=partition)
        plain = parse_manifest(data, listed, specs)
        wanted = [one["data_file"] for one in entries if one["status"] != 2]
        assert [(one.path, one.record_count) for one in plain] == [
            (one["file_path"], one["record_count"]) for one in wanted
        ], f"TWOSTAGE_SEED={seed}"
        for place, kind in enumerate(kinds):
            if isinstance(kind, dict) and "fixed_" in kind.get("name", ""):
                found = [one.partition[1000 + place] for one in plain]
                assert found == [one["partition"][f"p{place}"] for one in wanted], f"TWOSTAGE_SEED={seed}"
        assert parse_manifest(with_lengths(data), listed, specs) == plain, f"TWOSTAGE_SEED={seed}"
        try:  # without the list
            blind = parse_manifest(
                with_lengths(data), ManifestFile(path="m", spec_id=0, is_deletes=is_deletes, snapshot_id=70,
                                                 sequence_number=7), specs,
            )  # fmt: skip
        except CorruptFileError as error:
            assert "two ways" in str(error), f"TWOSTAGE_SEED={seed}"
            seen["refused without a list"] += 1
        else:
            assert blind == plain, f"TWOSTAGE_SEED={seed}"
            seen["told by the bytes alone"] += 1
    assert seen["refused without a list"] > 3
    assert seen["told by the bytes alone"] > 200
