"""What a metadata table is: columns over items found in the metadata.

Takes the items (snapshots, manifest entries, …) and columns, each a field and a function that reads its value
from an item; returns Arrow batches of the wanted columns. The rule: values are in the internal form of
`schema.py`, structs by field id, so that a column can be cut to the wanted sub-fields.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from twostage.columns import arrow_schema, without_columns
from twostage.formats import internal_values
from twostage.predicates import predicate as tree
from twostage.schema import Field, List, Map, Primitive, Schema, Struct
from twostage.table.entry_values import ABSENT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from twostage.predicates.predicate import Predicate
    from twostage.schema import Type

BOOLEAN, INT, LONG = Primitive("boolean"), Primitive("int"), Primitive("long")
STRING, BINARY, TIMESTAMPTZ = Primitive("string"), Primitive("binary"), Primitive("timestamptz")
ITEMS_PER_TASK = 20_000
"""Items in one task: the entry of a data file with metrics of 40 columns takes some 10 kB."""
_inner_ids = itertools.count(100_000_000)
"""Ids of list elements, map keys and map values: each is new, because nothing looks them up."""


@dataclass(frozen=True, slots=True)
class TableColumn:
    """One column: its field, and how to read its value from an item. `MetadataTable.of` numbers the fields."""

    field: Field
    value: Callable[[Any], Any]


def column(name: str, kind: Type, value: Callable[[Any], Any], *, required: bool = False) -> TableColumn:
    """Return a column whose value the function `value` reads from an item."""
    return TableColumn(Field(id=0, name=name, type=kind, required=required), value)


def struct_of(
    columns: Iterable[TableColumn], *, first_id: int
) -> tuple[Struct, Callable[[Any], dict[int, Any]]]:
    """Return columns as one struct, and the function that reads its value from an item.

    Args:
        columns: The struct's fields.
        first_id: The first one's id. Values are found by these ids, whichever process made the schema.
    """
    numbered = enumerate(columns, first_id)
    parts = [replace(part, field=replace(part.field, id=number)) for number, part in numbered]

    def read(item: Any) -> dict[int, Any]:
        return {part.field.id: part.value(item) for part in parts}

    return Struct(tuple(part.field for part in parts)), read


def list_of(kind: Type) -> List:
    """Return the type of a list without NULLs."""
    return List(Field(id=next(_inner_ids), name="element", type=kind, required=True))


def map_of(key: Type, value: Type) -> Map:
    """Return the type of a map without NULLs."""
    return Map(
        Field(id=next(_inner_ids), name="key", type=key, required=True),
        Field(id=next(_inner_ids), name="value", type=value, required=True),
    )


def pairs(mapping: Mapping[Any, Any]) -> list[tuple[Any, Any]] | None:
    """Return a map's value as pairs; NULL for a map that the metadata lacks."""
    return None if mapping is ABSENT else list(mapping.items())


@dataclass(frozen=True, slots=True)
class MetadataTable:
    """A metadata table; `load` reads its items."""

    columns: tuple[TableColumn, ...]
    load: Callable[[], Sequence[Any]]

    @staticmethod
    def of(columns: Iterable[TableColumn], load: Callable[[], Sequence[Any]]) -> MetadataTable:
        """Return a table of these columns, whose fields get the ids 1, 2, …."""
        numbered = (
            replace(part, field=replace(part.field, id=number)) for number, part in enumerate(columns, 1)
        )
        return MetadataTable(tuple(numbered), load)

    @property
    def schema(self) -> Schema:
        """The columns' schema."""
        return Schema(schema_id=0, fields=tuple(part.field for part in self.columns))

    def batches(
        self, projection: tuple[Field, ...], predicate: Predicate, limit: int | None
    ) -> Iterator[pa.RecordBatch]:
        """Yield the projection of the items for which the predicate is true, at most `limit`."""
        items = [item for some in _runs(self.load()) for item in self._matching(some, predicate)][:limit]
        schema = arrow_schema(projection)
        value_of = {part.field.id: part.value for part in self.columns}
        for some in _runs(items):
            if not projection:
                yield from without_columns(len(some), ITEMS_PER_TASK)
                continue
            arrays = [
                internal_values.values(field.type, [value_of[field.id](item) for item in some])
                for field in projection
            ]
            yield pa.RecordBatch.from_arrays(arrays, schema=schema)

    def _matching(self, items: Sequence[Any], predicate: Predicate) -> Iterable[Any]:
        if predicate == tree.TRUE:
            return items
        from twostage.predicates.evaluate import evaluate  # noqa: PLC0415 - only the option `filter` needs it

        named = tree.columns(predicate)
        arrays = {part.field_id: self._array(part.field_id, items) for part in named}
        truth = evaluate(predicate, arrays, len(items), kernels=False)
        return itertools.compress(items, truth.true)

    def _array(self, field_id: int, items: Sequence[Any]) -> pa.Array:
        """Return the values of a column, or of a field inside its structs, for some items."""
        schema = self.schema
        top = schema.top_level(field_id)
        value = next(part.value for part in self.columns if part.field.id == top.id)
        found = [value(item) for item in items]
        field: Field | None = top
        for name in schema.path(field_id)[1:]:
            assert field is not None
            assert isinstance(field.type, Struct)
            field = next(child for child in field.type.fields if child.name == name)
            found = [None if item is None else item[field.id] for item in found]
        assert field is not None
        return internal_values.values(field.type, found)


def _runs(items: Sequence[Any]) -> Iterator[Sequence[Any]]:
    for start in range(0, len(items), ITEMS_PER_TASK):
        yield items[start : start + ITEMS_PER_TASK]
