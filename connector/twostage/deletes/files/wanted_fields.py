"""The fields and rows that a reader needs from a delete file, and where the fields are in it.

Takes a file's fields, whatever its format; returns the leaf of each wanted field. The rule: fields are found
by id, and by name only if the file has no ids.
Source: Iceberg table spec, "Position Delete Files" and "Equality Delete Files".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import pyarrow as pa

from twostage.errors import CorruptFileError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from twostage.formats.file_schema import FileField
    from twostage.predicates.bounds import Bounds
    from twostage.predicates.predicate import Predicate
    from twostage.task import DeleteFile

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


@dataclass(frozen=True, slots=True, kw_only=True)
class NeededRows:
    """Which rows of a delete file a reader needs; it may get more. Row groups of Parquet without any are skipped.

    Attributes:
        may_hold: Takes the bounds of the first wanted field, a string; False if it needs no row between them.
        predicate: TRUE for every row that it needs; its columns are among the wanted fields. Statistics and
            Bloom filters may prove that a row group holds no such row.
        first: The index of the wanted field that is read first, for `may_match`.
        may_match: Takes a batch of values of that field; it needs no row of a row group if it is False for all
            batches.
    """

    may_hold: Callable[[Bounds], bool] | None = None
    predicate: Predicate | None = None
    first: int | None = None
    may_match: Callable[[pa.Array], bool] | None = None


ALL_ROWS = NeededRows()
LeafBatch: TypeAlias = tuple[int, dict[int, pa.Array]]
"""A number of rows, and the arrays of some leaves, by leaf."""


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
    fields: Sequence[FileField], delete: DeleteFile, wanted: Sequence[WantedField]
) -> list[FileField | None]:
    """Return the file's leaf for each wanted field; None for one that the file lacks.

    Raises:
        CorruptFileError: Several columns are the wanted one, or it is not a primitive.
    """
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


def leaves_of(sources: Sequence[FileField | None]) -> list[int]:
    """Return the leaves of the wanted fields that the file has, ascending."""
    return sorted({source.first_leaf for source in sources if source is not None})


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
