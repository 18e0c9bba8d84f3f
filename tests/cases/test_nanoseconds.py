"""The option ``timestamp-ns = truncate``: nanoseconds shown as the microseconds they begin in, keys compared whole."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any

import pytest

import oracle
from check import ids
from core_scan import Opened, open_table, scan
from tables import Table
from twostage.columns import arrow_type, check_spark_types, project_names, project_spark, spark_schema
from twostage.errors import OptionError, UnsupportedFeatureError
from twostage.options import parse_options
from twostage.predicates.bind import bind_predicate
from twostage.predicates.predicate import is_exact
from twostage.spark.source import chosen_fields, option_filter, visible_schema

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from twostage.predicates.predicate import Predicate
    from twostage.schema import Field

DAY = 86_400_000_000_000
NANOS = [
    0, 1, 999, 1000, 1001, 1999, 2000, -1, -999, -1000, -1001, -1999, -2000, -2001, None,
    DAY, DAY - 1, -DAY, -DAY - 1, 1_700_000_000_123_456_789, 1_700_000_000_123_456_001, -(2**63) + 808, 2**63 - 1,
]  # fmt: skip
MICROS = [None if value is None else value // 1000 for value in NANOS]
KINDS = ["timestamp_ns", "timestamptz_ns"]
OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq, "<>": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip


def opened(table: Table, **options: str) -> Opened:
    table.write()
    return open_table(table.folder, timestamp_ns="truncate", **options)


def wanted(table: Opened, *names: str) -> tuple[Field, ...]:
    return project_names(visible_schema(table.table, table.options), names or None)


def rows(table: Opened, *names: str, where: Predicate | None = None) -> list[Any]:
    """Return the first two columns' plain values."""
    found = scan(table, wanted(table, *names), **({} if where is None else {"predicate": where})).rows
    return sorted(((row[0][1], row[1] and row[1][1]) for row in found), key=repr)


def test_the_option_says_refuse_or_truncate() -> None:
    assert parse_options({"path": "/t", "timestamp-ns": "TRUNCATE"}).truncate_nanoseconds
    assert not parse_options({"path": "/t", "timestamp-ns": "refuse"}).truncate_nanoseconds
    assert not parse_options({"path": "/t"}).truncate_nanoseconds
    with pytest.raises(OptionError, match="BAD_OPTION") as caught:
        parse_options({"path": "/t", "timestamp-ns": "round"})
    assert "truncate" in (caught.value.hint or "")


@pytest.mark.parametrize("kind", KINDS)
def test_without_the_option_they_are_refused_with_it_as_the_hint(tmp_path: Path, kind: str) -> None:
    table = Table(tmp_path / "t", {"id": "long", "moment": kind}, version=3)
    table.append(ids(1, moment=[1]))
    plain = open_table(table.write())
    with pytest.raises(UnsupportedFeatureError, match="'moment'.*timestamp-ns = truncate"):
        project_names(visible_schema(plain.table, plain.options), None)
    assert [row[0][1] for row in scan(plain, wanted(plain, "id")).rows] == [0]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
def test_values_are_cut_down_also_before_1970(tmp_path: Path, file_format: str, kind: str) -> None:
    deep = {"list": [kind], "map": ("map", "string", kind), "inner": {"moment": kind}}
    table = Table(tmp_path / "t", {"id": "long", "moment": kind, "deep": [{"of": deep}]}, version=3)
    table.append(
        ids(
            len(NANOS),
            moment=NANOS,
            deep=lambda i: [{"of": {"list": NANOS, "map": {"k": NANOS[i]}, "inner": {"moment": NANOS[i]}}}],
        ),
        format=file_format,
        mixed=True,
    )
    found = opened(table)
    assert arrow_type(wanted(found)[1].type).unit == "us"
    assert rows(found, "id", "moment") == sorted(enumerate(MICROS), key=repr)
    for row in scan(found).rows:  # the types that keys and tests see stay whole
        assert row[1] is None or row[1][1] == NANOS[row[0][1]]
    for number, nested in [(row[0][1], row[1]) for row in scan(found, wanted(found, "id", "deep")).rows]:
        exact = oracle.exact
        ((_, ((_, (moments, pairs, inner)),)),) = nested[1]
        assert moments == ("list", tuple(None if value is None else exact(value) for value in MICROS))
        own = None if MICROS[number] is None else exact(MICROS[number])
        assert pairs == ("map", ((exact("k"), own),))
        assert inner == ("struct", (own,))


@pytest.mark.parametrize("kind", KINDS)
def test_spark_sees_microseconds_in_the_schema(kind: str, tmp_path: Path) -> None:
    table = Table(tmp_path / "t", {"id": "long", "moment": kind}, version=3)
    found = opened(table)
    fields = chosen_fields(
        found.table, parse_options({"path": "/t", "columns": "moment", "timestamp-ns": "truncate"})
    )
    assert spark_schema(fields)["fields"][0]["type"] == ("timestamp" if "tz" in kind else "timestamp_ntz")
    back = project_spark(visible_schema(found.table, found.options), spark_schema(fields))
    check_spark_types(back)
    assert back == fields


LAYOUTS: list[dict[str, Any]] = [
    {"row_group_size": 2},
    {"row_group_size": 3, "dictionary": False, "metrics": "none"},
    {"row_group_size": 2, "bloom": ("moment",), "metrics": "counts"},
    {"format": "orc", "mixed": True, "row_group_size": 4},
    {"format": "avro", "mixed": True, "row_group_size": 4},
]
PARTITIONS = [(), ("moment",), ("day(moment)",), ("hour(moment)",), ("bucket[3](moment)",), ("year(moment)",)]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("partition", PARTITIONS, ids=str)
def test_predicates_mean_what_spark_means_of_the_values_it_sees(
    tmp_path: Path, kind: str, partition: tuple[str, ...]
) -> None:
    table = Table(
        tmp_path / "t", {"id": "long", "moment": kind, "other": kind[:-3]}, partition=partition, version=3
    )
    data = ids(len(NANOS), moment=NANOS, other=lambda i: MICROS[-1 - i])
    layout = LAYOUTS[len(partition) * PARTITIONS.index(partition) % len(LAYOUTS)]
    for options in (layout, LAYOUTS[0]):
        table.append_all(data, **options)
    found = opened(table)
    schema = visible_schema(found.table, found.options)
    column, other = {"column": ["moment"]}, {"column": ["other"]}
    name = "timestamp" if "tz" in kind else "timestamp_ntz"
    pruned = 0
    for literal in [0, -1, -2, 1, 2, DAY // 1000, -DAY // 1000 - 1, 1_700_000_000_123_456, 5]:
        constant = {"literal": literal, "type": name}
        for op, compare in OPERATORS.items():
            bound = bind_predicate({"op": op, "left": column, "right": constant}, schema)
            kept = [i for i, value in enumerate(MICROS) if value is not None and compare(value, literal)]
            pruned += verify(found, bound, kept)
            kept = [i for i, v in enumerate(MICROS) if v is not None and not compare(v, literal)]
            bound = bind_predicate(
                {"op": "not", "child": {"op": op, "left": column, "right": constant}}, schema
            )
            verify(found, bound, kept)
        listed = {"op": "in", "term": column, "values": [constant, {"literal": 7, "type": name}]}
        kept = [i for i, value in enumerate(MICROS) if value in (literal, 7)]
        verify(found, bind_predicate(listed, schema), kept)
    for op, compare in OPERATORS.items():
        bound = bind_predicate({"op": op, "left": column, "right": other}, schema)
        pairs = list(zip(MICROS, reversed(MICROS), strict=True))
        kept = [i for i, (a, b) in enumerate(pairs) if a is not None and b is not None and compare(a, b)]
        verify(found, bound, kept)
    verify(found, bind_predicate({"op": "is_null", "term": column}, schema), [MICROS.index(None)])
    assert pruned > 0


def verify(found: Opened, bound: Predicate, kept: list[int]) -> int:
    """Compare the rows of both copies; return how many rows were pruned."""
    assert is_exact(bound)
    result = scan(found, wanted(found, "id", "moment"), bound)
    got = sorted((row[0][1], row[1] and row[1][1]) for row in result.rows)
    assert got == sorted((i, MICROS[i]) for i in kept for _ in range(2)), str(bound)
    return result.count("rows.pruned") + result.count("files.pruned")


def test_the_option_filter_reads_literals_in_microseconds(tmp_path: Path) -> None:
    table = Table(tmp_path / "t", {"id": "long", "moment": "timestamp_ns"}, version=3)
    table.append(ids(4, moment=[-1, 0, 999, 1000]))
    text = "moment = TIMESTAMP_NTZ '1970-01-01 00:00:00'"
    found = opened(table, filter=text)
    assert rows(found, "id", "moment", where=option_filter(found.table, found.options)) == [(1, 0), (2, 0)]
    with pytest.raises(OptionError, match="UNSUPPORTED_FILTER"):
        option_filter(found.table, parse_options({"path": "/t", "filter": text}))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
@pytest.mark.parametrize("stages", ["true", "false"])
def test_equality_deletes_compare_whole_nanoseconds(
    tmp_path: Path, file_format: str, kind: str, stages: str
) -> None:
    table = Table(tmp_path / "t", {"id": "long", "moment": kind}, version=3)
    table.append(ids(len(NANOS), moment=NANOS), format=file_format, mixed=True)
    gone = [1, 1001, -1, -2001, None, DAY - 1, 1_700_000_000_123_456_789]
    table.delete_equal(["moment"], [{"moment": value} for value in gone], file_format)
    found = opened(table, two_stage=stages)
    left = [(i, MICROS[i]) for i, value in enumerate(NANOS) if value not in gone]
    assert rows(found, "id", "moment") == sorted(left, key=repr)
    schema = visible_schema(found.table, found.options)
    zero = {"op": "=", "left": {"column": ["moment"]}, "right": {"literal": 0, "type": "timestamp_ntz"}}
    if "tz" not in kind:
        assert rows(found, "id", "moment", where=bind_predicate(zero, schema)) == [(0, 0), (2, 0)]


def test_defaults_partition_constants_and_the_partition_column_are_cut_too(tmp_path: Path) -> None:
    table = Table(tmp_path / "t", {"id": "long", "moment": "timestamp_ns"}, partition=["moment"], version=3)
    table.append(ids(1, moment=[-1]), absent=("moment",))
    table.add_column("late", "date")
    found = opened(table)
    assert rows(found, "id", "moment") == [(0, -1)]
    assert scan(found, wanted(found, "id", "_partition")).rows[0][1] == ("struct", (oracle.exact(-1),))
    plain = open_table(table.folder)
    with pytest.raises(UnsupportedFeatureError, match="_partition.moment"):
        wanted(plain, "_partition")
