"""The reader's options, validated.

Takes the options as Spark passes them (keys in any case, values as text); returns `ReadOptions`. An unknown option is
refused with a hint at the closest known one, never ignored.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from twostage.errors import OptionError
from twostage.masking import masked_repr
from twostage.unsupported_options import unknown_option
from twostage.worker_memory import default_task_memory

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_MAX_EPOCH_MILLISECONDS = 253_402_387_199_999
"""The last millisecond of the year 9999 in the westernmost time zone."""


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
    """Remote data files of a task that are read ahead of the one whose rows are next; None: as many as pays."""
    batch_size: int = 65_536
    """Maximum rows of a returned Arrow batch."""
    min_dropped_share: float = 0.25
    """Of the rows: keys of a join that drop fewer are given up in a task; 0: never."""
    filter_cache: str = "off"
    """Who keeps which rows of a data file meet a condition: each worker in ``memory``, the ``host``, or nobody (``off``)."""
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
    """Whether indexes are read where they save bytes."""
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
    case_sensitive: bool = False
    native_scans: bool = True
    """Hand scans over to Spark's own Parquet reader if late materialization gains nothing."""
    top_n: bool = True
    """Prune rows that ORDER BY with LIMIT drops."""
    dynamic_filter: bool = True
    """Filter rows by the keys of joins that arrive while the query runs; off: these only prune."""
    dynamic_filter_files: bool = True
    """Leave out files of scans by Spark's own reader by keys of joins."""
    dynamic_filter_min_bytes: int | None = None
    """Bytes of a join side's columns from which on it awaits keys; None: `eligibility.MAX_JOIN_COLUMN_BYTES`."""
    metadata_aggregates: bool = True
    """Answer count, min and max from manifests if these prove the result."""
    manifest_cache: bool = True
    """Keep parsed manifests in the driver from query to query: at most 64 MiB of deletes' and 128 MiB of data files'."""
    truncate_nanoseconds: bool = False
    """Return ``timestamp_ns`` and ``timestamptz_ns`` in microseconds instead of refusing them."""
    settings: ReadSettings = ReadSettings()
    catalog: Mapping[str, str] = field(default_factory=dict, repr=False)


def _text(raw: str) -> str:
    return raw


def _boolean(raw: str) -> bool:
    if raw.lower() not in ("true", "false"):
        raise ValueError("true or false")
    return raw.lower() == "true"


def _positive(raw: str) -> int:
    value = int(raw)
    if value < 1:
        raise ValueError("a positive number")
    return value


def _share(raw: str) -> float:
    if not re.fullmatch(r"\d{1,3}", raw, re.ASCII) or int(raw) > 100:
        raise ValueError("a percentage from 0 to 100")
    return int(raw) / 100


def _number_or_auto(raw: str) -> int | None:
    if raw.lower() == "auto":
        return None
    if not re.fullmatch(r"\d{1,6}", raw, re.ASCII):
        raise ValueError("auto, or a number from 0")
    return int(raw)


def _whole(raw: str) -> int:
    """Parse a long as Java does: ASCII digits, 64 bits, no underscores."""
    if not re.fullmatch(r"[+-]?\d{1,19}", raw, re.ASCII) or not -(2**63) <= int(raw) < 2**63:
        raise ValueError("a whole number")
    return int(raw)


def parse_milliseconds(raw: str) -> int:
    """Parse a time in milliseconds since the epoch.

    Raises:
        ValueError: The message says what was expected. A time after the year 9999 is refused: it is probably in another
            unit, and would silently select the current snapshot.
    """
    if not re.fullmatch(r"[+-]?\d{1,19}", raw, re.ASCII):
        raise ValueError(
            "milliseconds since the epoch, such as 1714979289123; timestampAsOf takes dates and timestamps"
        )
    if int(raw) > _MAX_EPOCH_MILLISECONDS:
        raise ValueError("milliseconds since the epoch, and not a time after the year 9999")
    return int(raw)


def parse_size(raw: str) -> int:
    """Return the bytes of a size such as ``128m``.

    Raises:
        ValueError: The message says what was expected.
    """
    match = re.fullmatch(r"\s*(\d+)\s*([kmgt]?)i?b?\s*", raw, re.IGNORECASE)
    if not match or int(match[1]) < 1:
        raise ValueError("a size such as 134217728 or 128m")
    return int(match[1]) << (10 * " kmgt".index(match[2].lower() or " "))


def _normalize(raw: str) -> str:
    if raw.lower() not in ("none", "cnf", "dnf"):
        raise ValueError("none, cnf or dnf")
    return raw.lower()


def _nanoseconds(raw: str) -> bool:
    if raw.lower() not in ("refuse", "truncate"):
        raise ValueError("refuse or truncate")
    return raw.lower() == "truncate"


def _when(raw: str) -> str:
    if raw.lower() not in ("auto", "always", "never"):
        raise ValueError("auto, always or never")
    return raw.lower()


def _native(raw: str) -> bool:
    if raw.lower() not in ("auto", "never"):
        raise ValueError("auto or never")
    return raw.lower() == "auto"


def _automatic(raw: str) -> bool:
    if raw.lower() not in ("auto", "off"):
        raise ValueError("auto or off")
    return raw.lower() == "auto"


def _client(raw: str) -> str:
    if raw.lower() not in ("auto", "arrow"):
        raise ValueError("auto or arrow")
    return raw.lower()


def _sharers(raw: str) -> str:
    if raw.lower() not in ("host", "worker"):
        raise ValueError("host or worker")
    return raw.lower()


def _keepers(raw: str) -> str:
    if raw.lower() not in ("off", "memory", "host"):
        raise ValueError("off, memory or host")
    return raw.lower()


def _directory(raw: str) -> str:
    if not raw.startswith("/"):
        raise ValueError("an absolute path of a local directory")
    return raw


def _location(raw: str) -> str:
    (location, *others) = _locations(raw)
    if others:
        raise ValueError("one folder or bucket")
    return location


def _columns(raw: str) -> tuple[str, ...]:
    """Split a comma-separated list; a name in backticks may contain commas and dots."""
    names = re.findall(r"\s*((?:`(?:[^`]|``)+`|[^,`])+)\s*(?:,|$)", raw)
    if not names:
        raise ValueError("names separated by commas")
    return tuple(name.strip() for name in names)


def _locations(raw: str) -> tuple[str, ...]:
    """Split a comma-separated list of folders and buckets."""
    locations = tuple(part.strip() for part in raw.split(",") if part.strip())
    if not locations or not all("://" in location or location.startswith("/") for location in locations):
        raise ValueError("locations such as s3://bucket or /folder, separated by commas")
    return locations


_OPTIONS: dict[str, tuple[str, Callable[[str], object]]] = {
    "path": ("path", _text),
    "versionAsOf": ("version_as_of", _text),
    "timestampAsOf": ("timestamp_as_of", _text),
    "snapshot-id": ("snapshot_id", _whole),
    "as-of-timestamp": ("as_of_timestamp", parse_milliseconds),
    "branch": ("branch", _text),
    "tag": ("tag", _text),
    "metadata-table": ("metadata_table", _text),
    "columns": ("columns", _columns),
    "filter": ("filter", _text),
    "allow-moved-paths": ("allow_moved_paths", _boolean),
    "allowed-locations": ("allowed_locations", _locations),
    "split-size": ("split_size", parse_size),
    "parallelism": ("parallelism", _positive),
    "case-sensitive": ("case_sensitive", _boolean),
    "timestamp-ns": ("truncate_nanoseconds", _nanoseconds),
    "top-n": ("top_n", _boolean),
    "dynamic-filter": ("dynamic_filter", _automatic),
    "io.manifest.cache-enabled": ("manifest_cache", _boolean),
    "dynamic-filter.files": ("dynamic_filter_files", _automatic),
    "dynamic-filter.min-bytes": ("dynamic_filter_min_bytes", parse_size),
    "aggregate-push-down-enabled": ("metadata_aggregates", _boolean),
    "scan.native": ("native_scans", _native),
}
_SETTINGS: dict[str, tuple[str, Callable[[str], object]]] = {
    "prune.files": ("prune_files", _boolean),
    "prune.row-groups": ("prune_row_groups", _boolean),
    "prune.pages": ("prune_pages", _boolean),
    "prune.dictionary": ("dictionary_filter", _boolean),
    "prune.bloom": ("bloom_filter", _boolean),
    "prune.deletes": ("prune_deletes", _boolean),
    "deletes.stream": ("stream_deletes", _when),
    "deletes.dense": ("dense_keys", _boolean),
    "deletes.simplify": ("simplify_keys", _boolean),
    "two-stage": ("two_stage", _boolean),
    "read.pages": ("read_pages", _when),
    "read.few-rows": ("few_rows", _when),
    "dynamic-filter.min-dropped": ("min_dropped_share", _share),
    "filter.kernels": ("kernels", _boolean),
    "filter.dictionary": ("encoded_filters", _boolean),
    "filter.elements": ("element_filters", _boolean),
    "filter.reorder": ("reorder_filters", _boolean),
    "filter.normalize": ("normalize", _normalize),
    "filter.cache": ("filter_cache", _keepers),
    "filter.cache-dir": ("filter_cache_dir", _directory),
    "filter.cache-size": ("filter_cache_size", parse_size),
    "verify-checksums": ("verify_checksums", _boolean),
    "io.merge-gap": ("merge_gap", parse_size),
    "io.parallel-requests": ("parallel_requests", _positive),
    "object-store-client": ("object_store_client", _client),
    "io.prefetch": ("prefetch", _boolean),
    "io.files-ahead": ("files_ahead", _number_or_auto),
    "footers.cache": ("footer_cache", _sharers),
    "footers.cache-dir": ("footer_cache_dir", _directory),
    "footers.cache-size": ("footer_cache_size", parse_size),
    "deletes.cache": ("delete_cache", _sharers),
    "deletes.cache-dir": ("delete_cache_dir", _directory),
    "deletes.cache-size": ("delete_cache_size", parse_size),
    "deletes.compiled-dir": ("compiled_dir", _location),
    "index": ("index", _automatic),
    "index.location": ("index_location", _location),
    "batch-size": ("batch_size", _positive),
    "task-memory": ("task_memory", parse_size),
}
_CATALOG_PREFIX = "catalog."
OPTION_NAMES = (*_OPTIONS, *_SETTINGS)
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
        if key.lower().startswith(_CATALOG_PREFIX):
            catalog[key[len(_CATALOG_PREFIX) :]] = text
            continue
        name = known.get(key.lower())
        if name is None:
            raise unknown_option(key, (*OPTION_NAMES, "catalog.<property>"))
        target, parse = _OPTIONS.get(name) or _SETTINGS[name]
        try:
            (values if name in _OPTIONS else settings)[target] = parse(text)
        except ValueError as error:
            raise OptionError(
                "BAD_OPTION",
                f"Option {name!r} has a bad value: {text!r}",
                stage="options",
                hint=f"Expected {error}."
                if "invalid literal" not in str(error)
                else "Expected a whole number.",
            ) from None
    chosen = [name for name in _SNAPSHOT_CHOICES if _OPTIONS[name][0] in values]
    if len(chosen) > 1:
        raise OptionError(
            "CONFLICTING_OPTIONS",
            f"Options choose the snapshot twice: {', '.join(chosen)}",
            stage="options",
            hint="Keep one of them.",
        )
    return ReadOptions(settings=ReadSettings(**settings), catalog=catalog, **values)  # type: ignore[arg-type]
