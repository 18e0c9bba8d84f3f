"""What the driver hands to the executors: plain, picklable values.

`planning` makes them, `reading` consumes them. They contain no open files and no objects of Spark or
PyIceberg, and no `repr` shows a secret: that of `ScanContext.storage` omits its properties.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from twostage.masking import masked_repr
from twostage.predicates.predicate import TRUE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from twostage.options import ReadSettings
    from twostage.predicates.bounds import Bounds
    from twostage.predicates.predicate import Predicate
    from twostage.predicates.top import TopRows
    from twostage.schema import Field, Schema


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteFile:
    """A delete file (or one vector of a Puffin file) that applies to a data file.

    `content` is ``position``, ``vector`` or ``equality``; `format` is ``parquet``, ``orc``, ``avro`` or
    ``puffin``. `path` is where to open it, `written_path` how the metadata names it.
    """

    __repr__ = masked_repr

    content: str
    format: str
    path: str
    written_path: str
    file_size: int
    record_count: int
    sequence_number: int
    equality_ids: tuple[int, ...] = ()
    content_offset: int = 0
    content_size: int = 0
    referenced_data_file: str | None = None
    scope: str | None = None
    """Equality deletes: names the partition covered (``global`` for the whole table; None: unknown).
    Files of one scope apply to the same data files, except for the sequence-number rule and pruning, so
    one key table serves them all."""
    keys: Mapping[int, Bounds] = field(default_factory=dict)
    """Equality deletes: bounds of the key columns, by field id, and thus of the rows deleted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DataFileWithDeletes:
    """A data file, reduced to what tells which of its rows are deleted."""

    __repr__ = masked_repr

    written_path: str
    """As in the metadata and in delete files."""
    record_count: int
    deletes: tuple[DeleteFile, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanTask(DataFileWithDeletes):
    """One data file, or the row groups of it that begin in ``[start, start + length)`` bytes.

    `path` is where to open it. `constants` are the values of identity partition fields by source field id,
    and of the metadata columns that are constant over the file, in internal form.
    """

    __repr__ = masked_repr

    path: str
    format: str
    file_size: int
    start: int
    length: int
    sequence_number: int
    spec_id: int
    constants: Mapping[int, Any] = field(default_factory=dict)
    first_row_id: int | None = None
    """Row lineage: the id of the file's first row; None if the table has none."""
    delete_set: str | None = None
    """Names all the equality deletes that apply, if `deletes` lacks those that delete no row of the query.
    Compiled deletes of the whole set serve this task too."""
    all_match: bool = False
    """The file's metrics prove that the predicate is true for every row: no need to filter."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class CredentialsEndpoint:
    """Where a REST catalog vends new credentials for a table's files, and the authorisation that it requires.

    Holds secrets: its repr shows nothing. Only the process that opens the table's files uses it.
    """

    url: str
    location: str
    """Of the table; the credentials with its longest prefix are used."""
    headers: tuple[tuple[str, str], ...] = ()
    """Of each request, including ``Authorization``."""
    login_url: str = ""
    """Where OAuth2 client credentials get a new token once that in `headers` has expired; empty: nowhere."""
    login: tuple[tuple[str, str], ...] = ()
    """The fields of that request."""
    login_headers: tuple[tuple[str, str], ...] = ()
    verify: bool | str = True
    """Whether the server's certificate is verified, or the CA bundle to verify it with."""
    certificate: str | tuple[str, str] | None = None
    """The client's certificate: one file, or the files of certificate and key."""

    def __repr__(self) -> str:
        return "CredentialsEndpoint(***)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Storage:
    """How to open files: FileIO properties (secrets included, hence no repr) and the location policy."""

    __repr__ = masked_repr

    properties: Mapping[str, str] = field(default_factory=dict, repr=False)
    root: str = ""
    """The table's location as opened: its scheme and authority bound what a scan may open."""
    moved_from: str | None = None
    """With ``allow-moved-paths``: the location written in the metadata, which `root` replaces."""
    allowed: tuple[str, ...] = ()
    """Further buckets and folders that a scan may open (``allowed-locations``)."""
    client: str = "auto"
    """Who sends the requests to an object store: ``auto`` (obstore if it supports the store) or ``arrow``."""
    scope: str = field(default="", repr=False)
    """Whom the driver's caches serve (`storage.store_identity`); empty: anyone with the same `properties`."""
    renewal: CredentialsEndpoint | None = field(default=None, repr=False)
    """Where vended credentials in `properties` are renewed; None: in the driver alone, if at all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableContext:
    """What it takes to read any file of a table, data or deletes."""

    __repr__ = masked_repr

    schema: Schema
    """Names, types and order as the user sees them."""
    name_mapping: tuple[Any, ...] | None = None
    """Parsed ``schema.name-mapping.default``, for files without field ids."""
    storage: Storage = Storage()
    settings: ReadSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanContext(TableContext):
    """What all tasks of one scan share."""

    __repr__ = masked_repr

    scan_id: str
    table: str
    snapshot_id: int | None
    projection: tuple[Field, ...]
    """The columns to return, in order; structs hold only the wanted sub-fields."""
    predicate: Predicate = TRUE
    """Taken over from Spark: exactly the rows where it is true are returned."""
    keys: tuple[Predicate, ...] = ()
    """Conjuncts of `predicate` that are join keys: the join would also drop the rows that they drop."""
    hint: Predicate = TRUE
    """Implied by what Spark evaluates later, and by runtime filters: it may prune, and need not be applied to rows."""
    key_fields: Mapping[int, Field] = field(default_factory=dict)
    """By id, equality-delete key fields of older schemas that `schema` no longer has."""
    key_columns: Mapping[int, Field] = field(default_factory=dict)
    """By the same ids, the columns that contain these fields (`Schema.cut_to`)."""
    limit: int | None = None
    top: TopRows | None = None
    """Spark sorts the rows and keeps the first ones: each task must return those, and may omit others."""
    table_uuid: str | None = None
    indexes: Any = None
    """The `indexes.of_scan.ScanIndexes` that tasks may probe; None: there are none."""
    equality_deletes: tuple[DeleteFile, ...] = field(default=(), repr=False)
    """The equality-delete files that any task of the scan applies: workers that share key sets build one for
    all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskGroup:
    """What one Spark task reads: scan tasks, in order. `index` is its place in the plan.

    A metadata table has no files to scan: `rows` are then the task's rows, an Arrow IPC stream.
    """

    __repr__ = masked_repr

    index: int
    context: ScanContext
    tasks: tuple[ScanTask, ...]
    rows: bytes | None = None


MIN_BYTES_TO_WAIT_FOR_JOIN_KEYS = 1 << 20
"""Reading a single range of fewer bytes takes less time than planning a filter by join keys."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanPlan:
    """The result of planning: task groups, estimates for Spark's optimizer, and the planning report.

    `counters` are the driver's share of the scan report (see `metrics.py` for the names); `choices` are
    sentences that say what planning decided and why.
    """

    __repr__ = masked_repr

    context: ScanContext
    groups: tuple[TaskGroup, ...]
    estimated_rows: int
    estimated_bytes: int
    counters: Mapping[str, int] = field(default_factory=dict)
    choices: tuple[str, ...] = ()
    top_share: float | None = None
    """Under ``ORDER BY … LIMIT``: the share of the bytes that is expected to be read, 0 to 1."""
    is_handed_over: bool = False
    """Spark's own Parquet reader does the scan; there are no groups."""
    indexed: str = ""
    """The table's indexed columns with their kinds, for EXPLAIN; empty if the scan probes no index."""
    is_from_metadata: bool = False
    """Manifests, or indexes, answered the query's aggregates; there are no groups."""
    answered_columns: tuple[str, ...] = ()
    """In that case, the columns of the aggregates and of their groups."""

    @property
    def may_profit_from_keys(self) -> bool:
        """Whether the scan reads enough for join keys, known later, to save some of it."""
        tasks = sum(len(group.tasks) for group in self.groups)
        return tasks > 1 or (tasks == 1 and self.estimated_bytes > MIN_BYTES_TO_WAIT_FOR_JOIN_KEYS)
