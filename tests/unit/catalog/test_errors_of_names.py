"""What is wrong with a table's name or its catalog's properties comes back by name, with a hint that is true."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from twostage.catalog.load_table import load_table
from twostage.errors import TwoStageError
from twostage.options import parse_options
from twostage.spark.bridge import Bridge

if TYPE_CHECKING:
    from pathlib import Path

LAKE = "spark.sql.catalog.lake"


@pytest.mark.parametrize(
    ("path", "confs", "code", "words"),
    [
        ("lake..t", {}, "BAD_NAME", "Write catalog.namespace.table; a part with dots goes in backticks"),
        ("lake.db.t", {}, "UNKNOWN_CATALOG", "Configured: none. Set spark.sql.catalog.lake.type"),
        ("events", {}, "UNKNOWN_CATALOG", "a table's folder is written with a slash, such as ./events"),
        ("lake.db.t", {LAKE: "x", f"{LAKE}.type": "hadoop"}, "BAD_CATALOG", f"Set {LAKE}.warehouse"),
        ("lake.db.t", {LAKE: "x", f"{LAKE}.type": "sql"}, "BAD_CATALOG", f"Its properties are {LAKE}.*, options catalog.*"),
        ("lake.db.t", {LAKE: "x", f"{LAKE}.type": "nessie"}, "UNSUPPORTED_CATALOG", "Supported: bigquery, dynamodb"),
        ("ftp://host/t", {}, "UNSUPPORTED_SCHEME", "Known: file, s3"),
        ("s3://key:secret-4711@bucket/t", {}, "CREDENTIALS_IN_PATH", "catalog.s3.access-key-id"),
    ],
)  # fmt: skip
def test_names_and_properties(path: str, confs: dict[str, str], code: str, words: str) -> None:
    with pytest.raises(TwoStageError) as caught:
        load_table(parse_options({"path": path}), confs)
    assert caught.value.code == code
    assert words in str(caught.value.hint)
    assert "secret-4711" not in str(caught.value)


def test_what_may_not_be_read_says_who_needs_to(tmp_path: Path) -> None:
    from twostage.storage.errors import translate_errors

    local, remote = str(tmp_path / "a.parquet"), "s3://bucket/a.parquet"
    for path, hint in (
        (local, "(driver or executor) needs permission to read it"),
        (remote, "catalog.s3.access-key-id"),
    ):
        with pytest.raises(TwoStageError) as caught, translate_errors(path, "open"):
            raise PermissionError(13, "Permission denied")
        assert caught.value.code == "ACCESS_DENIED"
        assert hint in str(caught.value.hint)
        assert path in str(caught.value)


def test_a_bug_of_ours_asks_for_a_report() -> None:
    answer = Bridge().apply('{"call": "no such call"}')
    assert "[TWOSTAGE.INTERNAL] The planner's Java and Python do not agree: There is no call" in answer
    assert "please report this." in answer


def test_our_own_errors_name_the_file_too(tmp_path: Path) -> None:
    """Decoders below do not know what they read: an ORC file's encrypted columns, say."""
    from twostage.errors import UnsupportedFeatureError
    from twostage.storage.errors import translate_errors

    place = "s3://user:secret-4711@lake/a.orc"
    with pytest.raises(TwoStageError) as caught, translate_errors(place, "open"):
        raise UnsupportedFeatureError(
            "UNSUPPORTED_ENCRYPTION", "ORC file has encrypted columns", stage="open"
        )
    assert "file s3://***@lake/a.orc, stage open" in str(caught.value)
    with pytest.raises(TwoStageError) as caught, translate_errors(place, "open"):
        raise UnsupportedFeatureError("X", "Y", path="/other")
    assert caught.value.path == "/other"


def test_a_message_has_an_end() -> None:
    error = TwoStageError("X", "a" * 5_000 + " password=secret-4711", hint="b")
    assert len(str(error)) < 1_100
    assert str(error).endswith("a…. Hint: b")
    assert "secret" not in str(TwoStageError("X", "a" * 985 + " s3://user:secret-4711@bucket/x"))
