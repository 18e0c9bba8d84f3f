"""The reader's options, validated.

Takes the options as Spark passes them (keys in any case, values as text); returns `ReadOptions`. An unknown option is
refused with a hint at the closest known one, never ignored. `option_table` lists them with their meanings.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING

from twostage.errors import OptionError
from twostage.masking import masked_repr
from twostage.option_table import CATALOG_OPTION, CATALOG_PREFIX, OPTIONS
from twostage.unsupported_options import unknown_option
from twostage.worker_memory import default_task_memory

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadSettings:
    """The options that executors need. None of them changes which rows are returned."""

    __repr__ = masked_repr

    prune_files: bool = True
    prune_row_groups: bool = True
    prune_pages: bool = True
    dictionary_filter: bool = True
    bloom_filter: bool = True
    two_stage: bool = True
    read_pages: str = "auto"
    """Whether to read single pages instead of column chunks: ``auto`` (if enough bytes are saved), ``always`` (if the
    file permits) or ``never``."""
    few_rows: str = "auto"
    """Whether single values of a flat column are decoded without the values between them: ``auto`` (for few rows),
    ``always`` or ``never``."""
    kernels: bool = True
    encoded_filters: bool = True
    """Whether filters on dictionary-encoded text are evaluated on the dictionary."""
    element_filters: bool = True
    """Whether ``array_contains`` and ``map_contains_key`` are evaluated by the scan; else Spark does."""
    rewrite_filters: bool = True
    """Whether tests of dates, years and NaN are evaluated by the scan, as comparisons of columns; else Spark does."""
    reorder_filters: bool = True
    prune_deletes: bool = True
    stream_deletes: str = "auto"
    """Whether equality deletes are streamed past a hash table of the remaining rows (reverse anti-join) instead of
    loaded into one: ``auto`` (few rows and many keys, or keys beyond the memory budget), ``always`` or ``never``."""
    dense_keys: bool = True
    """Whether dense integer equality-delete keys are kept in a directly addressed array instead of a hash table."""
    simplify_keys: bool = True
    """Whether equality-delete keys are stored without columns that are constant in their partition, and without keys
    that a shorter key makes redundant."""
    verify_checksums: bool = True
    normalize: str = "none"
    merge_gap: int | None = None
    """Bytes: two ranges of a file with a smaller gap are read by one request; None: depends on the kind of store."""
    parallel_requests: int | None = None
    """Concurrent requests of one task; None: depends on the kind of store."""
    object_store_client: str = "auto"
    """Who sends requests to object stores: ``auto`` (obstore, or PyArrow for what obstore does not know) or ``arrow``."""
    prefetch: bool = True
    """Whether several row groups of a remote file are read at the same time."""
    files_ahead: int | None = None
    """Remote data files of a task read ahead of the one whose rows are next; None: as many as pay off."""
    batch_size: int = 65_536
    """Maximum rows of a returned Arrow batch."""
    min_dropped_share: float = 0.25
    """Share of the rows: a task gives up join keys that drop fewer; 0: never."""
    filter_cache: str = "off"
    """Where it is cached which rows of a data file meet a condition: in each worker's ``memory``, on the
    ``host``, or nowhere (``off``)."""
    filter_cache_dir: str | None = None
    """Directory of the host's cache of conditions; None: in the user's cache directory."""
    filter_cache_size: int = 2**30
    """Maximum bytes of the host's cache of conditions."""
    footer_cache: str = "host"
    """Whether footers of remote Parquet files are shared by all worker processes of a ``host``, or kept per ``worker``."""
    footer_cache_dir: str | None = None
    """Directory of the host's cache of footers; None: in the user's cache directory."""
    footer_cache_size: int = 2**28
    """Maximum bytes of the host's cache of footers."""
    delete_cache: str = "host"
    """Whether key tables of equality deletes are shared by all worker processes of a ``host``, or per ``worker``."""
    delete_cache_dir: str | None = None
    """Directory of the host's delete cache; None: in the user's cache directory."""
    delete_cache_size: int = 4 * 2**30
    """Maximum bytes of the host's delete cache."""
    compiled_dir: str | None = None
    """Where compiled deletes are stored in addition to the host's cache: a folder or bucket outside the table."""
    index: bool = True
    """Whether indexes are read if they save bytes."""
    index_location: str | None = None
    """Where a table's indexes are: a folder or bucket outside the table; None: ``_twostage_indexes`` beside it."""
    task_memory: int | None = None
    """Bytes that one task may use for decoded columns and delete keys; None: `worker_memory.default_task_memory`."""

    @property
    def memory_budget(self) -> int:
        """``task_memory``, or the default of the current process; bytes."""
        return default_task_memory() if self.task_memory is None else self.task_memory


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    """The options of one read. `catalog` has the ``catalog.*`` properties; the repr omits them, they contain secrets."""

    __repr__ = masked_repr

    path: str | None = None
    version_as_of: str | None = None
    """Snapshot id, branch or tag."""
    timestamp_as_of: str | None = None
    snapshot_id: int | None = None
    as_of_timestamp: int | None = None
    """Milliseconds since the epoch."""
    branch: str | None = None
    tag: str | None = None
    metadata_table: str | None = None
    """The metadata table to read instead of the rows: ``snapshots``, ``files``, …"""
    columns: tuple[str, ...] | None = None
    filter: str | None = None
    allow_moved_paths: bool = False
    allowed_locations: tuple[str, ...] = ()
    """Buckets and folders outside the table's location that its files may be in: ``s3://other/data``."""
    split_size: int | None = None
    """Expected bytes per task; None: derived from the number of cores and the expected bytes of the scan."""
    parallelism: int | None = None
    executor_locality: bool = False
    """Let the same executors read the same data files in every query."""
    case_sensitive: bool = False
    native_scans: bool = True
    """Hand scans over to Spark's own Parquet reader if late materialization gains nothing."""
    top_n: bool = True
    """Prune rows that ORDER BY with LIMIT drops."""
    dynamic_filter: bool = True
    """Filter rows by join keys that arrive while the query runs; off: they only prune."""
    dynamic_filter_files: bool = True
    """Prune files of scans by Spark's own reader by join keys."""
    dynamic_filter_min_bytes: int | None = None
    """Bytes of a join side's columns above which it awaits keys; None:
    `eligibility.MAX_JOIN_COLUMN_BYTES`."""
    metadata_aggregates: bool = True
    """Answer count, min and max from manifests if these prove the result."""
    manifest_cache: bool = True
    """Keep parsed manifests in the driver between queries: at most 64 MiB for deletes, 128 MiB for data."""
    truncate_nanoseconds: bool = False
    """Return ``timestamp_ns`` and ``timestamptz_ns`` in microseconds instead of refusing them."""
    settings: ReadSettings = ReadSettings()
    catalog: Mapping[str, str] = field(default_factory=dict, repr=False)


OPTION_NAMES = tuple(OPTIONS)
_SETTINGS = frozenset(setting.name for setting in fields(ReadSettings))
_SNAPSHOT_CHOICES = ("versionAsOf", "timestampAsOf", "snapshot-id", "as-of-timestamp", "branch", "tag")


def parse_options(raw: Mapping[str, str]) -> ReadOptions:
    """Validate the reader's options.

    Raises:
        OptionError: An unknown option, an invalid value, or several options that select the snapshot.

    >>> parse_options({"PATH": "/t", "branch": "audit"}).branch
    'audit'
    """
    known = {name.lower(): name for name in OPTION_NAMES}
    values: dict[str, object] = {}
    settings: dict[str, object] = {}
    catalog: dict[str, str] = {}
    for key, text in raw.items():
        if key.lower().startswith(CATALOG_PREFIX):
            catalog[key[len(CATALOG_PREFIX) :]] = text
            continue
        name = known.get(key.lower())
        if name is None:
            raise unknown_option(key, (*OPTION_NAMES, CATALOG_OPTION))
        option = OPTIONS[name]
        try:
            (settings if option.target in _SETTINGS else values)[option.target] = option.parse(text)
        except ValueError as error:
            raise OptionError(
                "BAD_OPTION",
                f"Option {name!r} has a bad value: {text!r}",
                stage="options",
                hint=f"Expected {error}."
                if "invalid literal" not in str(error)
                else "Expected a whole number.",
            ) from None
    chosen = [name for name in _SNAPSHOT_CHOICES if OPTIONS[name].target in values]
    if len(chosen) > 1:
        raise OptionError(
            "CONFLICTING_OPTIONS",
            f"Options choose the snapshot twice: {', '.join(chosen)}",
            stage="options",
            hint="Keep one of them.",
        )
    return ReadOptions(settings=ReadSettings(**settings), catalog=catalog, **values)  # type: ignore[arg-type]
