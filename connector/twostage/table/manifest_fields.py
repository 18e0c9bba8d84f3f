"""Avro schemas of manifest lists and manifests, with their fields renamed by field id.

Takes the schema of a file's header; returns it with each field named ``_<field id>`` and free of the writer's naming:
references to named types are resolved in place, aliases and defaults dropped, and optional records remain unions. A
field is identified by its id; by its name only if it has none, at the level where the spec has that name.
Source: Iceberg table spec, "Manifests" and "Manifest Lists"; Apache Avro 1.11 specification, "Schema Declaration".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from twostage.table.metadata import PartitionSpec

DATA_FILE = 2
PARTITION = 102
METRIC_FIELDS = frozenset((108, 109, 110, 125, 128, 132, 137))
"""Fields of an entry with column metrics or split offsets. Skipping all of them halves the decoding time; skipping all
but one gains nothing."""
LIST_IDS = {
    "manifest_path": 500,
    "manifest_length": 501,
    "partition_spec_id": 502,
    "content": 517,
    "sequence_number": 515,
    "added_snapshot_id": 503,
    "partitions": 507,
    "first_row_id": 520,
    "key_metadata": 519,
    "added_files_count": 504,
    "existing_files_count": 505,
    "deleted_files_count": 506,
    "added_data_files_count": 504,
    "existing_data_files_count": 505,
    "deleted_data_files_count": 506,
    "added_rows_count": 512,
    "existing_rows_count": 513,
}
ENTRY_IDS = {
    "status": 0,
    "snapshot_id": 1,
    "sequence_number": 3,
    "file_sequence_number": 4,
    "data_file": DATA_FILE,
}
_FILE_IDS = {
    "content": 134,
    "file_path": 100,
    "file_format": 101,
    "partition": PARTITION,
    "record_count": 103,
    "file_size_in_bytes": 104,
    "column_sizes": 108,
    "value_counts": 109,
    "null_value_counts": 110,
    "nan_value_counts": 137,
    "lower_bounds": 125,
    "upper_bounds": 128,
    "key_metadata": 131,
    "split_offsets": 132,
    "equality_ids": 135,
    "sort_order_id": 140,
    "first_row_id": 142,
    "referenced_data_file": 143,
    "content_offset": 144,
    "content_size_in_bytes": 145,
}
_SUMMARY_IDS = {"contains_null": 509, "contains_nan": 518, "lower_bound": 510, "upper_bound": 511}
_INSIDE = {DATA_FILE: _FILE_IDS, 507: _SUMMARY_IDS}
"""Fields that are records: the names and ids of the record's fields."""
MAP_IDS = {
    108: (117, 118),
    109: (119, 120),
    110: (121, 122),
    137: (138, 139),
    125: (126, 127),
    128: (129, 130),
}
"""Maps, stored as arrays of key-value records: the field ids of key and value."""
_ATTRIBUTES = ("logicalType", "precision", "scale", "size", "symbols")
_PRIMITIVE = frozenset(("null", "boolean", "int", "long", "float", "double", "bytes", "string"))
_NAMED = frozenset(("record", "fixed", "enum"))
_MAX_DEPTH = 50
"""Levels of nesting of a schema."""
_MAX_TYPES = 20_000
"""Types in a schema, after references are resolved."""


def named_by_id(schema: Any, names: Mapping[str, int], spec: PartitionSpec | None = None) -> Any:
    """Return the Avro schema with each record field named ``_<field id>``, or ``other_<n>`` if its id is unknown.

    The fields of a map's key-value records are named ``key`` and ``value``.

    Args:
        schema: The schema of the file's header.
        names: The ids of the top-level record's fields by name, for fields without an id.
        spec: The partition spec, for partition values without ids.

    Raises:
        ValueError: A record has two fields with one id, or the schema is recursive.
    """
    return _Naming(spec).value(schema, names, None)


def record_of(kind: Any) -> dict[str, Any]:
    """Return the record of a record type or of a union of null and a record.

    Raises:
        ValueError: The type is neither.
    """
    kinds = [part for part in kind if part != "null"] if isinstance(kind, list) else [kind]
    if len(kinds) != 1 or not isinstance(kinds[0], dict) or kinds[0].get("type") != "record":
        raise ValueError("a record is missing from the schema")
    found: dict[str, Any] = kinds[0]
    return found


def change_field(kind: Any, name: str, change: Callable[[Any], Any]) -> Any:
    """Return a record type (or a union of null and a record) with the type of one field changed."""
    if isinstance(kind, list):
        return [part if part == "null" else change_field(part, name, change) for part in kind]
    fields = [
        {**part, "type": change(part["type"])} if part["name"] == name else part
        for part in record_of(kind)["fields"]
    ]
    return {**kind, "fields": fields}


def without_fields(schema: Any, without: frozenset[int]) -> Any:
    """Return the schema of an entry without these fields of its ``data_file`` record."""
    names = {f"_{field_id}" for field_id in without}

    def shorter(kind: Any) -> Any:
        if isinstance(kind, list):
            return [part if part == "null" else shorter(part) for part in kind]
        return {**kind, "fields": [part for part in record_of(kind)["fields"] if part["name"] not in names]}

    return change_field(schema, f"_{DATA_FILE}", shorter)


class _Naming:
    """Rewrites one schema. Named types are renamed in order of appearance, so equal schemas stay equal."""

    def __init__(self, spec: PartitionSpec | None) -> None:
        self._spec = spec
        self._named: dict[str, Any] = {}
        self._types = self._depth = 0

    def value(self, kind: Any, names: Mapping[str, int], field_id: int | None) -> Any:
        """Return a type rewritten; `names` are the ids of the fields of records in it, `field_id` is its own field."""
        self._types += 1
        self._depth += 1
        if self._depth > _MAX_DEPTH or self._types > _MAX_TYPES:
            raise ValueError("the schema is nested too deep, or refers to itself")
        try:
            if isinstance(kind, list):
                return [self.value(part, names, field_id) for part in kind]
            if isinstance(kind, str):
                if kind in _PRIMITIVE:
                    return kind
                return self.value(self._named[kind.rpartition(".")[2]], names, field_id)
            return self._defined(kind, names, field_id)
        finally:
            self._depth -= 1

    def _defined(self, kind: dict[str, Any], names: Mapping[str, int], field_id: int | None) -> Any:
        inner = kind["type"]
        if isinstance(inner, list):
            return self.value(inner, names, field_id)
        attributes = {key: kind[key] for key in _ATTRIBUTES if key in kind}
        if isinstance(inner, dict):
            return self.value({**inner, **attributes}, names, field_id)
        if inner in _NAMED:
            self._named[str(kind["name"]).rpartition(".")[2]] = kind
            made = {"type": inner, "name": f"type_{self._types}", **attributes}
            return {**made, "fields": self._fields(kind, names, field_id)} if inner == "record" else made
        if inner == "array":
            return {"type": "array", "items": self.value(kind["items"], names, field_id)}
        if inner == "map":
            return {"type": "map", "values": self.value(kind["values"], names, field_id)}
        if inner in _PRIMITIVE:
            return {"type": inner, **attributes}
        return self.value(inner, names, field_id)

    def _fields(
        self, record: dict[str, Any], names: Mapping[str, int], field_id: int | None
    ) -> list[dict[str, Any]]:
        fields = record["fields"]
        if field_id in MAP_IDS:
            found = _pair(fields, *MAP_IDS[field_id])
        else:
            if field_id == PARTITION and self._spec is not None:
                names = _partition_names(fields, self._spec)
            found = [None if id_ is None else f"_{id_}" for id_ in _ids(fields, names)]
        return [
            {"name": name or f"other_{place}", "type": self.value(part["type"], *self._inside(name))}
            for place, (name, part) in enumerate(zip(found, fields, strict=True))
        ]

    def _inside(self, name: str | None) -> tuple[Mapping[str, int], int | None]:
        """Return the ids by name of the fields inside a field, and its own id."""
        if name is None or not name.startswith("_"):
            return {}, None
        return _INSIDE.get(int(name[1:]), {}), int(name[1:])


def _ids(fields: list[dict[str, Any]], names: Mapping[str, int]) -> list[int | None]:
    """Return the field id of each field of a record: its own, else the one of its name."""
    own = [part.get("field-id") for part in fields]
    own = [found if type(found) is int and found >= 0 else None for found in own]
    taken = {found for found in own if found is not None}
    if len(taken) < sum(found is not None for found in own):
        raise ValueError("a record has two fields of one field id")
    told = [
        names.get(part["name"]) if found is None else None for found, part in zip(own, fields, strict=True)
    ]
    return [
        found if found is not None else None if name in taken else name
        for found, name in zip(own, told, strict=True)
    ]


def _pair(fields: list[dict[str, Any]], key_id: int, value_id: int) -> list[str | None]:
    """Find key and value of a map's record: by id, else by name, else the first two fields.

    Some writers use one record for several maps, with the ids of the first.
    """
    ids = [part.get("field-id") for part in fields]
    words = [part["name"] for part in fields]
    for given, wanted in ((ids, (key_id, value_id)), (words, ("key", "value"))):
        if all(given.count(one) == 1 for one in wanted):
            places = [given.index(one) for one in wanted]
            break
    else:
        places = [0, 1]
    if len(fields) < 2:
        raise ValueError("a pair of a map has fewer than two fields")
    found: list[str | None] = [None] * len(fields)
    found[places[0]], found[places[1]] = "key", "value"
    return found


def _partition_names(fields: list[dict[str, Any]], spec: PartitionSpec) -> dict[str, int]:
    """Match partition values without field ids to the spec: by name, else by position if the counts agree."""
    names = {part.name: part.field_id for part in spec.fields}
    written = [part["name"] for part in fields]
    if not set(written) <= set(names) and len(written) == len(spec.fields):
        names = {name: part.field_id for name, part in zip(written, spec.fields, strict=True)}
    return names
