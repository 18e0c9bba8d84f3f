"""Counts, minima and maxima that manifests prove, so that no data file is opened.

Takes a pinned table, aggregates, identity-partition columns to group by and a predicate; gives the rows of the
answer, or the reason why files must be read. The rule: an answer is what reading every file would give, as far
as the metrics are right, which pruning relies on too. Where few files prove too little, the rows may leave them out, and
name them. Nothing here knows Spark.

What proves a file: Parquet or ORC, counted rows, a predicate that its metrics or partition prove for all rows or
for none, and no deletes but one deletion vector, whose cardinality is what it takes away, or positional delete
files, which are read here if they are few.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from twostage.files.computed_columns import DELETED
from twostage.planning.choose_files import Planning
from twostage.planning.deleted_rows import DeletedRows, distinct, too_much
from twostage.planning.name_mapping import NAME_MAPPING_PROPERTY, moved_fields
from twostage.planning.partition import Transform, partition_value
from twostage.planning.prune_files import may_count_other_units
from twostage.planning.unproven_files import UnprovenFiles
from twostage.predicates.bounds import decode_bound
from twostage.predicates.predicate import TRUE, columns as columns_of, is_exact
from twostage.predicates.prune import order_key
from twostage.schema import Field, Primitive
from twostage.storage import name_snapshot
from twostage.table.manifest import fetch_manifests, read_manifest_list

if TYPE_CHECKING:
    from collections.abc import Mapping

    from twostage.options import ReadOptions
    from twostage.planning.prune_files import Verdict
    from twostage.predicates.predicate import Predicate
    from twostage.table.catalog import PinnedTable
    from twostage.table.manifest import ContentFile
    from twostage.task import DeleteFile

MOST_GROUPS = 10_000
"""Rows of an answer at most: the driver holds them."""
MANY_FILES = 20_000
"""From so many on, entries are not read one by one to count rows: 30 us each."""
COUNTED = frozenset(
    "boolean int long float double decimal string binary fixed uuid date time timestamp timestamptz".split()
)
"""Types whose values are counted. The others are refused where they are read."""
COMPARED = frozenset("boolean int long float double decimal date timestamp timestamptz".split())
"""Types whose bounds are values of the column: bounds of text and bytes may be cut, and nothing tells."""
COMPARED_IN_ORC = frozenset(("int", "long"))
"""ORC's statistics hold milliseconds, and writers differ in the rest."""
GROUPED = frozenset("boolean int long decimal string date timestamp timestamptz".split())
"""Types of the columns to group by: not float, where 0.0 and -0.0 are one group and two partitions."""
MOST_DELETE_FILES = 256
"""Files of positions take the driver 1 to 4 ms each, and a task starts in 10."""
_FORMATS = ("parquet", "orc")
"""Nobody knows how many rows an Avro file has before it is read, so that a wrong count would go unnoticed."""
_SHIFTED = ("timestamp", "timestamptz")
"""Read from ORC they may be a second later than they were meant, see `prune_files.as_stored`."""

Function = Literal["rows", "count", "min", "max"]


@dataclass(frozen=True, slots=True)
class Aggregate:
    """``count(*)`` (``rows``), or `function` of a column."""

    function: Function
    field: Field | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The rows: the values of the groups, then those of the aggregates. Values in the form of `schema.py`."""

    rows: tuple[tuple[Any, ...], ...]
    files: int
    """Data files whose metadata answered."""
    delete_files: int = 0
    """Positional delete files that were read for it."""
    unread: frozenset[str] = frozenset()
    """Data files that the rows leave out, as they prove too little: written paths."""
    lacks: str = ""
    """What the first of them lacks."""
    counters: Mapping[str, int]


def answer(
    table: PinnedTable,
    options: ReadOptions,
    *,
    aggregates: tuple[Aggregate, ...],
    groups: tuple[Field, ...] = (),
    predicate: Predicate = TRUE,
    mix: bool = False,
) -> Answer | str:
    """Return the answer, or why there is none.

    Args:
        table: The table at its pinned snapshot.
        options: The reader's options.
        aggregates: What is asked.
        groups: Columns to group by.
        predicate: What the rows must meet.
        mix: Whether files may be left to be read, if metadata answers for the greater part of the bytes.

    Raises:
        TwoStageError: Metadata, a manifest list or a manifest is damaged or not there.
    """
    reason = refusal(table, aggregates, groups, predicate)
    if reason is not None:
        return reason
    fields = tuple(part.field for part in aggregates if part.field is not None)
    if not fields and not groups and predicate == TRUE:
        counted = _count_of_many(table, len(aggregates))
        if counted is not None:
            return counted
    planning = Planning(table, options, (*fields, *groups), predicate, TRUE)
    proofs = _Proofs(table, groups)
    totals: dict[tuple[Any, ...], _Totals] = {}
    if not groups:
        totals[()] = _Totals(aggregates)
    rest = UnprovenFiles(mix=mix)
    waiting: list[tuple[ContentFile, Verdict, tuple[DeleteFile, ...]]] = []
    for file, verdict, deletes in planning.files(metrics=bool(fields)):
        by_position = bool(deletes) and all(delete.content == "position" for delete in deletes)
        known = proofs.of(file, verdict, () if by_position else deletes)
        if by_position and not isinstance(known, str):
            waiting.append((file, verdict, deletes))
        elif not rest.goes_on(file, known if isinstance(known, str) else _add(totals, known, aggregates)):
            return rest.lacks
    to_read = distinct(delete for _, _, deletes in waiting for delete in deletes)
    lacking = too_much(to_read, MOST_DELETE_FILES)
    if fields and to_read and len(to_read) >= len(waiting):
        lacking = (
            "files have rows deleted by position"  # in each of them, or else it had no delete file of its own
        )
    deleted = DeletedRows(table, options)
    for file, verdict, deletes in waiting:
        found = lacking
        if found is None:
            known = proofs.of(file, verdict, (), gone=deleted.count(file, deletes))
            found = known if isinstance(known, str) else _add(totals, known, aggregates)
        if not rest.goes_on(file, found):
            return rest.lacks
    if not rest.is_worth_it:
        return rest.lacks
    return Answer(
        rows=tuple((*group, *total.values) for group, total in totals.items()),
        files=rest.num_proven,
        delete_files=0 if lacking is not None else len(to_read),
        counters={**planning.counters, **deleted.metrics.counters},
        unread=frozenset(rest.paths),
        lacks=rest.lacks,
    )


def _add(
    totals: dict[tuple[Any, ...], _Totals], known: _Known, aggregates: tuple[Aggregate, ...]
) -> str | None:
    """Add a file to its group; return what its metadata does not tell, if anything."""
    if not known.rows:
        return None
    total = totals.get(known.group)
    if total is None:
        if len(totals) == MOST_GROUPS:
            return f"more than {MOST_GROUPS} groups"
        total = _Totals(aggregates)
    lacking = total.add(known)
    if lacking is None:
        totals[known.group] = total
    return lacking


def _count_of_many(table: PinnedTable, width: int) -> Answer | None:
    """Return the rows of a table of very many files without deletes, `width` times; None where it takes a closer look."""
    if table.snapshot is None or table.only is not None:
        return None
    with name_snapshot(table.snapshot.snapshot_id):
        manifests = read_manifest_list(table.storage, table.snapshot)
        live = sum(manifest.num_live_files or 0 for manifest in manifests)
        if live < MANY_FILES or any(manifest.is_deletes for manifest in manifests):
            return None
        from twostage.table.row_counts import count_rows, is_compiled  # noqa: PLC0415 - few tables have so many

        if not is_compiled():
            return None
        specs = table.metadata.specs
        files = rows = 0
        for manifest, data in fetch_manifests(table.storage, manifests):
            found = count_rows(data, manifest, specs.get(manifest.spec_id or 0))
            if found is None:
                return None
            files += found[0]
            rows += found[1]
    counters = {"manifests.considered": len(manifests), "files.considered": files}
    return Answer(rows=((rows,) * width,), files=files, counters=counters)


def refusal(
    table: PinnedTable, aggregates: tuple[Aggregate, ...], groups: tuple[Field, ...], predicate: Predicate
) -> str | None:
    """Return why metadata cannot answer, by what is known before a manifest is read."""
    if table.metadata_table is not None:
        return "it is a metadata table"
    if not is_exact(predicate):
        return "a filter is left to Spark"
    if any(column.field_id == DELETED for column in columns_of(predicate)):
        return "the filter shows deleted rows"
    columns = {field.id for field in table.schema.fields}
    identity = {
        part.source_id
        for spec in table.metadata.specs.values()
        for part in spec.fields
        if Transform.of(part).name == "identity"
    }
    for part in aggregates:
        field = part.field
        if field is None:
            continue
        kind = field.type.name if isinstance(field.type, Primitive) and field.id in columns else ""
        may_be_constant = field.id in identity and kind in GROUPED
        if kind not in (COUNTED if part.function == "count" else COMPARED) and not may_be_constant:
            return f"bounds do not tell {part.function}({field.name})"
    for field in groups:
        if field.id not in columns or not isinstance(field.type, Primitive) or field.type.name not in GROUPED:
            return f"{field.name} is no column to group by"
        if field.id not in identity:
            return f"{field.name} is no identity partition"
    return None


@dataclass(frozen=True, slots=True)
class _Column:
    """One column over the rows of a file: how many are NULL, and the least and greatest of the others.

    None is unknown.
    """

    nulls: int | None
    lower: Any = None
    upper: Any = None


class _Known:
    """What is proven of one file; the columns on demand."""

    __slots__ = ("_file", "_proofs", "group", "rows")

    def __init__(self, proofs: _Proofs, file: ContentFile, group: tuple[Any, ...], rows: int) -> None:
        self._proofs = proofs
        self._file = file
        self.group = group
        self.rows = rows
        """Live rows, all of which match."""

    def column(self, field: Field) -> _Column | str:
        return self._proofs.column(self._file, field, self.rows)


class _Totals:
    """The aggregates of one group."""

    __slots__ = ("_aggregates", "values")

    def __init__(self, aggregates: tuple[Aggregate, ...]) -> None:
        self._aggregates = aggregates
        self.values: list[Any] = [0 if part.function in ("rows", "count") else None for part in aggregates]

    def add(self, known: _Known) -> str | None:
        """Add a file; return what its metadata does not tell, if anything: then it is not added."""
        values = list(self.values)
        for place, part in enumerate(self._aggregates):
            if part.field is None:
                values[place] += known.rows
                continue
            column = known.column(part.field)
            if isinstance(column, str):
                return column
            if part.function == "count":
                if column.nulls is None:
                    return f"a file does not tell how many values {part.field.name} has"
                values[place] += known.rows - column.nulls
            elif column.nulls is None or column.nulls < known.rows:
                value = column.lower if part.function == "min" else column.upper
                if value is None:
                    return f"a file's metadata does not tell the {part.function} of {part.field.name}"
                held = values[place]
                if held is None or (value < held if part.function == "min" else value > held):
                    values[place] = value
        self.values = values
        return None


class _Proofs:
    """What single files prove."""

    def __init__(self, table: PinnedTable, groups: tuple[Field, ...]) -> None:
        self._metadata = table.metadata
        self._groups = groups
        self._moved = moved_fields(table.metadata)
        self._is_mapped = NAME_MAPPING_PROPERTY in table.metadata.properties
        self._identity = {
            spec_id: {
                part.source_id: part.field_id for part in spec.fields if Transform.of(part).name == "identity"
            }
            for spec_id, spec in table.metadata.specs.items()
        }
        self._were_dates = frozenset(
            field.id
            for schema in table.metadata.schemas.values()
            for field in schema.fields
            if field.type == Primitive("date")
        )
        self._last_ids: dict[int, int] = {}

    def of(
        self, file: ContentFile, verdict: Verdict, deletes: tuple[DeleteFile, ...], gone: int = 0
    ) -> _Known | str:
        """Return what is known of a file, `gone` rows of which are deleted besides; or why it must be read."""
        if file.format not in _FORMATS or file.is_encrypted:
            return f"a data file has the format {file.format}" if not file.is_encrypted else "encrypted files"
        if file.record_count <= 0:
            return "a file's rows were not counted"
        if not verdict.all_match:
            return "the filter splits the rows of a file"
        rows = file.record_count - gone
        if deletes:
            (delete, *others) = deletes
            if others or delete.content != "vector":
                return "a file has equality deletes"
            rows -= delete.record_count
            if rows < 0:
                return "a deletion vector deletes more rows than there are"
        group = []
        for field in self._groups:
            value = self._partition_value(file, field)
            if value is ...:
                return f"a file's partition does not tell {field.name}"
            group.append(value)
        return _Known(self, file, tuple(group), rows)

    def _partition_value(self, file: ContentFile, field: Field) -> Any:
        """Return the value of an identity-partition column in all rows of a file; ``...`` where it is not told."""
        kind = field.type
        part = self._identity.get(file.spec_id, {}).get(field.id)
        if part is None or part not in file.partition or not isinstance(kind, Primitive):
            return ...
        if field.id in self._moved or (file.format == "orc" and kind.name in _SHIFTED):
            return ...
        if field.id in self._were_dates and kind.name in _SHIFTED:
            return ...  # days or microseconds, and nothing tells which
        return partition_value(kind, file.partition[part])

    def column(self, file: ContentFile, field: Field, rows: int) -> _Column | str:
        """Return what is known of a column over the `rows` live rows of a file."""
        kind = field.type
        assert isinstance(kind, Primitive)
        if field.id in self._moved:
            return f"a name mapping moved {field.name}"
        measured = self._measured(file, field, kind)
        known = self._partition_value(file, field) if kind.name in GROUPED else ...
        if known is ... and field.id not in file.value_counts and self._lacks(file, field):
            if field.required and field.initial_default is None:
                return f"{field.name} is required and a file has none"
            known = field.initial_default
            if known is not None and order_key(kind, known) is None:
                return f"the default of {field.name} is of another type"
            if isinstance(known, float) and math.isnan(known):
                return f"the default of {field.name} is NaN"
        if known is not ...:
            column = _Column(file.record_count) if known is None else _Column(0, known, known)
            if measured is not None and measured.nulls != column.nulls:
                return f"the metrics of {field.name} contradict the partition"
        elif measured is None:
            return f"a file has no metrics of {field.name}"
        else:
            column = measured
        if rows == file.record_count:
            return column
        # It is known how many rows are gone, and not which.
        if column.nulls == file.record_count:
            return _Column(rows)
        is_single = column.lower is not None and column.lower == column.upper
        if column.nulls != 0:
            return _Column(None)
        return _Column(0, column.lower, column.upper) if is_single else _Column(0)

    def _measured(self, file: ContentFile, field: Field, kind: Primitive) -> _Column | None:
        """Return what the metrics say; None if they do not say how many values are NULL."""
        values, nulls = file.value_counts.get(field.id), file.null_counts.get(field.id)
        if values != file.record_count or nulls is None or not 0 <= nulls <= values:
            return None
        if nulls == values:
            said = field.id in file.lower_bounds or field.id in file.upper_bounds
            return None if said else _Column(nulls)
        if kind.name not in COMPARED or (file.format == "orc" and kind.name not in COMPARED_IN_ORC):
            return _Column(nulls)
        lower, upper = (
            self._bound(file.lower_bounds, field, kind),
            self._bound(file.upper_bounds, field, kind),
        )
        if kind.name in ("float", "double"):
            # NaN lies in no bound, and bounds may tell 0.0 from -0.0 where the rows do not.
            if file.nan_counts.get(field.id) != 0:
                return _Column(nulls)
            lower, upper = lower or None, upper or None
        if lower is not None and upper is not None and lower > upper:
            return _Column(nulls)
        if file.format == "parquet" and may_count_other_units(kind, lower, upper):
            return _Column(nulls)
        return _Column(nulls, lower, upper)

    @staticmethod
    def _bound(bounds: Mapping[int, bytes], field: Field, kind: Primitive) -> Any:
        raw = bounds.get(field.id)
        return None if raw is None else decode_bound(kind, raw)

    def _lacks(self, file: ContentFile, field: Field) -> bool:
        """Return whether a file is older than the column, so that it cannot have it.

        Ids count up: one above all those of the schema that the file was added under, and of the schemas before
        it, was given later. Under a name mapping a file without ids may have the column all the same.
        """
        if self._is_mapped or file.snapshot_id is None:
            return False
        snapshot = self._metadata.snapshots.get(file.snapshot_id)
        if snapshot is None or snapshot.schema_id not in self._metadata.schemas:
            return False
        schema_id = snapshot.schema_id
        assert schema_id is not None
        if schema_id not in self._last_ids:
            self._last_ids[schema_id] = max(
                (
                    field_id
                    for number, schema in self._metadata.schemas.items()
                    if number <= schema_id
                    for field_id in schema.field_ids()
                ),
                default=0,
            )
        return field.id > self._last_ids[schema_id]
