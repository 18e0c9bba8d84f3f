"""Shredded variants out of the middle of Arrow arrays: whatever the offsets, the rows are their own.

Expected values are made together with the shredded rows, and read back by the decoder of `variant_rows`.
"""

from __future__ import annotations

import base64
import os
import random
from collections import Counter
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from twostage.formats.variant import shredding
from twostage.formats.variant.shredding import reconstruct
from variant_rows import EMPTY, NULL, decoded, metadata_of, read_file, shredded, small_object, text

if TYPE_CHECKING:
    from pathlib import Path

SEED = int(os.environ.get("TWOSTAGE_SEED", "11"))
NAMES = ("b", "a", "Z", "ä", "field", "c")
SCALARS: tuple[tuple[pa.DataType, Any, Any], ...] = (
    (pa.int64(), 7, (6, (7).to_bytes(8, "little"))),
    (pa.bool_(), True, True),
    (pa.string(), "short", "short"),
    (pa.string(), "l" * 70, "l" * 70),
    (pa.binary(), b"\x00\x01", b"\x00\x01"),
    (pa.binary(16), bytes(range(16)), (20, bytes(range(16)))),
    (pa.float64(), 0.0, (7, bytes(8))),
    (pa.dictionary(pa.int32(), pa.string()), "often", "often"),
    (pa.dictionary(pa.int8(), pa.binary()), b"\x05", b"\x05"),
)


class Rows:
    """A random shredding schema, and random rows for it with what they mean."""

    def __init__(self, source: random.Random) -> None:
        self.source = source
        self.met = Counter[str]()

    def kind(self, depth: int) -> Any:
        """Return a description of a type: None, a scalar's, or that of what an array or an object holds."""
        chosen = self.source.random()
        if chosen < 0.1:
            return None
        if depth == 0 or chosen < 0.4:
            return self.source.choice(SCALARS)
        if chosen < 0.65:
            return [self.kind(depth - 1)]
        names = self.source.sample(NAMES[:5], self.source.randint(1, 3))
        return {name: self.kind(depth - 1) for name in names}

    def arrow(self, kind: Any, *, metadata: bool = False) -> pa.DataType:
        """Return the type as Arrow has it."""
        if isinstance(kind, tuple):
            return shredded(kind[0], metadata=metadata)
        if isinstance(kind, list):
            make = self.source.choice((pa.list_, pa.large_list))
            return shredded(make(self.arrow(kind[0])), metadata=metadata)
        if kind is None:
            return shredded(None, metadata=metadata)
        inner = pa.struct([pa.field(name, self.arrow(one)) for name, one in kind.items()])
        return shredded(inner, metadata=metadata)

    def row(self, kind: Any, names: tuple[str, ...]) -> tuple[dict[str, Any], Any]:
        """Return the parts of a variant that is there, and its value."""
        chosen = self.source.random()
        if kind is None or chosen < 0.3:
            self.met["value"] += 1
            if chosen < 0.1:
                return {"value": NULL}, None
            if isinstance(kind, dict):
                return {"value": text("none")}, "none"
            if "c" in names and chosen < 0.2:
                return {"value": small_object([names.index("c")], [text("x")])}, {"c": "x"}
            return {"value": text("other")}, "other"
        if isinstance(kind, tuple):
            self.met[str(kind[0])] += 1
            return {"typed_value": kind[1]}, kind[2]
        if isinstance(kind, list):
            parts = [self.row(kind[0], names) for _ in range(self.source.choice((0, 1, 2, 3, 5)))]
            self.met["array"] += 1
            return {"typed_value": [part for part, _ in parts]}, [value for _, value in parts]
        self.met["object"] += 1
        typed: dict[str, Any] = {}
        found: dict[str, Any] = {}
        for name, one in kind.items():
            typed[name] = {}
            if self.source.random() < 0.7:
                typed[name], found[name] = self.row(one, names)
        if "c" in names and self.source.random() < 0.4:
            self.met["part of an object"] += 1
            return {"value": small_object([names.index("c")], [text("rest")]), "typed_value": typed}, {
                **found,
                "c": "rest",
            }
        return {"typed_value": typed}, found

    def rows(self, kind: Any, count: int) -> tuple[list[dict[str, Any] | None], list[Any]]:
        """Return rows of a column, and their values; "NULL" for those that are not there."""
        rows: list[dict[str, Any] | None] = []
        values = []
        for _ in range(count):
            if self.source.random() < 0.15:
                rows.append(None)
                values.append("NULL")
                continue
            names = self.source.choice(((), ("c",), ("a", "c"), NAMES))
            parts, value = self.row(kind, names)
            rows.append({"metadata": metadata_of(*names) if names else EMPTY, **parts})
            values.append(value)
        return rows, values


def check(array: pa.Array, expected: list[Any]) -> None:
    values, metadata = reconstruct(array)
    for one in (values, metadata):
        one.validate(full=True)
    found = [
        "NULL" if value is None else decoded(names, value)
        for names, value in zip(metadata.to_pylist(), values.to_pylist(), strict=True)
    ]
    assert found == expected


@pytest.mark.parametrize("at_once", [8_192, 13])
def test_slices(monkeypatch: pytest.MonkeyPatch, at_once: int) -> None:
    monkeypatch.setattr(shredding, "ROWS_AT_ONCE", at_once)
    source = random.Random(SEED)
    made = Rows(source)
    for number in range(150):
        kind = made.kind(3)
        count = source.choice((0, 1, 9, 40))
        rows, expected = made.rows(kind, count)
        array = pa.array(rows, made.arrow(kind, metadata=True))
        for _ in range(4):
            start = source.randint(0, count)
            length = source.randint(0, count - start)
            try:
                check(array.slice(start, length), expected[start : start + length])
            except Exception as error:
                error.add_note(f"seed {SEED}, array {number}, rows {start} and {length} more, {array.type}")
                raise
    assert len(made.met) >= 10, made.met


def test_slices_of_the_children() -> None:
    """Structs whose children begin elsewhere than they do themselves, as filters and joins of arrays make them."""
    source = random.Random(SEED + 1)
    made = Rows(source)
    for number in range(100):
        kind = made.kind(2)
        rows, expected = made.rows(kind, 40)
        rows, expected = (
            [row for row in rows if row is not None],
            [value for value in expected if value != "NULL"],
        )
        array = pa.array(rows, made.arrow(kind, metadata=True))
        skipped = source.randint(1, 17)
        children = [child.slice(skipped) for child in array.flatten()]
        moved = pa.StructArray.from_arrays(children, fields=list(array.type))
        try:
            check(moved.slice(2), expected[skipped + 2 :])
        except Exception as error:
            error.add_note(f"seed {SEED}, array {number}, from {skipped}, {array.type}")
            raise


def test_values_that_share_their_bytes() -> None:
    """A thousand fields of an object that all begin at one byte would be a thousand times as long, put together."""
    count, body = 250, b"x" * 10_000
    text_of = bytes([16 << 2]) + len(body).to_bytes(4, "little") + body
    offsets = b"".join(offset.to_bytes(4, "little") for offset in [0] * count + [len(text_of)])
    shared = bytes([2 | 3 << 2, count, *range(count)]) + offsets + text_of
    names = metadata_of(*(chr(ord("A") + i // 26) + chr(ord("a") + i % 26) for i in range(100)))
    row = {"metadata": names, "value": shared, "typed_value": {"x": {}}}
    kind = shredded(pa.struct([("x", shredded(pa.int64()))]), metadata=True)
    with pytest.raises(ValueError, match="longer than its bytes"):
        reconstruct(pa.array([row], kind))


def test_names_that_another_row_made() -> None:
    """A number that the row's own metadata lacks names nothing, even if rows before it had names added."""
    kind = shredded(pa.struct([("a", shredded(pa.int64())), ("b", shredded(pa.int64()))]), metadata=True)
    nested = shredded(pa.struct([("n", kind_of_part(kind)), ("m", shredded(None))]), metadata=True)
    added = {"n": {"typed_value": {"a": {"typed_value": 1}, "b": {}}}, "m": {}}
    missing = {
        "n": {"value": small_object([0], [NULL]), "typed_value": {"a": {}, "b": {"typed_value": 1}}},
        "m": {},
    }
    for rows in ([missing], [added, missing]):
        column = pa.array([{"metadata": EMPTY, "typed_value": row} for row in rows], nested)
        with pytest.raises(ValueError, match="not in its metadata"):
            reconstruct(column)


def kind_of_part(kind: pa.DataType) -> pa.DataType:
    return pa.struct([field for field in kind if field.name != "metadata"])


def views_of(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(views_of(field.type)) for field in kind])
    return {pa.binary(): pa.binary_view(), pa.string(): pa.string_view()}.get(kind, kind)


@pytest.mark.parametrize("pages", ["auto", "always", "never"])
@pytest.mark.parametrize("is_shredded", [False, True])
def test_views(tmp_path: Path, pages: str, is_shredded: bool) -> None:  # noqa: FBT001
    """Rust's library stores an Arrow schema that asks for views of bytes and text."""
    inner = pa.struct([pa.field("a", shredded(pa.string()))]) if is_shredded else None
    kind = shredded(inner, metadata=True)
    row = {"metadata": EMPTY, "typed_value": {"a": {"typed_value": "y" * 20}}}
    rows = [{"metadata": EMPTY, "value": text("x")}, None, row if is_shredded else None] * 7
    data = pa.table({"id": pa.array(range(21), pa.int64()), "v": pa.array(rows, kind)})
    stored = pa.schema([("id", pa.int64()), ("v", views_of(kind))]).serialize()
    file = tmp_path / "views.parquet"
    with pq.ParquetWriter(
        file, data.schema, store_schema=False, data_page_size=64, write_page_index=True
    ) as writer:
        writer.write_table(data, row_group_size=7)
        writer.add_key_value_metadata({"ARROW:schema": base64.b64encode(stored)})
    assert pq.read_schema(file).field("v").type == views_of(kind)
    values = ["x", "NULL", {"a": "y" * 20} if is_shredded else "NULL"] * 7
    found = read_file(tmp_path, file, 21, **{"read.pages": pages})
    assert found == {i: value for i, value in enumerate(values) if i != 3}


def test_many_rows_of_arrays() -> None:
    """More rows than are put together at once, whose elements begin anywhere."""
    source = random.Random(SEED + 2)
    made = Rows(source)
    kind = [{"a": [SCALARS[0]], "b": SCALARS[7]}]
    rows, expected = made.rows(kind, 9_000)
    check(pa.array(rows, made.arrow(kind, metadata=True)), expected)
