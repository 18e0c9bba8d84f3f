"""Parquet files with schema annotations that Arrow refuses: pyarrow's own files with single elements
rewritten.

Takes a path; writes the file there, with small pages, and returns its content.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from thrift_writer import struct
from twostage.formats.parquet.footer import parse_footer
from twostage.formats.parquet.thrift import read_struct, struct_spans

if TYPE_CHECKING:
    from pathlib import Path

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
    """Write a file with other annotations of schema elements: `changes` has fields 6 and 10 by path."""
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
    """Write maps with optional keys, as old writers did, at the top and in a list; return their content."""
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
