"""Options of Iceberg's connector that this source has not: what they would do is said, and no hint leads to other rows."""

from __future__ import annotations

import pytest

from twostage.options import OPTION_NAMES
from twostage.unsupported_options import unknown_option


@pytest.mark.parametrize(
    ("name", "code", "words"),
    [
        ("start-snapshot-id", "UNSUPPORTED_OPTION", "what changed between snapshots"),
        ("startSnapshotId", "UNSUPPORTED_OPTION", "(Iceberg's start-snapshot-id?)"),
        ("START-SNAPSHOT-ID", "UNSUPPORTED_OPTION", "is not supported; stage options. Hint"),
        ("stream-from-timestamp", "UNSUPPORTED_OPTION", "streaming reads"),
        ("vectorization-enabled", "UNSUPPORTED_OPTION", "always read in batches"),
        ("lookback", "UNSUPPORTED_OPTION", "split-size and parallelism"),
        ("snapshotid", "UNKNOWN_OPTION", "Did you mean 'snapshot-id'?"),
        ("brnach", "UNKNOWN_OPTION", "Did you mean 'branch'?"),
        ("until-snapshot", "UNKNOWN_OPTION", "Changes between snapshots and streams are not read yet"),
        ("s3.endpoint", "UNKNOWN_OPTION", "begin with 'catalog.': catalog.s3.endpoint."),
        ("warehouse", "UNKNOWN_OPTION", "begin with 'catalog.': catalog.warehouse."),
        ("timestamp", "UNKNOWN_OPTION", "choose a snapshot: versionAsOf, timestampAsOf"),
        ("timeTravel", "UNKNOWN_OPTION", "choose a snapshot: versionAsOf, timestampAsOf"),
        ("indexlocation", "UNKNOWN_OPTION", "Did you mean 'index.location'?"),
        ("zzz", "UNKNOWN_OPTION", "Known: "),
    ],
)
def test_the_error_says_what_it_would_do(name: str, code: str, words: str) -> None:
    error = unknown_option(name, OPTION_NAMES)
    assert error.code == code
    assert words in str(error)


@pytest.mark.parametrize(
    "name", ["start-snapshot-id", "end-snapshot", "since-timestamp", "begin-snapshot-id"]
)
def test_an_option_of_changes_never_leads_to_one_snapshot(name: str) -> None:
    assert "Did you mean" not in str(unknown_option(name, OPTION_NAMES))
