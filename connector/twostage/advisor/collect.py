"""Column metadata of a table: from its manifests, and from a sample of its data files.

Takes the reader's options; gives a `TableMetadata`. Of some data files, spread over the table, the first row group is read,
column by column. The rule: rows and files are counted, everything else is estimated from the sample and says so, unless the
sample was the whole table.
"""

from __future__ import annotations

import math
import os
import uuid
from collections import defaultdict
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from twostage.advisor.column_metadata import ColumnMetadata, TableMetadata
from twostage.catalog.load_table import load_table
from twostage.data_files.data_file import descend
from twostage.data_files.open_data_file import open_data_file
from twostage.errors import OptionError, TwoStageError
from twostage.indexes.kinds.elements import non_null_elements
from twostage.indexes.place import index_place, list_indexes
from twostage.metrics import Metrics
from twostage.planning.plan import plan_scan
from twostage.predicates.predicate import TRUE
from twostage.schema import Primitive, element_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from twostage.data_files.data_file import DataFile
    from twostage.data_files.row_group import RowGroup
    from twostage.options import ReadOptions
    from twostage.schema import Schema
    from twostage.table.pinned import PinnedTable
    from twostage.task import ScanContext, ScanTask

SAMPLED_FILES = 8
_WHOLE = 2**62
"""A split size in bytes that no file reaches: a task is a whole file."""
_BLOOM = "write.parquet.bloom-filter-enabled.column."
_NEARLY_ALL = 0.99
"""Of the rows of a sample: if so many have values of their own, the table's rows are taken to have them, too."""


@dataclass(slots=True)
class _Sample:
    """What was read of a column: values that differ, in all, and each row group's rows, different values and bounds."""

    rows: int = 0
    nulls: int = 0
    values: list[pa.Array] = field(default_factory=list)
    groups: list[tuple[int, int]] = field(default_factory=list)
    bounds: list[tuple[Any, Any]] = field(default_factory=list)
    bytes: int = 0
    dictionary_bytes: int = 0
    dictionary_groups: int = 0
    entries: int = 0
    pages: int = 0


def collect(
    options: ReadOptions,
    confs: Mapping[str, str],
    *,
    sampled_files: int = SAMPLED_FILES,
    step: Callable[[int, int], None] = lambda _done, _of: None,
) -> TableMetadata:
    """Return what is known of a table's columns.

    Args:
        options: The reader's; they name the table and its snapshot.
        confs: Spark's, for catalogs.
        sampled_files: Data files of which the first row group is read.
        step: Called with the number of files read so far, and of all that will be.

    Raises:
        OptionError: There is no such table, or it is a metadata table.
    """
    table = load_table(options, confs)
    if table.metadata_table is not None:
        raise OptionError("BAD_OPTION", "A metadata table has no columns to index", stage="options")
    plan = plan_scan(
        table,
        replace(options, split_size=_WHOLE),
        projection=(),
        predicate=TRUE,
        hint=TRUE,
        limit=None,
        parallelism=os.cpu_count() or 1,
        scan_id=uuid.uuid4().hex,
    )
    items = [(group.context, task) for group in plan.groups for task in group.tasks]
    rows = sum(task.record_count for _, task in items)
    names = columns_of(table.schema)
    chosen = [items[place] for place in spread(len(items), sampled_files)]
    samples: dict[int, _Sample] = defaultdict(_Sample)
    for number, (context, task) in enumerate(chosen):
        step(number, len(chosen))
        _read(context, task, names, samples)
    step(len(chosen), len(chosen))
    properties = table.metadata.properties
    indexed = _indexed(table, options)
    columns = {
        name: _estimate(
            samples[field_id],
            rows,
            len(items),
            kind=str(table.schema.field(field_id).type),
            has_bloom=properties.get(_BLOOM + name, "").lower() == "true",
            indexed=indexed.get(field_id, ()),
        )
        for field_id, name in names.items()
    }
    return TableMetadata(
        table=table.name,
        snapshot=None if table.snapshot is None else table.snapshot.snapshot_id,
        rows=rows,
        files=len(items),
        bytes=sum(task.file_size for _, task in items),
        partitioning=_partitioning(table),
        sort_order=tuple(_path(table, source) for source in table.metadata.sorted_by),
        columns=columns,
    )


def _partitioning(table: PinnedTable) -> tuple[str, ...]:
    """Return the fields of the default partition spec, such as ``day(ts)``; ``country`` where it is the column itself."""
    spec = table.metadata.specs.get(
        -1 if table.metadata.default_spec_id is None else table.metadata.default_spec_id
    )
    fields = () if spec is None else spec.fields
    return tuple(
        _path(table, one.source_id)
        if one.transform == "identity"
        else f"{one.transform}({_path(table, one.source_id)})"
        for one in fields
        if one.transform != "void"
    )


def _path(table: PinnedTable, field_id: int) -> str:
    return ".".join(table.schema.path(field_id)) if field_id in table.schema else f"<field {field_id}>"


def with_indexes(metadata: TableMetadata, options: ReadOptions, confs: Mapping[str, str]) -> TableMetadata:
    """Return column metadata with the indexes that the table has now.

    Args:
        metadata: As it was collected once.
        options: The reader's; they name the table.
        confs: Spark's, for catalogs.
    """
    table = load_table(options, confs)
    indexed = {
        ".".join(table.schema.path(field_id)): kinds
        for field_id, kinds in _indexed(table, options).items()
        if field_id in table.schema
    }
    columns = {name: replace(one, indexed=indexed.get(name, ())) for name, one in metadata.columns.items()}
    return replace(metadata, columns=columns)


def _indexed(table: PinnedTable, options: ReadOptions) -> dict[int, tuple[str, ...]]:
    """Return the kinds of the indexes that a table has, by field id."""
    own = [
        folder
        for name in ("write.data.path", "write.metadata.path")
        if (folder := table.metadata.properties.get(name))
    ]
    place = index_place(table.storage, options.settings, table.metadata.table_uuid, own)
    groups = () if place is None else list_indexes(place, Metrics()).groups
    return {field_id: kinds for group in groups for field_id, kinds in group.columns}


def columns_of(schema: Schema) -> dict[int, str]:
    """Return the columns that may have an index, by field id: fields of structs too, and lists and maps as such."""
    found = {}
    for field_id in schema.field_ids():
        path = schema.path(field_id)
        parents = [schema.find(path[:depth]) for depth in range(1, len(path))]
        is_flat = all(parent is not None and type(parent.type).__name__ == "Struct" for parent in parents)
        kind = schema.field(field_id).type
        element = element_of(kind)
        if element is not None:
            kind = element.type
        if (
            is_flat
            and isinstance(kind, Primitive)
            and kind.name not in ("variant", "unknown", "geometry", "geography")
        ):
            found[field_id] = ".".join(path)
    return found


def spread(count: int, wanted: int) -> Sequence[int]:
    """Return up to `wanted` of `count` places, evenly spread.

    >>> spread(10, 3)
    [0, 5, 9]
    """
    if count <= wanted:
        return list(range(count))
    if wanted == 1:
        return [0]
    return sorted({math.floor(place * (count - 1) / (wanted - 1) + 0.5) for place in range(wanted)})


def _read(
    context: ScanContext, task: ScanTask, names: Mapping[int, str], samples: Mapping[int, _Sample]
) -> None:
    """Read the first row group of a file, one column after the other."""
    with open_data_file(context, task, Metrics()) as data_file:
        row_group = next(iter(data_file.row_groups()), None)
        if row_group is None or not row_group.num_rows:
            return
        for field_id in names:
            try:
                values, entries, leaf_id = _values(data_file, row_group, field_id)
                distinct = pc.unique(entries).drop_null()
            except (TwoStageError, pa.ArrowNotImplementedError):
                continue  # a type that cannot be read, or not be compared, can have no index either
            sample = samples[field_id]
            pages = data_file.page_bounds(row_group, leaf_id)
            sample.bytes += data_file.stored_bytes(row_group, {leaf_id})
            sample.dictionary_bytes += data_file.dictionary_bytes(row_group, leaf_id)
            sample.dictionary_groups += data_file.is_dictionary_encoded(row_group, leaf_id)
            sample.entries += len(entries)
            sample.pages += 0 if pages is None else len(pages.first_rows)
            sample.rows += row_group.num_rows
            sample.nulls += values.null_count
            sample.values.append(distinct)
            sample.groups.append((len(entries), len(distinct)))
            if len(distinct):
                try:
                    found = pc.min_max(distinct).as_py()
                    sample.bounds.append((found["min"], found["max"]))
                except pa.ArrowNotImplementedError:
                    continue


def _values(data_file: DataFile, row_group: RowGroup, field_id: int) -> tuple[pa.Array, pa.Array, int]:
    """Return a column of a row group, its entries, and the field that holds them: of a list the elements, of a map the keys."""
    element = element_of(data_file.context.schema.field(field_id).type)
    if element is None:
        values = data_file.read_leaf(row_group, field_id)
        return values, values, field_id
    target, depth = data_file.leaf_target(field_id)
    parts = [
        descend(array, depth)
        for (array,) in data_file.stream(row_group, [target], max(1, row_group.num_rows))
    ]
    values = pa.concat_arrays(parts)
    return values, non_null_elements(values)[1], element.id


def _estimate(
    sample: _Sample, rows: int, files: int, *, kind: str, has_bloom: bool, indexed: tuple[str, ...]
) -> ColumnMetadata:
    if not sample.rows:
        return ColumnMetadata(type=kind, rows=rows, bloom_share=float(has_bloom), indexed=indexed)
    different = len(pc.unique(pa.chunked_array(sample.values)))
    is_exact = sample.rows == rows
    scale = rows / sample.rows
    entries_per_row = sample.entries / sample.rows
    entries = rows * entries_per_row
    of_a_file = entries / max(1, files)
    each = [_of_a_file(count, size, of_a_file) for size, count in sample.groups]
    return ColumnMetadata(
        type=kind,
        rows=rows,
        nulls=round(sample.nulls * scale),
        distinct=float(different)
        if is_exact
        else min(entries, drawn_from(different, sample.entries, entries)),
        distinct_per_file=sum(each) / len(each),
        is_exact=is_exact,
        entries_per_row=entries_per_row,
        bytes=round(sample.bytes * scale),
        dictionary_bytes=round(sample.dictionary_bytes * scale),
        pages=round(sample.pages * scale),
        dictionary_share=sample.dictionary_groups / len(sample.groups),
        bloom_share=float(has_bloom),
        overlap=_overlap(sample.bounds) if files > 1 else None,
        indexed=indexed,
    )


def drawn_from(different: int, rows: int, all_rows: float | None = None) -> float:
    """Return how many values there are if `rows` draws, each value equally likely, gave so many different ones.

    Solves different = D (1 - exp(-rows / D)). Where nearly every row has a value of its own, so have all rows.
    """
    if different <= 1 or rows <= 1:
        return float(different)
    if different >= _NEARLY_ALL * rows:
        return float(different) if all_rows is None else different * all_rows / rows
    low, high = float(different), float(different) * rows
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if draw(middle, rows) < different else (low, middle)
    return low


def _of_a_file(different: int, rows: int, of_a_file: float) -> float:
    """Return how many different values a file has of which some rows had so many."""
    if different >= _NEARLY_ALL * rows or rows >= of_a_file:
        return different * max(1.0, of_a_file / rows)
    return draw(drawn_from(different, rows), of_a_file)


def draw(values: float, rows: float) -> float:
    """Return how many different values so many draws give on average.

    >>> draw(2.0, 1000.0)
    2.0
    """
    return 0.0 if values <= 0 else values * -math.expm1(-rows / values)


def _overlap(bounds: Sequence[tuple[Any, Any]]) -> float | None:
    """Return the share of files whose bounds hold the least value of a file, on average; None for fewer than three files."""
    if len(bounds) < 3:
        return None
    held = sum(low <= value <= high for value, _ in bounds for low, high in bounds)
    return float(held) / len(bounds) ** 2
