"""Equality deletes: keys of every type, NULL, NaN and -0.0, evolution of the keys, sequence and scope."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest
from key_values import OF_TYPE
from settings import DELETES, each_of

from check import check, ids
from tables import Table
from twostage.predicates.predicate import And, Compare, IsNull, Not

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = each_of(*DELETES)


def same(left: Any, right: Any) -> bool:
    """Tell whether two keys are one: NULL = NULL, NaN = NaN, -0.0 is not 0.0."""
    if isinstance(left, float) and isinstance(right, float):
        if math.isnan(left) or math.isnan(right):
            return math.isnan(left) and math.isnan(right)
        return left == right and math.copysign(1, left) == math.copysign(1, right)
    return bool(left == right)


@pytest.mark.parametrize("kind", OF_TYPE)
def test_one_key_column_of_every_type(tmp_path: Path, kind: str) -> None:
    values = [*OF_TYPE[kind], None]
    for index, gone in enumerate(values):
        table = Table(tmp_path / str(index), {"id": "long", "k": kind})
        table.append(ids(len(values), k=values))
        table.delete_equal(["k"], [{"k": gone}])
        left = [i for i, value in enumerate(values) if not same(value, gone)]
        assert len(left) == len(values) - 1
        check(table, left)


@pytest.mark.parametrize("kind", OF_TYPE)
def test_two_key_columns_of_every_type(tmp_path: Path, kind: str) -> None:
    values = [*OF_TYPE[kind], None]
    table = Table(tmp_path, {"id": "long", "k": kind, "n": "int"})
    table.append(ids(2 * len(values), k=[*values, *values], n=lambda i: i // len(values)))
    table.delete_equal(["k", "n"], [{"k": value, "n": 1} for value in values])
    check(table, range(len(values)))


@pytest.mark.parametrize("select", [["k"], ["n"], [], ["n", "k"]])
def test_keys_that_the_query_does_not_select(tmp_path: Path, select: list[str]) -> None:
    table = Table(tmp_path, {"id": "long", "k": "string", "n": "int"})
    table.append(ids(6, k=lambda i: "ab"[i % 2], n=lambda i: i % 3))
    table.delete_equal(["k", "n"], [{"k": "a", "n": 0}, {"k": "b", "n": 2}])
    check(table, [1, 2, 3, 4], select=select)


def test_null_equals_null_in_one_of_many_columns(tmp_path: Path) -> None:
    table = Table(tmp_path, {"id": "long", "k": "int", "n": "string"})
    table.append(ids(4, k=[None, None, 1, 1], n=[None, "x", None, "x"]))
    table.delete_equal(["k", "n"], [{"k": None, "n": "x"}, {"k": 1, "n": None}])
    check(table, [0, 3])


@pytest.mark.parametrize("select", [["s"], []])
def test_a_struct_leaf_is_a_key(tmp_path: Path, select: list[str]) -> None:
    table = Table(tmp_path, {"id": "long", "s": {"a": "int", "m": {"z": "string"}}})
    rows = [
        {"a": 1, "m": {"z": "x"}},
        {"a": 1, "m": None},
        None,
        {"a": 2, "m": {"z": None}},
        {"a": 2, "m": {"z": "y"}},
    ]
    table.append(ids(5, s=rows))
    table.delete_equal(["s.m.z"], [{"s": {"m": {"z": "x"}}}])
    check(table, [1, 2, 3, 4], select=select)
    table.delete_equal(["s.m.z", "s.a"], [{"s": {"a": 2, "m": {"z": "y"}}}])
    check(table, [1, 2, 3], select=select)
    table.delete_equal(["s.m.z"], [{"s": {"m": {"z": None}}}])  # NULL structs have NULL leaves
    check(table, [], select=select)


def test_a_key_renamed_since(tmp_path: Path) -> None:
    table = Table(tmp_path, {"id": "long", "k": "int"})
    table.append(ids(3, k=[1, 2, 3]))
    table.delete_equal(["k"], [{"k": 2}])
    table.rename_column("k", "key")
    table.add_column("k", "int")
    table.append([{"id": 10, "key": 2, "k": 2}])
    check(table, [0, 2, 10])
    table.delete_equal(["key"], [{"key": 3}])
    check(table, [0, 10])


@pytest.mark.parametrize(
    ("narrow", "wide", "values"),
    [
        ("int", "long", [1, -(2**31), 2**31 - 1, None]),
        ("float", "double", [0.1, -0.0, math.nan, None]),
        ("decimal(9,2)", "decimal(20,2)", [Decimal("1.25"), Decimal("-1.25"), Decimal("0.00"), None]),
    ],
)
def test_a_key_promoted_before_and_after(tmp_path: Path, narrow: str, wide: str, values: list[Any]) -> None:
    table = Table(tmp_path, {"id": "long", "k": narrow})
    table.append(ids(4, k=values))
    table.delete_equal(["k"], [{"k": values[0]}])  # written narrow
    table.widen_column("k", wide)
    check(table, [1, 2, 3])
    import struct

    wanted = values[1:3]
    if narrow == "float":  # the key that equals the float as stored
        wanted = [struct.unpack("<f", struct.pack("<f", value))[0] for value in wanted]
    table.delete_equal(["k"], [{"k": value} for value in wanted])  # written wide
    check(table, [3])


def test_a_double_key_between_two_floats_deletes_nothing(tmp_path: Path) -> None:
    table = Table(tmp_path, {"id": "long", "k": "float"})
    table.append(ids(2, k=[0.1, 0.2]))
    table.widen_column("k", "double")
    table.append([{"id": 10, "k": 0.1}])
    table.delete_equal(["k"], [{"k": 0.1}])
    check(table, [0, 1])


@pytest.mark.parametrize("again", [False, True])
def test_a_key_dropped_since(tmp_path: Path, again: bool) -> None:
    table = Table(tmp_path, {"id": "long", "k": "int", "n": "int"})
    table.append(ids(4, k=[1, 2, None, 4], n=[1, 1, 1, 2]))
    table.delete_equal(["k"], [{"k": 2}, {"k": None}])
    table.delete_equal(["k", "n"], [{"k": 4, "n": 2}])
    table.drop_column("k")
    if again:
        table.add_column("k", "string")
    check(table, [0])


def test_a_key_added_after_the_data(tmp_path: Path) -> None:
    """In older files it is NULL, or since version 3 its initial default."""
    for default in (None, 7) if Table.default_version == 3 else (None,):
        table = Table(tmp_path / str(default), {"id": "long"})
        table.append(ids(2))
        table.add_column("k", "int", default=default)
        table.append([{"id": 10, "k": 7}, {"id": 11, "k": None}, {"id": 12, "k": 8}])
        table.delete_equal(["k"], [{"k": default}])
        check(table, [11, 12] if default == 7 else [10, 12])
        check(table, [12] if default == 7 else [10, 12], lambda c: Not(IsNull(c("k"))))


def test_a_strictly_higher_sequence_number_is_needed(tmp_path: Path) -> None:
    table = Table(tmp_path, {"id": "long", "k": "int"})
    table.append(ids(2, k=[1, 2]))
    with table.transaction():  # Flink's upsert: the new rows come with the delete of the old ones
        table.append([{"id": 10, "k": 1}])
        table.delete_equal(["k"], [{"k": 1}])
    table.append([{"id": 20, "k": 1}])
    check(table, [1, 10, 20])


def test_delete_then_insert_again(tmp_path: Path) -> None:
    table = Table(tmp_path, {"id": "long", "k": "int"})
    for round_ in range(4):
        table.append([{"id": round_, "k": 1}])
        if round_ < 3:
            table.delete_equal(["k"], [{"k": 1}])
    check(table, [3])


def test_a_global_delete_reaches_every_partition_and_spec(tmp_path: Path) -> None:
    table = Table(tmp_path, {"id": "long", "p": "int", "k": "int"})
    table.append(ids(2, p=[0, 1], k=[1, 2]))
    table.partition_by(["p"])
    table.append_all(ids(4, id=lambda i: i + 10, p=lambda i: i % 2, k=[1, 2, 2, 1]))
    table.delete_equal(["k"], [{"k": 1}])
    check(table, [1, 11, 12])


@pytest.mark.parametrize("value", [0, None])
def test_a_partition_s_delete_stays_in_its_partition(tmp_path: Path, value: int | None) -> None:
    table = Table(tmp_path, {"id": "long", "p": "int", "k": "int"}, partition=["p"])
    first, _second = table.append_all(ids(4, p=[value, 1, value, 1], k=[1, 1, 2, 2]))
    table.delete_equal(["k"], [{"k": 1}], like=first)
    check(table, [1, 2, 3])


def test_a_delete_of_an_older_spec_does_not_reach_the_newer(tmp_path: Path) -> None:
    table = Table(tmp_path, {"id": "long", "p": "int", "k": "int"}, partition=["p"])
    first = table.append(ids(2, p=[0, 0], k=[1, 2]))
    table.partition_by(["bucket[1](p)"])
    table.append(ids(2, id=[10, 11], p=[0, 0], k=[1, 2]))
    table.delete_equal(["k"], [{"k": 1}], like=first)
    check(table, [1, 10, 11])


def test_a_spec_whose_fields_are_all_void_is_global(tmp_path: Path) -> None:
    table = Table(tmp_path, {"id": "long", "p": "int", "k": "int"}, partition=["void(p)"])
    table.append(ids(2, p=[0, 1], k=[1, 2]))
    table.partition_by(["p"])
    table.append_all(ids(2, id=[10, 11], p=[0, 1], k=[1, 2]))
    table.delete_equal(["k"], [{"k": 1}])
    check(table, [1, 11])


def test_several_schemas_of_keys_in_one_scan(tmp_path: Path) -> None:
    table = Table(tmp_path, {"id": "long", "a": "int", "b": "string"})
    table.append(ids(6, a=[1, 2, 3, 4, 5, None], b=["a", "b", "c", "d", None, "f"]))
    table.delete_equal(["a"], [{"a": 1}])
    table.delete_equal(["b"], [{"b": "b"}, {"b": None}], "avro")
    table.delete_equal(["a", "b"], [{"a": 3, "b": "c"}, {"a": 4, "b": "x"}], "orc")
    table.delete_equal(["b", "a"], [{"a": None, "b": "f"}])
    check(table, [3])


def test_delete_bounds_prune_only_without_nulls(tmp_path: Path) -> None:
    """The key's bounds exclude the file, but the delete also holds NULL, and so does the file."""
    table = Table(tmp_path, {"id": "long", "k": "int"})
    table.append(ids(3, k=[1, 2, None]))
    table.delete_equal(["k"], [{"k": 100}, {"k": None}])
    check(table, [0, 1])


@pytest.mark.parametrize("kind", ["float", "double"])
def test_delete_bounds_prune_only_without_nan(tmp_path: Path, kind: str) -> None:
    """Bounds carry no NaN: those of the keys and of the rows lie apart, yet both hold one."""
    table = Table(tmp_path, {"id": "long", "k": kind})
    table.append(ids(3, k=[1.0, 2.0, math.nan]))
    table.delete_equal(["k"], [{"k": 100.0}, {"k": math.nan}])
    check(table, [0, 1])


@pytest.mark.parametrize("kind", ["timestamp", "timestamptz"])
def test_an_orc_key_of_any_year(tmp_path: Path, kind: str) -> None:
    """Arrow reads ORC's moments as nanoseconds, 1677 to 2262; we read them all."""
    table = Table(tmp_path, {"id": "long", "k": kind})
    table.append(ids(2, k=[0, 253402300799999999]))
    table.delete_equal(["k"], [{"k": 253402300799999999}], "orc")
    check(table, [0])


@pytest.mark.parametrize("metrics", ["full", "bounds", "counts", "none"])
def test_files_and_deletes_without_metrics(tmp_path: Path, metrics: str) -> None:
    table = Table(tmp_path, {"id": "long", "k": "double"})
    table.append(ids(5, k=[1.0, math.nan, None, -0.0, 0.0]), metrics=metrics)
    table.delete_equal(["k"], [{"k": math.nan}, {"k": None}, {"k": 0.0}], metrics=metrics)
    check(table, [0, 3])


def test_a_delete_outside_the_file_s_bounds_is_not_opened(tmp_path: Path) -> None:
    table = Table(tmp_path, {"id": "long", "k": "int"})
    table.append(ids(3, k=[1, 2, 3]))
    delete = table.delete_equal(["k"], [{"k": 100}])
    (table.folder / delete.path.removeprefix(table.location + "/")).unlink()
    check(table, [0, 1, 2])


def test_a_predicate_never_brings_deleted_rows_back(tmp_path: Path) -> None:
    """The delete takes 0.0 away; a filter on -0.0, which equals 0.0 in SQL, must not undo that."""
    table = Table(tmp_path, {"id": "long", "k": "double"})
    table.append(ids(3, k=[0.0, -0.0, 1.0]))
    table.delete_equal(["k"], [{"k": 0.0}])
    check(table, [1], lambda c: Compare("=", c("k"), -0.0))
    check(table, [1], lambda c: Compare("=", c("k"), 0.0))
    check(table, [2], lambda c: Compare(">", c("k"), 0.0))


def test_more_columns_than_keys_in_the_delete_file(tmp_path: Path) -> None:
    table = Table(tmp_path, {"id": "long", "k": "int", "n": "int"})
    table.append(ids(3, k=[1, 2, 3], n=[1, 2, 3]))
    table.delete_equal(["k"], [{"k": 1, "n": 99}], extra=["n"])
    check(table, [1, 2])


def test_an_identity_partition_column_is_a_key(tmp_path: Path) -> None:
    table = Table(tmp_path, {"id": "long", "p": "int"})
    table.partition_by(["p"])
    table.append_all(ids(4, p=[0, 1, 0, None]), absent=("p",))
    table.delete_equal(["p"], [{"p": 0}, {"p": None}])
    check(table, [1])
    check(table, [1], lambda c: And((Compare("=", c("p"), 1), Not(IsNull(c("p"))))))


def test_many_keys_over_row_groups(tmp_path: Path) -> None:
    table = Table(tmp_path, {"id": "long", "k": "long", "s": "string"})
    table.append(ids(2000, k=lambda i: i * 7 % 2000, s=str), row_group_size=100)
    table.delete_equal(["k"], [{"k": k} for k in range(0, 2000, 3)])
    table.delete_equal(["s"], [{"s": str(i)} for i in range(0, 2000, 5)])
    check(table, [i for i in range(2000) if (i * 7 % 2000) % 3 and i % 5])


def test_key_that_was_an_identity_partition_of_imported_files_and_is_dropped(tmp_path: Path) -> None:
    """Such files lack the column; the partition value stands for it, dropped or not."""
    table = Table(tmp_path / "t", {"id": "long", "p": "string"}, partition=["p"])
    first = table.append([{"id": 1, "p": "x"}], absent=("p",))
    table.append([{"id": 2, "p": "y"}], absent=("p",))
    table.delete_equal(["p"], [{"p": "x"}], like=first)
    table.partition_by([])
    table.drop_column("p")
    table.append([{"id": 3}])
    check(table, [2, 3])


@pytest.mark.parametrize("delete_format", ["parquet", "orc", "avro"])
@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
@pytest.mark.parametrize("stages", ["true", "false"])
def test_dropped_keys_in_every_format(
    tmp_path: Path, file_format: str, delete_format: str, stages: str
) -> None:
    """Keys of the top level and of a struct, dropped alone and with the struct, and a name used again."""
    table = Table(tmp_path, {"id": "long", "k": "string", "s": {"x": "int", "y": "int"}})
    rows = ids(6, k=lambda i: "abcdef"[i], s=lambda i: {"x": i, "y": i} if i != 5 else None)
    table.append(rows, format=file_format, mixed=True)
    table.delete_equal(["k"], [{"k": "b"}], delete_format)
    table.delete_equal(["s.x"], [{"s": {"x": 3}}], delete_format)
    table.drop_column("k")
    table.drop_column("s.x")
    check(table, [0, 2, 4, 5], two_stage=stages)
    table.drop_column("s")
    table.add_column("k", "string")
    table.append([{"id": 9, "k": "b"}], format=file_format, mixed=True)
    check(table, [0, 2, 4, 5, 9], two_stage=stages)


@pytest.mark.parametrize("count", [64, 65, 130])
def test_keys_of_very_many_columns(tmp_path: Path, count: int) -> None:
    """A NULL in the 65th column was taken for 0."""
    names = [f"c{number}" for number in range(count)]
    rows = [dict.fromkeys(names, 0) for _ in range(5)]
    rows[1][names[-1]] = None
    rows[2][names[-1]] = 5
    rows[3][names[0]] = rows[3][names[63]] = None
    rows[4][names[0]] = None
    table = Table(tmp_path, {"id": "long", **dict.fromkeys(names, "long")})
    table.append([{"id": number, **row} for number, row in enumerate(rows)])
    table.delete_equal(names, [rows[0]])
    check(table, {1, 2, 3, 4})
    table.delete_equal(names, [rows[3]])
    check(table, {1, 2, 4})
    table.delete_equal(names, [rows[1], rows[4]])
    check(table, {2})
