"""Iceberg types, fields and schemas as plain, picklable values.

Takes the JSON of table metadata. Values have one internal form everywhere (literals, bounds, defaults, partition
values): ``bool``; ``int`` for int and long, for date (days since 1970-01-01), for time, timestamp and timestamptz
(microseconds) and for the ``_ns`` types (nanoseconds); ``float``; ``decimal.Decimal``; ``str`` for string and uuid;
``bytes`` for fixed and binary. Once a column name is resolved, fields are identified by id only.
Source: Iceberg table spec, "Schemas and Data Types" and appendix C.
"""

from __future__ import annotations

import base64
import datetime
import math
import re
import struct
import uuid
from dataclasses import dataclass, field as dataclass_field, replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from twostage.errors import CorruptFileError

if TYPE_CHECKING:
    from collections.abc import Iterator

PRIMITIVES = frozenset(
    "boolean int long float double decimal date time timestamp timestamptz timestamp_ns "
    "timestamptz_ns string uuid fixed binary unknown variant geometry geography".split()
)
_DECIMAL = re.compile(r"decimal\(\s*(\d+)\s*,\s*(\d+)\s*\)")
_FLOAT = struct.Struct("<f")
_FIXED = re.compile(r"fixed\[\s*(\d+)\s*\]")
_EPOCH = datetime.datetime(1970, 1, 1)  # noqa: DTZ001 - the epoch of timestamps without a time zone
MAX_NESTING = 100
"""Levels of nested types."""


@dataclass(frozen=True, slots=True)
class Primitive:
    """A primitive type: ``long``, ``decimal(9,2)`` (name ``decimal``), ``fixed[16]`` (name ``fixed``).

    >>> str(parse_type("decimal(9, 2)"))
    'decimal(9,2)'
    """

    name: str
    precision: int = 0
    scale: int = 0
    length: int = 0

    def __str__(self) -> str:
        if self.name == "decimal":
            return f"decimal({self.precision},{self.scale})"
        return f"fixed[{self.length}]" if self.name == "fixed" else self.name


@dataclass(frozen=True, slots=True)
class Struct:
    """A struct: fields in the order of the schema."""

    fields: tuple[Field, ...]

    def __str__(self) -> str:
        return f"struct<{', '.join(f'{field.name}: {field.type}' for field in self.fields)}>"


@dataclass(frozen=True, slots=True)
class List:
    """A list; its element is a field named ``element``, with its own id."""

    element: Field

    def __str__(self) -> str:
        return f"list<{self.element.type}>"


@dataclass(frozen=True, slots=True)
class Map:
    """A map; its key and value are fields named ``key`` and ``value``, with their own ids."""

    key: Field
    value: Field

    def __str__(self) -> str:
        return f"map<{self.key.type}, {self.value.type}>"


Type = Primitive | Struct | List | Map


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """A column or nested field. `initial_default` (v3) is in the type's internal form."""

    id: int
    name: str
    type: Type
    required: bool = False
    initial_default: Any = None
    doc: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Schema:
    """One schema of a table: its id and its columns. Field ids are unique at all depths.

    Raises:
        CorruptFileError: A field id appears twice.
    """

    schema_id: int
    fields: tuple[Field, ...]
    _by_id: dict[int, tuple[Field, tuple[str, ...]]] = dataclass_field(
        init=False, repr=False, compare=False, default_factory=dict
    )

    def __post_init__(self) -> None:
        for field, path in _walk(self.fields, ()):
            if field.id in self._by_id:
                raise CorruptFileError(
                    "CORRUPT_METADATA", f"Field id appears twice in schema: {field.id}", stage="catalog"
                )
            self._by_id[field.id] = (field, path)

    def __contains__(self, field_id: int) -> bool:
        return field_id in self._by_id

    def field(self, field_id: int) -> Field:
        """Return the field with this id, at any depth.

        Raises:
            KeyError: There is no such field.
        """
        return self._by_id[field_id][0]

    def path(self, field_id: int) -> tuple[str, ...]:
        """Return the names from the column to this field, with ``element``, ``key`` and ``value`` for nested types."""
        return self._by_id[field_id][1]

    def find(self, path: tuple[str, ...], *, case_sensitive: bool = True) -> Field | None:
        """Return the field at a path of names through structs; None if there is none or several."""
        fields: tuple[Field, ...] = self.fields
        found: Field | None = None
        for name in path:
            exact = [field for field in fields if field.name == name]
            if not exact and not case_sensitive:
                exact = [field for field in fields if field.name.lower() == name.lower()]
            if len(exact) != 1:
                return None
            found = exact[0]
            fields = found.type.fields if isinstance(found.type, Struct) else ()
        return found

    def field_ids(self) -> tuple[int, ...]:
        """Return the ids of all fields, nested ones included, in schema order."""
        return tuple(self._by_id)

    def top_level(self, field_id: int) -> Field:
        """Return the column that contains the field with this id."""
        name = self.path(field_id)[0]
        return next(field for field in self.fields if field.name == name)

    def cut_to(self, field_id: int) -> Field:
        """Return the column that contains a field, its structs reduced to the path to that field.

        The structs keep their defaults: a struct that a file lacks is not necessarily NULL.
        """
        chain = [self.top_level(field_id)]
        for name in self.path(field_id)[1:]:
            chain.append(next(child for child in children(chain[-1].type) if child.name == name))
        column = chain.pop()
        for parent in reversed(chain):
            column = replace(parent, type=Struct((column,)), required=False)
        return column


def children(kind: Type) -> tuple[Field, ...]:
    """Return the fields directly inside a type."""
    if isinstance(kind, Struct):
        return kind.fields
    if isinstance(kind, List):
        return (kind.element,)
    return (kind.key, kind.value) if isinstance(kind, Map) else ()


def _walk(fields: tuple[Field, ...], path: tuple[str, ...]) -> Iterator[tuple[Field, tuple[str, ...]]]:
    for field in fields:
        yield field, (*path, field.name)
        yield from _walk(children(field.type), (*path, field.name))


def element_of(kind: Type) -> Field | None:
    """Return the field of a list's elements or of a map's keys; None for other types."""
    if isinstance(kind, List):
        return kind.element
    return kind.key if isinstance(kind, Map) else None


def leaves(field: Field) -> Iterator[Field]:
    """Yield the primitive fields at or under `field`, in schema order."""
    inner = children(field.type)
    if not inner and isinstance(field.type, Primitive):
        yield field
    for child in inner:
        yield from leaves(child)


def parse_schema(raw: dict[str, Any]) -> Schema:
    """Parse one entry of the metadata's ``schemas``.

    Raises:
        CorruptFileError: The schema is malformed, has a field id twice, or is nested deeper than `MAX_NESTING`.
    """
    try:
        struct = parse_type({**raw, "type": "struct"})
        schema_id = int(raw.get("schema-id", 0))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise CorruptFileError(
            "CORRUPT_METADATA", f"Schema is malformed: {error!r}", stage="catalog"
        ) from error
    assert isinstance(struct, Struct)
    return Schema(schema_id=schema_id, fields=struct.fields)


def parse_type(raw: Any, depth: int = 0) -> Type:
    """Parse a type in the JSON of table metadata: a string, or an object for nested types.

    Raises:
        CorruptFileError: The type is unknown, or nested deeper than `MAX_NESTING`.
    """
    if depth > MAX_NESTING:
        raise CorruptFileError("CORRUPT_METADATA", "Schema is nested too deep", stage="catalog")
    if isinstance(raw, str):
        if match := _DECIMAL.fullmatch(raw):
            precision, scale = int(match[1]), int(match[2])
            if not 0 < precision <= 38 or scale > precision:
                raise CorruptFileError("CORRUPT_METADATA", f"Bad type: {raw}", stage="catalog")
            return Primitive("decimal", precision=precision, scale=scale)
        if match := _FIXED.fullmatch(raw):
            return Primitive("fixed", length=int(match[1]))
        name = raw.partition("(")[0].strip()
        with_parameters = name in ("decimal", "fixed") or (
            name != raw and name not in ("geometry", "geography")
        )
        if name not in PRIMITIVES or with_parameters:  # valid ones were parsed above
            raise CorruptFileError("CORRUPT_METADATA", f"Unknown type: {raw!r}", stage="catalog")
        return Primitive(name)
    kind = raw["type"]
    if kind == "struct":
        return Struct(tuple(_parse_field(item, depth) for item in raw["fields"]))
    if kind == "list":
        return List(_inner(raw, "element", depth))
    if kind == "map":
        return Map(_inner(raw, "key", depth), _inner(raw, "value", depth))
    return parse_type(kind, depth)


def _parse_field(raw: dict[str, Any], depth: int) -> Field:
    kind = parse_type(raw["type"], depth + 1)
    default = raw.get("initial-default")
    return Field(
        id=int(raw["id"]),
        name=str(raw["name"]),
        type=kind,
        required=bool(raw.get("required", False)),
        initial_default=None if default is None else parse_value(kind, default),
        doc=raw.get("doc"),
    )


def _inner(raw: dict[str, Any], name: str, depth: int) -> Field:
    required = name == "key" or bool(raw.get(f"{name}-required", False))
    return Field(
        id=int(raw[f"{name}-id"]), name=name, type=parse_type(raw[name], depth + 1), required=required
    )


def parse_value(kind: Type, raw: Any) -> Any:
    """Parse a value in JSON single-value serialization (spec, appendix D)."""
    if raw is None:
        return None
    if isinstance(kind, Struct):
        return {field.id: parse_value(field.type, raw.get(str(field.id))) for field in kind.fields}
    if isinstance(kind, List):
        return [parse_value(kind.element.type, item) for item in raw]
    if isinstance(kind, Map):
        pairs = zip(raw["keys"], raw["values"], strict=True)
        return [(parse_value(kind.key.type, k), parse_value(kind.value.type, v)) for k, v in pairs]
    match kind.name:
        case "boolean":
            return bool(raw)
        case "int" | "long":
            return int(raw)
        case "float":
            return nearest_float(float(raw))
        case "double":
            return float(raw)
        case "decimal":
            return Decimal(raw)
        case "date":
            return (datetime.date.fromisoformat(raw) - _EPOCH.date()).days
        case "time":
            moment = datetime.datetime.combine(_EPOCH, datetime.time.fromisoformat(raw))
            return _micros(moment)
        case "timestamp" | "timestamptz":
            return _micros(datetime.datetime.fromisoformat(raw))
        case "timestamp_ns" | "timestamptz_ns":
            whole, _, fraction = raw.partition(".")
            digits = re.match(r"\d*", fraction)
            nanos = (digits[0] if digits else "").ljust(9, "0")[:9]
            zone = fraction[len(digits[0]) :] if digits else ""
            return _micros(datetime.datetime.fromisoformat(whole + zone)) * 1000 + int(nanos)
        case "uuid":
            return str(uuid.UUID(raw))
        case "fixed" | "binary":
            return bytes.fromhex(raw) if re.fullmatch(r"[0-9A-Fa-f]*", raw) else base64.b64decode(raw)
        case _:
            return raw


def nearest_float(value: float) -> float:
    """Return the nearest 32-bit float, so that JSON's 0.1 equals the files' 0.1.

    >>> nearest_float(0.1), nearest_float(0.5), nearest_float(-1e39)
    (0.10000000149011612, 0.5, -inf)
    """
    try:
        found: float = _FLOAT.unpack(_FLOAT.pack(value))[0]
    except OverflowError:
        return math.copysign(math.inf, value)
    return found


def _micros(moment: datetime.datetime) -> int:
    if moment.tzinfo is not None:
        moment = moment.astimezone(datetime.UTC).replace(tzinfo=None)
    return (moment - _EPOCH) // datetime.timedelta(microseconds=1)
