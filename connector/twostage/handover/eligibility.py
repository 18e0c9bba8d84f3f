"""Which scans Spark's own Parquet reader does, because reading in two stages gains them nothing.

Takes what a query needs of a relation, the plan of its scan and the facts of its files; gives the reason why the scan
stays with us, or None if nothing here keeps it. The rule: in every file that is handed over, Spark's reader finds columns
by field id and reads types, calendars and pages as we do; in doubt the scan stays. Nothing here reads a file or knows
Spark.
"""

from __future__ import annotations

import posixpath
from typing import TYPE_CHECKING

from twostage.aggregates.deleted_counts import WantedDeletes
from twostage.handover.deleted_bits import num_bits
from twostage.handover.protocol import KEYS_MAY_PRUNE
from twostage.schema import Primitive
from twostage.storage.files import canonical_for
from twostage.storage.location import parse_location

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from twostage.handover.file_facts import ColumnFacts, FileFacts
    from twostage.handover.protocol import ScanDemand
    from twostage.options import ReadOptions
    from twostage.schema import Field
    from twostage.table.pinned import PinnedTable
    from twostage.task import ScanPlan, ScanTask, Storage

MAX_FOOTERS_AT_ANY_SIZE = 64
"""Footers, or delete files, that are opened however small the data files are."""
MAX_FOOTERS = 1_000
"""Footers, or delete files, that are opened at most: parsing a footer takes the driver 1 to 5 ms."""
MIN_KEPT_SHARE = 0.4
"""Share of rows kept by the filter from which on Spark reads and filters all of them: where it kept half of 1.5 M
rows x 16 columns, Spark took 0.42 s, we 0.47. `make bench PAGES=scans` compares the two readers."""
MAX_TOP_N_SHARE = 0.5
"""Share of a full scan's bytes up to which reading the first sort key first, and little else, pays."""
MIN_TOP_N_BYTES = 4 * 2**20
"""Bytes of the files: Spark's reader reads fewer in about the time that a Python task takes to start."""
MIN_BYTES_TO_PROBE = 16 * 2**20
"""Bytes of the planned files: below, either reader is fast, and 5 ms of probing how many rows the filter keeps does not pay. A
side of a join goes to Spark's, because the join would wait the 30-65 ms that a Python task takes to start."""
MIN_ROWS_TO_AWAIT_KEYS = 50_000
"""Rows of a small side from which on pruning files by keys saves more than the 10 ms that deciding twice takes. In TPC-DS
query 50 at scale 1, a hash table of all 278,000 rows (2.6 MiB) took 0.7 s more CPU than one of the files that keys keep
(`make bench PAGES=tpcds`)."""
NUM_DELETE_COLUMNS = 2
"""Columns that Spark reads in addition, to leave out deleted rows: a row's position in its file, and the file's first bit."""
MAX_DELETED_BITS = 2**27
"""One bit for each row of the files with deletes: 16 MiB, sent to an executor once a stage and decompressed by each task."""
MAX_DELETED_POSITIONS = 2**23
"""Positions in positional delete files: 0.4 s to read, once."""
MAX_JOIN_COLUMN_BYTES = 4 * 2**20
"""Bytes of columns that Spark's reader reads in less time than keys of a join could save, whatever they leave out. Of TPC-DS at
scale 1, query 53 (10 MiB) took 1.4 s of CPU with Spark's reader, which leaves out files by the keys, and 1.1 s with ours, which
drops rows; query 12 (3 MiB) 0.61 and 0.67 s (`make bench PAGES=tpcds`)."""
MAX_PRUNED_COLUMN_BYTES = 256 * 2**20
"""Bytes of columns that Spark's reader does, leaving out files by keys, if each key has many rows and no other keys come. In CPU
seconds of TPC-DS at scale 10, query 14 took 43 instead of 74, 70 6.6 of 7.9, 47 11 of 17, 51 36 of 33, 97 the same; at scale 1,
queries 22, 50, 57 and 65 took 8.5 instead of 9.7 (`make bench PAGES="tpcds tpcds-10"`)."""
MIN_ROWS_PER_KEY_TO_PRUNE = 1_000
"""Rows that share a value of a column, on average, such as a day: keys then keep so many rows of the files that have any."""
MAX_JOIN_FILE_BYTES = 256 * 2**20
"""Bytes of files up to which their footers are opened to learn the bytes of the columns."""
MAX_JOIN_FOOTERS = 16
"""Footers that are opened to learn them, however large the files are."""
MIN_BYTES_PER_FOOTER = 8 * 2**20
"""Bytes of a file that take far longer to read than its footer takes to parse."""
MAX_FILES_OF_A_STORE = 16
"""Files in an object store that Spark's reader opens however small they are."""
MIN_BYTES_OF_A_STORES_FILE = 32 * 2**20
"""Bytes per file, on average, where there are more files: with requests of 30 ms, Iceberg's own reader in Spark took 0.23 s for each
file of 2.4 MB (400 files, two threads), mostly waiting for one request after another. Ours sends those of many files at once
(`make bench PAGES=object-store`)."""
MAX_COLUMNS = 100
"""Spark's own default of ``spark.sql.codegen.maxFields``: of more columns its reader returns rows, not batches, and all
operators above work row by row. 3 M rows x 120 columns took 11.8 s that way, 9.1 s here."""
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
_DIGITS_OF_A_LONG = 18
_DATED = ("date", "timestamp", "timestamptz")


def stays_by_query(table: PinnedTable, options: ReadOptions, demand: ScanDemand) -> str | None:
    """Return why the scan stays with us, by what is known before planning; None if nothing keeps it."""
    if not options.native_scans:
        return "scan.native is never"
    if table.metadata_table is not None:
        return "it reads a metadata table"
    if table.snapshot is None:
        return "the table is empty"
    if options.filter is not None:
        return "twostage evaluates the option filter"
    if options.split_size is not None or options.parallelism is not None:
        return "split-size or parallelism is set"
    if not demand.returned:
        return "no column is returned"
    if demand.under_limit:
        return "a limit ends it early"
    if demand.names_files:
        return "the query asks for the name of the file being read"
    if not demand.reads_vectors:
        return "spark.sql.parquet.enableVectorizedReader is false"
    if len(demand.columns) > MAX_COLUMNS:
        return f"for more than {MAX_COLUMNS} columns Spark's reader returns rows, not batches"
    return _stays_by_columns(table, demand.columns)


def _stays_by_columns(table: PinnedTable, names: Iterable[str]) -> str | None:
    by_name = {field.name: field for field in table.schema.fields}
    for name in names:
        field = by_name.get(name)
        if field is None:
            return f"the table has no column {name}"
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
        return "there is nothing to read"
    reason = _stays_by_deletes(files, len(plan.context.projection))
    if reason is not None:
        return reason
    other = next((task.format for task in files if task.format != "parquet"), None)
    if other is not None:
        return f"a data file has the format {other}"
    canonical = canonical_for(plan.context.storage)
    if len({canonical(task.path) for task in files}) < len(files):
        return "a data file is in the snapshot twice"
    reasons = (_stays_by_location(task.path, plan.context.storage, file_systems) for task in files)
    return next((reason for reason in reasons if reason is not None), None)


def _stays_by_location(path: str, storage: Storage, file_systems: Collection[str]) -> str | None:
    """Return why Spark's file systems may fail to read a file, or read another one under its name."""
    location = parse_location(path)
    if location.family in _LOCAL:
        has_colon = ":" in posixpath.basename(location.path)
        return "Hadoop's local file system cannot open a file with a colon in its name" if has_colon else None
    if location.is_hadoop:
        return f"Spark may not have the catalog's access to {location.family}" if storage.properties else None
    if location_for_spark(path, file_systems) is None:
        return f"Spark has no file system for {location.family}"
    if posixpath.normpath(location.path) != location.path:
        return f"Hadoop would read another name for the key {location.path}"
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
    """Return why Spark cannot leave out the deleted rows: too many columns, or too much for the driver to read or send."""
    if not any(task.deletes for task in files):
        return None
    if num_columns > MAX_COLUMNS - NUM_DELETE_COLUMNS:
        return f"with {num_columns} columns and the positions of deleted rows Spark's reader returns rows, not batches"
    if num_bits(files) > MAX_DELETED_BITS:
        return f"its files with deletes have more than {MAX_DELETED_BITS:,} rows"
    return _stays_by_positions(files)


def _stays_by_positions(files: Sequence[ScanTask]) -> str | None:
    deletes = WantedDeletes(MAX_FOOTERS, MAX_DELETED_POSITIONS)
    compiled = 0
    for task in files:
        by_keys = [delete for delete in task.deletes if delete.content == "equality"]
        # One compiled entry is read in place of all of a file's equality deletes.
        compiled += bool(by_keys)
        deletes.add(delete for delete in task.deletes if delete.content != "equality")
    reason = deletes.too_much
    if reason is not None:
        return reason
    if compiled > MAX_FOOTERS:
        return f"compiled deletes of {compiled:,} files would have to be read first"
    to_read = len(deletes) + compiled
    if (
        to_read > MAX_FOOTERS_AT_ANY_SIZE
        and sum(task.file_size for task in files) < to_read * MIN_BYTES_PER_FOOTER
    ):
        return f"{to_read} delete files of small files would have to be read first"
    return None


def stays_by_top(plan: ScanPlan) -> str | None:
    """Return why the scan stays with us if its query wants only the first rows by an order."""
    if plan.context.top is None or plan.top_share is None or plan.top_share > MAX_TOP_N_SHARE:
        return None
    if plan.counters.get("bytes.considered", 0) < MIN_TOP_N_BYTES:
        return None
    return f"ORDER BY and LIMIT leave about {plan.top_share:.0%} of its bytes to be read"


def is_small(plan: ScanPlan) -> bool:
    """Return whether a scan's files are so small that any reader reads them in less time than a Python task takes to start."""
    return sum(task.file_size for task in files_of(plan)) < MIN_BYTES_TO_PROBE


def stays_by_size(plan: ScanPlan) -> str | None:
    """Return why the scan stays with us without probing how many rows the filter keeps: its files are small."""
    if all(task.all_match for task in files_of(plan)) or not is_small(plan):
        return None
    return "its filter may drop rows, and its files are small"


def stays_by_store(plan: ScanPlan) -> str | None:
    """Return why the scan stays with us by where its files are: Spark's reader would wait for each of many small ones."""
    files = files_of(plan)
    remote = [task for task in files if _is_in_object_store(task.path)]
    if (
        len(remote) <= MAX_FILES_OF_A_STORE
        or sum(task.file_size for task in remote) >= len(remote) * MIN_BYTES_OF_A_STORES_FILE
    ):
        return None
    return f"{len(remote)} small files in an object store, which Spark's reader would read one after another"


def _is_in_object_store(path: str) -> bool:
    location = parse_location(path)
    return not location.is_local and not location.is_hadoop


def stays_by_join(
    plan: ScanPlan,
    facts: Sequence[FileFacts] = (),
    fields: Sequence[Field] = (),
    max_column_bytes: int | None = None,
) -> str | None:
    """Return why a side of a join stays with us: keys of the other side may prune it, and could save much.

    Args:
        plan: The plan of the scan.
        facts: What is known of its files; empty before their footers were read.
        fields: The columns that Spark would read.
        max_column_bytes: Of these columns, for a side that is handed over; None: `MAX_JOIN_COLUMN_BYTES`.
    """
    if not facts:
        files = files_of(plan)
        is_large = sum(task.file_size for task in files) > MAX_JOIN_FILE_BYTES
        return KEYS_MAY_PRUNE if is_large and len(files) > MAX_JOIN_FOOTERS else None
    most = MAX_JOIN_COLUMN_BYTES if max_column_bytes is None else max_column_bytes
    return KEYS_MAY_PRUNE if _column_bytes(facts, fields) > most else None


def is_read_fast(facts: Sequence[FileFacts], fields: Sequence[Field]) -> bool:
    """Return whether Spark's reader reads these columns fast enough where keys that leave out whole files are all that come."""
    return _column_bytes(facts, fields) <= MAX_PRUNED_COLUMN_BYTES


def _column_bytes(facts: Sequence[FileFacts], fields: Sequence[Field]) -> int:
    columns = (known.columns.get(field.id) for known in facts for field in fields)
    return sum(column.num_bytes for column in columns if column is not None)


def stays_by_share(plan: ScanPlan, share: float | None, how: str) -> str | None:
    """Return why reading filter columns first may pay: the predicate drops rows, and Spark's reader reads all of them.

    Args:
        plan: The plan of the scan.
        share: Of the planned files' rows, the share that the predicate keeps, 0 to 1; None if unknown.
        how: How that is known, for the report.
    """
    if all(task.all_match for task in files_of(plan)):
        return None
    if share is None:
        return "it is unknown how many rows the filter keeps"
    return f"the filter drops rows: {how}" if share < MIN_KEPT_SHARE else None


def stays_by_footers(num_files: int, num_unread: int, num_bytes: int) -> str | None:
    """Return why the scan stays with us: checking its files would open too many footers."""
    if num_unread <= MAX_FOOTERS_AT_ANY_SIZE:
        return None
    if num_unread > MAX_FOOTERS:
        return f"{num_unread} footers would have to be checked first"
    if num_bytes < num_files * MIN_BYTES_PER_FOOTER:
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
        return "a file has a column with the name of Spark's row position column"
    return None


def _stays_by_file(task: ScanTask, known: FileFacts, fields: Sequence[Field]) -> str | None:
    if not known.has_all_ids:
        return "a file has columns without field ids, or with the same id"
    if not known.has_ordered_chunks:
        return "a file has row groups that do not begin with their first column, or two at the same offset"
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
    """Return why a file that lacks a column keeps the scan here: Spark's reader can only give NULL for the column."""
    if field.id in task.constants:
        return "takes its value from the partition in a file"
    if field.initial_default is not None:
        return "takes its default in a file"
    return "is required and a file lacks it" if field.required else None


def _stays_with(task: ScanTask, known: FileFacts, field: Field, kind: Primitive) -> str | None:
    column = known.columns[field.id]
    if column is None:
        return "is nested or repeated in a file"
    if field.id in task.constants and (
        field.id not in known.single_values or known.single_values[field.id] != task.constants[field.id]
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
        logical += f" of {column.width} bytes" if column.width else ""
        return f"is {column.physical}{logical} in a file and {kind} in the table"
    allowed = _PLAIN if widened else _PLAIN | _DELTA.get(column.physical, frozenset())
    if not column.encodings <= allowed:
        return f"has encodings in a file that Spark's reader may not support: {sorted(column.encodings - allowed)}"
    return None


def _is_widened(kind: Primitive, column: ColumnFacts) -> bool | None:
    """Return whether the file's type is a narrower one of the same values; None for a type that is read differently."""
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
            # Spark reads these as longs: values of 9 to 15 bytes wrongly, and byte arrays not at all. 16 bytes are right,
            # and rare.
            is_wide = physical == "BYTE_ARRAY" or (physical == "FIXED_LEN_BYTE_ARRAY" and column.width > 8)
            if is_wide and kind.precision <= _DIGITS_OF_A_LONG:
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
