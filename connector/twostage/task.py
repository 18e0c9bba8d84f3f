"""What the driver hands to the executors: plain, picklable values.

`planning` makes them, `reading` consumes them. No open file, no Spark and no pyiceberg object is inside,
and nothing here is ever shown with a secret: `ScanContext.storage` hides its properties from `repr`.
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
    """Equality deletes: names the partition covered (``global`` for all of the table; None: not known).
    Files of one scope apply to the same data files, but for the sequence rule and for pruning, so that
    one table of keys serves them all."""
    keys: Mapping[int, Bounds] = field(default_factory=dict)
    """Equality deletes: what is known of the values in key columns, by field id, and so of the rows deleted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DataFileWithDeletes:
    """A data file, as far as it takes to tell which of its rows are deleted."""

    __repr__ = masked_repr

    written_path: str
    """As the metadata names it; delete files name it so, too."""
    record_count: int
    deletes: tuple[DeleteFile, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanTask(DataFileWithDeletes):
    """One data file, or the row groups of it that begin in ``[start, start + length)`` bytes.

    `path` is where to open it. `constants` are the values of identity partition fields by source field id, and of
    the metadata columns that the file decides, in internal form.
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
    """Row lineage: the id of the file's first row; None where the table has none."""
    delete_set: str | None = None
    """Names the equality deletes that apply where `deletes` lacks some of them: those that delete nothing which the
    query returns. What was compiled of the whole set serves this task too."""
    all_match: bool = False
    """The file's metrics prove that the predicate is true for every row: no need to filter."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class CredentialsEndpoint:
    """Where a REST catalog vends new credentials for a table's files, and the authorisation that it wants.

    Holds secrets: its repr shows nothing. Only the process that opens the table's files uses it.
    """

    url: str
    location: str
    """Of the table; the credentials whose prefix of it is the longest are taken."""
    headers: tuple[tuple[str, str], ...] = ()
    """Of each request, ``Authorization`` included."""
    login_url: str = ""
    """Where OAuth2's client credentials get a new token once that in `headers` has expired; empty: there is no way."""
    login: tuple[tuple[str, str], ...] = ()
    """The fields of that request."""
    login_headers: tuple[tuple[str, str], ...] = ()
    verify: bool | str = True
    """Whether the server's certificate is checked, or the file of authorities by which it is."""
    certificate: str | tuple[str, str] | None = None
    """The client's own: a file, or one with its key's."""

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
    """More buckets and folders that a scan may open (``allowed-locations``)."""
    client: str = "auto"
    """Who sends the requests to an object store: ``auto`` (obstore where it knows the store) or ``arrow``."""
    scope: str = field(default="", repr=False)
    """For whom the driver keeps what it reads (`storage.store_identity`); empty: for whoever has the same `properties`."""
    renewal: CredentialsEndpoint | None = field(default=None, repr=False)
    """Where credentials among `properties` are renewed that a catalog vended; None: in the driver alone, if at all."""


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
    """Conjuncts of `predicate` that say which keys a join has: the join drops what they would drop, too."""
    hint: Predicate = TRUE
    """Implied by what Spark evaluates later, and by runtime filters: it may prune, and need not be applied to rows."""
    key_fields: Mapping[int, Field] = field(default_factory=dict)
    """Equality-delete key fields by id that `schema` no longer holds, from older schemas."""
    key_columns: Mapping[int, Field] = field(default_factory=dict)
    """By the same ids, the columns that lead to these fields (`Schema.cut_to`)."""
    limit: int | None = None
    top: TopRows | None = None
    """Spark sorts the rows and keeps the first of them: each task must return those, and need not return others."""
    table_uuid: str | None = None
    indexes: Any = None
    """The `indexes.of_scan.ScanIndexes` that tasks may ask; None: there are none."""
    equality_deletes: tuple[DeleteFile, ...] = field(default=(), repr=False)
    """The equality-delete files that some task of the scan applies: workers that share key sets build one for all."""


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
"""A single range of fewer bytes is read sooner than a filter by a join's keys is planned."""


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
    """The table's indexed columns with their kinds, for EXPLAIN; empty where nothing of the scan asks indexes."""
    is_from_metadata: bool = False
    """Manifests, or indexes, answered the query's aggregates; there are no groups."""
    answered_columns: tuple[str, ...] = ()
    """Of such an answer: the columns that the aggregates, and their groups, are of."""

    @property
    def may_leave_out(self) -> bool:
        """Whether there is enough to read that a join's keys, known later, could save some of it."""
        tasks = sum(len(group.tasks) for group in self.groups)
        return tasks > 1 or (tasks == 1 and self.estimated_bytes > MIN_BYTES_TO_WAIT_FOR_JOIN_KEYS)
