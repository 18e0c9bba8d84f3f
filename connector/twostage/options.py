"""Every option of the source, validated once.

Takes the reader's options (keys of any case, as Spark hands them over); gives a `ReadOptions`. The rule:
an option that is not known is refused with the closest right one, never ignored.
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

_LAST_MILLISECOND = 253_402_387_199_999
"""Of the year 9999, in whatever time zone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadSettings:
    """What the executors need to know of the options. Each switch off leaves the rows the same."""

    __repr__ = masked_repr

    prune_files: bool = True
    prune_row_groups: bool = True
    prune_pages: bool = True
    dictionary_filter: bool = True
    bloom_filter: bool = True
    two_stage: bool = True
    read_pages: str = "auto"
    """``auto`` (where fewer bytes pay), ``always`` (wherever the file allows it) or ``never``."""
    few_rows: str = "auto"
    """Whether rows of a flat column are taken out of their pages without decoding the rows between them: ``auto``
    (where they are few), ``always`` or ``never``."""
    kernels: bool = True
    encoded_filters: bool = True
    """Whether filters look at the codes of dictionary-encoded text."""
    reorder_filters: bool = True
    prune_deletes: bool = True
    stream_deletes: str = "auto"
    """Whether equality deletes are read past the rows that are left instead of into a table: ``auto`` (few rows,
    many keys, or keys that exceed the budget), ``always`` or ``never``."""
    dense_keys: bool = True
    """Whether equality-delete keys that are numbers close to each other are kept in an array, not a hash table."""
    simplify_keys: bool = True
    """Whether equality-delete keys are kept without the columns that their partition decides, and only those that no
    shorter key makes redundant."""
    verify_checksums: bool = True
    normalize: str = "none"
    merge_gap: int | None = None
    """Bytes between two ranges of a file below which one request reads both; None: by the kind of store."""
    parallel_requests: int | None = None
    """Requests of one task at the same time; None: by the kind of store."""
    prefetch: bool = True
    """Whether stage one of the next row group runs while a remote file's current one is fetched."""
    batch_size: int = 65_536
    """Rows of one returned Arrow batch, at most."""
    delete_cache: str = "host"
    """Who shares key tables of equality deletes: the worker processes of a ``host``, or each ``worker`` its own."""
    delete_cache_dir: str | None = None
    """The host's cache of deletes; None: in the user's cache directory."""
    delete_cache_size: int = 4 * 2**30
    """Bytes that the host's cache of deletes may take."""
    compiled_dir: str | None = None
    """Where compiled deletes are kept besides the host's cache: a folder or bucket outside the table."""
    task_memory: int | None = None
    """Budget of one task for decoded columns and delete keys, bytes; None: what its worker can give."""

    @property
    def memory_budget(self) -> int:
        """``task_memory``, or the default of the process that asks."""
        return default_task_memory() if self.task_memory is None else self.task_memory


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    """The options of one read. `catalog` holds ``catalog.*`` properties, secrets included: no repr."""

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
    """``snapshots``, ``files`` …: the metadata table to read instead of the rows."""
    columns: tuple[str, ...] | None = None
    filter: str | None = None
    allow_moved_paths: bool = False
    allowed_locations: tuple[str, ...] = ()
    """Buckets and folders besides the table's own that its files may lie in: ``s3://other/data``."""
    split_size: int | None = None
    """Bytes that one task reads; None: from the cores and what stage one expects to read."""
    parallelism: int | None = None
    case_sensitive: bool = False
    native_scans: bool = True
    """Let Spark's own Parquet reader do the scans that gain nothing from reading late."""
    top_n: bool = True
    """Leave out rows that ORDER BY and LIMIT drop."""
    metadata_aggregates: bool = True
    """Answer count, min and max from manifests where they prove them."""
    truncate_nanoseconds: bool = False
    """Show ``timestamp_ns`` and ``timestamptz_ns`` in microseconds instead of refusing them."""
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


def _whole(raw: str) -> int:
    """Parse as Java does: 64 bits, ASCII digits, no underscores."""
    if not re.fullmatch(r"[+-]?\d{1,19}", raw, re.ASCII) or not -(2**63) <= int(raw) < 2**63:
        raise ValueError("a whole number")
    return int(raw)


def parse_milliseconds(raw: str) -> int:
    """Return a moment that is given in milliseconds since the epoch.

    Raises:
        ValueError: What was expected. A moment after the year 9999 is one in another unit, and would silently choose
            the current snapshot.
    """
    if not re.fullmatch(r"[+-]?\d{1,19}", raw, re.ASCII):
        raise ValueError(
            "milliseconds since the epoch, such as 1714979289123; timestampAsOf takes dates and timestamps"
        )
    if int(raw) > _LAST_MILLISECOND:
        raise ValueError("milliseconds since the epoch, and not a time after the year 9999")
    return int(raw)


def _bytes(raw: str) -> int:
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


def _sharers(raw: str) -> str:
    if raw.lower() not in ("host", "worker"):
        raise ValueError("host or worker")
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
    """Split a comma-separated list; a name in backticks may hold commas and dots."""
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
    "split-size": ("split_size", _bytes),
    "parallelism": ("parallelism", _positive),
    "case-sensitive": ("case_sensitive", _boolean),
    "timestamp-ns": ("truncate_nanoseconds", _nanoseconds),
    "top-n": ("top_n", _boolean),
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
    "filter.kernels": ("kernels", _boolean),
    "filter.dictionary": ("encoded_filters", _boolean),
    "filter.reorder": ("reorder_filters", _boolean),
    "filter.normalize": ("normalize", _normalize),
    "verify-checksums": ("verify_checksums", _boolean),
    "io.merge-gap": ("merge_gap", _bytes),
    "io.parallel-requests": ("parallel_requests", _positive),
    "io.prefetch": ("prefetch", _boolean),
    "deletes.cache": ("delete_cache", _sharers),
    "deletes.cache-dir": ("delete_cache_dir", _directory),
    "deletes.cache-size": ("delete_cache_size", _bytes),
    "deletes.compiled-dir": ("compiled_dir", _location),
    "batch-size": ("batch_size", _positive),
    "task-memory": ("task_memory", _bytes),
}
_CATALOG_PREFIX = "catalog."
OPTION_NAMES = (*_OPTIONS, *_SETTINGS)
_SNAPSHOT_CHOICES = ("versionAsOf", "timestampAsOf", "snapshot-id", "as-of-timestamp", "branch", "tag")


def parse_options(raw: Mapping[str, str]) -> ReadOptions:
    """Validate the reader's options.

    Raises:
        OptionError: An unknown key, a bad value, or two options that exclude each other.

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
