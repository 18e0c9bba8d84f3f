"""Every option: its name, parser, default and meaning.

`SECTIONS` is in the order of docs/options.md, whose tables are generated from it (`make docs-tables`). The
defaults are text as a user would write it; those of `ReadOptions` and `ReadSettings` apply, and a test
compares the two.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from twostage import option_values as values

if TYPE_CHECKING:
    from collections.abc import Callable


class Option(NamedTuple):
    """An option.

    Attributes:
        target: The attribute of `ReadOptions` or `ReadSettings`.
        parse: Makes the value from the user's text; a ``ValueError`` says what was expected.
        default: As a user would write it; empty if there is none, or it is not a constant.
        meaning: In Markdown; links are relative to ``docs/``.
    """

    target: str
    parse: Callable[[str], object]
    default: str
    meaning: str


# fmt: off
SECTIONS: dict[str, dict[str, Option]] = {
    "What is read": {
        "path": Option(
            "path", values.text, "",
            "a table's folder, a metadata file, or `catalog.namespace.table`: what `load(…)` is given",
        ),
        "versionAsOf": Option(
            "version_as_of", values.text, "",
            "the snapshot by id, branch or tag",
        ),
        "snapshot-id": Option(
            "snapshot_id", values.whole, "",
            "the snapshot by id",
        ),
        "branch": Option(
            "branch", values.text, "",
            "the snapshot by a branch's name",
        ),
        "tag": Option(
            "tag", values.text, "",
            "the snapshot by a tag's name",
        ),
        "timestampAsOf": Option(
            "timestamp_as_of", values.text, "",
            "the snapshot that was current at a time: a date or timestamp (in the session's time zone unless it names one; without `enable` it must) or, digits alone, seconds since the epoch",
        ),
        "as-of-timestamp": Option(
            "as_of_timestamp", values.milliseconds, "",
            "the same in milliseconds since the epoch",
        ),
        "metadata-table": Option(
            "metadata_table", values.text, "",
            "read this metadata table instead of the rows: `snapshots`, `files` …",
        ),
        "columns": Option(
            "columns", values.columns, "",
            "without the planner: the columns to read, names separated by commas",
        ),
        "filter": Option(
            "filter", values.text, "",
            "without the planner: the rows to read, a SQL predicate",
        ),
        "case-sensitive": Option(
            "case_sensitive", values.boolean, "false",
            "how the names in `columns` and `filter` match",
        ),
        "timestamp-ns": Option(
            "truncate_nanoseconds", values.truncates_nanoseconds, "refuse",
            "`refuse` nanosecond timestamps, or `truncate` them to microseconds. Filters see the microseconds, equality deletes the nanoseconds",
        ),
    },
    "Where files may lie": {
        "allow-moved-paths": Option(
            "allow_moved_paths", values.boolean, "false",
            "read a table that was copied from the location in its metadata to another one; files outside its folder are not read",
        ),
        "allowed-locations": Option(
            "allowed_locations", values.locations, "",
            "further folders or prefixes, separated by commas, that a scan may open in addition to the table's own scheme and authority",
        ),
    },
    "Tasks and memory": {
        "split-size": Option(
            "split_size", values.size, "",
            "expected bytes per task, such as `128m`; by default derived from the number of cores and the expected bytes of the scan",
        ),
        "parallelism": Option(
            "parallelism", values.positive, "",
            "the number of concurrent tasks to plan for; by default the number of cores",
        ),
        "executor-locality": Option(
            "executor_locality", values.boolean, "false",
            "let [the same executors read the same data files](object-stores.md#the-same-files-on-the-same-executors) in every query, so that their caches are used again",
        ),
        "batch-size": Option(
            "batch_size", values.positive, "65536",
            "maximum rows of a returned batch",
        ),
        "task-memory": Option(
            "task_memory", values.size, "",
            "bytes for the filter columns and delete keys of one task, such as `512m`; see [Memory](memory.md) for its default",
        ),
    },
    "Who reads, and in what way": {
        "scan.native": Option(
            "native_scans", values.hands_over, "auto",
            "`auto`: scans that gain nothing from late materialization are handed to [Spark's own Parquet reader](full-scans.md#full-scans); or `never`",
        ),
        "io.manifest.cache-enabled": Option(
            "manifest_cache", values.boolean, "true",
            "keep parsed manifests in the driver between queries: at most 128 MiB for data files and 64 MiB for deletes",
        ),
        "aggregate-push-down-enabled": Option(
            "metadata_aggregates", values.boolean, "true",
            "answer `count`, `min` and `max` from metadata if [it proves them](full-scans.md#answers-from-metadata)",
        ),
        "top-n": Option(
            "top_n", values.boolean, "true",
            "prune what [`ORDER BY … LIMIT`](full-scans.md#top-rows) drops",
        ),
        "dynamic-filter": Option(
            "dynamic_filter", values.automatic, "auto",
            "`auto`: [keys of a join](full-scans.md#keys-of-a-join), which arrive while the query runs, filter rows; or `off`: they only prune",
        ),
        "dynamic-filter.files": Option(
            "dynamic_filter_files", values.automatic, "auto",
            "`auto`: join keys also prune [files of Spark's own reader](full-scans.md#sides-of-joins); or `off`",
        ),
        "dynamic-filter.min-bytes": Option(
            "dynamic_filter_min_bytes", values.size, "",
            "by default `4m`: a side of a join awaits keys if its columns take more bytes than that in its files; Spark's own reader scans a smaller one at once",
        ),
        "dynamic-filter.min-dropped": Option(
            "min_dropped_share", values.percentage, "25",
            "percentage of the rows: a task gives up join keys that drop fewer; `0`: it never does",
        ),
        "two-stage": Option(
            "two_stage", values.boolean, "true",
            "read filter columns first, then select columns for the live rows; off: all columns of each row group at once",
        ),
        "read.pages": Option(
            "read_pages", values.when, "auto",
            "`auto`: read only pages with live rows, if that saves enough bytes; `always`; or `never`: whole column chunks",
        ),
        "read.few-rows": Option(
            "few_rows", values.when, "auto",
            "whether single values of a flat column are decoded without the values between them: `auto` (below one row in 64), `always` or `never`",
        ),
        "verify-checksums": Option(
            "verify_checksums", values.boolean, "true",
            "verify Parquet's page checksums",
        ),
    },
    "Pruning and filters": {
        "prune.files": Option(
            "prune_files", values.boolean, "true",
            "prune manifests and data files by partition values and bounds",
        ),
        "prune.row-groups": Option(
            "prune_row_groups", values.boolean, "true",
            "prune row groups (ORC: stripes) by statistics, dictionaries and Bloom filters",
        ),
        "prune.pages": Option(
            "prune_pages", values.boolean, "true",
            "prune Parquet pages by the page index",
        ),
        "prune.dictionary": Option(
            "dictionary_filter", values.boolean, "true",
            "read dictionaries to prune row groups",
        ),
        "prune.bloom": Option(
            "bloom_filter", values.boolean, "true",
            "read Bloom filters to prune row groups",
        ),
        "prune.deletes": Option(
            "prune_deletes", values.boolean, "true",
            "skip delete files, and the probing of row groups and pages, if key bounds prove that they do not overlap",
        ),
        "filter.kernels": Option(
            "kernels", values.boolean, "true",
            "filter by compiled kernels; off: by their NumPy twins",
        ),
        "filter.dictionary": Option(
            "encoded_filters", values.boolean, "true",
            "filter dictionary-encoded text by its codes",
        ),
        "filter.elements": Option(
            "element_filters", values.boolean, "true",
            "evaluate `array_contains` and `map_contains_key` of a column and a literal; `false` leaves them to Spark",
        ),
        "filter.rewrite": Option(
            "rewrite_filters", values.boolean, "true",
            "evaluate `IN` of a timestamp's date, comparisons of a date's or timestamp's year, and `isnan`, as comparisons of the column; `false` leaves them to Spark",
        ),
        "filter.reorder": Option(
            "reorder_filters", values.boolean, "true",
            "evaluate first the predicates that are cheap and remove most rows",
        ),
        "filter.cache": Option(
            "filter_cache", values.keeper, "off",
            "where it is cached [which rows meet a filter](condition-cache.md), so that the next query with it reads no filter column: in each worker's `memory`, on the `host`, or nowhere (`off`)",
        ),
        "filter.cache-dir": Option(
            "filter_cache_dir", values.directory, "",
            "the directory of the host's cache of conditions, by default in the user's cache directory; one that other users can access is not used",
        ),
        "filter.cache-size": Option(
            "filter_cache_size", values.size, "1g",
            "maximum bytes of that cache; the least recently used files are removed first",
        ),
        "filter.normalize": Option(
            "normalize", values.normal_form, "none",
            "`none`, `cnf` or `dnf`: the normal form of the predicate in stage one",
        ),
    },
    "Deletes": {
        "deletes.stream": Option(
            "stream_deletes", values.when, "auto",
            "`auto`: equality-delete files are streamed past a hash table of the remaining rows (reverse anti-join), if there are few rows compared with the keys, or the keys exceed `task-memory`; `always`; or `never`: all keys are loaded into a table, and refused beyond `task-memory`",
        ),
        "deletes.cache": Option(
            "delete_cache", values.sharer, "host",
            "who shares key tables of equality deletes: `host` (one worker process builds a table in a file, which the host's other workers and later queries map into memory) or `worker` (each builds its own, in memory)",
        ),
        "deletes.cache-dir": Option(
            "delete_cache_dir", values.directory, "",
            "the directory of that cache, by default in the user's cache directory; one that other users can access is not used",
        ),
        "deletes.cache-size": Option(
            "delete_cache_size", values.size, "4g",
            "maximum bytes of that cache; the least recently used files are removed first",
        ),
        "deletes.compiled-dir": Option(
            "compiled_dir", values.location, "",
            "a folder or bucket outside the table for [compiled deletes](deletes.md#compiled-which-rows-they-delete), in addition to that cache",
        ),
        "index": Option(
            "index", values.automatic, "auto",
            "`auto`: [indexes](indexes.md) are read if they take fewer bytes than the filter's columns; or `off`",
        ),
        "index.location": Option(
            "index_location", values.location, "",
            "a folder or bucket outside the table for [indexes](indexes.md); by default `_twostage_indexes` beside the table's location",
        ),
        "deletes.dense": Option(
            "dense_keys", values.boolean, "true",
            "keep dense integer keys in an array instead of a hash table",
        ),
        "deletes.simplify": Option(
            "simplify_keys", values.boolean, "true",
            "store keys without columns that are constant in their partition, and without keys that a shorter key makes redundant",
        ),
    },
    "Requests": {
        "io.merge-gap": Option(
            "merge_gap", values.size, "",
            "bytes: two ranges with a smaller gap are read by one request; by default 32k for local files, 256k for remote ones",
        ),
        "io.parallel-requests": Option(
            "parallel_requests", values.positive, "",
            "concurrent requests of a task; by default 1 for local files, 64 for remote ones",
        ),
        "io.files-ahead": Option(
            "files_ahead", values.number_or_auto, "auto",
            "how many remote data files of a task are read ahead of the one whose rows are next: a number, or `auto` (as many as [pay off](object-stores.md#what-is-done-by-default), at most 63). 0 reads one file after another",
        ),
        "footers.cache": Option(
            "footer_cache", values.sharer, "host",
            "who keeps footers of remote Parquet files: the workers of a `host` share them in files, or each `worker` has its own. Rows are read only from the object with the footer's ETag; if the footer proves that no row matches, the object is not requested again",
        ),
        "footers.cache-dir": Option(
            "footer_cache_dir", values.directory, "",
            "the directory of that cache, by default in the user's cache directory; one that other users can access is not used",
        ),
        "footers.cache-size": Option(
            "footer_cache_size", values.size, "256m",
            "maximum bytes of that cache; the least recently used files are removed first",
        ),
        "object-store-client": Option(
            "object_store_client", values.client, "auto",
            "who sends requests to object stores: `auto` (obstore, and PyArrow for [what obstore does not know](object-stores.md#who-sends-the-requests)) or `arrow`",
        ),
        "io.prefetch": Option(
            "prefetch", values.boolean, "true",
            "read several row groups of a remote file at the same time, request columns together with the equality deletes of their rows, and decode equality-delete files while earlier keys are inserted into the table",
        ),
    },
}
# fmt: on
CATALOG_PREFIX = "catalog."
CATALOG_OPTION = f"{CATALOG_PREFIX}<property>"
CATALOG_MEANING = "a property of the catalog; overrides its configuration"
OPTIONS: dict[str, Option] = {
    name: option for section in SECTIONS.values() for name, option in section.items()
}
