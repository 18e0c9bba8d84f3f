"""What a written path means, and which ones a scan may open."""

from __future__ import annotations

import pytest

from twostage.errors import ForbiddenLocationError
from twostage.storage.location import (
    canonical,
    canonical_for,
    canonical_moved,
    check_location,
    is_under,
    join,
    parent,
)
from twostage.task import Storage


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("/x/f", "file:/x/f"),
        ("/x/f", "file:///x/f"),
        ("/x/f", "FILE:///x/f"),
        ("/x/f", "file://localhost/x/f"),
        ("/x/f", "/x//f"),
        ("/x/f", "//x/f"),
        ("/x/f", "file:////x///f"),
        ("/x/f", "/x/./f"),
        ("/x/f", "/x/y/../f"),
        ("s3://b/k", "s3a://b/k"),
        ("s3://b/k", "s3n://b/k"),
        ("gs://b/k", "gcs://b/k"),
        ("abfs://c@a/k", "abfss://c@a/k"),
        ("hdfs://n:1/x//f", "hdfs://n:1/x/f"),
    ],
)
def test_same_file(left: str, right: str) -> None:
    assert canonical(left) == canonical(right)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("/x/f", "/x/F"),
        ("/x/a b", "/x/a%20b"),  # Hadoop's Path and PyIceberg take names as they are written
        ("file:/x/a b", "file:///x/a%20b"),
        ("s3://b/k", "s3://c/k"),
        ("s3://b//k", "s3://b/k"),  # both are legal object keys
        ("s3://b/a/../k", "s3://b/k"),
        ("s3://b/x", "gs://b/x"),
        ("hdfs://n/x", "/x"),
        ("file://otherhost/x", "/x"),
        ("x/f", "/x/f"),
    ],
)
def test_different_files(left: str, right: str) -> None:
    assert canonical(left) != canonical(right)


def test_moved_paths_ignore_scheme_and_host() -> None:
    forms = ["/db/t/f", "file:///db/t/f", "hdfs://n:8020/db/t/f", "s3://bucket/db/t/f", "db/t/f"]
    assert {canonical_moved(form) for form in forms} == {"/db/t/f"}
    assert canonical_for(Storage(root="/t", moved_from="/x")) is canonical_moved
    assert canonical_for(Storage(root="/t")) is canonical


def check(root: str, path: str, **more: object) -> str:
    location = check_location(Storage(root=root, **more), path)  # type: ignore[arg-type]
    return f"{location.scheme}|{location.authority}|{location.path}"


@pytest.mark.parametrize(
    ("root", "path", "opened"),
    [
        ("/t", "/elsewhere/f", "file||/elsewhere/f"),
        ("file:///t", "/t/../u/f", "file||/u/f"),
        ("s3://b/t", "s3a://b/other/f", "s3a|b|/other/f"),
        ("s3://b/t", "s3://b/t/a%2e%2e/f", "s3|b|/t/a%2e%2e/f"),
        ("s3://b/t", "s3://b/t/%2e%2e/f", "s3|b|/t/%2e%2e/f"),
        ("s3://b/t", "s3://b/t/a..b/f", "s3|b|/t/a..b/f"),
        ("hdfs://n:1/t", "/user/t/f", "hdfs|n:1|/user/t/f"),
        ("hdfs://n:1/t", "hdfs:///user/t/f", "hdfs|n:1|/user/t/f"),
    ],
)
def test_allowed(root: str, path: str, opened: str) -> None:
    assert check(root, path) == opened


@pytest.mark.parametrize(
    ("root", "path"),
    [
        ("s3://b/t", "file:///etc/passwd"),
        ("s3://b/t", "/etc/passwd"),
        ("s3://b/t", "s3://other/t/f"),
        ("s3://b/t", "s3://b@other/t/f"),
        ("s3://b/t", "gs://b/t/f"),
        ("s3://b/t", "s3://b/t/../../f"),
        ("s3://b/t", "s3a://b/t/.."),
        ("hdfs://n:1/t", "hdfs://n:1/t/../f"),
        ("hdfs://n:1/t", "file:///etc/passwd"),
        ("hdfs://n:1/t", "hdfs://m:1/t/f"),
        ("/t", "s3://b/t/f"),
        ("/t", "file://otherhost/t/f"),
        ("/t", "http://169.254.169.254/latest"),
        ("/t", "/t/f\0.parquet"),
    ],
)
def test_refused(root: str, path: str) -> None:
    with pytest.raises(ForbiddenLocationError) as caught:
        check(root, path)
    assert caught.value.code == "FORBIDDEN_LOCATION"
    assert caught.value.hint


def test_allowed_locations_are_prefixes() -> None:
    assert check("s3://b/t", "s3://other/x/f", allowed=("s3://other",)) == "s3|other|/x/f"
    assert check("s3://b/t", "s3a://other/x/f", allowed=("s3://other/x/",)) == "s3a|other|/x/f"
    assert check("s3://b/t", "/data/f", allowed=("/data",)) == "file||/data/f"
    for path in ("s3://others/x", "s3://other/xy/f", "/database/f", "/data/../etc/passwd"):
        with pytest.raises(ForbiddenLocationError):
            check("s3://b/t", path, allowed=("s3://other/x", "/data"))


def test_moved_table_stays_in_its_folder() -> None:
    assert check("/t", "/t/data/f", moved_from="s3://b/t") == "file||/t/data/f"
    for path in ("/u/f", "/t2/f", "/t/../u/f", "s3://b/t/f"):
        with pytest.raises(ForbiddenLocationError):
            check("/t", path, moved_from="s3://b/t")


def test_control_characters_in_a_path_are_escaped() -> None:
    with pytest.raises(ForbiddenLocationError) as caught:
        check("s3://b/t", "file:///x\x1b[31m\n[TWOSTAGE.OK]")
    assert "\x1b" not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_folders() -> None:
    assert is_under("s3a://b/t", "s3://b/t/x")
    assert is_under("/t/", "file:/t")
    assert is_under("/", "/x")
    assert not is_under("/t", "/tt/x")
    assert join("/", "a") == "/a"
    assert join("", "a") == "a"
    assert parent("hdfs://n/t") == "hdfs://n/"
    assert parent("file:/t/metadata/v1.metadata.json") == "file:/t/metadata"
