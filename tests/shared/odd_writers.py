"""Manifests and manifest lists as another writer might describe them: the same records under another Avro schema.

Takes a plain schema and a random generator; returns an equivalent schema, and the function that converts
plain records to it. What a writer may choose: unions, their order, the order of fields, fields of its own,
names where ids decide, ids left out where names decide, aliases, defaults, namespaces, named types that are
referred to, maps as arrays of pairs or as maps.
"""

from __future__ import annotations

import copy
import io
from typing import TYPE_CHECKING, Any

import fastavro

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    Convert = Callable[[Any], Any]

NAMES_OF_THE_SPEC = ("status", "content", "file_path", "record_count", "partition", "key", "manifest_path")
EXTRA: tuple[tuple[Any, Any], ...] = (
    ("string", "é"),
    ("long", -(2**40)),
    (["null", "int"], None),
    (["string", "null"], "x"),
    (["null", "string", "long"], 7),
    ({"type": "array", "items": "double"}, [0.5, 1.5]),
    ({"type": "map", "values": ["null", "bytes"]}, {"a": b"\x00", "b": None}),
    ("boolean", True),
)


class OddWriter:
    """One writer's way of describing schemas.

    Args:
        pick: Decides everything.
        ids: ``all``: each field keeps its id and gets any name; ``none``: names alone; ``some``: either.
    """

    def __init__(self, pick: random.Random, ids: str) -> None:
        self.pick = pick
        self.ids = ids
        self._numbers = iter(range(10**6))
        self._pairs: dict[str, dict[str, Any]] = {}

    def describe(self, schema: Any) -> tuple[Any, Convert]:
        """Return another schema for the same records, and the function that converts a record to it."""
        made, convert = self._type(copy.deepcopy(schema), "record")
        return _defined_at_first({record["name"]: record for record in self._pairs.values()}, made), convert

    def _maybe(self, share: float) -> bool:
        return self.pick.random() < share

    def _type(self, kind: Any, name: str) -> tuple[Any, Convert]:
        """Return another type and the conversion of a value; `name` is the field's."""
        is_optional = isinstance(kind, list)
        if isinstance(kind, list):
            (kind,) = (part for part in kind if part != "null")
        made, convert = self._plain(kind, name)

        def optional(value: Any) -> Any:
            return None if value is None else convert(value)

        chosen = self.pick.choice(
            ["null first", "null last"] if is_optional else ["", "", "null first", "null last", "one"]
        )
        if not chosen:
            return made, convert
        return (
            [made] if chosen == "one" else ["null", made] if chosen == "null first" else [made, "null"]
        ), optional

    def _plain(self, kind: Any, name: str) -> tuple[Any, Convert]:
        if isinstance(kind, str):
            if kind == "int" and self._maybe(0.3):
                kind = "long"
            if name == "file_format" and self._maybe(0.3):
                symbols = ["ORC", "PARQUET", "PUFFIN", "AVRO", "puffin"]
                return {"type": "enum", "name": f"format_{next(self._numbers)}", "symbols": symbols}, _same
            return (kind if self._maybe(0.7) else {"type": kind}), _same
        if kind["type"] == "record":
            return self._record(kind)
        if kind["type"] == "array":
            if kind.get("logicalType") == "map":
                return self._map(kind)
            items, convert = self._type(kind["items"], "item")
            return {**kind, "items": items}, lambda values: [convert(value) for value in values]
        if kind["type"] == "fixed":
            return {**kind, "name": f"{kind['name']}_{next(self._numbers)}", "aliases": ["f"]}, _same
        return kind, _same

    def _map(self, kind: dict[str, Any]) -> tuple[Any, Convert]:
        value_type = kind["items"]["fields"][1]["type"]
        form = self.pick.choice(["pairs", "pairs", "shared", "map"])
        if form == "map":
            values, convert = self._type(value_type, "value")
            return {"type": "map", "values": values}, lambda items: {
                str(item["key"]): convert(item["value"]) for item in items
            }
        if form == "shared":  # one named record for several maps, under the ids of the first
            if value_type not in self._pairs:
                name = f"shared_{next(self._numbers)}"
                name = f"org.pairs.{name}" if self._maybe(0.5) else name
                record = copy.deepcopy(kind["items"]) | {"name": name}
                if self.ids == "none":
                    for part in record["fields"]:
                        part.pop("field-id", None)
                self._pairs[value_type] = record
            return {"type": "array", "items": self._pairs[value_type]["name"]}, _same
        items, convert = self._type(kind["items"], "pair")
        return {**kind, "items": items}, lambda values: [convert(value) for value in values]

    def _record(self, record: dict[str, Any]) -> tuple[Any, Convert]:
        parts: list[tuple[dict[str, Any], Callable[[dict[str, Any]], Any]]] = []
        has_ids = self.ids == "all" or (self.ids == "some" and self._maybe(0.6))
        taken: set[str] = set()
        for part in record["fields"]:
            own = part["name"]
            kind, convert = self._type(part["type"], own)
            name = f"x{next(self._numbers)}" if has_ids and self._maybe(0.4) else own
            made = {"name": name, "type": kind}
            if "field-id" in part and (has_ids or name != own):
                made["field-id"] = part["field-id"]
            if isinstance(kind, list) and kind[0] == "null" and self._maybe(0.5):
                made["default"] = None
            if self._maybe(0.3):
                made |= {"aliases": [own if name != own else f"{own}_old"], "doc": "é"}
            taken.add(name)
            parts.append((made, _from(own, convert)))
        for _ in range(self.pick.choice([0, 0, 1, 2])):
            kind, value = self.pick.choice(EXTRA)
            # A field with an id, or beside one that has it, may have any name.
            name = self.pick.choice([*NAMES_OF_THE_SPEC, "extra"]) if has_ids else "extra"
            name = name if name not in taken else f"extra_{next(self._numbers)}"
            taken.add(name)
            made = {"name": name, "type": copy.deepcopy(kind)}
            spec_has_it = name in [part["name"] for part in record["fields"]]
            if has_ids and (not spec_has_it or self._maybe(0.5)):
                made["field-id"] = 90_000 + next(self._numbers)
            parts.append((made, lambda _, value=value: value))
        self.pick.shuffle(parts)
        whole = {
            "type": "record",
            "name": f"{record['name']}_{next(self._numbers)}",
            "fields": [made for made, _ in parts],
        }
        if self._maybe(0.3):
            whole |= {"namespace": "org.example", "doc": "a record", "aliases": ["r"]}

        def convert_record(value: dict[str, Any]) -> dict[str, Any]:
            return {made["name"]: take(value) for made, take in parts}

        return whole, convert_record


def _defined_at_first(records: dict[str, dict[str, Any]], schema: Any) -> Any:
    """Return a schema with each of these records defined where it is first referred to, and only there."""
    if isinstance(schema, str) and schema in records:
        return records.pop(schema)
    if isinstance(schema, list):
        return [_defined_at_first(records, part) for part in schema]
    if isinstance(schema, dict):
        looked_at = ("type", "items", "values", "fields")
        return {k: _defined_at_first(records, part) if k in looked_at else part for k, part in schema.items()}
    return schema


def _same(value: Any) -> Any:
    return value


def _from(name: str, convert: Convert) -> Convert:
    return lambda record: convert(record.get(name))


def rewrite(
    schema: Any, records: Sequence[dict[str, Any]], writer: OddWriter, metadata: Mapping[str, str]
) -> bytes:
    """Return the container that a writer makes of plain records, with metadata in its header."""
    described, convert = writer.describe(schema)
    stream = io.BytesIO()
    parsed = fastavro.parse_schema(described)
    fastavro.writer(
        stream, parsed, [convert(record) for record in records], codec="deflate", metadata=dict(metadata)
    )
    return stream.getvalue()


def rewrite_file(path: Path, pick: random.Random) -> None:
    """Write an Avro file again as another writer that gives field ids: a manifest, a list, a data or a delete file."""
    with path.open("rb") as file:
        reader = fastavro.reader(file)
        schema: Any = _without_cache(reader.writer_schema)
        records: Any = list(reader)
    metadata = {k: v for k, v in reader.metadata.items() if not k.startswith("avro.")}
    path.write_bytes(rewrite(schema, records, OddWriter(pick, "all"), metadata))


def _without_cache(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_without_cache(item) for item in schema]
    if isinstance(schema, dict):
        return {key: _without_cache(item) for key, item in schema.items() if not key.startswith("__")}
    return schema
