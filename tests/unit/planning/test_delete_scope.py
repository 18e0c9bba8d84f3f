"""What manifest entries say of a delete file's scope: never narrower than the rows that it deletes."""

from __future__ import annotations

import math
import struct
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from twostage.errors import CorruptFileError, UnsupportedFeatureError
from twostage.planning.delete_scope import (
    FILE_PATH_ID,
    FileKeys,
    PathRange,
    authority_of,
    corrupt_delete,
    is_plain,
    only_path,
    partition_key,
)
from twostage.predicates.bounds import Bounds
from twostage.schema import Field, Primitive, parse_type
from twostage.table.manifest_entry import ContentFile
from twostage.table.metadata import PartitionField, PartitionSpec

SPECS = {
    spec_id: PartitionSpec(
        spec_id=spec_id,
        fields=tuple(
            PartitionField(source_id=number, field_id=999 + number, name=f"p{number}", transform="identity")
            for number in (1, 2)
        ),
    )
    for spec_id in (0, 1)
}
DELETES = "s3://lake/t/d.parquet"


def entry(**changes: Any) -> ContentFile:
    values = {
        "status": 1, "snapshot_id": 1, "sequence_number": 1, "file_sequence_number": 1, "spec_id": 0, "content": 1,
        "path": DELETES, "format": "parquet", "partition": {}, "record_count": 10, "file_size": 100, **changes,
    }  # fmt: skip
    return ContentFile(**values)


def paths(lower: str, upper: str) -> ContentFile:
    return entry(lower_bounds={FILE_PATH_ID: lower.encode()}, upper_bounds={FILE_PATH_ID: upper.encode()})


# ---- partitions


def key_of(first: Any, second: Any = None, spec_id: int = 0) -> Any:
    return partition_key(entry(spec_id=spec_id, partition={1000: first, 1001: second}), SPECS)


@pytest.mark.parametrize("value", [None, 7, "a", b"a", True, math.nan, -0.0])
def test_equal_partitions_have_equal_keys(value: Any) -> None:
    """NULL = NULL and NaN = NaN, whatever the bits of the NaN."""
    assert {key_of(value): 1}[key_of(value)] == 1
    if isinstance(value, float) and math.isnan(value):
        assert key_of(value) == key_of(-value)


@pytest.mark.parametrize(
    ("left", "right"),
    [(None, 0), (0.0, -0.0), (True, 1), (False, 0), ("a", b"a"), (math.nan, None), (math.nan, 0.0)],
)
def test_other_values_have_other_keys(left: Any, right: Any) -> None:
    assert key_of(left) != key_of(right)


def test_a_key_is_of_one_spec_and_its_fields_in_order() -> None:
    assert key_of(1, 2) != key_of(2, 1)
    assert key_of(1, spec_id=0) != key_of(1, spec_id=1)
    assert partition_key(entry(partition={1001: 2}), SPECS) == key_of(None, 2)  # an absent value is NULL
    assert partition_key(entry(partition={1000: 1, 9_999: 5}), SPECS) == key_of(1)


# ---- paths


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (entry(referenced_data_file="s3://lake/a"), "s3://lake/a"),
        (paths("s3://lake/a", "s3://lake/a"), "s3://lake/a"),
        (paths("s3://lake/a", "s3://lake/b"), None),
        (entry(lower_bounds={FILE_PATH_ID: b"s3://lake/a"}), None),
        (entry(upper_bounds={FILE_PATH_ID: b"s3://lake/a"}), None),
        (entry(), None),
    ],
)
def test_the_only_data_file(found: ContentFile, expected: str | None) -> None:
    assert only_path(found) == expected


def test_bounds_that_are_no_text_name_no_path() -> None:
    raw = {FILE_PATH_ID: b"\xff"}
    assert only_path(entry(lower_bounds=raw, upper_bounds=raw)) is None
    assert PathRange(entry(lower_bounds=raw, upper_bounds=raw)).may_hold("/a", "")


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("s3://lake/t/f", "s3://lake"),
        ("hdfs://name:8020/t/f", "hdfs://name:8020"),
        ("file:/t/f", "file:"),
        ("file:///t/f", "file://"),
        ("/t/f", ""),
        ("t/f", None),
        ("s3://lake", None),
    ],
)
def test_scheme_and_authority(path: str, expected: str | None) -> None:
    assert authority_of(path) == expected


PATHS = st.builds(
    "{}/{}".format,
    st.sampled_from(["s3://lake", "s3://lake2", "s3a://lake", "file:", "file://", "", "hdfs://n:1"]),
    st.text(st.sampled_from("abz/é日"), min_size=1, max_size=8),
)


@settings(max_examples=1_000, deadline=None)
@given(st.lists(PATHS, min_size=1, max_size=5), st.integers(1, 20), st.booleans(), st.booleans())
def test_no_path_is_outside(written: list[str], length: int, cuts_lower: bool, cuts_upper: bool) -> None:
    """Bounds may be cut short: the lower one sorts before its paths, the upper one begins the greatest."""
    lower, upper = min(written), max(written)
    found = PathRange(paths(lower[:length] if cuts_lower else lower, upper[:length] if cuts_upper else upper))
    for path in written:
        assert found.may_hold(path, authority_of(path))


@pytest.mark.parametrize(
    ("lower", "upper", "path", "expected"),
    [
        ("s3://lake/b", "s3://lake/d", "s3://lake/c", True),
        ("s3://lake/b", "s3://lake/d", "s3://lake/a", False),
        ("s3://lake/b", "s3://lake/d", "s3://lake/e", False),
        ("s3://lake/b", "s3://lake/d", "s3://lake/dd", True),  # the bound may have been cut
        ("s3://lake/b", "s3://lake/d", "s3a://lake/a", True),  # another form of some location: not compared
        ("s3://lake/b", "s3a://lake/d", "s3://lake/a", True),
        ("file:/b", "file:/d", "file:///a", True),
        ("b", "d", "/a", True),
        ("/t//data/f", "/t//data/f", "/t/data/f", True),  # another form of one location of a file system
        ("/t/./data/f", "/t/./data/f", "/t/data/f", True),
        ("/t/data/f", "/t/data/f", "/t//data/f", True),
        ("hdfs://n/t//data/f", "hdfs://n/t//data/f", "hdfs://n/t/data/f", True),
        ("/t/data/-f", "/t/data/g", "/t/data/a/f", True),  # between them may be /t/data//a/f
        ("/t/data/0", "/t/data/f", "/t/data/g", False),
        ("/t/data/0", "/t/data/f", "/t/other/a", False),
        ("s3://lake/t//f", "s3://lake/t//f", "s3://lake/t/f", False),  # another key
    ],
)
def test_paths_are_compared_in_one_form(lower: str, upper: str, path: str, expected: bool) -> None:
    start = authority_of(path)
    plain = start is not None and is_plain(path, start)
    assert PathRange(paths(lower, upper)).may_hold(path, start, plain=plain) is expected


FORMS = st.lists(st.sampled_from(["a", "b", ".x", "-y", "0", "/", "/", "/./", "//"]), min_size=1, max_size=8)


@settings(max_examples=2_000, deadline=None)
@given(st.lists(FORMS, min_size=1, max_size=4), st.sampled_from(["", "file:", "hdfs://n:1"]))
def test_no_other_form_of_a_path_is_outside(written: list[list[str]], start: str) -> None:
    """A delete file names paths in any form, its bounds are of their text; a data file has one of them in another form."""
    named = [f"{start}/" + "".join(parts) + "f" for parts in written]
    found = PathRange(paths(min(named), max(named)))
    for path in named:
        inner = [part for part in path[len(start) :].split("/") if part not in ("", ".")]
        for form in ("/".join(["", *inner]), "//".join(["", *inner])):
            data = f"{start}{form}"
            assert found.may_hold(data, start, plain=is_plain(data, start)), (named, data)


def test_unknown_bounds_hold_every_path() -> None:
    assert PathRange(entry()).may_hold("s3://lake/a", "s3://lake")
    assert PathRange(entry(lower_bounds={FILE_PATH_ID: b"s3://lake/x"})).may_hold("s3://lake/a", "s3://lake")


# ---- keys


KEY = Field(id=1, name="k", type=Primitive("long"))
LOWER, UPPER = {1: struct.pack("<q", 3)}, {1: struct.pack("<q", 9)}


def keys(field: Field = KEY, *, is_column: bool = True, **metrics: Any) -> FileKeys:
    return FileKeys(entry(content=2, equality_ids=(field.id,), **metrics), field, is_column)


@pytest.mark.parametrize(
    ("metrics", "expected"),
    [
        ({"null_counts": {1: 0}, "value_counts": {1: 10}}, Bounds(lower=3, upper=9, null_count=0)),
        ({"null_counts": {1: 2}, "value_counts": {1: 10}}, Bounds(lower=3, upper=9)),
        ({}, Bounds(lower=3, upper=9)),
    ],
    ids=["no NULL", "NULLs", "unknown"],
)
def test_rows_with_these_keys_have_their_bounds(metrics: dict[str, Any], expected: Bounds) -> None:
    """The counts are those of keys, and tell of rows only whether some may be NULL."""
    assert keys(lower_bounds=LOWER, upper_bounds=UPPER, **metrics).of_rows == expected


def test_keys_that_are_all_null_delete_rows_of_null_alone() -> None:
    found = keys(null_counts={1: 10}, value_counts={1: 10})
    assert (found.may_null, found.may_value) == (True, False)
    assert found.of_rows.null_count == found.of_rows.value_count == 1


@pytest.mark.parametrize("changes", [{"record_count": -1}, {"is_column": False}], ids=str)
def test_counts_that_prove_nothing(changes: dict[str, Any]) -> None:
    """Of files with an unknown number of rows, and of fields in structs, which may be NULL themselves."""
    found = keys(null_counts={1: 0}, value_counts={1: 10}, **changes)
    assert (found.may_null, found.may_value) == (True, True)


def test_keys_are_of_primitive_types() -> None:
    struct_type = parse_type({"type": "struct", "fields": []})
    with pytest.raises(UnsupportedFeatureError, match=r"UNSUPPORTED_DELETE_KEY.*'s'.*d\.parquet"):
        keys(Field(id=1, name="s", type=struct_type))
    list_type = parse_type({"type": "list", "element-id": 2, "element": "int"})
    with pytest.raises(CorruptFileError, match=r"CORRUPT_MANIFEST.*list or a map: 1.*d\.parquet"):
        keys(Field(id=1, name="l", type=list_type))


def test_errors_name_the_delete_file() -> None:
    error = corrupt_delete("Wrong", entry())
    assert (error.code, error.path, error.stage) == ("CORRUPT_MANIFEST", DELETES, "plan")
