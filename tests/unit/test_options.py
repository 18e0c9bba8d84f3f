"""Every option: accepted in any case, validated once, refused with the closest right one."""

from __future__ import annotations

import pickle

import pytest

from twostage.errors import OptionError
from twostage.options import OPTION_NAMES, ReadOptions, parse_options

CANARY = "canary-4711-secret"


@pytest.mark.parametrize(
    ("key", "text", "field", "value"),
    [
        ("path", "/t", "path", "/t"),
        ("versionAsOf", "7", "version_as_of", "7"),
        ("timestampAsOf", "2024-01-01", "timestamp_as_of", "2024-01-01"),
        ("snapshot-id", "7", "snapshot_id", 7),
        ("as-of-timestamp", "499162860000", "as_of_timestamp", 499162860000),
        ("branch", "Audit", "branch", "Audit"),
        ("tag", "v1", "tag", "v1"),
        ("columns", "a, `b,c`.d ,e", "columns", ("a", "`b,c`.d", "e")),
        ("filter", "x > 1", "filter", "x > 1"),
        ("allow-moved-paths", "TRUE", "allow_moved_paths", True),
        ("allowed-locations", "s3://b, /folder", "allowed_locations", ("s3://b", "/folder")),
        ("split-size", "128m", "split_size", 128 * 1024 * 1024),
        ("split-size", "1 GiB", "split_size", 1024**3),
        ("split-size", "1000", "split_size", 1000),
        ("parallelism", "4", "parallelism", 4),
        ("case-sensitive", "true", "case_sensitive", True),
        ("scan.native", "Never", "native_scans", False),
        ("scan.native", "auto", "native_scans", True),
        ("dynamic-filter", "OFF", "dynamic_filter", False),
        ("dynamic-filter", "auto", "dynamic_filter", True),
        ("dynamic-filter.files", "off", "dynamic_filter_files", False),
        ("dynamic-filter.min-bytes", "2m", "dynamic_filter_min_bytes", 2 * 2**20),
    ],
)
def test_options(key: str, text: str, field: str, value: object) -> None:
    for spelled in (key, key.lower(), key.upper()):
        assert getattr(parse_options({spelled: text}), field) == value


@pytest.mark.parametrize(
    ("key", "text", "field", "value"),
    [
        ("prune.files", "false", "prune_files", False),
        ("prune.row-groups", "false", "prune_row_groups", False),
        ("prune.dictionary", "false", "dictionary_filter", False),
        ("prune.bloom", "false", "bloom_filter", False),
        ("prune.deletes", "false", "prune_deletes", False),
        ("deletes.dense", "false", "dense_keys", False),
        ("deletes.simplify", "false", "simplify_keys", False),
        ("two-stage", "false", "two_stage", False),
        ("read.few-rows", "never", "few_rows", "never"),
        ("filter.kernels", "false", "kernels", False),
        ("filter.dictionary", "false", "encoded_filters", False),
        ("filter.elements", "false", "element_filters", False),
        ("filter.rewrite", "false", "rewrite_filters", False),
        ("filter.reorder", "false", "reorder_filters", False),
        ("footers.cache", "worker", "footer_cache", "worker"),
        ("footers.cache-dir", "/tmp/footers", "footer_cache_dir", "/tmp/footers"),
        ("footers.cache-size", "1m", "footer_cache_size", 2**20),
        ("filter.normalize", "CNF", "normalize", "cnf"),
        ("filter.cache", "Host", "filter_cache", "host"),
        ("filter.cache-dir", "/tmp/conditions", "filter_cache_dir", "/tmp/conditions"),
        ("filter.cache-size", "2g", "filter_cache_size", 2 * 2**30),
        ("verify-checksums", "false", "verify_checksums", False),
        ("batch-size", "7", "batch_size", 7),
        ("task-memory", "2g", "task_memory", 2 * 1024**3),
        ("deletes.stream", "Always", "stream_deletes", "always"),
        ("deletes.cache", "WORKER", "delete_cache", "worker"),
        ("deletes.cache-dir", "/fast/disk", "delete_cache_dir", "/fast/disk"),
        ("deletes.cache-size", "1g", "delete_cache_size", 1024**3),
        ("deletes.compiled-dir", "s3://bucket/compiled", "compiled_dir", "s3://bucket/compiled"),
        ("deletes.compile", "false", "compile_deletes", False),
    ],
)
def test_settings(key: str, text: str, field: str, value: object) -> None:
    settings = parse_options({key: text}).settings
    assert getattr(settings, field) == value
    assert getattr(parse_options({}).settings, field) != value


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("brnch", "branch"),
        ("snapshotId", "snapshot-id"),
        ("snapshot_id", "snapshot-id"),
        ("version", "versionAsOf"),
        ("asOfTimestamp", "as-of-timestamp"),
        ("timestamp-as-of", "timestampAsOf"),
        ("timestampns", "timestamp-ns"),
        ("allow_moved_paths", "allow-moved-paths"),
        ("splitsize", "split-size"),
        ("filters", "filter"),
        ("prune.rowgroups", "prune.row-groups"),
        ("column", "columns"),
    ],
)
def test_near_misses_are_refused_with_the_right_name(typed: str, meant: str) -> None:
    with pytest.raises(OptionError) as caught:
        parse_options({typed: "x"})
    assert caught.value.code == "UNKNOWN_OPTION"
    assert caught.value.hint == f"Did you mean '{meant}'?"


ICEBERG_OPTIONS = """
    snapshot-id as-of-timestamp tag start-snapshot-id end-snapshot-id start-timestamp end-timestamp branch split-size
    lookback file-open-cost vectorization-enabled batch-size streaming-skip-delete-snapshots
    streaming-skip-overwrite-snapshots locality stream-from-timestamp streaming-max-files-per-micro-batch
    streaming-max-rows-per-micro-batch async-micro-batch-planning-enabled streaming-snapshot-polling-interval-ms
    async-queue-preload-file-limit async-queue-preload-row-limit path versionAsOf timestampAsOf
    aggregate-push-down-enabled scan-task-set-id file-scan-task-set-id
""".split()
"""The constants of SparkReadOptions, 1.2 to 1.12.0."""


def test_each_option_of_iceberg_is_ours_or_said_to_be_unsupported() -> None:
    unsupported = set(ICEBERG_OPTIONS) - set(OPTION_NAMES)
    assert len(ICEBERG_OPTIONS) - len(unsupported) == 10
    for name in unsupported:
        with pytest.raises(OptionError) as caught:
            parse_options({name: "1"})
        assert caught.value.code == "UNSUPPORTED_OPTION", name
        assert f"{name!r} is not supported; stage options. Hint: It " in str(caught.value)
        assert "Did you mean" not in str(caught.value)


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("startSnapshotId", "start-snapshot-id"),
        ("start_snapshot_id", "start-snapshot-id"),
        ("START-SNAPSHOT-ID", None),
        ("end-snapshotid", "end-snapshot-id"),
        ("startTimestamp", "start-timestamp"),
        ("streamFromTimestamp", "stream-from-timestamp"),
        ("streaming-skip-deletes-snapshots", "streaming-skip-delete-snapshots"),
        ("fileOpenCost", "file-open-cost"),
    ],
)
def test_other_spellings_of_unsupported_options(typed: str, meant: str | None) -> None:
    with pytest.raises(OptionError) as caught:
        parse_options({typed: "1"})
    assert caught.value.code == "UNSUPPORTED_OPTION"
    assert (f"(Iceberg's {meant}?)" in str(caught.value)) == (meant is not None)
    assert "Did you mean" not in str(caught.value)


@pytest.mark.parametrize(
    "typed",
    [
        "startingVersion",
        "endingTimestamp",
        "readChangeFeed",
        "changes",
        "incremental",
        "from-snapshot-id",
        "since",
    ],
)
def test_what_asks_for_changes_is_not_led_to_a_snapshot(typed: str) -> None:
    with pytest.raises(OptionError) as caught:
        parse_options({typed: "1"})
    assert caught.value.code in ("UNKNOWN_OPTION", "UNSUPPORTED_OPTION")
    assert "Did you mean" not in str(caught.value)
    assert typed == "readChangeFeed" or "a whole snapshot" in str(caught.value)


def test_a_name_like_nothing_lists_what_there_is() -> None:
    with pytest.raises(OptionError) as caught:
        parse_options({"zzzzzzzz": "x"})
    assert str(caught.value.hint).startswith("Known: ")


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("snapshot-id", "seven"),
        ("snapshot-id", "1.5"),
        ("snapshot-id", ""),
        ("snapshot-id", "1_000"),
        ("snapshot-id", "٣"),
        ("snapshot-id", "9223372036854775808"),
        ("as-of-timestamp", "2024-01-01"),
        ("as-of-timestamp", "1714979289123000"),
        ("as-of-timestamp", "1714979289.5"),
        ("allow-moved-paths", "yes"),
        ("allow-moved-paths", ""),
        ("allowed-locations", "bucket"),
        ("allowed-locations", " , "),
        ("split-size", "0"),
        ("split-size", "-1"),
        ("split-size", "12q"),
        ("parallelism", "0"),
        ("scan.native", "always"),
        ("dynamic-filter", "false"),
        ("dynamic-filter.files", "never"),
        ("dynamic-filter.min-bytes", "0"),
        ("dynamic-filter.min-dropped", "101"),
        ("dynamic-filter.min-dropped", "-1"),
        ("batch-size", "-5"),
        ("columns", ""),
        ("filter.normalize", "nnf"),
        ("filter.cache", "worker"),
        ("filter.cache-dir", "conditions"),
        ("task-memory", "lots"),
        ("deletes.cache", "none"),
        ("deletes.cache-dir", "relative"),
        ("deletes.cache-dir", "s3://bucket"),
        ("deletes.cache-size", "0"),
        ("deletes.compiled-dir", "relative"),
        ("deletes.compiled-dir", "s3://a, s3://b"),
    ],
)
def test_bad_values_are_refused_by_name(key: str, text: str) -> None:
    with pytest.raises(OptionError) as caught:
        parse_options({key: text})
    assert caught.value.code == "BAD_OPTION"
    assert repr(key) in caught.value.message
    assert str(caught.value.hint).startswith("Expected ")
    assert isinstance(caught.value, ValueError)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("branch", "tag"),
        ("versionAsOf", "branch"),
        ("snapshot-id", "as-of-timestamp"),
        ("timestampAsOf", "tag"),
    ],
)
def test_two_snapshot_choices_conflict(first: str, second: str) -> None:
    with pytest.raises(OptionError) as caught:
        parse_options({first: "1", second: "2"})
    assert caught.value.code == "CONFLICTING_OPTIONS"
    assert first in caught.value.message
    assert second in caught.value.message


def test_catalog_properties_keep_their_names_and_stay_out_of_repr() -> None:
    options = parse_options({"catalog.s3.secret-access-key": CANARY, "CATALOG.uri": f"http://u:{CANARY}@x"})
    assert options.catalog == {"s3.secret-access-key": CANARY, "uri": f"http://u:{CANARY}@x"}
    assert CANARY not in repr(options)
    assert CANARY not in str(options)
    assert pickle.loads(pickle.dumps(options)) == options


def test_nothing_typed_means_the_defaults() -> None:
    assert parse_options({}) == ReadOptions()


def test_names_are_unique_in_any_case() -> None:
    assert len({name.lower() for name in OPTION_NAMES}) == len(OPTION_NAMES)
