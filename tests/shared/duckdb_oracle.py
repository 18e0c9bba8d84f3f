"""A second opinion on predicates: DuckDB evaluates them on the live rows that brute force found.

Takes rows by field id and predicate trees; returns the places of the rows where the predicate is true. DuckDB
compares as Spark does: NaN is greatest and equals itself, -0.0 = 0.0, text by its bytes in UTF-8, NULL as in
SQL.
"""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa

from declared.types import decimal_of
from twostage.predicates import predicate as tree
from twostage.schema import Primitive

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from twostage.schema import Schema

_TYPES = {
    "boolean": (pa.bool_(), "BOOLEAN"),
    "int": (pa.int32(), "INTEGER"),
    "long": (pa.int64(), "BIGINT"),
    "float": (pa.float32(), "FLOAT"),
    "double": (pa.float64(), "DOUBLE"),
    "date": (pa.int32(), "INTEGER"),
    "timestamp": (pa.int64(), "BIGINT"),
    "timestamptz": (pa.int64(), "BIGINT"),
    "string": (pa.string(), "VARCHAR"),
    "uuid": (pa.string(), "UUID"),
}
_OPERATORS = {"<=>": "IS NOT DISTINCT FROM"}
_MATCHES = {"prefix": "starts_with", "suffix": "ends_with", "contains": "contains"}


class Rows:
    """Live rows as a DuckDB table.

    Args:
        rows: By field id.
        schema: The scan's; predicates may use its fields outside lists and maps.
    """

    def __init__(self, rows: Sequence[Mapping[int, Any]], schema: Schema) -> None:
        self._connection = duckdb.connect()
        self._parameters: list[Any] = []
        arrays = [pa.array(range(len(rows)), pa.int64())]
        names, casts = ["place"], ["place"]
        for field_id in rows[0] if rows else ():
            if field_id not in schema:
                continue
            values, kind = [row[field_id] for row in rows], schema.field(field_id).type
            if isinstance(kind, Primitive):
                arrow, sql = _types(str(kind))
                arrays.append(pa.array(values, arrow))
                casts.append(f"CAST(f{field_id} AS {sql}) AS f{field_id}")
            else:  # only tested for NULL
                arrays.append(pa.array([None if value is None else True for value in values], pa.bool_()))
                casts.append(f"f{field_id}")
            names.append(f"f{field_id}")
        self._connection.register("given", pa.table(dict(zip(names, arrays, strict=True))))
        self._connection.execute(f"CREATE TABLE live AS SELECT {', '.join(casts)} FROM given")

    def places(self, predicate: tree.Predicate) -> list[int]:
        """Return the places of the rows where the predicate is true, in order."""
        self._parameters = []
        where = self._sql(predicate)
        query = f"SELECT place FROM live WHERE {where} ORDER BY place"
        return [place for (place,) in self._connection.execute(query, self._parameters).fetchall()]

    def close(self) -> None:
        """Let go of the table."""
        self._connection.close()

    def _sql(self, predicate: tree.Predicate) -> str:
        match predicate:
            case tree.Constant(value):
                return "CAST(NULL AS BOOLEAN)" if value is None else str(value)
            case tree.Not(child):
                return f"(NOT {self._sql(child)})"
            case tree.And(children) | tree.Or(children):
                word = " AND " if isinstance(predicate, tree.And) else " OR "
                empty = "TRUE" if isinstance(predicate, tree.And) else "FALSE"
                return f"({word.join(map(self._sql, children)) or empty})"
            case tree.IsNull(column):
                return f"(f{column.field_id} IS NULL)"
            case tree.Compare(operator, column, literal):
                return f"({_column(column)} {_OPERATORS.get(operator, operator)} {self._literal(column, literal)})"
            case tree.CompareColumns(operator, left, right):
                return f"({_column(left)} {_OPERATORS.get(operator, operator)} {_column(right)})"
            case tree.In(column, literals, has_null):
                listed = [self._literal(column, literal) for literal in literals] + ["NULL"] * has_null
                return f"({_column(column)} IN ({', '.join(listed)}))"
            case tree.StringMatch(kind, column, text):
                return f"{_MATCHES[kind]}({_column(column)}, {self._literal(column, text)})"
        raise NotImplementedError(str(predicate))

    def _literal(self, column: tree.Column, value: Any) -> str:
        kind = str(column.value_type)
        self._parameters.append(uuid.UUID(value) if kind == "uuid" else value)
        return f"CAST(? AS {_types(kind)[1]})"


def _column(column: tree.Column) -> str:
    name = f"f{column.field_id}"
    return f"CAST({name} AS {_types(str(column.cast))[1]})" if column.cast else name


def _types(kind: str) -> tuple[pa.DataType, str]:
    if spec := decimal_of(kind):
        return pa.decimal128(*spec), f"DECIMAL({spec[0]},{spec[1]})"
    return _TYPES.get(kind, (pa.binary(), "BLOB"))
