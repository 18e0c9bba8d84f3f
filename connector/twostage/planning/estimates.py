"""Estimates for Spark's optimizer: the live rows of a file, the width of a value, the bytes of a scan.

They affect how Spark plans around a scan (such as broadcast joins), never which rows it returns.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from twostage.predicates.predicate import IsNull, Not, conjuncts
from twostage.schema import List, Map, Primitive, Struct, children

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from twostage.predicates.predicate import Predicate
    from twostage.schema import Field, Schema, Type
    from twostage.task import ScanTask

_WIDTHS = {
    "boolean": 1,
    "int": 4,
    "float": 4,
    "date": 4,
    "string": 20,
    "binary": 100,
    "uuid": 20,
    "decimal": 16,
}
"""Bytes per value that Spark's optimizer assumes (``DataType.defaultSize``); 8 for all other types."""
_ROW_WIDTH = 8
"""Bytes per row that Spark adds to the values."""
MAX_BYTES_IN_MEMORY = 8
"""In memory, for each estimated byte of an unfiltered scan. Spark broadcasts sides of up to 10 MB; in TPC-DS
query 72 at scale 1, a hash table of 1.4 M rows x 8 columns (10 MB of files) with 28 rows per key took 66 s of
CPU, sorting both sides 14 s."""
MIN_ROWS_PER_KEY_TO_SORT = 8
"""On average, from which on sorting both sides of a join is faster than a hash table: the estimate then
counts all of the rows' memory. In TPC-DS query 95 at scale 1, a hash table of 719,000 rows x 2 columns
(35 MiB of files) with 12 rows per key took 8.9 s of CPU, sorting both sides 4.2 s. Nothing filters the other
side there; where something did, in queries 37 and 82, sorting took 1.5 times the CPU of a hash table, so
`ScanDemand.joined_by` names no column then."""


def live_rows(task: ScanTask) -> int:
    """Estimate a file's rows after position deletes and deletion vectors; equality deletes are not estimated."""
    num_deleted = sum(
        delete.record_count
        for delete in task.deletes
        if delete.content != "equality" and delete.referenced_data_file is not None
    )
    return max(0, task.record_count - num_deleted)


def drops_rows(predicate: Predicate) -> bool:
    """Return whether a predicate does more than reject NULLs, which Spark itself adds for join keys."""
    return not all(isinstance(part, Not) and isinstance(part.child, IsNull) for part in conjuncts(predicate))


def estimate_bytes(
    rows: int,
    tasks: Iterable[ScanTask],
    fields: Sequence[Field],
    schema: Schema,
    *,
    is_filtered: bool = False,
    rows_a_key: float = 1.0,
    extra_width: int = 0,
) -> int:
    """Return the size reported to Spark's optimizer: about what it estimates for its own Parquet scan of the files.

    That is the size of the files, multiplied by the fields' share of a row's width. The uncompressed width of
    all rows would be four to ten times as much, so that Spark would sort both sides of joins that it could
    broadcast (2.8 M rows in TPC-DS query 93 at scale 1). If files are compressed better than that, an
    unfiltered scan counts a fraction of its rows' width: see `MAX_BYTES_IN_MEMORY`.

    Args:
        rows: Live rows, or how many of them the query wants.
        tasks: One for each file.
        fields: The columns that are read.
        schema: All columns of the table.
        is_filtered: Whether a filter drops rows, an unknown number of them.
        rows_a_key: A lower limit of how many rows a join finds per key, on average.
        extra_width: Bytes per row of columns that only the scan itself needs. Spark subtracts their share.
    """
    width = _row_width(fields)
    in_memory = rows * width
    of_files = sum(task.file_size for task in tasks) * width // max(width, _row_width(schema.fields))
    most_in_memory = 1 if rows_a_key >= MIN_ROWS_PER_KEY_TO_SORT else MAX_BYTES_IN_MEMORY
    least = 0 if is_filtered else in_memory // most_in_memory
    return min(in_memory, max(of_files, least)) * (width + extra_width) // width


def _row_width(fields: Iterable[Field]) -> int:
    return _ROW_WIDTH + sum(value_width(field.type) for field in fields)


def value_width(kind: Type) -> int:
    """Return the bytes per value that Spark's optimizer assumes for a type."""
    if isinstance(kind, Primitive):
        return _WIDTHS.get(kind.name, 8)
    inner = sum(value_width(field.type) for field in children(kind))
    assert isinstance(kind, Struct | List | Map)
    return inner
