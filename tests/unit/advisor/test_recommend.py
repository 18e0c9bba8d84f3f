"""What is recommended, and nothing where nothing pays."""

from __future__ import annotations

import datetime
import itertools
from dataclasses import replace

import pytest

from twostage.advisor import choose_columns
from twostage.advisor.column_metadata import ColumnMetadata, TableColumns
from twostage.advisor.logged_predicate import LoggedPredicate
from twostage.advisor.logged_scan import LoggedScan
from twostage.advisor.recommend import recommend
from twostage.advisor.tally import Tally
from twostage.advisor.thresholds import Thresholds


def leaf(column, op="=", rows=10_000, left=10):
    return LoggedPredicate(
        op=op, columns=(column,), count=1, text=f"{column} {op} 5", rows_in=rows, rows_out=left
    )


def scan(predicate, *, milliseconds=None, reader="twostage", table="lake.db.t", **counters):
    rows = {"rows.considered": 10_000, "bytes.filter": 80_000} | {
        name.replace("__", "."): count for name, count in counters.items()
    }
    return LoggedScan(
        time=datetime.datetime.now(datetime.UTC), scan="s", table=table, reader=reader, columns=("x",),
        predicate=predicate, counters=rows, query_milliseconds=milliseconds,
    )  # fmt: skip


def tally_of(scans, table="lake.db.t", **thresholds):
    tally = Tally(table, Thresholds(**thresholds))
    for one in scans:
        tally.add(one)
    return tally


def metadata(**columns):
    return TableColumns(
        table="lake.db.t", snapshot=1, rows=10_000, files=4, bytes=10**6,
        columns={name: ColumnMetadata(rows=10_000, **facts) for name, facts in columns.items()},
    )  # fmt: skip


def test_an_index_with_its_reason_votes_size_and_saving():
    tally = tally_of([scan(leaf("a"))] * 9 + [scan(leaf("b"))])
    known = metadata(a={"distinct_per_file": 50}, b={"distinct_per_file": 50})
    first = recommend(tally, known)[0]
    assert (first.action, first.columns, first.kinds, first.votes) == ("index", ("a",), ("values",), 9)
    assert (first.saved_entries, first.saved_share, first.saved_bytes, first.size) == (
        90_000,
        0.9,
        720_000,
        20_000,
    )
    assert (
        first.reason == "filters on a would not have scanned 90,000 of 100,000 entries, with the indexes of b"
    )
    assert first.queries == ("a = 5",)
    assert first.command == "python -m twostage index create lake.db.t --columns a --kind values"


def test_what_building_costs():
    """The column is read, and two bytes of each of 10,000 rows are written; the bytes of a column are not always known."""
    tally = tally_of([scan(leaf("a"))] * 9)
    first = recommend(tally, metadata(a={"distinct_per_file": 50, "bytes": 10**6}))[0]
    assert (first.size, first.build_cost) == (20_000, 10**6 + 20_000)
    assert recommend(tally, metadata(a={"distinct_per_file": 50}))[0].build_cost is None


def test_an_index_that_costs_more_than_it_saves_is_not_recommended():
    """b: 3.5 bytes a row, and three for each of 9,000 keys of four files: more than the 80,000 that it saves."""
    tally = tally_of([scan(leaf("a"))] * 9 + [scan(leaf("b"))])
    found = recommend(tally, metadata(a={"distinct_per_file": 50}, b={"distinct_per_file": 9_000}))
    assert [(one.action, one.columns) for one in found] == [("index", ("a",)), ("sort", ("a",))]
    assert found[0].reason == "filters on a would not have scanned 90,000 of 100,000 entries"
    small = recommend(tally_of([scan(leaf("a"), bytes__filter=100)]), metadata(a={"distinct_per_file": 50}))
    assert [one.action for one in small] == ["nothing"]


@pytest.mark.parametrize(
    ("op", "distinct", "kinds"),
    [
        ("=", 1000, ("values",)),
        ("=", 1001, ("postings", "files")),
        (">", 5000, ("sorted",)),
        ("prefix", 5000, ("values",)),
        ("contains", 5, ("values",)),
    ],
)
def test_the_kind_follows_what_is_asked(op, distinct, kinds):
    tally = tally_of([scan(leaf("a", op))] * 100)
    first = recommend(tally, metadata(a={"distinct_per_file": distinct, "bloom_share": 1.0}))[0]
    assert first.kinds == kinds


@pytest.mark.parametrize("op", ["=", ">"])
@pytest.mark.parametrize("is_ordered", [False, True])
def test_values_that_are_in_every_page_get_bitmaps_unless_first_rows_are_wanted(op, is_ordered):
    scans = [scan(leaf("a", op), bytes__filter=10**9)] * 100
    tally = tally_of(scans)
    tally.ordered["a"] += is_ordered
    column = ColumnMetadata(type="long", rows=4_000_000, distinct_per_file=8_000, bloom_share=1.0)
    known = replace(metadata(), rows=4_000_000, columns={"a": column})
    first = recommend(tally, known)[0]
    assert first.kinds == (
        ({"=": ("postings", "files"), ">": ("sorted",)}[op]) if is_ordered else ("values",)
    )


def test_lists_that_are_searched_get_an_index_of_their_elements():
    """Of 3.5 bytes an element; neither an order of rows nor a Bloom filter finds them."""
    tally = tally_of([scan(leaf("tags", "has element"))] * 9)
    facts = {"type": "list<string>", "distinct_per_file": 500, "entries_per_row": 2.0}
    (index,) = recommend(tally, metadata(tags=facts))
    assert (index.columns, index.kinds, index.size) == (("tags",), ("elements",), 70_000)
    assert index.command.endswith("--columns tags --kind elements")
    (unknown,) = recommend(tally)
    assert (unknown.action, unknown.kinds) == ("index", ())


def test_without_metadata_neither_kind_nor_size_is_told():
    (index, _) = recommend(tally_of([scan(leaf("a"))]))
    assert (index.kinds, index.size, index.command) == (
        (),
        None,
        "python -m twostage index create lake.db.t --columns a",
    )


def test_a_clustered_column_needs_no_index():
    found = recommend(tally_of([scan(leaf("a"))] * 9), metadata(a={"distinct_per_file": 50, "overlap": 0.02}))
    assert [one.action for one in found] == ["nothing"]


@pytest.mark.parametrize(("size", "actions"), [(32 << 10, {"index"}), ((32 << 10) - 1, {"nothing"})])
def test_a_column_that_is_small_in_each_data_file_needs_no_index(size, actions):
    known = metadata(a={"distinct_per_file": 50, "bytes": 4 * size})  # of four files
    assert {one.action for one in recommend(tally_of([scan(leaf("a"))] * 9), known)} >= actions


def test_bloom_filters_for_columns_of_many_values():
    found = recommend(tally_of([scan(leaf("a"))] * 9), metadata(a={"distinct_per_file": 5000}))
    assert [one.action for one in found] == ["index", "sort", "bloom filter"]
    assert "'write.parquet.bloom-filter-enabled.column.a'='true'" in found[2].command


def test_a_table_is_not_told_to_sort_as_it_does():
    known = replace(metadata(a={"distinct_per_file": 5000}), sort_order=("a", "b"))
    found = recommend(tally_of([scan(leaf("a"))] * 9), known)
    assert [one.action for one in found] == ["index", "bloom filter"]


def test_seconds_are_said_where_the_model_fits():
    slow = [
        scan(leaf("a", rows=rows), milliseconds=rows, rows__considered=rows)
        for rows in range(1000, 60_000, 1000)
    ]
    (index, _) = recommend(tally_of(slow))
    assert index.saved_seconds == pytest.approx(sum(range(1000, 60_000, 1000)) / 1000, rel=0.01)
    (index, _) = recommend(tally_of([scan(leaf("a"), milliseconds=5)] * 50))
    assert index.saved_seconds is None


def test_deletes_are_compiled_where_they_take_the_time():
    counters = {"time__deletes": 7 * 10**9, "time__tasks": 10 * 10**9}
    found = recommend(
        tally_of([scan(leaf("a", left=9_999), **counters, rows__deleted__equality=5)], selectivity=2)
    )
    assert [(one.action, one.saved_seconds) for one in found] == [("compile deletes", 7.0)]
    assert (found[0].votes, found[0].queries, found[0].size) == (1, ("a = 5",), 10)
    found = recommend(tally_of([scan(leaf("a", left=9_999), **counters)], selectivity=2))
    assert [one.action for one in found] == ["nothing"]


def test_compiled_deletes_have_their_slowest_queries_and_a_size():
    """Of five scans four removed rows, at most 900: two bytes each. The three slowest are shown, each once."""
    times = {"time__tasks": 10, "row_groups__considered": 1}
    scans = [
        scan(replace(leaf("a"), text=text), time__deletes=spent, rows__deleted__equality=rows, **times)
        for text, spent, rows in (
            ("a = 1", 9, 5),
            ("a = 1", 8, 900),
            ("a = 2", 7, 5),
            ("", 6, 5),
            ("a = 4", 30, 0),
        )
    ]
    (found,) = [
        one for one in recommend(tally_of(scans, selectivity=10**9)) if one.action == "compile deletes"
    ]
    assert (found.votes, found.size, found.build_cost) == (4, 1800, None)
    known = replace(metadata(a={}), compile_bytes=5_000)
    (found,) = [
        one for one in recommend(tally_of(scans, selectivity=10**9), known) if one.action == found.action
    ]
    assert found.build_cost == 5_000 + 1_800
    assert found.queries == ("a = 1", "a = 2", "(no filter)")


def test_an_index_that_no_query_names_is_dropped_and_one_that_exists_is_not_made_again():
    tally = tally_of([scan(leaf("a"))], indexed={"lake.db.t": frozenset({"a", "old"})})
    found = recommend(tally)
    assert [(one.action, one.columns) for one in found] == [("drop index", ("old",))]
    assert found[0].command == "python -m twostage index drop lake.db.t --columns old"


@pytest.mark.parametrize(
    ("scans", "why"),
    [
        ([], "no scan of the table"),
        ([scan(None)], "has a filter that counts"),
        ([scan(leaf("a", rows=0, left=0))], "metadata alone"),
        ([scan(leaf("a", op="length"))], "would reduce the entries"),
    ],
)
def test_nothing_is_said_with_the_reason(scans, why):
    (found,) = recommend(tally_of(scans))
    assert found.action == "nothing"
    assert why in found.reason


def test_names_of_a_log_are_quoted_in_commands():
    table = "lake.db.x; rm -rf ~"
    found = recommend(tally_of([scan(leaf("a`b'c"), table=table)] * 9, table=table), None)
    assert (
        found[0].command == "python -m twostage index create 'lake.db.x; rm -rf ~' --columns '`a``b'\"'\"'c`'"
    )
    assert found[1].command == "ALTER TABLE lake.db.`x; rm -rf ~` WRITE ORDERED BY `a``b'c`"


UNUSED = "none of 1 filters names {}, and no aggregate or ORDER BY … LIMIT used it"


def existing():
    """Metadata of a table whose columns a and old have an index."""
    columns = {
        name: ColumnMetadata(
            rows=10_000, bytes=8_000_000, pages=10, distinct_per_file=50, distinct=50, indexed=("values",)
        )
        for name in ("a", "old")
    }
    return TableColumns(table="lake.db.t", snapshot=1, rows=10_000, files=1, bytes=10**7, columns=columns)


def test_an_index_that_saves_less_than_it_takes_is_dropped():
    """Of 10,000 rows it takes 20,000 bytes; one scan of nearly all rows saves none of the column's, many of few rows do."""
    known = existing()
    measured = {"bytes__filter": 8_000_000, "row_groups__considered": 1, "files__read": 1}
    indexed = {"lake.db.t": frozenset({"a", "old"})}

    def dropped(scans):
        tally = Tally(
            "lake.db.t", Thresholds(indexed=indexed), known.cardinalities, frozenset(known.columns), known
        )
        for one in scans:
            tally.add(one)
        return {one.columns: one.reason for one in recommend(tally, known) if one.action == "drop index"}

    assert dropped([scan(leaf("a"), **measured)]) == {("old",): UNUSED.format("old")}
    small = dropped([scan(leaf("a", "length"), **measured)])
    assert small == {
        ("a",): UNUSED.format("a"),
        ("old",): UNUSED.format("old"),
    }
    useless = dropped([scan(leaf("a", "<", left=10_000), **(measured | {"bytes__filter": 10}))])
    assert useless[("a",)].startswith("it takes about 19.5 KiB, and saves the log's filters on a ")


def dropped_beside(other, kinds=("values",)):
    """Columns whose index is to be dropped, where `other` is logged beside a filter on a."""
    known = existing()
    known = replace(known, columns={"old": replace(known.columns["old"], indexed=kinds)})
    tally = Tally("lake.db.t", Thresholds(indexed={"lake.db.t": frozenset({"old"})}), metadata=known)
    for one in (scan(leaf("a")), other):
        tally.add(one)
    return [one.columns for one in recommend(tally, known) if one.action == "drop index"]


def test_an_index_that_answers_aggregates_is_in_use():
    """Wholly, or for most of the files, of which the others are read; by its column, its group or its filter."""
    answered = replace(
        scan(None, reader="index", files__answered=4, files__answered__index=4), columns=("old",)
    )
    of_filter = replace(answered, columns=("x",), predicate=leaf("old", rows=None, left=None))
    by_manifests = replace(answered, counters={"files.answered": 4})
    mixed = replace(scan(None, files__answered__index=3), columns=("old",))
    assert dropped_beside(scan(None)) == dropped_beside(by_manifests) == [("old",)]
    assert dropped_beside(answered) == dropped_beside(of_filter) == dropped_beside(mixed) == []


def test_an_index_that_gives_first_rows_is_in_use():
    """Of the kind sorted alone: no other has an order."""
    first = replace(scan(None), top="old DESC NULLS LAST LIMIT 10")
    assert dropped_beside(first, ("sorted",)) == []
    assert dropped_beside(first, ("values",)) == [("old",)]
    assert dropped_beside(replace(first, top="older DESC NULLS LAST LIMIT 10"), ("sorted",)) == [("old",)]


def test_existing_slices_are_judged_as_other_kinds_are():
    """Its size was asked for by a table that had no such kind: a KeyError."""
    known = existing()
    known = replace(
        known, columns={"a": replace(known.columns["a"], indexed=("slices",)), "b": known.columns["old"]}
    )
    tally = Tally("lake.db.t", Thresholds(indexed={"lake.db.t": frozenset("a")}), metadata=known)
    tally.add(scan(leaf("a", "<", left=10_000), bytes__filter=10, row_groups__considered=1, files__read=1))
    (found,) = recommend(tally, known)
    assert (found.action, found.kinds, found.size) == ("drop index", ("slices",), 6 * 10_000 / 8)


ROWS = 1_000_000


def large_table(**sizes):
    """Columns of so many bytes in a data file of a million rows."""
    facts = {"rows": ROWS, "distinct": 100_000.0, "distinct_per_file": 100_000.0, "pages": 50}
    columns = {name: ColumnMetadata(bytes=size, **facts) for name, size in sizes.items()}
    return TableColumns(table="lake.db.t", snapshot=1, rows=ROWS, files=1, bytes=10**9, columns=columns)


def tally_with(known, scans):
    tally = Tally("lake.db.t", Thresholds(), metadata=known)
    for one in scans:
        tally.add(one)
    return tally


def large_scan(predicate, nbytes):
    counters = {"rows__considered": ROWS, "row_groups__considered": 1, "files__read": 1, "rows__fetched": 1}
    return scan(predicate, bytes__filter=nbytes, **counters)


def test_indexes_are_chosen_by_bytes_where_these_are_known():
    """Thirty filters on a narrow column scan more entries than ten on a wide one, and fewer bytes."""
    narrow, wide = 10**6, 10**8
    scans = [large_scan(leaf("narrow", rows=ROWS, left=1), narrow)] * 30
    scans += [large_scan(leaf("wide", rows=ROWS, left=1), wide)] * 10
    known = large_table(narrow=narrow, wide=wide)
    assert recommend(tally_with(known, scans), known, max_columns=1)[0].columns == ("wide",)
    assert recommend(tally_of(scans), max_columns=1)[0].columns == ("narrow",)


def test_a_search_that_was_cut_short_is_told(monkeypatch):
    """Twenty-five columns are searched by branch and bound, which is given ten sets to look at."""
    names = [f"c{number:02}" for number in range(25)]
    scans = [
        scan(
            LoggedPredicate(
                op="and",
                text="",
                rows_in=10_000,
                rows_out=1,
                children=(leaf(a, left=100), leaf(b, rows=100, left=1)),
            )
        )
        for a, b in itertools.combinations(names, 2)
    ]
    whole = recommend(tally_of(scans), max_columns=3, min_gain=0.0)
    assert {one.is_best for one in whole} == {True}
    monkeypatch.setattr(choose_columns, "MAX_NODES", 10)
    cut = recommend(tally_of(scans), max_columns=3, min_gain=0.0)
    assert {one.is_best for one in cut if one.action == "index"} == {False}
    assert "the search was cut short: another set of columns may save more" in cut[0].facts


def test_of_two_indexes_that_do_not_pay_the_worse_one_is_given_up_first():
    """Each serves the filters that name both: together neither pays for itself, one alone does."""
    both = LoggedPredicate(
        op="and", text="a = 5 AND b = 5", rows_in=ROWS, rows_out=1,
        children=(leaf("a", rows=ROWS, left=3), leaf("b", rows=3, left=0)),
    )  # fmt: skip
    known = large_table(a=10**7, b=10**7)
    found = recommend(tally_with(known, [large_scan(both, 10**7)] * 2), known)
    assert [one.columns for one in found if one.action == "index"] in ([("a",)], [("b",)])


def test_scans_of_another_reader_weigh_in_bytes_beside_measured_ones():
    """A thousand scans by Iceberg's connector on b are not silenced by five of ours on a."""
    known = large_table(a=10**7, b=2 * 10**7)
    ours = [large_scan(leaf("a", rows=ROWS, left=1), 10**7)] * 5
    foreign = {"rows__considered": ROWS, "bytes__filter": 0, "reader": "iceberg"}
    theirs = [scan(leaf("b", rows=None, left=None), **foreign)] * 1000
    tally = Tally("lake.db.t", Thresholds(), known.cardinalities, metadata=known)
    for one in ours + theirs:
        tally.add(one)
    assert tally.bytes_weighed == 5 * 10**7 + 1000 * 2 * 10**7
    found = [one for one in recommend(tally, known, max_columns=1) if one.action == "index"]
    assert [(one.columns, one.saved_bytes) for one in found] == [(("b",), 1000 * 2 * 10**7)]
    assert (
        recommend(tally_with(known, theirs), known)[0].action == "nothing"
    )  # how selective it is nothing says


def test_scans_by_spark_s_own_reader_vote_for_no_index():
    """However many there are: it reads none, and whether a scan is handed to it does not depend on indexes."""
    known = metadata(a={"distinct_per_file": 50, "bytes": 10**6}, b={"distinct_per_file": 50, "bytes": 10**6})
    counted = {"handed_over__rows": 10_000, "handed_over__bytes": 10**6}
    by_spark = [scan(leaf("a"), reader="spark", **counted)] * 500
    tally = Tally("lake.db.t", Thresholds(), known.cardinalities, metadata=known)
    for one in by_spark:
        tally.add(one)
    (nothing,) = recommend(tally, known)
    assert (nothing.action, nothing.votes) == ("nothing", 500)
    assert "Spark's own reader did its 500 scans with a filter, and reads no index" in nothing.reason
    for one in [scan(leaf("b"), row_groups__considered=1, files__read=1)] * 200:
        tally.add(one)
    found = recommend(tally, known)
    assert [one.columns for one in found if one.action == "index"] == [("b",)]
    assert "500" not in found[0].reason
    elsewhere = Tally("lake.db.t", Thresholds(), known.cardinalities, metadata=known)
    for one in by_spark:
        elsewhere.add(replace(one, reader="iceberg"))
    assert recommend(elsewhere, known)[0].columns == ("a",)
