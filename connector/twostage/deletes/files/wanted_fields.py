"""The fields that a reader needs from a delete file, and where they are in it.

Takes a file's schema, whatever its format; returns the leaf of each wanted field. The rule: fields are found
by id, and by name only if the file has no ids.
Source: Iceberg table spec, "Position Delete Files" and "Equality Delete Files".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from twostage.errors import CorruptFileError
from twostage.formats import file_schema

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from twostage.formats.file_schema import FileField
    from twostage.task import DeleteFile, TableContext

STAGE = "deletes"


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedField:
    """A primitive field of a delete file: its id, and the path of names by which it is found in files without ids.

    `named`: also find it by name in a file that has ids, but not this one; some writers give the reserved
    columns of position delete files none. `dictionary`: keep text dictionary-encoded as in Parquet; file
    paths that repeat for millions of rows are then read 2.5 times as fast.
    """

    field_id: int
    names: tuple[str, ...]
    named: bool = False
    dictionary: bool = False


def corrupt(delete: DeleteFile, message: str) -> CorruptFileError:
    """Return the error for a delete file whose content makes no sense."""
    return CorruptFileError("CORRUPT_DELETE_FILE", message, path=delete.path, stage=STAGE)


def missing_key(delete: DeleteFile, field_id: int, name: str) -> CorruptFileError:
    """Return the error for an equality-delete file without one of the columns that its manifest entry names.

    The spec ("Equality Delete Files") requires them in the file. No value can replace the column: NULL, which
    Iceberg-Spark assumes, deletes the wrong rows and keeps those that were to be deleted.
    """
    return CorruptFileError(
        "MISSING_DELETE_KEY",
        f"Equality-delete file has no column of field id {field_id}, although its manifest names it as a key: {name!r}",
        path=delete.path,
        stage=STAGE,
        hint="Its writer left out a column that says which rows are deleted. Let it rewrite the table's deletes, "
        "or read a snapshot before them ('snapshot-id').",
    )


def resolve(
    schema: pa.Schema, context: TableContext, delete: DeleteFile, wanted: Sequence[WantedField]
) -> list[FileField | None]:
    """Return the file's leaf for each wanted field; None for one that the file lacks.

    Raises:
        CorruptFileError: Several columns are the wanted one, or it is not a primitive.
    """
    fields = file_schema.identify(schema, context.name_mapping or (), path=delete.path)
    every = list(_walk(fields))
    has_ids = any(field.id is not None for field in every)
    found: list[FileField | None] = []
    for target in wanted:
        matches = [field for field in every if field.id == target.field_id]
        if not matches and (target.named or not has_ids):
            matches = _by_names(fields, target.names)
        if len(matches) > 1 or (matches and matches[0].children):
            raise corrupt(
                delete, f"Delete file does not have one plain column with field id {target.field_id}"
            )
        found.append(matches[0] if matches else None)
    return found


def _walk(fields: Sequence[FileField]) -> Iterator[FileField]:
    for field in fields:
        yield field
        yield from _walk(field.children)


def _by_names(fields: Sequence[FileField], names: tuple[str, ...]) -> list[FileField]:
    matches = [field for field in fields if field.name == names[0]]
    for name in names[1:]:
        matches = [child for field in matches for child in field.children if child.name == name]
    return matches


def leaf_arrays(array: pa.Array) -> Iterator[pa.Array]:
    """Yield the arrays of the leaves below an array, in file order; NULL where a parent is NULL.

    Raises:
        ValueError: A leaf lies in a list or map.
    """
    if pa.types.is_struct(array.type):
        for child in array.flatten():
            yield from leaf_arrays(child)
    elif pa.types.is_nested(array.type):
        raise ValueError("a key lies in a list or map")
    else:
        yield array
