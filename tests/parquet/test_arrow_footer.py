"""Footers that Arrow refuses and other readers do not: DuckDB's rows of the same file, or an error that says so.

The files are pyarrow's own, with single elements of their schemas written anew.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from single_file_tables import single_file_table
from thrift_writer import struct

import oracle
from check import Columns
from core_scan import open_table, scan
from tables import Table
from twostage.columns import project_names
from twostage.errors import CorruptFileError, UnsupportedFeatureError
from twostage.parquet.footer import parse_footer
from twostage.parquet.thrift import read_struct, struct_spans
from twostage.predicates.predicate import Compare, IsNull

ROOT = os.environ.get("TWOSTAGE_TABLES", "")
COUNT = 400
PAIR = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.int64())])
DATA = pa.table(
    {
        "id": pa.array(range(COUNT), pa.int64()),
        "m": pa.array(
            [None if i % 5 == 0 else [(f"k{j}", j) for j in range(i % 4)] for i in range(COUNT)],
            pa.map_(pa.string(), pa.int64()),
        ),
        "l": pa.array(
            [None if i % 7 == 0 else [i, None][: i % 3] for i in range(COUNT)], pa.list_(pa.int64())
        ),
        "s": pa.array(
            [None if i % 6 == 0 else {"x": i} for i in range(COUNT)], pa.struct([("x", pa.int64())])
        ),
        "n": pa.array([None if i % 3 == 0 else i for i in range(COUNT)], pa.int64()),
        "t": pa.array([f"text {i}" for i in range(COUNT)], pa.string()),
        "f": pa.array([None if i % 4 == 0 else b"%04d" % i for i in range(COUNT)], pa.binary(4)),
    }
)
NULL_TYPE, DATE, UNKNOWN = ({number: ("struct", {})} for number in (11, 6, 20))


def written(path: Path, data: pa.Table) -> bytes:
    """Write a file of small pages; return its footer."""
    pq.write_table(
        data,
        path,
        store_schema=False,
        row_group_size=150,
        data_page_size=100,
        write_batch_size=10,
        write_page_index=True,
    )
    raw = path.read_bytes()
    return raw[-8 - int.from_bytes(raw[-8:-4], "little") : -8]


def replace_footer(path: Path, old: bytes, new: bytes) -> None:
    pages = path.read_bytes()[: -8 - len(old)]
    path.write_bytes(pages + new + len(new).to_bytes(4, "little") + b"PAR1")


def annotate(path: Path, data: pa.Table, changes: dict[tuple[str, ...], dict[int, tuple[str, Any]]]) -> None:
    """Write a file whose schema elements have other annotations: fields 6 and 10 by the names that lead there."""
    footer = written(path, data)
    out, at = b"", 0
    tree = parse_footer(footer, path.stat().st_size, str(path)).schema
    for (start, end), names in zip(struct_spans(footer, 2), names_of(tree, ()), strict=True):
        element = footer[start:end]
        if names in changes:
            kept = {
                number: ("binary" if number == 4 else "i32", value)
                for number, value in read_struct(element)[0].items()
                if number not in (6, 7, 8, 10)
            }
            element = struct({**kept, **changes[names]})
        out += footer[at:start] + element
        at = end
    replace_footer(path, footer, out + footer[at:])


def names_of(node: Any, above: tuple[str, ...]) -> Any:
    yield above
    for child in node.children:
        yield from names_of(child, (*above, child.name))


def null_type(converted: int | None = None) -> dict[int, tuple[str, Any]]:
    return {10: ("struct", NULL_TYPE), **({} if converted is None else {6: ("i32", converted)})}


CASES = {
    "null type on a map's pairs": {("m", "key_value"): null_type(2)},
    "null type on a map that its converted type calls one": {("m",): null_type(1)},
    "null type on a map of pairs, both ways": {("m",): null_type(2), ("m", "key_value"): null_type(2)},
    "null type on a list that its converted type calls one": {
        ("l",): null_type(3),
        ("l", "list"): null_type(),
    },
    "null type on a struct": {("s",): null_type()},
    "date on a struct": {("s",): {10: ("struct", DATE)}},
    "a type to come on a struct": {("s",): {10: ("struct", UNKNOWN)}},
    "a struct called a list": {("s",): {6: ("i32", 3)}},
    "a struct called a map": {("s",): {6: ("i32", 1)}},
    "text on bytes of a fixed length": {("f",): {6: ("i32", 0)}},
    "null type everywhere on groups": {
        ("m", "key_value"): null_type(),
        ("l", "list"): null_type(),
        ("s",): null_type(),
    },
}


def rows_of(table: pa.Table) -> list[tuple[object, ...]]:
    return [row for batch in table.to_batches() for row in oracle.batch_rows(batch)]


@pytest.mark.parametrize("name", [*CASES])
def test_annotations_that_arrow_refuses_are_left_out(tmp_path: Path, name: str) -> None:
    path = tmp_path / "file.parquet"
    annotate(path, DATA, CASES[name])
    with pytest.raises((pa.ArrowException, OSError)):
        pq.ParquetFile(path).schema_arrow  # noqa: B018 - what is asked is whether it can be
    expected = rows_of(DATA)
    # DuckDB refuses a map of pairs of the older name, and shows a struct that is called a list as its child.
    columns = {"both ways": "", "called a": "id, m, l, n, t, f"}
    asked = next((listed for part, listed in columns.items() if part in name), "*")
    found = duckdb.sql(f"SELECT {asked} FROM read_parquet('{path}')").to_arrow_table() if asked else DATA
    same = DATA.select(found.column_names)
    assert not oracle.difference(rows_of(found.cast(same.schema)), rows_of(same))
    opened_as = single_file_table(tmp_path / "table", path, DATA.schema, COUNT, "parquet")
    for pages in ("auto", "always", "never"):
        opened = open_table(opened_as, allowed_locations=str(tmp_path), **{"read.pages": pages})
        c = Columns(opened.table.schema)
        assert not oracle.difference(scan(opened).rows, expected)
        few = scan(opened, predicate=Compare("=", c("id"), 237)).rows
        assert not oracle.difference(few, expected[237:238])
        missing = scan(opened, project_names(opened.table.schema, ["id"]), predicate=IsNull(c("m"))).rows
        assert sorted(row[0][1] for row in missing) == list(range(0, COUNT, 5))


MAP = struct({3: ("i32", 1), 4: ("binary", b"m"), 5: ("i32", 1), 6: ("i32", 1)})
REPEATED = struct({3: ("i32", 2), 4: ("binary", b"list"), 5: ("i32", 2)})
LISTS = pa.list_(pa.field("element", PAIR, nullable=False))


def without_the_middle(path: Path, data: pa.Table) -> None:
    """Write lists of pairs as maps with optional keys: the group between pairs and their parts has no level."""
    footer = written(path, data)
    spans = struct_spans(footer, 2)
    names = [read_struct(footer[start:end])[0][4] for start, end in spans]
    kept = [
        {b"m": MAP, b"list": REPEATED}.get(name, footer[start:end])
        for name, (start, end) in zip(names, spans, strict=True)
        if name != b"element"
    ]
    old = bytes([len(spans) << 4 | 12]) if len(spans) < 15 else bytes([0xFC, len(spans)])
    head = footer[: spans[0][0]]
    assert head.endswith(old)
    tail = footer[spans[-1][1] :]
    for depth, above in ((4, b"\x01m"), (5, b"\x01d\x01m")):
        path_of = bytes([depth << 4 | 8]) + above + b"\x04list\x07element"
        tail = tail.replace(path_of, bytes([depth - 1 << 4 | 8]) + above + b"\x04list")
    replace_footer(
        path, footer, head.removesuffix(old) + bytes([len(kept) << 4 | 12]) + b"".join(kept) + tail
    )


def loose_maps(path: Path) -> pa.Table:
    """Write maps with optional keys, as old writers did, at the top and in a list; return what they hold."""
    rows = [
        None if i % 5 == 0 else [{"key": f"k{j}", "value": j or None} for j in range(i % 4)]
        for i in range(COUNT)
    ]
    data = pa.table(
        {
            "id": pa.array(range(COUNT), pa.int64()),
            "m": pa.array(rows, LISTS),
            "d": pa.array(
                [{"m": row, "y": i} for i, row in enumerate(rows)],
                pa.struct([("m", LISTS), ("y", pa.int64())]),
            ),
        }
    )
    without_the_middle(path, data)
    pairs = [None if row is None else [(one["key"], one["value"]) for one in row] for row in rows]
    kind = pa.map_(pa.string(), pa.int64())
    nested = pa.struct([("m", kind), ("y", pa.int64())])
    return pa.table(
        {
            "id": data["id"],
            "m": pa.array(pairs, kind),
            "d": pa.array([{"m": row, "y": i} for i, row in enumerate(pairs)], nested),
        }
    )


def test_maps_with_optional_keys(tmp_path: Path) -> None:
    path = tmp_path / "file.parquet"
    holds = loose_maps(path)
    with pytest.raises(pa.ArrowInvalid, match="keys must be annotated"):
        pq.ParquetFile(path)
    expected = rows_of(holds)
    asked = duckdb.sql(f"SELECT * FROM read_parquet('{path}')").to_arrow_table().cast(holds.schema)
    assert not oracle.difference(rows_of(asked), expected)
    metadata = single_file_table(tmp_path / "table", path, holds.schema, COUNT, "parquet")
    for pages in ("auto", "always", "never"):
        opened = open_table(metadata, allowed_locations=str(tmp_path), **{"read.pages": pages})
        schema = opened.table.schema
        assert not oracle.difference(scan(opened).rows, expected)
        few = scan(opened, predicate=Compare("=", Columns(schema)("id"), 237)).rows
        assert not oracle.difference(few, expected[237:238])
        (part,) = scan(
            opened, project_names(schema, ["d.y"]), predicate=Compare("=", Columns(schema)("id"), 5)
        ).rows
        assert part == (("struct", (("int", 5),)),)
        assert len(scan(opened, predicate=IsNull(Columns(schema)("m"))).rows) == COUNT // 5


def test_a_map_key_that_is_null_is_a_typed_error(tmp_path: Path) -> None:
    path = tmp_path / "file.parquet"
    without_the_middle(path, pa.table({"id": [1], "m": pa.array([[{"key": None, "value": 1}]], LISTS)}))
    schema = pa.schema([("id", pa.int64()), ("m", pa.map_(pa.string(), pa.int64()))])
    opened = open_table(
        single_file_table(tmp_path / "table", path, schema, 1, "parquet"), allowed_locations=str(tmp_path)
    )
    with pytest.raises(CorruptFileError, match=r"NULL_IN_REQUIRED_COLUMN.*'m'.*key that is NULL"):
        scan(opened)


def test_equality_deletes_in_such_a_file(tmp_path: Path) -> None:
    table = Table(tmp_path, {"id": "long", "n": "long"})
    table.append([{"id": i, "n": i} for i in range(10)])
    delete = table.delete_equal(["n"], [{"n": 3}, {"n": 5}])
    metadata = table.write()
    path = Path(delete.path)
    annotate(path, pq.read_table(path), {("n",): {9: ("i32", 2), 6: ("i32", 0)}})
    with pytest.raises((pa.ArrowException, OSError)):
        pq.ParquetFile(path)
    found = sorted(row[0][1] for row in scan(open_table(metadata)).rows)
    assert found == [i for i in range(10) if i not in (3, 5)]


def test_what_arrow_cannot_read_either_way_is_said_so(tmp_path: Path) -> None:
    """Bytes of a fixed length of zero."""
    path = tmp_path / "file.parquet"
    data = pa.table({"id": [1], "f": pa.array([b"abcd"], pa.binary(4))})
    annotate(path, data, {("f",): {2: ("i32", 0)}})
    schema = pa.schema([("id", pa.int64()), ("f", pa.binary())])
    opened = open_table(
        single_file_table(tmp_path / "table", path, schema, 1, "parquet"), allowed_locations=str(tmp_path)
    )
    with pytest.raises(
        UnsupportedFeatureError, match=r"UNREADABLE_BY_ARROW.*cannot read the file's schema.*file\.parquet"
    ):
        scan(opened)


@pytest.mark.skipif(not ROOT, reason="TWOSTAGE_TABLES is not set")
def test_maps_with_optional_keys_of_an_old_writer(tmp_path: Path) -> None:
    files = sorted(Path(ROOT).rglob("incorrect_map_schema.parquet"))
    assert files
    for number, path in enumerate(files):
        found = duckdb.sql(f"SELECT * FROM read_parquet('{path}')").to_arrow_table()
        kind = pa.schema([(name, pa.map_(pa.string(), pa.string())) for name in found.column_names])
        metadata = single_file_table(tmp_path / str(number), path, kind, found.num_rows, "parquet")
        rows = scan(open_table(metadata, allowed_locations=ROOT)).rows
        assert rows
        assert not oracle.difference(rows, rows_of(found.cast(kind)))
