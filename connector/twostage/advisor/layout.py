"""How the next rewrite of a table could lay out its rows for the queries of a log: order, partitions, Bloom filters.

Takes a recommended index, the operators on its column, and the column's metadata; returns further
recommendations, which help any reader. The rule: a table has one order and few partition fields, so only a
column that saves half of all entries is worth one.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from twostage.advisor.recommendation import Recommendation
from twostage.advisor.selectivity import HAS_ELEMENT

if TYPE_CHECKING:
    from collections.abc import Sequence

    from twostage.advisor.column_metadata import ColumnMetadata, TableColumns
    from twostage.advisor.tally import Tally

MIN_SHARE_OF_LAYOUT = 0.5
"""Of all entries: a column that alone saves this much is worth the table's one sort order, or a partition
field."""
MIN_PARTITION_BYTES = 128 * 2**20
"""Of a partition, on average: smaller ones would have small files."""
MIN_PARTITIONS = 4
MAX_BUCKETS = 1_024
MAX_IDENTITY_PARTITIONS = 10_000
"""Of a column partitioned by identity: manifests record each value."""
MIN_SHARE_LEFT_OUT = 0.1
"""Of the data files, for one value: Bloom filters that prune fewer are not worth their bytes."""
BLOOM_BYTES, ROW_GROUP_BYTES = 2**20, 128 * 2**20
"""Iceberg's defaults for ``write.parquet.bloom-filter-max-bytes``, which a filter takes in full, and for a
row group."""
EQUALITY = frozenset({"=", "<=>", "in"})
"""The operators that match single values."""
_DAYS = {"day": 1.0, "month": 30.44, "year": 365.25}
"""Per partition, by time transform, the finest first."""
_NO_BUCKETS = ("float", "double", "boolean")


def layout_for(
    indexes: Sequence[Recommendation], tally: Tally, metadata: TableColumns | None
) -> list[Recommendation]:
    """Return what the next rewrite of the table could do for the columns of recommended indexes, the best index first."""
    found: list[Recommendation] = []
    is_partitioned = False
    for index in indexes:
        (column,) = index.columns
        if HAS_ELEMENT in tally.operators[column]:
            continue  # neither a sort order nor Parquet's Bloom filters help to find elements of lists
        transform = None if is_partitioned else _transform(index, tally, metadata)
        if transform is not None and metadata is not None:
            found.append(_partition(index, transform, metadata))
            is_partitioned = True
        if transform != column:  # all rows of such a partition have one value: there is nothing to sort
            found += _sort(index, metadata)
        found += _bloom_filter(index, metadata)
    return found


def _transform(index: Recommendation, tally: Tally, metadata: TableColumns | None) -> str | None:
    """Return a column's partition transform, such as ``day(ts)``; its name for identity; None for none."""
    (column,) = index.columns
    known = None if metadata is None else metadata.columns.get(column)
    if metadata is None or known is None or index.saved_share < MIN_SHARE_OF_LAYOUT:
        return None
    if any(
        field == column or field.endswith((f"({column})", f", {column})")) for field in metadata.partitioning
    ):
        return None
    partitions = metadata.bytes // MIN_PARTITION_BYTES
    if partitions < MIN_PARTITIONS or known.has_elements:
        return None
    if known.span_days is not None:
        fitting = (
            name for name, days in _DAYS.items() if MIN_PARTITIONS <= known.span_days / days <= partitions
        )
        name = next(fitting, None)
        return None if name is None else f"{name}({column})"
    return _of_values(column, known, partitions) if set(tally.operators[column]) <= EQUALITY else None


def _of_values(column: str, known: ColumnMetadata, partitions: int) -> str | None:
    if known.distinct is not None and known.distinct <= min(partitions, MAX_IDENTITY_PARTITIONS):
        return column if known.distinct >= MIN_PARTITIONS else None
    if known.type.startswith(_NO_BUCKETS):
        return None
    buckets: int = 1 << (min(partitions, MAX_BUCKETS).bit_length() - 1)
    return f"bucket({buckets}, {column})"


def _partition(index: Recommendation, transform: str, metadata: TableColumns) -> Recommendation:
    (column,) = index.columns
    text = transform.replace(column, identifier(column))
    return Recommendation(
        table=index.table,
        action="partition",
        columns=(column,),
        transform=transform,
        reason=f"{index.saved_share:.0%} of all entries are scanned for {column}: partitioned by {transform}, any reader "
        f"skips files by manifests alone; the table's {metadata.files:,} files are large enough for it",
        votes=index.votes,
        queries=index.queries,
        saved_entries=index.saved_entries,
        saved_share=index.saved_share,
        saved_bytes=index.saved_bytes,
        saved_seconds=index.saved_seconds,
        size=0.0,
        build_cost=2.0 * metadata.bytes,
        command=f"ALTER TABLE {identifier(index.table)} ADD PARTITION FIELD {text}",
    )


def _sort(index: Recommendation, metadata: TableColumns | None) -> list[Recommendation]:
    (column,) = index.columns
    if index.saved_share < MIN_SHARE_OF_LAYOUT or (
        metadata is not None and column in metadata.sort_order[:1]
    ):
        return []
    return [
        Recommendation(
            table=index.table,
            action="sort",
            columns=(column,),
            reason=f"{index.saved_share:.0%} of all entries are scanned for {column}: sorted by it, any reader skips files "
            "and pages by their bounds, without an index; a table has one sort order",
            votes=index.votes,
            queries=index.queries,
            saved_entries=index.saved_entries,
            saved_share=index.saved_share,
            saved_bytes=index.saved_bytes,
            saved_seconds=index.saved_seconds,
            size=0.0,
            build_cost=None if metadata is None else 2.0 * metadata.bytes,
            command=f"ALTER TABLE {identifier(index.table)} WRITE ORDERED BY {identifier(column)}",
        )
    ]


def _bloom_filter(index: Recommendation, metadata: TableColumns | None) -> list[Recommendation]:
    (column,) = index.columns
    known = None if metadata is None else metadata.columns.get(column)
    if (
        "postings" not in index.kinds
        or metadata is None
        or known is None
        or not known.distinct_per_file
        or known.writes_bloom
        or known.bloom_share == 1.0
    ):
        return []
    left_out = None if not known.distinct else max(0.0, 1.0 - known.distinct_per_file / known.distinct)
    if left_out is not None and left_out < MIN_SHARE_LEFT_OUT:
        return []  # nearly every data file has nearly every value
    saves = left_out is not None
    size, missing = _bloom_bytes(metadata), 1.0 - known.bloom_share
    return [
        Recommendation(
            table=index.table,
            action="bloom filter",
            columns=(column,),
            reason=f"filters ask for single values of {column}, which has about {known.distinct_per_file:,.0f} different "
            f"ones in a data file{f' of {known.distinct:,.0f}' if known.distinct else ''}: any reader can skip files "
            "that have Bloom filters; existing files must be rewritten for that",
            votes=index.votes,
            queries=index.queries,
            saved_entries=index.saved_entries * (left_out or 0.0),
            saved_share=index.saved_share * (left_out or 0.0),
            saved_bytes=index.saved_bytes * (left_out or 0.0)
            if saves and index.saved_bytes is not None
            else None,
            saved_seconds=index.saved_seconds * (left_out or 0.0)
            if saves and index.saved_seconds is not None
            else None,
            size=size,
            build_cost=missing * (2.0 * metadata.bytes + size),
            command=f"ALTER TABLE {identifier(index.table)} SET TBLPROPERTIES "
            f"({_text(f'write.parquet.bloom-filter-enabled.column.{column}')}='true')",
        )
    ]


def _bloom_bytes(metadata: TableColumns) -> float:
    """Return the bytes of a column's Bloom filters: Iceberg writes one of `BLOOM_BYTES` per row group."""
    of_a_file = metadata.bytes / max(1, metadata.files)
    return float(metadata.files * max(1, math.ceil(of_a_file / ROW_GROUP_BYTES)) * BLOOM_BYTES)


def identifier(name: str) -> str:
    """Return a name quoted for Spark SQL, part by part: names in a log may contain anything."""
    parts = name.split(".")
    return ".".join(part if part.isidentifier() else "`" + part.replace("`", "``") + "`" for part in parts)


def _text(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
