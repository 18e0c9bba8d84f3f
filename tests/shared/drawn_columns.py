"""Columns of every type at every depth, rows drawn for them, and rows read in the oracle's form."""

from __future__ import annotations

import random

import pyarrow as pa

import oracle
import random_values
from declared.types import Column, ListOf, MapOf, Struct, plain


def columns() -> list[Column]:
    """Return columns of every type, also inside structs, lists and maps."""
    kinds = [*dict.fromkeys(random_values.PRIMITIVES), "time", "decimal(38,10)"]
    flat = [Column(number, f"c{number}", kind) for number, kind in enumerate(kinds, 1)]
    inner = [Column(100 + number, f"i{number}", kind) for number, kind in enumerate(kinds)]
    deep = Struct(
        (Column(201, "x", "timestamp"), Column(202, "y", ListOf(Column(203, "element", "decimal(9,2)"))))
    )
    return [
        *flat,
        Column(90, "s", Struct(tuple(inner))),
        Column(200, "d", Struct((Column(204, "z", deep),))),
        Column(210, "l", ListOf(Column(211, "element", "uuid"))),
        Column(212, "ll", ListOf(Column(213, "element", ListOf(Column(214, "element", "string"))))),
        Column(220, "m", MapOf(Column(221, "key", "string", required=True), Column(222, "value", "date"))),
        Column(
            231,
            "mm",
            MapOf(
                Column(232, "key", "long", required=True),
                Column(233, "value", Struct((Column(234, "p", "double"), Column(235, "q", "fixed[4]")))),
            ),
        ),
        Column(240, "a.b", "int"),
    ]


class Values:
    """Draws rows of columns."""

    def __init__(self, seed: int, nulls: float) -> None:
        self.random = random.Random(seed)
        self.nulls = nulls
        self.pools: dict[int, list] = {}

    def row(self, fields) -> dict:
        return {field.id: self.value(field) for field in fields}

    def value(self, column: Column):
        pick = self.random
        if not column.required and pick.random() < self.nulls:
            return None
        kind = column.type
        if isinstance(kind, Struct):
            return self.row(kind.fields)
        if isinstance(kind, ListOf):
            return [self.value(kind.element) for _ in range(pick.randint(0, 3))]
        if isinstance(kind, MapOf):
            keys = dict.fromkeys(self.value(kind.key) for _ in range(pick.randint(0, 3)))
            return [(key, self.value(kind.value)) for key in keys]
        if column.id not in self.pools:
            times = [0, 1, 86_399_999_999, 12 * 3_600_000_000]
            self.pools[column.id] = times if kind == "time" else random_values.pool(pick, kind, 20)
        return plain(kind, pick.choice(self.pools[column.id]))


def rows_of(groups) -> list[tuple]:
    """Return the rows of row groups in the oracle's form."""
    return [
        row
        for arrays in groups
        for row in oracle.batch_rows(pa.RecordBatch.from_arrays(arrays, [str(i) for i in range(len(arrays))]))
    ]
