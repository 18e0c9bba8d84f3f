"""The schema of a Parquet file: a tree of groups and leaves, with Iceberg's field ids.

Takes the footer's flat list of schema elements; returns the tree and its leaves. The rule: levels, counts and
types are consistent, or `ValueError` says what is not; depth is limited.
Source: parquet-format, parquet.thrift (SchemaElement) and LogicalTypes.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

BOOLEAN, INT32, INT64, INT96, FLOAT, DOUBLE, BYTE_ARRAY, FIXED = range(8)
PHYSICAL_NAMES = (
    "BOOLEAN",
    "INT32",
    "INT64",
    "INT96",
    "FLOAT",
    "DOUBLE",
    "BYTE_ARRAY",
    "FIXED_LEN_BYTE_ARRAY",
)
REPETITIONS = ("required", "optional", "repeated")
MAX_NESTING = 100
_GROUPS = ("list", "map", "map_key_value", "variant")
_UNITS = {1: "millis", 2: "micros", 3: "nanos"}
_LOGICAL = {
    1: "string",
    2: "map",
    3: "list",
    4: "enum",
    5: "decimal",
    6: "date",
    7: "time",
    8: "timestamp",
    10: "integer",
    11: "null",
    12: "json",
    13: "bson",
    14: "uuid",
    15: "float16",
    16: "variant",
    17: "geometry",
    18: "geography",
}
"""Fields of the union LogicalType."""
_CONVERTED: tuple[tuple[str, str, bool], ...] = (
    ("string", "", False),
    ("map", "", False),
    ("map_key_value", "", False),
    ("list", "", False),
    ("enum", "", False),
    ("decimal", "", False),
    ("date", "", False),
    ("time", "millis", True),
    ("time", "micros", True),
    ("timestamp", "millis", True),
    ("timestamp", "micros", True),
    *(("integer", "", False),) * 4,
    *(("integer", "", True),) * 4,
    ("json", "", False),
    ("bson", "", False),
    ("interval", "", False),
)
"""By ConvertedType: the logical type's name, unit of time, and whether it is in UTC or signed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogicalType:
    """What a leaf's values mean: `name` as in the Parquet format, in lower case, and the type's parameters."""

    name: str
    unit: str = ""
    """``millis``, ``micros`` or ``nanos``."""
    utc: bool = False
    signed: bool = True
    precision: int = 0
    scale: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Leaf:
    """A column of the file. `path` holds the names below the root, those of the groups of lists and maps included."""

    index: int
    path: tuple[str, ...]
    field_id: int | None
    physical: int
    type_length: int
    logical: LogicalType | None
    repetition: str
    max_definition: int
    max_repetition: int

    @property
    def physical_name(self) -> str:
        """The physical type's name, such as ``INT64``."""
        return PHYSICAL_NAMES[self.physical]


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaNode:
    """A group with its children, or a leaf (then `leaf` is set)."""

    name: str
    field_id: int | None
    repetition: str
    logical: LogicalType | None
    children: tuple[SchemaNode, ...] = ()
    leaf: Leaf | None = None


def read_schema(elements: list[dict[int, Any]]) -> tuple[SchemaNode, tuple[Leaf, ...]]:
    """Build the tree from the flat list, which is in depth-first order.

    Raises:
        ValueError: The list does not make one tree.
    """
    leaves: list[Leaf] = []
    root, end = _node(elements, 0, (), 0, 0, leaves)
    if end != len(elements):
        raise ValueError(f"schema has {len(elements) - end} elements too many")
    return root, tuple(leaves)


def _node(
    elements: list[dict[int, Any]],
    at: int,
    path: tuple[str, ...],
    definition: int,
    repeated: int,
    leaves: list[Leaf],
) -> tuple[SchemaNode, int]:
    if at >= len(elements):
        raise ValueError("schema has too few elements")
    if len(path) > MAX_NESTING:
        raise ValueError(f"schema is nested deeper than {MAX_NESTING}")
    element = elements[at]
    name = element[4].decode("utf-8")
    field_id, logical = element.get(9), _logical(element)
    if (
        element.get(1) is None
        and element.get(6) is not None
        and (logical is None or logical.name not in _GROUPS)
    ):
        # Some writers give the logical type null to a group that the converted type declares as a map's pairs.
        logical = _logical({6: element[6]})
    repetition = REPETITIONS[_index(element.get(3, 0), len(REPETITIONS))]
    if at:  # the root has no repetition and is not part of a path
        path = (*path, name)
        definition += repetition != "required"
        repeated += repetition == "repeated"
    else:
        repetition = "required"
    physical = element.get(1)
    if physical is not None and at:
        leaf = Leaf(
            index=len(leaves),
            path=path,
            field_id=field_id,
            physical=_index(physical, len(PHYSICAL_NAMES)),
            type_length=element.get(2, 0),
            logical=logical,
            repetition=repetition,
            max_definition=definition,
            max_repetition=repeated,
        )
        if physical == FIXED and leaf.type_length < 0:
            raise ValueError("negative type length")
        leaves.append(leaf)
        return SchemaNode(
            name=name, field_id=field_id, repetition=repetition, logical=logical, leaf=leaf
        ), at + 1
    count = element.get(5, 0)
    at += 1
    if not 0 <= count <= len(elements) - at:
        raise ValueError(f"group {name!r} says it has {count} children")
    children: list[SchemaNode] = []
    for _ in range(count):
        child, at = _node(elements, at, path, definition, repeated, leaves)
        children.append(child)
    return SchemaNode(
        name=name, field_id=field_id, repetition=repetition, logical=logical, children=tuple(children)
    ), at


def _index(value: Any, count: int) -> int:
    if type(value) is not int or not 0 <= value < count:
        raise ValueError(f"unknown enum value {value!r}")
    return value


def _logical(element: dict[int, Any]) -> LogicalType | None:
    """Return the logical type, or the older converted type in its terms; None if there is neither."""
    union = element.get(10)
    if union:
        ((number, value),) = union.items()
        name = _LOGICAL.get(number)
        if name == "decimal":
            return LogicalType(name=name, scale=value[1], precision=value[2])
        if name in ("time", "timestamp"):
            (unit,) = value[2]
            return LogicalType(name=name, utc=value[1], unit=_UNITS[unit])
        if name == "integer":
            return LogicalType(name=name, signed=value[2])
        return LogicalType(name=name) if name else LogicalType(name=f"unknown({number})")
    converted = element.get(6)
    if converted is None:
        return None
    if not 0 <= converted < len(_CONVERTED):
        return LogicalType(name=f"unknown({converted})")
    name, unit, flag = _CONVERTED[converted]
    if name == "decimal":
        return LogicalType(name=name, scale=element.get(7, 0), precision=element.get(8, 0))
    return LogicalType(name=name, unit=unit, utc=bool(unit) and flag, signed=name != "integer" or flag)
