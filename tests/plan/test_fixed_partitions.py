"""Partition values of type fixed, as the header of the manifest announces them and as Iceberg's library writes them."""

from __future__ import annotations

import copy
import io
from typing import TYPE_CHECKING, Any

import fastavro
import pytest

from check import check, ids
from core_scan import open_table, scan
from tables import Table
from twostage.errors import CorruptFileError
from twostage.predicates.predicate import Compare

if TYPE_CHECKING:
    from pathlib import Path

KEYS = [b"\x00\x00\x01", b"\x7f\xff\x00", None, b"\x00\x00\x01"]


def _long(value: int) -> bytes:
    found = io.BytesIO()
    fastavro.schemaless_writer(found, {"type": "long"}, value)
    return found.getvalue()


def write_with_lengths(path: Path, *, grown: bool = False) -> None:
    """Write a manifest again: its header still says ``fixed``, each such value has its length before it."""
    with path.open("rb") as file:
        reader = fastavro.reader(file)
        schema: Any = reader.writer_schema
        records = list(reader)
    written = copy.deepcopy(schema)
    (data_file,) = (part for part in written["fields"] if part["name"] == "data_file")
    (partition,) = (part for part in data_file["type"]["fields"] if part["name"] == "partition")
    for part in partition["type"]["fields"]:
        sized = any(isinstance(kind, dict) and kind["type"] == "fixed" for kind in part["type"])
        if sized or part["type"][-1].__class__ is str and "fixed" in part["type"][-1]:
            part["type"] = ["null", "bytes"]
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
    path.write_bytes(head.getvalue() + _long(len(records)) + _long(len(body)) + body + sync)


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
