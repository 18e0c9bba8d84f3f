"""Which scans Spark's own Parquet reader does, because reading late gains them nothing.

Takes what a query asks of a relation, the plan of its scan and the facts of its files; gives the reason why
the scan stays with us, or None: then it may be handed over. The rule: Spark's reader finds columns by field
id and reads types, calendars and pages as we do in every file handed over; when in doubt the scan stays.
Nothing here reads a file or knows Spark.
"""

from __future__ import annotations

import posixpath
from dataclasses import dataclass
from typing import TYPE_CHECKING

from twostage.aggregates.deleted_counts import WantedDeletes
from twostage.handover.deleted_bits import num_bits
from twostage.schema import Primitive
from twostage.storage.location import parse_location

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from twostage.handover.file_facts import ColumnFacts, FileFacts
    from twostage.options import ReadOptions
    from twostage.schema import Field
    from twostage.table.pinned import PinnedTable
    from twostage.task import ScanPlan, ScanTask, Storage

FEW_FOOTERS = 64
"""So many are opened without asking what for."""
MOST_FOOTERS = 1_000
"""Parsing a footer takes 1 to 5 ms of the driver."""
LEAST_KEPT = 0.4
"""Of the rows, for Spark to read all and to filter them itself: half of 1.5 M rows x 16 columns took it 0.42 s, us 0.47."""
MOST_FOR_TOP = 0.5
"""Of the bytes of a full scan that reading the first sort key, and little else, may take to be worth it."""
LEAST_FOR_TOP = 4 * 2**20
"""Bytes of the files that Spark's reader reads in about the time that a Python task takes to start."""
WORTH_A_PROBE = 16 * 2**20
"""Bytes of the planned files below which who filters them makes no difference that is worth 5 ms of looking."""
COLUMNS_FOR_DELETES = 2
"""That Spark reads besides: a row's place in its file, and where the file's rows begin among all."""
MOST_BITS = 2**27
"""Of rows: 16 MiB, which each executor gets once a stage and each task unpacks."""
MOST_POSITIONS = 2**23
"""In positional delete files: 0.4 s to read, once."""
MOST_FOR_JOIN = 16 * 2**20
"""Bytes of columns that Spark's reader reads in less time than keys of a join, whatever they leave out, would save."""
MOST_FILES_FOR_JOIN = 16 * MOST_FOR_JOIN
"""Bytes of files beyond which nobody opens their footers to know the columns'."""
WORTH_A_FOOTER = 8 * 2**20
"""Bytes of a file whose reading takes far longer than that."""
MOST_COLUMNS = 100
"""Spark's own default of ``spark.sql.codegen.maxFields``: of more columns its reader gives rows, not batches, and all
that stands above works row by row. 3 M rows x 120 columns took 11.8 s so, here 9.1 s."""
TYPES = frozenset("boolean int long float double decimal string binary date timestamp timestamptz".split())
_LOCAL = ("file",)
_CODECS = frozenset(("UNCOMPRESSED", "SNAPPY", "GZIP", "ZSTD", "LZ4_RAW"))
_PLAIN = frozenset((0, 2, 3, 4, 8))
"""PLAIN, PLAIN_DICTIONARY, RLE, BIT_PACKED (levels), RLE_DICTIONARY."""
_DELTA = {
    "INT32": frozenset((5,)),
    "INT64": frozenset((5,)),
    "BYTE_ARRAY": frozenset((6, 7)),
}
_DECIMALS = ("INT32", "INT64", "FIXED_LEN_BYTE_ARRAY", "BYTE_ARRAY")
_DATED = ("date", "timestamp", "timestamptz")


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What the query around a relation asks of it."""

    columns: tuple[str, ...]
    """All that it names, those of its filters too."""
    returns_columns: bool = True
    """Not so where rows are only counted."""
    under_limit: bool = False
    may_be_pruned_by_join: bool = False
    """The other side of a join is filtered, so that its keys may prune this side while the query runs."""
    names_files: bool = False
    """``input_file_name()`` and its like, which see a file only under Spark's own readers."""
    reads_vectors: bool = True
    """Spark's Parquet reader is the vectorized one."""


def stays_by_query(table: PinnedTable, options: ReadOptions, query: Surroundings) -> str | None:
    """Return why the scan stays with us by what is known before planning; None if nothing speaks for it."""
    if not options.native_scans:
        return "scan.native is never"
    if table.metadata_table is not None:
        return "it is of a metadata table"
    if table.snapshot is None:
        return "the table is empty"
    if options.filter is not None:
        return "the option filter is evaluated here"
    if options.split_size is not None or options.parallelism is not None:
        return "split-size or parallelism is given"
    if not query.returns_columns:
        return "no column is returned"
    if query.under_limit:
        return "a limit ends it early"
    if query.names_files:
        return "the query asks for the name of the file that it reads"
    if not query.reads_vectors:
        return "spark.sql.parquet.enableVectorizedReader is false"
    if len(query.columns) > MOST_COLUMNS:
        return f"of more than {MOST_COLUMNS} columns Spark's reader gives rows, not batches"
    return _stays_by_columns(table, query.columns)


def _stays_by_columns(table: PinnedTable, names: Iterable[str]) -> str | None:
    by_name = {field.name: field for field in table.schema.fields}
    for name in names:
        field = by_name.get(name)
        if field is None:
            return f"column {name} is no column of the table"
        if not isinstance(field.type, Primitive) or field.type.name not in TYPES:
            kind = field.type if isinstance(field.type, Primitive) else type(field.type).__name__.lower()
            return f"column {name} has the type {kind}"
    return None


def ranges_of(plan: ScanPlan) -> list[list[ScanTask]]:
    """Return the ranges of each file of a plan, in the order of `files_of`."""
    by_path: dict[str, list[ScanTask]] = {}
    for group in plan.groups:
        for task in group.tasks:
            by_path.setdefault(task.path, []).append(task)
    return [by_path[task.path] for task in files_of(plan)]


def files_of(plan: ScanPlan) -> list[ScanTask]:
    """Return one task for each file of a plan: that of its first range."""
    return [task for group in plan.groups for task in group.tasks if task.start == 0]


def stays_by_plan(plan: ScanPlan, file_systems: Collection[str] = ()) -> str | None:
    """Return why the scan stays with us by its plan.

    Args:
        plan: The scan's.
        file_systems: The schemes of object stores that Spark has classes for.
    """
    files = files_of(plan)
    if not files:
        return "nothing is to be read"
    reason = _stays_by_deletes(files, len(plan.context.projection))
    if reason is not None:
        return reason
    other = next((task.format for task in files if task.format != "parquet"), None)
    if other is not None:
        return f"a data file has the format {other}"
    reasons = (_stays_by_location(task.path, plan.context.storage, file_systems) for task in files)
    return next((reason for reason in reasons if reason is not None), None)


def _stays_by_location(path: str, storage: Storage, file_systems: Collection[str]) -> str | None:
    """Return why Spark's file systems may not read a file, or another one under its name."""
    location = parse_location(path)
    if location.family in _LOCAL:
        return None
    if location.is_hadoop:
        return (
            f"Spark may not reach files of {location.family} as the catalog does"
            if storage.properties
            else None
        )
    if location_for_spark(path, file_systems) is None:
        return f"Spark has no file system for {location.family}"
    if posixpath.normpath(location.path) != location.path:
        return f"Hadoop reads another name for the key {location.path}"
    return None


def location_for_spark(path: str, file_systems: Collection[str]) -> str | None:
    """Return a path under a scheme that Spark has a file system for; None if there is none.

    Args:
        path: A data file's or the table's, as Python opens it.
        file_systems: The schemes of object stores that Spark has classes for.

    >>> location_for_spark("s3://lake/t/f", ["s3a"])
    's3a://lake/t/f'
    """
    location = parse_location(path)
    if location.is_local or location.is_hadoop or location.scheme in file_systems:
        return path
    known = (scheme for scheme in file_systems if parse_location(f"{scheme}://").family == location.family)
    scheme = next(known, None)
    return None if scheme is None else f"{scheme}://{location.authority}{location.path}"


def _stays_by_deletes(files: Sequence[ScanTask], num_columns: int) -> str | None:
    """Return why Spark does not leave out the deleted rows: it can't, or the driver would read or send too much."""
    if not any(task.deletes for task in files):
        return None
    if num_columns > MOST_COLUMNS - COLUMNS_FOR_DELETES:
        return f"with {num_columns} columns and the places of deleted rows Spark's reader gives rows, not batches"
    if num_bits(files) > MOST_BITS:
        return f"its files with deletes have more than {MOST_BITS:,} rows"
    return _stays_by_positions(files)


def _stays_by_positions(files: Sequence[ScanTask]) -> str | None:
    deletes = WantedDeletes(MOST_FOOTERS, MOST_POSITIONS)
    compiled = 0
    for task in files:
        by_keys = [delete for delete in task.deletes if delete.content == "equality"]
        # Instead of those, whose number says nothing, one compiled entry is read.
        compiled += bool(by_keys)
        deletes.add(delete for delete in task.deletes if delete.content != "equality")
    reason = deletes.too_much
    if reason is not None:
        return reason
    if compiled > MOST_FOOTERS:
        return f"compiled deletes of {compiled:,} files would have to be read first"
    to_read = len(deletes) + compiled
    if to_read > FEW_FOOTERS and sum(task.file_size for task in files) < to_read * WORTH_A_FOOTER:
        return f"{to_read} delete files of small files would have to be read first"
    return None


def stays_by_top(plan: ScanPlan) -> str | None:
    """Return why the scan stays with us if its query wants the first rows by an order only."""
    if plan.context.top is None or plan.top_share is None or plan.top_share > MOST_FOR_TOP:
        return None
    if plan.counters.get("bytes.considered", 0) < LEAST_FOR_TOP:
        return None
    return f"ORDER BY and LIMIT leave about {plan.top_share:.0%} of its bytes to be read"


def stays_by_size(plan: ScanPlan) -> str | None:
    """Return why nobody looks at how many rows the filter keeps."""
    files = files_of(plan)
    if all(task.all_match for task in files) or sum(task.file_size for task in files) >= WORTH_A_PROBE:
        return None
    return "its filter may drop rows, and its files are small"


def stays_by_join(
    plan: ScanPlan, facts: Sequence[FileFacts] = (), fields: Sequence[Field] = ()
) -> str | None:
    """Return why a side of a join that the keys of the other may prune stays with us: there is much that they may save.

    Args:
        plan: The plan of the scan.
        facts: What is known of its files; none where that would have to be found out.
        fields: The columns that Spark would read.
    """
    reason = "keys of a join may prune it"
    if not facts:
        files = sum(task.file_size for task in files_of(plan))
        return None if WORTH_A_PROBE <= files <= MOST_FILES_FOR_JOIN else reason
    columns = (known.columns.get(field.id) for known in facts for field in fields)
    num_bytes = sum(column.num_bytes for column in columns if column is not None)
    return reason if num_bytes > MOST_FOR_JOIN else None


def stays_by_share(plan: ScanPlan, share: float | None, how: str) -> str | None:
    """Return why reading filter columns first may pay: the predicate drops rows, and Spark's reader reads all.

    Args:
        plan: The plan of the scan.
        share: Of the planned files' rows, those that the predicate keeps; None if nothing is known.
        how: How that is known.
    """
    if all(task.all_match for task in files_of(plan)):
        return None
    if share is None:
        return "nothing is known of how many rows the filter keeps"
    return f"the filter drops rows: {how}" if share < LEAST_KEPT else None


def stays_by_footers(num_files: int, num_unread: int, num_bytes: int) -> str | None:
    """Return why the scan stays with us because too many footers would have to be opened to know better."""
    if num_unread <= FEW_FOOTERS:
        return None
    if num_unread > MOST_FOOTERS:
        return f"{num_unread} footers would have to be checked first"
    if num_bytes < num_files * WORTH_A_FOOTER:
        return f"{num_unread} footers of small files would have to be checked first"
    return None


def stays_by_files(
    files: Sequence[ScanTask], facts: Sequence[FileFacts], fields: Sequence[Field]
) -> str | None:
    """Return why the scan of these columns stays with us by what its files hold; None: hand it over."""
    for task, known in zip(files, facts, strict=True):
        reason = _stays_by_file(task, known, fields)
        if reason is not None:
            return f"{reason}: {task.written_path.rpartition('/')[2]}"
    if any(task.deletes for task in files) and any(known.has_row_index for known in facts):
        return "a file's column has the name under which Spark's reader gives the places of rows"
    return None


def _stays_by_file(task: ScanTask, known: FileFacts, fields: Sequence[Field]) -> str | None:
    if not known.has_all_ids:
        return "a file has columns without field ids, or one id twice"
    if known.num_rows != task.record_count:
        return f"a file has {known.num_rows} rows and its manifest says {task.record_count}"
    for field in fields:
        assert isinstance(field.type, Primitive)
        if field.id not in known.columns:
            reason = _stays_without(task, field)
        else:
            reason = _stays_with(task, known, field, field.type)
        if reason is not None:
            return f"column {field.name} {reason}"
    return None


def _stays_without(task: ScanTask, field: Field) -> str | None:
    """Return why a file that lacks a column can't be handed over: only NULL may stand in for it."""
    if field.id in task.constants:
        return "takes its value from the partition in a file"
    if field.initial_default is not None:
        return "takes its default in a file"
    return "is required and a file has none" if field.required else None


def _stays_with(task: ScanTask, known: FileFacts, field: Field, kind: Primitive) -> str | None:
    column = known.columns[field.id]
    if column is None:
        return "is nested or repeated in a file"
    if field.id in task.constants and (
        field.id not in known.singles or known.singles[field.id] != task.constants[field.id]
    ):
        return "is not proven to have its partition's value in a file"
    if field.required and not column.is_required:
        return "is required and may be NULL in a file"
    if known.has_legacy_calendar and kind.name in _DATED:
        return "may be in the Julian calendar in a file"
    if not column.codecs <= _CODECS:
        return f"is compressed by {', '.join(sorted(column.codecs - _CODECS))} in a file"
    widened = _is_widened(kind, column)
    if widened is None:
        logical = f" ({column.logical.name})" if column.logical is not None else ""
        return f"is {column.physical}{logical} in a file and {kind} in the table"
    allowed = _PLAIN if widened else _PLAIN | _DELTA.get(column.physical, frozenset())
    if not column.encodings <= allowed:
        return f"has encodings in a file that are not known to be read: {sorted(column.encodings - allowed)}"
    return None


def _is_widened(kind: Primitive, column: ColumnFacts) -> bool | None:
    """Return whether the file's type is a narrower one of the same values; None for any other type."""
    physical, logical = column.physical, column.logical
    match kind.name:
        case "int" | "long":
            if logical is not None and not (logical.name == "integer" and logical.signed):
                return None
            widths = ("INT32",) if kind.name == "int" else ("INT32", "INT64")
            return physical != widths[-1] if physical in widths else None
        case "boolean" | "float":
            return False if logical is None and physical == kind.name.upper() else None
        case "double":
            return physical == "FLOAT" if logical is None and physical in ("FLOAT", "DOUBLE") else None
        case "decimal":
            if logical is None or logical.name != "decimal" or physical not in _DECIMALS:
                return None
            if logical.scale != kind.scale or not 0 < logical.precision <= kind.precision:
                return None
            return logical.precision < kind.precision
        case "date":
            known = logical is not None and logical.name == "date" and physical == "INT32"
        case "timestamp" | "timestamptz":
            known = (
                logical is not None
                and (logical.name, logical.unit) == ("timestamp", "micros")
                and logical.utc == (kind.name == "timestamptz")
                and physical == "INT64"
            )
        case "string":
            known = logical is not None and logical.name == "string" and physical == "BYTE_ARRAY"
        case _:
            known = kind.name == "binary" and logical is None and physical == "BYTE_ARRAY"
    return False if known else None
