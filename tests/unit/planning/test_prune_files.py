"""Pruning by partitions and metrics against rows evaluated one at a time: never drop a row that matches."""

from __future__ import annotations

import random
from collections import defaultdict
from typing import Any

import pytest

from partition_rows import (
    DAY,
    KINDS,
    data_file,
    evaluate,
    order,
    random_predicate,
    random_value,
    raw,
    transform,
)
from twostage.errors import CorruptFileError
from twostage.planning.prune_files import FilePruner
from twostage.predicates.predicate import TRUE, And, Column, Compare, In, StringMatch
from twostage.schema import Primitive
from twostage.table.manifest_entry import ContentFile, ManifestFile, PartitionSummary
from twostage.table.metadata import parse_metadata
from twostage.table.transforms import Transform, constants, value_bounds

ORDERED = ("truncate", "year", "month", "day", "hour", "identity")
CASES = [
    *[(name, "identity") for name in KINDS],
    *[(name, f"bucket[{n}]") for name in KINDS if name not in ("boolean", "float", "double") for n in (2, 7)],
    *[
        (name, f"truncate[{w}]") for name in ("int", "long") for w in (1, 3, 10, 16)
    ],  # near the type's ends Java's wrap around
    *[("decimal", f"truncate[{w}]") for w in (1, 50)],
    *[(name, f"truncate[{w}]") for name in ("string", "binary") for w in (1, 3)],
    *[("date", unit) for unit in ("year", "month", "day")],
    *[(name, unit) for name in ("timestamp", "timestamptz") for unit in ("year", "month", "day", "hour")],
]


def pruner(name: str, text: str, predicate: Any, *, sources: dict[str, Any] | None = None) -> FilePruner:
    kind = str(KINDS[name])
    metadata = parse_metadata(
        {
            "format-version": 3,
            "location": "/t",
            "schemas": [{"schema-id": 0, "fields": [{"id": 1, "name": "a", "type": kind}]}],
            "current-schema-id": 0,
            "partition-specs": [
                {
                    "spec-id": 0,
                    "fields": [
                        {"field-id": 1000, "name": "p", "transform": text, **(sources or {"source-id": 1})}
                    ],
                }
            ],
            "default-spec-id": 0,
        },
        location="/t/metadata/v1.metadata.json",
    )
    return FilePruner(metadata, metadata.schema, predicate)


def summary(name: str, text: str, values: list[Any]) -> PartitionSummary:
    """Return a manifest's summary of partition values as writers make it."""
    numbers = [v for v in values if v is not None and v == v]
    result = name if text.startswith(("identity", "truncate")) else "int"
    signed = sorted(numbers, key=order)
    return PartitionSummary(
        contains_null=None in values,
        contains_nan=any(v != v for v in values if v is not None),
        lower=raw(result, signed[0]) if signed else None,
        upper=raw(result, signed[-1]) if signed else None,
    )


def check(name: str, text: str, seed: int, compute: Any) -> tuple[int, int, int]:
    """Return how many manifests and files were pruned, and how many files matched wholly."""
    rng = random.Random(seed)
    by_partition: dict[Any, list[Any]] = defaultdict(list)
    for _ in range(60):
        value = None if rng.random() < 0.1 else random_value(rng, name)
        partition = compute(value)
        # Zeros are written as one partition by some and two by others; NaN is one partition.
        key = repr(partition) if isinstance(partition, float) else partition
        by_partition[key].append((value, partition))
    files: list[tuple[ContentFile, list[Any]]] = []
    for rows in by_partition.values():
        values = [value for value, _ in rows]
        files.append((data_file(rng, name, values, rows[0][1], place=len(files)), values))
    pool = [value for _, values in files for value in values]
    manifests = proven = dropped = 0
    for _ in range(40):
        predicate = random_predicate(rng, name, pool)
        judge = pruner(name, text, predicate)
        for file, values in files:
            verdict = judge.prune(file)
            results = [evaluate(predicate, value) for value in values]
            where = f"seed {seed}, {predicate}, partition {file.partition}, {values}"
            assert verdict.pruned_by is None or True not in results, where
            assert not verdict.all_match or set(results) == {True}, where
            dropped += verdict.pruned_by is not None
            proven += verdict.all_match
        some = rng.sample(files, rng.randint(1, min(4, len(files))))
        manifest = ManifestFile(
            path="/t/m.avro",
            spec_id=0,
            partitions=(summary(name, text, [file.partition[1000] for file, _ in some]),),
        )
        if not judge.manifest_may_match(manifest):
            manifests += 1
            rows = [value for _, values in some for value in values]
            assert True not in [evaluate(predicate, value) for value in rows], f"seed {seed}, {predicate}"
    return manifests, dropped, proven


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize(("name", "text"), CASES)
def test_no_matching_row_is_dropped(name, text, seed):
    manifests, dropped, proven = check(name, text, seed, lambda value: transform(text, name, value))
    assert dropped > 20
    assert proven > 5
    if name != "uuid" and text.startswith(ORDERED):
        assert manifests > 3


@pytest.mark.parametrize("unit", ["year", "month", "day", "hour"])
def test_early_writers_rounded_times_before_1970_up(unit):
    def compute(value):
        exact = transform(unit, "timestamp", value)
        return exact + 1 if exact is not None and exact < 0 else exact

    for seed in range(4):
        check("timestamp", unit, seed, compute)


@pytest.mark.parametrize("text", ["void", "zorder[4]", "truncate[0]", "bucket[-1]"])
def test_transforms_that_say_nothing_prune_nothing(text):
    column = Column(1, ("a",), Primitive("int"))
    judge = pruner("int", text, Compare("=", column, 5))
    file = data_file(random.Random(0), "int", [1, 2], 7)
    bare = ContentFile(
        **{
            name: getattr(file, name)
            for name in ContentFile.__slots__
            if "_counts" not in name and "bounds" not in name
        }
    )
    assert judge.prune(bare).pruned_by is None
    assert judge.manifest_may_match(
        ManifestFile(
            path="m", spec_id=0, partitions=(PartitionSummary(lower=b"\1\0\0\0", upper=b"\1\0\0\0"),)
        )
    )


def test_a_transform_of_several_columns_prunes_nothing():
    column = Column(1, ("a",), Primitive("int"))
    judge = pruner("int", "bucket[2]", Compare("=", column, 5), sources={"source-ids": [1, 2]})
    assert all(judge.prune(bare_file({1000: bucket})).pruned_by is None for bucket in (0, 1))


def bare_file(partition: dict[int, Any], **changes: Any) -> ContentFile:
    values = {
        "status": 1, "snapshot_id": 1, "sequence_number": 1, "file_sequence_number": 1, "spec_id": 0,
        "content": 0, "path": "/t/f.parquet", "format": "parquet", "partition": partition,
        "record_count": 10, "file_size": 1000,
    }  # fmt: skip
    return ContentFile(**{**values, **changes})


def test_in_list_is_pruned_by_bucket():
    column = Column(1, ("a",), Primitive("long"))
    home = transform("bucket[64]", "long", 5)
    away = (home + 1) % 64
    listed = pruner("long", "bucket[64]", In(column, (5,)))
    assert listed.prune(bare_file({1000: home})).pruned_by is None
    assert listed.prune(bare_file({1000: away})).pruned_by == "partition"
    differs = pruner("long", "bucket[64]", Compare("<>", column, 5))
    assert differs.prune(bare_file({1000: away})).all_match
    assert not differs.prune(bare_file({1000: home})).all_match


def test_short_truncated_string_is_the_value_itself():
    column = Column(1, ("a",), Primitive("string"))
    judge = pruner("string", "truncate[5]", StringMatch("suffix", column, "c"))
    assert judge.prune(bare_file({1000: "abc"})).all_match
    assert judge.prune(bare_file({1000: "abd"})).pruned_by == "partition"
    assert judge.prune(bare_file({1000: "abcde"})).pruned_by is None


def test_partition_and_metrics_prune_together():
    column = Column(1, ("a",), Primitive("timestamp"))
    predicate = And((Compare(">=", column, 5 * DAY), Compare("<", column, 5 * DAY + 100)))
    judge = pruner("timestamp", "day", predicate)
    late = {"lower_bounds": {1: raw("timestamp", 5 * DAY + 100)}}
    assert judge.prune(bare_file({1000: 4})).pruned_by == "partition"
    assert judge.prune(bare_file({1000: 5}, **late)).pruned_by == "bounds"
    assert judge.prune(bare_file({1000: 5})).pruned_by is None


def test_missing_partition_value_says_nothing():
    judge = pruner("int", "identity", Compare("=", Column(1, ("a",), Primitive("int")), 5))
    assert judge.prune(bare_file({})).pruned_by is None
    assert judge.prune(bare_file({1000: 4})).pruned_by == "partition"


def test_partition_value_of_the_wrong_type_is_an_error_that_names_the_file():
    judge = pruner("int", "identity", Compare("=", Column(1, ("a",), Primitive("int")), 5))
    with pytest.raises(CorruptFileError, match=r"CORRUPT_MANIFEST.*/t/f.parquet"):
        judge.prune(bare_file({1000: "five"}))


def test_without_predicate_all_rows_match_and_with_one_empty_files_go():
    judge = pruner("int", "identity", TRUE)
    assert judge.prune(bare_file({1000: 4})).all_match
    assert judge.prune(bare_file({1000: 4}, record_count=0)).pruned_by is None
    judge = pruner("int", "identity", Compare("=", Column(1, ("a",), Primitive("int")), 4))
    assert judge.prune(bare_file({1000: 4})).all_match
    assert judge.prune(bare_file({1000: 4}, record_count=0)).pruned_by == "bounds"


def test_nanosecond_timestamps():
    kind = Primitive("timestamp_ns")
    bounds = value_bounds(Transform("hour"), kind, 3, 10)
    assert (bounds.lower, bounds.upper) == (3 * 3_600_000_000_000, 4 * 3_600_000_000_000 - 1)
    bounds = value_bounds(Transform("month"), kind, 1, 10)
    assert (bounds.lower, bounds.upper) == (31 * DAY * 1000, 59 * DAY * 1000 - 1)


def test_constants_are_those_of_identity_fields():
    metadata = parse_metadata(
        {
            "format-version": 2,
            "location": "/t",
            "schemas": [{"schema-id": 0, "fields": [{"id": n, "name": f"c{n}", "type": t} for n, t in enumerate(("int", "string", "uuid", "long"), 1)]}],
            "current-schema-id": 0,
            "partition-specs": [
                {
                    "spec-id": 3,
                    "fields": [
                        {"field-id": 1000 + n, "source-id": n, "name": f"p{n}", "transform": text}
                        for n, text in enumerate(("identity", "identity", "identity", "bucket[4]", "identity"), 1)
                    ],
                }
            ],
            "default-spec-id": 3,
        },
        location="x",
    )  # fmt: skip
    types = {n: metadata.schema.field(n).type for n in range(1, 5)}
    partition = {1001: 7, 1002: None, 1003: b"\0" * 15 + b"\1", 1004: 2, 1005: 9}
    expected = {1: 7, 2: None, 3: "00000000-0000-0000-0000-000000000001"}
    assert constants(metadata.specs[3], partition, types) == expected
    assert constants(metadata.specs[3], {1001: 7}, types) == {1: 7}
