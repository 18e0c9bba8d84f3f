"""Orders, partitions and Bloom filters for the next rewrite of a table."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from types import SimpleNamespace

import pytest

from twostage.advisor.column_metadata import ColumnMetadata, TableColumns
from twostage.advisor.layout import MIN_PARTITION_BYTES, layout_for
from twostage.advisor.recommendation import Recommendation

GB = 2**30


def layout(
    column="a",
    *,
    share=0.9,
    ops=("=",),
    nbytes=64 * GB,
    kinds=("postings", "files"),
    partitioning=(),
    **facts,
):
    index = Recommendation(
        table="db.t", action="index", reason="", columns=(column,), kinds=kinds, saved_share=share, votes=3
    )
    known = TableColumns(
        table="db.t",
        snapshot=1,
        rows=10**9,
        files=1_000,
        bytes=nbytes,
        partitioning=partitioning,
        columns={
            column: ColumnMetadata(**{"type": "string", "distinct": 10**6, "bloom_share": 1.0, **facts})
        },
    )
    tally = SimpleNamespace(operators={column: Counter(ops)})
    return layout_for([index], tally, known)


def partition(**arguments):
    """Return the transform and the command that are recommended; None for none."""
    found = [one for one in layout(**arguments) if one.action == "partition"]
    return (
        (found[0].transform, found[0].command.removeprefix("ALTER TABLE db.t ADD PARTITION FIELD "))
        if found
        else None
    )


def test_scattered_keys_get_buckets_as_many_as_are_large_enough():
    assert partition() == ("bucket(512, a)", "bucket(512, a)")
    assert partition(nbytes=5 * MIN_PARTITION_BYTES) == ("bucket(4, a)", "bucket(4, a)")
    assert partition(nbytes=3 * MIN_PARTITION_BYTES) is None
    assert partition(nbytes=10**6 * GB) == ("bucket(1024, a)", "bucket(1024, a)")
    assert partition(column="x y") == ("bucket(512, x y)", "bucket(512, `x y`)")


def test_few_values_are_partitions_themselves_and_need_no_order():
    assert partition(distinct=200) == ("a", "a")
    assert [one.action for one in layout(distinct=200)] == ["partition"]
    assert [one.action for one in layout()] == ["partition", "sort"]
    assert partition(distinct=2) is None


@pytest.mark.parametrize(
    ("days", "transform"),
    [
        (365, "day(a)"),
        (3_650, "month(a)"),
        (5_000, "month(a)"),
        (40_000, "year(a)"),
        (1, None),
        (10**6, None),
    ],
)
def test_times_get_the_finest_unit_that_is_large_enough(days, transform):
    found = partition(ops=(">=", "range"), type="timestamp", span_days=float(days))
    assert found == (None if transform is None else (transform, transform))


def test_ranges_of_other_types_get_an_order():
    assert partition(ops=("=", ">")) is None
    assert [one.action for one in layout(ops=(">",), kinds=("sorted",))] == ["sort"]


@pytest.mark.parametrize("field", ["a", "bucket[16](a)", "day(a)", "truncate[4](a)"])
def test_a_column_that_partitions_already_is_left(field):
    assert partition(partitioning=(field,)) is None
    assert partition(partitioning=("aa", "day(ba)")) is not None


def test_what_buckets_cannot_hold_or_does_not_save_half_has_none():
    assert partition(type="double") is None
    assert partition(type="list<string>") is None
    assert partition(share=0.4) is None
    assert [one.action for one in layout(share=0.4, bloom_share=0.0, distinct_per_file=900.0)] == [
        "bloom filter"
    ]
    assert layout(ops=("has element",)) == []


def test_one_partition_field_at_most():
    known = TableColumns(
        table="db.t", snapshot=1, rows=10**9, files=1_000, bytes=64 * GB,
        columns={name: ColumnMetadata(type="string", distinct=10**6) for name in ("a", "b")},
    )  # fmt: skip
    indexes = [
        Recommendation(table="db.t", action="index", reason="", columns=(name,), saved_share=0.6)
        for name in ("a", "b")
    ]
    tally = SimpleNamespace(operators={name: Counter(["="]) for name in ("a", "b")})
    found = layout_for(indexes, tally, known)
    assert [(one.action, one.columns) for one in found] == [
        ("partition", ("a",)),
        ("sort", ("a",)),
        ("sort", ("b",)),
    ]
    assert [one.action for one in layout_for(indexes, tally, None)] == ["sort", "sort"]


def test_what_layouts_save_take_and_cost():
    """As much as the index, and the table is read and written once; of Bloom filters in 1,000 files of 64 MiB one each, which
    leave out the three quarters of the files that do not have a value."""
    index = Recommendation(
        table="db.t", action="index", reason="", columns=("a",), kinds=("postings", "files"), saved_share=0.8,
        saved_entries=400.0, saved_bytes=1000.0, saved_seconds=4.0, votes=3, queries=("a = 1",),
    )  # fmt: skip
    columns = {"a": ColumnMetadata(type="string", distinct=40_000, distinct_per_file=10_000)}
    known = TableColumns(
        table="db.t", snapshot=1, rows=10**9, files=1_000, bytes=1_000 * 64 * 2**20, columns=columns
    )
    tally = SimpleNamespace(operators={"a": Counter("=")})
    partition, sort, bloom = layout_for([index], tally, known)
    for one in (partition, sort):
        assert (one.queries, one.saved_bytes, one.saved_seconds) == (("a = 1",), 1000.0, 4.0)
        assert (one.size, one.build_cost) == (0.0, 2.0 * known.bytes)
    assert (bloom.saved_entries, bloom.saved_bytes, bloom.saved_seconds) == (300.0, 750.0, 3.0)
    assert (bloom.size, bloom.queries, bloom.votes) == (1_000 * 2**20, ("a = 1",), 3)
    assert bloom.build_cost == 1_000 * (2 * 64 + 1) * 2**20
    assert "building it reads and writes about 126.0 GiB" in bloom.facts
    (*_, half) = layout_for(
        [index], tally, replace(known, columns={"a": replace(columns["a"], bloom_share=0.5)})
    )
    assert half.build_cost == 500 * (2 * 64 + 1) * 2**20  # the others have theirs


@pytest.mark.parametrize(("of_a_file", "actions"), [(899_999, ["bloom filter"]), (900_001, []), (10**6, [])])
def test_bloom_filters_of_values_that_every_file_has_leave_out_nothing(of_a_file, actions):
    found = layout(share=0.1, distinct_per_file=of_a_file, bloom_share=0.0)
    assert [one.action for one in found] == actions


def test_a_table_that_writes_bloom_filters_is_not_told_to():
    """Files of before the property was set have none: only that it is set, or that all have them, counts."""
    facts = {"share": 0.1, "distinct_per_file": 900.0}
    assert [one.action for one in layout(**facts, bloom_share=0.5)] == ["bloom filter"]
    assert layout(**facts, bloom_share=0.0, writes_bloom=True) == []
    assert layout(**facts, bloom_share=1.0) == []
