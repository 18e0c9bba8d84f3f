"""The shape of delete keys: which columns must be compared, and which the partition decides.

Takes the key columns of delete files, the scope that these cover, and a data file's identity partition
values; returns the columns to compare, and drops delete keys of other partitions. The rule: a column is left
out only if the delete files cover a single partition: it then has the same value in every row that they may
delete, so that a key equals a row if and only if it has this value and equals the row in the other columns.

Flink's upserts always have such keys, because they must include the partition columns.
Benefit: "keys without partition columns" in docs/benchmarks-deletes.md (``deletes.simplify``). Measured: 1 M
keys (string, long) of one partition take 2.2 MB instead of 40 if the numbers are close together, else 17;
loading takes 0.04 or 0.06 s of CPU instead of 0.06, and probing 1 M rows 0.002 or 0.03 s instead of 0.045.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from twostage.deletes.files.wanted_fields import corrupt, missing_key
from twostage.deletes.keys.encoding import encode_column, take_columns
from twostage.errors import UnsupportedFeatureError
from twostage.formats import internal_values
from twostage.schema import Primitive, children

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from twostage.deletes.keys.encoding import KeyColumn
    from twostage.schema import Field
    from twostage.task import DeleteFile, ScanContext, ScanTask

GLOBAL = "global"
"""The scope of delete files that cover the whole table."""


@dataclass(frozen=True, slots=True, eq=False)
class KeyField:
    """A key column: its field, its primitive type and the names that lead to it."""

    field: Field
    kind: Primitive
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True, eq=False)
class KeyShape:
    """The columns of delete keys.

    Attributes:
        every: All columns, as delete files hold them.
        fields: The columns to compare with rows.
        fixed: The value of each other column, as a column of one row.
    """

    every: tuple[KeyField, ...]
    fields: tuple[KeyField, ...]
    fixed: tuple[tuple[KeyField, KeyColumn], ...] = ()

    @staticmethod
    def of(fields: Sequence[KeyField], scope: str | None, constants: Mapping[int, Any]) -> KeyShape:
        """Return the shape of keys of these columns.

        Args:
            fields: All key columns.
            scope: The delete files' scope; None: unknown.
            constants: The data file's identity partition values, by source field id.
        """
        fixed: list[tuple[KeyField, KeyColumn]] = []
        if scope is not None and scope != GLOBAL:
            for key in fields:
                # A field of a struct is NULL where the struct is, whatever the partition says.
                if key.field.id in constants and len(key.names) == 1:
                    value = internal_values.constant(key.kind, constants[key.field.id], 1)
                    fixed.append((key, encode_column(value, key.kind)))
        folded = {key.field.id for key, _ in fixed}
        return KeyShape(
            tuple(fields), tuple(key for key in fields if key.field.id not in folded), tuple(fixed)
        )

    @property
    def names(self) -> tuple[Any, ...]:
        """The field ids and types of the columns, and which are fixed: equal only for equal shapes."""
        columns = tuple((key.field.id, str(key.kind)) for key in self.every)
        return (columns, tuple(key.field.id for key, _ in self.fixed)) if self.fixed else columns

    def compared(self, columns: Sequence[KeyColumn], num_rows: int) -> tuple[list[KeyColumn], int]:
        """Return the columns to compare, of this partition's delete keys only, and the number of these keys."""
        if not self.fixed:
            return list(columns), num_rows
        by_id = {key.field.id: column for key, column in zip(self.every, columns, strict=True)}
        belongs = np.ones(num_rows, np.bool_)
        for key, value in self.fixed:
            belongs &= _equal(by_id[key.field.id], value)
        compared = [by_id[key.field.id] for key in self.fields]
        if belongs.all():
            return compared, num_rows
        rows = np.flatnonzero(belongs)
        return take_columns(compared, rows), len(rows)


def _equal(column: KeyColumn, one: KeyColumn) -> NDArray[np.bool_]:
    """Return which rows of a key column equal the single row of another: a bool each."""
    count = len(column.words)
    if one.valid is not None and not one.valid[0]:
        return np.zeros(count, np.bool_) if column.valid is None else ~column.valid
    width = one.words.shape[1]
    equal = np.ones(count, np.bool_) if column.valid is None else column.valid.copy()
    for word in range(width if column.words.shape[1] == width else 0):
        equal &= column.words[:, word] == one.words[0, word]
    if one.text is not None:
        if column.text is None:  # a file whose column has Arrow's type null
            return equal
        same = pc.equal(column.text, one.text[0])
        equal &= np.asarray(pc.fill_null(same, pa.scalar(value=False)).to_numpy(zero_copy_only=False))
    return equal


def encode_delete(
    arrays: Iterable[pa.Array | None], fields: Iterable[KeyField], num_rows: int, delete: DeleteFile
) -> list[KeyColumn]:
    """Return the comparable form of a batch of a delete file's key columns, all of which it must have."""
    return [_encode_key(array, key, num_rows, delete) for array, key in zip(arrays, fields, strict=True)]


def _encode_key(array: pa.Array | None, key: KeyField, num_rows: int, delete: DeleteFile) -> KeyColumn:
    if array is None:
        if key.kind.name != "unknown" and num_rows:  # that type has no values, so files omit the column
            raise missing_key(delete, key.field.id, ".".join(key.names))
        return encode_column(pa.nulls(num_rows), key.kind)
    try:
        return encode_column(array, key.kind)
    except ValueError as error:  # pyarrow's errors are ValueErrors too
        raise corrupt(delete, f"Delete key {key.field.name!r} cannot be read: {error}") from None


def key_fields(context: ScanContext, ids: Iterable[int], delete: DeleteFile) -> tuple[KeyField, ...]:
    """Return the key columns with these ids; errors name the delete file."""
    return tuple(_key_field(context, field_id, delete) for field_id in ids)


def key_shape(context: ScanContext, task: ScanTask, ids: Iterable[int], delete: DeleteFile) -> KeyShape:
    """Return the shape of keys with these ids, for delete files with the scope of `delete`."""
    fields = key_fields(context, ids, delete)
    return KeyShape.of(fields, delete.scope if context.settings.simplify_keys else None, task.constants)


def _names_to(column: Field, field_id: int) -> tuple[str, ...]:
    """Return the names from a column, made by `Schema.cut_to`, down to the field."""
    names = [column.name]
    while column.id != field_id:
        (column,) = children(column.type)
        names.append(column.name)
    return tuple(names)


def _key_field(context: ScanContext, field_id: int, delete: DeleteFile) -> KeyField:
    schema = context.schema
    if field_id in schema:
        field, names = schema.field(field_id), schema.path(field_id)
    elif field_id in context.key_fields:
        field = context.key_fields[field_id]
        names = _names_to(context.key_columns.get(field_id, field), field_id)
    else:
        raise corrupt(delete, f"Equality-delete file has an equality id of no schema: {field_id}")
    if not isinstance(field.type, Primitive):
        raise UnsupportedFeatureError(
            "UNSUPPORTED_DELETE_KEY",
            f"Equality-delete key {field.name!r} is not of a primitive type: {field.type}",
            path=delete.path,
            stage="deletes",
        )
    return KeyField(field, field.type, names)
