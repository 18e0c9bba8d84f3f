"""Records of manifests and their lists: inheritance, internal forms, fields by id, odd writers, impossible entries, damage."""

from __future__ import annotations

import datetime
import json
import random
import uuid
from collections import Counter
from dataclasses import replace
from decimal import Decimal

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
    TwoStageError,
)
from twostage.table.manifest_entry import ManifestFile, PartitionSummary
from twostage.table.manifest_records import iterate_manifest, parse_manifest, parse_manifest_list
from twostage.table.metadata import PartitionField, PartitionSpec

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


def test_removed_files_are_returned_on_demand():
    """They have no part in the counting of row ids."""
    data = manifest([entry("/t/a"), entry("/t/b", status=2, sequence=3), entry("/t/c")])
    source = replace(LISTED, first_row_id=1000)
    found = parse_manifest(data, source, PLAIN, deleted=True)
    assert [(file.path, file.status, file.sequence_number) for file in found] == [
        ("/t/a", 1, 7),
        ("/t/b", 2, 3),
        ("/t/c", 1, 7),
    ]
    assert [file.first_row_id for file in found] == [1000, None, 1010]


def test_fields_left_out_have_no_value_and_the_others_keep_theirs():
    given = entry(value_counts={1: 9}, lower_bounds={1: b"a"}, split_offsets=[4])
    (file,) = iterate_manifest(manifest([given]), LISTED, PLAIN, without=frozenset((125, 132)))
    assert (file.lower_bounds, file.split_offsets, file.value_counts) == ({}, (), {1: 9})


def test_a_file_without_a_count_ends_the_row_ids():
    """Which rows come after it is not known."""
    source = ManifestFile(path="m", spec_id=0, sequence_number=7, first_row_id=100)
    data = manifest([entry("/t/a"), entry("/t/b", record_count=-1), entry("/t/c")])
    assert [file.first_row_id for file in parse_manifest(data, source, PLAIN)] == [100, 110, None]


def test_a_summary_that_says_nothing_may_hold_null():
    """NULL is excluded only by a summary that says so."""
    summaries = [
        {"contains_null": False, "contains_nan": None, "lower_bound": b"a", "upper_bound": b"b"},
        {"contains_null": True, "contains_nan": False, "lower_bound": None, "upper_bound": None},
    ]
    (found,) = parse_manifest_list(write(LIST_SCHEMA, [listed("/t/m", partitions=summaries)]), path="/t/list")
    assert found.partitions == (
        PartitionSummary(contains_null=False, lower=b"a", upper=b"b"),
        PartitionSummary(contains_null=True, contains_nan=False),
    )
    schema = without_fields(LIST_SCHEMA, "contains_null")
    (found,) = parse_manifest_list(write(schema, [listed("/t/m", partitions=summaries[:1])]), path="/t/list")
    assert found.partitions[0].contains_null


@pytest.mark.parametrize("wrong", [{"content": 2}, {"sequence_number": -1}, {"manifest_path": ""}], ids=str)
def test_impossible_entries_of_a_list(wrong):
    records = [listed("/t/a"), {**listed("/t/b"), **wrong}]
    with pytest.raises(CorruptFileError, match=r"CORRUPT_MANIFEST.*/t/list"):
        parse_manifest_list(write(LIST_SCHEMA, records), path="/t/list")
