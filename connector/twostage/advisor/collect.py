"""Column metadata of a table: from its manifests, and from a sample of its data files.

Takes the reader's options and what an earlier call kept; returns a `TableColumns`, and what the next call can
continue from. The rule: rows, files, and whatever every manifest entry states are counted; everything else is
estimated from the sample and marked so, unless the sample was the whole table.
"""

from __future__ import annotations

import math
import os
import uuid
from collections import defaultdict
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from twostage.advisor.column_metadata import ColumnMetadata, TableColumns
from twostage.advisor.column_sample import ColumnSample, SampleWork, overlap_of, sample_files
from twostage.advisor.compile_cost import CompileCost
from twostage.advisor.kept_metadata import Collected, kept_in
from twostage.catalog.load_table import load_table
from twostage.deletes.cache import fingerprint
from twostage.errors import OptionError
from twostage.indexes.place import index_place, list_indexes
from twostage.metrics import Metrics
from twostage.planning.plan import plan_scan
from twostage.predicates.predicate import TRUE
from twostage.schema import Primitive, element_of, leaves
from twostage.table.column_metrics import metrics_bounds
from twostage.table.manifest import read_manifest_list
from twostage.table.manifest_cache import stream_data_manifests

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from twostage.indexes.place import IndexPlace
    from twostage.options import ReadOptions
    from twostage.schema import Schema
    from twostage.table.pinned import PinnedTable
    from twostage.task import ScanContext, ScanTask

    Run = Callable[[Sequence[SampleWork]], Iterable[dict[int, ColumnSample]]]

SAMPLED_FILES = 8
MIN_SHARE_LIVE = 0.5
"""Of the data files that kept samples represent: if fewer are live, the table is sampled again."""
_WHOLE = 2**62
"""A split size in bytes that no file reaches: a task is a whole file."""
_BLOOM = "write.parquet.bloom-filter-enabled.column."
_MIN_UNIQUE_SHARE = 0.99
"""If at least this share of sampled rows is distinct, all rows of the table are assumed to be."""
_MIN_UNIQUE_SHARE_ESTIMATED = 0.95
"""The same if a sketch estimated them: lower by three of its standard errors."""
_PER_DAY = {"date": 1} | {
    f"timestamp{zone}{unit}": 86_400 * 10 ** (9 if unit else 6) for zone in ("", "tz") for unit in ("", "_ns")
}
_MAX_FILES_WITH_BOUNDS = 1_000
"""Data files whose bounds tell how clustered a column is; with more, every second, third … one: 12 MB for 120
columns."""


def collect(
    options: ReadOptions,
    confs: Mapping[str, str],
    *,
    sampled_files: int = SAMPLED_FILES,
    run: Run | None = None,
    out: str | None = None,
) -> TableColumns:
    """Return what is known about a table's columns; uses what an earlier call kept, and writes nothing.

    Args:
        options: The reader's; they name the table and its snapshot.
        confs: Spark's, for catalogs.
        sampled_files: Data files whose first row group is read; if only some files are new, a share.
        run: Runs units of work (`sample_files`), one data file each, possibly in parallel; by default
            sequentially.
        out: The local file that the earlier call wrote; by default it is beside the table's indexes.

    Raises:
        OptionError: There is no such table, or it is a metadata table.
    """
    return collect_more(options, confs, sampled_files=sampled_files, run=run, out=out)[0]


def collect_more(
    options: ReadOptions,
    confs: Mapping[str, str],
    *,
    sampled_files: int = SAMPLED_FILES,
    run: Run | None = None,
    out: str | None = None,
) -> tuple[TableColumns, Collected, IndexPlace | None]:
    """Return what `collect` does, what the next call can continue from, and the place of the indexes, if any."""
    table = load_table(options, confs)
    if table.metadata_table is not None:
        raise OptionError("BAD_OPTION", "A metadata table has no columns to index", stage="options")
    place = _place(table, options)
    context, tasks, compiling = _data_files(table, options)
    names = columns_of(table.schema)
    collected = _sampled(
        kept_in(place, out),
        context,
        tasks,
        tuple(names),
        sampled_files,
        run or (lambda work: map(sample_files, work)),
    )
    rows = sum(task.record_count for task in tasks)
    properties = table.metadata.properties
    indexed = _indexed(place)
    listed = _manifest_facts(table, names, -(-len(tasks) // _MAX_FILES_WITH_BOUNDS), compiling)
    columns = {
        name: _estimate(
            collected.samples.get(field_id, ColumnSample()),
            listed[field_id],
            rows,
            len(tasks),
            kind=str(table.schema.field(field_id).type),
            writes_bloom=properties.get(_BLOOM + name, "").lower() == "true",
            indexed=indexed.get(field_id, ()),
        )
        for field_id, name in names.items()
    }
    metadata = TableColumns(
        table=table.name,
        snapshot=None if table.snapshot is None else table.snapshot.snapshot_id,
        rows=rows,
        files=len(tasks),
        bytes=sum(task.file_size for task in tasks),
        compile_bytes=compiling.nbytes,
        location=table.storage.root,
        partitioning=_partitioning(table),
        sort_order=tuple(_path(table, source) for source in table.metadata.sorted_by),
        columns=columns,
    )
    return metadata, collected, place


def _data_files(table: PinnedTable, options: ReadOptions) -> tuple[ScanContext, list[ScanTask], CompileCost]:
    """Return all data files as tasks without deletes, and the bytes that compiling reads from delete files."""
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
    planned = [task for group in plan.groups for task in group.tasks]
    tasks = [replace(task, deletes=(), start=0, length=task.file_size) for task in planned]
    return plan.context, tasks, CompileCost(planned)


def _sampled(
    kept: Collected | None,
    context: ScanContext,
    tasks: Sequence[ScanTask],
    field_ids: tuple[int, ...],
    sampled_files: int,
    run: Run,
) -> Collected:
    """Return samples that represent all data files: the kept ones, and those of some files added since."""
    keys = np.array([int(fingerprint.of_data_file(task)[:16], 16) for task in tasks], np.uint64)
    known = kept if kept is not None and set(field_ids) <= kept.samples.keys() else Collected()
    is_new = ~np.isin(keys, known.data_files)
    if len(keys) - is_new.sum() < MIN_SHARE_LIVE * len(known.data_files):
        known, is_new = Collected(), np.ones(len(keys), bool)
    new = [task for task, one in zip(tasks, is_new, strict=True) if one]
    wanted = math.ceil(sampled_files * len(new) / len(tasks)) if tasks else 0
    chosen = [new[place] for place in spread(len(new), wanted)] if new else []
    samples = {field_id: replace(one) for field_id, one in known.samples.items()}
    work = [SampleWork(context=context, tasks=(task,), field_ids=field_ids) for task in chosen]
    for found in run(work) if work else ():
        for field_id, one in found.items():
            if field_id in samples:
                samples[field_id].merge(one)
            else:
                samples[field_id] = one
    for field_id in field_ids:
        samples.setdefault(field_id, ColumnSample())  # known to have none
    return Collected(data_files=np.unique(keys), samples=samples)


@dataclass(slots=True)
class _ManifestFacts:
    """What the manifests state about a column; None if an entry does not state it."""

    bytes: int | None = 0
    nulls: int | None = 0
    bounds: list[tuple[Any, Any]] = field(default_factory=list)

    def add_bytes(self, sizes: Sequence[int | None]) -> None:
        """Add the bytes of a column's leaves in a data file."""
        known = [size for size in sizes if size is not None]
        self.bytes = None if self.bytes is None or len(known) < len(sizes) else self.bytes + sum(known)

    def add_nulls(self, nulls: int | None) -> None:
        """Add the NULLs of a data file."""
        self.nulls = None if self.nulls is None or nulls is None else self.nulls + nulls


def _manifest_facts(
    table: PinnedTable, names: Mapping[int, str], stride: int, compiling: CompileCost
) -> dict[int, _ManifestFacts]:
    """Return what the manifests state about columns, by field id; bounds of every `stride`-th data file only.

    Adds the bytes of data files that compiling deletes would read to `compiling`.
    """
    found: dict[int, _ManifestFacts] = defaultdict(_ManifestFacts)
    if table.snapshot is None:
        return found
    kinds = {field_id: table.schema.field(field_id).type for field_id in names}
    stored = {field_id: [leaf.id for leaf in leaves(table.schema.field(field_id))] for field_id in names}
    manifests = [one for one in read_manifest_list(table.storage, table.snapshot) if not one.is_deletes]
    stream = stream_data_manifests(table.storage, manifests, table.metadata.specs, read_ahead=len(manifests))
    for number, file in enumerate(stream):
        compiling.add(file)
        for field_id, kind in kinds.items():
            listed = found[field_id]
            listed.add_bytes([file.column_sizes.get(i) for i in stored[field_id]])
            listed.add_nulls(file.null_counts.get(field_id) if isinstance(kind, Primitive) else None)
            if number % stride == 0 and isinstance(kind, Primitive):
                bounds = metrics_bounds(kind, file, field_id)
                if bounds is not None and bounds.lower is not None and bounds.upper is not None:
                    listed.bounds.append((bounds.lower, bounds.upper))
    return found


def _partitioning(table: PinnedTable) -> tuple[str, ...]:
    """Return the fields of the default partition spec, such as ``day(ts)``; ``country`` for identity."""
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


def with_indexes(metadata: TableColumns, options: ReadOptions, confs: Mapping[str, str]) -> TableColumns:
    """Return column metadata with the indexes that the table has now.

    Args:
        metadata: As collected earlier.
        options: The reader's; they name the table.
        confs: Spark's, for catalogs.
    """
    table = load_table(options, confs)
    indexed = {
        ".".join(table.schema.path(field_id)): kinds
        for field_id, kinds in _indexed(_place(table, options)).items()
        if field_id in table.schema
    }
    columns = {name: replace(one, indexed=indexed.get(name, ())) for name, one in metadata.columns.items()}
    return replace(metadata, columns=columns, location=table.storage.root)


def _place(table: PinnedTable, options: ReadOptions) -> IndexPlace | None:
    own = [
        folder
        for name in ("write.data.path", "write.metadata.path")
        if (folder := table.metadata.properties.get(name))
    ]
    return index_place(table.storage, options.settings, table.metadata.table_uuid, own)


def _indexed(place: IndexPlace | None) -> dict[int, tuple[str, ...]]:
    """Return the kinds of the indexes that a table has, by field id."""
    groups = () if place is None else list_indexes(place, Metrics()).groups
    return {field_id: kinds for group in groups for field_id, kinds in group.columns}


def columns_of(schema: Schema) -> dict[int, str]:
    """Return the columns that may have an index, by field id: fields of structs, too, and whole lists and maps."""
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


def _estimate(
    sample: ColumnSample,
    listed: _ManifestFacts,
    rows: int,
    files: int,
    *,
    kind: str,
    writes_bloom: bool,
    indexed: tuple[str, ...],
) -> ColumnMetadata:
    if not sample.rows:
        return ColumnMetadata(type=kind, rows=rows, writes_bloom=writes_bloom, indexed=indexed)
    different, is_counted = sample.distinct
    is_exact = sample.rows == rows and is_counted
    scale = rows / sample.rows
    entries_per_row = sample.entries / sample.rows
    entries = rows * entries_per_row
    of_a_file = entries / max(1, files)
    each = [_of_a_file(count, size, of_a_file) for size, count in sample.row_groups]
    return ColumnMetadata(
        type=kind,
        rows=rows,
        nulls=round(sample.nulls * scale) if listed.nulls is None else listed.nulls,
        distinct=different
        if sample.rows == rows
        else min(entries, estimate_distinct(different, sample.entries, entries, is_counted=is_counted)),
        distinct_per_file=sum(each) / len(each),
        is_exact=is_exact,
        entries_per_row=entries_per_row,
        bytes=round(sample.nbytes * scale) if listed.bytes is None else listed.bytes,
        dictionary_bytes=round(sample.dictionary_bytes * scale),
        pages=round(sample.pages * scale),
        dictionary_share=sample.dictionaries / max(1, sample.chunks),
        bloom_share=sample.blooms / max(1, sample.chunks),
        writes_bloom=writes_bloom,
        overlap=overlap_of(listed.bounds) if files > 1 else None,
        page_overlap=sample.page_overlaps / sample.bounded if sample.bounded else None,
        span_days=_span_days(listed.bounds, kind),
        indexed=indexed,
    )


def estimate_distinct(
    different: float, rows: int, all_rows: float | None = None, *, is_counted: bool = True
) -> float:
    """Estimate the number of values, all equally likely, if `rows` draws gave `different` distinct ones.

    Solves different = D (1 - exp(-rows / D)). If nearly every row drawn has its own value, so have all rows.

    Args:
        different: Distinct values drawn: counted, or estimated by a sketch.
        rows: Rows drawn.
        all_rows: Rows that could be drawn; None if unknown.
        is_counted: Whether `different` was counted.
    """
    if different <= 1 or rows <= 1:
        return float(different)
    if different >= (_MIN_UNIQUE_SHARE if is_counted else _MIN_UNIQUE_SHARE_ESTIMATED) * rows:
        return float(different) if all_rows is None else min(1.0, different / rows) * all_rows
    low, high = float(different), float(different) * rows
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if expected_distinct(middle, rows) < different else (low, middle)
    return low


def _of_a_file(different: int, rows: int, of_a_file: float) -> float:
    """Estimate the distinct values of a file from those of some of its rows."""
    if different >= _MIN_UNIQUE_SHARE * rows or rows >= of_a_file:
        return different * max(1.0, of_a_file / rows)
    return expected_distinct(estimate_distinct(different, rows), of_a_file)


def expected_distinct(values: float, rows: float) -> float:
    """Return the expected number of distinct values in `rows` draws from `values` equally likely ones.

    >>> expected_distinct(2.0, 1000.0)
    2.0
    """
    return 0.0 if values <= 0 else values * -math.expm1(-rows / values)


def _span_days(bounds: Sequence[tuple[Any, Any]], kind: str) -> float | None:
    """Return the days between the least lower and the greatest upper bound of dates or timestamps; None for other types."""
    of_a_day = _PER_DAY.get(kind)
    if of_a_day is None or not bounds:
        return None
    return float(max(high for _, high in bounds) - min(low for low, _ in bounds)) / of_a_day
