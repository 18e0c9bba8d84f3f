"""Every kind of failure has its error, with the file, and without secrets."""

from __future__ import annotations

from types import SimpleNamespace
from typing import get_args

import pytest

from twostage import errors
from twostage.storage.request_errors import cancelled, error_of
from twostage.storage.store_client import RETRIED, FailureKind, RangedFile, RequestFailedError
from twostage.task import Storage

EXPECTED = {
    "missing": (errors.MissingFileError, "MISSING_FILE"),
    "denied": (errors.StorageError, "ACCESS_DENIED"),
    "replaced": (errors.CorruptFileError, "FILE_CHANGED"),
    "beyond": (errors.CorruptFileError, "CORRUPT_FILE"),
    "too large": (errors.ResourceLimitError, "FILE_TOO_LARGE"),
    "throttled": (errors.StorageError, "STORAGE_FAILED"),
    "broken": (errors.StorageError, "STORAGE_FAILED"),
    "timeout": (errors.StorageError, "STORAGE_FAILED"),
    "other": (errors.StorageError, "STORAGE_FAILED"),
}


PROPERTIES = {"s3.secret-access-key": "canary"}


def file(root="s3://lake/t", vended=None, **properties):
    storage = Storage(properties={**PROPERTIES, **properties}, root=root)
    return RangedFile("s3://lake/t/f", "lake/t/f", SimpleNamespace(vended=vended), storage=storage)


def renewing(until, failure="", **properties):
    """Return credentials that renew themselves, as far as errors look at them."""
    return SimpleNamespace(until=until, failure=failure, properties=properties)


def test_every_kind_is_known():
    assert set(get_args(FailureKind)) == set(EXPECTED)
    assert set(EXPECTED) > RETRIED


@pytest.mark.parametrize("kind", EXPECTED)
def test_the_error_of_each_kind(kind):
    found = error_of(file(), RequestFailedError(kind, "HTTP 500 canary"), 4)
    assert (type(found), found.code) == EXPECTED[kind]
    assert (found.path, found.stage) == ("s3://lake/t/f", "storage")
    assert "canary" not in str(found)
    if EXPECTED[kind][1] == "STORAGE_FAILED":
        assert found.transient
        assert "(4 attempts): HTTP 500 ***" in str(found)


def test_credentials_that_renew_themselves_say_when_they_ended_and_why_there_are_no_others():
    ends, vended = "s3.session-token-expires-at-ms", renewing(1_700_000_000_000, "HTTP 403")
    stated = file(vended=vended, **{ends: "4000000000000"})
    found = error_of(stated, RequestFailedError("denied", "no"), 1)
    assert found.code == "CREDENTIALS_EXPIRED"
    assert "2023-11-14" in found.hint
    assert "The catalog gave no new ones: HTTP 403" in found.hint
    stated = file(vended=renewing(4_000_000_000_000), **{ends: "1700000000000"})
    found = error_of(stated, RequestFailedError("denied", "no"), 1)
    assert found.code == "ACCESS_DENIED"
    found = error_of(file(**{ends: "1700000000000"}), RequestFailedError("denied", "no"), 1)
    assert found.code == "CREDENTIALS_EXPIRED"


def test_renewed_credentials_are_no_more_shown_than_the_first_ones():
    vended = renewing(None, **{"s3.session-token": "renewed-canary"})
    found = error_of(file(vended=vended), RequestFailedError("other", "canary, renewed-canary"), 1)
    assert "canary" not in str(found)


def test_a_file_outside_the_table_hints_at_moved_paths():
    failure = RequestFailedError("missing", "404")
    assert "allow-moved-paths" in error_of(file(root="s3://lake/other"), failure, 1).hint
    assert error_of(file(), failure, 1).hint is None


def test_a_store_that_was_not_reached_hints_at_its_endpoint():
    unreached = RequestFailedError("broken", "HTTP error: error sending request")
    assert "s3.endpoint" in error_of(file(), unreached, 6).hint
    assert error_of(file(), RequestFailedError("broken", "HTTP 500"), 6).hint is None


def test_a_cancelled_read_names_its_file():
    assert (cancelled(file()).code, cancelled(file()).path) == ("READ_CANCELLED", "s3://lake/t/f")
