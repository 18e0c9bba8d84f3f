"""Which deletes apply to which data file, one row of the spec's rules at a time."""

from __future__ import annotations

import math
import struct
from dataclasses import replace
from typing import Any

import pytest

from twostage.errors import CorruptFileError, UnsupportedFeatureError
from twostage.planning.delete_index import DeleteIndex
from twostage.planning.delete_scope import FILE_PATH_ID
from twostage.schema import Field, Primitive, Struct
from twostage.storage.location import canonical, canonical_moved
from twostage.table.manifest_entry import ContentFile
from twostage.table.metadata import PartitionField, PartitionSpec

PATH = "s3://lake/t/data/a.parquet"
DIVIDED, PLAIN, VOID, TWICE = 1, 0, 2, 3


def part(field_id: int, transform: str = "identity") -> PartitionField:
    return PartitionField(
        source_id=field_id - 999, field_id=field_id, name=f"p{field_id}", transform=transform
    )


SPECS = {
    PLAIN: PartitionSpec(spec_id=PLAIN),
    DIVIDED: PartitionSpec(spec_id=DIVIDED, fields=(part(1000),)),
    VOID: PartitionSpec(spec_id=VOID, fields=(part(1000, "void"), part(1001, "void"))),
    TWICE: PartitionSpec(spec_id=TWICE, fields=(part(1000), part(1001))),
}
FIELDS = {
    1: Field(id=1, name="k", type=Primitive("long")),
    2: Field(id=2, name="s", type=Primitive("string")),
    3: Field(id=3, name="d", type=Primitive("double")),
    4: Field(id=4, name="inner", type=Primitive("int")),
    5: Field(id=5, name="nested", type=Struct(())),
}


def file(content: int, sequence: int, **changes: Any) -> ContentFile:
    values = {
        "status": 1, "snapshot_id": 1, "file_sequence_number": sequence, "spec_id": PLAIN, "format": "parquet",
        "path": f"s3://lake/t/data/{content}-{sequence}.parquet", "partition": {}, "record_count": 10, "file_size": 100,
    }  # fmt: skip
    if content == 2:
        values["equality_ids"] = (1,)
    return ContentFile(content=content, sequence_number=sequence, **{**values, **changes})


def data(sequence: int = 5, **changes: Any) -> ContentFile:
    return file(0, sequence, **{"path": PATH, **changes})


def index(*entries: ContentFile, **changes: Any) -> DeleteIndex:
    given = {
        "key_field": lambda field_id: (FIELDS[field_id], field_id != 4),
        "canonical": canonical,
        "locate": lambda path: path,
        "prune": True,
    }
    return DeleteIndex(entries, SPECS, **{**given, **changes})


def applies(delete: ContentFile, to: ContentFile, **changes: Any) -> bool:
    return bool(index(delete, **changes).deletes_of(to))


VECTOR = {"format": "puffin", "referenced_data_file": PATH, "content_offset": 4, "content_size": 40}


def vector(sequence: int = 6, **changes: Any) -> ContentFile:
    return file(1, sequence, **{**VECTOR, **changes})


@pytest.mark.parametrize(
    ("content", "changes", "earlier", "same", "later"),
    [
        (1, {}, False, True, True),  # positions: equal counts
        (1, VECTOR, False, True, True),
        (2, {}, False, False, True),  # equality: strictly later
    ],
    ids=["position", "vector", "equality"],
)
def test_sequence_numbers(content, changes, earlier, same, later):
    assert [applies(file(content, number, **changes), data(5)) for number in (4, 5, 6)] == [
        earlier,
        same,
        later,
    ]


PARTITION_CASES = [
    # delete's spec and partition, data file's, whether a positional and whether an equality delete applies
    (PLAIN, {}, PLAIN, {}, True, True),
    (DIVIDED, {1000: 7}, DIVIDED, {1000: 7}, True, True),
    (DIVIDED, {1000: 7}, DIVIDED, {1000: 8}, False, False),
    (DIVIDED, {1000: None}, DIVIDED, {1000: None}, True, True),
    (DIVIDED, {1000: None}, DIVIDED, {1000: 0}, False, False),
    (DIVIDED, {1000: math.nan}, DIVIDED, {1000: -math.nan}, True, True),
    (DIVIDED, {1000: -0.0}, DIVIDED, {1000: 0.0}, False, False),
    (DIVIDED, {1000: True}, DIVIDED, {1000: 1}, False, False),
    (DIVIDED, {1000: b"x"}, DIVIDED, {1000: b"x"}, True, True),
    (DIVIDED, {1000: 7}, TWICE, {1000: 7, 1001: None}, False, False),  # another spec
    (TWICE, {1000: 7, 1001: 8}, TWICE, {1001: 8, 1000: 7}, True, True),
    (PLAIN, {}, DIVIDED, {1000: 7}, False, True),  # equality deletes without partition are global
    (VOID, {1000: None, 1001: None}, DIVIDED, {1000: 7}, False, True),  # as are those of all-void specs
    (VOID, {1000: None, 1001: None}, PLAIN, {}, False, True),
    (DIVIDED, {1000: 7}, PLAIN, {}, False, False),
]


@pytest.mark.parametrize(
    ("spec", "partition", "data_spec", "data_partition", "position", "equality"), PARTITION_CASES
)
def test_partitions(spec, partition, data_spec, data_partition, position, equality):
    to = data(5, spec_id=data_spec, partition=data_partition)
    place = {"spec_id": spec, "partition": partition}
    assert applies(file(1, 6, **place), to) is position
    for naming in (file(1, 6, referenced_data_file=PATH, **place), file(1, 6, **paths(PATH, PATH), **place)):
        naming_deletes_apply_or_are_refused(naming, to, position)
    naming_deletes_apply_or_are_refused(vector(**place), to, position)
    assert applies(file(2, 6, **place), to) is equality


def naming_deletes_apply_or_are_refused(delete: ContentFile, to: ContentFile, same: bool) -> None:
    """A delete that names a data file of another partition is corrupt, as Iceberg 1.12 finds it, unless it is older."""
    if same:
        assert applies(delete, to)
        return
    with pytest.raises(CorruptFileError, match=r"CORRUPT_MANIFEST.*another partition.*a\.parquet"):
        applies(delete, to)
    assert not applies(replace(delete, sequence_number=4), to)
    assert not applies(delete, replace(to, path=PATH + "x"))


def paths(lower: str, upper: str) -> dict[str, Any]:
    return {"lower_bounds": {FILE_PATH_ID: lower.encode()}, "upper_bounds": {FILE_PATH_ID: upper.encode()}}


@pytest.mark.parametrize(
    ("named", "path", "expected"),
    [
        ({}, PATH, True),
        ({"referenced_data_file": PATH}, PATH, True),
        ({"referenced_data_file": PATH + "x"}, PATH, False),
        ({"referenced_data_file": PATH.replace("s3:", "s3a:")}, PATH, True),
        (paths(PATH, PATH), PATH, True),
        (paths(PATH + "x", PATH + "x"), PATH, False),
        (paths("s3a://lake/t/data/a.parquet", "s3a://lake/t/data/a.parquet"), PATH, True),
        (paths("s3://lake/t/data/a", "s3://lake/t/data/b"), PATH, True),
        (paths("s3://lake/t/data/b", "s3://lake/t/data/c"), PATH, False),
        (paths("s3://lake/t/dat", "s3://lake/t/dau"), PATH, True),  # cut after 16 characters
        (paths("s3a://lake/t/data/b", "s3a://lake/t/data/c"), PATH, True),  # another form: no comparison
        (paths("s3://lake/t/data/b", "s3a://lake/t/data/c"), PATH, True),
        (paths("file:///t/b", "file:///t/c"), "file:/t/a", True),
        (paths("file:/t/b", "file:/t/c"), "file:/t/a", False),
        (paths("file:///t/a", "file:///t/a"), "/t/a", True),
        (paths("/t/b", "/t/c"), "/t/a", False),
        ({"lower_bounds": {FILE_PATH_ID: b"\xff"}, "upper_bounds": {FILE_PATH_ID: b"\xff"}}, PATH, True),
        ({"lower_bounds": {FILE_PATH_ID: b"z"}}, PATH, True),
    ],
)
def test_which_paths_a_positional_delete_file_names(named, path, expected):
    assert applies(file(1, 6, **named), data(5, path=path)) is expected


def test_with_moved_paths_scheme_and_host_do_not_count():
    delete = file(1, 6, referenced_data_file="hdfs://name:8020/lake/t/a.parquet")
    to = data(5, path="/lake/t/a.parquet")
    assert applies(delete, to, canonical=canonical_moved)
    assert not applies(delete, to)


def test_a_vector_supersedes_positional_files_and_not_equality_deletes():
    found = index(vector(), file(1, 6), file(1, 7, referenced_data_file=PATH), file(2, 6)).deletes_of(data(5))
    assert [delete.content for delete in found] == ["vector", "equality"]
    (made, _) = found
    assert (made.content_offset, made.content_size, made.referenced_data_file) == (4, 40, PATH)
    other = index(vector(), file(1, 6)).deletes_of(data(5, path=PATH + "x"))
    assert [delete.content for delete in other] == ["position"]
    early = index(vector(4), file(1, 6)).deletes_of(data(5))
    assert [delete.content for delete in early] == ["position"]


def test_two_vectors_for_one_file_are_an_error():
    deletes = index(vector(6), vector(7, path="s3://lake/t/other.puffin"))
    assert deletes.deletes_of(data(5, path=PATH + "x")) == ()
    with pytest.raises(CorruptFileError, match=r"CORRUPT_MANIFEST.*two deletion vectors.*other.puffin"):
        deletes.deletes_of(data(5))


@pytest.mark.parametrize("lacks", ["referenced_data_file", "content_offset", "content_size"])
def test_a_vector_must_say_what_and_where(lacks):
    with pytest.raises(CorruptFileError, match="CORRUPT_MANIFEST"):
        index(vector(**{lacks: None}))


def test_version_1_data_with_later_deletes():
    """Sequence number 0: every delete is later."""
    assert applies(file(1, 1), data(0))
    assert applies(file(2, 1), data(0))
    assert not applies(file(2, 0), data(0))


def long(value: int) -> bytes:
    return struct.pack("<q", value)


def double(value: float) -> bytes:
    return struct.pack("<d", value)


def column(
    field_id: int, low: Any = None, high: Any = None, nulls: int | None = 0, nans: int | None = None
) -> dict[str, Any]:
    found: dict[str, Any] = {"value_counts": {field_id: 10}}
    if low is not None:
        found["lower_bounds"] = {field_id: low}
    if high is not None:
        found["upper_bounds"] = {field_id: high}
    if nulls is not None:
        found["null_counts"] = {field_id: nulls}
    if nans is not None:
        found["nan_counts"] = {field_id: nans}
    return found


OVERLAP, APART = (long(0), long(9)), (long(10), long(20))
KEY_CASES = [
    # field, metrics of the delete file, metrics of the data file, whether the delete file is kept
    (1, column(1, *APART), column(1, *OVERLAP), False),
    (1, column(1, *APART), column(1, long(20), long(30)), True),
    (1, column(1, *APART), {}, True),
    (1, {}, column(1, *OVERLAP), True),
    (1, column(1, *APART, nulls=1), column(1, *OVERLAP, nulls=1), True),  # NULL equals NULL
    (1, column(1, *APART, nulls=1), column(1, *OVERLAP, nulls=0), False),
    (1, column(1, *APART, nulls=0), column(1, *OVERLAP, nulls=1), False),
    (1, column(1, *APART, nulls=None), column(1, *OVERLAP, nulls=1), True),
    (1, column(1, *APART, nulls=None), column(1, *OVERLAP, nulls=None), True),
    (1, column(1, *APART, nulls=None), column(1, *OVERLAP, nulls=0), False),
    (1, column(1, nulls=10), column(1, *OVERLAP, nulls=0), False),  # only NULL keys
    (1, column(1, nulls=10), column(1, *OVERLAP, nulls=1), True),
    (1, column(1, *OVERLAP, nulls=0), column(1, nulls=10), False),  # only NULL values
    (1, column(1, struct.pack("<i", 10), struct.pack("<i", 20)), column(1, *OVERLAP), False),  # int, promoted since
    (1, column(1, struct.pack("<i", 5), struct.pack("<i", 20)), column(1, *OVERLAP), True),
    (1, column(1, b"x", b"y"), column(1, *OVERLAP), True),  # no bounds of a long
    (1, column(1, *APART) | {"value_counts": {1: 3}}, column(1, *OVERLAP) | {"value_counts": {1: 3}}, True),
    (2, column(2, b"m", b"z"), column(2, b"a", b"l"), False),
    (2, column(2, b"m", b"z"), column(2, b"a", b"m"), True),
    (2, column(2, b"\xf0\x9f\x98\x80", b"\xf0\x9f\x98\x80"), column(2, b"a", "\uffff".encode()), False),  # by bytes
    (3, column(3, double(1), double(2), nans=0), column(3, double(5), double(9), nans=0), False),
    (3, column(3, double(1), double(2), nans=1), column(3, double(5), double(9), nans=1), True),  # NaN equals NaN
    (3, column(3, double(1), double(2), nans=None), column(3, double(5), double(9), nans=None), True),
    (3, column(3, double(1), double(2), nans=None), column(3, double(5), double(9), nans=0), False),
    (3, column(3, double(0.0), double(0.0), nans=0), column(3, double(-0.0), double(-0.0), nans=0), True),
    (3, column(3, struct.pack("<f", 1), struct.pack("<f", 2), nans=0), column(3, double(5), double(9), nans=0), False),
    (4, column(4, struct.pack("<i", 1), struct.pack("<i", 2)), column(4, struct.pack("<i", 5), struct.pack("<i", 9)), True),
]  # fmt: skip


@pytest.mark.parametrize(("field_id", "delete", "rows", "kept"), KEY_CASES)
def test_equality_deletes_are_pruned_only_where_no_key_can_match(field_id, delete, rows, kept):
    """The last case: inside a struct formats count NULLs differently, so the counts prove nothing."""
    entry = file(2, 6, equality_ids=(field_id,), **delete)
    assert applies(entry, data(5, **rows)) is kept
    assert applies(entry, data(5, **rows), prune=False)


def test_one_key_column_that_misses_is_enough():
    delete = file(2, 6, equality_ids=(1, 2), **column(1, *APART))
    assert not applies(delete, data(5, **column(1, *OVERLAP)))


def test_a_key_must_be_a_primitive_column():
    with pytest.raises(UnsupportedFeatureError, match="not of a primitive type"):
        index(file(2, 6, equality_ids=(5,))).deletes_of(data(5))


def test_delete_files_with_key_metadata_are_named_where_they_apply():
    deletes = index(file(1, 6, key_metadata=b"key", referenced_data_file=PATH))
    assert deletes.deletes_of(data(5, path=PATH + "x")) == ()
    assert not deletes.with_key_metadata
    (delete,) = deletes.deletes_of(data(5))
    assert [*deletes.with_key_metadata] == [delete.path]


def test_counts_and_shared_values():
    deletes = index(file(1, 6), file(2, 6), file(2, 3), vector(6))
    assert (deletes.considered, deletes.skipped) == (4, 4)
    one, two = (deletes.deletes_of(data(5, path=f"s3://lake/t/{name}")) for name in "ab")
    assert deletes.skipped == 2
    assert all(mine is other for mine, other in zip(one, two, strict=True))
