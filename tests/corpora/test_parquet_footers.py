"""Parquet files of other projects, good and bad: our footer is pyarrow's, or the error is typed."""

from __future__ import annotations

import datetime
import os
import uuid
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from footer_views import our_view, pyarrow_views, same_view
from twostage.errors import TwoStageError
from twostage.formats.parquet.bloom import bloom_may_contain
from twostage.formats.parquet.dictionary import dictionary_values
from twostage.formats.parquet.file_metadata import Footer, RowGroupMetadata
from twostage.formats.parquet.footer import read_footer
from twostage.formats.parquet.schema_tree import Leaf
from twostage.formats.parquet.statistics import row_group_bounds
from twostage.schema import Primitive

ROOT = os.environ.get("TWOSTAGE_TABLES", "")
pytestmark = pytest.mark.skipif(not ROOT, reason="TWOSTAGE_TABLES is not set")
EPOCH = datetime.datetime(1970, 1, 1)
EXPECTED_ERRORS = {"ENCRYPTED_PARQUET", "CORRUPT_PARQUET"}
MAP_KEYS_OPTIONAL = "incorrect_map_schema.parquet"
"""pyarrow refuses its schema, which is sound otherwise."""


def test_every_footer_is_pyarrows_or_a_typed_error() -> None:
    paths = sorted(
        path
        for path in Path(ROOT).rglob("*")
        if path.is_file() and ".parquet" in path.name and path.suffix in (".parquet", ".encrypted")
    )
    assert len(paths) > 200
    footers: dict[Path, Footer] = {}
    errors: Counter[str] = Counter()
    for path in paths:
        with pa.OSFile(str(path)) as file:
            try:
                footers[path] = read_footer(file, file.size(), str(path))
            except TwoStageError as error:
                assert error.path == str(path)
                errors[error.code] += 1
    assert set(errors) == EXPECTED_ERRORS
    assert sum(errors.values()) < len(paths) / 10
    views = pyarrow_views(list(footers))
    assert len(views) == len(footers)  # pyarrow aborted on none that we accepted
    for path, theirs in zip(footers, views, strict=True):
        if path.name == MAP_KEYS_OPTIONAL:
            continue
        assert "error" not in theirs, (path, theirs)
        same_view(our_view(footers[path]), theirs)


def kind_of(leaf: Leaf) -> Primitive | None:
    """Return the Iceberg type that a leaf is naturally read as."""
    name = leaf.logical.name if leaf.logical is not None else ""
    if name == "decimal" and leaf.logical is not None:
        return Primitive("decimal", leaf.logical.precision, leaf.logical.scale)
    if name == "timestamp" and leaf.logical is not None:
        return Primitive("timestamptz" if leaf.logical.utc else "timestamp")
    if name in ("date", "string", "uuid", "time"):
        return Primitive(name)
    plain = {0: "boolean", 1: "int", 2: "long", 4: "float", 5: "double", 6: "binary"}
    return Primitive(plain[leaf.physical]) if not name and leaf.physical in plain else None


def internal(value: Any, kind: Primitive) -> Any:
    """Put what pyarrow decoded in internal form."""
    if isinstance(value, datetime.datetime):
        return (value.replace(tzinfo=None) - EPOCH) // datetime.timedelta(microseconds=1)
    if isinstance(value, datetime.date):
        return (value - EPOCH.date()).days
    if isinstance(value, datetime.time):
        return (datetime.datetime.combine(EPOCH, value) - EPOCH) // datetime.timedelta(microseconds=1)
    if isinstance(value, uuid.UUID):
        return str(value)
    return str(uuid.UUID(bytes=value)) if kind.name == "uuid" else value


def test_metrics_filters_and_dictionaries_of_real_writers_never_exclude_their_rows() -> None:
    """What parquet-mr, Spark, Impala, Rust and others wrote: each value is within what the file says of it."""
    asked: Counter[str] = Counter()
    for path in sorted(Path(ROOT).rglob("*.parquet")):
        if "bad_data" in path.parts or path.stat().st_size > 2_000_000:
            continue
        with pa.OSFile(str(path)) as file:
            try:
                footer = read_footer(file, file.size(), str(path))
                reader = pq.ParquetFile(file)
            except (TwoStageError, pa.ArrowException, OSError):
                continue
            for leaf in footer.leaves:
                kind = kind_of(leaf)
                if kind is None or len(leaf.path) > 1:
                    continue
                for group in footer.row_groups:
                    check_chunk(file, reader, footer, group, leaf, kind, asked)
    assert asked["bounds"] > 300, asked
    assert asked["dictionary"] > 100, asked
    assert asked["bloom"] > 0, asked


def check_chunk(
    file: Any,
    reader: Any,
    footer: Footer,
    group: RowGroupMetadata,
    leaf: Leaf,
    kind: Primitive,
    asked: Counter[str],
) -> None:
    try:
        array = reader.read_row_group(group.index, columns=[leaf.path[0]]).column(0)
        values = [internal(value, kind) for value in array.to_pylist()]
    except (pa.ArrowException, OSError, UnicodeDecodeError, ValueError, OverflowError):
        return
    place = (footer.path, leaf.path, kind)
    known = row_group_bounds(footer, group, leaf, kind)
    present = [value for value in values if value is not None and value == value]
    if known.null_count is not None:
        assert known.null_count == values.count(None), place
    for value in present:
        assert known.lower is None or known.lower <= value, place
        assert known.upper is None or value <= known.upper, place
    asked["bounds"] += known.lower is not None
    chunk = group.columns[leaf.index]
    dictionary = dictionary_values(file, leaf, chunk)
    if dictionary is not None:
        asked["dictionary"] += 1
        listed = {internal(value, kind) for value in dictionary.to_pylist()}
        assert {value for value in present if value not in listed} == set(), place
    if chunk.bloom_filter_offset is not None:
        for value in set(present):
            assert bloom_may_contain(file, chunk, leaf, kind, [value]), place
        absent = [f"absent {i}" if kind.name == "string" else None for i in range(20)]
        spared = [v for v in absent if v and not bloom_may_contain(file, chunk, leaf, kind, [v])]
        asked["bloom"] += bool(spared)
