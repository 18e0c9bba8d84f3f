"""Checks a declared table: the core returns the stated ids, and the oracle's rows in every column.

Takes a table whose column ``id`` identifies rows; the expectation is stated in the test and checked against
the oracle, so that neither can be wrong alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import oracle
from core_scan import Result, open_table, scan
from twostage.predicates.predicate import TRUE, Column, Predicate

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from tables import Table
    from twostage.schema import Schema


class Columns:
    """Gives the columns of predicates by dotted path: ``c("s.a")``."""

    def __init__(self, schema: Schema) -> None:
        self.schema = schema

    def __call__(self, path: str) -> Column:
        field = self.schema.find(tuple(path.split(".")))
        assert field is not None, path
        return Column(field.id, self.schema.path(field.id), field.type)


def check(
    table: Table,
    ids: Iterable[int],
    where: Callable[[Columns], Predicate] | None = None,
    *,
    select: Sequence[str] | None = None,
    reference: str = "main",
    **options: str,
) -> Result:
    """Assert that the table has the rows with these ids (where the predicate is true).

    Args:
        table: The declared table; it is written here.
        ids: The ids expected, in any order.
        where: Builds the predicate.
        select: Top-level columns to return besides the id.
        reference: Branch or tag.
        options: Read options, ``_`` for ``-``.
    """
    table.write()
    if reference != "main":
        options["versionAsOf"] = reference
    opened = open_table(table.folder, **options)
    schema = opened.table.schema
    predicate = where(Columns(schema)) if where else TRUE
    fields = schema.fields
    if select is not None:
        fields = tuple(field for field in fields if field.name == "id" or field.name in select)
    result = scan(opened, fields, predicate)
    kept = [
        row for row in oracle.live_rows(table.content(reference)) if oracle.evaluate(predicate, row) is True
    ]
    expected = [oracle.project(row, fields) for row in kept]
    (id_field,) = (field for field in schema.fields if field.name == "id")
    assert sorted(row[id_field.id] for row in kept) == sorted(ids), "the oracle disagrees with the test"
    assert not (problem := oracle.difference(result.rows, expected)), problem
    # The same without the id column, and without any column: deletes and filters read their own.
    bare = scan(opened, tuple(field for field in fields if field.name != "id"), predicate)
    assert len(bare.rows) == len(expected)
    assert len(scan(opened, (), predicate).rows) == len(expected)
    return result


def ids(count: int, **values: Any) -> list[dict[str, Any]]:
    """Return rows with ids from 0; every other value is a list or a function of the id.

    >>> ids(2, k=lambda i: i % 2)
    [{'id': 0, 'k': 0}, {'id': 1, 'k': 1}]
    """
    return [
        {"id": i, **{name: value(i) if callable(value) else value[i] for name, value in values.items()}}
        for i in range(count)
    ]
