"""What a read's `path` names: a path or a table, and a name's parts."""

from __future__ import annotations

from pathlib import Path

import pytest

from twostage.catalog.table_name import is_path, split_name
from twostage.errors import OptionError


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("/warehouse/t", True),
        ("s3://bucket/t", True),
        ("file:t", True),
        ("db/t", True),
        ("v3.metadata.json", True),
        ("lake.db.t", False),
        ("db.t", False),
        ("`a/b`.t", False),
        ("nofolder", False),
    ],
)
def test_paths_and_names(text: str, expected: bool) -> None:
    assert is_path(text) == expected


def test_a_folder_that_is_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("events", "db.events"):
        Path(name).mkdir()
    assert is_path("events")
    assert not is_path("db.events")


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("t", ("t",)),
        ("lake.db.t", ("lake", "db", "t")),
        ("lake.`my.db`.t", ("lake", "my.db", "t")),
        ("`a``b`.t", ("a`b", "t")),
        ("lake . db .t", ("lake", "db", "t")),
    ],
)
def test_parts(name: str, parts: tuple[str, ...]) -> None:
    assert split_name(name) == parts


@pytest.mark.parametrize("name", ["", ".", "a.", ".a", "a..b", "`a", "a`b", "`a`b", "a. .b"])
def test_what_is_no_name(name: str) -> None:
    with pytest.raises(OptionError, match="BAD_NAME"):
        split_name(name)
