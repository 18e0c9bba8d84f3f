"""Tables with variants, at the top and deep inside, in a data file of any format.

Takes a folder and a format; returns a table's metadata file. Its data file is written by pyarrow or fastavro
as Iceberg lays variants out: two byte strings in a struct whose parts have no field ids.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.orc
import pyarrow.parquet as pq

from tables import Table

ROWS = 60
MISSING = 7
"""Every seventh variant is NULL."""


def variant(number: int) -> dict[str, bytes] | None:
    """Return the bytes of the variant ``{"a": number}``."""
    if number % MISSING == 0:
        return None
    return {"value": b"\x02\x01\x00\x00\x02\x0c" + bytes([number]), "metadata": b"\x01\x01\x00\x01a"}


def row(number: int) -> dict[str, Any]:
    one = variant(number)
    return {
        "id": number,
        "v": one,
        "deep": {"in": {"m": [("k", one), ("n", None)], "l": [one]}} if number % 5 else None,
    }


def with_id(name: str, kind: pa.DataType, field_id: int, key: str) -> pa.Field:
    return pa.field(name, kind, metadata={key: str(field_id)})


def arrow(key: str, variant_type: pa.DataType) -> pa.Table:
    inner = pa.map_(
        with_id("key", pa.string(), 6, key).with_nullable(False), with_id("value", variant_type, 7, key)
    )
    items = pa.list_(with_id("element", variant_type, 9, key))
    deep = pa.struct(
        [with_id("in", pa.struct([with_id("m", inner, 5, key), with_id("l", items, 8, key)]), 4, key)]
    )
    fields = [
        with_id("id", pa.int64(), 1, key), with_id("v", variant_type, 2, key), with_id("deep", deep, 3, key),
    ]  # fmt: skip
    return pa.Table.from_pylist([row(i) for i in range(ROWS)], pa.schema(fields))


def column(name: str, field_id: int, kind: Any) -> dict[str, Any]:
    return {"id": field_id, "name": name, "type": kind, "required": False}


def variant_table(folder: Path, file_format: str, *, names: tuple[str, ...] = ("metadata", "value")) -> Path:
    """Return the metadata of a table of one data file with variants; some of its rows are deleted."""
    table = Table(folder, {"id": "long"}, version=3)
    variant_type = pa.struct([pa.field(name, pa.binary()) for name in names])
    with table.transaction():
        file = table.append([{"id": i} for i in range(ROWS)], format=file_format)
        path = Path(file.path)
        if file_format == "parquet":
            pq.write_table(arrow("PARQUET:field_id", variant_type), path, row_group_size=20)
        elif file_format == "orc":
            pyarrow.orc.write_table(arrow("iceberg.id", variant_type), str(path))
        else:
            write_avro(path, names)
        file.entry["file_size_in_bytes"] = path.stat().st_size
        for metric in ("value_counts", "null_value_counts", "lower_bounds", "upper_bounds"):
            file.entry[metric] = dict(file.entry[metric] or {})
    table.delete_positions({file: [3]})
    metadata = table.write()
    raw = json.loads(metadata.read_text())
    pairs = {
        "type": "map",
        "key-id": 6,
        "key": "string",
        "value-id": 7,
        "value": "variant",
        "value-required": False,
    }
    items = {"type": "list", "element-id": 9, "element": "variant", "element-required": False}
    inner = {"type": "struct", "fields": [column("m", 5, pairs), column("l", 8, items)]}
    deep = {"type": "struct", "fields": [column("in", 4, inner)]}
    raw["schemas"][0]["fields"] += [column("v", 2, "variant"), column("deep", 3, deep)]
    raw["last-column-id"] = 9
    metadata.write_text(json.dumps(raw))
    return metadata


def write_avro(path: Path, names: tuple[str, ...]) -> None:
    def optional(kind: Any) -> Any:
        return ["null", kind]

    def variant_type(name: str) -> Any:
        fields = [{"name": part, "type": "bytes"} for part in names]
        return {"type": "record", "name": name, "logicalType": "variant", "fields": fields}

    pair = {
        "type": "record",
        "name": "pair",
        "fields": [
            {"name": "key", "type": "string", "field-id": 6},
            {"name": "value", "type": optional(variant_type("inner")), "field-id": 7},
        ],
    }
    pairs = {"type": "array", "items": pair, "logicalType": "map"}
    items = {"type": "array", "items": optional(variant_type("item")), "element-id": 9}
    parts = [
        {"name": "m", "type": optional(pairs), "field-id": 5},
        {"name": "l", "type": optional(items), "field-id": 8},
    ]
    inner = {"type": "record", "name": "within", "fields": parts}
    deep = {
        "type": "record",
        "name": "deep",
        "fields": [{"name": "in", "type": optional(inner), "field-id": 4}],
    }
    fields = [
        {"name": "id", "type": "long", "field-id": 1},
        {"name": "v", "type": optional(variant_type("v")), "field-id": 2},
        {"name": "deep", "type": optional(deep), "field-id": 3},
    ]

    def pairs_as_records(one: dict[str, Any]) -> dict[str, Any]:
        if one["deep"] is None:
            return one
        inner = one["deep"]["in"]
        pairs = [{"key": key, "value": value} for key, value in inner["m"]]
        return {**one, "deep": {"in": {**inner, "m": pairs}}}

    with path.open("wb") as file:
        schema = {"type": "record", "name": "table", "fields": fields}
        fastavro.writer(file, schema, [pairs_as_records(row(i)) for i in range(ROWS)])
