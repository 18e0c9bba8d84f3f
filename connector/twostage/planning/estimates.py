"""What Spark's optimizer is told of a scan: about how many rows a file has left, and how wide a value is.

Takes a task or a type; gives a number. The rule: it decides how Spark plans around a scan, never which rows come back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from twostage.schema import List, Map, Primitive, Struct, children

if TYPE_CHECKING:
    from twostage.schema import Type
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
"""Bytes that Spark's optimizer assumes for a value; 8 for all others."""


def live_rows(task: ScanTask) -> int:
    """Return about how many rows a file has after deletes; equality deletes are not guessed at."""
    gone = sum(
        delete.record_count
        for delete in task.deletes
        if delete.content != "equality" and delete.referenced_data_file is not None
    )
    return max(0, task.record_count - gone)


def value_width(kind: Type) -> int:
    """Return the bytes that Spark's optimizer assumes for a value of this type."""
    if isinstance(kind, Primitive):
        return _WIDTHS.get(kind.name, 8)
    inner = sum(value_width(field.type) for field in children(kind))
    assert isinstance(kind, Struct | List | Map)
    return inner
