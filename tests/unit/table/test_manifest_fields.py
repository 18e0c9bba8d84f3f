"""Manifests under other writers' schemas give the entries that they give under Iceberg's own.

BigQuery and older versions of DuckDB make ``data_file`` and ``partition`` nullable (issue 11).
"""

from __future__ import annotations

import io
import os
import random
from collections import Counter
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import fastavro
import pytest

from avro_manifests import (
    LIST_SCHEMA,
    entry,
    entry_schema,
    field,
    listed,
    manifest,
    optional,
    without_ids,
    write,
)
from check import check, ids
from odd_writers import OddWriter, rewrite, rewrite_file
from tables import Table
from twostage.aggregates.row_counts import count_rows
from twostage.errors import CorruptFileError
from twostage.predicates.predicate import Compare
from twostage.table.manifest import read_manifest_list
from twostage.table.manifest_entry import ManifestFile
from twostage.table.manifest_fields import METRIC_FIELDS
from twostage.table.manifest_records import iterate_manifest, parse_manifest
from twostage.table.metadata import PartitionField, PartitionSpec, Snapshot
from twostage.task import Storage

if TYPE_CHECKING:
    from pathlib import Path

SEED = int(os.environ.get("TWOSTAGE_SEED", "1"))
PARTITION = [
    field("day", 1000, optional({"type": "int", "logicalType": "date"})),
    field("who", 1001, optional("string")),
    field("u", 1002, {"type": "fixed", "size": 16, "name": "uuid_fixed", "logicalType": "uuid"}),
]
SPEC = PartitionSpec(
    spec_id=0,
    fields=tuple(
        PartitionField(source_id=n, field_id=1000 + n, name=name, transform="identity")
        for n, name in enumerate(("day", "who", "u"))
    ),
)
SPECS = {0: SPEC}


def _pairs(pick: random.Random, value: Any) -> Any:
    if pick.random() < 0.3:
        return None
    return [{"key": key, "value": value(key)} for key in pick.sample(range(1, 50), pick.randint(0, 5))]


def random_entry(pick: random.Random, number: int, *, is_deletes: bool) -> dict[str, Any]:
    """Return an entry with every field, as a plain schema holds it."""
    file: dict[str, Any] = {
        "content": pick.choice([1, 2]) if is_deletes else 0,
        "file_format": pick.choice(["PARQUET", "ORC", "AVRO"]),
        "partition": {
            "day": pick.choice([None, 0, -5, 18_000]),
            "who": pick.choice([None, "", "é"]),
            "u": pick.randbytes(16),
        },
        "record_count": pick.randint(1, 10**9),
        "file_size_in_bytes": pick.randint(1, 10**12),
        **{
            name: _pairs(pick, lambda key: key * 1000)
            for name in ("column_sizes", "value_counts", "null_value_counts", "nan_value_counts")
        },
        **{name: _pairs(pick, lambda key: bytes([key, 0, 255])) for name in ("lower_bounds", "upper_bounds")},
        "split_offsets": pick.choice([None, [4], [4, 2**40]]),
        "sort_order_id": pick.choice([None, 0, 3]),
        "first_row_id": pick.choice([None, 0, 10**10]),
        "referenced_data_file": pick.choice([None, "/t/a"]),
        "key_metadata": pick.choice([None, b"", b"k"]),
    }
    if file["content"] == 2:
        file["equality_ids"] = pick.sample(range(1, 9), pick.randint(1, 3))
    return {
        **entry(f"/t/{number}", status=pick.choice([0, 1, 1, 2]), sequence=pick.randint(0, 7), **file),
        "snapshot_id": pick.choice([None, 5]),
        "file_sequence_number": pick.choice([None, 3]),
    }


def test_entries_are_the_same_whatever_the_writers_schema() -> None:
    seen: Counter[str] = Counter()
    schema = entry_schema(PARTITION)
    for seed in range(SEED, SEED + 150):
        pick = random.Random(seed)
        is_deletes = pick.random() < 0.3
        entries = [random_entry(pick, n, is_deletes=is_deletes) for n in range(pick.choice([0, 1, 2, 20]))]
        source = ManifestFile(
            path="/t/m.avro",
            spec_id=0,
            is_deletes=is_deletes,
            sequence_number=7,
            snapshot_id=70,
            first_row_id=9,
        )
        given = {"format-version": "2", "partition-spec-id": "0"}
        plain = write(schema, entries, format_version="2", partition_spec_id="0")
        kind = pick.choice(["all", "none", "some"])
        odd = rewrite(schema, entries, OddWriter(pick, kind), given)
        for deleted in (False, True):
            expected = parse_manifest(plain, source, SPECS, deleted=deleted)
            assert parse_manifest(odd, source, SPECS, deleted=deleted) == expected, f"TWOSTAGE_SEED={seed}"
        assert len(expected) == len(entries), f"TWOSTAGE_SEED={seed}"
        for one, file in zip(entries, expected, strict=True):
            sizes = one["data_file"]["column_sizes"]
            found = list(file.column_sizes.items())
            assert found == [(pair["key"], pair["value"]) for pair in sizes or ()], f"TWOSTAGE_SEED={seed}"
        few = [list(iterate_manifest(data, source, SPECS, without=METRIC_FIELDS)) for data in (plain, odd)]
        assert few[0] == few[1], f"TWOSTAGE_SEED={seed}"
        assert not any(file.column_sizes or file.lower_bounds for file in few[1]), f"TWOSTAGE_SEED={seed}"
        walked = count_rows(odd, source, SPEC)
        if walked is not None:
            seen["walked"] += 1
            assert walked == count_rows(plain, source, SPEC), f"TWOSTAGE_SEED={seed}"
        seen[kind] += 1
    assert min(seen.values()) > 10, seen


def test_manifest_lists_are_the_same_whatever_the_writers_schema(tmp_path: Path) -> None:
    for seed in range(SEED, SEED + 100):
        pick = random.Random(seed)
        records = []
        for n in range(pick.randint(0, 4)):
            summaries = [
                {
                    "contains_null": pick.random() < 0.5,
                    "contains_nan": pick.choice([None, True, False]),
                    "lower_bound": pick.choice([None, b"\1"]),
                    "upper_bound": pick.choice([None, b"\2"]),
                }
                for _ in range(pick.randint(0, 3))
            ]
            changes = {
                "content": pick.choice([0, 1]),
                "sequence_number": pick.randint(0, 9),
                "partitions": pick.choice([None, summaries]),
                "existing_files_count": pick.randint(0, 9),
                "added_rows_count": pick.randint(0, 10**12),
                "first_row_id": pick.choice([None, 0, 5]),
            }
            records.append(listed(f"/t/{n}", **changes))
        found = []
        for name, data in (
            ("plain", write(LIST_SCHEMA, records)),
            ("odd", rewrite(LIST_SCHEMA, records, OddWriter(pick, pick.choice(["all", "none", "some"])), {})),
        ):
            path = tmp_path / f"{name}.avro"
            path.write_bytes(data)
            snapshot = Snapshot(snapshot_id=1, manifest_list=str(path))
            found.append(read_manifest_list(Storage(root=str(tmp_path)), snapshot))
        assert found[0] == found[1], f"TWOSTAGE_SEED={seed}"
        assert [one.path for one in found[1]] == [f"/t/{n}" for n in range(len(records))]


@pytest.mark.parametrize("version", [1, 2, 3])
@pytest.mark.parametrize("number", range(4))
def test_tables_of_odd_writers(tmp_path: Path, version: int, number: int) -> None:
    """Pruned, deleted from and read by whatever schema their manifests and lists have."""
    seed = SEED * 100 + 10 * version + number
    pick = random.Random(seed)
    columns = {"id": "long", "p": "string", "d": "date", "v": "double"}
    table = Table(tmp_path, columns, version=version, partition=["p", "d"])
    rows = ids(12, p=lambda i: "abc"[i % 3], d=lambda i: i % 2, v=lambda i: i / 2)
    files = table.append_all(rows)
    live = set(range(12))
    if version > 1:
        table.delete_equal(["id"], [{"id": 0}, {"id": 6}], like=files[0])
        live -= {0, 6}
    if version == 2:
        table.delete_positions({files[1]: [0]})
        live -= {files[1].rows[0][1]}
    table.write()
    for path in sorted((tmp_path / "metadata").glob("*.avro")):
        rewrite_file(path, pick)
    print(f"TWOSTAGE_SEED={SEED}, random generator {seed}")  # noqa: T201 - shown where the test fails
    check(table, live)
    result = check(table, [i for i in live if i % 3 == 1], lambda c: Compare("=", c("p"), "b"))
    assert result.count("files.pruned.partition") == 4
    check(table, [i for i in live if i > 9], lambda c: Compare(">", c("v"), 4.5))


LISTED = ManifestFile(path="/t/m.avro", spec_id=0, sequence_number=7, snapshot_id=70)
PLAIN = {0: PartitionSpec(spec_id=0)}


def test_a_file_or_partition_that_is_null_is_refused() -> None:
    schema = entry_schema(PARTITION)
    schema["fields"][-1]["type"] = optional(schema["fields"][-1]["type"])
    with pytest.raises(CorruptFileError, match="CORRUPT_MANIFEST"):
        parse_manifest(write(schema, [{"status": 1, "data_file": None}]), LISTED, SPECS)
    file = schema["fields"][-1]["type"][1]["fields"][3]
    assert file["name"] == "partition"
    file["type"] = optional(file["type"])
    data = write(schema, [entry(partition=None)])
    with pytest.raises(CorruptFileError, match="CORRUPT_MANIFEST"):
        parse_manifest(data, LISTED, SPECS)
    (found,) = parse_manifest(
        data, LISTED, PLAIN
    )  # nothing to know: without fields the partition is the table
    assert found.partition == {}


def test_two_fields_of_one_id_are_refused() -> None:
    schema = entry_schema([])
    schema["fields"][-1]["type"]["fields"].append(field("file_path_again", 100, "string"))
    one = entry()
    one["data_file"]["file_path_again"] = "/t/other"
    with pytest.raises(CorruptFileError, match="two fields of one field id"):
        parse_manifest(write(schema, [one]), LISTED, PLAIN)


def test_a_schema_that_refers_to_itself_is_refused() -> None:
    schema = entry_schema([])
    inner = {"type": "record", "name": "node", "fields": [{"name": "next", "type": ["null", "node"]}]}
    schema["fields"].append({"name": "chain", "type": ["null", inner]})
    with pytest.raises(CorruptFileError, match="refers to itself"):
        parse_manifest(write(schema, [{**entry(), "chain": None}]), LISTED, PLAIN)


def test_a_schema_that_unfolds_without_bound_is_refused() -> None:
    """Thirty named types, each twice the one before."""
    schema = entry_schema([])
    for n in range(30):
        inner: Any = "int" if n == 0 else f"t{n - 1}"
        fields = [{"name": name, "type": ["null", inner]} for name in ("a", "b")]
        record = {"type": "record", "name": f"t{n}", "fields": fields}
        schema["fields"].append({"name": f"extra{n}", "type": ["null", record]})
    with pytest.raises(CorruptFileError, match="nested too deep"):
        parse_manifest(write(schema, [entry()]), LISTED, PLAIN)


def test_the_record_itself_may_be_optional() -> None:
    entries = [entry("/t/a"), entry("/t/b", status=0, sequence=3)]
    schema = entry_schema([])
    plain = parse_manifest(manifest(entries), LISTED, PLAIN)
    for union in ([schema], ["null", schema], [schema, "null"]):
        stream = io.BytesIO()
        fastavro.writer(stream, fastavro.parse_schema(union), entries, metadata={"format-version": "2"})
        assert parse_manifest(stream.getvalue(), LISTED, PLAIN) == plain


def test_version_1_names_the_counts_of_files_otherwise(tmp_path: Path) -> None:
    """By name alone, as by id."""
    names = {f"{kind}_files_count": f"{kind}_data_files_count" for kind in ("added", "existing", "deleted")}
    schema = without_ids(LIST_SCHEMA)
    for part in schema["fields"]:
        part["name"] = names.get(part["name"], part["name"])
    record = {names.get(name, name): value for name, value in listed("/t/a", existing_files_count=3).items()}
    path = tmp_path / "list.avro"
    path.write_bytes(write(schema, [record]))
    (found,) = read_manifest_list(
        Storage(root=str(tmp_path)), Snapshot(snapshot_id=1, manifest_list=str(path))
    )
    assert (found.added_files, found.existing_files, found.deleted_files) == (1, 3, 0)


def test_arrays_whose_blocks_tell_their_size() -> None:
    """A negative count, then the bytes to skip: as a writer has it that does not know the length beforehand."""

    def encoded(kind: Any, value: Any) -> bytes:
        stream = io.BytesIO()
        fastavro.schemaless_writer(stream, kind, value)
        return stream.getvalue()

    def in_blocks(kind: Any, items: list[Any]) -> bytes:
        first, rest = (b"".join(encoded(kind, item) for item in part) for part in (items[:2], items[2:]))
        return (
            encoded("long", -2) + encoded("long", len(first)) + first
            + (encoded("long", -(len(items) - 2)) + encoded("long", len(rest)) + rest if rest else b"")
            + b"\0"
        )  # fmt: skip

    schema = entry_schema([])
    pairs = [{"key": key, "value": key * 1000} for key in (1, 2, 300)]
    expected = parse_manifest(
        write(schema, [entry(column_sizes={1: 1000, 2: 2000, 300: 300_000}, split_offsets=[4, 2**40])]),
        LISTED,
        PLAIN,
    )
    data_file = schema["fields"][-1]["type"]
    parts = []
    plain = entry()["data_file"]
    for part in data_file["fields"]:
        kind = part["type"]
        if part["name"] == "column_sizes":
            parts.append(b"\2" + in_blocks(kind[1]["items"], pairs))
        elif part["name"] == "split_offsets":
            parts.append(b"\2" + in_blocks("long", [4, 2**40]))
        else:
            parts.append(encoded(kind, plain.get(part["name"])))
    block = encoded("int", 1) + 3 * b"\0" + b"".join(parts)
    head, sync = io.BytesIO(), b"0123456789abcdef"
    fastavro.writer(head, schema, [], metadata={"format-version": "2"}, codec="null", sync_marker=sync)
    data = head.getvalue() + encoded("long", 1) + encoded("long", len(block)) + block + sync
    assert parse_manifest(data, LISTED, PLAIN) == expected
    assert count_rows(data, LISTED, PLAIN[0]) == (1, 10)


@pytest.mark.parametrize("number", range(6))
def test_data_and_delete_files_of_odd_writers(tmp_path: Path, number: int) -> None:
    """Avro files with columns of their own, unions and names of any kind: by field id they are the same."""
    seed = SEED * 100 + number
    pick = random.Random(seed)
    print(f"TWOSTAGE_SEED={SEED}, random generator {seed}")  # noqa: T201 - shown where the test fails
    columns = {"id": "long", "k": "fixed[3]", "d": "date", "m": "decimal(9,2)", "u": "uuid", "s": "string"}
    table = Table(tmp_path, columns, version=2)
    rows = ids(
        20,
        k=lambda i: bytes([i % 3, 0, 255]),
        d=lambda i: i % 5 or None,
        m=lambda i: Decimal(i - 9) / 4,
        u=lambda i: f"00000000-0000-0000-0000-0000000000{i % 4:02}",
        s=lambda i: "é" * (i % 3),
    )
    file = table.append(rows, format="avro")
    chosen = pick.sample(["k", "d", "m", "u", "s"], 2)
    table.delete_equal(["id", *chosen], rows[:4], "avro", extra=["m"])
    table.delete_equal(["k"], [{"k": bytes([1, 0, 255])}], "avro")
    table.delete_positions({file: [5, 6, 7]}, "avro")
    for path in sorted((tmp_path / "data").glob("*.avro")):
        rewrite_file(path, pick)
    live = [i for i in range(20) if i > 3 and i % 3 != 1 and i not in (5, 6, 7)]
    check(table, live)
    check(table, [i for i in live if i % 3 == 2], lambda c: Compare("=", c("k"), bytes([2, 0, 255])))
