"""Libraries' exceptions in our words: what is damaged, what is missing, what the network did; and no secret in any."""

from __future__ import annotations

import errno
import struct
import zlib

import pyarrow as pa
import pytest

from twostage.errors import (
    CorruptFileError,
    MissingFileError,
    ResourceLimitError,
    StorageError,
    TwoStageError,
    UnsupportedFeatureError,
)
from twostage.storage.errors import hide_secrets, name_snapshot, secrets_of, translate_errors
from twostage.task import Storage

REMOTE, LOCAL = "s3://bucket/data.parquet", "/data/data.parquet"


def translated(error: BaseException, path: str = REMOTE, storage: Storage | None = None) -> TwoStageError:
    with pytest.raises(TwoStageError) as caught, translate_errors(path, "fetch", storage=storage):
        raise error
    assert caught.value.__suppress_context__ or caught.value is error, "a chained text may hold secrets"
    return caught.value


@pytest.mark.parametrize(
    ("error", "path", "kind", "code"),
    [
        (FileNotFoundError("x"), LOCAL, MissingFileError, "MISSING_FILE"),
        (NotADirectoryError("x"), LOCAL, MissingFileError, "MISSING_FILE"),
        (OSError("AWS Error NO_SUCH_KEY during GetObject"), REMOTE, MissingFileError, "MISSING_FILE"),
        (OSError("Path does not exist"), REMOTE, MissingFileError, "MISSING_FILE"),
        (OSError("Path does not exist"), LOCAL, CorruptFileError, "CORRUPT_FILE"),
        (PermissionError("x"), LOCAL, StorageError, "ACCESS_DENIED"),
        (OSError("AWS Error ACCESS_DENIED"), REMOTE, StorageError, "ACCESS_DENIED"),
        (OSError("HTTP status 403"), REMOTE, StorageError, "ACCESS_DENIED"),
        (IsADirectoryError("x"), LOCAL, StorageError, "NOT_A_FILE"),
        (TimeoutError("x"), REMOTE, StorageError, "STORAGE_FAILED"),
        (ConnectionResetError("x"), REMOTE, StorageError, "STORAGE_FAILED"),
        (OSError(errno.EIO, "Input/output error"), LOCAL, StorageError, "STORAGE_FAILED"),
        (OSError("AWS Error SLOW_DOWN"), REMOTE, StorageError, "STORAGE_FAILED"),
        (OSError("Couldn't deserialize thrift"), REMOTE, CorruptFileError, "CORRUPT_FILE"),
        (OSError("Not yet implemented: LZO"), LOCAL, UnsupportedFeatureError, "UNREADABLE_BY_ARROW"),
        (pa.ArrowNotImplementedError("LZO"), LOCAL, UnsupportedFeatureError, "UNREADABLE_BY_ARROW"),
        (pa.ArrowInvalid("bad"), LOCAL, CorruptFileError, "CORRUPT_FILE"),
        (struct.error("bad"), LOCAL, CorruptFileError, "CORRUPT_FILE"),
        (zlib.error("bad"), LOCAL, CorruptFileError, "CORRUPT_FILE"),
        (UnicodeDecodeError("utf-8", b"\xff", 0, 1, "bad"), LOCAL, CorruptFileError, "CORRUPT_FILE"),
        (EOFError(), LOCAL, CorruptFileError, "CORRUPT_FILE"),
        (OverflowError("bad"), LOCAL, CorruptFileError, "CORRUPT_FILE"),
        (KeyError("bad"), LOCAL, CorruptFileError, "CORRUPT_FILE"),
        (RecursionError("deep"), LOCAL, CorruptFileError, "CORRUPT_FILE"),
        (MemoryError("much"), LOCAL, ResourceLimitError, "OUT_OF_MEMORY"),
    ],
    ids=lambda value: repr(value) if isinstance(value, BaseException) else "",
)
def test_each_kind(error: BaseException, path: str, kind: type, code: str) -> None:
    found = translated(error, path)
    assert (type(found), found.code, found.path, found.stage) == (kind, code, path, "fetch")


def test_only_a_remote_store_may_answer_another_time() -> None:
    for path, transient in ((REMOTE, True), (LOCAL, False)):
        found = translated(OSError(errno.EIO, "x"), path)
        assert isinstance(found, StorageError)
        assert found.transient == transient


def test_our_own_errors_pass_and_name_the_file() -> None:
    ours = CorruptFileError("CODE", "wrong")
    assert translated(ours) is ours
    assert ours.path == REMOTE
    named = CorruptFileError("CODE", "wrong", path="other")
    assert translated(named).path == "other"


def test_what_is_nobody_s_business_passes_as_it_is() -> None:
    with pytest.raises(KeyboardInterrupt), translate_errors(LOCAL, "fetch"):
        raise KeyboardInterrupt


def test_no_secret_of_the_storage_shows() -> None:
    storage = Storage(
        properties={"s3.session-token": "abc4711", "uri": "http://me:hidden@host"}, root="s3://b"
    )
    found = translated(OSError("curl abc4711 to me:hidden@host failed\nabc4711"), storage=storage)
    assert "abc4711" not in str(found)
    assert "hidden" not in str(found)


def test_a_library_s_text_is_cut() -> None:
    assert len(hide_secrets(OSError("x" * 5000), {})) == 300
    assert hide_secrets(OSError("one\ntwo"), {}) == "OSError one"


def test_secrets_are_those_of_telling_names_and_logins_in_addresses() -> None:
    given = {
        "s3.secret-access-key": "longest-secret",
        "password": "pw",  # too short: it would take letters out of every text
        "header.Authorization": "Bearer x",
        "adls.sas-token.account": "sas1",
        "uri": "jdbc:postgresql://user:hidden@host/db",
        "s3.region": "eu-west-1",
    }
    assert secrets_of(given) == ["longest-secret", "Bearer x", "hidden", "sas1"]


def test_a_missing_file_says_what_its_snapshot_means() -> None:
    with (
        pytest.raises(
            MissingFileError, match=r"snapshot 7\. Hint: .*snapshot 7 is gone.*Load the table again"
        ),
        name_snapshot(7),
    ):
        raise MissingFileError("MISSING_FILE", "File is not in storage", path=LOCAL)
    with pytest.raises(MissingFileError) as caught, name_snapshot(None):
        raise MissingFileError("MISSING_FILE", "File is not in storage", hint="Ours.")
    assert caught.value.hint == "Ours."
    with pytest.raises(CorruptFileError) as other, name_snapshot(7):
        raise CorruptFileError("C", "m", snapshot_id=5)
    assert (other.value.snapshot_id, other.value.hint) == (5, None)
