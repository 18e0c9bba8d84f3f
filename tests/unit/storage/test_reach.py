"""A store that was not reached: what is told of its endpoint, and never a value."""

from __future__ import annotations

import pytest

from twostage.storage.errors import translate_errors
from twostage.storage.location import parse_location
from twostage.storage.reach import is_unreached, reach_hint
from twostage.task import Storage

S3 = parse_location("s3://lake/t/f")


@pytest.fixture(autouse=True)
def no_endpoint(monkeypatch):
    for name in ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(
    ("text", "is_so"),
    [
        ("AWS Error NETWORK_CONNECTION: curlCode: 6, Could not resolve hostname", True),
        ("curlCode: 35, SSL connect error", True),
        ("HTTP error: error sending request", True),
        ("HTTP 503 SlowDown", False),
        ("curlCode: 56, Failure when receiving data from the peer", False),
    ],
)
def test_which_failures_say_that_there_was_no_connection(text, is_so):
    assert is_unreached(text) is is_so


@pytest.mark.parametrize(
    ("properties", "words"),
    [
        ({}, "so AWS was asked"),
        ({"s3.endpoint": "store:9000"}, "begin it with http://"),
        ({"s3.endpoint": "http://store:9000"}, "Check s3.endpoint"),
        ({"s3.end-point": "http://store:9000"}, "s3.end-point is not a known property: did you mean s3.endpoint?"),
        ({"s3.write.storage-class": "x", "s3.endpoint": "http://store"}, "Check s3.endpoint"),
    ],
)  # fmt: skip
def test_what_to_look_at(properties, words):
    found = reach_hint(S3, properties)
    assert words in found
    assert "store" not in found.replace("the store", "")


def test_the_environment_may_name_the_endpoint(monkeypatch):
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://store:9000")
    assert "Check s3.endpoint" in reach_hint(S3, {})


def test_stores_of_other_kinds():
    assert "gcs.service.host" in reach_hint(parse_location("gs://lake/f"), {})
    assert "adls.account-host" in reach_hint(parse_location("abfss://c@account.dfs.core.windows.net/f"), {})
    assert reach_hint(parse_location("hdfs://host/f"), {}) is None


def test_errors_of_pyarrow_have_the_hint():
    failed = OSError("AWS Error NETWORK_CONNECTION: curlCode: 7, Could not connect to server")
    with (
        pytest.raises(Exception, match="so AWS was asked"),
        translate_errors("s3://lake/t/f", "fetch", storage=Storage(properties={})),
    ):
        raise failed
