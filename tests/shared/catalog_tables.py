"""Small tables of every format version to register in catalogs: one table for each feature of version 3.

Takes a folder; returns metadata files, each with a query and its result, written out here.
"""

from __future__ import annotations

import datetime
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tables import Table
from variant_tables import ROWS, variant_table

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path


@dataclass(frozen=True, kw_only=True)
class CatalogTable:
    """A table to register: its metadata file, a query of it and the query's rows.

    `select` is the text between SELECT and FROM, `types` are the columns' in Spark, `options` the reader's.
    """

    metadata: Path
    select: str
    rows: list[tuple[Any, ...]]
    types: dict[str, str]
    options: Mapping[str, str] = field(default_factory=dict)


def _plain(folder: Path, version: int) -> CatalogTable:
    table = Table(folder, {"id": "long", "name": "string"}, version=version)
    file = table.append([{"id": n, "name": f"n{n}"} for n in range(6)])
    table.append([{"id": n, "name": None} for n in range(6, 9)])
    kept = list(range(9))
    if version > 1:
        table.delete_positions({file: [1, 4]})
        kept = [n for n in kept if n not in (1, 4)]
    rows = [(n, f"n{n}" if n < 6 else None) for n in kept]
    return CatalogTable(
        metadata=table.write(), select="id, name", rows=rows, types={"id": "bigint", "name": "string"}
    )


def _vectors(folder: Path) -> CatalogTable:
    table = Table(folder, {"id": "long"}, version=3)
    first = table.append([{"id": n} for n in range(10)])
    second = table.append([{"id": n} for n in range(10, 20)])
    table.delete_vectors({first: [0, 9], second: [5]})
    rows = [(n,) for n in range(20) if n not in (0, 9, 15)]
    return CatalogTable(metadata=table.write(), select="id", rows=rows, types={"id": "bigint"})


def _lineage(folder: Path) -> CatalogTable:
    table = Table(folder, {"id": "long"}, version=3)
    table.append([{"id": n} for n in (30, 10)])
    table.append([{"id": n} for n in (20,)])
    rows = [(10, 1, 1), (20, 2, 2), (30, 0, 1)]
    return CatalogTable(
        metadata=table.write(),
        select="id, _row_id, _last_updated_sequence_number",
        rows=rows,
        types={"id": "bigint"},
    )


def _defaults(folder: Path) -> CatalogTable:
    table = Table(folder, {"id": "long"}, version=3)
    table.append([{"id": n} for n in range(3)])
    table.add_column("kind", "string", default="old")
    table.add_column("weight", "int", default=7)
    table.append([{"id": 3, "kind": None, "weight": 1}])
    rows = [*((n, "old", 7) for n in range(3)), (3, None, 1)]
    types = {"id": "bigint", "kind": "string", "weight": "int"}
    return CatalogTable(metadata=table.write(), select="id, kind, weight", rows=rows, types=types)


def _nanoseconds(folder: Path) -> CatalogTable:
    table = Table(folder, {"id": "long", "moment": "timestamp_ns"}, version=3)
    table.append([{"id": n, "moment": 1_700_000_000_000_000_000 + 1_500 * n} for n in range(3)])
    start = datetime.datetime(2023, 11, 14, 22, 13, 20)
    rows = [(n, start + datetime.timedelta(microseconds=(1_500 * n) // 1_000)) for n in range(3)]
    types = {"id": "bigint", "moment": "timestamp_ntz"}
    return CatalogTable(
        metadata=table.write(),
        select="id, moment",
        rows=rows,
        types=types,
        options={"timestamp-ns": "truncate"},
    )


def _variant(folder: Path) -> CatalogTable:
    metadata = variant_table(folder, "parquet")
    rows = [(n, None if n % 7 == 0 else n) for n in range(ROWS) if n != 3]
    return CatalogTable(
        metadata=metadata,
        select="id, variant_get(v, '$.a', 'int')",
        rows=rows,
        types={"id": "bigint", "v": "variant"},
    )


TABLES: dict[str, Callable[[Path], CatalogTable]] = {
    "version_1": lambda folder: _plain(folder, 1),
    "version_2": lambda folder: _plain(folder, 2),
    "version_3": lambda folder: _plain(folder, 3),
    "vectors": _vectors,
    "lineage": _lineage,
    "defaults": _defaults,
    "nanoseconds": _nanoseconds,
    "variants": _variant,
}
"""By the table's name in a catalog."""
