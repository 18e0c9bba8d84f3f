"""Which snapshot and schema each option chooses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from twostage.errors import NotFoundError, OptionError
from twostage.options import parse_options
from twostage.table.metadata import TableMetadata, parse_metadata
from twostage.table.snapshots import apply_selector, parse_timestamp, select_snapshot

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.fixture
def metadata(metadata_of: Callable[..., dict[str, Any]]) -> TableMetadata:
    return parse_metadata(metadata_of("/t"), location="/t/metadata/v1.metadata.json")


def choose(metadata: TableMetadata, option: str, value: str, **more: str) -> tuple[int | None, int]:
    snapshot, schema = select_snapshot(metadata, parse_options({option: value}), **more)
    return (None if snapshot is None else snapshot.snapshot_id), schema.schema_id


@pytest.mark.parametrize(
    ("option", "value", "snapshot", "schema"),
    [
        ("path", "/t", 13, 1),
        ("snapshot-id", "11", 11, 0),
        ("snapshot-id", "13", 13, 1),
        ("snapshot-id", "21", 21, 0),
        ("branch", "main", 13, 1),
        ("branch", "audit", 21, 1),  # a branch is read under the current schema
        ("tag", "v1", 11, 0),
        ("versionAsOf", "11", 11, 0),
        ("versionAsOf", " 11 ", 11, 0),
        ("versionAsOf", "v1", 11, 0),
        ("versionAsOf", "audit", 21, 1),
        ("versionAsOf", "main", 13, 1),
        ("versionAsOf", "2024", 12, 0),  # no snapshot has this id, a tag has this name
        ("as-of-timestamp", "1000", 11, 0),
        ("as-of-timestamp", "1999", 11, 0),
        ("as-of-timestamp", "2000", 12, 0),
        ("as-of-timestamp", "2999", 12, 0),  # 21 is newer, but was never current
        ("as-of-timestamp", "99999", 13, 1),
        ("timestampAsOf", "1970-01-01 00:00:01", 11, 0),
        ("timestampAsOf", "1970-01-01T00:00:02.999Z", 12, 0),
        ("timestampAsOf", "1970-01-01 01:00:02+01:00", 12, 0),
        ("timestampAsOf", "2024-01", 13, 1),
        ("timestampAsOf", "1", 11, 0),  # digits alone are seconds
        ("timestampAsOf", "2", 12, 0),
        ("timestampAsOf", "2024", 13, 1),
    ],
)
def test_choices(metadata: TableMetadata, option: str, value: str, snapshot: int, schema: int) -> None:
    assert choose(metadata, option, value) == (snapshot, schema)


def test_timestamp_without_zone_is_in_the_session_zone(metadata: TableMetadata) -> None:
    assert choose(metadata, "timestampAsOf", "1970-01-01 01:00:02", time_zone="Europe/Berlin") == (12, 0)
    assert choose(metadata, "timestampAsOf", "1970-01-01 01:00:02", time_zone="UTC") == (13, 1)


@pytest.mark.parametrize(
    ("option", "value", "code", "hint"),
    [
        ("snapshot-id", "133", "SNAPSHOT_NOT_FOUND", "Did you mean '13'?"),
        (
            "snapshot-id",
            "999999999",
            "SNAPSHOT_NOT_FOUND",
            "The latest: 13 (1970-01-01 00:00:03.000 UTC), 21",
        ),
        ("branch", "audti", "BRANCH_NOT_FOUND", "Did you mean 'audit'?"),
        ("branch", "Audit", "BRANCH_NOT_FOUND", "Did you mean 'audit'?"),
        ("branch", "v1", "BRANCH_NOT_FOUND", "It is a tag: use the option 'tag'."),
        ("tag", "audit", "TAG_NOT_FOUND", "It is a branch: use the option 'branch'."),
        ("tag", "v2", "TAG_NOT_FOUND", "Known: 2024, v1."),
        ("tag", "2025", "TAG_NOT_FOUND", "Did you mean '2024'?"),
        ("versionAsOf", "mian", "VERSION_NOT_FOUND", "Did you mean 'main'?"),
        ("versionAsOf", "14", "SNAPSHOT_NOT_FOUND", "The latest: 13"),
        ("versionAsOf", "9" * 5000, "VERSION_NOT_FOUND", "Known: "),
        (
            "as-of-timestamp",
            "999",
            "SNAPSHOT_NOT_FOUND",
            "The first snapshot is from 1970-01-01 00:00:01.000 UTC.",
        ),
        ("timestampAsOf", "1969-12-31", "SNAPSHOT_NOT_FOUND", "The first snapshot is from"),
    ],
)
def test_nothing_chosen(metadata: TableMetadata, option: str, value: str, code: str, hint: str) -> None:
    with pytest.raises(NotFoundError) as caught:
        choose(metadata, option, value)
    assert caught.value.code == code
    assert str(caught.value.hint).startswith(hint)
    assert caught.value.path == "/t/metadata/v1.metadata.json"


def test_rolled_back_table(metadata_of: Callable[..., dict[str, Any]]) -> None:
    log = [(1_000, 11), (2_000, 12), (3_000, 13), (4_000, 11)]
    raw = metadata_of("/t", **{"snapshot-log": [{"timestamp-ms": m, "snapshot-id": s} for m, s in log]})
    metadata = parse_metadata(raw, location="/t")
    assert choose(metadata, "as-of-timestamp", "3500") == (13, 1)
    assert choose(metadata, "as-of-timestamp", "4000") == (11, 0)


def test_no_log_falls_back_to_ancestors(metadata_of: Callable[..., dict[str, Any]]) -> None:
    metadata = parse_metadata(metadata_of("/t", **{"snapshot-log": []}), location="/t")
    assert choose(metadata, "as-of-timestamp", "2999") == (12, 0)
    assert choose(metadata, "as-of-timestamp", "3000") == (13, 1)


def test_expired_snapshot_in_the_log(metadata_of: Callable[..., dict[str, Any]]) -> None:
    log = [{"timestamp-ms": 500, "snapshot-id": 7}, {"timestamp-ms": 3_000, "snapshot-id": 13}]
    metadata = parse_metadata(metadata_of("/t", **{"snapshot-log": log}), location="/t")
    with pytest.raises(NotFoundError, match="expired: 7"):
        choose(metadata, "as-of-timestamp", "2500")


def test_table_without_data(metadata_of: Callable[..., dict[str, Any]]) -> None:
    raw = metadata_of("/t", **{"snapshots": [], "snapshot-log": [], "refs": {}, "current-snapshot-id": -1})
    metadata = parse_metadata(raw, location="/t")
    assert choose(metadata, "path", "/t") == (None, 1)
    assert choose(metadata, "branch", "main") == (None, 1)
    assert choose(metadata, "versionAsOf", "main") == (None, 1)
    for option, value in (
        ("snapshot-id", "1"),
        ("as-of-timestamp", "99999"),
        ("branch", "audit"),
        ("tag", "v1"),
    ):
        with pytest.raises(NotFoundError):
            choose(metadata, option, value)


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("1970-01-01", 0),
        ("1970-1-2", 86_400_000),
        ("1970-02", 31 * 86_400_000),
        ("1971", 1_971_000),  # digits alone are seconds
        ("1971-01", 365 * 86_400_000),
        (" 499162860 ", 499_162_860_000),
        ("253402300799", 253_402_300_799_000),
        ("1970-01-01 00:00", 0),
        ("1970-01-01T1:2:3", 3_723_000),
        ("1970-01-01 00:00:00.1239999", 123),
        ("1969-12-31 23:59:59.9999", -1),  # the millisecond before, as a floor
        ("1970-01-01 00:00:00 UTC", 0),
        ("1970-01-01 00:00:00Z", 0),
        ("1970-01-01 00:00:00-08:00", 8 * 3_600_000),
        ("1970-01-01 05:30:00 +05:30", 0),
        ("1970-01-01 00:00:00 GMT+1", -3_600_000),
        ("2024-07-01 00:00:00 Europe/Berlin", 1_719_784_800_000),
        ("2024-01-01 00:00:00 America/Los_Angeles", 1_704_096_000_000),
        (" 1970-01-01 ", 0),
    ],
)
def test_timestamp_forms(text: str, milliseconds: int) -> None:
    assert parse_timestamp(text) == milliseconds


@pytest.mark.parametrize(
    "text",
    ["", "yesterday", "1970-13-01", "1970-01-32", "01.02.2024", "1970-01-01 25:00:00", "2024-01-01 00:00:00 Nowhere/X",
     "253402300800", "499162860000000", "9" * 5000, "499162860.5", "-1", "٣", "2024-01-01 00:00:00 ../../etc/passwd", "99999-01-01"],
)  # fmt: skip
def test_bad_timestamps(text: str) -> None:
    with pytest.raises(OptionError) as caught:
        parse_timestamp(text)
    assert caught.value.code == "BAD_OPTION"


def test_milliseconds_are_pointed_to_the_other_option() -> None:
    with pytest.raises(OptionError, match="as-of-timestamp for milliseconds"):
        parse_timestamp("1714979289123")


def test_a_time_needs_a_zone() -> None:
    """Without the planner the session's zone is not known; UTC instead could be another snapshot."""
    assert parse_timestamp("1970-01-01 00:00:00Z", None) == 0
    assert parse_timestamp("60", None) == 60_000
    for text in ("1970-01-01", "1970-01-01 00:00:00"):
        with pytest.raises(OptionError, match="Add its zone"):
            parse_timestamp(text, None)


def test_selectors() -> None:
    options = parse_options({"path": "x"})
    for name, field, value in (
        ("branch_audit", "branch", "audit"),
        ("branch_my_branch", "branch", "my_branch"),
        ("tag_v1", "tag", "v1"),
        ("snapshot_id_7", "snapshot_id", 7),
        ("at_timestamp_9", "as_of_timestamp", 9),
    ):
        selected = apply_selector(options, name)
        assert selected is not None
        assert getattr(selected, field) == value
    no_long = "snapshot_id_²", "snapshot_id_٣", f"at_timestamp_{'9' * 5000}", f"snapshot_id_{'9' * 5000}"
    for name in ("events", "branch_", "snapshot_id_x", "at_timestamp_", "mybranch_x", *no_long):
        assert apply_selector(options, name) is None
    with pytest.raises(OptionError, match="BAD_OPTION.*after the year 9999"):
        apply_selector(options, "at_timestamp_1714979289123000")
    with pytest.raises(OptionError, match="CONFLICTING_OPTIONS"):
        apply_selector(parse_options({"tag": "v1"}), "branch_audit")
